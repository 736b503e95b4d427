# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Define the protocol of policies: observation rows in, distribution parameters and values out.

The protocol, for rows of one group (B,) and for sequences of them (T, B):

    state = policy.initial_state(rows)
    heads, value, state = policy(obs, state, reset, action_mask)

obs is a tensor (..., F) or a dict of tensors by field name. A Python env always has a tensor of
whole rows, in which `leaves.group_views` finds the leaves. state is a tuple of tensors (empty
without memory). reset (...) bool is True where a row begins an episode. action_mask is (..., sum of
choices per part) or None. heads are as in distributions.py, float32, for the action of
`ActionSpec.of(group, section.joint)`; value is (...) float32. A policy reads the layout of
observations from the group's spec: there is no second list of fields. With `train.tensor_parallel`
it also needs `networks()` and `convolve`, like the policies of convolution.py.

This is stop 7 of an observation's path from env to policy. Runs in the learner, on its device.
"""

from __future__ import annotations

import contextlib
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from puffervec.train.policies.distributions import Heads
from puffervec.train.policies.leaves import Observation, Observations, policy_input
from puffervec.train.policies.memory import State


@runtime_checkable
class Policy(Protocol):
    """The methods that the trainer calls on a policy, which is also an `nn.Module`."""

    def initial_state(self, rows: int) -> State:
        """Return the state of `rows` fresh rows."""

    def __call__(
        self, obs: Observation, state: State, reset: Tensor | None, action_mask: Tensor | None
    ) -> tuple[Heads, Tensor, State]:
        """Return heads, values and the new state; see the top of this file."""


def forward(
    policy: Any,
    obs: Observations,
    state: State = (),
    reset: Tensor | None = None,
    action_mask: Tensor | None = None,
    bf16: bool = False,
    cache: bool = True,
) -> tuple[Heads, Tensor, State]:
    """Call a policy, with hidden layers in bf16 if `bf16` is set.

    All calls of policies except those of losses go through this function.

    Args:
        cache: Let autocast keep rounded weights; False for work that a CUDA graph records.
    """
    device = next(iter(obs.values())).device.type
    autocast = (
        torch.autocast(device, torch.bfloat16, cache_enabled=cache)
        if bf16
        else contextlib.nullcontext()
    )
    with autocast:
        out: tuple[Heads, Tensor, State] = policy(policy_input(obs), state, reset, action_mask)
    return out
