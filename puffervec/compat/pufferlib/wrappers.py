# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Wrappers that adapt an env to the interface that emulation needs. They run in the workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium

from puffervec.workers.python.emulation.resets import reset_of

__all__ = ["GymToGymnasium", "PettingZooTruncatedWrapper", "PettingZooWrapper"]


class GymToGymnasium(gymnasium.Env[Any, Any]):
    """An env of the old Gym interface (reset() -> obs, step() -> 4-tuple) as a Gymnasium env.

    An episode that Gym's TimeLimit ended (info["TimeLimit.truncated"]) counts as truncated, every
    other end as terminal. Gym itself is not imported.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.metadata = dict(getattr(env, "metadata", None) or {})
        self.render_mode = getattr(env, "render_mode", None)
        self._reset = reset_of(env)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset, after env.seed(seed) if the env has it; the old interface has no options."""
        return self._reset(seed, None), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step, and split "done" into terminated and truncated."""
        observation, reward, done, info = self.env.step(action)
        truncated = bool(done) and bool(info.get("TimeLimit.truncated", False))
        return observation, reward, bool(done) and not truncated, truncated, info

    def render(self) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()


class PettingZooWrapper:
    """Base of wrappers of a PettingZoo ParallelEnv; undefined attributes are the env's."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self._reset = reset_of(env)

    def __getattr__(self, name: str) -> Any:
        # "env" is missing only while a copy is being unpickled.
        if name.startswith("_") or name == "env":
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.env, name)

    @property
    def unwrapped(self) -> Any:
        return self.env.unwrapped

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Return (observations, infos), each by agent."""
        return self._reset(seed, options)  # type: ignore[no-any-return]

    def step(self, actions: Mapping[Any, Any]) -> tuple[dict[Any, Any], ...]:
        """Return (observations, rewards, terminations, truncations, infos), each by agent."""
        return self.env.step(actions)  # type: ignore[no-any-return]

    def observation_space(self, agent: Any) -> gymnasium.Space[Any]:
        return self.env.observation_space(agent)  # type: ignore[no-any-return]

    def action_space(self, agent: Any) -> gymnasium.Space[Any]:
        return self.env.action_space(agent)  # type: ignore[no-any-return]

    def render(self) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    def __str__(self) -> str:
        return f"{type(self).__name__}<{self.env}>"


class PettingZooTruncatedWrapper(PettingZooWrapper):
    """Replaces the infos of `reset` by an empty one for every agent with a first observation.

    This is for envs whose reset returns no infos, or unusable ones.
    """

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        observations, _ = super().reset(seed, options)
        return observations, {agent: {} for agent in observations}
