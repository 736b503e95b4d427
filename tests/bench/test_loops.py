# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/loops.py: the naive loop trains, on the same samples as the trainer."""

from __future__ import annotations

import pytest
import torch

from bench import loops
from puffervec.train import TrainConfig
from puffervec.train.learn.advantage import Discount, Steps, advantage
from tests.fixtures.training import torch_state  # noqa: F401 (autouse)

SMALL = {
    "vec": {"backend": "serial", "num_envs": 4},
    "train": {"horizon": 4, "update_epochs": 1, "minibatch_size": 8, "device": "cpu"},
    "policy": {"hidden": (8,)},
}


@pytest.mark.slow
def test_it_counts_the_valid_transitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes of the probe last 3 steps, then comes a reset: of 4 steps 3 are transitions, in each
    of 4 envs.
    """
    monkeypatch.setattr(loops, "usable_cores", lambda: 1)  # More would only wait for each other.
    config = TrainConfig.of("probe", **SMALL)
    assert loops.measure(config, 0.0)["agent_steps_per_s"] > 0
    loop = loops.Loop(config)
    try:
        before = [parameter.clone() for parameter in loop.policy.parameters()]
        for _ in range(2):
            loop.collect()
            assert loop.update() == 4 * 3
        after = loop.policy.parameters()
        assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    finally:
        loop.vec.close()


def test_its_advantages_are_those_of_the_trainer() -> None:
    draw = torch.Generator().manual_seed(0)
    values = [torch.randn(9, 5, generator=draw) for _ in range(2)]
    flags = [(torch.rand(9, 5, generator=draw) < share).byte() for share in (0.2, 0.2, 0.9)]
    steps, discount = Steps(*values, *flags), Discount(0.97, 0.9)
    for own, other in zip(
        loops.step_by_step(steps, discount), advantage(steps, discount), strict=True
    ):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-5)
