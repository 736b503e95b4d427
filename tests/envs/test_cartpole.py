# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""cartpole (csrc/envs/cartpole.c, puffervec/envs/cartpole.py): equal to Gymnasium's CartPole-v1
step by step, and the contract.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from puffervec.envs.cartpole import CartpoleConfig
from puffervec.errors import ConfigError, WorkerError
from puffervec.testing.reference import philox
from puffervec.vec.vector_env import VectorEnv
from tests.env_contract import EnvContract
from tests.helpers import serial

STATE = ("x", "x_dot", "theta", "theta_dot")
FLT_MAX = float(np.finfo(np.float32).max)
Policy = Callable[[np.ndarray, np.random.Generator], np.ndarray]


class _CartpoleContract(EnvContract):
    env = "cartpole"

    def test_fields_lie_in_the_row_and_apart(self, vec: VectorEnv) -> None:
        """Gymnasium's bounds of the speeds are infinite, ours too; all else is checked with finite
        ones in their place.
        """
        group = vec.spec.groups[0]
        groups = (dataclasses.replace(group, fields=tuple(map(_finite, group.fields))),)
        states = tuple(map(_finite, vec.spec.state_fields))
        vec.spec = dataclasses.replace(vec.spec, groups=groups, state_fields=states)
        super().test_fields_lie_in_the_row_and_apart(vec)


def _finite(field: Any) -> Any:
    return dataclasses.replace(field, low=max(field.low, -FLT_MAX), high=min(field.high, FLT_MAX))


class TestCartpole(_CartpoleContract):
    pass


class TestShortEpisodes(_CartpoleContract):
    settings = {"max_episode_steps": 12, "sutton_barto_reward": True}


# ---- Gymnasium, step by step ---------------------------------------------------------------------


def drawn(observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Push at random."""
    return rng.integers(0, 2, len(observations))


def balance(observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Keep the pole up and the cart on the track, with a shaking hand."""
    leaning = observations @ np.array([0.05, 0.1, 1.0, 0.5]) + rng.normal(
        0, 0.05, len(observations)
    )
    return (leaning > 0).astype(np.int64)


def state_of(vec: VectorEnv, env: int) -> np.ndarray:
    """Return (4,) float64."""
    state = vec.peek(env)
    return np.array([float(state[name]) for name in STATE])


def begin(theirs: CartPoleEnv, state: np.ndarray) -> None:
    """Give Gymnasium's env our state."""
    theirs.state = state
    theirs.steps_beyond_terminated = None


def follow(
    policy: Policy,
    turns: int,
    num_envs: int,
    tolerance: float,
    each_turn: bool = False,
    **settings: Any,
) -> Counter[str]:
    """Step ours and Gymnasium's side by side; ours hands over its state where an episode begins, or
    before each turn.

    States may differ by `tolerance`, rewards and ends not at all. Returns how often what happened.
    """
    rng = np.random.default_rng(turns)
    limit = settings.get("max_episode_steps", 500)
    seen: Counter[str] = Counter()
    theirs = [
        CartPoleEnv(sutton_barto_reward=settings.get("sutton_barto_reward", False))
        for _ in range(num_envs)
    ]
    lengths = np.full(num_envs, -1)  # -1: the next row is a reset row
    with serial("cartpole", settings, num_envs=num_envs) as vec:
        observations, _ = vec.reset(seed=77)
        for env, twin in enumerate(theirs):
            begin(twin, state_of(vec, env))
        lengths[:] = 0
        for _ in range(turns):
            actions = policy(observations, rng)
            if each_turn:
                for env, twin in enumerate(theirs):
                    begin(twin, state_of(vec, env))
            observations, rewards, terminals, truncations, _ = vec.step(actions)
            for env, twin in enumerate(theirs):
                shown = (rewards[env], terminals[env], truncations[env])
                lengths[env] += 1
                if lengths[env] == 0:
                    begin(twin, state_of(vec, env))
                    np.testing.assert_array_equal(observations[env], np.float32(twin.state))
                    assert shown == (0, False, False)
                    continue
                _, reward, terminal, _, _ = twin.step(int(actions[env]))
                state = state_of(vec, env)
                np.testing.assert_allclose(state, twin.state, rtol=0, atol=tolerance)
                np.testing.assert_array_equal(observations[env], np.float32(state))
                truncation = lengths[env] >= limit and not terminal
                assert shown == (reward, terminal, truncation)
                seen.update(steps=1, terminals=int(terminal), truncations=int(truncation))
                if terminal or truncation:
                    lengths[env] = -1
    return seen


def test_equals_gymnasium_over_whole_episodes_of_random_actions() -> None:
    """The state is handed over where an episode begins, then both get the same actions."""
    seen = follow(drawn, turns=300, num_envs=16, tolerance=1e-6)
    assert seen["terminals"] > 120


@pytest.mark.slow
def test_equals_gymnasium_while_the_pole_is_balanced() -> None:
    """300 steps from one common state. A pole is unstable, so that a rounding of 1e-17 grows by 8 %
    a step: to 1e-7 by then.
    """
    seen = follow(balance, turns=300, num_envs=8, tolerance=1e-6)
    assert seen["terminals"] < 3


@pytest.mark.slow
def test_equals_gymnasium_in_each_step_of_long_episodes() -> None:
    """Up to the time limit, from a common state before each step."""
    seen = follow(balance, turns=1003, num_envs=3, tolerance=1e-14, each_turn=True)
    assert seen["truncations"] >= 5


@pytest.mark.parametrize("policy", [drawn, balance])
def test_equals_gymnasium_with_the_old_reward_and_short_episodes(policy: Policy) -> None:
    seen = follow(
        policy,
        turns=120,
        num_envs=10,
        tolerance=1e-6,
        max_episode_steps=15,
        sutton_barto_reward=True,
    )
    assert seen["truncations"] > 5
    assert (seen["terminals"] > 5) == (policy is drawn)


def test_the_spaces_are_gymnasiums() -> None:
    theirs = gymnasium.make("CartPole-v1")
    with serial("cartpole") as vec:
        assert vec.single_observation_space == theirs.observation_space
        assert vec.single_action_space == theirs.action_space
    assert (
        theirs.spec is not None
        and theirs.spec.max_episode_steps == CartpoleConfig().max_episode_steps
    )


# ---- ours alone ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 2**32 + 5])
def test_starts_are_drawn_from_the_counter_based_generator(seed: int) -> None:
    with serial("cartpole", {"max_episode_steps": 1}) as vec:
        vec.reset(seed=seed)
        for episode in range(3):
            words = philox.philox((episode, 0, 0, 0), (seed & philox.WORD, seed >> 32))
            np.testing.assert_allclose(
                state_of(vec, 0), [word / 2**32 * 0.1 - 0.05 for word in words], rtol=0, atol=1e-17
            )
            vec.step([0])
            vec.step([0])


def test_a_pole_that_falls_at_the_time_limit_is_a_terminal_alone() -> None:
    with serial("cartpole") as vec:
        vec.reset(seed=1)
        length = 1
        while not vec.step([1])[2][0]:
            length += 1
    with serial("cartpole", {"max_episode_steps": length}) as vec:
        vec.reset(seed=1)
        for _ in range(length):
            _, _, terminals, truncations, _ = vec.step([1])
        assert (terminals[0], truncations[0]) == (True, False)


@pytest.mark.parametrize("old_reward", [False, True])
def test_records_hold_length_return_and_task(old_reward: bool) -> None:
    with serial("cartpole", {"sutton_barto_reward": old_reward}, num_envs=2) as vec:
        vec.set_tasks([1], [0])
        vec.reset(seed=1)
        found = [record.copy() for _ in range(14) for record in vec.step([1, 1])[4].episodes]
    assert [int(record["env"]) for record in found] == [0, 1]
    assert [int(record["task"]) for record in found] == [-1, 0]
    assert [float(r["return"]) for r in found] == [
        -1.0 if old_reward else float(r["length"]) for r in found
    ]
    assert min(int(record["length"]) for record in found) > 5


def test_an_unusable_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_episode_steps is 0: use at least 1"):
        serial("cartpole", {"max_episode_steps": 0})


@pytest.mark.parametrize(("variable", "value"), [(0, np.nan), (1, np.inf), (2, 0.3), (0, -2.5)])
def test_a_saved_state_that_cannot_be_is_refused(variable: int, value: float) -> None:
    with serial("cartpole") as vec:
        vec.reset(seed=0)
        vec.step([0])
        saved = vec.save()
        state = np.frombuffer(saved[0][-64:], np.float64).copy()
        state[variable] = value
        with pytest.raises(WorkerError, match="saved state"):
            vec.load([saved[0][:-64] + state.tobytes()])
