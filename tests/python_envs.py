# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Small Python envs for the tests of the core: they count, fail on demand, and write rows as
PufferLib's envs do.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from puffervec import PufferEnv


class Counting(gymnasium.Env[Any, Any]):
    """Shows (seed of the last seeded reset, episode since then, step, last action); rewards step +
    action / 8.

    Episodes last `length` steps and end as terminal and as truncation in turn. Infos: after a reset
    the options, if any; at the end of an episode {"steps": int, "why": str}.
    """

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (4,)), spaces.Discrete(8)

    def __init__(self, length: int = 3, label: str = "", log: str | None = None) -> None:
        self.length, self.label, self.log = length, label, log
        self.seed, self.episode, self.t = -1, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode += 1
        if seed is not None:
            self.seed, self.episode = seed, 0
        self.t = 0
        return self.seen(0), {} if options is None else {"options": options}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        over = self.t >= self.length
        terminated = over and self.episode % 2 == 0
        info = {"steps": self.t, "why": f"{self.label} {self.episode}"} if over else {}
        return self.seen(action), self.t + action / 8, terminated, over and not terminated, info

    def seen(self, action: Any) -> np.ndarray:
        """Return the observation."""
        return np.array([self.seed, self.episode, self.t, action], np.float32)

    def told(self, *args: Any, **kwargs: Any) -> Any:
        """Return what it was called with."""
        return (self.label, args, kwargs)

    def close(self) -> None:
        """Leave a mark."""
        if self.log is not None:
            with Path(self.log).open("a") as file:
                file.write(f"{self.label} closed\n")


class TwoPartsError(Exception):
    """Pickles, but cannot be made again from its pickle."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


class LocalError(Exception):
    """Holds what cannot be pickled."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.held = sys._getframe()


def fail(kind: str) -> Any:
    """Fail in one of many ways."""
    if kind == "hang":
        while True:
            time.sleep(0.05)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind in ("segv", "abort"):
        os.kill(os.getpid(), {"segv": signal.SIGSEGV, "abort": signal.SIGABRT}[kind])
    if kind == "exit":
        sys.exit(3)
    if kind == "exit at once":
        os._exit(3)
    errors = {
        "value": ValueError("told to fail"),
        "two parts": TwoPartsError("this", "that"),
        "local": LocalError("holds a frame"),
        "interrupt": KeyboardInterrupt(),
        "long": RuntimeError("x" * 20_000),
        "not ascii": RuntimeError("é \udcff 漢"),
    }
    raise errors[kind]


class Faulty(Counting):
    """Fails in one way at one place: "init", "reset", "step", "close" or "call"."""

    def __init__(self, place: str = "", kind: str = "value", **kwargs: Any) -> None:
        super().__init__(**{"length": 100, **kwargs})
        self.place, self.kind = place, kind
        self._fail("init")

    def _fail(self, place: str) -> None:
        if self.place == place:
            fail(self.kind)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self._fail("reset")
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        result = super().step(action)
        if self.t == 2:
            self._fail("step")
        return result

    def told(self, *args: Any, **kwargs: Any) -> Any:
        self._fail("call")
        return super().told(*args, **kwargs)

    def close(self) -> None:
        super().close()
        self._fail("close")


class Walkers(PufferEnv):
    """Agents that walk by their action and start anew at 5; each agent's row is (place, steps).
    Infos: who arrived.
    """

    def __init__(
        self, num_agents: int = 3, in_place: bool = True, buf: Any = None, seed: int = 0
    ) -> None:
        self.single_observation_space = spaces.Box(-100, 1000, (2,))
        self.single_action_space = spaces.Discrete(3)
        self.num_agents, self.in_place, self.first_seed = num_agents, in_place, seed
        super().__init__(buf)
        self.place, self.steps, self.action_dtypes = np.zeros(num_agents), 0, set()

    def reset(self, seed: int | None = None) -> Any:
        self.place[:] = 0
        self.steps = 0 if seed is None else seed
        return self._shown(np.zeros(self.num_agents), np.zeros(self.num_agents, bool), [])[0], []

    def step(self, actions: Any) -> Any:
        self.action_dtypes.add(str(actions.dtype))
        self.steps += 1
        self.place += actions
        arrived = self.place >= 5
        infos = [
            {"arrived": int(agent), "name": f"agent {agent}"} for agent in np.flatnonzero(arrived)
        ]
        result = self._shown(self.place / 4, arrived, infos)
        self.place[arrived] = 0
        return result

    def _shown(self, rewards: np.ndarray, arrived: np.ndarray, infos: list[Any]) -> Any:
        observations = np.stack([self.place, np.full(self.num_agents, self.steps)], 1).astype(
            np.float32
        )
        if not self.in_place:
            return (
                observations,
                rewards.astype(np.float32),
                arrived.copy(),
                np.zeros(self.num_agents, bool),
                infos,
            )
        self.observations[:], self.rewards[:], self.terminals[:] = observations, rewards, arrived
        self.truncations[:] = False
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def close(self) -> None:
        """Nothing is held."""


def walkers_without_rows(num_agents: int = 3, in_place: bool = True) -> Walkers:
    """Make walkers as somebody does who does not pass `buf` on."""
    return Walkers(num_agents, in_place)
