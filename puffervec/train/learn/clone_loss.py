# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compute the loss of behaviour cloning. Runs in the learner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from puffervec.train.learn.samples import Batch
from puffervec.train.policies.distributions import ActionSpec, Heads, likeliest, log_prob_entropy

if TYPE_CHECKING:
    from puffervec.train.learn.clone import CloneSection

CLOSE = 0.1  # A continuous action is a hit within this distance; its range is -1 to 1.


def clone_loss(
    policy: nn.Module, spec: ActionSpec, batch: Batch, section: CloneSection, bf16: bool
) -> tuple[Tensor, Tensor]:
    """Return the loss, summed over the batch's valid samples, and sums of the figures (4,).

    The figures are the negative log-likelihood of the expert's actions, the number of samples in
    which the policy's most likely action is the expert's, the loss of the value, and the entropy.
    """
    with torch.autocast(batch.actions.device.type, torch.bfloat16, enabled=bf16):
        heads, value, _ = policy(batch.obs, batch.state, batch.resets, batch.action_mask)

    log_prob, entropy = log_prob_entropy(spec, heads, batch.actions)
    cloning, entropy_sum = -batch.total(log_prob), batch.total(entropy)
    value_loss = 0.5 * batch.total((value - batch.returns).square())
    entropy_coef: Any = section.entropy_coef  # A number, or a tensor () that a schedule writes.
    loss = cloning + section.value_coef * value_loss - entropy_coef * entropy_sum
    with torch.no_grad():
        hits = batch.total(hits_of(spec, heads, batch.actions).to(value.dtype))
        return loss, torch.stack([cloning, hits, value_loss, entropy_sum])


def hits_of(spec: ActionSpec, heads: Heads, actions: Tensor) -> Tensor:
    """Return whether the most likely action is the given one, (...) bool for actions (..., D).

    A continuous action must lie within CLOSE of it in all dims.
    """
    likely = likeliest(spec, heads)
    if spec.discrete:
        return (likely == actions).all(-1)
    return ((likely - actions).abs() <= CLOSE).all(-1)
