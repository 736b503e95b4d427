# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Records an episode of an env for replays: what is drawn, and what agents do, get and observe.

Runs in the learner, with the env in this process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import puffervec
from puffervec.contract.drawing import State
from puffervec.contract.evaluation import Actor, report_progress
from puffervec.contract.native import NativeEnv
from puffervec.errors import ConfigError
from puffervec.vec.vector_env import VectorEnv
from puffervec.viewing.render.episode import Episode, Moment
from puffervec.viewing.render.sight import pictures_of, rows_of
from puffervec.viewing.web.columns import Floats
from puffervec.viewing.web.observed import ObservedShapes
from puffervec.viewing.web.pictures import Pictures
from puffervec.viewing.web.shapes import Looks, place_exponent

MOST_STEPS = 1000


@dataclass
class Played:
    """A recorded episode.

    Attributes:
        episode: how the episode is drawn.
        moments: T moments: one after the reset and one after each step.
        series: data of agents by name, (T, rows) each, NaN where there is none: the reward of the
            step that led to a moment; the policy's value and actions at that moment; and the facts.
        looks: numbers of styles and roles.
        place: exponent of the power of ten to which places are rounded.
        seen: what agents observe, by moment.
        pictures: the pictures that agents observe.
    """

    episode: Episode
    moments: list[Moment]
    series: dict[str, Floats]
    looks: Looks
    place: int
    seen: ObservedShapes
    pictures: Pictures

    @property
    def episode_return(self) -> float:
        """Mean over the agents of the sums of their rewards; 0.0 without agents."""
        rewards = self.series["reward"]
        took_part = np.isfinite(rewards).any(axis=0)
        return float(np.nansum(rewards, axis=0)[took_part].mean()) if took_part.any() else 0.0

    def worst_first(self) -> list[int]:
        """Return the rows that took part, the one with the lowest return first."""
        rewards = self.series["reward"]
        rows: list[int] = np.flatnonzero(np.isfinite(rewards).any(axis=0)).tolist()
        returns = np.nansum(rewards, axis=0)
        return sorted(rows, key=lambda row: float(returns[row]))

    def agent_named(self, name: str) -> str:
        """Return the agent of this name; for "worst", the one with the lowest return.

        Raises:
            ConfigError: the episode has no such agent.
        """
        agents = self.episode.drawing.agents
        present = [agents[row] for row in self.worst_first() if row < len(agents) and agents[row]]
        if name != "worst" and name not in present or not present:
            title = self.episode.drawing.title or "the episode"
            raise ConfigError(
                f"--follow {name}: the agents of {title} are "
                f"{', '.join(sorted(present)) or 'without names'}"
            )
        return present[0] if name == "worst" else name


def play(
    env: NativeEnv,
    config: Any,
    actor: Actor,
    *,
    task: int | None = None,
    seed: int = 0,
    most_steps: int = MOST_STEPS,
) -> Played:
    """Play an episode from its reset to its end.

    Args:
        env: env that has a drawing.
        config: its settings.
        actor: actor that plays.
        task: see `VectorEnv.set_tasks`; None: in an env with tasks, seed modulo tasks.
        seed: seed of the env.
        most_steps: a longer episode is cut off after this many steps.

    Raises:
        ConfigError: the env refuses its settings or the task, or its drawing failed.
        WorkerError: the env failed.
    """
    if env.drawing is None:
        raise ConfigError(f"{env.name} cannot be drawn: it has no NativeEnv.drawing")
    with puffervec.make(env, env_kwargs=config, backend="serial", num_envs=1, seed=seed) as vec:
        if task is not None or vec.spec.tasks:
            vec.set_tasks([0], [seed % vec.spec.tasks if task is None else task])
        actor.reset(vec)
        vec.async_reset(seed)
        obs = vec.recv()[0]
        state = vec.peek(0)
        recorder = _Recorder(vec, Episode(env.name, env.drawing, vec.config, state))
        recorder.record(state, first=True)
        while len(recorder.moments) <= most_steps and not vec.rows.over(0).any():
            actions = actor.act(obs, vec)
            recorder.record_actions(actions, getattr(actor, "values", None))
            vec.send(actions)
            obs = vec.recv()[0]
            recorder.record(vec.peek(0))
            report_progress("playing", len(recorder.moments) / (most_steps + 1))
        return recorder.result()


@dataclass
class _Recorder:
    """Records a vector env of one env, moment by moment."""

    vec: VectorEnv
    episode: Episode
    moments: list[Moment] = field(default_factory=list)
    series: dict[str, list[Floats]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        drawing = self.episode.drawing
        self.looks, self.place = Looks(dict(drawing.colours)), place_exponent(drawing.view)
        self.seen, self.pictures = ObservedShapes(self.looks, self.place), Pictures()
        self.groups = [
            (group, self.vec.halves[0].groups[group.name]) for group in self.vec.spec.groups
        ]
        self.agents = {name: row for row, name in enumerate(drawing.agents) if name}

    def record(self, state: State, first: bool = False) -> None:
        """Record a moment: its drawing, rewards, facts and observations."""
        self.moments.append(self.episode.moment if first else self.episode.add(state))
        drawing = self.episode.drawing
        masks = np.concatenate([rows.masks for _, rows in self.groups])
        rewards = np.concatenate([rows.rewards for _, rows in self.groups]).astype(np.float64)
        self._put("reward", np.where(masks & (not first), rewards, np.nan))
        describe = drawing.facts
        if describe is not None:
            facts_by_agent = self.episode.call_drawing(lambda: dict(describe(state)))
            for agent, facts in facts_by_agent.items():
                for name, number in facts.items():
                    self._newest(name)[self._row(agent)] = number
        if drawing.observed is not None:
            by_agent = self.episode.call_drawing(lambda: self._observed(state))
            self.seen.add(
                len(self.moments) - 1,
                {self._row(agent): shapes for agent, shapes in by_agent.items()},
            )
        self.pictures.add(len(self.moments) - 1, pictures_of(self.episode, self.vec, state))

    def record_actions(self, actions: Any, values: Mapping[str, np.ndarray] | None) -> None:
        """Record, for the newest moment, the actions and the policy's values by group."""
        acting = np.concatenate(
            [rows.masks & ~(rows.terminals | rows.truncations) for _, rows in self.groups]
        )
        describe = self.episode.drawing.actions
        if describe is not None:
            series = self.episode.call_drawing(lambda: dict(describe(actions)))
        else:
            series = self._raw_actions(actions)
        for name, numbers in series.items():
            self._put(name, np.where(acting, np.asarray(numbers, np.float64), np.nan))
        if values:
            parts = [
                values.get(group.name, np.full(group.agents, np.nan)) for group, _ in self.groups
            ]
            self._put("value", np.where(acting, np.concatenate(parts), np.nan))

    def result(self) -> Played:
        """Return the recording."""
        count, rows = len(self.moments), self.vec.num_agents
        series = {}
        for name, parts in self.series.items():
            series[name] = np.full((count, rows), np.nan)
            series[name][: len(parts)] = parts
        return Played(
            self.episode, self.moments, series, self.looks, self.place, self.seen, self.pictures
        )

    def _observed(self, state: State) -> dict[str, Any]:
        observed = self.episode.drawing.observed
        assert observed is not None
        return {
            agent: self.episode.check_shapes(tuple(shapes))
            for agent, shapes in observed(rows_of(self.vec), state).items()
        }

    def _raw_actions(self, actions: Any) -> dict[str, Floats]:
        """Return the actions unchanged; if an action has several parts, by their numbers."""
        by_group = actions if isinstance(actions, Mapping) else {self.groups[0][0].name: actions}
        columns = [
            np.asarray(by_group[group.name], np.float64).reshape(group.agents, -1)
            for group, _ in self.groups
        ]
        most = max(part.shape[1] for part in columns)
        wide = [
            np.pad(part, ((0, 0), (0, most - part.shape[1])), constant_values=np.nan)
            for part in columns
        ]
        return {
            ("action" if most == 1 else f"action {i}"): part
            for i, part in enumerate(np.concatenate(wide).T)
        }

    def _row(self, agent: str) -> int:
        if agent not in self.agents:
            raise ConfigError(
                f"{self.vec.env.name}: its drawing names {agent!r}, which is not one of its agents"
            )
        return self.agents[agent]

    def _newest(self, name: str) -> Floats:
        """Return the numbers of the newest moment, NaN where none was stored yet."""
        parts = self.series.setdefault(name, [])
        while len(parts) < len(self.moments):
            parts.append(np.full(self.vec.num_agents, np.nan))
        return parts[-1]

    def _put(self, name: str, numbers: Floats) -> None:
        self._newest(name)[:] = numbers
