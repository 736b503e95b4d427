# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The slow, obvious twin of tag_grid: discrete Tag of one env, written from the game's description, not from csrc/tag/grid.c.

Agents 0 to N-2 are taggers, agent N-1 is the runner. Cells are 0 to L in both axes. What differs from WarpDrive is said where
it is done: a tag is a terminal, the time limit a truncation, and a finished env restarts at its next step, whose actions are
ignored.
Runs in the tests only; all numbers are Python's, rounded to float32 at the very end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MOVES = {0: (0, 0), 1: (1, 0), 2: (-1, 0), 3: (0, 1), 4: (0, -1)}


@dataclass
class TwinRows:
    """What the env shows of one step: observations (N, F) float32, rewards (N,) float32, and the flags of the whole env."""

    observations: np.ndarray
    rewards: np.ndarray
    terminal: bool
    truncation: bool


class TagGridTwin:
    """One env of discrete Tag. The keywords are those of TagGridWorld."""

    def __init__(
        self,
        num_taggers: int = 10,
        grid_length: int = 10,
        episode_length: int = 100,
        wall_hit_penalty: float = 0.1,
        tag_reward_for_tagger: float = 10.0,
        tag_penalty_for_runner: float = 2.0,
        step_cost_for_tagger: float = 0.01,
        use_full_observation: bool = True,
        starting_location_x: Sequence[int] | None = None,
        starting_location_y: Sequence[int] | None = None,
    ) -> None:
        """Start cells: one per agent; None puts the taggers into the middle and the runner at (0, 0)."""
        self.agents = num_taggers + 1
        self.runner = num_taggers
        self.length = grid_length
        self.episode_length = episode_length
        self.wall_hit_penalty = wall_hit_penalty
        self.tag_reward = tag_reward_for_tagger
        self.tag_penalty = tag_penalty_for_runner
        self.step_cost = step_cost_for_tagger
        self.full = use_full_observation
        middle = int(0.5 * grid_length)
        default = [middle] * num_taggers + [0]
        self.start_x = default if starting_location_x is None else [int(x) for x in starting_location_x]
        self.start_y = default if starting_location_y is None else [int(y) for y in starting_location_y]
        self.over = False

    def reset(self, start_x: Sequence[int] | None = None, start_y: Sequence[int] | None = None) -> TwinRows:
        """Begin an episode, at the given cells if there are any (random starts, start layouts)."""
        self.x = [int(x) for x in (self.start_x if start_x is None else start_x)]
        self.y = [int(y) for y in (self.start_y if start_y is None else start_y)]
        self.t = 0
        self.over = False
        return TwinRows(self.observe(), np.zeros(self.agents, np.float32), False, False)

    def step(self, actions: Sequence[int]) -> TwinRows:
        """Move all agents at once; after a finished episode ignore the actions and reset (next-step autoreset)."""
        if self.over:
            return self.reset()
        self.t += 1
        hit_wall = []
        for i in range(self.agents):
            dx, dy = MOVES[int(actions[i])]
            wanted_x, wanted_y = self.x[i] + dx, self.y[i] + dy
            self.x[i] = min(max(wanted_x, 0), self.length)
            self.y[i] = min(max(wanted_y, 0), self.length)
            hit_wall.append(self.x[i] != wanted_x or self.y[i] != wanted_y)
        tag = any(self.x[i] == self.x[self.runner] and self.y[i] == self.y[self.runner] for i in range(self.runner))
        rewards = []
        for i in range(self.agents):
            if i == self.runner:
                reward = -self.tag_penalty if tag else self.step_cost
            else:
                reward = self.tag_reward if tag else -self.step_cost
            rewards.append(reward - (self.wall_hit_penalty if hit_wall[i] else 0.0))
        # Not WarpDrive's: it knows one `done`. A tag in the very last step is a terminal and no truncation.
        out_of_time = self.t >= self.episode_length
        self.over = tag or out_of_time
        return TwinRows(self.observe(), np.array(rewards, np.float32), tag, out_of_time and not tag)

    def observe(self) -> np.ndarray:
        """Return (N, 4 N + 1) or (N, 6) float32."""
        return np.array([self._full(i) if self.full else self._partial(i) for i in range(self.agents)], np.float32)

    def _full(self, me: int) -> list[float]:
        everyone = range(self.agents)
        xs = [self.x[j] / self.length for j in everyone]
        ys = [self.y[j] / self.length for j in everyone]
        types = [1.0 if j == self.runner else 0.0 for j in everyone]
        one_hot = [1.0 if j == me else 0.0 for j in everyone]
        return [*xs, *ys, *types, *one_hot, self.t / self.episode_length]

    def _partial(self, me: int) -> list[float]:
        other = self.nearest_tagger() if me == self.runner else self.runner
        return [
            self.x[me] / self.length,
            self.y[me] / self.length,
            self.x[other] / self.length,
            self.y[other] / self.length,
            1.0 if me == self.runner else 0.0,
            self.t / self.episode_length,
        ]

    def nearest_tagger(self) -> int:
        """The tagger nearest to the runner by squared distance; the lowest id where several are."""
        squared = [(self.x[j] - self.x[self.runner]) ** 2 + (self.y[j] - self.y[self.runner]) ** 2 for j in range(self.runner)]
        return squared.index(min(squared))
