# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Random small graphs, planned: what the tests of the planner share."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from puffervec.wings.plan.arena import Arena, place
from puffervec.wings.plan.build import from_graph
from puffervec.wings.plan.executor import PolicyExecutor
from puffervec.wings.plan.ir import Graph

Function = Callable[..., Any]


def traced(function: Function, *inputs: Tensor, **options: Any) -> Graph:
    """A function as a graph without addresses."""
    return from_graph(make_fx(function)(*inputs), **options)


def planned(function: Function, *inputs: Tensor, **options: Any) -> tuple[Graph, Arena]:
    """A function as a placed graph."""
    graph = traced(function, *inputs, **options)
    return graph, place(graph)


def executor(function: Function, *inputs: Tensor, **options: Any) -> PolicyExecutor:
    """A function in an arena."""
    return PolicyExecutor(*planned(function, *inputs, **options))


def results(made: PolicyExecutor, *inputs: Tensor, poisoned: bool = False) -> list[Tensor]:
    """Write the inputs, run, and return copies of the outputs."""
    for kept, given in zip(made.inputs, inputs, strict=True):
        assert kept is not None
        kept.copy_(given)
    (made.run_poisoned if poisoned else made.run)()
    return [out.clone() for out in made.outputs]


def _like(pool: list[Tensor], draw: random.Random, x: Tensor) -> Tensor:
    """A tensor of the shape and dtype of x."""
    return draw.choice([y for y in pool if y.shape == x.shape and y.dtype == x.dtype])


def _matrix(x: Tensor) -> Tensor:
    return x if x.dim() == 2 else x.reshape(-1, x.shape[-1]) if x.dim() else x.reshape(1, 1)


Op = Callable[[list[Tensor], random.Random, Tensor], Tensor | tuple[Tensor, ...]]
OPS: tuple[Op, ...] = (
    lambda pool, draw, x: x + _like(pool, draw, x),
    lambda pool, draw, x: x - 0.5 * _like(pool, draw, x),
    lambda pool, draw, x: x * _like(pool, draw, x),
    lambda pool, draw, x: 1 - x,
    lambda pool, draw, x: torch.relu(x),
    lambda pool, draw, x: x.sigmoid(),
    lambda pool, draw, x: x.tanh(),
    lambda pool, draw, x: x.clamp(-0.5, 0.5),
    lambda pool, draw, x: x.reshape(-1),
    lambda pool, draw, x: x.flatten(),
    lambda pool, draw, x: _matrix(x).t(),
    lambda pool, draw, x: _matrix(x)[:, : max(1, x.shape[-1] // 2) if x.dim() else 1],
    lambda pool, draw, x: _matrix(x)[0],
    lambda pool, draw, x: torch.cat(
        [_matrix(x), _matrix(_like(pool, draw, x))], dim=draw.choice([0, 1])
    ),
    lambda pool, draw, x: _matrix(x) @ _matrix(_like(pool, draw, x)).t() / 8,
    lambda pool, draw, x: (
        torch.addmm(_matrix(x)[:, :1].reshape(-1), _matrix(x), _matrix(x).t()) / 8
    ),
    lambda pool, draw, x: _matrix(x).sum(1),
    lambda pool, draw, x: _matrix(x).mean(0, keepdim=True),
    lambda pool, draw, x: _matrix(x).amax(-1),
    lambda pool, draw, x: torch.where(x > 0, x, _like(pool, draw, x)),
    lambda pool, draw, x: x.unsqueeze(0).expand(2, *x.shape),
    lambda pool, draw, x: _matrix(x).split(max(1, _matrix(x).shape[0] // 2)),
    lambda pool, draw, x: x.double().float(),
    lambda pool, draw, x: x.clone(),
    lambda pool, draw, x: _matrix(x).softmax(-1),
)
MOST_NUMBERS = 600  # of one tensor: expansions and products must not grow for ever


def random_function(seed: int) -> tuple[Function, list[Tensor]]:
    """A function of 4 to 24 operations with up to 4 outputs, and inputs for it."""
    draw = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    rows, columns = draw.randint(1, 7), draw.randint(1, 7)
    inputs = [torch.randn(rows, columns, generator=generator) for _ in range(draw.randint(1, 3))]
    count, order = draw.randint(4, 24), draw.random()

    def function(*given: Tensor) -> list[Tensor]:
        chosen = random.Random(order)
        pool = list(given)
        for _ in range(count):
            found = chosen.choice(OPS)(pool, chosen, chosen.choice(pool[-6:]))
            pool += [
                x
                for x in (found if isinstance(found, tuple) else (found,))
                if 0 < x.numel() <= MOST_NUMBERS
            ]
        made = pool[len(given) :] or [given[0] + 1]
        return chosen.sample(made, min(len(made), chosen.randint(1, 4)))

    return function, inputs
