# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Evaluation: a policy, or a baseline, acts in fresh envs; rates with 95 % intervals come out. Runs in the learner.

An env may bring its own evaluation (`NativeEnv.evaluate`, "module:function"), as drive does with rates per scene; it is called
with an `Actor`. For the others the table shows return and length per agent type.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

import puffervec
from puffervec.errors import CheckpointError, ConfigError
from puffervec.slab import RECORD_DTYPE
from puffervec.spec import GroupSpec
from puffervec.train import checkpoint as ckpt
from puffervec.train.acting import PolicyActor as PolicyActor
from puffervec.train.acting import env_actions
from puffervec.train.config import TrainConfig
from puffervec.train.distributions import WIDEST_RANGE, ActionSpec
from puffervec.train.policy import build_policy
from puffervec.train.returns import EpisodeTracker, as_records
from puffervec.train.rundir import config_from_tables
from puffervec.train.state import actor_weights, as_trained
from puffervec.train.stats import mean_interval
from puffervec.train.target import env_spec, native_env

EVALUATED_AT_ONCE = 16  # Python envs.
MOST_STEPS = 100_000  # Of an env until it ends an episode; some never do.


class Actor(Protocol):
    """Something that acts; what an env's own evaluation is given."""

    def reset(self, vec: Any) -> None:
        """Called before the first step of a fresh vec env."""

    def act(self, obs: Any, vec: Any) -> Any:
        """Return actions (rows,) or (rows, D) for the half last received; obs as from `vec.recv`."""


def load_policies(
    path: Path,
    device: torch.device,
    trusted: Collection[str | None] = (),
    env: Callable[..., Any] | None = None,
    made: Mapping[str, nn.Module] | None = None,
) -> tuple[TrainConfig, dict[str, nn.Module]]:
    """Return the config and the policies of a checkpoint folder.

    Args: trusted: names of an own env and policy, code that the checkpoint alone must not have imported; env: what makes the
        Python env, in place of the name that the checkpoint has for it; made: networks to put the weights into, by policy.
    Raises: CheckpointError, ConfigError.
    """
    manifest = ckpt.read_manifest(path)
    config = config_from_tables(manifest["config"], trusted, env)
    names = tuple(manifest["policies"])
    found = ckpt.read(path, only=names)
    groups = {group.name: group for group in env_spec(config).groups}
    config = as_trained(config, groups.values(), manifest, found.tensors)
    policies = {}
    for name in names:
        group = groups.get(manifest["policies"][name]["group"])
        if group is None:
            raise CheckpointError(
                f"{path}: the env has no rows {manifest['policies'][name]['group']!r} for the policy {name!r}"
            )
        if made is not None and name in made:
            policy = made[name].to(device)
        else:
            _check_sizes(path, group, config, actor_weights(found, name))
            policy = build_policy(group, config.policy).to(device)
        try:
            policy.load_state_dict(actor_weights(found, name))
        except RuntimeError as error:
            raise CheckpointError(f"{path}: the weights of {name!r} do not fit: {error}") from error
        policies[name] = policy.eval()
    return config, policies


def _check_sizes(path: Path, group: GroupSpec, config: TrainConfig, weights: dict[str, torch.Tensor]) -> None:
    """Refuse a config whose policy is not of the size of the weights, before any memory is taken for it."""
    with torch.device("meta"):
        planned = build_policy(group, config.policy).state_dict()
    if {name: tuple(w.shape) for name, w in planned.items()} != {name: tuple(w.shape) for name, w in weights.items()}:
        raise CheckpointError(f"{path}: the weights do not fit the policy that the manifest's config describes")


def _own_evaluation(target: str) -> str | None:
    native = native_env(target)
    return None if native is None else native.evaluate


def evaluation_hook(target: str) -> Callable[..., Any] | None:
    """Return the env's own evaluation, or None."""
    where = _own_evaluation(target)
    if where is None:
        return None
    module, _, function = where.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def companion(target: str, module: str, name: str) -> Callable[..., Any] | None:
    """Return a function that lies beside the env's own evaluation (`evaluate:draw`, `baselines:baseline`,
    `describe:describe_scenes`), or None where the env has no evaluation of its own or no such function."""
    where = _own_evaluation(target)
    if where is None:
        return None
    package = where.partition(":")[0].rpartition(".")[0]
    try:
        found: Callable[..., Any] | None = getattr(importlib.import_module(f"{package}.{module}"), name, None)
    except ModuleNotFoundError as error:
        if error.name != f"{package}.{module}":
            raise
        return None
    return found


@dataclasses.dataclass(frozen=True)
class TypeRates:
    """Return and length of one agent type, each as mean and half the width of the 95 % interval.

    agent_type: number of the type; in a Python env the agent's place in `possible_agents`.
    """

    agent_type: int
    episodes: int
    episode_return: tuple[float, float]
    length: tuple[float, float]


def evaluate_generic(
    target: str, env_config: Any, actor: Actor, episodes: int, seed: int, num_envs: int = 16
) -> list[TypeRates]:
    """Run at least `episodes` whole episodes in this process and return rates per agent type.

    Every env runs the same number of episodes, so that short ones are not favoured.
    Raises: ConfigError where an env does not end an episode within MOST_STEPS.
    """
    rounds = -(-episodes // num_envs)
    records, patience = [], _Patience(target, rounds, num_envs)
    with puffervec.make(target, env_kwargs=env_config, backend="serial", num_envs=num_envs, seed=seed) as vec:
        actor.reset(vec)
        vec.async_reset(seed)
        finished = np.zeros(num_envs, np.int64)
        while not patience.over(finished):
            obs, *_, infos, _, _ = vec.recv()
            if infos:
                batch = infos.episodes
                records.append(batch[batch["episode"] < rounds])
                np.maximum.at(finished, batch["env"], batch["episode"].astype(np.int64) + 1)
            vec.send(actor.act(obs, vec))
    return _rates(np.concatenate(records))


class _Patience:
    """Waits until all envs have run their episodes, and gives up where one does not end."""

    def __init__(self, target: str, rounds: int, envs: int) -> None:
        self._target, self._rounds = target, rounds
        self._before, self._since = np.zeros(envs, np.int64), np.zeros(envs, np.int64)

    def over(self, finished: np.ndarray) -> bool:
        """Asked once per step. Args: finished: episodes of each env so far. Raises: ConfigError."""
        waiting = finished < self._rounds
        self._since = np.where(waiting & (finished == self._before), self._since + 1, 0)
        self._before = finished.copy()
        if stuck := int((self._since > MOST_STEPS).sum()):
            # What the others did would favour short episodes.
            raise ConfigError(
                f"{self._target}: {stuck} of {len(finished)} envs did not end an episode within {MOST_STEPS:,} steps: "
                "make the env truncate (Gymnasium: TimeLimit)"
            )
        return not bool(waiting.any())


def _rates(found: np.ndarray) -> list[TypeRates]:
    """Return rates per agent type from episode records."""
    return [
        TypeRates(
            agent_type=int(kind),
            episodes=int((found["agent_type"] == kind).sum()),
            episode_return=mean_interval(found["return"][found["agent_type"] == kind]),
            length=mean_interval(found["length"][found["agent_type"] == kind]),
        )
        for kind in np.unique(found["agent_type"])
    ]


def evaluate_python(config: TrainConfig, actor: Actor, episodes: int, seed: int) -> list[TypeRates]:
    """`evaluate_generic` for the Python env of a run: records are made from rewards and flags.

    Raises: ConfigError where an env does not end an episode within MOST_STEPS.
    """
    envs = min(EVALUATED_AT_ONCE, episodes)
    rounds = -(-episodes // envs)
    maker = config.creator or config.target
    with puffervec.make(maker, env_kwargs=config.env, backend="serial", num_envs=envs, seed=seed) as vec:
        agents = vec.spec.agents
        tracker, finished = EpisodeTracker(envs * agents), np.zeros(envs, np.int64)
        records, patience = [np.zeros(0, RECORD_DTYPE)], _Patience(config.target, rounds, envs)
        actor.reset(vec)
        vec.async_reset(seed)
        while not patience.over(finished):
            obs, rewards, terminals, truncations, _, _, masks = vec.recv()
            batch = as_records(tracker.step(rewards, terminals, truncations, masks), agents)
            records.append(batch[finished[batch["env"]] < rounds])
            finished += ~(masks & ~(terminals | truncations)).reshape(envs, agents).any(1)
            vec.send(actor.act(obs, vec))
    found = np.concatenate(records)
    found["agent_type"] = found["slot"]
    return _rates(found)


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
        drawn = {group.name: self._draw(group, len(half.groups[group.name].rewards)) for group in vec.spec.groups}
        return next(iter(drawn.values())) if len(drawn) == 1 else drawn

    def _draw(self, group: Any, rows: int) -> np.ndarray:
        spec = ActionSpec.of(group)
        if spec.discrete:
            drawn: np.ndarray = self._random.integers(0, spec.sizes, (rows, spec.dims), dtype=np.int32)
            return env_actions(group, torch.from_numpy(drawn))
        bounded = np.array(spec.high) - np.array(spec.low) <= WIDEST_RANGE
        drawn = self._random.uniform(-1.0, 1.0, (rows, spec.dims))
        drawn[:, ~bounded] = self._random.standard_normal((rows, int((~bounded).sum())))
        return env_actions(group, torch.from_numpy(drawn))
