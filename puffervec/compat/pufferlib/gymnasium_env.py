# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A Gymnasium env whose observations and actions are flat rows, as PufferLib wraps it."""

from __future__ import annotations

from typing import Any

import gymnasium

from puffervec.compat.pufferlib.puffer_rows import EmulatedRows
from puffervec.python.env import GYMNASIUM


class GymnasiumPufferEnv(EmulatedRows, gymnasium.Env[Any, Any]):
    """One agent. Observations are written in place into one row; a done env must be reset by the caller."""

    emulates = GYMNASIUM

    done = True
    _next_seed: int | None = None

    def _open(self, buf: Any) -> None:
        self._plan(self.env.observation_space, self.env.action_space, 1, buf)
        self.observation_space, self.action_space = self.single_observation_space, self.single_action_space

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode.

        Returns:
            observations: (1, *row), the buffer itself, valid until the next call. info: the env's.
        Raises:
            SpaceMismatchError: the first observation does not fit the space.
        """
        if seed is None:
            seed = self._next_seed
        self._next_seed = None
        observation, info = self._reset_env(seed, options)
        self.initialized, self.done = True, False
        self._store(observation, 0.0, False, False)
        return self.observations, info

    def seed(self, seed: int | None) -> None:
        """Seed the env's next reset. An env with a `seed` method (the old Gym interface) is seeded at once, too."""
        self._next_seed = seed
        own = getattr(self.env, "seed", None)
        if callable(own):
            own(seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step with a flat action: a member of `action_space`, or a batch of one.

        Returns:
            observations: (1, *row), the buffer itself, valid until the next call. The rest is what the env gave.
        Raises:
            APIUsageError: before reset, after the end of an episode, or an action that does not fit.
        """
        self._require_turn(self.done)
        observation, reward, terminated, truncated, info = self.env.step(self._native_action(0, action))
        self._store(observation, reward, terminated, truncated)
        self.done = bool(terminated or truncated)
        return self.observations, reward, terminated, truncated, info

    def _store(self, observation: Any, reward: Any, terminated: bool, truncated: bool) -> None:
        if not self.is_observation_checked:
            self.observation_plan.check(observation)
            self.is_observation_checked = True
        self._write[0](observation)
        self.rewards[0], self.terminals[0], self.truncations[0] = reward, terminated, truncated
        self.masks[0] = True
