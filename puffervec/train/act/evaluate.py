# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Evaluate a policy or a baseline in fresh envs: rates with 95 % intervals.

An env may bring its own evaluation (`NativeEnv.evaluation`), like drive with rates per scene; it is
called with an `Actor`. For other envs the table shows return, length and the numbers that the env
reports, per agent type. Runs in the learner.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

import puffervec
from puffervec.contract.evaluation import Actor, Cell, Interval, Report, report_progress
from puffervec.core.slab import RECORD_DTYPE
from puffervec.doors import policy_wrapper
from puffervec.errors import ConfigError
from puffervec.train.act.acting import PolicyActor as PolicyActor
from puffervec.train.act.acting import env_actions
from puffervec.train.collect.episodes import (
    EpisodeNumbers,
    EpisodeTracker,
    as_records,
    mean_interval,
)
from puffervec.train.config.sections import TrainConfig
from puffervec.train.metrics.keys import ENV
from puffervec.train.policies.distributions import WIDEST_RANGE, ActionSpec
from puffervec.train.run.trained import load_policies as load_policies
from puffervec.vec.vector_env import VectorEnv

MOST_PYTHON_ENVS = 16  # Python envs that are evaluated together.
MEANINGS = {
    "episodes": "number of whole episodes",
    "return": "sum of the rewards of an episode",
    "length": "steps of an episode",
}
MOST_STEPS = 100_000  # Steps within which an env must end an episode; some never end one.


@dataclasses.dataclass(frozen=True)
class TypeRates:
    """Return and length of one agent type.

    Each is (mean, half the width of its 95 % interval); the latter is NaN without an interval.

    Attributes:
        agent_type: Number of the type; in a Python env the agent's index in `possible_agents`.
        name: Name of the type, "" if it has none.
        reported: The numbers that the env reports on an episode, in the same form: the episode
            records of a C env, the numeric infos of a Python env. A number that a Python env
            reports at each step counts by its mean over the episode.
    """

    agent_type: int
    episodes: int
    episode_return: tuple[float, float]
    length: tuple[float, float]
    name: str = ""
    reported: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)


def with_plans(config: TrainConfig, policies: Mapping[str, Any]) -> dict[str, Any]:
    """Wrap a run's policies as its `train.plan` says."""
    return {
        name: policy_wrapper(config.of_policy(name).train.plan)(policy)
        for name, policy in policies.items()
    }


def evaluate_any(config: TrainConfig, actor: Actor, episodes: int, seed: int) -> Report:
    """Evaluate an env by return, length and the numbers that it reports.

    Raises:
        ConfigError: See `evaluate_python`.
    """
    if config.python:
        column, rates = "agent", evaluate_python(config, actor, episodes, seed)
    else:
        column, rates = (
            "agent type",
            evaluate_generic(config.target, config.env, actor, episodes, seed),
        )
    remarks = ["means with 95 % intervals"]
    if episodes > 1 and rates and all(math.isnan(own.length[1]) for own in rates):
        remarks = [
            f"all {episodes} episodes are identical, so there are no intervals: neither env nor "
            "actor draws random numbers"
        ]
        remarks[0] += " (--sample draws a policy's actions)"
    rows = []
    for own in rates:
        row: dict[str, Cell] = {
            column: own.name or str(own.agent_type),
            "episodes": own.episodes,
        }
        for name, (mean, half) in {
            "return": own.episode_return,
            "length": own.length,
            **own.reported,
        }.items():
            row[name if name not in row else ENV + name] = Interval(mean, mean - half, mean + half)
        rows.append(row)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return Report(
        [{name: row.get(name) for name in columns} for row in rows],
        remarks=remarks,
        meanings=MEANINGS,
    )


def evaluate_generic(
    target: str, env_config: Any, actor: Actor, episodes: int, seed: int, num_envs: int = 16
) -> list[TypeRates]:
    """Run `episodes` whole episodes in this process and return rates per agent type.

    Args:
        num_envs: Maximum number of envs that run together. The number of episodes of each is fixed
            beforehand, so that short ones are not favoured.

    Returns:
        Rates; without intervals (NaN) if all episodes are identical.

    Raises:
        ConfigError: An env does not end an episode within MOST_STEPS.
    """
    num_envs = min(num_envs, episodes)
    rounds, same = _shares(episodes, num_envs), _Sameness(num_envs)
    records, finished = [], np.zeros(num_envs, np.int64)
    with puffervec.make(
        target, env_kwargs=env_config, backend="serial", num_envs=num_envs, seed=seed
    ) as vec:
        for obs, *_, infos, _, _ in _play(target, vec, actor, seed, rounds, finished):
            same.compare(obs)
            if infos:
                batch = infos.episodes
                records.append(batch[batch["episode"] < rounds[batch["env"]]])
                np.maximum.at(finished, batch["env"], batch["episode"].astype(np.int64) + 1)
        return same.without_intervals(
            _rates(np.concatenate(records), vec.env.agent_types, vec.spec.record_names)
        )


def _shares(episodes: int, envs: int) -> np.ndarray:
    """Return how many episodes each env runs, (envs,) int64."""
    return np.full(envs, episodes // envs) + (np.arange(envs) < episodes % envs)


class _Sameness:
    """Detects whether all envs of an evaluation went through the same episode.

    One episode is then as good as many.
    """

    def __init__(self, envs: int) -> None:
        self._envs, self._same = envs, envs > 1

    def compare(self, obs: Any) -> None:
        """Compare the latest observations of all envs: an array of rows, or a dict of arrays."""
        if isinstance(obs, Mapping):
            for part in obs.values():
                self.compare(part)
        elif self._same:
            rows = np.ascontiguousarray(obs).view(np.uint8).reshape(self._envs, -1)
            self._same = bool((rows == rows[:1]).all())

    def without_intervals(self, rates: list[TypeRates]) -> list[TypeRates]:
        """Return the rates, without intervals if all episodes were identical."""
        if not self._same:
            return rates
        return [
            dataclasses.replace(
                own,
                episode_return=(own.episode_return[0], math.nan),
                length=(own.length[0], math.nan),
                reported={name: (mean, math.nan) for name, (mean, _) in own.reported.items()},
            )
            for own in rates
        ]


def _play(
    target: str, vec: VectorEnv, actor: Actor, seed: int, rounds: np.ndarray, finished: np.ndarray
) -> Iterator[tuple[Any, ...]]:
    """Yield the results of each `recv` until each env has run its `rounds` of episodes.

    The caller counts them in `finished`.

    Raises:
        ConfigError: An env does not end an episode; the results of the others would favour short
            ones.
    """
    actor.reset(vec)
    vec.async_reset(seed)
    since = np.zeros_like(finished)
    while (finished < rounds).any():
        before, received = finished.copy(), vec.recv()
        yield received
        report_progress("evaluating", float((np.minimum(finished, rounds) / rounds).mean()))
        since = np.where((finished < rounds) & (finished == before), since + 1, 0)
        if stuck := int((since >= MOST_STEPS).sum()):
            raise ConfigError(
                f"{target}: {stuck} of {len(finished)} envs did not end an episode within "
                f"{MOST_STEPS:,} steps: make the env truncate (Gymnasium: TimeLimit)"
            )
        vec.send(actor.act(received[0], vec))


def _rates(
    records: np.ndarray, names: Sequence[str], record_names: Sequence[str] = ()
) -> list[TypeRates]:
    """Return rates per agent type from episode records.

    Args:
        names: Names of the types.
        record_names: Names of the records' values.
    """
    rates = []
    for kind in np.unique(records["agent_type"]).tolist():
        own = records[records["agent_type"] == kind]
        reported = {name: mean_interval(own["values"][:, i]) for i, name in enumerate(record_names)}
        name = names[kind] if kind < len(names) else ""
        rates.append(
            TypeRates(
                kind,
                len(own),
                mean_interval(own["return"]),
                mean_interval(own["length"]),
                name,
                reported,
            )
        )
    return rates


def evaluate_python(config: TrainConfig, actor: Actor, episodes: int, seed: int) -> list[TypeRates]:
    """Do the same as `evaluate_generic` for a Python env.

    Records come from rewards, flags and infos.

    Raises:
        ConfigError: An env does not end an episode within MOST_STEPS.
    """
    envs = min(MOST_PYTHON_ENVS, episodes)
    rounds, same = _shares(episodes, envs), _Sameness(envs)
    maker = config.creator or config.target
    with puffervec.make(
        maker, env_kwargs=config.env, backend="serial", num_envs=envs, seed=seed
    ) as vec:
        agents = vec.spec.agents
        tracker, numbers = EpisodeTracker(envs * agents), EpisodeNumbers(envs)
        records, finished = [np.zeros(0, RECORD_DTYPE)], np.zeros(envs, np.int64)
        for received in _play(config.target, vec, actor, seed, rounds, finished):
            obs, rewards, terminals, truncations, infos, _, masks = received
            same.compare(obs)
            batch = as_records(tracker.step(rewards, terminals, truncations, masks), agents)
            records.append(batch[finished[batch["env"]] < rounds[batch["env"]]])
            ended = ~(masks & ~(terminals | truncations)).reshape(envs, agents).any(1)
            numbers.step(infos.numeric, ended, finished < rounds)
            finished += ended
        names = tuple(str(agent) for agent in getattr(vec.driver_env, "possible_agents", ()))
    every = np.concatenate(records)
    every["agent_type"] = every["slot"]
    rates = [
        dataclasses.replace(own, reported=numbers.of(names, own.agent_type))
        for own in _rates(every, names)
    ]
    return same.without_intervals(rates)


class RandomActor:
    """An actor that draws every action uniformly."""

    def __init__(self, seed: int) -> None:
        """Start a generator with `seed`."""
        self._random = np.random.default_rng(seed)

    def reset(self, vec: Any) -> None:
        """Do nothing: there is no memory."""

    def act(self, obs: Any, vec: Any) -> Any:
        """Draw actions for all groups of the half last received."""
        half = vec.halves[vec.half]
        actions = {
            group.name: self._draw(group, len(half.groups[group.name].rewards))
            for group in vec.spec.groups
        }
        return next(iter(actions.values())) if len(actions) == 1 else actions

    def _draw(self, group: Any, rows: int) -> np.ndarray:
        spec = ActionSpec.of(group)
        if spec.discrete:
            drawn: np.ndarray = self._random.integers(
                0, spec.sizes, (rows, spec.dims), dtype=np.int32
            )
            return env_actions(group, torch.from_numpy(drawn))
        bounded = np.array(spec.high) - np.array(spec.low) <= WIDEST_RANGE
        drawn = self._random.uniform(-1.0, 1.0, (rows, spec.dims))
        drawn[:, ~bounded] = self._random.standard_normal((rows, int((~bounded).sum())))
        return env_actions(group, torch.from_numpy(drawn))
