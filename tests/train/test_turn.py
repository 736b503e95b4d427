# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A half's turn (puffervec/train/collect/turn.py), on a CPU and on a device; test_device_turn.py
compares the two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import puffervec
from puffervec.train.collect.rollout import Rollout
from puffervec.train.collect.storage import Slot, Storage
from puffervec.train.collect.turn import pieces_of
from puffervec.train.device.device import ThreadPool


@pytest.mark.parametrize(
    ("rows", "sizes"), [(1, {1}), (256, {256}), (512, {256}), (1000, {250}), (11_264, {1878, 1874})]
)
def test_pieces_of_a_half(rows: int, sizes: set[int]) -> None:
    found = pieces_of(slice(rows, 2 * rows))
    assert {piece.stop - piece.start for piece in found} == sizes
    assert [row for piece in found for row in range(piece.start, piece.stop)] == list(
        range(rows, 2 * rows)
    )


class Always(torch.nn.Module):
    """Takes one action, whatever it sees."""

    def __init__(self, action: int) -> None:
        super().__init__()
        self.logits = 100.0 * torch.nn.functional.one_hot(torch.tensor(action), 5)

    def initial_state(self, rows: int) -> tuple[torch.Tensor, ...]:
        return ()

    def forward(self, obs: torch.Tensor, state: Any, reset: Any, mask: Any) -> Any:
        return (self.logits.expand(len(obs), 5).float(),), obs[:, 0].float(), ()


@pytest.mark.parametrize("device_turns", [False, True])
def test_two_policies_share_the_rows_of_one_group(device_turns: bool) -> None:
    """Agent 0 of each env has a policy of its own; each storage has its policy's rows, each row its
    policy's action.
    """
    env, cpu, horizon = (
        {"num_agents": 3, "episode_length": 5, "end_kind": 2, "leave": 1},
        torch.device("cpu"),
        8,
    )
    own = {"lead": (0,), "rest": (1, 2)}
    of_all = {"lead": [0, 3, 6, 9], "rest": [1, 2, 4, 5, 7, 8, 10, 11]}
    with (
        puffervec.make(
            "probe", env_kwargs=env, backend="serial", num_envs=4, num_buffers=2, seed=1
        ) as vec,
        puffervec.make("probe", env_kwargs=env, backend="serial", num_envs=4, seed=1) as plain,
    ):
        (agents,) = vec.spec.groups
        slots = {
            name: Slot(
                name,
                Always(action),
                agents,
                Storage(agents, horizon, 4 * len(own[name]), cpu, None),
                own[name],
            )
            for name, action in (("lead", 1), ("rest", 4))
        }
        rollout = Rollout(
            vec, slots, cpu, False, torch.Generator().manual_seed(0), ThreadPool(1), device_turns
        )
        rollout.begin(1)
        plain.async_reset(1)
        for first in (0, 1):
            assert rollout.collect()
            for step in range(first, horizon + 1):
                obs, rewards, *_, masks = plain.recv()
                for name, slot in slots.items():
                    expected = {"obs": obs, "rewards": rewards, "masks": masks}
                    held = slot.storage.tensors()
                    for key, wanted in expected.items():
                        np.testing.assert_array_equal(
                            held[key][step], wanted[of_all[name]], err_msg=f"{key} {step}"
                        )
                plain.send(np.tile(np.array([1, 4, 4], np.int32), 4))
            assert bool((slots["lead"].storage.actions == 1).all()) and bool(
                (slots["rest"].storage.actions == 4).all()
            )
