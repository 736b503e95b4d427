# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Observations as an exported policy takes them, and random ones to check it with. Used by export.py; no env runs.

    C env with rows of one dtype     obs (rows, F), of a picture (rows, *shape)
    other C envs                     obs.<field> (rows, *shape) each
    Python env                       obs (rows, *shape) of a plain Box, else obs.<key> (rows, *shape) per leaf of the space

So who uses the file hands over what the env gives, and knows nothing of the rows in which the trainer keeps it.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from puffervec.core.spec import Field, GroupSpec
from puffervec.errors import ConfigError
from puffervec.train.policies.convolution import ConvolutionPolicy, MixedPolicy
from puffervec.train.policies.leaves import ROW, EntryView, Observations, flat_rows, stored_dtype
from puffervec.train.policies.mlp import MLPPolicy

WIDEST = 10.0  # Of random numbers, where the bounds are further apart.

Arrays = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Input:
    """One observation tensor: (rows, *shape)."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class GraphInputs:
    """What one group's policy sees, by name."""

    def __init__(self, group: GroupSpec) -> None:
        """Args: group: the rows that the policy acts for."""
        self._group, self._plan = group, group.observation_plan
        if self._plan is not None:
            self._leaves = [leaf for leaf in self._plan.leaves if leaf.size]
            single = self._plan.is_flat
            names = ["obs"] if single else _distinct([_joined(leaf.path) for leaf in self._leaves])
            self.inputs = [Input(n, tuple(leaf.shape), leaf.dtype) for n, leaf in zip(names, self._leaves, strict=True)]
        elif group.flat_dtype is not None:
            self.inputs = [Input("obs", group.flat_shape, group.flat_dtype)]
        else:
            self.inputs = [Input(f"obs.{field.name}", tuple(field.shape), field.dtype) for field in group.fields]

    @property
    def one_dtype(self) -> bool:
        """True where all leaves of a Python env share the dtype of its rows."""
        assert self._plan is not None
        return all(leaf.dtype == self._plan.row_dtype for leaf in self._leaves)

    def assemble(self, given: dict[str, Tensor]) -> Observations:
        """Return what the policy of `adapted` takes, in operations that a graph can hold. given: tensors by input name."""
        if self._plan is None:
            named = {i.name.removeprefix("obs").removeprefix("."): given[i.name] for i in self.inputs}
            return {key: part.flatten(1) if key == ROW and part.dim() > 2 else part for key, part in named.items()}
        if not self.one_dtype:
            return {i.name: given[i.name] for i in self.inputs}
        parts = [given[i.name].flatten(1) if i.shape else given[i.name].unsqueeze(1) for i in self.inputs]
        rows = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        return {ROW: rows.to(stored_dtype(self._plan))}

    def adapted(self, policy: nn.Module) -> nn.Module:
        """Return a copy of the policy that takes what `assemble` gives: leaves by name, where the trainer has bytes.

        Raises: ConfigError for a policy of the user's own that reads bytes.
        """
        policy = copy.deepcopy(policy)
        if self._plan is None or self.one_dtype:
            return policy
        if not isinstance(policy, (MLPPolicy, ConvolutionPolicy, MixedPolicy)):
            raise ConfigError(
                f"cannot export a {type(policy).__name__} over observations of several dtypes: only policy.kind mlp and cnn "
                "read them in a form that graphs can hold"
            )
        entries = {leaf.path: EntryView(leaf, i.name) for leaf, i in zip(self._leaves, self.inputs, strict=True)}
        policy.look_through(entries)
        return policy

    def random(self, rows: int, generator: np.random.Generator) -> Arrays:
        """Return random observations by name, within the env's bounds; half the objects of an object set are empty."""
        if self._plan is not None:
            drawn = [random_values(leaf.space, rows, generator) for leaf in self._leaves]
            return {i.name: part.astype(i.dtype) for i, part in zip(self.inputs, drawn, strict=True)}
        fields = {field.name: _random_field(field, rows, generator) for field in self._group.fields}
        if self._group.flat_dtype is not None:
            row = np.concatenate([part.reshape(rows, -1) for part in fields.values()], axis=1)
            return {"obs": row.reshape(rows, *self._group.flat_shape)}
        return {f"obs.{name}": part for name, part in fields.items()}

    def original(self, given: Arrays) -> Observations:
        """Return observations as the trainer hands them to a policy. given: as from `random`."""
        plan = self._plan
        if plan is None:
            return self.assemble({name: torch.from_numpy(part) for name, part in given.items()})
        count = len(next(iter(given.values())))
        raw = np.zeros((count, plan.row_bytes), np.uint8)
        for leaf, i in zip(self._leaves, self.inputs, strict=True):
            values = np.ascontiguousarray(given[i.name]).reshape(count, -1).view(np.uint8)
            raw[:, leaf.offset : leaf.offset + values.shape[1]] = values
        return {ROW: flat_rows(plan, raw.view(plan.row_dtype).reshape(count, *plan.row_shape))}


def _joined(path: Sequence[Any]) -> str:
    """The path of a leaf as a name: ("camera", 0) is obs.camera.0."""
    return ".".join(["obs", *(re.sub(r"\W+", "_", str(key)) for key in path)])


def _distinct(names: list[str]) -> list[str]:
    """Names that occur twice get their place behind them."""
    return [name if names.count(name) == 1 else f"{name}.{at}" for at, name in enumerate(names)]


def _random_field(field: Field, rows: int, generator: np.random.Generator) -> np.ndarray:
    values = random_values(field.space, rows, generator)
    if values.ndim == 3:  # Objects; an empty slot is all zero.
        values[generator.random(values.shape[:2]) < 0.5] = 0
    return values


def random_values(space: Any, rows: int, generator: np.random.Generator) -> np.ndarray:
    """Return (rows, *shape) random values of a space of numbers; of a wide Box of floats numbers of about 1 in size, since
    policies that scale what they see would only cut larger ones."""
    if not isinstance(space, spaces.Box) or space.dtype.kind != "f":
        own = copy.deepcopy(space)  # Its generator is nobody else's.
        own.seed(int(generator.integers(2**31)))
        return np.stack([np.asarray(own.sample(), space.dtype) for _ in range(rows)])
    low, high = np.asarray(space.low, np.float64), np.asarray(space.high, np.float64)
    wide = high - low > 2 * WIDEST
    least = np.where(wide, np.clip(0.0, low, high) - WIDEST, low).clip(low, high)
    most = np.where(wide, np.clip(0.0, low, high) + WIDEST, high).clip(low, high)
    return generator.uniform(least, most, (rows, *space.shape)).astype(space.dtype)
