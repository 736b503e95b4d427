# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Whole trajectories of known envs: ours against gymnasium.vector.SyncVectorEnv, step by step (puffervec/gym/base.py)."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from tests.gym.kinds import CLASSES, DISABLED, MODES, OURS, Kind, kind_fixture
from tests.gym.test_wrappers import without_times

ours = kind_fixture(OURS, "ours")


def identical(a: Any, b: Any) -> bool:
    """Equality of nested results, dtypes included."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(identical(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(identical, a, b))
    if isinstance(a, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        return all(map(identical, a, b)) if a.dtype == object else bool(np.array_equal(a, b))
    return bool(a == b)


def cartpole() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1")


def recorded() -> gymnasium.Env[Any, Any]:
    return gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1", max_episode_steps=30))


def taxi() -> gymnasium.Env[Any, Any]:
    """Infos with arrays."""
    return gymnasium.make("Taxi-v4", max_episode_steps=20)


def blackjack() -> gymnasium.Env[Any, Any]:
    """Tuple observations."""
    return gymnasium.make("Blackjack-v1")


@pytest.mark.parametrize("make", [cartpole, recorded, taxi, blackjack])
@pytest.mark.parametrize("mode", MODES)
def test_trajectories_are_equal(ours: Kind, mode: AutoresetMode, make: Any) -> None:
    theirs, envs = CLASSES["gymnasium-sync"]([make] * 5, autoreset_mode=mode), ours([make] * 5, autoreset_mode=mode)
    assert identical(theirs.reset(seed=11), envs.reset(seed=11))
    rng = np.random.default_rng(3)
    ends = 0
    for _ in range(150):
        actions = rng.integers(theirs.single_action_space.n, size=5)
        expected, found = theirs.step(actions), envs.step(actions)
        assert identical(without_times(expected), without_times(found)), (expected, found)
        done = expected[2] | expected[3]
        ends += int(done.sum())
        if mode is DISABLED and done.any():
            expected, found = (e.reset(options={"reset_mask": done.copy()}) for e in (theirs, envs))
            assert identical(expected, found)
    assert ends > 10
    theirs.close()
