# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Turn rows of observations into actions, and keep the policy's state of each row.

    observations, idle rows  --RowActor-->  actions for `send`

Evaluation and loaded policies (loaded.py) share this code. Runs in the learner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from puffervec.contract.evaluation import Actor
from puffervec.core.spec import GroupSpec
from puffervec.train.device.device import one_torch_thread
from puffervec.train.policies.distributions import ActionMap, ActionSpec, draw_noise, greedy, sample
from puffervec.train.policies.leaves import ROW, TORCH_DTYPES, Observations, flat_rows
from puffervec.train.policies.mapping import PolicyRows, places, policy_rows
from puffervec.train.policies.memory import State
from puffervec.train.policies.protocol import forward
from puffervec.vec.delivery import joined


class RowActor:
    """One policy that acts for the rows of one group.

    Rows have numbers from 0; a new row begins an episode.

    Attributes:
        values: (n,) float32, the policy's values of the rows of the last `act`; NaN for rows that
            the policy did not see.
    """

    def __init__(self, policy: Any, group: GroupSpec, device: torch.device) -> None:
        """Start without rows.

        Args:
            policy: On `device`, see puffervec.train.policies.protocol.
            group: The group of its rows.
        """
        self.policy, self.group, self.device = policy, group, device
        self._state: State = ()  # (rows, ...) each; empty without memory.
        # Rows that begin an episode with their next step.
        self._fresh = torch.ones(0, dtype=torch.bool, device=device)
        self.values = np.zeros(0, np.float32)
        # Created with the first actions: the heads show whether actions are joint.
        self._to_env: ActionMap | None = None

    @property
    def remembers(self) -> bool:
        """Return whether the policy has memory."""
        return len(self.policy.initial_state(1)) > 0

    def forget(self, rows: np.ndarray) -> None:
        """Let rows begin an episode with their next step.

        Args:
            rows: (n,) row numbers.
        """
        self._make_room(rows)
        self._fresh[self._on_device(rows)] = True

    # The threads of a kernel spin until all are done. While other programs used the cores, drive's
    # policy took 33 ms for 64 rows with four threads and 1.2 ms with one.
    @torch.no_grad()
    @one_torch_thread()
    def act(
        self,
        obs: Any,
        rows: np.ndarray,
        idle: np.ndarray,
        action_masks: np.ndarray | None,
        deterministic: bool,
        generator: torch.Generator,
    ) -> np.ndarray:
        """Return actions for `send`: (n, *action_shape) of the action rows' dtype; 0 for idle rows.

        Args:
            obs: (n, ...) rows from `recv`, or a dict of (n, ...) arrays by field.
            rows: (n,) int64 row numbers, each once.
            idle: (n,) bool: absent, or the episode ended with this observation. Such rows begin an
                episode with their next step.
            action_masks: (n, choices), 0 is forbidden; None to allow everything.
            deterministic: Take the action of `greedy`; otherwise draw one with `generator`.
        """
        self._make_room(rows)
        actions = np.zeros((len(rows), *self.group.action_shape), self.group.action_dtype)
        self.values = np.full(len(rows), np.nan, np.float32)
        # Without memory only rows that act need the policy: most rows of an evaluation are done
        # before the last one is.
        chosen = np.arange(len(rows)) if self._state else np.flatnonzero(~idle)
        if len(chosen):
            at = self._index(rows[chosen])
            state = tuple(part[at] for part in self._state)
            allowed = None if action_masks is None else self._on_device(action_masks[chosen])
            heads, value, state = forward(
                self.policy, self.tensors(obs, chosen), state, self._fresh[at], allowed
            )
            for target, new in zip(self._state, state, strict=True):
                target[at] = new
            # `ActionSpec.of` ignores joint unless actions are multi-discrete.
            to_env = self._to_env = self._to_env or action_map(self.group, joint=len(heads) == 1)
            if deterministic:
                drawn = greedy(to_env.spec, heads)
            else:
                drawn, _ = sample(
                    to_env.spec, heads, draw_noise(to_env.spec, len(value), self.device, generator)
                )
            actions[chosen] = env_actions(self.group, drawn.cpu(), to_env)
            self.values[chosen] = value.float().cpu().numpy()
            actions[idle] = 0
        self._fresh[self._index(rows)] = self._on_device(idle)
        return actions

    def _make_room(self, rows: np.ndarray) -> None:
        more = int(rows.max(initial=-1)) + 1 - len(self._fresh)
        if more > 0:
            new = tuple(part.to(self.device) for part in self.policy.initial_state(more))
            old = self._state or tuple(part[:0] for part in new)
            self._state = tuple(torch.cat(pair) for pair in zip(old, new, strict=True))
            self._fresh = torch.cat([self._fresh, self._fresh.new_ones(more)])

    def _index(self, rows: np.ndarray) -> Any:
        """Return rows as an index: a slice, which copies nothing, if they are consecutive."""
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and bool((np.diff(rows) == 1).all()):
            return slice(int(rows[0]), int(rows[-1]) + 1)
        return self._on_device(rows)

    def tensors(self, obs: Any, rows: np.ndarray) -> Observations:
        """Return some rows as the argument of a policy, on its device.

        Args:
            obs: See `act`.
            rows: (n,) indices.
        """
        if self.group.observation_plan is not None:
            return {ROW: flat_rows(self.group.observation_plan, obs[rows]).to(self.device)}
        if isinstance(obs, dict):
            return {name: self._on_device(part[rows]) for name, part in obs.items()}
        # A policy reads a picture as a flat row.
        return {ROW: self._on_device(obs[rows].reshape(len(rows), -1))}

    def _on_device(self, array: np.ndarray) -> torch.Tensor:
        # A copy, because the memory of a view changes as soon as the actions are sent.
        return torch.tensor(array, device=self.device)


class PolicyActor:
    """Policies by name that act in a vector env of `puffervec.make`.

    The env may have any number of buffers, in any order.
    """

    def __init__(
        self,
        policies: dict[str, nn.Module],
        device: torch.device,
        deterministic: bool,
        seed: int = 0,
        rows: Mapping[str, PolicyRows] | None = None,
    ) -> None:
        """Take the policies.

        Args:
            deterministic: Take the actions of `greedy` instead of drawing them.
            seed: Seed of the draws.
            rows: The rows that each policy acts for; None for one row group each.
        """
        self.policies, self.device = policies, device
        self.deterministic, self.rows = deterministic, rows
        self.generator = torch.Generator(device).manual_seed(seed)
        # Values of the last `act` by group, see RowActor.
        self.values: dict[str, np.ndarray] = {}
        self._actors: dict[str, RowActor] = {}

    def reset(self, vec: Any = None) -> None:
        """Clear all memory."""
        self._actors.clear()

    def act(self, obs: Any, vec: Any) -> Any:
        """Return actions (rows,) or (rows, D) for the batch last received, dicts by group if many.

        Args:
            obs: From `vec.recv`.
        """
        halves = [half for half in vec.halves if half.env_ids[0] in vec.env_ids]
        groups = {group.name: group for group in vec.spec.groups}
        actions: dict[str, np.ndarray] = {}
        self.values = {}
        for name, own in (self.rows or policy_rows(vec.spec)).items():
            group = own.group.name
            parts = [half.groups[group] for half in halves]
            group_obs = obs if len(groups) == 1 else obs[group]
            count = sum(len(part.masks) for part in parts)
            at = None if own.agents is None else places(own.agents, groups[group].agents, count)
            actor = self.actor(name, own.group)
            part = self._act_group(actor, group_obs, parts, at, vec.autoreset_mode == "same_step")
            if at is None:
                actions[group], self.values[group] = part, actor.values
            else:
                actions.setdefault(group, np.zeros((count, *part.shape[1:]), part.dtype))[at] = part
                self.values.setdefault(group, np.full(count, np.nan, np.float32))[at] = actor.values
        return next(iter(actions.values())) if len(groups) == 1 else actions

    def _act_group(
        self, actor: RowActor, obs: Any, parts: list[Any], at: np.ndarray | None, same_step: bool
    ) -> np.ndarray:
        """Act for an actor's rows of a group.

        Args:
            at: The actor's rows among those of the parts; None for all.
        """

        def mine(array: Any) -> Any:
            return array if at is None else array[at]

        rows, masks, terminals, truncations = (
            mine(joined([getattr(part, name) for part in parts]))
            for name in ("agent_ids", "masks", "terminals", "truncations")
        )
        obs = {key: mine(part) for key, part in obs.items()} if isinstance(obs, dict) else mine(obs)
        idle, done = ~masks, terminals | truncations
        if same_step:  # The observation is already the first of the next episode.
            actor.forget(rows[done])
        else:
            idle |= done
        allowed = (
            None
            if parts[0].action_masks is None
            else mine(joined([part.action_masks for part in parts]))
        )
        return actor.act(obs, rows, idle, allowed, self.deterministic, self.generator)

    def actor(self, name: str, group: GroupSpec) -> RowActor:
        """Return the actor for the rows of a group with the policy `name`."""
        if name not in self._actors:
            self._actors[name] = RowActor(self.policies[name], group, self.device)
        return self._actors[name]


class Sides:
    """An actor that lets others act for some policies' rows (`puffer-train eval --opponent`)."""

    def __init__(
        self, actor: Actor, others: Mapping[str, Actor], rows: Mapping[str, PolicyRows]
    ) -> None:
        """Combine the actors.

        Args:
            others: By policy. Each acts for all rows, but only its actions for the policy's rows
                count.
            rows: The rows of the policies.
        """
        self._actor, self._others, self._rows = actor, others, rows

    @property
    def values(self) -> Mapping[str, np.ndarray]:
        """Return the values of the main actor."""
        values: Mapping[str, np.ndarray] = getattr(self._actor, "values", {})
        return values

    def reset(self, vec: Any) -> None:
        """Clear the memory of all actors."""
        for actor in (self._actor, *self._others.values()):
            actor.reset(vec)

    def act(self, obs: Any, vec: Any) -> Any:
        """Return actions in the form of `PolicyActor.act`."""
        per_env = {group.name: group.agents for group in vec.spec.groups}

        def by_group(actions: Any) -> dict[str, np.ndarray]:
            return {next(iter(per_env)): actions} if len(per_env) == 1 else actions

        actions = {
            group: np.array(part) for group, part in by_group(self._actor.act(obs, vec)).items()
        }
        for name, other in self._others.items():
            own = self._rows[name]
            target, theirs = actions[own.group.name], by_group(other.act(obs, vec))[own.group.name]
            at = (
                slice(None)
                if own.agents is None
                else places(own.agents, per_env[own.group.name], len(target))
            )
            target[at] = theirs[at]
        return next(iter(actions.values())) if len(per_env) == 1 else actions


def action_map(group: GroupSpec, joint: bool = False) -> ActionMap:
    """Return the map from drawn actions, on the CPU, to those of the env's action rows."""
    return ActionMap(
        ActionSpec.of(group, joint), torch.device("cpu"), TORCH_DTYPES[group.action_dtype]
    )


def env_actions(
    group: GroupSpec, drawn: torch.Tensor, to_env: ActionMap | None = None
) -> np.ndarray:
    """Return drawn actions (rows, D), on the CPU, in the form for `send`.

    That is (rows, *action_shape) of the action rows' dtype.
    """
    actions = (to_env or action_map(group))(drawn).numpy()
    return actions.reshape(len(actions), *group.action_shape).astype(group.action_dtype)
