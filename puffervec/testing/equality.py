# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compares a C env with a reference in Python, step by step: `puffervec.check_env_equal`.

A reference is a gymnasium.Env, or anything with its `reset` and `step`. If the C env has several
agents, observations, rewards and actions of the reference have a leading axis for them; flags may
have one. Everything else is optional:

    state() -> dict               readable state by the names of `peek`: compared after each step,
                                  and set by teacher forcing
    set_state(state) -> rows      continue from such a state and return its observations; for
                                  `starts="env"`
    margins() -> dict or number   how near the last step was to a different outcome, by what would
                                  differ (see `epsilon`)
    infos["masks"]                (agents,) bool, which agents still act; by default all
    infos["events"]               dict of counts, summed in the report

Each difference has a name: "rewards", "terminals", "truncations", "masks", "observations.FIELD" or
"state.FIELD", with the fields that the C env declares. Entries of `tolerances` and `margins` for
"observations" and "state" apply to all their fields.

If the C env has several groups of rows, the reference takes and returns dicts by group of actions,
observations, rewards, masks and flags (a flag may also be one value for all groups), and names
begin with the group: "GROUP.rewards". A name without a group means all groups.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from puffervec.contract.native import NativeEnv
from puffervec.core.spec import GroupSpec
from puffervec.errors import ConfigError, EnvMismatchError
from puffervec.vec.backends import make
from puffervec.vec.vector_env import VectorEnv

Tolerance = float | tuple[float, float]
FLAGS = ("masks", "terminals", "truncations")


@dataclass
class EnvEquality:
    """The report of a comparison.

    Attributes:
        steps, resets: numbers of steps and resets, summed over all envs, seeds and settings.
        events: numbers of steps in which an agent's episode ended ("terminals", "truncations"), and
            the reference's counts.
        exempt: for "rewards", "observations", ..., the number of agents, summed over all steps,
            that were too near to a threshold to be compared.
        largest: the largest difference over all comparisons, by name.
    """

    steps: int = 0
    resets: int = 0
    exempt: dict[str, int] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=lambda: {"terminals": 0, "truncations": 0})
    largest: dict[str, float] = field(default_factory=dict)


def check_env_equal(
    env: str | NativeEnv | VectorEnv,
    reference: Any,
    *,
    settings: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    seeds: Sequence[int] = (0,),
    steps: int = 1000,
    actions: Callable[[Any, np.random.Generator], Any] | None = None,
    teacher_forced: bool = False,
    starts: Literal["reference", "env"] = "reference",
    tolerances: Mapping[str, Tolerance] | None = None,
    epsilon: float = 1e-6,
) -> EnvEquality:
    """Step a C env and a reference in Python side by side, and raise if they differ.

    Observations, rewards, flags, and the state if the reference has one, are rounded to the C env's
    types and must then be equal within `tolerances`. Rows of agents that do not act (see masks) are
    not compared.

    Args:
        env: name of a C env, a NativeEnv, or a vector env of a C env with next-step autoreset; all
            envs of a vector env are compared.
        reference: an env, or a class or function that makes one from `settings` passed by name.
        settings: settings of the C env, or several such mappings, which are compared one after the
            other.
        seeds: seeds of the first resets; the i-th env of a vector env gets seed + i. They also seed
            the actions.
        steps: number of steps for each seed and settings, including resets.
        actions: called with the reference and a random generator before each step; returns an
            action for each agent. If None, actions are drawn uniformly.
        teacher_forced: set the C env to the reference's state before each step (`poke`), so that
            differences do not accumulate.
        starts: "env" sets the reference to the C env's state after each reset, for envs that draw
            their starts.
        tolerances: the largest allowed difference by name (0 for other names), or (difference,
            period) for numbers that wrap around, such as angles.
        epsilon: values whose `margins` are smaller than this are counted instead of compared.

    Returns: the report. A comparison without events proves little.

    Raises:
        EnvMismatchError: (an AssertionError) they differ; the message shows the first difference,
            with the actions and the state before it.
        ConfigError: an argument, or a result of the reference, cannot be used.
    """
    if not len(seeds):
        raise ConfigError(
            "check_env_equal: seeds is empty: use at least one, such as the default (0,)"
        )
    report = EnvEquality()
    several = [settings] if settings is None or isinstance(settings, Mapping) else settings
    for chosen in several:
        with _vector_env(env, chosen) as vec:
            references = _references(vec, reference, chosen)
            _require_usable(vec, references[0], teacher_forced, starts)
            references[0].reset(seed=int(seeds[0]))  # Some references have no state before a reset.
            columns = _Columns(vec, references[0], tolerances or {})
            run = _Run(
                vec,
                references,
                columns,
                report,
                chosen or {},
                actions,
                teacher_forced,
                starts == "env",
                epsilon,
            )
            for seed in seeds:
                run.run(int(seed), steps)
    return report


@contextlib.contextmanager
def _vector_env(env: Any, settings: Mapping[str, Any] | None) -> Iterator[VectorEnv]:
    if not isinstance(env, VectorEnv):
        with make(env, env_kwargs=settings, backend="serial") as vec:
            yield vec
    elif settings is not None:
        raise ConfigError(
            "check_env_equal: settings were passed with a vector env, which has its own: leave "
            "them out"
        )
    else:
        yield env


def _references(vec: VectorEnv, reference: Any, settings: Mapping[str, Any] | None) -> list[Any]:
    """Return one reference per env."""
    if isinstance(reference, type) or not hasattr(reference, "step"):
        return [reference(**(settings or {})) for _ in range(vec.num_envs)]
    if vec.num_envs > 1:
        raise ConfigError(
            f"check_env_equal: one reference for {vec.num_envs} envs: use a class or function that "
            "makes one"
        )
    return [reference]


def _require_usable(vec: VectorEnv, reference: Any, teacher_forced: bool, starts: str) -> None:
    if (
        not isinstance(vec.env, NativeEnv)
        or vec.num_buffers > 1
        or vec.autoreset_mode != "next_step"
    ):
        raise ConfigError(
            f"check_env_equal: {vec!r} cannot be compared: it takes C envs with num_buffers=1 and "
            "autoreset_mode='next_step'"
        )
    if starts not in ("reference", "env"):
        raise ConfigError(f"check_env_equal: starts is {starts!r}: use 'reference' or 'env'")
    for needs, name, needed in (
        ("teacher_forced", "state", teacher_forced),
        ("starts='env'", "set_state", starts == "env"),
    ):
        if needed and not (vec.spec.state_fields and _method(reference, name)):
            raise ConfigError(
                f"check_env_equal: {needs} needs {name}() of the reference, and readable state of "
                f"{vec.env.name}"
            )


def _method(reference: Any, name: str) -> Callable[..., Any] | None:
    """Return an optional method; attributes of Gymnasium's own envs with such names are ignored."""
    method = getattr(reference, name, None)
    return method if callable(method) else None


class _Columns:
    """All numbers of one env that are compared, as one vector.

    Attributes:
        names: names of the possible differences.
        by_name: the columns of each name, of all "observations", of the whole "state", and of each
            name without its group.
        name, agent: (columns,) for each column the index of its name, and of its agent (for state
            columns: its place in the field).
        row: (columns,) the agent's index among those of all groups.
        part: a column's name without group and field.
        of_agents: (columns,) bool, columns that count only where the agent acts.
        allowed, period: (columns,), see `tolerances`; period 0 for numbers that do not wrap around.
    """

    def __init__(self, vec: VectorEnv, reference: Any, tolerances: Mapping[str, Tolerance]) -> None:
        self.groups, state = vec.spec.groups, _method(reference, "state")
        self.several = len(self.groups) > 1
        values = state() if state is not None else {}
        self.state_fields = [f for f in vec.spec.state_fields if f.name in values]
        columns: list[tuple[str, int, int]] = []
        first = 0  # Index of a group's first agent among all agents.
        for group in self.groups:
            entries = [
                (name, agent) for name in (*FLAGS, "rewards") for agent in range(group.agents)
            ]
            entries += [
                (f"observations.{f.name}", agent)
                for agent in range(group.agents)
                for f in group.fields
                for _ in range(f.size)
            ]
            columns += [
                (f"{group.name}.{name}" if self.several else name, agent, first + agent)
                for name, agent in entries
            ]
            first += group.agents
        columns += [
            (f"state.{f.name}", i // math.prod(f.shape[1:]), 0)
            for f in self.state_fields
            for i in range(f.size)
        ]
        self._index(columns)
        self.allowed, self.period = np.zeros(len(columns)), np.zeros(len(columns))
        for at, value in self._entries("tolerances", tolerances):
            self.allowed[at], self.period[at] = value if isinstance(value, tuple) else (value, 0.0)

    def _index(self, columns: Sequence[tuple[str, int, int]]) -> None:
        """Index columns by (name, agent, agent among all)."""
        self.names = list(dict.fromkeys(name for name, _, _ in columns))
        numbers = {name: number for number, name in enumerate(self.names)}
        self.name = np.array([numbers[name] for name, _, _ in columns])
        self.agent, self.row = (np.array([column[i] for column in columns]) for i in (1, 2))
        plain = [name.partition(".")[2] if self._of_group(name) else name for name, _, _ in columns]
        self.part = [name.partition(".")[0] for name in plain]
        self.by_name = {name: np.flatnonzero(self.name == i) for i, name in enumerate(self.names)}
        for names in (plain, self.part):
            self.by_name |= {
                name: np.flatnonzero(np.array(names) == name) for name in dict.fromkeys(names)
            }
        self.by_name |= {"state": self.by_name.get("state", np.zeros(0, np.intp))}
        self.of_agents = np.array([part not in ("masks", "state") for part in self.part])

    def _of_group(self, name: str) -> bool:
        return self.several and name.partition(".")[0] in [group.name for group in self.groups]

    def _entries(self, what: str, values: Mapping[str, Any]) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield (columns, value) of a dict by name, those for single fields last."""
        for name in sorted(values, key=lambda name: "." in name):
            if name not in self.by_name:
                raise ConfigError(
                    f"check_env_equal: {what} has {name!r}: the names are {', '.join(self.by_name)}"
                )
            yield self.by_name[name], values[name]

    def agents(self, values: Any, dtype: Any = np.bool_) -> list[np.ndarray]:
        """Return (agents,) values for each group, from one value or values by group and agent."""
        by_group = [
            values[g.name] if self.several and isinstance(values, Mapping) else values
            for g in self.groups
        ]
        return [
            np.broadcast_to(np.asarray(of, dtype).reshape(-1), g.agents)
            for of, g in zip(by_group, self.groups, strict=True)
        ]

    def vector(
        self, flags: Sequence[Any], rewards: Any, observations: Any, state: Mapping[str, Any] | None
    ) -> np.ndarray:
        """Return (columns,) float64, each number rounded to its type in the C env."""
        columns = [*(self.agents(flag) for flag in flags), self.agents(rewards, np.float32)]
        parts: list[np.ndarray] = []
        for at, group in enumerate(self.groups):
            parts += [column[at] for column in columns]
            parts.append(
                self._flat(
                    group, observations[group.name] if self.several else observations
                ).reshape(-1)
            )
        parts += [_round((state or {})[f.name], f.dtype).reshape(-1) for f in self.state_fields]
        vector = np.concatenate(parts, dtype=np.float64)
        if vector.shape != self.name.shape:
            shapes = {f.name: f.shape for f in self.state_fields}
            raise ConfigError(
                "check_env_equal: the reference's state does not have the shapes of the env's "
                f"state, {shapes}"
            )
        return vector

    def _flat(self, group: GroupSpec, observations: Any) -> np.ndarray:
        """Return observations as (agents, F), from such an array or from a dict by field."""
        try:
            if group.flat_dtype is not None and not isinstance(observations, Mapping):
                return _round(observations, group.flat_dtype).reshape(
                    group.agents, sum(f.size for f in group.fields)
                )
            fields = [
                _round(observations[f.name], f.dtype).reshape(group.agents, f.size)
                for f in group.fields
            ]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            shapes = ", ".join(f"{f.name} {(group.agents, *f.shape)}" for f in group.fields)
            raise ConfigError(
                f"check_env_equal: the observations of the reference ({error}) do not fit: {shapes}"
            ) from None
        return np.concatenate(fields, axis=1, dtype=np.float64)

    def margins(self, values: Any) -> np.ndarray:
        """Return a reference's margins (a number, or numbers or arrays by name) as (columns,)."""
        if not isinstance(values, Mapping):
            return np.full(len(self.name), float(values))
        margins = np.full(len(self.name), np.inf)
        for at, margin in self._entries("margins", values):
            margins[at] = margin if np.ndim(margin) == 0 else np.asarray(margin)[self.agent[at]]
        return margins

    def differences(self, actual: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Return (columns,) differences of two vectors; infinity where only one of them is NaN."""
        around = np.flatnonzero(self.period)
        with np.errstate(invalid="ignore"):
            distance: np.ndarray = np.abs(actual - wanted)
            distance[around] = np.minimum(
                distance[around] % self.period[around], -distance[around] % self.period[around]
            )
        distance[np.isnan(distance)] = np.inf
        distance[(actual == wanted) | (np.isnan(actual) & np.isnan(wanted))] = 0.0
        acting = wanted[self.by_name["masks"]] > 0
        distance[self.of_agents] = np.where(
            acting[self.row[self.of_agents]], distance[self.of_agents], 0.0
        )
        return distance

    def place(self, column: int) -> str:
        """Return a column's name with the index of its agent, and its place in an array field."""
        name, agent = self.names[self.name[column]], self.agent[column]
        places = [int(at) for at in self.by_name[name] if self.agent[at] == agent]
        return (
            f"{name}[{agent}]" if len(places) == 1 else f"{name}[{agent}, {places.index(column)}]"
        )


def _round(values: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Return an array, with floats rounded to `dtype` if that is a float type."""
    return np.asarray(values, dtype if dtype.kind == "f" else None)


@dataclass
class _Run:
    """The envs of a vector env and their references, stepped side by side.

    before: for each env, the state before the current step. taken: for each env, the actions of
    the current step by group. over: for each env, whether the current step is a reset.
    """

    vec: VectorEnv
    references: list[Any]
    columns: _Columns
    report: EnvEquality
    settings: Mapping[str, Any]
    actions: Callable[[Any, np.random.Generator], Any] | None
    teacher_forced: bool
    starts_from_env: bool
    epsilon: float

    def run(self, seed: int, steps: int) -> None:
        envs = range(self.vec.num_envs)
        self.seed, self.step, self.over = seed, 0, [False for _ in envs]
        self.before: list[Mapping[str, Any]] = [{} for _ in envs]
        self.taken: list[dict[str, np.ndarray]] = []
        draws = [np.random.default_rng([seed, env]) for env in envs]
        self.vec.reset(seed=seed)
        for env in envs:
            self._reset(env, {"seed": seed + env})
        for self.step in range(1, steps + 1):
            self.before = [self._state(env) or self._peek(env) for env in envs]
            for env in envs:
                if self.teacher_forced and not self.over[env]:
                    self.vec.poke(env, self.before[env])
            self.taken = [self._draw(env, draws[env]) for env in envs]
            sent = {
                name: np.concatenate([taken[name] for taken in self.taken])
                for name in self.taken[0]
            }
            self.vec.step(sent if self.columns.several else next(iter(sent.values())))
            for env in envs:
                self._reset(env, {}) if self.over[env] else self._step(env)

    def _reset(self, env: int, seed: dict[str, int]) -> None:
        observations, infos = self.references[env].reset(**seed)
        if self.starts_from_env:
            observations = self.references[env].set_state(self.vec.peek(env))
        self.report.resets += 1
        self.over[env] = False
        self._compare(env, (infos.get("masks", True), False, False), 0.0, observations, np.inf)

    def _step(self, env: int) -> None:
        reference = self.references[env]
        observations, rewards, terminated, truncated, infos = reference.step(self._actions_of(env))
        flags = infos.get("masks", True), terminated, truncated
        acting, ended, cut = (np.concatenate(self.columns.agents(flag)) for flag in flags)
        margins = _method(reference, "margins")
        self.over[env] = not (acting & ~ended & ~cut).any()
        self.report.steps += 1
        for name, count in {
            **infos.get("events", {}),
            "terminals": ended.any(),
            "truncations": cut.any(),
        }.items():
            self.report.events[name] = self.report.events.get(name, 0) + int(count)
        if not self._compare(
            env, flags, rewards, observations, np.inf if margins is None else margins()
        ):
            # An outcome that was not compared has made env and reference diverge: reset both.
            self.vec.reset(mask=np.arange(self.vec.num_envs) == env)
            self._reset(env, {})

    def _actions_of(self, env: int) -> Any:
        """Return an env's actions in the form that its reference expects."""
        if self.columns.several:
            return self.taken[env]
        (actions,) = self.taken[env].values()
        return actions if self.columns.groups[0].agents > 1 else actions[0]

    def _draw(self, env: int, draw: np.random.Generator) -> dict[str, np.ndarray]:
        """Return the action rows of one env by group."""
        groups = self.columns.groups
        shapes = {group.name: (group.agents, *group.action_shape) for group in groups}
        if self.over[env]:
            return {
                group.name: np.zeros(shapes[group.name], group.action_dtype) for group in groups
            }
        if self.actions is None:
            return {
                group.name: _draw_uniform(group, draw).reshape(shapes[group.name])
                for group in groups
            }
        actions = self.actions(self.references[env], draw)
        actions = actions if self.columns.several else {groups[0].name: actions}
        return {
            group.name: np.asarray(actions[group.name], group.action_dtype).reshape(
                shapes[group.name]
            )
            for group in groups
        }

    def _state(self, env: int) -> dict[str, Any]:
        """Return those fields of the reference's state that the C env also has."""
        fields = self.columns.state_fields
        state = self.references[env].state() if fields else {}
        return {f.name: np.array(state[f.name]) for f in fields}

    def _peek(self, env: int) -> dict[str, np.ndarray]:
        return self.vec.peek(env) if self.vec.spec.state_fields else {}

    def _vector_of(self, env: int) -> np.ndarray:
        """Return the vector of a C env."""
        flags: list[dict[str, np.ndarray]] = [{} for _ in FLAGS]
        rewards, observations = {}, {}
        for group in self.columns.groups:
            rows, mine = (
                self.vec.halves[0].groups[group.name],
                slice(env * group.agents, (env + 1) * group.agents),
            )
            all_rows = rows.observations
            observations[group.name] = (
                {n: of[mine] for n, of in all_rows.items()}
                if isinstance(all_rows, Mapping)
                else all_rows[mine]
            )
            rewards[group.name] = rows.rewards[mine]
            for flag, name in zip(flags, FLAGS, strict=True):
                flag[group.name] = getattr(rows, name)[mine]
        state = self._peek(env) if self.columns.state_fields else None
        if self.columns.several:
            return self.columns.vector(flags, rewards, observations, state)
        name = self.columns.groups[0].name
        return self.columns.vector(
            [flag[name] for flag in flags], rewards[name], observations[name], state
        )

    def _compare(
        self, env: int, flags: Sequence[Any], rewards: Any, observations: Any, margins: Any
    ) -> bool:
        """Raise if the C env differs from its reference.

        Returns: False if it differs only in exempt values.
        """
        actual, wanted = (
            self._vector_of(env),
            self.columns.vector(flags, rewards, observations, self._state(env)),
        )
        difference, near = (
            self.columns.differences(actual, wanted),
            self.columns.margins(margins) < self.epsilon,
        )
        wrong = difference > self.columns.allowed
        if (wrong & ~near).any():
            raise self._mismatch(env, actual, wanted, np.flatnonzero(wrong & ~near))
        for name, _ in {
            (self.columns.part[i], self.columns.agent[i]) for i in np.flatnonzero(near)
        }:
            self.report.exempt[name] = self.report.exempt.get(name, 0) + 1
        largest = np.zeros(len(self.columns.names))
        np.maximum.at(largest, self.columns.name[~near], difference[~near])
        for name, value in zip(self.columns.names, largest.tolist(), strict=True):
            self.report.largest[name] = max(self.report.largest.get(name, 0.0), value)
        return not wrong.any()

    def _mismatch(
        self, env: int, actual: np.ndarray, wanted: np.ndarray, wrong: np.ndarray
    ) -> EnvMismatchError:
        columns, at = self.columns, wrong[0]
        name = columns.names[columns.name[at]]
        others = {columns.names[columns.name[other]] for other in wrong} - {name}
        by_group, before = (self.taken[env], self.before[env]) if self.taken else (None, {})
        # Rows of agents.
        taken = (
            by_group if by_group is None or columns.several else by_group[columns.groups[0].name]
        )
        when = f"step {self.step}" if self.step else "the reset"
        lines = [
            f"{self.vec.env.name} has {actual[at]:.9g} in {columns.place(at)}, "
            f"{type(self.references[env]).__name__} has {wanted[at]:.9g} (allowed difference: "
            f"{columns.allowed[at]:g})",
            f"in {when} of env {env}, seed {self.seed}, settings {dict(self.settings)}",
        ]
        if by_group is not None:
            named = by_group if columns.several else {"actions": taken}
            lines += [
                *(f"{name}: {_shorten(rows)}" for name, rows in named.items()),
                "state before:",
            ]
            lines += [f"    {field}: {_shorten(value)}" for field, value in before.items()]
        if others:
            lines.append(f"other differences: {', '.join(sorted(others))}")
        where = {"field": name, "env": env, "seed": self.seed, "step": self.step}
        return EnvMismatchError("\n".join(lines), **where, actions=taken, before=before)


def _shorten(values: Any) -> str:
    text = str(np.asarray(values).tolist())
    return text if len(text) < 300 else f"{text[:300]}... (the error has all)"


def _draw_uniform(group: GroupSpec, draw: np.random.Generator) -> np.ndarray:
    """Return actions of a group's agents, drawn uniformly."""
    size = group.agents, group.action_dims
    if group.action_kind == "continuous":
        return draw.uniform(group.action_low, group.action_high, size).astype(group.action_dtype)
    return draw.integers(0, group.action_sizes, size).astype(group.action_dtype)
