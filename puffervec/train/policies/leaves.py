# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Read observation rows in torch, and their leaves: the parts with a separate space.

    slab (rows, *row_shape)  --flat_rows-->  (rows, width)  --rollout storage-->  policy
                                                            encoder.py reads the leaves

A Python env's observation is one flat row, so that a Dict of twenty leaves is transferred in one
copy, like a Box. A row holds numbers of one dtype if all leaves have that dtype, otherwise the
bytes of an aligned record (puffervec/workers/python/emulation/layout.py). A C env's observation is
one flat row too, or a dict of arrays by field.

Inside the trainer observations are always a dict of tensors (`Observations`): by field, or one row
under the key ROW. A policy is called with `policy_input` of them, so that a policy for envs with a
single array needs no dict. Runs in the learner.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import Tensor

from puffervec.core.spec import GroupSpec
from puffervec.workers.python.emulation import ObservationPlan
from puffervec.workers.python.emulation.layout import Leaf

Observations = dict[str, Tensor]
Observation = Tensor | Observations  # The argument of a policy.
ROW = ""  # The key of observations that are one array.

TORCH_DTYPES = {
    np.dtype(name): getattr(torch, name)
    for name in (
        *("float32", "float16", "float64", "bool", "uint8", "int8"),
        *("uint16", "int16", "uint32", "int32", "uint64", "int64"),
    )
}

SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def as_signed(x: Tensor) -> Tensor:
    """Return a signed view of unsigned numbers of 2, 4 or 8 bytes; other tensors unchanged.

    torch lacks some copies by index for unsigned numbers.
    """
    return x.view(SIGNED[x.dtype]) if x.dtype in SIGNED else x


def policy_input(obs: Observations) -> Observation:
    """Return observations as the argument of a policy: a single array, or a dict by field."""
    return obs.get(ROW, obs)


def by_key(obs: Observation) -> Observations:
    """Return observations as a dict, the inverse of `policy_input`."""
    return obs if isinstance(obs, dict) else {ROW: obs}


def arrays(group: GroupSpec) -> dict[str, tuple[int, np.dtype[Any], tuple[int, ...]]]:
    """Return (first byte in a row, dtype, shape per row) of each array of a group, by key."""
    plan, dtype = group.observation_plan, group.flat_dtype
    if plan is not None:
        return {ROW: (0, plan.row_dtype, (width(plan),))}
    if dtype is not None:
        return {ROW: (0, dtype, (sum(field.size for field in group.fields),))}
    return {field.name: (field.offset, field.dtype, field.shape) for field in group.fields}


def width(plan: ObservationPlan) -> int:
    """Return how many numbers a row has."""
    return int(np.prod(plan.row_shape, dtype=np.int64))


def stored_dtype(plan: ObservationPlan) -> torch.dtype:
    """Return the dtype of rows in the rollout storage.

    It is the row's own dtype, but float32 for float64: policies compute in float32.
    """
    dtype: torch.dtype = TORCH_DTYPES[plan.row_dtype]
    return torch.float32 if dtype == torch.float64 else dtype


def flat_rows(plan: ObservationPlan, observations: np.ndarray) -> Tensor:
    """Return observations of `recv`, (rows, *row_shape), as (rows, width) of `stored_dtype`.

    Aliasing: the result shares the memory of `observations`, except for float64, which is copied.
    """
    return (
        torch.from_numpy(observations)
        .reshape(len(observations), width(plan))
        .to(stored_dtype(plan))
    )


@dataclasses.dataclass(frozen=True)
class LeafView:
    """A reader of one leaf of rows (..., width).

    Attributes:
        first: First column of the leaf.
        count: Columns of the leaf.
        dtype: The leaf's dtype if rows are bytes; None if rows have it already.
    """

    leaf: Leaf
    first: int
    count: int
    dtype: torch.dtype | None

    def __call__(self, obs: Observations) -> Tensor:
        """Return the leaf of all rows, (..., leaf.size).

        Args:
            obs: One array, rows of `stored_dtype`, aligned for the leaf's dtype, as in storage and
                slab.

        Aliasing: the result is a view on the rows.
        """
        part = obs[ROW].narrow(-1, self.first, self.count)
        return part if self.dtype is None else part.view(self.dtype)


@dataclasses.dataclass(frozen=True)
class EntryView:
    """A reader of a leaf that is an entry of a dict of tensors, (..., *leaf.shape)."""

    leaf: Leaf
    name: str

    def __call__(self, obs: Observations) -> Tensor:
        """Return the leaf of all rows, (..., leaf.size), a view on the entry."""
        part, ndim = obs[self.name], len(self.leaf.shape)
        return part.flatten(part.dim() - ndim) if ndim else part.unsqueeze(-1)


View = LeafView | EntryView


def group_views(group: GroupSpec) -> list[View]:
    """Return a view per leaf of a group's rows, in order; a C env's flat vector is one leaf."""
    plan, dtype = group.observation_plan, group.flat_dtype
    if plan is not None:
        return list(leaf_views(plan))
    if dtype is None:
        return [
            EntryView(Leaf((f.name,), f.space, f.dtype, f.shape, f.offset), f.name)
            for f in group.fields
        ]
    leaf = Leaf((), group.observation_space, dtype, group.flat_shape, 0)
    return [LeafView(leaf, 0, leaf.size, None)]


def leaf_views(plan: ObservationPlan) -> list[LeafView]:
    """Return a view per non-empty leaf, in the order of a row."""
    leaves = [leaf for leaf in plan.leaves if leaf.size]
    if all(leaf.dtype == plan.row_dtype for leaf in leaves):
        return [
            LeafView(leaf, leaf.offset // leaf.dtype.itemsize, leaf.size, None) for leaf in leaves
        ]
    return [
        LeafView(leaf, leaf.offset, leaf.size * leaf.dtype.itemsize, TORCH_DTYPES[leaf.dtype])
        for leaf in leaves
    ]
