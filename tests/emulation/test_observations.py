# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Observation plans (puffervec/python/emulation/observations.py)."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from gymnasium import spaces

from puffervec.python.emulation import ObservationPlan, observations
from tests.mock_envs import OBSERVATIONS, same_bits, sample


def test_documented_examples() -> None:
    assert doctest.testmod(observations).failed == 0


def test_a_plain_box_stays_as_it_is() -> None:
    space = spaces.Box(0, 255, (5, 4, 3), np.uint8)
    plan = ObservationPlan(space)
    assert plan.is_flat and plan.emulated_space is space
    assert (plan.row_shape, plan.row_dtype, plan.row_bytes) == ((5, 4, 3), np.uint8, 60)


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [
        ("choice", (1,), np.int64),
        ("binary", (6,), np.int8),
        ("board", (4,), np.int64),
        ("floats", (4,), np.float32),
        ("ints", (4,), np.int64),
        ("mixed", (40,), np.uint8),
        ("no parts", (1,), np.int64),
    ],
)
def test_other_spaces_become_a_vector_of_the_common_dtype_or_of_bytes(name: str, shape: tuple[int, ...], dtype: type) -> None:
    plan = ObservationPlan(OBSERVATIONS[name]())
    assert not plan.is_flat
    assert isinstance(plan.emulated_space, spaces.Box)
    assert (plan.row_shape, plan.row_dtype, plan.row_bytes) == (shape, dtype, plan.dtype.itemsize)
    low = 0 if dtype == np.uint8 else np.finfo(dtype).min if dtype == np.float32 else np.iinfo(dtype).min
    assert plan.emulated_space.low.min() == low


def test_spaces_without_content_have_rows_of_no_bytes() -> None:
    for space in (spaces.Dict({}), spaces.Tuple([]), spaces.Dict(a=spaces.Dict({}))):
        plan = ObservationPlan(space)
        rows = np.zeros((2, *plan.row_shape), plan.row_dtype)
        value = sample(space, np.random.default_rng(0))
        plan.writers(rows)[1](value)
        assert plan.row_bytes == 0 and same_bits(plan.nativize(rows[1]), value) and same_bits(plan.views(rows), value)
