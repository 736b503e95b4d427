# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The PPO loss on a CPU as one operation of autograd (csrc/ppo_loss.h). Runs in the learner."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from puffervec._ffi import ffi, lib
from puffervec.train.config.sections import TrainSection
from puffervec.train.learn.samples import Batch
from puffervec.train.policies import choices
from puffervec.train.policies.choices import flat, pointer
from puffervec.train.policies.distributions import ActionSpec, Heads

SUMS: int = lib.PV_PPO_SUMS


def fits(spec: ActionSpec, heads: Heads, value: Tensor) -> bool:
    """True where C can do it."""
    return choices.readable((*heads, value)) and (not spec.discrete or choices.not_too_many(heads))


def fused_loss(section: TrainSection, batch: Batch, heads: Heads, value: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss () and the sums (5,) of ppo_loss; gradients go to heads and value, first derivatives only.

    Args: heads, value: such as `fits` takes.
    """
    loss, sums = _Loss.apply(section, batch, value, *heads)  # type: ignore[no-untyped-call]
    return loss, sums


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, section: TrainSection, batch: Batch, value: Tensor, *heads: Tensor) -> tuple[Tensor, Tensor]:
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
