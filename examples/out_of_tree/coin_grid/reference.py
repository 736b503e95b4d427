# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The game of coin_grid.c in Python, to compare with: `puffervec.check_env_equal("coin_grid",
CoinGrid, steps=10_000)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from puffervec.testing.reference.philox import below

MOVES = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))


class CoinGrid:
    """One env, with Gymnasium's reset and step."""

    def __init__(
        self,
        size: int = 6,
        episode_length: int = 64,
        coin_reward: float = 1.0,
        pit_penalty: float = 1.0,
    ) -> None:
        self.size, self.episode_length, self.coin_reward, self.pit_penalty = (
            size,
            episode_length,
            coin_reward,
            pit_penalty,
        )

    def reset(self, seed: int | None = None) -> Any:
        self.seed, self.episode = (self.seed, self.episode + 1) if seed is None else (seed, 0)
        self.steps = 0
        self.agent, self.pit = self._drawn(1), self._drawn(2)
        if self.pit == self.agent:
            self.pit = self._next(self.pit)
        self._place_coin()
        return self._observation(), {}

    def step(self, action: int) -> Any:
        self.steps += 1
        (x, y), (dx, dy) = self.agent, MOVES[action]
        self.agent = min(max(x + dx, 0), self.size - 1), min(max(y + dy, 0), self.size - 1)
        fell, found = self.agent == self.pit, self.agent == self.coin
        if found:
            self._place_coin()
        reward = -self.pit_penalty if fell else self.coin_reward if found else 0.0
        late = self.steps >= self.episode_length
        return self._observation(), reward, fell, late and not fell, {"events": {"coins": found}}

    def state(self) -> dict[str, Any]:
        """What `vec.peek` shows: compared, too."""
        return {"agent": self.agent, "coin": self.coin, "pit": self.pit}

    def _observation(self) -> np.ndarray:
        return np.float32([*self.agent, *self.coin, *self.pit]) / np.float32(self.size)

    def _place_coin(self) -> None:
        self.coin = self._drawn(0)
        while self.coin in (self.pit, self.agent):
            self.coin = self._next(self.coin)

    def _drawn(self, draw: int) -> tuple[int, int]:
        """A cell, with the draws of pv_rng_below in C."""
        x, y = (
            below(self.seed, self.episode, self.steps, 2 * draw + axis, self.size)
            for axis in range(2)
        )
        return x, y

    def _next(self, cell: tuple[int, int]) -> tuple[int, int]:
        index = (cell[1] * self.size + cell[0] + 1) % self.size**2
        return index % self.size, index // self.size
