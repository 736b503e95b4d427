# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What Python reads of a C env's spec (puffervec/core/spec.py)."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from puffervec._ffi import ffi, lib
from puffervec.core.spec import DTYPE_CODE, DTYPES, Field, GroupSpec, read_spec, row_dtype
from tests.helpers import serial


def field(name: str, dtype: str, shape: tuple[int, ...], offset: int, low: float = -1.0, high: float = 1.0) -> Field:
    return Field(name, np.dtype(dtype), shape, offset, "m", low, high, 2.0)


def group(fields: tuple[Field, ...], size: int, kind: str = "discrete", sizes: tuple[int, ...] = (5,)) -> GroupSpec:
    return GroupSpec("g", 2, fields, size, kind, sizes, (-1.0,) * len(sizes), (2.0,) * len(sizes), 0)


def test_dtypes_have_the_widths_that_c_uses() -> None:
    assert [np.dtype(name).itemsize for name in DTYPES] == [4, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8]
    assert len(DTYPE_CODE) == lib.PV_DTYPES


def test_a_spec_is_read_field_by_field() -> None:
    c_spec = ffi.new("pv_spec*")
    c_spec.group_count = 1
    c_group = c_spec.groups[0]
    c_group.name, c_group.agents, c_group.observation_bytes, c_group.field_count = b"cars", 3, 32, 2
    c_group.fields[0] = {
        "name": b"speed",
        "unit": b"m/s",
        "dtype": lib.PV_F32,
        "offset": 4,
        "low": -0.5,
        "high": 1.5,
        "scale": 30.0,
    }
    c_group.fields[1] = {
        "name": b"grid",
        "dtype": lib.PV_U8,
        "ndim": 2,
        "shape": [2, 5],
        "offset": 8,
        "high": 255.0,
        "scale": 1.0,
    }
    c_group.action_kind, c_group.action_dims, c_group.action_mask_size = lib.PV_MULTI_DISCRETE, 2, 7
    c_group.action_sizes[0], c_group.action_sizes[1] = 3, 4
    c_spec.record_count, c_spec.counter_count, c_spec.save_bytes, c_spec.records_per_turn = 1, 1, 99, 5
    c_spec.record_names[0], c_spec.counter_names[0] = b"score", b"rows"
    c_spec.state_count, c_spec.state_bytes = 1, 16
    c_spec.state_fields[0] = {"name": b"x", "dtype": lib.PV_F64, "ndim": 1, "shape": [2], "low": 0.0, "high": 9.0, "scale": 1.0}
    spec = read_spec(c_spec)
    (cars,) = spec.groups
    assert (cars.name, cars.agents, cars.observation_bytes, cars.action_mask_size) == ("cars", 3, 32, 7)
    assert cars.fields[0] == Field("speed", np.dtype("f4"), (), 4, "m/s", -0.5, 1.5, 30.0)
    assert cars.fields[1] == Field("grid", np.dtype("u1"), (2, 5), 8, "", 0.0, 255.0, 1.0)
    assert (cars.fields[0].size, cars.fields[1].size) == (1, 10)
    assert (cars.action_kind, cars.action_sizes, cars.action_dims) == ("multi_discrete", (3, 4), 2)
    assert (spec.record_names, spec.counter_names, spec.save_bytes, spec.records_per_turn) == (("score",), ("rows",), 99, 5)
    assert (spec.state_fields[0].shape, spec.state_bytes, spec.agents) == ((2,), 16, 3)


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
def test_rows_of_one_dtype_without_gaps_are_flat(fields: tuple[Field, ...], size: int, expected: str | None) -> None:
    assert group(fields, size).flat_dtype == (None if expected is None else np.dtype(expected))


def test_a_flat_space_joins_the_bounds_of_its_fields() -> None:
    space = group((field("a", "f4", (2,), 0, -1, 3), field("b", "f4", (1, 2), 8, 0, 9)), 16).observation_space
    assert isinstance(space, spaces.Box)
    assert (space.low.tolist(), space.high.tolist(), space.dtype) == ([-1, -1, 0, 0], [3, 3, 9, 9], np.float32)


def test_a_mixed_space_is_a_dict_and_bounds_are_cut_to_the_dtype() -> None:
    space = group((field("a", "u1", (2,), 0, -5, 1e9), field("b", "f4", (), 4)), 8).observation_space
    assert isinstance(space, spaces.Dict)
    assert (space["a"].low.tolist(), space["a"].high.tolist(), space["a"].dtype) == ([0, 0], [255, 255], np.uint8)
    assert space["b"].shape == ()


def test_action_spaces() -> None:
    row = (field("a", "f4", (1,), 0),)
    assert group(row, 4).action_space == spaces.Discrete(5)
    assert group(row, 4, "multi_discrete", (2, 4)).action_space == spaces.MultiDiscrete([2, 4])
    box = group(row, 4, "continuous", (0, 0)).action_space
    assert isinstance(box, spaces.Box)
    assert (box.low.tolist(), box.high.tolist(), box.dtype) == ([-1, -1], [2, 2], np.float32)
    assert group(row, 4, "continuous", (0, 0)).action_dtype == np.float32
    assert group(row, 4).action_dtype == np.int32


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
