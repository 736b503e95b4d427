# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The PPO loss of discrete actions on a CPU as one operation of autograd (csrc/ppo_loss.h). Runs in the learner."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from puffervec._ffi import ffi, lib
from puffervec.train.config import TrainSection
from puffervec.train.distributions import ActionSpec, Heads
from puffervec.train.samples import Batch

SUMS: int = lib.PV_PPO_SUMS
LANES: int = lib.PV_PPO_LANES


def fits(spec: ActionSpec, heads: Heads, value: Tensor) -> bool:
    """True where `fused_loss` can do it: discrete actions of not too many choices, float32 on a CPU, no graph being traced."""
    return (
        spec.discrete
        and value.device.type == "cpu"
        and value.dtype == torch.float32
        and all(head.dtype == torch.float32 for head in heads)
        and len(heads) <= lib.PV_PPO_DIMS
        and sum(-(-head.shape[-1] // LANES) * LANES for head in heads) <= lib.PV_PPO_CHOICES
        and not torch.compiler.is_compiling()
    )


def fused_loss(section: TrainSection, batch: Batch, heads: Heads, value: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss () and the sums (5,) of ppo_loss; gradients go to heads and value, first derivatives only."""
    loss, sums = _Loss.apply(section, batch, value, *heads)  # type: ignore[no-untyped-call]
    return loss, sums


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, section: TrainSection, batch: Batch, value: Tensor, *heads: Tensor) -> tuple[Tensor, Tensor]:
        floats = (batch.log_probs, batch.advantages, batch.returns, batch.values)
        given = [_flat(batch.actions.to(torch.int32)), *(_flat(x) for x in floats)]
        weights = None if batch.weights is None else _flat(batch.weights)
        logits, flat_value = [_flat(head) for head in heads], _flat(value)
        gradients = [torch.empty_like(head) for head in logits]
        value_gradient, sums = torch.empty_like(flat_value), torch.empty(SUMS, dtype=torch.float64)
        samples = ffi.new("pv_ppo_samples*", (flat_value.numel(), len(heads), *map(_pointer, given), _pointer(weights)))
        settings = section.clip, section.value_coef, section.value_clip, section.entropy_coef
        loss = lib.pv_ppo_loss(
            samples,
            ffi.new("pv_ppo_settings*", settings),
            [_pointer(head) for head in logits],
            [head.shape[-1] for head in logits],
            _pointer(flat_value),
            [_pointer(gradient) for gradient in gradients],
            _pointer(value_gradient),
            ffi.cast("double*", sums.data_ptr()),
        )
        ctx.save_for_backward(
            value_gradient.view_as(value), *(grad.view_as(head) for grad, head in zip(gradients, heads, strict=True))
        )
        sums = sums.float()
        ctx.mark_non_differentiable(sums)
        return torch.tensor(loss, dtype=torch.float32), sums

    @staticmethod
    def backward(ctx: Any, loss_gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *(gradient * loss_gradient for gradient in ctx.saved_tensors)


def _flat(x: Tensor) -> Tensor:
    return x.detach().contiguous()


def _pointer(x: Tensor | None) -> Any:
    """What C is told: `x` must outlive the call."""
    if x is None:
        return ffi.NULL
    return ffi.cast("int32_t*" if x.dtype == torch.int32 else "float*", x.data_ptr())
