# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/train/act/acting.py: memory by row number. tests/train/test_evaluate.py has PolicyActor
in whole episodes.
"""

from __future__ import annotations

import numpy as np
import torch

from puffervec.train.act.acting import RowActor
from tests.train.fakes import Counting, group

CPU = torch.device("cpu")


def test_memory_goes_with_the_number_of_a_row() -> None:
    actor = RowActor(Counting(), group(("x", (2,))), CPU)

    def act(*rows: int, idle: tuple[int, ...] = ()) -> list[int]:
        numbers = np.array(rows, np.int64)
        obs = np.zeros((len(rows), 2), np.float32)
        return actor.act(
            obs, numbers, np.isin(numbers, idle), None, True, torch.Generator()
        ).tolist()

    assert actor.remembers
    assert act(0, 1) == [0, 0]
    assert act(1) == [1]
    assert act(5, 1, 0) == [0, 2, 1]  # rows in any order; those never seen begin
    assert act(5, 1, idle=(5,)) == [0, 3]  # idle: action 0, and ...
    assert act(5, 1) == [0, 4]  # ... it begins anew
    actor.forget(np.array([1]))
    assert act(0, 1, 5) == [2, 0, 1]
    assert act() == []


def test_masks_and_draws() -> None:
    """A choice that is forbidden is not taken; draws follow the generator."""

    class Flat(torch.nn.Module):
        def initial_state(self, rows: int) -> tuple[torch.Tensor, ...]:
            return ()

        def forward(
            self, obs: torch.Tensor, state: object, reset: object, mask: torch.Tensor
        ) -> object:
            return (torch.where(mask, 0.0, -1e9),), torch.zeros(len(obs)), ()

    obs, rows, idle = np.zeros((100, 2), np.float32), np.arange(100), np.zeros(100, bool)
    masks = np.tile([False, True, True, False, False], (100, 1))
    found = [
        RowActor(Flat(), group(("x", (2,)), mask=5), CPU).act(
            obs, rows, idle, masks, False, torch.Generator().manual_seed(seed)
        )
        for seed in (1, 1, 2)
    ]
    assert set(found[0]) == {1, 2} and (found[0] == found[1]).all() and (found[0] != found[2]).any()


def test_kernels_have_one_thread_and_the_caller_keeps_its_own() -> None:
    class Watching(Counting):
        def forward(self, *args: object, **more: object) -> object:
            assert torch.get_num_threads() == 1
            return super().forward(*args, **more)

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        rows = np.arange(4)
        actor = RowActor(Watching(), group(("x", (2,))), CPU)
        assert (
            actor.act(
                np.zeros((4, 2), np.float32), rows, rows < 0, None, True, torch.Generator()
            ).tolist()
            == [0] * 4
        )
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
