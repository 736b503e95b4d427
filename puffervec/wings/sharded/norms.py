# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Normalization layers whose mean and variance are over the columns of all ranks.

Each rank computes mean and variance of its own columns. Merging them gives mean and variance of the
whole picture (Chan, Golub and LeVeque 1979, "Updating formulae and a pairwise algorithm"). Like
torch's own, GroupNorm and BatchNorm save their input, mean and deviation for the backward pass.
LayerNorm over channels does not combine columns, so torch's own is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from puffervec.wings.sharded.team import Team


def _moments(x: Tensor, dims: Sequence[int], team: Team) -> tuple[Tensor, Tensor, int]:
    """Return mean and variance over some axes and all ranks, and this rank's number of elements."""
    square, mean = torch.var_mean(x, list(dims), correction=0, keepdim=True)
    count = x.numel() // mean.numel()
    parts = team.gather(
        torch.cat([torch.stack([mean, square]).flatten(), mean.new_tensor([count])])
    )
    counts = torch.stack([part[-1] for part in parts]).view(-1, *[1] * mean.dim())
    means, squares = (
        torch.stack([part[:-1].view(2, *mean.shape)[index] for part in parts]) for index in (0, 1)
    )
    total = counts.sum(0)
    mean = (means * counts).sum(0) / total
    variance = ((squares + (means - mean).square()) * counts).sum(0) / total
    return mean, variance, count


class _Normalize(torch.autograd.Function):
    """(x - mean) / deviation * weight + bias; x is (N, groups, channels of a group, H, columns)."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        dims: Sequence[int],
        eps: float,
        team: Team,
    ) -> tuple[Tensor, Tensor, Tensor]:
        mean, variance, _ = _moments(x, dims, team)
        rate = (variance + eps).rsqrt()
        ctx.save_for_backward(x, mean, rate, weight)
        ctx.dims, ctx.team = dims, team
        ctx.mark_non_differentiable(mean, variance)
        return torch.addcmul(bias, (x - mean).mul_(rate), weight), mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, mean, rate, weight = ctx.saved_tensors
        dims, others = ctx.dims, [dim for dim in range(x.dim()) if weight.shape[dim] == 1]
        normal = (x - mean) * rate
        grad_weight, grad_bias = (
            (grad * normal).sum(others, keepdim=True),
            grad.sum(others, keepdim=True),
        )
        if not ctx.needs_input_grad[0]:
            return None, grad_weight, grad_bias, None, None, None
        inner = grad * weight
        own = [inner.sum(dims, keepdim=True), (inner * normal).sum(dims, keepdim=True)]
        count = x.new_tensor([x.numel() // mean.numel()])
        first, second, total = ctx.team.add_up([*own, count])
        grad_x = (inner - first / total - normal * (second / total)) * rate
        return grad_x, grad_weight, grad_bias, None, None, None


def _affine(
    channels: int, groups: int, like: Tensor, weight: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    shape = (1, groups, channels // groups, 1, 1)
    weight = like.new_ones(channels) if weight is None else weight
    bias = like.new_zeros(channels) if bias is None else bias
    return weight.view(shape), bias.view(shape)


def group_norm(
    x: Tensor,
    team: Team,
    groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float = 1e-5,
) -> Tensor:
    """Return this rank's columns of F.group_norm. Args: x: (N, C, H, own columns)."""
    affine = _affine(x.shape[1], groups, x, weight, bias)
    grouped = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    with torch.autocast(x.device.type, enabled=False):
        out: Tensor = _Normalize.apply(
            grouped.float() if _is_half(x) else grouped, *affine, (2, 3, 4), eps, team
        )[0]  # type: ignore[no-untyped-call]
    return out.reshape(x.shape)


def batch_norm(
    x: Tensor, team: Team, layer: nn.BatchNorm2d, weight: Tensor | None, bias: Tensor | None
) -> Tensor:
    """Return this rank's columns of a layer's result.

    In train mode the layer's running statistics change as in a single process.

    Args:
        x: (N, C, H, own columns).
        team: the ranks.
        layer: the layer.
        weight, bias: used instead of the layer's own.
    """
    if not (layer.training or layer.running_mean is None):
        return nn.functional.batch_norm(
            x, layer.running_mean, layer.running_var, weight, bias, eps=layer.eps
        )
    channels = x.shape[1]
    affine = _affine(channels, channels, x, weight, bias)
    grouped = x.unsqueeze(2)
    with torch.autocast(x.device.type, enabled=False):
        out, mean, variance = _Normalize.apply(  # type: ignore[no-untyped-call]
            grouped.float() if _is_half(x) else grouped, *affine, (0, 3, 4), layer.eps, team
        )
    if layer.training and layer.running_mean is not None and not team.rehearses:
        _update_statistics(layer, mean.flatten(), variance.flatten(), team, x.numel() // channels)
    result: Tensor = out.squeeze(2)
    return result


@torch.no_grad()
def _update_statistics(
    layer: nn.BatchNorm2d, mean: Tensor, variance: Tensor, team: Team, own: int
) -> None:
    (count,) = team.add_up([mean.new_tensor([own])])
    assert layer.running_mean is not None and layer.running_var is not None
    assert layer.num_batches_tracked is not None
    layer.num_batches_tracked.add_(1)
    share = 1.0 / float(layer.num_batches_tracked) if layer.momentum is None else layer.momentum
    layer.running_mean.lerp_(mean.to(layer.running_mean.dtype), share)
    layer.running_var.lerp_((variance * (count / (count - 1))).to(layer.running_var.dtype), share)


def _is_half(x: Tensor) -> bool:
    return x.dtype in (torch.bfloat16, torch.float16)
