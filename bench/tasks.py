# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Small envs with one difficulty each, for bench/defaults.py: rewards of 0 to 1 per step, eight or ten steps an episode."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces


class Task(gymnasium.Env[Any, Any]):
    """A subclass says in `observe` what is shown next, and in `reward` what an action is worth."""

    steps: ClassVar[int] = 8
    clock: int

    def observe(self) -> Any:
        """Return the next observation; `clock` steps have been done in this episode."""
        raise NotImplementedError

    def reward(self, action: Any) -> float:
        """Return what an action is worth after the latest observation."""
        raise NotImplementedError

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.clock = 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action."""
        reward = self.reward(action)
        self.clock += 1
        return self.observe(), reward, self.clock == self.steps, False, {}


class Parts(Task):
    """MultiDiscrete: the share of three choices among 2, 3 and 4 that are those shown; 8 an episode at best."""

    observation_space = action_space = spaces.MultiDiscrete([2, 3, 4])

    def observe(self) -> Any:
        """Return three choices."""
        self.shown = self.np_random.integers(0, [2, 3, 4])
        return self.shown

    def reward(self, action: Any) -> float:
        """Return the share that is right."""
        return float((action == self.shown).mean())


class Recall(Task):
    """Memory: 1 for the choice that was shown four steps ago, when asked for it; 2 an episode at best, 2/3 without memory."""

    choices, round = 3, 5
    steps = 2 * round
    observation_space = spaces.Discrete(choices + 2)
    action_space = spaces.Discrete(choices)

    def observe(self) -> Any:
        """Return a choice, then blanks, then the question."""
        at = self.clock % self.round
        if at == 0:
            self.shown = int(self.np_random.integers(self.choices))
            return self.shown
        return self.choices + (at == self.round - 1)

    def reward(self, action: Any) -> float:
        """Return 1 for the right answer to the question."""
        return float(self.clock % self.round == self.round - 1 and action == self.shown)


class Spot(Task):
    """A picture: 1 for the quarter of 16 x 16 points with a bright spot of 2 x 2 in noise; 8 an episode at best."""

    observation_space = spaces.Box(0, 255, (16, 16, 1), np.uint8)
    action_space = spaces.Discrete(4)

    def observe(self) -> Any:
        """Return a picture."""
        picture = self.np_random.integers(0, 120, (16, 16, 1), dtype=np.uint8)
        y, x = self.np_random.integers(0, 15, 2)
        picture[y : y + 2, x : x + 2] = 255
        self.quarter = 2 * int(y >= 8) + int(x >= 8)
        return picture

    def reward(self, action: Any) -> float:
        """Return 1 for the right quarter."""
        return float(action == self.quarter)
