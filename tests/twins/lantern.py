# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Twin of examples/ocean in plain Python: the game of lantern.h, and the turn for which pv_ocean.h
holds an env at its end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from puffervec.testing.reference import philox

RAND_MAX = 2**31 - 1


@dataclass
class Row:
    """What the env shows: (2 * size,) uint8, and the rest."""

    observation: np.ndarray
    reward: float = 0.0
    terminal: bool = False


class LanternTwin:
    """One env with the settings of LanternConfig."""

    def __init__(
        self, seed: int, size: int = 9, max_ticks: int = 32, step_cost: float = 0.01
    ) -> None:
        self.seed, self.size, self.max_ticks = seed, size, max_ticks
        self.step_cost = np.float32(step_cost)
        self.drawn = 0
        self.over = False
        self.episodes: list[tuple[float, int]] = []  # score, length
        self.restart()

    def rand(self) -> int:
        """As rand() within an Ocean header: the next number of the env's own stream."""
        bits = philox.bits64(self.seed, self.drawn >> 32, self.drawn & philox.WORD, 0)
        self.drawn += 1
        return bits % (RAND_MAX + 1)

    def restart(self) -> None:
        self.tick = 0
        self.agent = self.rand() % self.size
        self.lantern = self.rand() % self.size

    def show(self, reward: float = 0.0, terminal: bool = False) -> Row:
        observation = np.zeros(2 * self.size, np.uint8)
        observation[self.agent] = 1
        observation[self.size + self.lantern] = 1
        return Row(observation, reward, terminal)

    def step(self, action: int) -> Row:
        if self.over:
            self.over = False
            return self.show()
        self.tick += 1
        reward, lit = -self.step_cost, action == 3 and self.agent == self.lantern
        if action in (1, 2):
            self.agent = min(max(self.agent + (1 if action == 2 else -1), 0), self.size - 1)
        if action == 3:
            reward += np.float32(1 if lit else -1)
        if action == 3 or self.tick >= self.max_ticks:
            self.episodes.append((float(lit), self.tick))
            self.over = True
            self.restart()
        return self.show(float(reward), self.over)
