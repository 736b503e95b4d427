# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The rules of this package (puffervec/wings/plan/kernels.py) and those by `out=` variants
(calls.py): the same numbers as torch's own kernels, and no allocation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from puffervec.wings.plan.build import PlanError
from tests.wings.plan.graphs import executor, results
from tests.wings.plan.memory import allocations

aten = torch.ops.aten
X, Y, V = torch.randn(5, 6), torch.rand(5, 6) + 0.5, torch.randn(6)
PICTURES = torch.randn(2, 4, 9, 8)
WHOLE = torch.arange(30).view(5, 6) % 5
SAME: dict[str, Callable[..., Any]] = {
    "relu": lambda x, y: torch.relu(x + y),
    "relu of an input": lambda x, y: torch.relu(x),
    "sigmoid": lambda x, y: x.sigmoid(),
    "tanh": lambda x, y: x.tanh(),
    "gelu": lambda x, y: F.gelu(x),
    "silu": lambda x, y: F.silu(x),
    "elu": lambda x, y: F.elu(x),
    "leaky": lambda x, y: F.leaky_relu(x, 0.1),
    "softplus": lambda x, y: F.softplus(x),
    "hardtanh": lambda x, y: F.hardtanh(x),
    "exp": lambda x, y: x.exp(),
    "log": lambda x, y: y.log(),
    "rsqrt": lambda x, y: y.rsqrt(),
    "power": lambda x, y: y**1.5,
    "sum of two": lambda x, y: x + 2 * y,
    "number": lambda x, y: 1 - x * 0.5 + 3,
    "rsub": lambda x, y: torch.rsub(x, 1, alpha=2),
    "quotient": lambda x, y: x / y / 3,
    "compare": lambda x, y: (x > y, x != 0, x <= 0.5, x == y),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "clamp": lambda x, y: x.clamp(-0.5, 0.5),
    "not": lambda x, y: (x > 0).logical_not(),
    "largest": lambda x, y: torch.maximum(x, y),
    "matrix": lambda x, y: x @ y.t(),
    "linear": lambda x, y: F.linear(x, y[:, :6], y[:, 0]),
    "batches": lambda x, y: torch.bmm(x.view(1, 5, 6), y.t().unsqueeze(0)),
    "cat": lambda x, y: torch.cat([x, y], -1),
    "stack": lambda x, y: (torch.stack([x, y]), torch.stack([x, y], 2)),
    "any": lambda x, y: (x > 1).any(-1, keepdim=True),
    "amax": lambda x, y: x.amax(-1),
    "sum": lambda x, y: (x.sum(0), x.sum()),
    "mean": lambda x, y: (x.mean(1, keepdim=True), x.mean()),
    "max": lambda x, y: x.max(1),
    "argmax": lambda x, y: x.argmax(-1),
    "softmax": lambda x, y: (x.softmax(-1), x.log_softmax(-1)),
    "cumsum": lambda x, y: x.cumsum(-1),
    "dtype": lambda x, y: (x.double(), (x > 0).float(), (x * 9).to(torch.int64)),
    "clone": lambda x, y: x.t().contiguous(),
    "constants": lambda x, y: (
        torch.full((2, 3), 7.0),
        torch.zeros_like(x) + torch.ones(5, 1),
        torch.arange(2, 8, 2),
        torch.arange(3),
    ),
    "constants like another tensor": lambda x, y: (
        x.new_full((2,), 3.0),
        x.new_zeros(3),
        x.new_ones(3, 2),
        torch.full_like(x, 5.0),
        aten.scalar_tensor.default(2.0),
    ),
    "overloads for numbers": lambda x, y: (
        aten.add.Scalar(x, 3, 2),
        aten.sub.Scalar(x, 3),
        aten.mul.Scalar(x, 3),
        aten.div.Scalar(x, 3),
    ),
    "pad": lambda x, y: F.pad(x, (1, 2, -1, 3), value=2.0),
    "pad with zeros, and cut": lambda x, y: F.pad(x, (2, -1, -2, 1)),
    "repeat": lambda x, y: x.repeat(2, 1, 3),
    "tile": lambda x, y: x.repeat(1, 2),
    "large transposed copy": lambda x, y: x.repeat(20, 20).t().contiguous(),
    "mixed": lambda x, y: (x * (y > 1), (x > 0) + y.double(), x < y.double()),
    "bfloat16": lambda x, y: (x.bfloat16() @ y.bfloat16().t()).float(),
}
ROUNDED: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "layer norm": (lambda x, w, b: F.layer_norm(x, (6,), w, b), (X, V, V)),
    "layer norm, bare": (lambda x: F.layer_norm(x, (5, 6)), (X,)),
    "group norm": (lambda x, w, b: F.group_norm(x, 2, w[:4], b[:4]), (PICTURES, V, V)),
    "layer norm over channels": (
        lambda x, w, b: F.layer_norm(x.permute(0, 2, 3, 1), (4,), w[:4], b[:4]).permute(0, 3, 1, 2),
        (PICTURES, V, V),
    ),
    "group norm, bare": (lambda x: F.group_norm(x, 4), (PICTURES,)),
    "batch norm": (
        lambda x, m, v: F.batch_norm(x, m[:4], v[:4], m[1:5], v[1:5]),
        (PICTURES, V, Y[0]),
    ),
    "average": (lambda x: (F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1)), (PICTURES,)),
    "most": (lambda x: F.max_pool2d(x, 3, 2, 1), (PICTURES,)),
    "embedding": (lambda i, w: F.embedding(i, w), (WHOLE, X)),
    "embedding with padding": (lambda i, w: F.embedding(i, w, padding_idx=1), (WHOLE, X)),
    "gather": (lambda x, i: x.gather(1, i), (X, WHOLE)),
    "select": (lambda x, i: x.index_select(0, i[0]), (X, WHOLE)),
    "padded convolution": (
        lambda x, w: F.conv2d(x, w.view(5, 4, 3, 2), V[:5], 1, 1, 2),
        (PICTURES, torch.randn(120)),
    ),
    "strided convolution": (
        lambda x, w: F.conv2d(x, w.view(4, 2, 3, 5), V[:4], (3, 2), groups=2),
        (PICTURES, torch.randn(120)),
    ),
    "depthwise convolution": (
        lambda x, w: F.conv2d(x, w.view(4, 1, 5, 6), None, 1, (2, 3), groups=4),
        (PICTURES, torch.randn(120)),
    ),
    "convolution, channels last": (
        lambda x, w: F.conv2d(x.permute(0, 3, 1, 2), w.view(5, 8, 3, 1), V[:5]),
        (PICTURES, torch.randn(120)),
    ),
    "double convolution": (
        lambda x, w: F.conv2d(x.double(), w.view(10, 4, 3, 1).double()),
        (PICTURES, torch.randn(120)),
    ),
    "double convolution in groups": (
        lambda x, w: F.conv2d(
            x.double(), w.view(6, 2, 5, 2).double(), V.double(), (1, 2), (0, 1), groups=2
        ),
        (PICTURES, torch.randn(120)),
    ),
}


def leaves(found: Any) -> list[Tensor]:
    return list(found) if isinstance(found, (tuple, list)) else [found]


@pytest.mark.parametrize("name", SAME)
def test_the_bits_are_torchs_own(name: str) -> None:
    made = executor(SAME[name], X, Y)
    for poisoned in (True, False):
        for wanted, found in zip(
            leaves(SAME[name](X, Y)), results(made, X, Y, poisoned=poisoned), strict=True
        ):
            assert torch.equal(wanted, found) and wanted.dtype == found.dtype
    assert allocations(made.run) == []


@pytest.mark.parametrize("name", ROUNDED)
def test_the_numbers_are_torchs_own(name: str) -> None:
    function, inputs = ROUNDED[name]
    made = executor(function, *inputs)
    for poisoned in (True, False):
        for wanted, found in zip(
            leaves(function(*inputs)), results(made, *inputs, poisoned=poisoned), strict=True
        ):
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    assert allocations(made.run) == []


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: F.conv1d(x.view(2, 4, 72), w.view(10, 4, 3)),
        lambda x, w: F.conv_transpose2d(x, w.view(4, 5, 3, 2)),
    ],
    ids=["1D", "transposed"],
)
def test_other_convolutions_are_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(PlanError, match="only 2D convolutions that are not transposed"):
        executor(function, PICTURES, torch.randn(120))
