# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The envs that every library steps, as functions that make one, and their actions.

Runs in all processes of a sample. Gymnasium's checking wrapper is omitted for all libraries; time
limits and order checks are included.
"""

from __future__ import annotations

import functools
import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

SEED = 1
BATCHES = 64  # Batches of actions that are drawn in advance.
STEP_S = 200e-6  # Mean step time of the log-normal envs.
SIGMA = 1.0


class DoNothing(gymnasium.Env[Any, Any]):
    """An env that always returns the same 64 floats, so that only the library costs time."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (64,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self._observation = np.zeros(64, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Return the observation."""
        return self._observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return the observation."""
        return self._observation, 0.0, False, False, {}


class LogNormal(gymnasium.Env[Any, Any]):
    """An env whose step times are drawn from a log-normal distribution (mean STEP_S, sigma SIGMA).

    They depend only on the seed.
    """

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (8,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, busy: bool) -> None:
        """Make the env.

        Args:
            busy: whether steps keep a core busy, like a simulator; else they sleep, as if waiting
                for another machine.
        """
        self._busy = busy
        self._observation = np.zeros(8, np.float32)
        self._times: list[float] = []
        self._step = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Draw the step times."""
        super().reset(seed=seed)
        times = self.np_random.lognormal(math.log(STEP_S) - SIGMA**2 / 2, SIGMA, 4096)
        self._times, self._step = times.tolist(), 0
        return self._observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Wait for the next step time."""
        seconds = self._times[self._step % len(self._times)]
        self._step += 1
        if self._busy:
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                pass
        else:
            time.sleep(seconds)
        return self._observation, 0.0, False, False, {}


class NoText(gymnasium.ObservationWrapper[Any, Any, Any]):
    """A wrapper that removes MiniGrid's mission.

    A Text space does not fit into a row of numbers, and several of the libraries refuse it.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        assert isinstance(env.observation_space, gymnasium.spaces.Dict)
        kept = {name: space for name, space in env.observation_space.items() if name != "mission"}
        self.observation_space = gymnasium.spaces.Dict(kept)

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        """Return the observation without the mission."""
        return {name: value for name, value in observation.items() if name != "mission"}


def cartpole() -> gymnasium.Env[Any, Any]:
    """Make Gymnasium's CartPole-v1, in Python."""
    return gymnasium.make("CartPole-v1", disable_env_checker=True)


def pong() -> gymnasium.Env[Any, Any]:
    """Make ALE Pong with the usual wrappers: 84 x 84 grey pixels, frames skipped and stacked."""
    import ale_py  # Registers the games.
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    game = gymnasium.make("ALE/Pong-v5", frameskip=1, disable_env_checker=True)
    return FrameStackObservation(AtariPreprocessing(game), 4)


def minigrid() -> gymnasium.Env[Any, Any]:
    """Make MiniGrid's DoorKey-8x8, whose observations are a Dict of an image and a direction."""
    import minigrid  # noqa: F401  registers the envs

    return NoText(gymnasium.make("MiniGrid-DoorKey-8x8-v0", disable_env_checker=True))


def mujoco() -> gymnasium.Env[Any, Any]:
    """Make HalfCheetah-v5: 17 float64, continuous actions, four numbers in each info."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gymnasium.make("HalfCheetah-v5", disable_env_checker=True)


MAKERS: dict[str, Callable[[], Any]] = {
    "cartpole": cartpole,
    "noop": DoNothing,
    "pong": pong,
    "minigrid": minigrid,
    "mujoco": mujoco,
    "lognormal_busy": functools.partial(LogNormal, True),
    "lognormal_sleep": functools.partial(LogNormal, False),
}


def draw_actions(space: gymnasium.Space[Any], rows: int, dtype: Any = None) -> list[np.ndarray]:
    """Return BATCHES batches of random actions, the same ones in every run.

    They are (rows,) int64, or (rows, D) of the space's dtype.
    """
    rng = np.random.default_rng(SEED)
    if isinstance(space, gymnasium.spaces.Discrete):
        return list(rng.integers(0, space.n, (BATCHES, rows)).astype(dtype or np.int64))
    assert isinstance(space, gymnasium.spaces.Box)
    return list(
        rng.uniform(space.low, space.high, (BATCHES, rows, *space.shape)).astype(
            dtype or space.dtype
        )
    )
