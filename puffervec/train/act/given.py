# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What a loaded policy is given, as rows: one observation or many, native or as `recv` shows them,
by agent or in order.

    observations  --read_batch-->  Batch.rows  --acting.py-->  actions as rows  --Batch.answer-->  actions in the same form

Runs in the learner.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from puffervec.core.spec import GroupSpec
from puffervec.errors import ConfigError
from puffervec.torch_view import map_leaves
from puffervec.workers.python.emulation.layout import Leaf, Node, plan, struct_dtype
from puffervec.workers.python.emulation.rows import check_value


@dataclasses.dataclass(frozen=True)
class Batch:
    """Observations as rows.

    rows: (count, ...) as `recv` gives them, or a dict of such arrays by field. single: one
    observation was given without a batch axis. native: they were in the nesting of the env's own
    space. agents: whose they are, where they were given by name.
    """

    group: GroupSpec
    rows: Any
    count: int
    single: bool
    native: bool
    agents: tuple[Any, ...] | None = None

    def answer(self, actions: np.ndarray) -> Any:
        """Return actions (count, *action_shape) in the form in which the observations were given."""
        action_plan = self.group.action_plan
        if self.agents is not None:
            return {agent: self._one(actions[i]) for i, agent in enumerate(self.agents)}
        if self.single:
            return self._one(actions[0])
        return actions if action_plan is None or not self.native else action_plan.views(actions)

    def _one(self, row: Any) -> Any:
        return row if self.group.action_plan is None else self.group.action_plan.decode(row)


def read_batch(group: GroupSpec, observations: Any) -> Batch:
    """Return observations of one group as rows.

    Raises: SpaceMismatchError naming what is expected.
    """
    observations = map_leaves(observations, _as_array)
    observation_plan = group.observation_plan
    space = group.observation_space if observation_plan is None else observation_plan.space
    if _by_agent(space, observations):
        return _read_agents(group, observations)
    if observation_plan is not None and _are_rows(group, observations):
        return Batch(
            group, np.ascontiguousarray(observations), len(observations), single=False, native=False
        )
    tree = plan(space, struct_dtype(space))
    single = _is_single(tree, observations)
    if single:
        check_value(tree, observations, "observation")
        observations = map_leaves(observations, lambda leaf: np.asarray(leaf)[None])
    count = _count(tree, observations)
    check_value(tree, observations, "observation", (count,))
    return Batch(group, _rows(group, observations, count), count, single, native=True)


def _as_array(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value


def _by_agent(space: Any, observations: Any) -> bool:
    """True for {agent: observation}. With a Dict space both are dicts; the values tell which it is."""
    if not isinstance(observations, Mapping) or not observations:
        return False
    if not isinstance(space, spaces.Dict):
        return True
    return set(observations) != set(space.spaces) and all(
        isinstance(part, Mapping) for part in observations.values()
    )


def _are_rows(group: GroupSpec, observations: Any) -> bool:
    """True for rows of a Python env as `recv` gives them, where these differ from a native batch."""
    found = group.observation_plan
    assert found is not None
    if (
        found.is_flat
        or not isinstance(observations, np.ndarray)
        or observations.dtype != found.row_dtype
    ):
        return False
    leaf_shape = found.tree.shape if isinstance(found.tree, Leaf) else None
    return observations.shape[1:] == found.row_shape and leaf_shape not in (
        observations.shape,
        observations.shape[1:],
    )


def _first_leaf(tree: Node | Leaf, value: Any) -> tuple[Leaf, Any] | None:
    """Return the first leaf and its value; None where the value has another structure."""
    while isinstance(tree, Node):
        key, child = tree.keys[0], tree.children[0]
        fits = (
            isinstance(value, Mapping) and key in value
            if tree.is_dict
            else isinstance(value, (tuple, list)) and len(value)
        )
        if not fits:
            return None
        tree, value = child, value[key]
    return tree, value


def _is_single(tree: Node | Leaf, observations: Any) -> bool:
    """True unless there is one axis more than one observation has: what fits neither is refused as
    a single one.
    """
    found = _first_leaf(tree, observations)
    return found is None or np.ndim(found[1]) != len(found[0].shape) + 1


def _count(tree: Node | Leaf, observations: Any) -> int:
    found = _first_leaf(tree, observations)
    assert found is not None
    return len(found[1])


def _rows(group: GroupSpec, observations: Any, count: int) -> Any:
    """Return a checked batch as rows."""
    found = group.observation_plan
    if found is not None:
        rows = np.zeros((count, *found.row_shape), found.row_dtype)
        found.write_batch(observations, rows)
        return rows
    space: Any = group.observation_space
    if isinstance(space, spaces.Dict):
        return {
            name: np.asarray(observations[name], part.dtype) for name, part in space.spaces.items()
        }
    return np.asarray(observations, space.dtype)


def _read_agents(group: GroupSpec, observations: Mapping[Any, Any]) -> Batch:
    parts = []
    for agent, observation in observations.items():
        part = read_batch(group, observation)
        if not part.single:
            raise ConfigError(
                f"observations[{agent!r}] are {part.count} observations: give one for each agent"
            )
        parts.append(part.rows)
    rows = (
        {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}
        if isinstance(parts[0], dict)
        else np.concatenate(parts)
    )
    return Batch(group, rows, len(parts), single=False, native=True, agents=tuple(observations))


def flags(name: str, given: Any, batch: Batch) -> np.ndarray:
    """Return what was given as `done` or `reset` as (count,) bool; all False for None.

    Raises: ConfigError for another shape.
    """
    if given is None:
        return np.zeros(batch.count, np.bool_)
    if isinstance(given, Mapping) and batch.agents is not None:
        given = [given.get(agent, False) for agent in batch.agents]
    found = np.asarray(_as_array(given))
    if found.dtype.kind != "b" or found.shape not in (
        [(), (1,)] if batch.single else [(batch.count,)]
    ):
        wanted = "true or false" if batch.single else f"({batch.count},) bool, one per observation"
        raise ConfigError(
            f"act: {name} has shape {found.shape} and dtype {found.dtype}: give {wanted}"
        )
    return found.reshape(batch.count)


def read_masks(group: GroupSpec, given: Any, batch: Batch) -> np.ndarray | None:
    """Return action masks as (count, choices), None for a policy without them.

    Raises: ConfigError where they are missing, not wanted, or of another shape.
    """
    size = group.action_mask_size
    if given is None or not size:
        if (given is None) == (not size):
            return None
        missing = (
            f"the policy was trained with action masks: give action_mask, (rows, {size}), 0 is "
            "forbidden"
        )
        raise ConfigError(
            "act: "
            + (
                missing
                if size
                else "the policy was trained without action masks: leave action_mask out"
            )
        )
    found = np.asarray(_as_array(given))
    shape = (size,) if batch.single else (batch.count, size)
    if found.shape != shape or found.dtype.kind not in "biu":
        raise ConfigError(
            f"act: action_mask has shape {found.shape} and dtype {found.dtype}: give {shape}, 0 "
            "is forbidden"
        )
    allowed: np.ndarray = found.reshape(batch.count, size) != 0
    return allowed
