# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A layer or network in one process beside the same on ranks that are threads (gangs.py): outputs
and all gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from puffervec.wings.sharded.columns import split
from puffervec.wings.sharded.layers import Columns
from puffervec.wings.sharded.team import Team
from tests.train.gangs import all_well

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
Layer = Callable[..., Tensor]


def teams(size: int, work: Callable[[Team], Any]) -> list[Any]:
    """Return what `work` returns in each of `size` ranks of a team."""
    return all_well(size, lambda ranks: work(Team(ranks._group)))


def numbers(shape: Sequence[int], dtype: torch.dtype, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def far(found: Tensor, wanted: Tensor) -> float:
    """The largest difference, in sizes of the largest number wanted where that is above 1."""
    found, wanted = found.detach(), wanted.detach()
    return float((found - wanted).abs().max()) / max(1.0, float(wanted.abs().max()))


def differences(
    one: Layer,
    ours: Callable[..., Columns],
    width: int,
    shapes: Sequence[Sequence[int]] = (),
    size: int = 2,
    dtype: torch.dtype = torch.float64,
    channels: int = 4,
) -> float:
    """Return how far a layer on ranks is from the one in one process: outputs, gradients of
        pictures and parameters.

    Args: one: takes pictures and parameters; ours: takes columns, a team and parameters; shapes: of
        the parameters.
    """
    x = numbers((2, channels, 7, width), dtype)
    parameters = [numbers(shape, dtype, seed + 1) for seed, shape in enumerate(shapes)]
    inputs = [tensor.clone().requires_grad_() for tensor in (x, *parameters)]
    y = one(*inputs)
    grad = numbers(y.shape, dtype, 99)
    wanted = [y, *torch.autograd.grad(y, inputs, grad)]

    def work(team: Team) -> list[Tensor]:
        own = slice(*split(width, team.size)[team.rank])
        mine = [tensor.clone().requires_grad_() for tensor in (x[..., own], *parameters)]
        found = ours(Columns(mine[0], 3, width), team, *mine[1:])
        assert found.width == y.shape[-1] and found.shape == y.shape
        out = slice(*split(found.width, team.size)[team.rank])
        return [found.tensor, *torch.autograd.grad(found.tensor, mine, grad[..., out])]

    parts = list(zip(*teams(size, work), strict=True))
    found = [torch.cat(part, -1) for part in parts[:2]] + [
        torch.stack(part).sum(0) for part in parts[2:]
    ]
    return max(far(a, b) for a, b in zip(found, wanted, strict=True))


def gradients(module: nn.Module) -> list[Tensor]:
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in module.parameters()]
