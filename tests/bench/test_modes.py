# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The ways of stepping that benchmarks compare. Times are measured here but not judged."""

from __future__ import annotations

import numpy as np
import pytest

from bench import modes
from bench.modes import Mode, PolicyChoice, baseline, measure, measure_half, plan
from bench.workloads import Workload, draw_actions
from puffervec.vec.vector_env import VectorEnv
from tests.helpers import thinned

PROBE = Workload("probe", "probe", {}, num_envs=4, episode_turns=4)


def test_double_buffering_is_compared_with_as_many_workers_on_one_half() -> None:
    found = modes.modes([1, 2])
    for mode in found:
        other = baseline(mode, found)
        if mode.num_buffers == 1:
            assert other is None
        else:
            wanted = (mode.workers or 0) // 2 if mode.split == "workers" else mode.workers
            assert other is not None and (other.name, other.workers) == ("multiprocess", wanted)
    assert baseline(found[3], found[3:4]) is None, "the baseline was not run"


def test_a_sample_is_planned_by_what_an_iteration_takes() -> None:
    assert plan(1.0, 0.01, PolicyChoice()) == 100
    assert plan(1.0, 0.01, PolicyChoice("wait", half_s=0.02)) == 20, "two halves' waits come on top"
    assert plan(1.0, 1e-9, PolicyChoice()) == 100_000, (
        "an iteration never counts as shorter than a round trip"
    )
    assert plan(1e-9, 1.0, PolicyChoice()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("mode", [mode for mode in modes.modes([1])], ids=lambda mode: mode.name)
@pytest.mark.parametrize(
    "policy", thinned(2, [PolicyChoice("wait", half_s=1e-4), PolicyChoice()]), ids=["wait", "none"]
)
def test_each_mode_is_measured(mode: Mode, policy: PolicyChoice, no_leaks: None) -> None:
    with PROBE.make("serial") as vec:
        drawn = draw_actions(vec.spec, 4)
    sample = measure(PROBE, drawn, mode, policy, iterations=20, warmup=2)
    assert sample.iteration_s > 0
    if policy.kind == "wait":
        assert sample.policy_s >= 1e-4 / 2 and sample.iteration_s >= sample.policy_s
    else:
        assert sample.policy_s == 0


@pytest.mark.slow
def test_one_half_is_timed_by_its_workers(monkeypatch: pytest.MonkeyPatch, no_leaks: None) -> None:
    """The mean over turns of the slowest worker's own time, on half of the envs."""
    with PROBE.make("serial") as vec:
        drawn = draw_actions(vec.spec, 4)
    assert measure_half(PROBE, drawn, 2, 20, 2) > 0
    envs = []

    def stamps(vec: VectorEnv, half: int) -> np.ndarray:
        envs.append(vec.num_envs)
        return np.array([[100, 1100], [100, 3100]])

    monkeypatch.setattr(VectorEnv, "timing", stamps)
    assert measure_half(PROBE, drawn, 2, 5, 1) == pytest.approx(3000e-9)
    assert envs == [2] * 5
