# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Where columns begin and end: how a batch gets onto the ranks, and what each rank has behind the
layers that are split.

    Shared    all ranks work on one batch. Behind a global mean or a Gather each has the same whole numbers, and goes on with
              what one process would do. Gradients of weights in front of that are parts of a sum:
                  it is made here.
    Dealt     each rank brings rows of its own, as in data parallelism, and gets the results of these rows back. In between the
              rows of all ranks lie split by columns. Whoever trains adds up the gradients of all
              ranks, as always.

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
    """One forward pass over pictures that are split by columns."""

    team: Team
    # Whether what is known of whole pictures may be used beside columns, as squeeze and excitation
    # does.
    beside: bool

    def parameters(self, parameters: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return parameters as layers use them whose columns are split."""

    def gather(self, columns: Tensor, dim: int, width: int) -> Tensor:
        """Return whole pictures of a tensor that is split along `dim`."""

    def total(self, part: Tensor) -> Tensor:
        """Return sums over all columns of sums over this rank's."""


class Shared:
    """See the head of this file."""

    beside = True

    def __init__(self, team: Team) -> None:
        """Args: team: the ranks."""
        self.team = team

    def parameters(self, parameters: Sequence[Tensor]) -> Sequence[Tensor]:
        """The same; their gradients are summed over the ranks, in one message at the end of the
        backward pass.
        """
        if self.team.size == 1 or not parameters:
            return parameters
        found: Sequence[Tensor] = _Summed.apply(self.team, *parameters)  # type: ignore[no-untyped-call]
        return found

    def gather(self, columns: Tensor, dim: int, width: int) -> Tensor:
        """All ranks get all columns."""
        found: Tensor = _Gathered.apply(columns, dim, width, self.team)  # type: ignore[no-untyped-call]
        return found

    def total(self, part: Tensor) -> Tensor:
        """All ranks get the sums."""
        found: Tensor = _Total.apply(part, self.team)  # type: ignore[no-untyped-call]
        return found


class Dealt:
    """See the head of this file."""

    beside = False  # A rank knows it of its own rows only, and has columns of all.

    def __init__(self, team: Team, counts: Sequence[int]) -> None:
        """Args: counts: by rank, how many rows it brings."""
        self.team, self.counts = team, tuple(counts)

    def deal(self, rows: Tensor) -> Tensor:
        """Return this rank's columns of all rows, (sum of counts, C, H, own columns). rows: (own
        count, C, H, W).
        """
        found: Tensor = _Turned.apply(rows, -1, rows.shape[-1], self.counts, self.team, True)  # type: ignore[no-untyped-call]
        return found

    def parameters(self, parameters: Sequence[Tensor]) -> Sequence[Tensor]:
        """The same."""
        return parameters

    def gather(self, columns: Tensor, dim: int, width: int) -> Tensor:
        """Each rank gets all columns of its own rows."""
        found: Tensor = _Turned.apply(columns, dim, width, self.counts, self.team, False)  # type: ignore[no-untyped-call]
        return found

    def total(self, part: Tensor) -> Tensor:
        """Each rank gets the sums of its own rows."""
        found: Tensor = _OwnTotal.apply(part, self.counts, self.team)  # type: ignore[no-untyped-call]
        return found


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, team: Team, *parameters: Tensor) -> tuple[Tensor, ...]:
        ctx.team = team
        return tuple(parameter.view_as(parameter) for parameter in parameters)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        found: list[Tensor] = list(grads)
        for dtype in dict.fromkeys(grad.dtype for grad in grads):
            places = [place for place, grad in enumerate(grads) if grad.dtype == dtype]
            for place, total in zip(
                places, ctx.team.add_up([grads[place] for place in places]), strict=True
            ):
                found[place] = total
        return None, *found


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, team: Team) -> Tensor:
        return team.add_up([part])[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return grad, None  # All ranks do the same with the sum: each has the whole gradient of it.


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, columns: Tensor, dim: int, width: int, team: Team) -> Tensor:
        ranges = split(width, team.size)
        most = max(end - first for first, end in ranges)
        first, end = ranges[team.rank]
        ctx.dim, ctx.own = dim, (first, end - first)
        shape = list(columns.shape)
        shape[dim] = most
        room = columns.new_zeros(shape)  # Messages of one size.
        room.narrow(dim, 0, end - first).copy_(columns)
        parts = team.gather(room)
        return torch.cat(
            [part.narrow(dim, 0, b - a) for part, (a, b) in zip(parts, ranges, strict=True)], dim
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return grad.narrow(ctx.dim, *ctx.own), None, None, None


def _turned(
    x: Tensor, dim: int, width: int, counts: Sequence[int], team: Team, deal: bool
) -> Tensor:
    """Rows with all columns to own columns of all rows, or back."""
    ranges = split(width, team.size)
    columns = [end - first for first, end in ranges]
    own_rows, own_columns = counts[team.rank], columns[team.rank]
    shapes = []
    for rank in range(team.size):
        shape = list(x.shape)
        shape[0], shape[dim] = (counts[rank], own_columns) if deal else (own_rows, columns[rank])
        shapes.append(shape)
    parts = torch.split(x, columns, dim) if deal else torch.split(x, list(counts), 0)
    found = [part for part in team.swap(parts, shapes, x) if part is not None]
    return torch.cat(found, 0 if deal else dim)


class _Turned(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, dim: int, width: int, counts: Sequence[int], team: Team, deal: bool
    ) -> Tensor:
        ctx.settings = dim, width, counts, team, not deal
        return _turned(x, dim, width, counts, team, deal)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _turned(grad, *ctx.settings), None, None, None, None, None


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
