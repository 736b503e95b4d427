# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Build policies by `policy.kind`, those of this package and those of users."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from puffervec.core.spec import GroupSpec
from puffervec.errors import ConfigError
from puffervec.train.config.sections import PolicySection
from puffervec.train.policies.convnext import DropPath
from puffervec.train.policies.convolution import cnn, convnext, has_pictures
from puffervec.train.policies.mlp import MLPPolicy
from puffervec.train.policies.object_set import ObjectSetPolicy, has_object_sets
from puffervec.train.policies.protocol import Policy
from puffervec.train.policies.pufferdrive import PufferDrivePolicy
from puffervec.workers.python.creators import resolve


def draws(policy: nn.Module) -> bool:
    """Return whether a forward pass draws random numbers, judging by known layers."""
    return any(
        isinstance(layer, (_DropoutNd, nn.RReLU, DropPath))
        or (isinstance(layer, (nn.RNNBase, nn.MultiheadAttention)) and layer.dropout > 0)
        for layer in policy.modules()
    )


def build_policy(group: GroupSpec, section: PolicySection) -> nn.Module:
    """Return the policy that `section` asks for, with fresh weights from torch's global generator.

    Raises:
        ConfigError: The kind does not fit the group's observations.
    """
    kind = section.kind if section.kind != "auto" else fitting_kind(group)
    if ":" in kind:
        return _own_policy(kind, group, section)
    known = kinds()
    if kind not in known:
        raise ConfigError(
            f"policy.kind is {kind!r}: use auto, {', '.join(known)}, or module:Class for your own"
        )
    policy = known[kind](group, section)
    if not section.bias:
        _fix_biases(policy)
    return policy


def kinds() -> dict[str, Callable[[GroupSpec, PolicySection], nn.Module]]:
    """Return the policies of this package by `policy.kind`."""
    return {
        "mlp": MLPPolicy,
        "object_set": ObjectSetPolicy,
        "cnn": cnn,
        "convnext": convnext,
        "pufferdrive": PufferDrivePolicy,
    }


def fitting_kind(group: GroupSpec) -> str:
    """Return the kind of policy that fits the group's rows."""
    if has_pictures(group):
        return "cnn"
    # The table of a Python env may be a matrix instead of a set of objects.
    return "object_set" if group.observation_plan is None and has_object_sets(group) else "mlp"


@torch.no_grad()
def _fix_biases(policy: nn.Module) -> None:
    """Keep all biases at 0: they need no gradient, so optimizers skip them."""
    for name, parameter in policy.named_parameters():
        if "bias" in name.rpartition(".")[2]:
            parameter.zero_().requires_grad_(False)


def _own_policy(name: str, group: GroupSpec, section: PolicySection) -> nn.Module:
    """Build a user's policy, or raise ConfigError with the user's message."""
    try:
        policy = resolve(name)(group, section)
    except Exception as error:
        raise ConfigError(f"policy.kind {name}: {type(error).__name__}: {error}") from error
    if not isinstance(policy, nn.Module) or not isinstance(policy, Policy):
        raise ConfigError(
            f"policy.kind {name} returned a {type(policy).__name__}: return an nn.Module with "
            "initial_state(rows) and forward(obs, state, reset, action_mask), see "
            "puffervec.train.policies.protocol"
        )
    return policy
