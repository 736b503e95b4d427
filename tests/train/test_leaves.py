# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from puffervec.train.policies.leaves import ROW, flat_rows, leaf_views, stored_dtype, width
from puffervec.workers.python.emulation import ObservationPlan

NESTED = spaces.Dict(
    a=spaces.Box(-1, 1, (2, 3), np.float32),
    b=spaces.Tuple(
        [spaces.Discrete(300, start=-2), spaces.MultiBinary(3), spaces.Box(0, 9, (0,), np.float32)]
    ),
    c=spaces.Box(0, 60_000, (1,), np.uint16),
    d=spaces.Box(-1, 1, (), np.float64),
)
ALIKE = spaces.Dict(a=spaces.Box(-1, 1, (2, 2)), b=spaces.Box(-1, 1, (3,)))


def rows_of(space: Any, count: int = 5) -> tuple[ObservationPlan, np.ndarray, list[Any]]:
    plan = ObservationPlan(space)
    space.seed(1)
    values = [space.sample() for _ in range(count)]
    rows = np.zeros((count, *plan.row_shape), plan.row_dtype)
    for write, value in zip(plan.writers(rows), values, strict=True):
        write(value)
    return plan, rows, values


def flat(value: Any) -> list[np.ndarray]:
    if isinstance(value, (dict, tuple)):
        return [
            leaf
            for part in (value.values() if isinstance(value, dict) else value)
            for leaf in flat(part)
        ]
    return [np.asarray(value)]


@pytest.mark.parametrize(
    "space",
    [
        NESTED,
        ALIKE,
        spaces.Box(-1, 1, (4, 2)),
        spaces.Discrete(7),
        spaces.Box(0, 1, (), np.float64),
    ],
)
@pytest.mark.parametrize("lead", [(5,), (1, 5)])
def test_leaves_are_what_the_env_gave(space: Any, lead: tuple[int, ...]) -> None:
    plan, rows, values = rows_of(space)
    tensor = flat_rows(plan, rows).reshape(*lead, width(plan))
    leaves = [view({ROW: tensor}).reshape(5, -1) for view in leaf_views(plan)]
    for row, value in enumerate(values):
        expected = [leaf.reshape(-1) for leaf in flat(value) if np.size(leaf)]
        for found, wanted in zip(leaves, expected, strict=True):
            np.testing.assert_array_equal(found[row].numpy(), wanted.astype(found.numpy().dtype))


def test_rows_are_not_copied_but_for_float64() -> None:
    plan, rows, _ = rows_of(NESTED)
    assert flat_rows(plan, rows).data_ptr() == rows.ctypes.data
    first, last = rows.ctypes.data, rows.ctypes.data + rows.nbytes
    assert all(
        first <= view({ROW: flat_rows(plan, rows)}).data_ptr() < last for view in leaf_views(plan)
    )
    plan, rows, _ = rows_of(spaces.Box(-1, 1, (3,), np.float64))
    assert flat_rows(plan, rows).dtype == stored_dtype(plan) == torch.float32


@pytest.mark.parametrize(
    "dtype",
    [
        "uint8",
        "int8",
        "uint16",
        "int16",
        "uint32",
        "int32",
        "uint64",
        "int64",
        "float16",
        "float32",
        "bool",
    ],
)
def test_every_dtype_has_a_row(dtype: str) -> None:
    plan, rows, _ = rows_of(spaces.Box(0, 1, (3,), np.dtype(dtype).type))
    tensor = flat_rows(plan, rows)
    np.testing.assert_array_equal(
        tensor.index_select(0, torch.tensor([2, 0])).numpy(), rows[[2, 0]]
    )
    assert leaf_views(plan)[0]({ROW: tensor}).float().shape == (5, 3)
