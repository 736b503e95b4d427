# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Define the policy of fully connected layers, and what it shares with the other policies.

These are the layers, the heads and value, and the memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from puffervec.core.spec import GroupSpec
from puffervec.train.config.sections import PolicySection
from puffervec.train.policies.distributions import ActionSpec, Heads, masked
from puffervec.train.policies.encoder import RowEncoder
from puffervec.train.policies.leaves import (
    ROW,
    EntryView,
    Observation,
    Observations,
    by_key,
    group_views,
)
from puffervec.train.policies.memory import Memory, State, build_memory

LOG_STD_RANGE = (-5.0, 2.0)


class NetworkPolicy(nn.Module):
    """The base of this package's policies: features, optional memory, heads and value.

    A subclass creates its layers, calls `finish`, and maps observations to (..., width) in
    `features`.

    Attributes:
        parts: Choices per part of a joint action, empty for other actions.
    """

    memory: Memory | None
    output: ActorCritic
    parts: tuple[int, ...]

    def finish(self, width: int, group: GroupSpec, section: PolicySection) -> None:
        """Create the layers behind the features.

        Args:
            width: Number of features.
        """
        spec = ActionSpec.of(group, section.joint)
        self.parts = spec.parts
        self.memory = build_memory(section.memory, width, section.memory_layers)
        self.output = ActorCritic(width, spec)

    def features(self, obs: Observations) -> Tensor:
        """Return the features of observations, (..., width)."""
        raise NotImplementedError

    def initial_state(self, rows: int) -> State:
        """Return the memory's state of fresh rows; empty without memory."""
        return () if self.memory is None else self.memory.initial_state(rows)

    def forward(
        self,
        obs: Observation,
        state: State = (),
        reset: Tensor | None = None,
        action_mask: Tensor | None = None,
    ) -> tuple[Heads, Tensor, State]:
        """See protocol.py."""
        x = self.features(by_key(obs))
        if self.memory is not None:
            x, state = self.memory(x, state, reset)
        heads, value = self.output(x)
        return masked(heads, action_mask, self.parts), value, state


class ActorCritic(nn.Module):
    """The last layers: one linear map per head and one to the value.

    They run in float32 even if the rest runs in bf16: with rounded log-probabilities the first
    ratio would differ from 1.
    """

    def __init__(self, features: int, spec: ActionSpec) -> None:
        """Create the layers.

        Args:
            features: Width of the input.
            spec: The actions.
        """
        super().__init__()
        sizes = spec.head_sizes if spec.discrete else (spec.dims,)
        self.heads = nn.ModuleList(linear(features, size, gain=0.01) for size in sizes)
        self.value = linear(features, 1, gain=1.0)
        # As usual for PPO, the standard deviation of continuous actions does not depend on the
        # observation: learning is steadier.
        self.log_std = None if spec.discrete else nn.Parameter(torch.zeros(spec.dims))

    def forward(self, x: Tensor) -> tuple[Heads, Tensor]:
        """Map (..., features) to heads and values (...)."""
        with torch.autocast(x.device.type, enabled=False):
            x = x.float()
            heads, value = tuple(head(x) for head in self.heads), self.value(x).squeeze(-1)
            if self.log_std is not None:
                heads = (
                    torch.cat(
                        [heads[0], self.log_std.clamp(*LOG_STD_RANGE).expand_as(heads[0])], dim=-1
                    ),
                )
            return heads, value


def linear(inputs: int, outputs: int, gain: float = math.sqrt(2.0), bias: bool = True) -> nn.Linear:
    """Return a linear layer with orthogonal weights and zero bias.

    Source: Andrychowicz et al. 2021, "What Matters in On-Policy Reinforcement Learning?".
    """
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.orthogonal_(layer.weight, gain)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def mlp(widths: Sequence[int]) -> nn.Sequential:
    """Return linear layers of the given widths, each followed by ReLU."""
    layers: list[nn.Module] = []
    for inputs, outputs in zip(widths[:-1], widths[1:], strict=True):
        layers += [linear(inputs, outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class MLPPolicy(NetworkPolicy):
    """Fully connected layers over all observation fields, concatenated."""

    def __init__(self, group: GroupSpec, section: PolicySection) -> None:
        """Create the network.

        Args:
            group: The rows that it acts for.
            section: `hidden` gives the widths.
        """
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
        """Return the trunk's output."""
        if self.encoder is not None:
            row = self.encoder(obs)
        elif ROW in obs:
            row = obs[ROW]
        else:
            parts = [
                obs[name].float().flatten(obs[name].dim() - len(shape))
                for name, shape in self.fields
            ]
            row = torch.cat(parts, dim=-1)
        out: Tensor = self.trunk(row.to(torch.get_default_dtype()))
        return out

    def use_entries(self, entries: Mapping[tuple[Any, ...], EntryView]) -> None:
        """Read leaves from a dict of tensors from now on.

        Args:
            entries: The reader of each leaf, by the leaf's path.
        """
        if self.encoder is not None:
            self.encoder.use_entries(entries)
