# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A policy for observations made of sets of objects, such as drive's partners and road segments.

    field (n, k)  --  encoder shared by its objects: Linear, ReLU, Linear  --  max over n, ReLU  --+
    field (k,)    --  Linear, ReLU  ---------------------------------------------------------------+--  trunk  --  heads, value

The order of objects cannot matter and every object shares its encoder's weights (Zaheer et al. 2017, "Deep Sets"). Empty slots
are all zero. They are masked without a mask: the encoders have no biases but a column of ones for filled slots, so that an
empty slot comes out as exactly 0, which a maximum followed by ReLU ignores. Path stop 7.

Rows may be of any data type: they are stored and cross to the device as they stand, and become float32 there, next to the
layer that reads them. Whole numbers are divided by the largest that the field can hold, so that they lie in -1..1 as floats
do by convention; 0 stays 0, an empty slot empty.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from puffervec.core.spec import Field, GroupSpec
from puffervec.errors import ConfigError
from puffervec.train.config.sections import PolicySection
from puffervec.train.policies.leaves import ROW, Observations
from puffervec.train.policies.network import NetworkPolicy, linear, mlp
from puffervec.train.policies.set_encoder import encode_set


def has_object_sets(group: GroupSpec) -> bool:
    """True where some field is a table of objects, (n, k)."""
    return any(len(field.shape) == 2 for field in group.fields)


class ObjectSetPolicy(NetworkPolicy):
    """Shared per-object encoders, max-pooled; see the head of this file."""

    def __init__(self, group: GroupSpec, section: PolicySection) -> None:
        """Args: group: gives fields and actions; section: object_hidden, object_width and hidden are read."""
        super().__init__()
        if group.observation_plan is not None or not has_object_sets(group):
            raise ConfigError(
                f"policy.kind is object_set, but {group.name} has no observation field of shape (objects, features)"
            )
        width = section.object_width
        self.flat_fields: list[tuple[str, int, tuple[int, ...]]] = []  # name, first column of a flat row, shape
        self.factors = {field.name: factor_of(field) for field in group.fields}
        column = 0
        for field in group.fields:
            self.flat_fields.append((field.name, column, tuple(field.shape)))
            column += math.prod(field.shape)
        self.encoders = nn.ModuleDict()
        for name, _, shape in self.flat_fields:
            if len(shape) == 2:
                self.encoders[name] = ObjectEncoder(shape[1], section.object_hidden, width, self.factors[name])
            else:
                self.encoders[name] = mlp((math.prod(shape), width))
        self.trunk = mlp((width * len(self.flat_fields), *section.hidden))
        self.finish(section.hidden[-1], group, section)

    def features(self, obs: Observations) -> Tensor:
        """The trunk's output."""
        pooled = []
        for name, column, shape in self.flat_fields:
            if name in obs:
                part = obs[name]
            else:
                row = obs[ROW]
                part = row[..., column : column + math.prod(shape)].view(*row.shape[:-1], *(shape or (1,)))
            if len(shape) != 2:
                part, factor = part.to(torch.get_default_dtype()), self.factors[name]
                part = part if factor == 1.0 else part * factor
            pooled.append(self.encoders[name](part))
        out: Tensor = self.trunk(torch.cat(pooled, dim=-1))
        return out


def factor_of(field: Field) -> float:
    """Return what stored numbers of a field are multiplied with: 1 for floats, 1 / 255 for whole bytes."""
    if field.dtype.kind not in "iu":
        return 1.0
    held = np.iinfo(field.dtype)
    most = max(abs(max(field.low, held.min)), abs(min(field.high, held.max)))
    return 1.0 / most if most > 0 else 1.0


class ObjectEncoder(nn.Module):
    """Two layers shared by all objects of a field, then the maximum over the objects: (..., n, k) -> (..., width)."""

    def __init__(self, features: int, hidden: int, width: int, factor: float = 1.0) -> None:
        """Args: features: k; hidden: width of the first layer; width: of the result; factor: of the objects' numbers."""
        super().__init__()
        self.factor = factor
        self.first = linear(features + 1, hidden, bias=False)  # The extra column is 1 for a filled slot.
        self.second = linear(hidden, width, bias=False)

    def forward(self, objects: Tensor) -> Tensor:
        """Encode; a row without any object gives zeros."""
        return encode_set(objects, self.first.weight, self.second.weight, self.factor)
