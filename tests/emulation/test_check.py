# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Values that do not fit their space (puffervec/workers/python/emulation/rows.py)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from puffervec.errors import ConfigError, SpaceMismatchError
from puffervec.workers.python.emulation import ObservationPlan, check_space

SPACE = spaces.Dict(
    image=spaces.Box(0, 255, (2, 2), np.uint8),
    rest=spaces.Tuple([spaces.Discrete(4), spaces.Box(-1, 1, (3,)), spaces.MultiBinary(2)]),
)


def good() -> dict[str, Any]:
    return {
        "image": np.zeros((2, 2), np.uint8),
        "rest": (np.int64(3), np.zeros(3, np.float32), np.zeros(2, np.int8)),
    }


def rest(index: int, value: Any) -> dict[str, Any]:
    parts = list(good()["rest"])
    parts[index] = value
    return {**good(), "rest": tuple(parts)}


@pytest.mark.parametrize(
    "value",
    [
        good(),
        {**good(), "image": np.full((2, 2), 255, np.int64)},
        {**good(), "image": [[1, 2], [3, 4]]},
        {**good(), "rest": list(good()["rest"])},
        rest(0, 2),
        rest(0, np.array(2, np.int32)),
        rest(1, np.zeros(3)),
        rest(1, [1, 2, 3]),
        rest(2, np.array([True, False])),
    ],
)
def test_what_can_be_stored_without_loss_of_meaning_passes(value: Any) -> None:
    ObservationPlan(SPACE).check(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            np.zeros(3),
            "observation is of type ndarray: the space wants a dict with ['image', 'rest']",
        ),
        (
            {"image": 0},
            "observation lacks ['rest']: the space wants exactly the keys ['image', 'rest']",
        ),
        ({**good(), "more": 0}, "observation has the extra ['more']"),
        (
            {**good(), "image": np.zeros((2, 3), np.uint8)},
            "observation['image'] has shape (2, 3): the space wants shape (2, 2)",
        ),
        (
            {**good(), "image": np.zeros((2, 2))},
            "observation['image'] has dtype float64 and values such as 0.0",
        ),
        (
            {**good(), "image": np.full((2, 2), 256)},
            "observation['image'] has dtype int64 and values such as 256",
        ),
        ({**good(), "image": np.full((2, 2), "x")}, "observation['image'] has dtype <U1"),
        ({**good(), "image": [[1], [2, 3]]}, "observation['image'] is not an array"),
        ({**good(), "rest": (1, 2)}, "observation['rest'] has 2 entries: the space wants 3"),
        (
            {**good(), "rest": {0: 1}},
            "observation['rest'] is of type dict: the space wants a tuple of 3",
        ),
        (rest(0, np.array([1])), "observation['rest'][0] has shape (1,): the space wants shape ()"),
        (rest(0, 1.0), "observation['rest'][0] has dtype float64"),
        (
            rest(1, None),
            "observation['rest'][1] has shape (): the space wants shape (3,) and values that fit "
            "float32 (Box(",
        ),
    ],
)
def test_what_does_not_fit_is_named_with_its_path(value: Any, message: str) -> None:
    with pytest.raises(SpaceMismatchError, match=re.escape(message)) as caught:
        ObservationPlan(SPACE).check(value)
    assert isinstance(caught.value, ConfigError)


def test_only_truth_values_fit_into_booleans() -> None:
    plan = ObservationPlan(spaces.Box(0, 1, (2,), np.bool_))
    plan.check(np.array([0, 1]))
    with pytest.raises(SpaceMismatchError, match="fit bool"):
        plan.check(np.array([0, 2]))


def test_check_space_looks_at_bounds_too() -> None:
    assert check_space(good(), SPACE)
    with pytest.raises(SpaceMismatchError, match="is not in Dict"):
        check_space(rest(0, np.int64(4)), SPACE)

    class Odd(spaces.Discrete):
        def contains(self, x: Any) -> bool:
            raise RuntimeError("cannot tell")

    with pytest.raises(
        SpaceMismatchError,
        match=r"7 cannot be compared with Discrete\(3\) \(RuntimeError: cannot tell\)",
    ):
        check_space(7, Odd(3))
