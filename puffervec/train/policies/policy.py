# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Policies: observation rows in, distribution parameters and values out. Path stop 7; runs in the learner, on its device.

The protocol, for rows of one group (B,) and for sequences of them (T, B):

    state = policy.initial_state(rows)
    heads, value, state = policy(obs, state, reset, action_mask)

obs is a tensor (..., F) or a dict of tensors by field name (of a Python env always a tensor: rows as they stand), whose leaves
rows.group_views finds; state a tuple of tensors (empty without memory); reset (...) bool is True where a row starts anew;
action_mask (..., sum of choices per part) or None. heads are as in distributions.py, float32, for the action of
`ActionSpec.of(group, section.joint)`; value (...) float32. A policy reads the layout of observations from the group's spec:
there is no second list of fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from puffervec.core.spec import EnvSpec, GroupSpec
from puffervec.errors import ConfigError
from puffervec.train.config.sections import PolicySection
from puffervec.train.policies.distributions import ActionSpec, Heads, masked
from puffervec.train.policies.encoder import RowEncoder
from puffervec.train.policies.leaves import EntryView, group_views
from puffervec.train.policies.leaves import Observation as Observation
from puffervec.train.policies.memory import Memory, State, build_memory

LOG_STD_RANGE = (-5.0, 2.0)


@runtime_checkable
class Policy(Protocol):
    """What the trainer needs of a policy, besides being an `nn.Module`."""

    def initial_state(self, rows: int) -> State:
        """Return the state of `rows` fresh rows."""

    def __call__(
        self, obs: Observation, state: State, reset: Tensor | None, action_mask: Tensor | None
    ) -> tuple[Heads, Tensor, State]:
        """See the head of this file."""


def policy_groups(spec: EnvSpec) -> dict[str, GroupSpec]:
    """Return the rows that each policy acts for, by the policy's name: that of the row group, or `default` where there is one
    group."""
    return {"default" if len(spec.groups) == 1 else group.name: group for group in spec.groups}


def draws(policy: nn.Module) -> bool:
    """Return True where a forward pass draws random numbers, as far as torch's own layers tell."""
    return any(
        isinstance(layer, (_DropoutNd, nn.RReLU))
        or (isinstance(layer, (nn.RNNBase, nn.MultiheadAttention)) and layer.dropout > 0)
        for layer in policy.modules()
    )


def build_policy(group: GroupSpec, section: PolicySection) -> nn.Module:
    """Return the policy that `section` asks for, with fresh weights from torch's global generator.

    Raises: ConfigError where the kind does not fit the group's observations.
    """
    kind = section.kind if section.kind != "auto" else fitting_kind(group)
    if ":" in kind:
        return _own_policy(kind, group, section)
    known = kinds()
    if kind not in known:
        raise ConfigError(f"policy.kind is {kind!r}: use auto, {', '.join(known)}, or module:Class for your own")
    return known[kind](group, section)


def kinds() -> dict[str, Callable[[GroupSpec, PolicySection], nn.Module]]:
    """Return the policies of this package by `policy.kind`."""
    from puffervec.train.policies.convolution import picture_policy
    from puffervec.train.policies.object_set import ObjectSetPolicy

    return {"mlp": MLPPolicy, "object_set": ObjectSetPolicy, "cnn": picture_policy}


def fitting_kind(group: GroupSpec) -> str:
    """Return the kind of policy that fits the group's rows."""
    from puffervec.train.policies.convolution import has_pictures
    from puffervec.train.policies.object_set import has_object_sets

    if has_pictures(group):
        return "cnn"
    # A Python env's table may be a matrix.
    return "object_set" if group.observation_plan is None and has_object_sets(group) else "mlp"


def _own_policy(name: str, group: GroupSpec, section: PolicySection) -> nn.Module:
    """Make a user's policy. Raises: ConfigError with the user's own words where that fails."""
    from puffervec.python.creators import resolve

    try:
        made = resolve(name)(group, section)
    except Exception as error:
        raise ConfigError(f"policy.kind {name}: {type(error).__name__}: {error}") from error
    if not isinstance(made, nn.Module) or not isinstance(made, Policy):
        raise ConfigError(
            f"policy.kind {name} gave a {type(made).__name__}: give an nn.Module with initial_state(rows) and "
            "forward(obs, state, reset, action_mask), see puffervec.train.policies.policy"
        )
    return made


class NetworkPolicy(nn.Module):
    """What the policies of this package share: features of an observation, memory if any, heads and value.

    A subclass makes its layers, calls `finish`, and says in `features` how observations become (..., width) numbers.
    """

    memory: Memory | None
    output: ActorCritic
    parts: tuple[int, ...]  # of a joint action

    def finish(self, width: int, group: GroupSpec, section: PolicySection) -> None:
        """Make what comes behind the features. Args: width: their number."""
        spec = ActionSpec.of(group, section.joint)
        self.parts = spec.parts
        self.memory = build_memory(section.memory, width, section.memory_layers)
        self.output = ActorCritic(width, spec)

    def features(self, obs: Observation) -> Tensor:
        """Return (..., width)."""
        raise NotImplementedError

    def initial_state(self, rows: int) -> State:
        """The memory's; without one, nothing."""
        return () if self.memory is None else self.memory.initial_state(rows)

    def forward(
        self, obs: Observation, state: State = (), reset: Tensor | None = None, action_mask: Tensor | None = None
    ) -> tuple[Heads, Tensor, State]:
        """See the head of this file."""
        x = self.features(obs)
        if self.memory is not None:
            x, state = self.memory(x, state, reset)
        heads, value = self.output(x)
        return masked(heads, action_mask, self.parts), value, state


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

    def features(self, obs: Observation) -> Tensor:
        """The trunk's output."""
        if self.encoder is not None:
            obs = self.encoder(obs)
        if isinstance(obs, dict):
            parts = [obs[name].float().flatten(obs[name].dim() - len(shape)) for name, shape in self.fields]
            obs = torch.cat(parts, dim=-1)
        out: Tensor = self.trunk(obs.to(torch.get_default_dtype()))
        return out

    def look_through(self, entries: Mapping[tuple[Any, ...], EntryView]) -> None:
        """Read leaves from a dict from now on. entries: by the leaf's path."""
        if self.encoder is not None:
            self.encoder.look_through(entries)


class ActorCritic(nn.Module):
    """Last layers: one linear map per head and one to the value, in float32 also where the rest runs in bf16 (a rounded
    log-probability would make the first ratio differ from 1)."""

    def __init__(self, features: int, spec: ActionSpec) -> None:
        """Args: features: width of the input; spec: the actions."""
        super().__init__()
        sizes = spec.head_sizes if spec.discrete else (spec.dims,)
        self.heads = nn.ModuleList(linear(features, size, gain=0.01) for size in sizes)
        self.value = linear(features, 1, gain=1.0)
        # The spread of continuous actions does not depend on the observation, as usual for PPO: steadier learning.
        self.log_std = None if spec.discrete else nn.Parameter(torch.zeros(spec.dims))

    def forward(self, x: Tensor) -> tuple[Heads, Tensor]:
        """Map (..., features) to heads and values (...)."""
        with torch.autocast(x.device.type, enabled=False):
            x = x.float()
            heads, value = tuple(head(x) for head in self.heads), self.value(x).squeeze(-1)
            if self.log_std is not None:
                heads = (torch.cat([heads[0], self.log_std.clamp(*LOG_STD_RANGE).expand_as(heads[0])], dim=-1),)
            return heads, value


def linear(inputs: int, outputs: int, gain: float = math.sqrt(2.0), bias: bool = True) -> nn.Linear:
    """Return a linear layer with orthogonal weights and no bias at the start (Andrychowicz et al. 2021, "What matters")."""
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
