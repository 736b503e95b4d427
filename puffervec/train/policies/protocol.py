# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Policies: observation rows in, distribution parameters and values out. Path stop 7; runs in the
learner, on its device.

The protocol, for rows of one group (B,) and for sequences of them (T, B):

    state = policy.initial_state(rows)
    heads, value, state = policy(obs, state, reset, action_mask)

obs is a tensor (..., F) or a dict of tensors by field name (of a Python env always a tensor: rows
as they stand), whose leaves rows.group_views finds; state a tuple of tensors (empty without
memory); reset (...) bool is True where a row starts anew; action_mask (..., sum of choices per
part) or None. heads are as in distributions.py, float32, for the action of `ActionSpec.of(group,
section.joint)`; value (...) float32. A policy reads the layout of observations from the group's
spec: there is no second list of fields. With `train.tensor_parallel` it also needs `networks()` and
`convolve`, as those of convolution.py.
"""

from __future__ import annotations

import contextlib
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from puffervec.train.policies.distributions import Heads
from puffervec.train.policies.leaves import Observation, Observations, shown
from puffervec.train.policies.memory import State


@runtime_checkable
class Policy(Protocol):
    """What the trainer needs of a policy, besides being an `nn.Module`."""

    def initial_state(self, rows: int) -> State:
        """Return the state of `rows` fresh rows."""

    def __call__(
        self, obs: Observation, state: State, reset: Tensor | None, action_mask: Tensor | None
    ) -> tuple[Heads, Tensor, State]:
        """See the head of this file."""


def forward(
    policy: Any,
    obs: Observations,
    state: State = (),
    reset: Tensor | None = None,
    action_mask: Tensor | None = None,
    bf16: bool = False,
    cache: bool = True,
) -> tuple[Heads, Tensor, State]:
    """Call a policy, with hidden layers in bf16 where that is wanted: all but losses call policies
        through this.

    Args: cache: autocast keeps weights that it has rounded; a graph must not hold such.
    """
    device = next(iter(obs.values())).device.type
    rounded = (
        torch.autocast(device, torch.bfloat16, cache_enabled=cache)
        if bf16
        else contextlib.nullcontext()
    )
    with rounded:
        found: tuple[Heads, Tensor, State] = policy(shown(obs), state, reset, action_mask)
    return found
