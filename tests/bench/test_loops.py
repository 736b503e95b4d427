# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/loops.py: all rungs train, on the same samples. Times are measured here but not judged."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from bench import loops
from bench.loops import Loop, Ways, ladder
from puffervec.train import TrainConfig
from tests.fixtures.training import torch_state  # noqa: F401 (autouse)
from tests.helpers import thinned


@pytest.fixture(autouse=True)
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of torch would only wait for each other here."""
    monkeypatch.setattr(loops, "usable_cores", lambda: 1)


SMALL = {
    "vec": {"backend": "serial", "num_envs": 4},
    "train": {"horizon": 4, "update_epochs": 1, "minibatch_size": 8, "microbatch_size": 4,
              "device": "cpu"},
    "policy": {"hidden": (8,)},
}  # fmt: skip

RUNGS = ladder(torch.device("cpu")) | ladder(torch.device("cuda"))


def config(target: str = "probe", **env: int) -> TrainConfig:
    return TrainConfig.of(target, **SMALL, env=env)


@pytest.mark.parametrize(
    ("device", "missing"), [("cpu", {"pinned", "one_copy", "event", "graph"}), ("cuda:0", {"pool"})]
)
def test_each_rung_changes_one_thing_more(device: str, missing: set[str]) -> None:
    rungs = list(ladder(torch.device(device)).values())
    have = dataclasses.asdict(rungs[-1])
    assert (
        rungs[0] == Ways() and {name for name, switched in have.items() if not switched} == missing
    )
    assert len(loops.missing_labels(device)) == len(missing)
    for before, after in zip(rungs, rungs[1:], strict=False):
        was, now = dataclasses.asdict(before), dataclasses.asdict(after)
        assert sum(was[name] != now[name] for name in was) == 1


@pytest.mark.slow
@pytest.mark.parametrize("label", thinned(3, RUNGS))
def test_every_rung_counts_the_valid_transitions(label: str) -> None:
    """On a CPU the rungs that only CUDA has run as they stand.

    Episodes of the probe last 3 steps, then comes a reset: of 4 steps 3 are transitions, in each of
        4 envs.
    """
    ways = RUNGS[label]
    assert loops.measure(config(), ways, 0.0)["agent_steps_per_s"] > 0
    loop = Loop(config(), ways)
    try:
        before = [parameter.clone() for parameter in loop.parameters]
        loop.collect()
        assert loop.update() == 4 * 3
        assert any(not torch.equal(a, b) for a, b in zip(before, loop.parameters, strict=True))
        loop.collect()
        assert loop.update() == 4 * 3
    finally:
        loop.close()


def test_ways_that_only_differ_in_speed_learn_the_same() -> None:
    """Same draws (no Categorical in either): memory, reads, advantages and Adam may not change what
    comes out.
    """
    found = []
    for ways in (
        Ways(storage=True, own_distributions=True),
        Ways(
            storage=True,
            own_distributions=True,
            quiet=True,
            c_advantage=True,
            valid_only=False,
            fused=True,
            pool=True,
        ),
        Ways(storage=True, own_distributions=True, quiet=True, pinned=True),
        Ways(
            storage=True,
            own_distributions=True,
            quiet=True,
            pinned=True,
            one_copy=True,
            event=True,
            graph=True,
        ),
    ):
        loop = Loop(config(), ways)
        try:
            loop.collect()
            loop.update()
            loop.collect()
            loop.update()
            found.append([parameter.detach().clone() for parameter in loop.parameters])
        finally:
            loop.close()
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
