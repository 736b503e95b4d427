# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The loss of PPO, in torch, and on a CPU as one operation of autograd (csrc/ppo_loss.h). Runs in the learner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from puffervec._ffi import ffi, lib
from puffervec.train.learn.samples import Batch
from puffervec.train.policies import choices
from puffervec.train.policies.choices import flat, pointer
from puffervec.train.policies.distributions import ActionSpec, Heads, log_prob_entropy

if TYPE_CHECKING:
    from puffervec.train.learn.ppo import PPOSection

SUMS: int = lib.PV_PPO_SUMS


def ppo_loss(policy: nn.Module, spec: ActionSpec, batch: Batch, section: PPOSection, bf16: bool) -> tuple[Tensor, Tensor]:
    """Return the loss, summed over the batch's valid samples, and the sums of PPO's figures (5,).

    Sums instead of means, so that microbatches add up to their minibatch.
    """
    with torch.autocast(batch.actions.device.type, torch.bfloat16, enabled=bf16):
        heads, value, _ = policy(batch.obs, batch.state, batch.resets, batch.action_mask)
    if fits(spec, heads, value):
        return fused_loss(section, batch, heads, value)

    def total(x: Tensor) -> Tensor:
        return x.sum() if batch.weights is None else (x * batch.weights).sum()

    log_prob, entropy = log_prob_entropy(spec, heads, batch.actions)
    log_ratio = log_prob - batch.log_probs
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1.0 - section.clip, 1.0 + section.clip)
    policy_loss = -total(torch.min(batch.advantages * ratio, batch.advantages * clipped))
    error = (value - batch.returns).square()
    if section.value_clip > 0:
        near = batch.values + (value - batch.values).clamp(-section.value_clip, section.value_clip)
        error = torch.max(error, (near - batch.returns).square())
    value_loss, entropy_sum = 0.5 * total(error), total(entropy)
    entropy_coef: Any = section.entropy_coef  # No points here: see Loss.
    loss = policy_loss + section.value_coef * value_loss - entropy_coef * entropy_sum
    with torch.no_grad():
        # John Schulman's low-variance estimate of the KL divergence (joschu.net/blog/kl-approx.html, k3).
        kl = total(ratio - 1.0 - log_ratio)
        outside = total(((ratio - 1.0).abs() > section.clip).to(kl.dtype))
        sums = torch.stack([policy_loss, value_loss, entropy_sum, kl, outside])
    return loss, sums


def fits(spec: ActionSpec, heads: Heads, value: Tensor) -> bool:
    """True where C can do it."""
    return choices.readable((*heads, value)) and (not spec.discrete or choices.not_too_many(heads))


def fused_loss(section: PPOSection, batch: Batch, heads: Heads, value: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss () and the sums (5,) of ppo_loss; gradients go to heads and value, first derivatives only.

    Args: heads, value: such as `fits` takes.
    """
    loss, sums = _Loss.apply(section, batch, value, *heads)  # type: ignore[no-untyped-call]
    return loss, sums


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, section: PPOSection, batch: Batch, value: Tensor, *heads: Tensor) -> tuple[Tensor, Tensor]:
        floats = (batch.log_probs, batch.advantages, batch.returns, batch.values)
        normal = batch.actions.is_floating_point()
        given = [flat(batch.actions.to(torch.float32 if normal else torch.int32)), *(flat(x) for x in floats)]
        weights = None if batch.weights is None else flat(batch.weights)
        logits, flat_value = [flat(head) for head in heads], flat(value)
        gradients = [torch.empty_like(head) for head in logits]
        value_gradient, sums = torch.empty_like(flat_value), torch.empty(SUMS, dtype=torch.float64)
        rows, dims = flat_value.numel(), batch.actions.shape[-1]
        samples = ffi.new("pv_ppo_samples*", (rows, dims, *map(pointer, given), pointer(weights)))
        settings = ffi.new("pv_ppo_settings*", (section.clip, section.value_coef, section.value_clip, section.entropy_coef))
        to = pointer(value_gradient), ffi.cast("double*", sums.data_ptr())
        if normal:
            loss = lib.pv_ppo_loss_normal(
                samples, settings, pointer(logits[0]), pointer(flat_value), pointer(gradients[0]), *to
            )
        else:
            sizes = [head.shape[-1] for head in logits]
            by_head = [pointer(gradient) for gradient in gradients]
            loss = lib.pv_ppo_loss(samples, settings, [*map(pointer, logits)], sizes, pointer(flat_value), by_head, *to)
        ctx.save_for_backward(
            value_gradient.view_as(value), *(grad.view_as(head) for grad, head in zip(gradients, heads, strict=True))
        )
        sums = sums.float()
        ctx.mark_non_differentiable(sums)
        return torch.tensor(loss, dtype=torch.float32), sums

    @staticmethod
    def backward(ctx: Any, loss_gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *(gradient * loss_gradient for gradient in ctx.saved_tensors)
