# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What Python reads of a C env's spec (puffervec/core/spec.py)."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from puffervec.core.spec import Field, GroupSpec, row_dtype
from tests.helpers import serial


def field(
    name: str, dtype: str, shape: tuple[int, ...], offset: int, low: float = -1.0, high: float = 1.0
) -> Field:
    return Field(name, np.dtype(dtype), shape, offset, "m", low, high, 2.0)


def group(
    fields: tuple[Field, ...], size: int, kind: str = "discrete", sizes: tuple[int, ...] = (5,)
) -> GroupSpec:
    return GroupSpec(
        "g", 2, fields, size, kind, sizes, (-1.0,) * len(sizes), (2.0,) * len(sizes), 0
    )


@pytest.mark.parametrize(
    ("fields", "size", "expected"),
    [
        ((field("a", "f4", (3,), 0), field("b", "f4", (), 12)), 16, "f4"),
        ((field("a", "u1", (3, 2), 0),), 6, "u1"),
        ((field("a", "f4", (3,), 0), field("b", "f4", (), 16)), 20, None),  # a gap
        ((field("a", "f4", (3,), 0),), 16, None),  # a tail
        ((field("a", "u1", (4,), 0), field("b", "f4", (3,), 4)), 16, None),  # mixed
    ],
)
def test_rows_of_one_dtype_without_gaps_are_flat(
    fields: tuple[Field, ...], size: int, expected: str | None
) -> None:
    assert group(fields, size).flat_dtype == (None if expected is None else np.dtype(expected))


def test_a_flat_space_joins_the_bounds_of_its_fields() -> None:
    space = group(
        (field("a", "f4", (2,), 0, -1, 3), field("b", "f4", (1, 2), 8, 0, 9)), 16
    ).observation_space
    assert isinstance(space, spaces.Box)
    assert (space.low.tolist(), space.high.tolist(), space.dtype) == (
        [-1, -1, 0, 0],
        [3, 3, 9, 9],
        np.float32,
    )


def test_a_mixed_space_is_a_dict_and_bounds_are_cut_to_the_dtype() -> None:
    space = group(
        (field("a", "u1", (2,), 0, -5, 1e9), field("b", "f4", (), 4)), 8
    ).observation_space
    assert isinstance(space, spaces.Dict)
    assert (space["a"].low.tolist(), space["a"].high.tolist(), space["a"].dtype) == (
        [0, 0],
        [255, 255],
        np.uint8,
    )
    assert space["b"].shape == ()


def test_action_spaces() -> None:
    row = (field("a", "f4", (1,), 0),)
    assert group(row, 4).action_space == spaces.Discrete(5)
    assert group(row, 4, "multi_discrete", (2, 4)).action_space == spaces.MultiDiscrete([2, 4])
    box = group(row, 4, "continuous", (0, 0)).action_space
    assert isinstance(box, spaces.Box)
    assert (box.low.tolist(), box.high.tolist(), box.dtype) == ([-1, -1], [2, 2], np.float32)
    assert group(row, 4, "continuous", (0, 0)).action_dtype == np.float32
    assert (group(row, 4).action_dtype, group(row, 4).action_row_dtype) == (np.int32, np.uint8)


def test_a_row_dtype_keeps_offsets_and_size() -> None:
    dtype = row_dtype((field("a", "u1", (3,), 1), field("b", "f8", (2, 2), 8)), 48)
    assert dtype.fields is not None
    assert (dtype.itemsize, dtype.fields["a"][1], dtype.fields["b"][1]) == (48, 1, 8)


def test_the_spaces_of_a_vec_env_hold_what_it_returns() -> None:
    with serial("probe", {"num_agents": 2}, num_envs=3) as vec:
        observations, _ = vec.reset(seed=0)
        assert vec.observation_space.contains(observations)
        assert vec.single_observation_space.contains(observations[0])
        assert vec.action_space == spaces.MultiDiscrete([5] * 6)
        vec.action_space.seed(0)
        vec.step(vec.action_space.sample())
    with serial("probe", {"mode": 1, "num_agents": 2}, num_envs=4, num_buffers=2) as vec:
        vec.async_reset(0)
        observations = vec.recv()[0]
        assert isinstance(vec.observation_space, spaces.Dict)
        assert vec.observation_space["scouts"].contains(observations["scouts"])
        assert vec.observation_space["towers"].contains(observations["towers"])
        vec.action_space.seed(0)
        vec.send(vec.action_space.sample())
        assert vec.single_action_space["towers"] == spaces.MultiDiscrete([2, 4])
