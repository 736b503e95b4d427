# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/train/act/batch.py: every form of observations becomes the same rows. test_loaded.py
has what is refused.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from puffervec.core.spec import leaf_fields
from puffervec.errors import SpaceMismatchError
from puffervec.train.act.batch import read_batch
from puffervec.workers.python.emulation import ActionPlan, ObservationPlan
from tests.train import fakes

SPACES = {
    "vector": spaces.Box(-1, 1, (3,), np.float32),
    "picture": spaces.Box(0, 255, (2, 2, 1), np.uint8),
    "number": spaces.Discrete(4, start=1),
    "one number": spaces.Box(-1, 1, (), np.float64),
    "choices": spaces.MultiDiscrete([2, 3]),
    "table": spaces.MultiDiscrete([[2, 3], [4, 5]]),
    "bits": spaces.MultiBinary(3),
    "tuple": spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 1, (2,), np.float32)]),
    "dict": spaces.Dict(
        a=spaces.Discrete(3), b=spaces.Dict(c=spaces.Box(0, 255, (2, 2), np.uint8))
    ),
}


def group(space: Any) -> Any:
    """A group of a Python env with these observations and one choice of two."""
    plan, actions = ObservationPlan(space), ActionPlan(spaces.Discrete(2))
    return dataclasses.replace(
        fakes.group(),
        fields=leaf_fields(plan),
        observation_plan=plan,
        action_plan=actions,
        action_sizes=(2,),
    )


def tensors(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: tensors(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(tensors, value))
    return torch.as_tensor(value)


@pytest.mark.parametrize("name", SPACES)
def test_all_forms_are_the_same_rows(name: str) -> None:
    space = SPACES[name]
    space.seed(0)
    values = [space.sample() for _ in range(5)]
    wanted = group(space)
    plan = wanted.observation_plan
    rows = np.zeros((5, *plan.row_shape), plan.row_dtype)
    for write, value in zip(plan.writers(rows), values, strict=True):
        write(value)
    batch = concatenate(space, values, create_empty_array(space, 5))
    agents = {f"agent {i}": value for i, value in enumerate(values)}
    for given in (batch, rows, tensors(batch), agents):
        found = read_batch(wanted, given)
        np.testing.assert_array_equal(found.rows, rows)
        assert found.rows.dtype == rows.dtype and (found.count, found.single) == (5, False)
    one = read_batch(wanted, values[0])
    np.testing.assert_array_equal(one.rows, rows[:1])
    assert (one.count, one.single) == (1, True)
    assert read_batch(wanted, agents).answer(np.arange(5)) == {
        agent: i for i, agent in enumerate(agents)
    }
    assert one.answer(np.array([1])) == 1 and np.ndim(one.answer(np.array([1]))) == 0


def test_fields_of_several_dtypes() -> None:
    """Of a C env: a dict by field."""
    plain = fakes.group(("x", (2,)), ("y", ()))
    mixed = dataclasses.replace(
        plain, fields=(plain.fields[0], dataclasses.replace(plain.fields[1], dtype=np.dtype("i4")))
    )
    found = read_batch(mixed, {"x": np.ones((4, 2)), "y": np.arange(4)})
    assert (
        found.rows["x"].dtype == np.float32
        and found.rows["y"].tolist() == [0, 1, 2, 3]
        and not found.single
    )
    single = read_batch(mixed, {"x": np.ones(2), "y": 3})
    assert single.single and single.rows["x"].shape == (1, 2) and single.answer(np.array([4])) == 4


def test_a_wrong_structure_is_named() -> None:
    wanted = group(SPACES["dict"])
    for given, words in (
        ({"a": 1}, r"lacks \['b'\]"),
        (
            {"a": 1, "b": {"c": np.zeros((3, 2), np.uint8)}},
            r"observation\['b'\]\['c'\] has shape \(3, 2\)",
        ),
        (
            {"a": np.zeros(2, int), "b": {"c": np.zeros((3, 2, 2), np.uint8)}},
            r"\['c'\] has shape \(3, 2, 2\)",
        ),
        ({"a": 1, "b": {"c": np.full((2, 2), 0.5)}}, "float64 and values such as 0.5"),
        (np.zeros((2, 3), np.uint8), "is of type ndarray"),
    ):
        with pytest.raises(SpaceMismatchError, match=words):
            read_batch(wanted, given)
