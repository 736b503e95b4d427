# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Whole trajectories of known envs: ours against gymnasium.vector.SyncVectorEnv, step by step
(puffervec/gym/base.py).
"""

from __future__ import annotations

import functools
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from tests.gym.kinds import CLASSES, DISABLED, MODES, OURS, SAME, Kind, by_turns, kind_fixture
from tests.gym.test_wrappers import without_times
from tests.helpers import slow_but

ours = kind_fixture(OURS, "ours")


def identical(a: Any, b: Any) -> bool:
    """Equality of nested results, dtypes included."""
    if isinstance(a, dict):
        return (
            isinstance(b, dict)
            and a.keys() == b.keys()
            and all(identical(a[key], b[key]) for key in a)
        )
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(identical, a, b))
    if isinstance(a, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        return all(map(identical, a, b)) if a.dtype == object else bool(np.array_equal(a, b))
    return type(a) is type(b) and bool(a == b)


def widened(infos: Any) -> Any:
    """Infos with numbers as ours have them: int64, float64 or bool, where Gymnasium keeps the env's
    own width.
    """
    if isinstance(infos, dict):
        return {key: widened(value) for key, value in infos.items()}
    wide = {"f": np.float64, "i": np.int64}.get(getattr(infos, "dtype", np.dtype(object)).kind)
    return infos if wide is None or infos.ndim != 1 else infos.astype(wide)


def newest(family: str) -> list[str]:
    """Return the ids of all envs of a family, each in its newest version, without those that need
    JAX.
    """
    specs: dict[str, EnvSpec] = {}
    for spec in gymnasium.registry.values():
        if str(spec.entry_point).startswith(f"gymnasium.envs.{family}.") and spec.namespace is None:
            known = specs.get(spec.name)
            if known is None or (spec.version or 0) > (known.version or 0):
                specs[spec.name] = spec
    return sorted(spec.id for spec in specs.values())


def cartpole() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1")


def recorded() -> gymnasium.Env[Any, Any]:
    return gymnasium.wrappers.RecordEpisodeStatistics(
        gymnasium.make("CartPole-v1", max_episode_steps=30)
    )


def taxi() -> gymnasium.Env[Any, Any]:
    """Infos with arrays."""
    return gymnasium.make("Taxi-v4", max_episode_steps=20)


def blackjack() -> gymnasium.Env[Any, Any]:
    """Tuple observations."""
    return gymnasium.make("Blackjack-v1")


@pytest.mark.slow
@pytest.mark.parametrize("make", slow_but([cartpole, taxi], [cartpole, recorded, taxi, blackjack]))
@pytest.mark.parametrize(
    ("mode", "ours"), by_turns([(mode,) for mode in (*MODES, *MODES[:1])]), indirect=["ours"]
)
def test_trajectories_are_equal(ours: Kind, mode: AutoresetMode, make: Any) -> None:
    theirs, envs = (
        CLASSES["gymnasium-sync"]([make] * 5, autoreset_mode=mode),
        ours([make] * 5, autoreset_mode=mode),
    )
    assert identical(theirs.reset(seed=11), envs.reset(seed=11))
    rng = np.random.default_rng(3)
    ends = 0
    for _ in range(80):
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


class FloatInfos(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Numbers in infos as floats: FrozenLake has an int "prob" at a reset, and Gymnasium then cuts
    that of others to int.
    """

    def reset(self, **settings: Any) -> Any:
        observation, info = self.env.reset(**settings)
        return observation, {
            key: float(value) if type(value) is int else value for key, value in info.items()
        }


def short(env_id: str) -> gymnasium.Env[Any, Any]:
    """An env with short episodes."""
    env = gymnasium.make(env_id, max_episode_steps=17)
    return FloatInfos(env) if env_id.startswith("FrozenLake") else env


def check_env(ours: Kind, env_id: str, steps: int, **settings: Any) -> None:
    """Step ours and Gymnasium's with the actions that the action space samples, and with floats of
    twice the precision.
    """
    make = functools.partial(short, env_id)
    theirs = CLASSES["gymnasium-sync"]([make] * 3, autoreset_mode=SAME)
    envs = ours([make] * 3, autoreset_mode=SAME, **settings)
    theirs.action_space.seed(5)
    rng = np.random.default_rng(6)
    try:
        expected, found = theirs.reset(seed=11), envs.reset(seed=11)
        assert identical(expected[0], found[0]) and identical(widened(expected[1]), found[1])
        for step in range(steps):
            actions = theirs.action_space.sample()
            if isinstance(theirs.single_action_space, gymnasium.spaces.Box) and step % 2:
                actions = actions + rng.uniform(
                    -0.2, 0.2, actions.shape
                )  # float64, and out of range now and then
            expected, found = theirs.step(actions), envs.step(actions)
            assert identical(expected[:4], found[:4]), (step, expected, found)
            assert identical(widened(expected[4]), found[4]), (step, expected[4], found[4])
    finally:
        theirs.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "ours"),
    by_turns([(name,) for name in (*newest("classic_control"), *newest("toy_text"))]),
    indirect=["ours"],
)
def test_same_seeds_and_actions_same_trajectories(ours: Kind, env_id: str) -> None:
    check_env(ours, env_id, steps=25)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore"
)  # Box2D's module warns in C while it is imported, and crashes where that is an error
@pytest.mark.parametrize(
    "family",
    [
        pytest.param("box2d", marks=pytest.mark.needs("Box2D")),
        pytest.param("mujoco", marks=pytest.mark.needs("MuJoCo")),
    ],
)
def test_same_trajectories_of_the_physics_engines(ours: Kind, family: str) -> None:
    for env_id in newest(family):
        check_env(
            ours, env_id, steps=30 if env_id.startswith("CarRacing") else 200
        )  # pictures take long
        ours.close()
