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

from typing import Protocol, runtime_checkable

from torch import Tensor

from puffervec.train.policies.distributions import Heads
from puffervec.train.policies.leaves import Observation
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
