# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The policies of the benchmarks: replay, wait."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from bench.policies import Replay, Wait
from bench.workloads import Workload, draw_actions
from puffervec.vec.vector_env import VectorEnv

PROBE = Workload("probe", "probe", {"num_agents": 2}, num_envs=4)


@pytest.fixture
def vec() -> Iterator[VectorEnv]:
    with PROBE.make("serial", num_buffers=2) as made:
        yield made


def test_replay_goes_round_the_batches_of_each_half(vec: VectorEnv) -> None:
    drawn = draw_actions(vec.spec, 4)
    replay, count = Replay(vec, drawn), len(drawn["agents"])
    first = [replay(0, ()) for _ in range(count + 1)]
    assert np.array_equal(first[0], drawn["agents"][0][:4]) and first[count] is first[0]
    assert np.array_equal(replay(1, ()), drawn["agents"][0][4:])


def test_a_wait_takes_its_time_but_no_cpu(vec: VectorEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a clock that only moves when asked to sleep, each sleep being 20 us too long as on a
    real machine.
    """
    now = [1_000_000]
    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0])
    monkeypatch.setattr(
        time, "sleep", lambda seconds: now.__setitem__(0, now[0] + round(seconds * 1e9) + 25_000)
    )
    wait = Wait(Replay(vec, draw_actions(vec.spec, 4)), 500e-6)
    for _ in range(200):
        assert wait(0, ()).shape == (4,)
    assert wait.mean_s == pytest.approx(500e-6, rel=0.01), (
        "the lead has learnt how late sleepers wake"
    )
    monkeypatch.undo()
    begin, worked = time.monotonic(), time.process_time()
    Wait(Replay(vec, draw_actions(vec.spec, 4)), 0.2)(0, ())
    assert time.monotonic() - begin >= 0.19 and time.process_time() - worked < 0.1
