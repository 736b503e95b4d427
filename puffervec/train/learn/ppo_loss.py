# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compute the losses of PPO and A2C, in torch, or on a CPU as one autograd operation in C.

They differ in one term: PPO weights advantages by a clipped probability ratio, A2C by the
log-probability. The C code is csrc/learner/ppo_loss.h. Runs in the learner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from puffervec._ffi import ffi, lib
from puffervec.train.learn.samples import Batch
from puffervec.train.policies import choices
from puffervec.train.policies.choices import flat, pointer
from puffervec.train.policies.distributions import ActionSpec, Heads, log_prob_entropy

if TYPE_CHECKING:
    from puffervec.train.config.sections import TrainSection
    from puffervec.train.learn.ppo import PPOSection

SUMS: int = lib.PV_PPO_SUMS


class Terms(NamedTuple):
    """The settings of the loss terms, as in pv_ppo_settings.

    Attributes:
        clip: Bound on the ratio; 0 for the policy gradient without a ratio.
        entropy_coef: A number, or a tensor () that a schedule writes.
    """

    clip: float
    value_coef: float
    value_clip: float
    entropy_coef: Any


def ppo_loss(
    policy: nn.Module, spec: ActionSpec, batch: Batch, section: PPOSection, bf16: bool
) -> tuple[Tensor, Tensor]:
    """Return the loss, summed over the batch's valid samples, and sums of PPO's figures (5,)."""
    terms = Terms(section.clip, section.value_coef, section.value_clip, section.entropy_coef)
    return actor_critic_loss(policy, spec, batch, terms, bf16)


def a2c_loss(
    policy: nn.Module, spec: ActionSpec, batch: Batch, section: TrainSection, bf16: bool
) -> tuple[Tensor, Tensor]:
    """Return the loss, summed over the batch's valid samples, and sums of A2C's figures (3,)."""
    terms = Terms(0.0, section.value_coef, 0.0, section.entropy_coef)
    loss, sums = actor_critic_loss(policy, spec, batch, terms, bf16)
    return loss, sums[:3]


def actor_critic_loss(
    policy: nn.Module, spec: ActionSpec, batch: Batch, terms: Terms, bf16: bool
) -> tuple[Tensor, Tensor]:
    """Return the loss () and the sums (5,) of its figures.

    The figures are the losses of policy and value, entropy, KL estimate and number of clipped
    samples. Sums instead of means, so that microbatches add up to their minibatch.
    """
    with torch.autocast(batch.actions.device.type, torch.bfloat16, enabled=bf16):
        heads, value, _ = policy(batch.obs, batch.state, batch.resets, batch.action_mask)
    if fits(spec, heads, value):
        return fused_loss(terms, batch, heads, value)

    log_prob, entropy = log_prob_entropy(spec, heads, batch.actions)
    gain, kl, clipped = (
        _by_ratio(batch, log_prob, terms.clip) if terms.clip > 0 else _by_log_prob(batch, log_prob)
    )
    error = (value - batch.returns).square()
    if terms.value_clip > 0:
        near = batch.values + (value - batch.values).clamp(-terms.value_clip, terms.value_clip)
        error = torch.max(error, (near - batch.returns).square())
    policy_loss, value_loss = -batch.total(gain), 0.5 * batch.total(error)
    entropy_sum = batch.total(entropy)
    loss = policy_loss + terms.value_coef * value_loss - terms.entropy_coef * entropy_sum
    with torch.no_grad():
        further = batch.total(kl), batch.total(clipped)
        sums = torch.stack([policy_loss, value_loss, entropy_sum, *further])
    return loss, sums


def _by_ratio(batch: Batch, log_prob: Tensor, clip: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return PPO's objective, KL estimate and whether the ratio is out of range, by sample."""
    log_ratio = log_prob - batch.log_probs
    ratio = log_ratio.exp()
    gain = torch.min(
        batch.advantages * ratio, batch.advantages * ratio.clamp(1.0 - clip, 1.0 + clip)
    )
    with torch.no_grad():
        # John Schulman's low-variance estimate of the KL divergence
        # (joschu.net/blog/kl-approx.html, k3).
        return gain, ratio - 1.0 - log_ratio, ((ratio - 1.0).abs() > clip).to(ratio.dtype)


def _by_log_prob(batch: Batch, log_prob: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return A2C's objective by sample, and zeros in place of PPO's figures.

    Source: Mnih et al. 2016, arXiv:1602.01783, section 4.
    """
    zeros = torch.zeros_like(log_prob)
    return batch.advantages * log_prob, zeros, zeros


def fits(spec: ActionSpec, heads: Heads, value: Tensor) -> bool:
    """Return whether C can compute the loss of these outputs."""
    return choices.readable((*heads, value)) and (not spec.discrete or choices.not_too_many(heads))


def fused_loss(terms: Terms, batch: Batch, heads: Heads, value: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the loss () and the sums (5,) that actor_critic_loss returns.

    Only first derivatives exist, with respect to heads and value.

    Args:
        heads, value: Outputs of a policy that `fits` accepts.
    """
    loss, sums = _Loss.apply(terms, batch, value, *heads)  # type: ignore[no-untyped-call]
    return loss, sums


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, terms: Terms, batch: Batch, value: Tensor, *heads: Tensor
    ) -> tuple[Tensor, Tensor]:
        floats = (batch.log_probs, batch.advantages, batch.returns, batch.values)
        normal = batch.actions.is_floating_point()
        inputs = [
            flat(batch.actions.to(torch.float32 if normal else torch.int32)),
            *(flat(x) for x in floats),
        ]
        weights = None if batch.weights is None else flat(batch.weights)
        logits, flat_value = [flat(head) for head in heads], flat(value)
        gradients = [torch.empty_like(head) for head in logits]
        value_gradient, sums = torch.empty_like(flat_value), torch.empty(SUMS, dtype=torch.float64)
        rows, dims = flat_value.numel(), batch.actions.shape[-1]
        samples = ffi.new("pv_ppo_samples*", (rows, dims, *map(pointer, inputs), pointer(weights)))
        settings = ffi.new("pv_ppo_settings*", tuple(map(float, terms)))
        to = pointer(value_gradient), ffi.cast("double*", sums.data_ptr())
        if normal:
            loss = lib.pv_ppo_loss_normal(
                samples,
                settings,
                pointer(logits[0]),
                pointer(flat_value),
                pointer(gradients[0]),
                *to,
            )
        else:
            sizes = [head.shape[-1] for head in logits]
            by_head = [pointer(gradient) for gradient in gradients]
            loss = lib.pv_ppo_loss(
                samples, settings, [*map(pointer, logits)], sizes, pointer(flat_value), by_head, *to
            )
        ctx.save_for_backward(
            value_gradient.view_as(value),
            *(grad.view_as(head) for grad, head in zip(gradients, heads, strict=True)),
        )
        sums = sums.float()
        ctx.mark_non_differentiable(sums)
        return torch.tensor(loss, dtype=torch.float32), sums

    @staticmethod
    def backward(ctx: Any, loss_gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *(gradient * loss_gradient for gradient in ctx.saved_tensors)
