# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Window layers over pictures whose columns lie on several ranks, forward and backward.

    forward     x (own columns) -- receive the missing ones -->
                [ pad | left | own | right | pad ] -- the layer --> y
    backward    gradient of all of these columns -- send back those of other ranks -->
                own, plus the received ones

Saved for the backward pass are the rank's own columns, which the previous layer saves anyway, and
the few received ones. So no rank saves a second copy of a picture, and the backward pass need not
fetch columns again. The weights' gradients are those of the rank's own outputs: parts of a sum,
which regions.py or the trainer computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from puffervec.wings.sharded.columns import Halo, Window, halos, messages_due
from puffervec.wings.sharded.team import Team

Pair = tuple[int, int]  # (for height, for width)


class Layer(Protocol):
    """A layer applied to a picture that has all the columns that its outputs need.

    The layer itself pads along the height.
    """

    fill: float  # Value of the padding along the width.

    def forward(self, x: Tensor, parameters: Sequence[Tensor | None]) -> Tensor:
        """Apply the layer: (N, C, H, W) to (N, C', H', W')."""

    def backward(
        self, grad: Tensor, x: Tensor, parameters: Sequence[Tensor | None], wanted: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        """Return the gradients of x and of the parameters; None for those that are not wanted."""


class Convolution:
    """A convolution without padding along the width."""

    fill = 0.0

    def __init__(self, stride: Pair, padding: int, dilation: Pair, groups: int) -> None:
        """Args: padding: along the height."""
        self.stride, self.padding, self.dilation, self.groups = (
            list(stride),
            [padding, 0],
            list(dilation),
            groups,
        )

    def forward(self, x: Tensor, parameters: Sequence[Tensor | None]) -> Tensor:
        """See Layer; parameters: weight and bias."""
        weight, bias = parameters
        assert weight is not None
        return torch.conv2d(x, weight, bias, self.stride, self.padding, self.dilation, self.groups)

    def backward(
        self, grad: Tensor, x: Tensor, parameters: Sequence[Tensor | None], wanted: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        """See Layer."""
        weight, bias = parameters
        sizes = None if bias is None else list(bias.shape)
        return cast(
            Sequence[Tensor | None],
            torch.ops.aten.convolution_backward(
                grad,
                x,
                weight,
                sizes,
                self.stride,
                self.padding,
                self.dilation,
                False,
                [0, 0],
                self.groups,
                list(wanted),
            ),
        )


class MaxPool:
    """Max pooling. Its backward pass searches the windows again, so that no indices are saved."""

    fill = -torch.inf

    def __init__(
        self, kernel: Pair, stride: Pair, padding: int, dilation: Pair, ceil_mode: bool
    ) -> None:
        """Args: padding: along the height."""
        self._settings = kernel, stride, (padding, 0), dilation, ceil_mode

    def forward(self, x: Tensor, parameters: Sequence[Tensor | None]) -> Tensor:
        """See Layer; it has no parameters."""
        return nn.functional.max_pool2d(x, *self._settings)

    def backward(
        self, grad: Tensor, x: Tensor, parameters: Sequence[Tensor | None], wanted: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        """See Layer."""
        return _input_grad(self, grad, x)


class AveragePool:
    """Average pooling."""

    fill = 0.0

    def __init__(self, kernel: Pair, stride: Pair, padding: int, divisor: int | None) -> None:
        """Args: padding: along the height; its zeros count; divisor: replaces the window's size."""
        self._settings = kernel, stride, (padding, 0), False, True, divisor

    def forward(self, x: Tensor, parameters: Sequence[Tensor | None]) -> Tensor:
        """See Layer; it has no parameters."""
        return nn.functional.avg_pool2d(x, *self._settings)

    def backward(
        self, grad: Tensor, x: Tensor, parameters: Sequence[Tensor | None], wanted: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        """See Layer."""
        return _input_grad(self, grad, x)


def _input_grad(layer: Layer, grad: Tensor, x: Tensor) -> Sequence[Tensor | None]:
    """Return the gradient of x, by running again a layer that has no parameters."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return torch.autograd.grad(layer.forward(x, ()), x, grad)


class _Windowed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        layer: Layer,
        halo: Halo,
        team: Team,
        message: bool,
        x: Tensor,
        *parameters: Tensor | None,
    ) -> Tensor:
        strips = _receive(halo, team, x) if message else [None] * team.size
        ctx.layer, ctx.halo, ctx.team, ctx.message = layer, halo, team, message
        ctx.save_for_backward(x, *strips, *parameters)
        return layer.forward(_assemble(halo, x, strips, layer.fill), parameters)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        layer, halo, team = ctx.layer, ctx.halo, ctx.team
        x, *others = ctx.saved_tensors
        strips, parameters = others[: team.size], others[team.size :]
        wanted = ctx.needs_input_grad[4], *ctx.needs_input_grad[5:]
        grads = layer.backward(grad, _assemble(halo, x, strips, layer.fill), parameters, wanted)
        mine = _return_grads(halo, team, x, grads[0], ctx.message) if wanted[0] else None
        return None, None, None, None, mine, *grads[1:]


def windowed(
    layer: Layer,
    window: Window,
    width: int,
    out_width: int,
    team: Team,
    x: Tensor,
    *parameters: Tensor | None,
) -> Tensor:
    """Apply a layer to this rank's columns; return this rank's columns of the result.

    All ranks must call it.

    Args:
        layer: layer to apply.
        window: the layer's window along the width.
        width, out_width: width of the whole picture before and after the layer.
        team: the ranks.
        x: (N, C, H, own columns).
        parameters: the layer's parameters.

    Raises: WidthError.
    """
    halo = halos(window, width, out_width, team.size)[team.rank]
    result: Tensor = _Windowed.apply(  # type: ignore[no-untyped-call]
        layer, halo, team, messages_due(window, width, out_width, team.size), x, *parameters
    )
    return result


def _receive(halo: Halo, team: Team, x: Tensor) -> list[Tensor | None]:
    parts = [x[..., first:end] for first, end in halo.sends]
    shapes = [(*x.shape[:-1], count) if count else None for count in halo.receives]
    return team.swap(parts, shapes, x)


def _assemble(halo: Halo, x: Tensor, strips: Sequence[Tensor | None], fill: float) -> Tensor:
    """Return the columns that a rank's outputs need, in order; x itself if it is exactly these."""
    if halo.whole and halo.own == (0, x.shape[-1]):
        return x
    parts: list[Tensor] = [x.new_full((*x.shape[:-1], halo.left), fill)] if halo.left else []
    for rank, strip in enumerate(strips):
        if rank == halo.rank:
            parts.append(x[..., slice(*halo.own)])
        elif strip is not None:
            parts.append(strip)
    if halo.right:
        parts.append(x.new_full((*x.shape[:-1], halo.right), fill))
    return torch.cat(parts, dim=-1)


def _return_grads(halo: Halo, team: Team, x: Tensor, grad: Tensor | None, message: bool) -> Tensor:
    """Return the gradient of this rank's columns; send other ranks those of their columns."""
    assert grad is not None
    own = halo.own[1] - halo.own[0]
    sizes = [own if rank == halo.rank else count for rank, count in enumerate(halo.receives)]
    parts = list(torch.split(grad[..., halo.left : grad.shape[-1] - halo.right], sizes, dim=-1))
    total = nn.functional.pad(parts[halo.rank], (halo.own[0], x.shape[-1] - halo.own[1]))
    if not message:
        return total
    outgoing = [part if count else None for part, count in zip(parts, halo.receives, strict=True)]
    shapes = [(*x.shape[:-1], end - first) for first, end in halo.sends]
    for (first, end), part in zip(halo.sends, team.swap(outgoing, shapes, grad), strict=True):
        if part is not None:
            total[..., first:end] += part
    return total
