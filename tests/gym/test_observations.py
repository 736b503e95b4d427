# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Rows as batched observations (puffervec/gym/observations.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from puffervec.gym.observations import ObservationReader, copied
from puffervec.python.emulation import ObservationPlan

SPACE = spaces.Dict(
    a=spaces.Box(0, 255, (2,), np.uint8), b=spaces.Tuple([spaces.Discrete(9), spaces.Box(-1, 1, (), np.float32)])
)


def filled() -> tuple[ObservationPlan, Any, list[Any]]:
    """Return a plan, rows of it, and what was written into them."""
    plan = ObservationPlan.of(SPACE)
    rows = np.zeros((3, *plan.row_shape), plan.row_dtype)
    SPACE.seed(0)
    written = [SPACE.sample() for _ in rows]
    for write, observation in zip(plan.writers(rows), written, strict=True):
        write(observation)
    return plan, rows, written


@pytest.mark.parametrize("copy", [True, False])
def test_each_leaf_is_an_array_over_the_envs(copy: bool) -> None:
    plan, rows, written = filled()
    reader = ObservationReader(plan, copy)
    read = reader.read(rows)
    assert np.array_equal(read["a"], [observation["a"] for observation in written])
    assert np.array_equal(read["b"][0], [observation["b"][0] for observation in written])
    assert np.array_equal(read["b"][1], [observation["b"][1] for observation in written])
    assert np.shares_memory(read["a"], rows) is not copy
    rows[:] = 0
    assert bool(read["a"].any()) is copy
    assert not reader.read(rows)["a"].any()


def test_one_observation_keeps_nothing_of_the_rows() -> None:
    plan, rows, written = filled()
    one = ObservationReader(plan, False).final(rows, 1)
    rows[:] = 0
    assert one in SPACE and np.array_equal(one["a"], written[1]["a"]) and one["b"][0] == written[1]["b"][0]


def test_other_rows_are_read_as_such() -> None:
    plan, rows, _ = filled()
    reader = ObservationReader(plan, False)
    assert reader.read(rows)["a"].any()
    assert not reader.read(np.zeros_like(rows))["a"].any()


def test_copies_are_deep() -> None:
    inner = np.zeros(2)
    batch = {"a": (inner, {"b": inner})}
    copy = copied(batch)
    copy["a"][0][:] = copy["a"][1]["b"][:] = 1
    assert not inner.any()
