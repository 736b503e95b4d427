# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Evaluation: a policy, or a baseline, acts in fresh envs; rates with 95 % intervals come out. Runs in the learner.

An env may bring its own evaluation (`NativeEnv.evaluate`, "module:function"), as drive does with rates per scene; it is called
with an `Actor`. For the others the table shows return and length per agent type.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

import puffervec
import puffervec.envs
from puffervec.errors import CheckpointError
from puffervec.train import checkpoint as ckpt
from puffervec.train.config import TrainConfig
from puffervec.train.distributions import ActionSpec, draw_noise, greedy, sample
from puffervec.train.policy import State, build_policy
from puffervec.train.rundir import config_from_tables
from puffervec.train.state import actor_weights, env_spec
from puffervec.train.stats import mean_interval


class Actor(Protocol):
    """Something that acts; what an env's own evaluation is given."""

    def reset(self, vec: Any) -> None:
        """Called before the first step of a fresh vec env."""

    def act(self, obs: Any, vec: Any) -> Any:
        """Return actions (rows,) or (rows, D) for the half last received; obs as from `vec.recv`."""


class PolicyActor:
    """Policies by name as an actor, on a CPU or CUDA."""

    def __init__(self, policies: dict[str, nn.Module], device: torch.device, deterministic: bool, seed: int = 0) -> None:
        """Args: deterministic: the likeliest action instead of a drawn one."""
        self.policies, self.device, self.deterministic = policies, device, deterministic
        self.generator = torch.Generator(device).manual_seed(seed)
        self._states: dict[tuple[str, int], State] = {}
        self._reset: dict[tuple[str, int], torch.Tensor] = {}

    def reset(self, vec: Any) -> None:
        """Forget all memory."""
        self._states.clear()
        self._reset.clear()

    @torch.no_grad()
    def act(self, obs: Any, vec: Any) -> Any:
        """Act for all groups of the half last received."""
        half = vec.halves[vec.half]
        groups = vec.spec.groups
        actions = {}
        for group in groups:
            rows = half.groups[group.name]
            actions[group.name] = self._act_group(
                obs if len(groups) == 1 else obs[group.name], rows, group, len(groups), vec.half
            )
        return actions[groups[0].name] if len(groups) == 1 else actions

    def _act_group(self, obs: Any, rows: Any, group: Any, group_count: int, half: int) -> np.ndarray:
        name = "default" if group_count == 1 else group.name
        policy: Any = self.policies[name]
        key = (name, half)
        count = len(rows.rewards)
        state = self._states.get(key) or tuple(part.to(self.device) for part in policy.initial_state(count))
        reset = self._reset.get(key, torch.ones(count, dtype=torch.bool, device=self.device))
        idle = ~rows.masks | rows.terminals | rows.truncations
        # Without memory only the rows that act need the policy: most rows of an evaluation are done before the last one is.
        picked = np.arange(count) if state else np.flatnonzero(~idle)
        if not len(picked):
            return np.zeros(
                count if group.action_kind == "discrete" else (count, ActionSpec.of(group).dims), group.action_dtype
            )
        given = {k: self._tensor(v[picked]) for k, v in obs.items()} if isinstance(obs, dict) else self._tensor(obs[picked])
        allowed = None if rows.action_masks is None else self._tensor(rows.action_masks[picked])
        heads, value, self._states[key] = policy(given, state, reset, allowed)
        self._reset[key] = self._tensor(idle)
        spec = ActionSpec.of(group)
        if self.deterministic:
            chosen = greedy(spec, heads)
        else:
            chosen, _ = sample(spec, heads, draw_noise(spec, len(value), self.device, self.generator))
        actions = np.zeros((count, spec.dims), np.int32 if spec.discrete else np.float32)
        actions[picked] = chosen.cpu().numpy()
        return actions[:, 0] if group.action_kind == "discrete" else actions

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        # A copy: the rows change under a view as soon as the actions are sent.
        return torch.tensor(array, device=self.device)


def load_policies(path: Path, device: torch.device) -> tuple[TrainConfig, dict[str, nn.Module]]:
    """Return the config and the policies of a checkpoint folder.

    Raises: CheckpointError, ConfigError.
    """
    manifest = ckpt.read_manifest(path)
    config = config_from_tables(manifest["config"])
    names = tuple(manifest["policies"])
    found = ckpt.read(path, only=names)
    groups = {group.name: group for group in env_spec(config).groups}
    policies = {}
    for name in names:
        policy = build_policy(groups[manifest["policies"][name]["group"]], config.policy).to(device)
        try:
            policy.load_state_dict(actor_weights(found, name))
        except RuntimeError as error:
            raise CheckpointError(f"{path}: the weights of {name!r} do not fit: {error}") from error
        policies[name] = policy.eval()
    return config, policies


def evaluation_hook(target: str) -> Callable[..., Any] | None:
    """Return the env's own evaluation, or None."""
    where = puffervec.envs.get(target).evaluate
    if where is None:
        return None
    module, _, function = where.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def companion(target: str, module: str, name: str) -> Callable[..., Any] | None:
    """Return a function that lies beside the env's own evaluation (`evaluate:draw`, `baselines:baseline`,
    `describe:describe_scenes`), or None where the env has no evaluation of its own or no such function."""
    where = puffervec.envs.get(target).evaluate
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
    """Return and length of one agent type, each as mean and half the width of the 95 % interval."""

    agent_type: int
    episodes: int
    episode_return: tuple[float, float]
    length: tuple[float, float]


def evaluate_generic(
    target: str, env_config: Any, actor: Actor, episodes: int, seed: int, num_envs: int = 16
) -> list[TypeRates]:
    """Run at least `episodes` whole episodes in this process and return rates per agent type.

    Every env runs the same number of episodes, so that short ones are not favoured.
    """
    rounds = -(-episodes // num_envs)
    records = []
    with puffervec.make(target, env_config, backend="serial", num_envs=num_envs, seed=seed) as vec:
        actor.reset(vec)
        vec.async_reset(seed)
        finished = np.zeros(num_envs, np.int64)
        while finished.min() < rounds:
            obs, *_, infos, _, _ = vec.recv()
            if infos:
                batch = infos["episodes"]
                records.append(batch[batch["episode"] < rounds])
                np.maximum.at(finished, batch["env"], batch["episode"].astype(np.int64) + 1)
            vec.send(actor.act(obs, vec))
    found = np.concatenate(records)
    return [
        TypeRates(
            agent_type=int(kind),
            episodes=int((found["agent_type"] == kind).sum()),
            episode_return=mean_interval(found["return"][found["agent_type"] == kind]),
            length=mean_interval(found["length"][found["agent_type"] == kind]),
        )
        for kind in np.unique(found["agent_type"])
    ]


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
        if group.action_kind == "continuous":
            return self._random.uniform(group.action_low, group.action_high, (rows, len(group.action_low))).astype(np.float32)
        drawn = self._random.integers(0, group.action_sizes, (rows, len(group.action_sizes)), dtype=np.int32)
        return drawn[:, 0] if group.action_kind == "discrete" else drawn
