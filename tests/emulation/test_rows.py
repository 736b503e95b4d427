# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Views and writers (puffervec/workers/python/emulation/rows.py): nested values to rows and back,
bit by bit.
"""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from puffervec.errors import ConfigError, SpaceMismatchError
from puffervec.workers.python.emulation import ObservationPlan, rows
from tests.mock_envs import OBSERVATIONS, same_bits, sample


def at(views: Any, index: int) -> Any:
    """Return what `views` hold of one row."""
    if isinstance(views, dict):
        return {key: at(part, index) for key, part in views.items()}
    return (
        tuple(at(part, index) for part in views) if isinstance(views, tuple) else views[index, ...]
    )


@pytest.fixture(params=OBSERVATIONS)
def plan(request: pytest.FixtureRequest) -> ObservationPlan:
    return ObservationPlan(OBSERVATIONS[request.param]())


def filled(plan: ObservationPlan, rows: np.ndarray) -> list[Any]:
    """Write a drawn observation into each row, return them."""
    rng = np.random.default_rng(3)
    values = [sample(plan.space, rng) for _ in rows]
    for write, value in zip(plan.writers(rows), values, strict=True):
        plan.check(value)
        write(value)
    return values


def test_writers_and_views_are_inverse_bit_by_bit(plan: ObservationPlan) -> None:
    rows = np.zeros((4, *plan.row_shape), plan.row_dtype)
    values = filled(plan, rows)
    views = plan.views(rows)
    assert all(same_bits(at(views, i), value) for i, value in enumerate(values))


def test_padding_is_zero_whatever_stood_there(plan: ObservationPlan) -> None:
    clean, dirty = (np.full((4, *plan.row_shape), value, plan.row_dtype) for value in (0, 1))
    dirty.view(np.uint8)[...] = 171
    filled(plan, clean), filled(plan, dirty)
    assert clean.tobytes() == dirty.tobytes()


def leaves_of(views: Any) -> list[np.ndarray]:
    if isinstance(views, (dict, tuple)):
        return [
            leaf
            for part in (views.values() if isinstance(views, dict) else views)
            for leaf in leaves_of(part)
        ]
    return [views]


def test_a_batch_is_written_leaf_by_leaf(plan: ObservationPlan) -> None:
    one_by_one, at_once = np.zeros((2, 3, *plan.row_shape), plan.row_dtype)
    filled(plan, one_by_one)
    plan.write_batch(plan.views(one_by_one), at_once)
    assert one_by_one.tobytes() == at_once.tobytes()


def test_a_batch_of_another_size_is_refused_before_it_is_written() -> None:
    plan = ObservationPlan(OBSERVATIONS["mixed"]())
    rows = np.zeros((3, 40), np.uint8)
    batch = {"gear": np.ones(3, int), "image": np.ones((3, 3, 3), int), "wind": np.ones((2, 2))}
    with pytest.raises(
        SpaceMismatchError, match=r"\['wind'\] has shape \(2, 2\): the space wants shape \(3, 2\)"
    ):
        plan.write_batch(batch, rows)
    assert not rows.any()


def test_rows_of_another_kind_are_refused() -> None:
    plan = ObservationPlan(spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Discrete(2)))
    for given in (
        np.zeros((2, 15), np.uint8),
        np.zeros((2, 4), np.float32),
        np.zeros(16, np.uint8),
        np.uint8(0),
    ):
        with pytest.raises(
            ConfigError, match=r"cannot hold observations: make them \(N, 16,\) uint8"
        ):
            plan.writers(np.asarray(given))
    with pytest.raises(ConfigError, match="must be contiguous"):
        plan.writers(np.zeros((16, 2), np.uint8).T)


def test_documented_examples() -> None:
    assert doctest.testmod(rows).failed == 0


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
def test_other_spaces_become_a_vector_of_the_common_dtype_or_of_bytes(
    name: str, shape: tuple[int, ...], dtype: type
) -> None:
    plan = ObservationPlan(OBSERVATIONS[name]())
    assert not plan.is_flat
    assert isinstance(plan.emulated_space, spaces.Box)
    assert (plan.row_shape, plan.row_dtype, plan.row_bytes) == (shape, dtype, plan.dtype.itemsize)
    low = (
        0
        if dtype == np.uint8
        else np.finfo(dtype).min
        if dtype == np.float32
        else np.iinfo(dtype).min
    )
    assert plan.emulated_space.low.min() == low


def test_spaces_without_content_have_rows_of_no_bytes() -> None:
    for space in (spaces.Dict({}), spaces.Tuple([]), spaces.Dict(a=spaces.Dict({}))):
        plan = ObservationPlan(space)
        rows = np.zeros((2, *plan.row_shape), plan.row_dtype)
        value = sample(space, np.random.default_rng(0))
        plan.writers(rows)[1](value)
        assert (
            plan.row_bytes == 0
            and same_bits(plan.nativize(rows[1]), value)
            and same_bits(plan.views(rows), value)
        )
