# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Taking apart and writing what Python envs return (puffervec/python/results.py); more of it in test_python_cells.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from puffervec.errors import ConfigError
from puffervec.python.emulation import ObservationPlan, SpaceMismatchError
from puffervec.python.results import REWARD_ERRORS, FlatRows, RewardWriter, five, opened, two


def flat_rows(shape: tuple[int, ...] = (3,), count: int = 3) -> tuple[FlatRows, np.ndarray]:
    rows = np.zeros((count, *shape), np.float32)
    return FlatRows(rows, ObservationPlan.of(spaces.Box(-9, 9, shape))), rows


def put(flat: FlatRows, row: int, observation: Any) -> None:
    """What the loop does."""
    try:
        flat.targets[row][:] = observation
    except flat.misfits:
        flat.other(row, observation)


def test_arrays_of_the_rows_own_kind_never_leave_the_fast_way() -> None:
    flat, rows = flat_rows()
    for row in range(3):
        put(flat, row, np.full(3, row, np.float32))
    assert rows[:, 0].tolist() == [0, 1, 2] and not flat.copies
    assert all(isinstance(target, memoryview) for target in flat.targets)


def test_rows_of_another_dtype_are_copied_at_once_and_others_left_alone() -> None:
    flat, rows = flat_rows()
    for turn in range(3):
        put(flat, 0, np.full(3, turn, np.float32))
        for row in (1, 2):
            put(flat, row, np.full(3, 10 * row + turn, np.float64))
        flat.finish()
        assert rows[:, 0].tolist() == [turn, 10 + turn, 20 + turn] and len(flat.copies) == 1
    targets = list(flat.targets)
    put(flat, 1, np.full(3, 5, np.float32))  # now and then, as some envs do at a reset
    flat.finish()
    assert rows[:, 0].tolist() == [2, 5, 22] and flat.targets == targets
    put(flat, 1, [7, 7, 7])  # a list: a way of its own from now on
    flat.finish()
    assert rows[:, 0].tolist() == [2, 7, 22]


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 2), (0,)])
def test_boxes_of_every_shape(shape: tuple[int, ...]) -> None:
    flat, rows = flat_rows(shape)
    for value in (1.0, 2.0):
        put(flat, 1, np.full(shape, value, np.float32))
        assert (rows[1] == value).all() and not rows[0].any()
    for wrong in (np.zeros((*shape, 1), np.float32), np.zeros((5, 5, 5), np.float32)):
        with pytest.raises(SpaceMismatchError, match="shape"):
            put(flat, 1, wrong)


def test_rewards() -> None:
    rows = np.zeros(3, np.float32)
    writer = RewardWriter(rows)
    writer.all([1, 2.5, np.float64(3)])
    assert rows.tolist() == [1, 2.5, 3]
    for wrong in (None, "x", np.array([1.0, 2.0]), 1e39, {}):
        with pytest.raises(REWARD_ERRORS):
            writer.all([0, wrong, 0])
        with pytest.raises(ConfigError, match="the reward is"):
            writer.one(1, wrong)
    writer.one(2, np.array([[7]]))
    assert rows[2] == 7


def test_results_of_the_old_interface() -> None:
    plan = ObservationPlan.of(spaces.Box(-9, 9, (2,)))
    pair = np.zeros(2, np.float32)
    assert opened((pair, {}), plan)[1] == {} and two([pair, None])[1] is None
    for old in (pair, [0.0, 0.0]):  # two numbers are no (observation, info)
        with pytest.raises(ConfigError, match=r"reset returned an observation alone.*return \(observation, info\)"):
            opened(old, plan)
    with pytest.raises(ConfigError, match="step returned 4 values"):
        five(lambda action: (pair, 0.0, False, {}))(0)
    assert five(lambda action: (action,) * 5)(1) == (1,) * 5
