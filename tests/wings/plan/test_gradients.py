# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from puffervec.train.policies.object_set import HIDDEN, WIDE, encode_set
from puffervec.train.policies.whole import keep_whole
from tests.wings.plan import graphs
from tests.wings.plan.memory import allocations

aten = torch.ops.aten


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def back(
    grad: Tensor, x: Tensor, weight: Tensor, mask: list[bool], groups: int = 1, **patches: Any
) -> Any:
    stride, padding, dilation = (
        patches.get(key, [1, 1]) for key in ("stride", "padding", "dilation")
    )
    bias = [weight.shape[0]]
    found = aten.convolution_backward(
        grad, x, weight, bias, stride, padding, dilation, False, [0, 0], groups, mask
    )
    return tuple(part for part in found if part is not None)


def recurrence(a: Tensor, b: Tensor, first: Tensor) -> Tensor:
    return torch.ops.puffervec.linear_recurrence(a, b, first)  # type: ignore[no-any-return]


def recurrence_grad(grad: Tensor, a: Tensor, h: Tensor, first: Tensor) -> Any:
    return torch.ops.puffervec.linear_recurrence_grad(grad, a, h, first)


def sets(objects: Tensor, first: Tensor, second: Tensor) -> Tensor:
    with keep_whole():
        return encode_set(objects, first, second)


def sets_grad(grad: Tensor, objects: Tensor, first: Tensor, second: Tensor) -> Any:
    winners = torch.ops.puffervec.encode_set(objects, first, second)[1]
    return torch.ops.puffervec.encode_set_grad(grad, objects, first, second, winners)


SETS = draw(5, 3, 4), draw(HIDDEN, 5), draw(WIDE, HIDDEN)
CASES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "convolution": (
        lambda g, x, w: back(g, x, w, [True] * 3),
        (draw(2, 5, 6, 7), draw(2, 3, 6, 7), draw(5, 3, 3, 3)),
    ),
    "weights only": (
        lambda g, x, w: back(g, x, w, [False, True, False]),
        (draw(2, 5, 6, 7), draw(2, 3, 6, 7), draw(5, 3, 3, 3)),
    ),
    "stride, groups": (
        lambda g, x, w: back(
            g, x, w, [True] * 3, groups=2, stride=[2, 3], padding=[0, 2], dilation=[2, 1]
        ),
        (draw(2, 6, 3, 3), draw(2, 4, 9, 7), draw(6, 2, 3, 4)),
    ),
    "recurrence": (recurrence, (draw(4, 2, 3), draw(4, 2, 3), draw(2, 3))),
    "recurrence, backward": (
        recurrence_grad,
        (draw(4, 2, 3), draw(4, 2, 3), draw(4, 2, 3), draw(2, 3)),
    ),
    "embedding": (
        lambda g, i: aten.embedding_dense_backward(g, i, 5, -1, False),
        (draw(2, 4, 3), torch.tensor([[0, 1, 1, 3], [4, 0, 1, 1]])),
    ),
    "embedding with padding": (
        lambda g, i: aten.embedding_dense_backward(g, i, 5, 0, False),
        (draw(2, 4, 3), torch.tensor([[0, 1, 1, 3], [4, 0, 1, 1]])),
    ),
    "copy": (lambda x, y: aten.copy.default(x, y.t()) + 1, (draw(2, 3), draw(3, 2))),
    "sets": (sets, SETS),
    "sets in another order": (
        lambda x, first, second: sets(x.transpose(1, 2), first, second),
        (draw(5, 4, 3), *SETS[1:]),
    ),
    "sets, backward": (sets_grad, (draw(5, WIDE), *SETS)),
}


@pytest.mark.parametrize("case", CASES)
def test_it_gives_what_torch_gives_and_allocates_nothing(case: str) -> None:
    function, inputs = CASES[case]
    made = graphs.executor(function, *inputs)
    wanted = function(*inputs)
    for poisoned in (True, False):
        found = graphs.results(made, *inputs, poisoned=poisoned)
        for a, b in zip(wanted if isinstance(wanted, tuple) else (wanted,), found, strict=True):
            torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-5)
    assert allocations(made.run) == []
