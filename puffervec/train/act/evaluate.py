# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Evaluation: a policy, or a baseline, acts in fresh envs; rates with 95 % intervals come out. Runs
in the learner.

An env may bring its own evaluation (`NativeEnv.evaluation`), as drive does with rates per scene; it
is called with an `Actor`. For the others the table shows return, length and what the env itself
reports, per agent type.
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

EVALUATED_AT_ONCE = 16  # Python envs.
MEANINGS = {
    "episodes": "whole episodes that were played",
    "return": "sum of the rewards of an episode",
    "length": "steps of an episode",
}
MOST_STEPS = 100_000  # Of an env until it ends an episode; some never do.


@dataclasses.dataclass(frozen=True)
class TypeRates:
    """Return and length of one agent type, each as mean and half the width of the 95 % interval
    (NaN: there is none).

    agent_type: number of the type; in a Python env the agent's place in `possible_agents`.
    name: of the type, "" where it has none.
    reported: what the env itself says of an episode, likewise: the episode records of a C env, the
        numeric infos of a Python env. A Python env may report a number at each step: it counts by
        its mean over the episode.
    """

    agent_type: int
    episodes: int
    episode_return: tuple[float, float]
    length: tuple[float, float]
    name: str = ""
    reported: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)


def as_planned(config: TrainConfig, policies: Mapping[str, Any]) -> dict[str, Any]:
    """Return what acts for a run's policies, as its `train.plan` says."""
    return {
        name: policy_wrapper(config.of_policy(name).train.plan)(policy)
        for name, policy in policies.items()
    }


def evaluate_any(config: TrainConfig, actor: Actor, episodes: int, seed: int) -> Report:
    """Evaluate an env by return, length and what it reports itself. Raises: ConfigError: see
    `evaluate_python`.
    """
    if config.python:
        column, rates = "agent", evaluate_python(config, actor, episodes, seed)
    else:
        column, rates = (
            "agent type",
            evaluate_generic(config.target, config.env, actor, episodes, seed),
        )
    remarks = ["means with 95 % intervals"]
    if episodes > 1 and rates and all(math.isnan(found.length[1]) for found in rates):
        remarks = [
            f"all {episodes} episodes are the same one, so there are no intervals: neither env "
            "nor actor draws anything"
        ]
        remarks[0] += " (--sample draws a policy's actions)"
    rows = []
    for found in rates:
        row: dict[str, Cell] = {
            column: found.name or str(found.agent_type),
            "episodes": found.episodes,
        }
        for name, (mean, half) in {
            "return": found.episode_return,
            "length": found.length,
            **found.reported,
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

    Args: num_envs: how many run at once, at most. Each runs a number of episodes that is settled
        before, so that short ones are not favoured.
    Returns: rates; without intervals (NaN) where all episodes are the same one.
    Raises: ConfigError where an env does not end an episode within MOST_STEPS.
    """
    num_envs = min(num_envs, episodes)
    rounds, alike = _shares(episodes, num_envs), _Alike(num_envs)
    records, finished = [], np.zeros(num_envs, np.int64)
    with puffervec.make(
        target, env_kwargs=env_config, backend="serial", num_envs=num_envs, seed=seed
    ) as vec:
        for obs, *_, infos, _, _ in _received(target, vec, actor, seed, rounds, finished):
            alike.look(obs)
            if infos:
                batch = infos.episodes
                records.append(batch[batch["episode"] < rounds[batch["env"]]])
                np.maximum.at(finished, batch["env"], batch["episode"].astype(np.int64) + 1)
        return alike.applied(
            _rates(np.concatenate(records), vec.env.agent_types, vec.spec.record_names)
        )


def _shares(episodes: int, envs: int) -> np.ndarray:
    """Return how many episodes each env runs, (envs,) int64."""
    return np.full(envs, episodes // envs) + (np.arange(envs) < episodes % envs)


class _Alike:
    """Tells whether all envs of an evaluation went through the same episode: then one is as good as
    many.
    """

    def __init__(self, envs: int) -> None:
        self._envs, self._alike = envs, envs > 1

    def look(self, obs: Any) -> None:
        """Compare the observations that all envs have just given: an array of rows, or a dict of
        such.
        """
        if isinstance(obs, Mapping):
            for part in obs.values():
                self.look(part)
        elif self._alike:
            rows = np.ascontiguousarray(obs).view(np.uint8).reshape(self._envs, -1)
            self._alike = bool((rows == rows[:1]).all())

    def applied(self, rates: list[TypeRates]) -> list[TypeRates]:
        """Return the rates, without intervals where all was alike."""
        if not self._alike:
            return rates
        return [
            dataclasses.replace(
                found,
                episode_return=(found.episode_return[0], math.nan),
                length=(found.length[0], math.nan),
                reported={name: (mean, math.nan) for name, (mean, _) in found.reported.items()},
            )
            for found in rates
        ]


def _received(
    target: str, vec: VectorEnv, actor: Actor, seed: int, rounds: np.ndarray, finished: np.ndarray
) -> Iterator[tuple[Any, ...]]:
    """Yield what each `recv` returns until each env has run its `rounds` of episodes; the caller
    counts them in `finished`.

    Raises: ConfigError where an env does not end one: what the others did would favour short
        episodes.
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
    found: np.ndarray, names: Sequence[str], record_names: Sequence[str] = ()
) -> list[TypeRates]:
    """Return rates per agent type from episode records. Args: names: of the types; record_names: of
    the records' values.
    """
    rates = []
    for kind in np.unique(found["agent_type"]).tolist():
        own = found[found["agent_type"] == kind]
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
    """`evaluate_generic` for the Python env of a run: records are made from rewards, flags and
        infos.

    Raises: ConfigError where an env does not end an episode within MOST_STEPS.
    """
    envs = min(EVALUATED_AT_ONCE, episodes)
    rounds, alike = _shares(episodes, envs), _Alike(envs)
    maker = config.creator or config.target
    with puffervec.make(
        maker, env_kwargs=config.env, backend="serial", num_envs=envs, seed=seed
    ) as vec:
        agents = vec.spec.agents
        tracker, numbers = EpisodeTracker(envs * agents), EpisodeNumbers(envs)
        records, finished = [np.zeros(0, RECORD_DTYPE)], np.zeros(envs, np.int64)
        for received in _received(config.target, vec, actor, seed, rounds, finished):
            obs, rewards, terminals, truncations, infos, _, masks = received
            alike.look(obs)
            batch = as_records(tracker.step(rewards, terminals, truncations, masks), agents)
            records.append(batch[finished[batch["env"]] < rounds[batch["env"]]])
            ended = ~(masks & ~(terminals | truncations)).reshape(envs, agents).any(1)
            numbers.step(infos.numeric, ended, finished < rounds)
            finished += ended
        names = tuple(str(agent) for agent in getattr(vec.driver_env, "possible_agents", ()))
    found = np.concatenate(records)
    found["agent_type"] = found["slot"]
    rates = [
        dataclasses.replace(own, reported=numbers.of(names, own.agent_type))
        for own in _rates(found, names)
    ]
    return alike.applied(rates)


class RandomActor:
    """Draws every action uniformly."""

    def __init__(self, seed: int) -> None:
        """Args: seed: of the draws."""
        self._random = np.random.default_rng(seed)

    def reset(self, vec: Any) -> None:
        """Nothing to forget."""

    def act(self, obs: Any, vec: Any) -> Any:
        """Draw for all groups of the half last received."""
        half = vec.halves[vec.half]
        drawn = {
            group.name: self._draw(group, len(half.groups[group.name].rewards))
            for group in vec.spec.groups
        }
        return next(iter(drawn.values())) if len(drawn) == 1 else drawn

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
