# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The rules of `tag_grid` for one env in plain NumPy, for readers and for comparisons.

Taggers chase one runner on a grid. The game, its parameter names, action order and observation are
those of TagGridWorld in WarpDrive (Lan, Srinivasa, Wang, Zheng, "Extremely Fast End-to-End Deep
Multi-Agent RL on a GPU", 2021). Unlike WarpDrive it distinguishes how an episode ends: a tag is a
termination, the time limit a truncation. See puffervec.check_env_equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MOVES = np.array([(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)])  # (dx, dy) of each action.


class TagGrid:
    """One env of N agents: 0 to N-2 are taggers, agent N-1 is the runner.

    Cells are 0 to grid_length in both axes.

    Attributes:
        x, y: (N,) int, the cells of the agents.
        time: steps of this episode.
        agents: N.
        agent_types: (N,), 0 for taggers and 1 for the runner.
    """

    def __init__(
        self,
        num_taggers: int = 10,
        grid_length: int = 10,
        episode_length: int = 100,
        starting_location_x: Sequence[int] | None = None,
        starting_location_y: Sequence[int] | None = None,
        seed: int | None = None,
        wall_hit_penalty: float = 0.1,
        tag_reward_for_tagger: float = 10.0,
        tag_penalty_for_runner: float = 2.0,
        step_cost_for_tagger: float = 0.01,
        use_full_observation: bool = True,
    ) -> None:
        """Store the parameters of TagGridWorld.

        There is one start cell per agent; None puts the taggers into the middle and the runner at
        (0, 0). `seed` is accepted for WarpDrive's configs, but nothing in the game is random.
        """
        self.agents = num_taggers + 1
        self.agent_types = np.array([0] * num_taggers + [1])
        self.grid_length, self.episode_length = grid_length, episode_length
        default = [int(0.5 * grid_length)] * num_taggers + [0]
        self.starting_location_x = np.array(
            default if starting_location_x is None else starting_location_x
        )
        self.starting_location_y = np.array(
            default if starting_location_y is None else starting_location_y
        )
        self.wall_hit_penalty = np.float32(wall_hit_penalty)
        self.rewards_of_a_tag = self._per_agent(tag_reward_for_tagger, -tag_penalty_for_runner)
        self.rewards_of_other_steps = self._per_agent(-step_cost_for_tagger, step_cost_for_tagger)
        self.use_full_observation = use_full_observation
        self.reset()

    def _per_agent(self, of_taggers: float, of_runner: float) -> np.ndarray:
        return np.where(self.agent_types == 0, of_taggers, of_runner).astype(np.float32)

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode. Every episode has the same start; `seed` has no effect.

        Returns: observations: (N, 4 N + 1) or (N, 6) float32. infos: empty.
        """
        self.x, self.y, self.time = (
            self.starting_location_x.copy(),
            self.starting_location_y.copy(),
            0,
        )
        return self._observations(), {}

    def step(
        self, actions: Sequence[int] | np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, bool, bool, dict[str, Any]]:
        """Move all agents simultaneously.

        Args:
            actions: (N,) int, 0 to 4: stay, x + 1, x - 1, y + 1, y - 1.

        Returns: observations: as `reset`. rewards: (N,) float32. terminated: the runner was tagged.
        truncated: the time is over. infos: "events" has counts.
        """
        self.time += 1
        moves = MOVES[np.asarray(actions)]
        wanted_x, wanted_y = self.x + moves[:, 0], self.y + moves[:, 1]
        self.x, self.y = (
            np.clip(wanted_x, 0, self.grid_length),
            np.clip(wanted_y, 0, self.grid_length),
        )
        hit_wall = (self.x != wanted_x) | (self.y != wanted_y)

        # Agents that swap their cells do not meet. A tag rewards every tagger, not only the one
        # that tagged.
        tag = bool(((self.x[:-1] == self.x[-1]) & (self.y[:-1] == self.y[-1])).any())
        rewards = self.rewards_of_a_tag if tag else self.rewards_of_other_steps
        rewards = np.where(hit_wall, rewards - self.wall_hit_penalty, rewards)

        out_of_time = self.time >= self.episode_length
        events = {"tags": int(tag), "walls": int(hit_wall.sum())}
        return self._observations(), rewards, tag, out_of_time and not tag, {"events": events}

    def state(self) -> dict[str, np.ndarray]:
        """Return a copy of the state by name, as `peek` of the C env does: x, y and time."""
        return {"x": self.x.copy(), "y": self.y.copy(), "time": np.array([self.time])}

    def set_state(self, state: Mapping[str, Any]) -> np.ndarray:
        """Continue from a state that `state` or `peek` returned; return its observations."""
        self.x, self.y = np.array(state["x"]), np.array(state["y"])
        self.time = int(np.asarray(state["time"]).item())
        return self._observations()

    def _observations(self) -> np.ndarray:
        """Return (N, 4 N + 1) or (N, 6) float32; places and time are fractions."""
        x, y, time = (
            self.x / self.grid_length,
            self.y / self.grid_length,
            self.time / self.episode_length,
        )
        if self.use_full_observation:
            everyone = np.tile(np.concatenate([x, y, self.agent_types]), (self.agents, 1))
            return np.hstack(
                [everyone, np.eye(self.agents), np.full((self.agents, 1), time)]
            ).astype(np.float32)
        other = np.full(self.agents, self.agents - 1)  # A tagger sees the runner.
        squares = (self.x[:-1] - self.x[-1]) ** 2 + (self.y[:-1] - self.y[-1]) ** 2
        other[-1] = np.argmin(squares)  # The runner sees the nearest tagger (lowest id).
        columns = [x, y, x[other], y[other], self.agent_types, np.full(self.agents, time)]
        return np.stack(columns, axis=1).astype(np.float32)
