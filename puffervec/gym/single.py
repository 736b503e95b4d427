# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""One C env as a plain gymnasium.Env in this process: for `gymnasium.make`, inspection and tests.

An env with several agents appears as one env in which a single player moves all of them.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

import puffervec.envs
from puffervec.errors import CallOrderError, ConfigError
from puffervec.gym.rows import copy_batch, row_of
from puffervec.vec.backends import make
from puffervec.vec.settings import MOST_SEED
from puffervec.vec.vector_env import VectorEnv
from puffervec.viewing.render.frames import recorder_of


class NativeEnvView(gymnasium.Env[Any, Any]):
    """One C env.

    With one agent, spaces, reward and flags are the agent's. With A agents an observation is (A,
    F), an action has one entry per agent, the reward is the mean over the live agents, and the
    episode ends when no agent is left (truncated if any agent's last step was). `info` then has
    "rewards" (A,) float32 and "terminals", "truncations", "mask", (A,) bool each: `mask` is True
    for agents that are alive or took their last step. At the end of an episode `info["record"]` has
    "r" and "l", the sum of the rewards and the number of steps.

    >>> env = NativeEnvView("tag_grid", num_taggers=2)
    >>> observation, info = env.reset(seed=0)
    >>> observation.shape, env.action_space
    ((3, 13), MultiDiscrete([5 5 5]))
    >>> env.close()
    """

    # As Gymnasium declares it.
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012

    def __init__(self, env: str, render_mode: str | None = None, **settings: Any) -> None:
        """Open the env.

        Args:
            env: name of a C env.
            render_mode: "rgb_array" where the env has pictures, or None.
            settings: settings of the env, as its config names them.

        Raises:
            ConfigError: a setting cannot be used, or the env has several kinds of agents.
            MissingExtraError: no package to draw with is installed.
        """
        native = puffervec.envs.get(env)
        if render_mode is not None and (render_mode != "rgb_array" or not native.has_pictures):
            modes = "'rgb_array' or None" if native.has_pictures else "None"
            raise ConfigError(f"render_mode is {render_mode!r}: {env!r} takes {modes}")
        if not native.has_pictures:
            self.metadata = {"render_modes": []}
        self.render_mode = render_mode
        self._core = _open_core(env, settings)
        if len(self._core.spec.groups) > 1:
            raise ConfigError(
                f"{env!r} has agents of {len(self._core.spec.groups)} kinds: use "
                "puffervec.pettingzoo"
            )
        self._recorder = None if render_mode is None else recorder_of(native, self._core)
        self._agents = self._core.spec.agents
        self._ended = False
        single = self._core.single_action_space
        self.observation_space, self.action_space = self._core.single_observation_space, single
        if self._agents > 1:
            self.observation_space = self._core.observation_space
            self.action_space = _joint_space(single, self._agents)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: seed of the env; None: begin the next episode of the same seed (at the first
                reset, a random seed).
            options: "task": the task (scene, start layout) to run.

        Returns: (observation, info); arrays are new.

        Raises:
            ConfigError: an option is unknown, or the seed or task cannot be used.
        """
        first = self._np_random is None
        super().reset(seed=seed)
        if seed is None and first:
            seed = int(self.np_random.integers(MOST_SEED))
        observations, _ = self._core.reset(seed, options=options)
        self._core.set_tasks([0], -1)  # A task is for one episode only.
        self._return, self._length, self._ended = 0.0, 0, False
        if self._recorder is not None:
            self._recorder.begin()
        rows = next(iter(self._core.halves[0].groups.values()))
        return self._observation(observations), self._info(
            rows.rewards, rows.terminals, rows.truncations, rows.masks
        )

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step.

        Args:
            action: an element of `action_space`.

        Returns: (observation, reward, terminated, truncated, info); arrays are new.

        Raises:
            ActionError: the action has another kind or shape.
            CallOrderError: the episode is over, or none has begun.
        """
        if self._ended and self._core.autoreset_mode != "disabled":
            raise CallOrderError("step: the episode is over: call reset first")
        live = next(iter(self._core.halves[0].groups.values())).masks.copy()
        batch = [action] if self._agents == 1 else np.asarray(action)
        result = self._core.step(batch)
        try:
            return self._make_result(live, *result[:4])
        except BaseException:  # Such as Ctrl-C, which loses the result.
            self._core.turns.mark_interrupted()
            raise

    def _make_result(
        self,
        live: NDArray[np.bool_],
        observations: Any,
        rewards: Any,
        terminals: Any,
        truncations: Any,
    ) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        rows = next(iter(self._core.halves[0].groups.values()))
        if self._recorder is not None:
            self._recorder.add()
        reward = float(rewards[live & rows.masks].mean()) if (live & rows.masks).any() else 0.0
        over = not (rows.masks & ~(terminals | truncations)).any()
        truncated = over and bool((truncations & rows.masks).any())
        info = self._info(rewards, terminals, truncations, rows.masks)
        self._return, self._length = self._return + reward, self._length + 1
        self._ended = over
        if over:
            info["record"] = {"r": self._return, "l": self._length}
        return self._observation(observations), reward, over and not truncated, truncated, info

    def _observation(self, observations: Any) -> Any:
        return copy_batch(observations) if self._agents > 1 else row_of(observations, 0)

    def _info(
        self, rewards: Any, terminals: Any, truncations: Any, masks: NDArray[np.bool_]
    ) -> dict[str, Any]:
        if self._agents == 1:
            return {}
        return {
            "rewards": rewards.copy(),
            "terminals": terminals.copy(),
            "truncations": truncations.copy(),
            "mask": masks.copy(),
        }

    def render(self) -> NDArray[np.uint8] | None:
        """Return a picture of the env now, (H, W, 3) uint8, or None if render_mode is None.

        All pictures have the same size.

        Raises:
            CallOrderError: before the first reset.
            ConfigError: the env's drawing failed.
        """
        return None if self._recorder is None else self._recorder.picture()

    def close(self) -> None:
        self._core.close()


def _open_core(env: str, settings: dict[str, Any]) -> VectorEnv:
    """Open the env without autoreset, or in next-step mode if it supports no other.

    An env in the style of PufferLib's Ocean resets itself, so it supports only that mode.
    """
    try:
        return make(
            env, env_kwargs=settings, backend="serial", seed=None, autoreset_mode="disabled"
        )
    except ConfigError as error:
        try:
            return make(
                env, env_kwargs=settings, backend="serial", seed=None, autoreset_mode="next_step"
            )
        except ConfigError:
            raise error from None


def _joint_space(single: gymnasium.Space[Any], agents: int) -> gymnasium.Space[Any]:
    """Return the space of all agents' actions: (A,) choices, (A, D) choices, or a (A, D) Box."""
    if isinstance(single, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(np.tile(single.nvec, (agents, 1)))
    return batch_space(single, agents)
