# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Envs of the tests of the SB3 adapter, in a module that workers can import without
Stable-Baselines3 and torch.
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Counter(gymnasium.Env[np.ndarray, int]):
    """Ends as a terminal after `length` steps; rewards 0.1, 0.2, ..."""

    observation_space = spaces.Box(0, 100, (1,))
    action_space = spaces.Discrete(2)

    def __init__(self, length: int = 3) -> None:
        self.length, self.at, self.colour = length, 0, "red"

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None, level: int = 0
    ) -> Any:
        self.at, self.options = 0, options
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        if self.length < 0:
            raise ZeroDivisionError("the counter counts nothing")
        self.at += 1
        return (
            np.full(1, self.at, np.float32),
            0.1 * self.at,
            self.at == self.length,
            False,
            {"depth": 10 * self.at},
        )

    def loaded(self, modules: set[str]) -> set[str]:
        return modules & set(sys.modules)

    def paint(self, colour: str, coats: int = 1) -> str:
        return f"{colour} x {coats}"


class Rich(gymnasium.Env[dict[str, Any], np.ndarray]):
    """Dict observations of mixed types, options, infos of all kinds, pictures; ends or is cut off
    in turn.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}
    observation_space = spaces.Dict(
        {
            "box": spaces.Box(-np.inf, np.inf, (2, 2), np.float32),
            "choice": spaces.Discrete(5),
            "pixels": spaces.Box(0, 255, (3,), np.uint8),
        }
    )
    action_space = spaces.MultiDiscrete([3, 4])

    def __init__(self, length: int = 4, render_mode: str | None = None) -> None:
        self.length, self.render_mode, self.at, self.episode, self.colour = (
            length,
            render_mode,
            0,
            0,
            "red",
        )
        self.options: dict[str, Any] | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.at, self.episode, self.options = 0, self.episode + 1, options
        return self.look(), {"start": float(self.episode), "word": "go"}

    def step(self, action: np.ndarray) -> Any:
        self.at += 1
        over, even = self.at >= self.length, self.episode % 2 == 0
        info = (
            {"at": self.at, "array": np.arange(self.at), "nested": {"x": 0.5, "s": "y"}}
            if self.at % 2
            else {}
        )
        return (
            self.look(),
            float(action[0] * 10 + action[1]),
            over and even,
            over and not even,
            info,
        )

    def look(self) -> dict[str, Any]:
        return {
            "box": self.np_random.normal(size=(2, 2)).astype(np.float32),
            "choice": self.at % 5,
            "pixels": np.full(3, self.episode, np.uint8),
        }

    def render(self) -> Any:
        return np.full((4, 6, 3), self.at, np.uint8)

    def paint(self, colour: str, coats: int = 1) -> str:
        if coats < 0:
            raise KeyError(f"{coats} coats")
        self.colour = colour
        return f"{colour} x {coats}"


class Deep(Counter):
    """A Dict inside a Dict."""

    observation_space = spaces.Dict({"a": spaces.Dict({"b": spaces.Box(0, 1, (1,))})})  # type: ignore[assignment]


class Choosing(gymnasium.Env[Any, Any]):
    """Observes the sum of its last action, a Dict or a Tuple."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = spaces.Dict(
        gear=spaces.Discrete(5),
        lights=spaces.MultiBinary(2),
        wheel=spaces.Box(-1, 1, (2,), np.float32),
    )

    def __init__(self, action_space: Any) -> None:
        self.action_space = action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action: Any) -> Any:
        assert action in self.action_space
        parts = action.values() if isinstance(action, dict) else action
        return np.full(1, sum(float(np.sum(part)) for part in parts)), 0.0, False, False, {}
