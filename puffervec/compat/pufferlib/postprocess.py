# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""PufferLib's postprocessing wrappers: episode statistics, clipped actions, smaller images.

Run in the workers.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from puffervec.compat.pufferlib.utils import unroll_nested_dict
from puffervec.compat.pufferlib.wrappers import PettingZooWrapper
from puffervec.errors import ConfigError
from puffervec.workers.python.emulation.resets import reset_of

__all__ = [
    "ClipAction",
    "EpisodeStats",
    "MeanOverAgents",
    "MultiagentEpisodeStats",
    "ResizeObservation",
]

Array = np.ndarray


class _Totals:
    """Sums over one episode: episode_return, episode_length, and the numbers in the infos."""

    def __init__(self) -> None:
        self.sums: dict[str, Any] = {"episode_return": 0.0, "episode_length": 0}

    def add(self, reward: Any, info: Mapping[str, Any]) -> None:
        for key, value in unroll_nested_dict(info):
            numeric_array = isinstance(value, Array) and value.dtype.kind in "biuf"
            if numeric_array or isinstance(value, (numbers.Real, np.bool_)):
                # Adding 0 turns a bool into a number, and copies an array that the env may reuse.
                self.sums[key] = self.sums[key] + value if key in self.sums else 0 + value
        self.sums["episode_return"] += reward
        self.sums["episode_length"] += 1


class EpisodeStats(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Reports an episode's sums in the info of its last step; other infos are empty.

    The last info holds episode_return, episode_length (steps), and the sum over the episode of
    every number and numeric array of the env's infos (nested ones as "outer/inner"). Other values
    (texts, objects) are left out.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._totals = _Totals()
        self._reset = reset_of(env)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new sums; return the env's result."""
        self._totals = _Totals()
        return self._reset(seed, options)  # type: ignore[no-any-return]

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the env and add the step to the sums."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._totals.add(reward, info)
        return (
            observation,
            reward,
            terminated,
            truncated,
            dict(self._totals.sums) if terminated or truncated else {},
        )


class ClipAction(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Takes any finite action and clips it into the env's Box."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        """Args: env: env with a Box action space. Raises: ConfigError: the space is no Box."""
        super().__init__(env)
        space = env.action_space
        if not isinstance(space, gymnasium.spaces.Box):
            raise ConfigError(f"ClipAction: the action space is {space}: only a Box can be clipped")
        bounds = np.finfo(space.dtype) if space.dtype.kind == "f" else np.iinfo(space.dtype)
        self._low, self._high = space.low, space.high
        self.action_space = gymnasium.spaces.Box(
            bounds.min, bounds.max, space.shape, space.dtype.type
        )

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step with the clipped action."""
        return self.env.step(np.clip(action, self._low, self._high))


class ResizeObservation(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Takes every n-th row and column of an image, without averaging, in a few microseconds."""

    def __init__(self, env: gymnasium.Env[Any, Any], downscale: int = 2) -> None:
        """Compute the space of smaller images.

        Args:
            env: env whose observations are images (H, W) or (H, W, C).
            downscale: a divisor of H and W.

        Raises: ConfigError.
        """
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) not in (2, 3):
            raise ConfigError(
                f"ResizeObservation: the observation space is {space}: must be a Box of shape "
                "(H, W) or (H, W, C)"
            )
        if downscale < 1 or space.shape[0] % downscale or space.shape[1] % downscale:
            raise ConfigError(
                f"ResizeObservation: downscale is {downscale}: use a divisor of height and width, "
                f"{space.shape[:2]}"
            )
        self.downscale = downscale
        self._reset = reset_of(env)
        self.observation_space = gymnasium.spaces.Box(
            self._small(space.low), self._small(space.high), dtype=space.dtype.type
        )

    def _small(self, image: Array) -> Array:
        return image[:: self.downscale, :: self.downscale]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset; the returned image is a view on the env's image."""
        observation, info = self._reset(seed, options)
        return self._small(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step; the returned image is a view on the env's image."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._small(observation), reward, terminated, truncated, info


class MeanOverAgents(PettingZooWrapper):
    """Merges the infos of agents: the mean of each key over the agents that report a number."""

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Return (observations by agent, one info)."""
        observations, infos = super().reset(seed, options)
        return observations, _mean(infos)

    def step(self, actions: Mapping[Any, Any]) -> tuple[dict[Any, Any], ...]:
        """Return (observations, rewards, terminations, truncations by agent, one info)."""
        *rest, infos = super().step(actions)
        return *rest, _mean(infos)


def _mean(infos: Mapping[Any, Mapping[str, Any]]) -> dict[str, Any]:
    """Average each key over the agents; values that are not numbers are left out."""
    by_key: dict[str, list[Any]] = {}
    for info in infos.values():
        for key, value in info.items():
            if isinstance(value, (numbers.Real, np.bool_)):
                by_key.setdefault(key, []).append(value)
    return {key: float(np.mean(values)) for key, values in by_key.items()}


class MultiagentEpisodeStats(PettingZooWrapper):
    """Reports each agent's sums in the info of its last step: `EpisodeStats` for ParallelEnvs."""

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin new sums; return the env's result."""
        observations, infos = super().reset(seed, options)
        self._totals = {agent: _Totals() for agent in self.env.possible_agents}
        return observations, infos

    def step(self, actions: Mapping[Any, Any]) -> tuple[dict[Any, Any], ...]:
        """Step and add to the sums; only agents whose episode ended have an info that is not {}."""
        observations, rewards, terminations, truncations, infos = super().step(actions)
        reports = {}
        for agent, reward in rewards.items():
            totals = self._totals[agent]
            totals.add(reward, infos.get(agent, {}))
            ended = terminations[agent] or truncations[agent]
            reports[agent] = dict(totals.sums) if ended else {}
        return observations, rewards, terminations, truncations, reports
