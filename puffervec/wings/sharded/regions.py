# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The distribution of a batch over the ranks, and each rank's tensors after the split layers.

    Shared    All ranks work on one batch. After a global mean or a Gather, each has the same whole
              tensors and continues as one process would. Gradients of the weights before that are
              parts of a sum, which is computed here.
    Dealt     Each rank brings separate rows, as in data parallelism, and gets the results of these
              rows back. In between, the rows of all ranks are split by columns. The trainer sums
              the gradients of all ranks, as always.

Runs in the learner of each rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from puffervec.wings.sharded.columns import split
from puffervec.wings.sharded.team import Team


class Region(Protocol):
    """A forward pass over pictures that are split by columns."""

    team: Team
    # Whether values for whole pictures may be combined with columns, as in squeeze-and-excitation.
    takes_whole: bool

    def parameters(self, parameters: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the parameters as layers with split columns need them."""

    def gather(self, columns: Tensor, dim: int, width: int) -> Tensor:
        """Return the whole of a tensor that is split along `dim`."""

    def total(self, part: Tensor) -> Tensor:
        """Return the sum over all ranks; `part` is a sum over this rank's columns."""


class Shared:
    """The region in which all ranks work on one batch; see the module docstring."""

    takes_whole = True

    def __init__(self, team: Team) -> None:
        """Args: team: the ranks."""
        self.team = team

    def parameters(self, parameters: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return parameters whose gradients are summed over the ranks.

        This takes one message at the end of the backward pass.
        """
        if self.team.size == 1 or not parameters:
            return parameters
        views: Sequence[Tensor] = _SumGrads.apply(  # type: ignore[no-untyped-call]
            self.team, *parameters
        )
        return views

    def gather(self, columns: Tensor, dim: int, width: int) -> Tensor:
        """Return all columns, on all ranks."""
        whole: Tensor = _Gather.apply(  # type: ignore[no-untyped-call]
            columns, dim, width, self.team
        )
        return whole

    def total(self, part: Tensor) -> Tensor:
        """Return the sums over all ranks; every rank gets them."""
        total: Tensor = _Total.apply(  # type: ignore[no-untyped-call]
            part, self.team
        )
        return total


class Dealt:
    """Each rank brings separate rows; see the module docstring."""

    takes_whole = False  # A rank has whole values of only its own rows, but columns of all rows.

    def __init__(self, team: Team, counts: Sequence[int]) -> None:
        """Args: team: the ranks; counts: for each rank, the number of rows that it brings."""
        self.team, self.counts = team, tuple(counts)

    def deal(self, rows: Tensor) -> Tensor:
        """Return this rank's columns of all rows, (sum of counts, C, H, own columns).

        Args:
            rows: this rank's rows, (own count, C, H, W).
        """
        columns: Tensor = _Transpose.apply(  # type: ignore[no-untyped-call]
            rows, -1, rows.shape[-1], self.counts, self.team, True
        )
        return columns

    def parameters(self, parameters: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the parameters unchanged."""
        return parameters

    def gather(self, columns: Tensor, dim: int, width: int) -> Tensor:
        """Return all columns of this rank's rows."""
        rows: Tensor = _Transpose.apply(  # type: ignore[no-untyped-call]
            columns, dim, width, self.counts, self.team, False
        )
        return rows

    def total(self, part: Tensor) -> Tensor:
        """Return the sums for this rank's rows."""
        total: Tensor = _OwnTotal.apply(  # type: ignore[no-untyped-call]
            part, self.counts, self.team
        )
        return total


class _SumGrads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, team: Team, *parameters: Tensor) -> tuple[Tensor, ...]:
        ctx.team = team
        return tuple(parameter.view_as(parameter) for parameter in parameters)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        sums: list[Tensor] = list(grads)
        for dtype in dict.fromkeys(grad.dtype for grad in grads):
            places = [place for place, grad in enumerate(grads) if grad.dtype == dtype]
            for place, total in zip(
                places, ctx.team.add_up([grads[place] for place in places]), strict=True
            ):
                sums[place] = total
        return None, *sums


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, team: Team) -> Tensor:
        return team.add_up([part])[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return grad, None  # All ranks use the sum in the same way, so each has its whole gradient.


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, columns: Tensor, dim: int, width: int, team: Team) -> Tensor:
        ranges = split(width, team.size)
        sizes = [end - first for first, end in ranges]
        ctx.dim, ctx.own = dim, (ranges[team.rank][0], sizes[team.rank])
        shape = list(columns.shape)
        shape[dim] = max(sizes)
        room = columns.new_zeros(shape)  # All messages must have one size.
        room.narrow(dim, 0, sizes[team.rank]).copy_(columns)
        parts = team.gather(room)
        return torch.cat(
            [part.narrow(dim, 0, size) for part, size in zip(parts, sizes, strict=True)], dim
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return grad.narrow(ctx.dim, *ctx.own), None, None, None


def _transpose(
    x: Tensor, dim: int, width: int, counts: Sequence[int], team: Team, deal: bool
) -> Tensor:
    """Exchange rows with all columns for own columns of all rows (`deal`), or the reverse."""
    ranges = split(width, team.size)
    columns = [end - first for first, end in ranges]
    own_rows, own_columns = counts[team.rank], columns[team.rank]
    shapes = []
    for rank in range(team.size):
        shape = list(x.shape)
        shape[0], shape[dim] = (counts[rank], own_columns) if deal else (own_rows, columns[rank])
        shapes.append(shape)
    parts = torch.split(x, columns, dim) if deal else torch.split(x, list(counts), 0)
    received = [part for part in team.swap(parts, shapes, x) if part is not None]
    return torch.cat(received, 0 if deal else dim)


class _Transpose(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, dim: int, width: int, counts: Sequence[int], team: Team, deal: bool
    ) -> Tensor:
        ctx.settings = dim, width, counts, team, not deal
        return _transpose(x, dim, width, counts, team, deal)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _transpose(grad, *ctx.settings), None, None, None, None, None


class _OwnTotal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, counts: Sequence[int], team: Team) -> Tensor:
        ctx.counts, ctx.team = counts, team
        return torch.split(team.add_up([part])[0], list(counts))[team.rank].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        shapes = [(count, *grad.shape[1:]) for count in ctx.counts]
        parts = ctx.team.swap([grad] * ctx.team.size, shapes, grad)
        return torch.cat([part for part in parts if part is not None]), None, None
