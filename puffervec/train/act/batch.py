# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Read the arguments of a loaded policy as rows, and return actions in the same form.

    observations  --read_batch-->  Batch.rows  --acting.py-->  actions  --Batch.answer-->  actions

Observations are one or many, native or rows from `recv`, by agent or in order. Runs in the learner.
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

    Attributes:
        rows: (count, ...) as from `recv`, or a dict of such arrays by field.
        single: Whether it was one observation without a batch axis.
        native: Whether they were nested like the env's own space.
        agents: Names of their agents, if they had names.
    """

    group: GroupSpec
    rows: Any
    count: int
    single: bool
    native: bool
    agents: tuple[Any, ...] | None = None

    def answer(self, actions: np.ndarray) -> Any:
        """Return actions (count, *action_shape) in the form of the observations."""
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

    Raises:
        SpaceMismatchError: The observations do not fit; the message names what is expected.
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
    """Return whether observations are {agent: observation}.

    With a Dict space both forms are dicts, so the values decide.
    """
    if not isinstance(observations, Mapping) or not observations:
        return False
    if not isinstance(space, spaces.Dict):
        return True
    return set(observations) != set(space.spaces) and all(
        isinstance(part, Mapping) for part in observations.values()
    )


def _are_rows(group: GroupSpec, observations: Any) -> bool:
    """Return whether observations are rows from `recv` that differ from a native batch."""
    row_plan = group.observation_plan
    assert row_plan is not None
    if (
        row_plan.is_flat
        or not isinstance(observations, np.ndarray)
        or observations.dtype != row_plan.row_dtype
    ):
        return False
    leaf_shape = row_plan.tree.shape if isinstance(row_plan.tree, Leaf) else None
    return observations.shape[1:] == row_plan.row_shape and leaf_shape not in (
        observations.shape,
        observations.shape[1:],
    )


def _first_leaf(tree: Node | Leaf, value: Any) -> tuple[Leaf, Any] | None:
    """Return the first leaf and its value, or None if the value has another structure."""
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
    """Return whether observations lack a batch axis.

    What fits neither form is refused as a single observation.
    """
    first = _first_leaf(tree, observations)
    return first is None or np.ndim(first[1]) != len(first[0].shape) + 1


def _count(tree: Node | Leaf, observations: Any) -> int:
    first = _first_leaf(tree, observations)
    assert first is not None
    return len(first[1])


def _rows(group: GroupSpec, observations: Any, count: int) -> Any:
    """Return a checked batch as rows."""
    row_plan = group.observation_plan
    if row_plan is not None:
        rows = np.zeros((count, *row_plan.row_shape), row_plan.row_dtype)
        row_plan.write_batch(observations, rows)
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
                f"observations[{agent!r}] has {part.count} observations: give one for each agent"
            )
        parts.append(part.rows)
    rows = (
        {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}
        if isinstance(parts[0], dict)
        else np.concatenate(parts)
    )
    return Batch(group, rows, len(parts), single=False, native=True, agents=tuple(observations))


def flags(name: str, values: Any, batch: Batch) -> np.ndarray:
    """Return `done` or `reset` as (count,) bool; all False for None.

    Raises:
        ConfigError: The values have a wrong shape or dtype.
    """
    if values is None:
        return np.zeros(batch.count, np.bool_)
    if isinstance(values, Mapping) and batch.agents is not None:
        values = [values.get(agent, False) for agent in batch.agents]
    array = np.asarray(_as_array(values))
    if array.dtype.kind != "b" or array.shape not in (
        [(), (1,)] if batch.single else [(batch.count,)]
    ):
        wanted = "true or false" if batch.single else f"({batch.count},) bool, one per observation"
        raise ConfigError(
            f"act: {name} has shape {array.shape} and dtype {array.dtype}: give {wanted}"
        )
    return array.reshape(batch.count)


def read_masks(group: GroupSpec, masks: Any, batch: Batch) -> np.ndarray | None:
    """Return action masks as (count, choices) bool, None for a policy without them.

    Raises:
        ConfigError: The masks are missing, not expected, or have a wrong shape or dtype.
    """
    size = group.action_mask_size
    if masks is None and not size:
        return None
    if masks is None:
        raise ConfigError(
            f"act: the policy was trained with action masks: give action_mask, (rows, {size}), 0 "
            "is forbidden"
        )
    if not size:
        raise ConfigError("act: the policy was trained without action masks: leave action_mask out")
    array = np.asarray(_as_array(masks))
    shape = (size,) if batch.single else (batch.count, size)
    if array.shape != shape or array.dtype.kind not in "biu":
        raise ConfigError(
            f"act: action_mask has shape {array.shape} and dtype {array.dtype}: give {shape}, 0 "
            "is forbidden"
        )
    allowed: np.ndarray = array.reshape(batch.count, size) != 0
    return allowed
