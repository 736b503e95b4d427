# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Probe episodes of length 3 with known returns: exact advantages and exact step counts, from the
env to csrc/learner/advantage.c.

The rollouts come from the C env through the vec env; what they must contain comes from the probe's
twin and the advantage twin, and, where a line suffices, from a sum written out by hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from puffervec._ffi import ffi, lib
from puffervec.vec.vector_env import VectorEnv
from tests.helpers import serial
from tests.twins import advantage as twin
from tests.twins.probe import ProbeTwin

NAMES = ("rewards", "terminals", "truncations", "masks")
Arrays = dict[str, np.ndarray]


def c_advantage(
    rollout: Arrays, values: np.ndarray, gamma: float, gae_lambda: float
) -> tuple[np.ndarray, np.ndarray]:
    """pv_advantage over NumPy arrays (T + 1, R)."""
    horizon, rows = values.shape[0] - 1, values.shape[1]
    advantages, valid = (
        np.full((horizon, rows), np.nan, np.float32),
        np.full((horizon, rows), 77, np.uint8),
    )
    floats = [
        ffi.from_buffer("float[]", np.ascontiguousarray(x, np.float32))
        for x in (rollout["rewards"], values)
    ]
    flags = [
        ffi.from_buffer("uint8_t[]", np.ascontiguousarray(rollout[name], np.uint8))
        for name in NAMES[1:]
    ]
    lib.pv_advantage(
        *floats, *flags, horizon, rows, gamma, gae_lambda,
        ffi.from_buffer("float[]", advantages), ffi.from_buffer("uint8_t[]", valid),
    )  # fmt: skip
    return advantages, valid


def rollouts(vec: VectorEnv, horizon: int, count: int, action: int) -> list[Arrays]:
    """Collect `count` rollouts of T + 1 steps; the last step of one is the first of the next."""
    rows = vec.halves[0].groups["agents"]
    steps: dict[str, list[np.ndarray]] = {name: [] for name in NAMES}
    vec.reset(seed=100)
    for step in range(horizon * count + 1):
        for name in NAMES:
            steps[name].append(getattr(rows, name).copy())
        if step < horizon * count:
            vec.step(np.full(vec.num_agents, action))
    whole = {name: np.array(entries) for name, entries in steps.items()}
    return [
        {name: array[i * horizon : (i + 1) * horizon + 1] for name, array in whole.items()}
        for i in range(count)
    ]


def twin_rollouts(
    settings: dict[str, Any], envs: int, horizon: int, count: int, action: int
) -> list[Arrays]:
    """The same from the twin."""
    agents = settings.get("num_agents", 1)
    twins = [ProbeTwin(100 + env, **settings) for env in range(envs)]
    shown = [[t.begin() for t in twins]] + [
        [t.step([action] * agents) for t in twins] for _ in range(horizon * count)
    ]
    whole = {
        name: np.array([np.concatenate([getattr(rows, name) for rows in step]) for step in shown])
        for name in NAMES
    }
    return [
        {name: array[i * horizon : (i + 1) * horizon + 1] for name, array in whole.items()}
        for i in range(count)
    ]


SETTINGS: list[dict[str, Any]] = [
    {"end_kind": 0},
    {"end_kind": 1},
    {"end_kind": 2},
    {"end_kind": 0, "num_agents": 3, "leave": 1},
    {"end_kind": 1, "num_agents": 3, "leave": 1},
    {"end_kind": 2, "num_agents": 4, "leave": 1},
]


# Horizons around the length of an episode with its reset row (4), so that its end falls on every
# place of a rollout.
@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 5, 7, 8, 9])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_advantages_and_counts_equal_the_twins(settings: dict[str, Any], horizon: int) -> None:
    envs, count = 2, 5
    with serial("probe", settings, num_envs=envs) as vec:
        collected = rollouts(vec, horizon, count, action=3)
        expected = twin_rollouts(settings, envs, horizon, count, action=3)
        rng = np.random.default_rng(horizon)
        for mine, its in zip(collected, expected, strict=True):
            for name in NAMES:
                np.testing.assert_array_equal(mine[name], its[name], err_msg=name)
            values = rng.normal(size=mine["rewards"].shape).astype(np.float32)
            advantages, valid = c_advantage(mine, values, 0.99, 0.95)
            twin_advantages, twin_valid = twin.advantage(
                its["rewards"], values, *(its[name] for name in NAMES[1:]), 0.99, 0.95
            )
            np.testing.assert_array_equal(valid, twin_valid)
            np.testing.assert_array_equal(advantages, twin_advantages)


def test_a_terminal_does_not_bootstrap_and_a_truncation_does() -> None:
    """With the value 10 everywhere, lambda = 0 and gamma = 1/2: reward + 5 - 10, but reward - 10
    into a terminal.
    """
    shown = {}
    for end_kind in (0, 1):
        with serial("probe", {"end_kind": end_kind}) as vec:
            (rollout,) = rollouts(vec, 4, 1, action=0)
        shown[end_kind] = c_advantage(rollout, np.full((5, 1), 10.0), 0.5, 0.0)[0][:, 0].tolist()
    assert shown == {0: [-4, -3, -7, 0], 1: [-4, -3, -2, 0]}


def test_the_edge_of_a_rollout_bootstraps_and_nothing_is_counted_twice() -> None:
    """Horizon 2 cuts the episode reset, 1, 2, end: the first rollout sees two steps, the second
    one and a filler row.
    """
    with serial("probe", {}) as vec:
        first, second = rollouts(vec, 2, 2, action=0)
    values = np.full((3, 1), 4.0)
    advantages, valid = c_advantage(first, values, 1.0, 1.0)
    assert (advantages[:, 0].tolist(), valid[:, 0].tolist()) == ([1 + 2 + 4 - 4, 2], [1, 1])
    advantages, valid = c_advantage(second, values, 1.0, 1.0)
    assert (advantages[:, 0].tolist(), valid[:, 0].tolist()) == ([3 - 4, 0], [1, 0])
