# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from puffervec.train.policies.encoder import RowEncoder
from puffervec.train.policies.leaves import ROW, flat_rows, leaf_views
from puffervec.workers.python.emulation import ObservationPlan


def encode(space: Any, value: Any, normalize: bool = True) -> list[float]:
    plan = ObservationPlan(space)
    rows = np.zeros((1, *plan.row_shape), plan.row_dtype)
    plan.writers(rows)[0](value)
    encoder = RowEncoder(leaf_views(plan), normalize)
    features = encoder({ROW: flat_rows(plan, rows)})[0]
    assert features.dtype == torch.float32 and features.shape == (encoder.features,)
    return [round(x, 5) for x in features.tolist()]


def observe(encoder: RowEncoder, rows: torch.Tensor) -> None:
    encoder.observe({ROW: rows}, torch.ones(len(rows), dtype=torch.bool))


@pytest.mark.parametrize(
    ("space", "value", "features"),
    [
        (spaces.Box(-2, 6, (2,)), np.array([-2, 4], np.float32), [-1, 0.5]),
        (
            spaces.Box(np.array([0, 3]), np.array([10, 3]), dtype=np.float64),
            np.array([10.0, 3]),
            [1, 0],
        ),
        (spaces.Box(0, 255, (1, 2), np.uint8), np.array([[255, 51]], np.uint8), [1, 0.2]),
        (spaces.Box(0, 4, (1,), np.uint8), np.array([1], np.uint8), [-0.5]),
        (spaces.Box(-np.inf, 3, (1,)), np.array([-7], np.float32), [-7]),  # Nothing seen yet.
        (spaces.Box(-3.4e38, 3.4e38, (1,)), np.array([5], np.float32), [5]),
        (spaces.Box(0, 1, (2,), np.bool_), np.array([True, False]), [1, 0]),
        (spaces.MultiBinary(3), np.array([1, 0, 1], np.int8), [1, 0, 1]),
        (spaces.Discrete(3, start=4), 5, [0, 1, 0]),
        (spaces.Discrete(2001, start=-1000), 500, [0.5]),
        (spaces.MultiDiscrete([2, 3], start=[0, 7]), np.array([1, 7]), [0, 1, 1, 0, 0]),
        (spaces.MultiDiscrete([1000, 1001]), np.array([999, 500]), [1, 0]),
        (
            spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(-4, 4, (1,))),
            {"a": 0, "b": np.array([2], np.float32)},
            [1, 0, 0.5],
        ),
    ],
)
def test_features(space: Any, value: Any, features: list[float]) -> None:
    assert encode(space, value) == features


def test_without_scaling_numbers_stay() -> None:
    assert encode(spaces.Box(-2, 6, (1,)), np.array([5], np.float32), normalize=False) == [5]
    assert encode(
        spaces.Box(0, 255, (1,), np.uint8), np.array([255], np.uint8), normalize=False
    ) == [1]


def test_a_number_that_is_no_choice_gives_zeros() -> None:
    plan = ObservationPlan(spaces.Discrete(3, start=4))
    assert RowEncoder(leaf_views(plan), True)(
        {ROW: torch.zeros(1, 1, dtype=torch.int64)}
    ).tolist() == [[0, 0, 0]]


def test_running_statistics_are_those_of_all_rows() -> None:
    """In pieces of any size; the bounded leaf is left alone."""
    plan = ObservationPlan(
        spaces.Dict(a=spaces.Box(-np.inf, np.inf, (2,)), b=spaces.Box(-1, 1, (1,)))
    )
    encoder = RowEncoder(leaf_views(plan), True)
    rows = torch.from_numpy(
        np.random.default_rng(0).normal([50, -3, 0.2], [9, 0.1, 0.3], (1000, 3)).astype(np.float32)
    )
    for piece in rows.split([1, 600, 0, 399]):
        observe(encoder, piece)
    features = encoder({ROW: rows})
    torch.testing.assert_close(features[:, :2].mean(0), torch.zeros(2), atol=1e-3, rtol=0)
    torch.testing.assert_close(features[:, :2].std(0), torch.ones(2), atol=1e-2, rtol=0)
    torch.testing.assert_close(features[:, 2], rows[:, 2])
    assert encoder({ROW: torch.tensor([[1e9, -3, 0]])})[0, 0] == 10
    fresh = RowEncoder(leaf_views(plan), True)
    fresh.load_state_dict(encoder.state_dict())
    torch.testing.assert_close(fresh({ROW: rows}), features, rtol=0, atol=0)


def test_numbers_that_never_change_or_are_not_finite_do_no_harm() -> None:
    encoder = RowEncoder(leaf_views(ObservationPlan(spaces.Box(-np.inf, np.inf, (2,)))), True)
    observe(encoder, torch.tensor([[3.0, np.nan], [3.0, 1.0]]))
    assert torch.isfinite(encoder({ROW: torch.tensor([[3.0, 1.0], [4.0, 1.0]])})).all()


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_rows_that_are_not_finite_leave_the_statistics_alone(bad: float) -> None:
    plan = ObservationPlan(spaces.Box(-np.inf, np.inf, (2,)))
    rows = torch.tensor([[3.0, 1.0], [5.0, 9.0], [4.0, bad], [6.0, 2.0]])
    seen, clean = RowEncoder(leaf_views(plan), True), RowEncoder(leaf_views(plan), True)
    for _ in range(2):
        observe(seen, rows)
        observe(seen, rows[2:3])  # Nothing is left of it.
        observe(clean, rows[[0, 1, 3]])
    for name, found in seen.state_dict().items():
        torch.testing.assert_close(found, clean.state_dict()[name], rtol=0, atol=0)
