# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The policy of layers over all observation fields."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from puffervec.core.spec import GroupSpec
from puffervec.train.config.sections import PolicySection
from puffervec.train.policies.encoder import RowEncoder
from puffervec.train.policies.leaves import ROW, EntryView, Observations, group_views
from puffervec.train.policies.network import NetworkPolicy, mlp


class MLPPolicy(NetworkPolicy):
    """Fully connected layers over all observation fields side by side."""

    def __init__(self, group: GroupSpec, section: PolicySection) -> None:
        """Args: group: the rows it acts for; section: `hidden` gives the widths."""
        super().__init__()
        self.fields = tuple((field.name, field.shape or (1,)) for field in group.fields)
        features = sum(math.prod(field.shape) for field in group.fields)
        self.encoder: RowEncoder | None = None
        if group.observation_plan is not None or section.normalize:
            self.encoder = RowEncoder(group_views(group), section.normalize)
            features = self.encoder.features
        self.trunk = mlp((features, *section.hidden))
        self.finish(section.hidden[-1], group, section)

    def features(self, obs: Observations) -> Tensor:
        """The trunk's output."""
        if self.encoder is not None:
            row = self.encoder(obs)
        elif ROW in obs:
            row = obs[ROW]
        else:
            parts = [obs[name].float().flatten(obs[name].dim() - len(shape)) for name, shape in self.fields]
            row = torch.cat(parts, dim=-1)
        out: Tensor = self.trunk(row.to(torch.get_default_dtype()))
        return out

    def look_through(self, entries: Mapping[tuple[Any, ...], EntryView]) -> None:
        """Read leaves from a dict from now on. entries: by the leaf's path."""
        if self.encoder is not None:
            self.encoder.look_through(entries)
