# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""From rows of observations to actions, with what the policy remembers of each row. Runs in the
learner.

    observations, idle rows  --RowActor-->  actions as `send` takes them

The evaluation and policies loaded for use (loaded.py) act through this one path.
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
    """One policy that acts for the rows of one group. Rows have numbers from 0; those seen for the
    first time begin anew.

    values: of the rows of the last `act`, (n,) float32: what the policy expects; NaN for rows that
        it was not asked about.
    """

    def __init__(self, policy: Any, group: GroupSpec, device: torch.device) -> None:
        """Args: policy: on `device`, see puffervec.train.policies.protocol; group: the rows it acts
        for.
        """
        self.policy, self.group, self.device = policy, group, device
        self._state: State = ()  # (rows, ...) each; empty without memory
        self._fresh = torch.ones(
            0, dtype=torch.bool, device=device
        )  # rows that begin an episode at their next step
        self.values = np.zeros(0, np.float32)
        # Known at the first actions: whether they are joint, the heads tell.
        self._to_env: ActionMap | None = None

    @property
    def remembers(self) -> bool:
        """True for a policy with memory."""
        return len(self.policy.initial_state(1)) > 0

    def forget(self, rows: np.ndarray) -> None:
        """Let rows begin anew at their next step. Args: rows: (n,) row numbers."""
        self._make_room(rows)
        self._fresh[self._on_device(rows)] = True

    # The threads of a kernel spin until all are done. With other programs on the cores, drive's
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
        """Return actions as `send` takes them: (n, *action_shape) of the action rows' dtype; 0 for
            idle rows.

        Args:
            obs: (n, ...) rows as `recv` gives them, or a dict of (n, ...) arrays by field.
            rows: (n,) int64 their numbers, each once.
            idle: (n,) bool: absent, or the episode ended with this observation. Such rows begin
            anew at their next step.
            action_masks: (n, choices), 0 is forbidden; None where all is allowed.
            deterministic: the likeliest action; else one drawn with `generator`.
        """
        self._make_room(rows)
        actions = np.zeros((len(rows), *self.group.action_shape), self.group.action_dtype)
        self.values = np.full(len(rows), np.nan, np.float32)
        # Without memory only the rows that act need the policy: most rows of an evaluation are done
        # before the last one is.
        picked = np.arange(len(rows)) if self._state else np.flatnonzero(~idle)
        if len(picked):
            at = self._places(rows[picked])
            state = tuple(part[at] for part in self._state)
            allowed = None if action_masks is None else self._on_device(action_masks[picked])
            heads, value, state = forward(
                self.policy, self.tensors(obs, picked), state, self._fresh[at], allowed
            )
            for kept, new in zip(self._state, state, strict=True):
                kept[at] = new
            # `of` minds joint for multi-discrete actions only.
            to_env = self._to_env = self._to_env or action_map(self.group, joint=len(heads) == 1)
            if deterministic:
                chosen = greedy(to_env.spec, heads)
            else:
                chosen, _ = sample(
                    to_env.spec, heads, draw_noise(to_env.spec, len(value), self.device, generator)
                )
            actions[picked] = env_actions(self.group, chosen.cpu(), to_env)
            self.values[picked] = value.float().cpu().numpy()
            actions[idle] = 0
        self._fresh[self._places(rows)] = self._on_device(idle)
        return actions

    def _make_room(self, rows: np.ndarray) -> None:
        more = int(rows.max(initial=-1)) + 1 - len(self._fresh)
        if more > 0:
            new = tuple(part.to(self.device) for part in self.policy.initial_state(more))
            kept = self._state or tuple(part[:0] for part in new)
            self._state = tuple(torch.cat(pair) for pair in zip(kept, new, strict=True))
            self._fresh = torch.cat([self._fresh, self._fresh.new_ones(more)])

    def _places(self, rows: np.ndarray) -> Any:
        """Return rows as an index: a slice where they follow each other, as those of a half do,
        since that copies nothing.
        """
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and bool((np.diff(rows) == 1).all()):
            return slice(int(rows[0]), int(rows[-1]) + 1)
        return self._on_device(rows)

    def tensors(self, obs: Any, picked: np.ndarray) -> Observations:
        """Return picked rows as the policy is called with them, on its device. Args: obs: as of
        `act`.
        """
        if self.group.observation_plan is not None:
            return {ROW: flat_rows(self.group.observation_plan, obs[picked]).to(self.device)}
        if isinstance(obs, dict):
            return {name: self._on_device(part[picked]) for name, part in obs.items()}
        return {
            ROW: self._on_device(obs[picked].reshape(len(picked), -1))
        }  # A picture is a flat row to a policy.

    def _on_device(self, array: np.ndarray) -> torch.Tensor:
        # A copy: the rows change under a view as soon as the actions are sent.
        return torch.tensor(array, device=self.device)


class PolicyActor:
    """Policies by name that act in a vector env of `puffervec.make`, with any number of buffers and
    in any order.
    """

    def __init__(
        self,
        policies: dict[str, nn.Module],
        device: torch.device,
        deterministic: bool,
        seed: int = 0,
        rows: Mapping[str, PolicyRows] | None = None,
    ) -> None:
        """Args: deterministic: the likeliest action instead of a drawn one; seed: of what is drawn;
        rows: what each policy acts for; None: a row group each.
        """
        self.policies, self.device, self.deterministic, self.rows = (
            policies,
            device,
            deterministic,
            rows,
        )
        self.generator = torch.Generator(device).manual_seed(seed)
        self.values: dict[str, np.ndarray] = {}  # of the last `act` by group, as of RowActor
        self._actors: dict[str, RowActor] = {}

    def reset(self, vec: Any = None) -> None:
        """Forget all memory."""
        self._actors.clear()

    def act(self, obs: Any, vec: Any) -> Any:
        """Return actions (rows,) or (rows, D) for the batch last received; dicts by group where
        there are several.

        Args: obs: as from `vec.recv`.
        """
        halves = [half for half in vec.halves if half.env_ids[0] in vec.env_ids]
        groups = {group.name: group for group in vec.spec.groups}
        actions: dict[str, np.ndarray] = {}
        self.values = {}
        for name, own in (self.rows or policy_rows(vec.spec)).items():
            group = own.group.name
            parts = [half.groups[group] for half in halves]
            given = obs if len(groups) == 1 else obs[group]
            count = sum(len(part.masks) for part in parts)
            at = None if own.agents is None else places(own.agents, groups[group].agents, count)
            actor = self.actor(name, own.group)
            found = self._act_group(actor, given, parts, at, vec.autoreset_mode == "same_step")
            if at is None:
                actions[group], self.values[group] = found, actor.values
            else:
                actions.setdefault(group, np.zeros((count, *found.shape[1:]), found.dtype))[at] = (
                    found
                )
                self.values.setdefault(group, np.full(count, np.nan, np.float32))[at] = actor.values
        return next(iter(actions.values())) if len(groups) == 1 else actions

    def _act_group(
        self, actor: RowActor, obs: Any, parts: list[Any], at: np.ndarray | None, same_step: bool
    ) -> np.ndarray:
        """Args: at: the actor's rows among those of the parts; None: all."""

        def mine(array: Any) -> Any:
            return array if at is None else array[at]

        rows, masks, terminals, truncations = (
            mine(joined([getattr(part, name) for part in parts]))
            for name in ("agent_ids", "masks", "terminals", "truncations")
        )
        obs = {key: mine(part) for key, part in obs.items()} if isinstance(obs, dict) else mine(obs)
        idle, done = ~masks, terminals | truncations
        if same_step:  # The observation is the first of the next episode already.
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
        """Return what acts for the rows of a group with the policy `name`."""
        if name not in self._actors:
            self._actors[name] = RowActor(self.policies[name], group, self.device)
        return self._actors[name]


class Sides:
    """An actor in which others act for some of the policies' rows: what `puffer-train eval
    --opponent` evaluates.
    """

    def __init__(
        self, actor: Actor, others: Mapping[str, Actor], rows: Mapping[str, PolicyRows]
    ) -> None:
        """Args: others: by policy, each acts for all rows and is heard for those of the policy;
        rows: of the policies.
        """
        self._actor, self._others, self._rows = actor, others, rows

    @property
    def values(self) -> Mapping[str, np.ndarray]:
        """Those of the actor that the others play with."""
        found: Mapping[str, np.ndarray] = getattr(self._actor, "values", {})
        return found

    def reset(self, vec: Any) -> None:
        """Let all forget."""
        for actor in (self._actor, *self._others.values()):
            actor.reset(vec)

    def act(self, obs: Any, vec: Any) -> Any:
        """Return actions as `PolicyActor.act` does."""
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
    """Return what turns drawn actions, on the CPU, into those of the env's action rows."""
    return ActionMap(
        ActionSpec.of(group, joint), torch.device("cpu"), TORCH_DTYPES[group.action_dtype]
    )


def env_actions(
    group: GroupSpec, drawn: torch.Tensor, to_env: ActionMap | None = None
) -> np.ndarray:
    """Return drawn actions (rows, D), on the CPU, as `send` takes them: (rows, *action_shape) of
    the action rows' dtype.
    """
    actions = (to_env or action_map(group))(drawn).numpy()
    return actions.reshape(len(actions), *group.action_shape).astype(group.action_dtype)
