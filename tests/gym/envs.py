# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Tiny envs of the tests: what they return can be worked out by hand, and they fail or sleep on
demand.
"""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Count(gymnasium.Env[Any, Any]):
    """Observes [steps of the episode, first draw of its generator]; the reward is the action; ends
    after `length` steps.

    It returns the same array each time, as C envs do, so that keeping it without a copy shows. The
    info is empty.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}

    def __init__(
        self,
        length: int = 3,
        render_mode: str | None = None,
        high: float = 1e6,
        truncate: bool = False,
    ) -> None:
        self.observation_space = spaces.Box(-high, high, (2,), np.float32)
        self.action_space = spaces.Discrete(5)
        self.length, self.render_mode, self.truncate = length, render_mode, truncate
        self.options: Any = "none"
        self.resets = 0
        self._array = np.zeros(2, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.options, self.resets = options, self.resets + 1
        self._array[:] = 0, self.np_random.integers(1000)
        return self._array, self.info("reset")

    def step(self, action: Any) -> Any:
        self._array[0] += 1
        done = bool(self._array[0] >= self.length)
        ended, cut = (False, done) if self.truncate else (done, False)
        return self._array, float(action), ended, cut, self.info("step")

    def info(self, when: str) -> dict[str, Any]:
        """What `reset` and `step` report."""
        return {}

    def render(self) -> Any:
        return np.full((4, 6, 3), int(self._array[0]), np.uint8)

    def add(self, a: int, b: int = 0) -> int:
        """Something to call."""
        return a + b + self.length

    def slowly(self, seconds: float) -> str:
        """A call that takes its time."""
        time.sleep(seconds)
        return "slept"


class Telling(Count):
    """Reports infos of all sorts; `tell` picks them."""

    def __init__(self, tell: Callable[[str, int], dict[str, Any]], length: int = 3) -> None:
        super().__init__(length)
        self.tell = tell

    def info(self, when: str) -> dict[str, Any]:
        return self.tell(when, int(self._array[0]))


class Rewarding(Count):
    """Its rewards are arrays of one number."""

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        return observation, np.array([reward]), *rest


class Failing(Count):
    """Raises what it is told to, in the constructor, the reset or the step."""

    def __init__(self, where: str, kind: type[Exception] = ValueError) -> None:
        super().__init__()
        self.where, self.kind = where, kind
        self._fail("constructor")

    def _fail(self, where: str) -> None:
        if where == self.where:
            raise self.kind(f"told to fail in {where}")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self._fail("reset")
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        self._fail("step")
        return super().step(action)


class TwoPartError(Exception):
    """An exception that cannot be made from its text: its constructor takes two arguments."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code


class Raising(Count):
    """Raises a TwoPartError in its first step."""

    def step(self, action: Any) -> Any:
        raise TwoPartError(17, "two parts")


class Slow(Count):
    """Sleeps in `reset` or `step`, the first time only."""

    def __init__(self, reset_s: float = 0.0, step_s: float = 0.0) -> None:
        super().__init__(length=100)
        self.reset_s, self.step_s = reset_s, step_s

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        time.sleep(self.reset_s)
        self.reset_s = 0.0
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        time.sleep(self.step_s)
        self.step_s = 0.0
        return super().step(action)


class Spaced(gymnasium.Env[Any, Any]):
    """Samples observations of any space, and keeps the actions it got."""

    def __init__(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], length: int = 3
    ) -> None:
        self.observation_space = copy.deepcopy(observation_space)  # each env its own generator
        self.action_space, self.length = action_space, length
        self.actions: list[Any] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        assert action in self.action_space, (
            f"{action!r} ({type(action).__name__}) is not in {self.action_space}"
        )
        self.actions.append(action)
        self.steps += 1
        return self.observation_space.sample(), 1.0, self.steps >= self.length, False, {}


def count(length: int = 3, **settings: Any) -> Callable[[], Count]:
    """Return what makes a Count."""
    return functools.partial(Count, length, **settings)


def counts(lengths: Sequence[int] = (2, 3, 3), **settings: Any) -> list[Callable[[], Count]]:
    """Return what makes one Count for each length."""
    return [count(length, **settings) for length in lengths]


def telling(
    *tells: Callable[[str, int], dict[str, Any]], length: int = 3
) -> list[Callable[[], Telling]]:
    """Return what makes one Telling for each of `tells`."""
    return [functools.partial(Telling, tell, length) for tell in tells]
