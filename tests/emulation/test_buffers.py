# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Rows made or adopted (puffervec/workers/python/puffer_env.py)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from puffervec.errors import APIUsageError
from puffervec.workers.python.puffer_env import NAMES, set_buffers


def env(action: gymnasium.Space[Any]) -> SimpleNamespace:
    return SimpleNamespace(
        num_agents=3, single_observation_space=spaces.Box(-1, 1, (2, 2)), single_action_space=action
    )


def arrays() -> dict[str, np.ndarray]:
    made = env(spaces.MultiDiscrete([2, 3]))
    set_buffers(made)
    return {name: getattr(made, name) for name in NAMES}


@pytest.mark.parametrize(
    ("action", "shape", "dtype"),
    [
        (spaces.Discrete(4), (3,), np.int32),
        (spaces.MultiDiscrete([2, 3]), (3, 2), np.int32),
        (spaces.Box(-1, 1, (5,), np.float64), (3, 5), np.float64),
    ],
)
def test_new_rows(action: gymnasium.Space[Any], shape: tuple[int, ...], dtype: type) -> None:
    made = env(action)
    set_buffers(made)
    assert (made.observations.shape, made.observations.dtype) == ((3, 2, 2), np.float32)
    assert (made.actions.shape, made.actions.dtype) == (shape, dtype)
    assert (made.rewards.dtype, made.terminals.dtype, made.truncations.dtype) == (
        np.float32,
        bool,
        bool,
    )
    assert (
        made.masks.all()
        and made.masks.shape == (3,)
        and not made.terminals.any()
        and not made.observations.any()
    )
    set_buffers(made, action_dtype=np.int64)
    assert made.actions.dtype == np.int64


@pytest.mark.parametrize(
    "wrap", [dict, lambda given: SimpleNamespace(**given)], ids=["mapping", "attributes"]
)
def test_given_rows_are_adopted(wrap: Any) -> None:
    given, made = arrays(), env(spaces.MultiDiscrete([2, 3]))
    set_buffers(made, wrap(given))
    assert all(getattr(made, name) is given[name] for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_do_not_fit_are_refused(name: str) -> None:
    made = env(spaces.MultiDiscrete([2, 3]))
    with pytest.raises(APIUsageError, match=f"buf has no array '{name}'"):
        set_buffers(made, {key: array for key, array in arrays().items() if key != name})
    with pytest.raises(APIUsageError, match=rf"buf's {name} have shape \(2,.*this env needs \(3,"):
        set_buffers(made, {**arrays(), name: arrays()[name][:2]})


def test_observations_of_another_dtype_are_refused() -> None:
    with pytest.raises(APIUsageError, match="dtype float64: this env writes float32"):
        set_buffers(
            env(spaces.MultiDiscrete([2, 3])), {**arrays(), "observations": np.zeros((3, 2, 2))}
        )
