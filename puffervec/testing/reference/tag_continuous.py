# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The rules of `tag_continuous` for one env in plain NumPy, for readers and for comparisons.

Taggers and runners drive on a square; in each step they change their acceleration and turn. The
game, its parameter names, the order of actions and the observations are those of TagContinuous in
WarpDrive (Lan, Srinivasa, Wang, Zheng, "Extremely Fast End-to-End Deep Multi-Agent RL on a GPU",
2021), as its NumPy code implements them: all state is float32, and the order of operations matters
to the last bit. Unlike WarpDrive it distinguishes how episodes end: an agent that is tagged out
terminates, all agents terminate when the last runner is out, and at the time limit all are
truncated. See
puffervec.check_env_equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

STATE = ("x", "y", "speed", "direction", "acceleration", "still_in_the_game")
F32 = np.float32


class TagContinuous:
    """One env with N = num_taggers + num_runners agents.

    Attributes:
        x, y, speed, direction, acceleration: (N,) float32; direction in radians.
        time: steps of this episode.
        still_in_the_game: (N,) int, 0 for runners that were tagged and have left.
        agents: N.
        agent_types: (N,), 1 for taggers and 0 for runners.
        accelerations, turns: float32, the change that each action makes; entry 0 is 0. May be set.
        margin: float32, the distance below which runners are tagged. May be set.
    """

    x: np.ndarray
    y: np.ndarray
    speed: np.ndarray
    direction: np.ndarray
    acceleration: np.ndarray

    def __init__(
        self,
        num_taggers: int = 1,
        num_runners: int = 10,
        grid_length: float = 10.0,
        episode_length: int = 100,
        starting_location_x: Sequence[float] | None = None,
        starting_location_y: Sequence[float] | None = None,
        starting_directions: Sequence[float] | None = None,
        seed: int | None = None,
        max_speed: float = 1.0,
        skill_level_runner: float = 1.0,
        skill_level_tagger: float = 1.0,
        max_acceleration: float = 1.0,
        min_acceleration: float = -1.0,
        max_turn: float = np.pi / 2,
        min_turn: float = -np.pi / 2,
        num_acceleration_levels: int = 10,
        num_turn_levels: int = 10,
        edge_hit_penalty: float = -0.0,
        use_full_observation: bool = True,
        num_other_agents_observed: int = 2,
        tagging_distance: float = 0.01,
        tag_reward_for_tagger: float = 1.0,
        step_penalty_for_tagger: float = -0.0,
        tag_penalty_for_runner: float = -1.0,
        step_reward_for_runner: float = 0.0,
        end_of_game_reward_for_runner: float = 1.0,
        runner_exits_game_after_tagged: bool = True,
    ) -> None:
        """Store the parameters of TagContinuous.

        `seed` is for the start: types, places and directions. If it is None, NumPy's global
        generator draws them.
        """
        self.agents = num_taggers + num_runners
        self.grid_length, self.episode_length, self.max_speed = (
            F32(grid_length),
            episode_length,
            F32(max_speed),
        )
        self.accelerations = _actions(min_acceleration, max_acceleration, num_acceleration_levels)
        self.turns = _actions(min_turn, max_turn, num_turn_levels)
        self.margin = F32(tagging_distance * grid_length)
        self.use_full_observation, self.observed = use_full_observation, num_other_agents_observed
        self.runner_exits = runner_exits_game_after_tagged
        self.edge_hit_penalty, self.end_of_game_reward = (
            edge_hit_penalty,
            end_of_game_reward_for_runner,
        )
        self.tag_reward, self.tag_penalty = tag_reward_for_tagger, tag_penalty_for_runner

        self._draw_start(
            seed,
            num_taggers,
            grid_length,
            starting_location_x,
            starting_location_y,
            starting_directions,
        )
        self.taggers = np.flatnonzero(self.agent_types == 1)
        self.step_rewards = self._by_type(step_penalty_for_tagger, step_reward_for_runner)
        self.top_speed = self.max_speed * self._by_type(
            skill_level_tagger, skill_level_runner
        ).astype(F32)
        everyone = np.arange(self.agents)
        self._others = np.array([everyone[everyone != me] for me in everyone])
        self.reset()

    def _draw_start(
        self, seed: int | None, num_taggers: int, length: float, x: Any, y: Any, directions: Any
    ) -> None:
        """Set types and start, drawn as in WarpDrive and in the same order."""
        draw: Any = np.random if seed is None else np.random.RandomState(seed)
        self.agent_types = np.zeros(self.agents, np.int64)
        self.agent_types[draw.choice(np.arange(self.agents), num_taggers, replace=False)] = 1
        if x is None:
            x, y = length * draw.rand(self.agents), length * draw.rand(self.agents)
        if directions is None:
            directions = draw.choice([0, np.pi / 2, np.pi, np.pi * 3 / 2], self.agents)
        self.start = {"x": F32(x), "y": F32(y), "direction": F32(directions)}

    def _by_type(self, of_taggers: float, of_runners: float) -> np.ndarray:
        return np.where(self.agent_types == 1, of_taggers, of_runners)

    # ---- the env ---------------------------------------------------------------------------------

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode. Every episode has the same start; `seed` has no effect.

        Returns: observations: (N, 7 M + 1) float32, M = N - 1 or (partial)
        num_other_agents_observed. infos: empty.
        """
        zeros = {"speed": np.zeros(self.agents, F32), "acceleration": np.zeros(self.agents, F32)}
        return self.set_state(
            {**self.start, **zeros, "still_in_the_game": np.ones(self.agents, np.int64), "time": 0}
        ), {}

    def step(
        self, actions: Sequence[Any] | np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Move all agents simultaneously, then determine the tags.

        Args:
            actions: (N, 2) int: indices of the changes of acceleration and of direction.

        Returns: observations: as `reset`; runners that are tagged in this step are still shown.
        rewards: (N,) float32. terminated: (N,) bool, runners that leave; all agents if no runner is
        left. truncated: (N,) bool, True at the time limit. infos: "masks", (N,) bool, the agents
        that were in the game; "events" has counts.
        """
        actions = np.asarray(actions)
        self.time += 1
        in_game = self.still_in_the_game == 1
        outside = self._move(self.accelerations[actions[:, 0]], self.turns[actions[:, 1]]) & in_game
        observations = self._observations()  # Before any tag.

        rewards = np.where(in_game, self.edge_hit_penalty * outside + self.step_rewards, 0.0)
        tags = self._tag(rewards)
        left = (self.still_in_the_game == 1) & (self.agent_types == 0)
        if self.time == self.episode_length:
            rewards[left] += self.end_of_game_reward

        terminated = in_game & ((self.still_in_the_game == 0) | (not left.any()))
        truncated = in_game & ~terminated & (self.time >= self.episode_length)
        infos = {"masks": in_game, "events": {"tags": tags, "walls": int(outside.sum())}}
        return observations, rewards.astype(F32), terminated, truncated, infos

    def _move(self, acceleration: np.ndarray, turn: np.ndarray) -> np.ndarray:
        """Change the state by (N,) accelerations and turns; return (N,) bool, who hit a wall.

        Accelerations add up over steps, and are lost at a standstill and at top speed. Agents that
        are out stand still.
        """
        in_game = self.still_in_the_game.astype(F32)
        self.direction = (self.direction + turn) % F32(2 * np.pi) * in_game
        acceleration = self.acceleration + acceleration
        self.speed = np.clip(self.speed + acceleration, F32(0), self.top_speed) * in_game
        self.acceleration = acceleration * ((self.speed > 0) & (self.speed < self.top_speed))
        x = self.x + self.speed * np.cos(self.direction)
        y = self.y + self.speed * np.sin(self.direction)
        self.x, self.y = np.clip(x, F32(0), self.grid_length), np.clip(y, F32(0), self.grid_length)
        self._unclipped = x, y
        outside: np.ndarray = (self.x != x) | (self.y != y)
        return outside

    def _tag(self, rewards: np.ndarray) -> int:
        """Tag every runner near a tagger, add the rewards in place, and return the number of tags.

        The nearest tagger gets the reward (of several, the one with the lowest id). A tagger may
        tag several runners.
        """
        runners = np.flatnonzero((self.agent_types == 0) & (self.still_in_the_game == 1))
        if not runners.size:
            return 0
        distances = self._distances(runners, self.taggers)
        nearest = distances.argmin(axis=1)
        tagged = distances.min(axis=1) < self.margin
        rewards[runners[tagged]] += self.tag_penalty
        np.add.at(rewards, self.taggers[nearest[tagged]], self.tag_reward)
        if self.runner_exits:
            self.still_in_the_game[runners[tagged]] = 0
        return int(tagged.sum())

    # ---- state -----------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Return a copy of the state by name, as `peek` of the C env does."""
        return {
            **{name: getattr(self, name).copy() for name in STATE},
            "time": np.array([self.time]),
        }

    def set_state(self, state: Mapping[str, Any]) -> np.ndarray:
        """Continue from a state that `state` or `peek` returned; return its observations."""
        for name in STATE[:-1]:
            setattr(self, name, np.array(state[name], F32))
        self.still_in_the_game = np.array(state["still_in_the_game"], np.int64)
        self.time = int(np.asarray(state["time"]).item())
        self._unclipped = self.x, self.y
        return self._observations()

    # ---- observations ----------------------------------------------------------------------------

    def _observations(self) -> np.ndarray:
        """Return (N, 7 M + 1) float32: seven blocks of M about the others, and the time.

        Features are relative to the agent. The M others are all others by id (full observation), or
        the nearest ones in the game, padded with zeros (partial observation).
        """
        self._seen = self.still_in_the_game == 1  # The agents that this observation shows.
        top, diagonal = float(self.max_speed) + 1e-10, float(self.grid_length) * np.sqrt(2)
        scales = (
            (self.x, diagonal),
            (self.y, diagonal),
            (self.speed, top),
            (self.acceleration, top),
        )
        features = np.array(
            [f / scale for f, scale in (*scales, (self.direction, 2 * np.pi))]
        )  # (5, N)
        if self.use_full_observation:
            others, shown = self._others, np.ones(self._others.shape, np.bool_)
        else:
            others, shown = self._nearest()
        # In a full observation, agents that are out see only types and presence.
        me = self._seen[:, None]
        relative = (features[:, others] - features[:, :, None]) * (shown & me)
        present = shown if self.use_full_observation else shown & me
        blocks = np.stack(
            [*relative, self.agent_types[others] * present, self._seen[others] * present], axis=1
        )
        time = self.time / self.episode_length * me
        return np.concatenate([blocks.reshape(self.agents, -1), time], axis=1).astype(F32)

    def _nearest(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K) ids of the nearest agents in the game, and which entries are valid."""
        distances = self._distances_of_seen()
        ids = np.argsort(distances, axis=1, kind="stable")[:, : self.observed]
        return ids, np.isfinite(np.take_along_axis(distances, ids, axis=1))

    def _distances_of_seen(self) -> np.ndarray:
        """Return (N, N) float32 distances; infinite to oneself and to agents that are out."""
        everyone = np.arange(self.agents)
        distances = self._distances(everyone, everyone)
        distances[:, ~self._seen] = np.inf
        np.fill_diagonal(distances, np.inf)
        return distances

    def _distances(self, some: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return the float32 distances between two lists of ids, (some, others)."""
        dx, dy = self.x[some, None] - self.x[others], self.y[some, None] - self.y[others]
        distances: np.ndarray = np.sqrt(dx * dx + dy * dy)
        return distances

    # ---- margins ---------------------------------------------------------------------------------

    def margins(self) -> dict[str, Any]:
        """Return how near the last step was to a different outcome.

        These are distances to thresholds, and differences between the distances of candidates.
        Another implementation rounds sines and cosines differently, so its positions differ in the
        last bit, and outcomes that depend on less than that may differ completely. The positions of
        agents that stand still, drive along x or into a corner are not rounded; the distance of two
        such agents is certain, and so is that of two agents that reached a place in the same way.

        Returns: by name of what would differ (see puffervec.check_env_equal): one number, or (N,)
        numbers, one per agent.
        """
        nearness, tags = self._tag_margins()
        walls = np.full(self.agents, np.inf)
        if self.edge_hit_penalty:
            to_walls = [
                np.abs(at - wall) for at in self._unclipped for wall in (F32(0), self.grid_length)
            ]
            walls = np.where(
                (self.speed > 0) & (self.direction != 0), np.min(to_walls, axis=0), np.inf
            )
        leaving = tags if self.runner_exits else np.inf
        return {
            "observations": np.inf if self.use_full_observation else self._order_margins(),
            "rewards": np.minimum(walls, nearness),
            "terminals": leaving,
            "truncations": leaving,
            "state.still_in_the_game": leaving,
        }

    def _certain(self, some: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return for pairs of ids whether their distance is certain, and whether surely 0."""
        place, motion = (self.x, self.y), (self.speed, self.direction)
        in_a_corner = (np.abs(np.subtract(self._unclipped, place)) > 1e-5).all(axis=0)
        exact = (self.speed == 0) | (self.direction == 0) | in_a_corner
        alike = [
            np.logical_and(*(of[some] == of[others] for of in pair)) for pair in (place, motion)
        ]
        both = exact[some] & exact[others]
        together = alike[0] & (alike[1] | both)
        return together | both, together

    def _order_margins(self) -> np.ndarray:
        """Return (N,) the smallest gap between successive distances of the agents seen by each."""
        everyone, distances = np.arange(self.agents)[:, None], self._distances_of_seen()
        ids = np.argsort(distances, axis=1, kind="stable")[:, : self.observed + 1]
        distances = np.take_along_axis(distances, ids, axis=1)
        gaps: np.ndarray = self._gaps(everyone, ids, distances).min(axis=1, initial=np.inf)
        return gaps

    def _gaps(self, some: np.ndarray, ids: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """Return gaps between columns of sorted distances; infinite where the order is certain."""
        certain, _ = self._certain(some, ids)
        _, together = self._certain(ids[:, :-1], ids[:, 1:])
        known = together | (certain[:, :-1] & certain[:, 1:]) | ~np.isfinite(distances[:, 1:])
        gaps = np.full(known.shape, np.inf)
        gaps[~known] = distances[:, 1:][~known] - distances[:, :-1][~known]
        return gaps

    def _tag_margins(self) -> tuple[float, float]:
        """Return the smallest margins of the choice of a tagger and of any tag."""
        runners = np.flatnonzero((self.agent_types == 0) & self._seen)
        if not self.margin or not runners.size:
            return np.inf, np.inf
        distances = self._distances(runners, self.taggers)
        order = np.argsort(distances, axis=1, kind="stable")[:, :2]
        ids, distances = self.taggers[order], np.take_along_axis(distances, order, axis=1)
        certain, _ = self._certain(runners[:, None], ids)
        tags = np.where(certain[:, 0], np.inf, np.abs(distances[:, 0] - self.margin)).min()
        tagged = distances[:, 0] < self.margin
        between = self._gaps(runners[:, None], ids, distances)[tagged].min(initial=np.inf)
        return min(tags, between), tags


def _actions(least: float, most: float, levels: int) -> np.ndarray:
    """Return the changes that actions make: 0, then `levels` evenly spaced values, float32.

    They are spaced in float64 between float32 ends, as WarpDrive does under NumPy 1.
    """
    return np.concatenate([[0.0], np.linspace(float(F32(least)), float(F32(most)), levels)]).astype(
        F32
    )
