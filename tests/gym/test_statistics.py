# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Returns and lengths of finished episodes (puffervec/gym/statistics.py); over envs: test_native.py and test_wrappers.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from puffervec.core.slab import RECORD_DTYPE
from puffervec.gym.statistics import RowStatistics, add_records

NEXT, SAME = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP
ALL = np.ones(3, bool)


def feed(statistics: RowStatistics, *steps: tuple[list[float], list[int], list[int]]) -> list[Any]:
    """Feed (rewards, ended, masks) and return what each step reports: None or (returns, lengths, mask)."""
    found: list[Any] = []
    for rewards, ended, masks in steps:
        batch: dict[str, Any] = {}
        statistics.add(batch, np.array(rewards, np.float32), np.array(ended, bool), np.array(masks, bool))
        report = batch.get("k")
        found.append(None if report is None else (report["r"].tolist(), report["l"].tolist(), batch["_k"].tolist()))
    return found


def test_next_step_does_not_count_the_reset_row() -> None:
    statistics = RowStatistics("k", 3, NEXT)
    statistics.begin(ALL, ALL)
    found = feed(
        statistics,
        ([1, 2, 3], [0, 0, 0], [1, 1, 1]),
        ([1, 2, 3], [1, 0, 0], [1, 1, 1]),
        ([9, 2, 3], [0, 1, 0], [1, 1, 1]),  # row 0 is the reset row
        ([5, 9, 3], [1, 0, 1], [1, 1, 1]),
    )
    yes, no = True, False
    assert found == [
        None,
        ([2, 0, 0], [2, 0, 0], [yes, no, no]),
        ([0, 6, 0], [0, 3, 0], [no, yes, no]),
        ([5, 0, 12], [1, 0, 4], [yes, no, yes]),
    ]


def test_same_step_counts_every_step() -> None:
    statistics = RowStatistics("k", 3, SAME)
    statistics.begin(ALL, ALL)
    found = feed(statistics, ([1, 1, 1], [1, 0, 0], [1, 1, 1]), ([4, 1, 1], [1, 0, 0], [1, 1, 1]))
    assert found == [([1, 0, 0], [1, 0, 0], [True, False, False]), ([4, 0, 0], [1, 0, 0], [True, False, False])]


def test_rows_without_an_agent_do_not_count() -> None:
    statistics = RowStatistics("k", 3, NEXT)
    statistics.begin(ALL, np.array([True, True, False]))
    found = feed(
        statistics,
        ([1, 1, 7], [0, 1, 0], [1, 1, 0]),
        ([1, 7, 7], [0, 0, 0], [1, 0, 0]),  # the agent of row 1 is gone
        ([1, 7, 7], [1, 0, 0], [1, 0, 0]),
    )
    assert found[0] == ([0, 1, 0], [0, 1, 0], [False, True, False])
    assert found[2] == ([3, 0, 0], [3, 0, 0], [True, False, False])


def test_a_reset_of_some_rows_begins_theirs_anew() -> None:
    statistics = RowStatistics("k", 3, NEXT)
    statistics.begin(ALL, ALL)
    feed(statistics, ([1, 1, 1], [0, 0, 0], [1, 1, 1]))
    statistics.begin(np.array([True, False, False]), ALL)
    assert feed(statistics, ([1, 1, 1], [1, 1, 0], [1, 1, 1])) == [([1, 2, 0], [1, 2, 0], [True, True, False])]


def test_records_stand_at_their_envs() -> None:
    batch: dict[str, Any] = {}
    add_records(batch, "k", np.zeros(0, RECORD_DTYPE), ("tagged",), 3)
    assert batch == {}
    episodes = np.zeros(2, RECORD_DTYPE)
    episodes["env"], episodes["return"], episodes["length"] = [2, 0], [1.5, -1.0], [7, 9]
    episodes["values"][:, 1] = [0.25, 0.5]
    add_records(batch, "k", episodes, ("a", "b"), 3)
    assert batch["_k"].tolist() == [True, False, True]
    assert {key: value.tolist() for key, value in batch["k"].items()} == {
        "r": [-1.0, 0.0, 1.5], "_r": [True, False, True], "l": [9, 0, 7], "_l": [True, False, True],
        "a": [0.0, 0.0, 0.0], "_a": [True, False, True], "b": [0.5, 0.0, 0.25], "_b": [True, False, True],
    }  # fmt: skip
