# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from puffervec.wings.sharded import ConvNeXt, ShardedCNN, peak_bytes
from tests.wings.sharded.split import numbers
from tests.wings.sharded.test_cnn import on_ranks

MIB = 2**20


def test_what_lives_at_once_is_counted() -> None:
    given = torch.zeros(MIB)

    def work() -> Tensor:
        given.add_(1)  # was there before
        first = given.clone()  # 4 MiB
        second = first.view(2, -1) + 1  # 4 more; a view is no memory
        del first
        return second.relu() + second.t().sum()  # 4 more for a moment, then 4 beside it

    assert peak_bytes(work) == peak_bytes(work, torch.device("cpu")) == 12 * MIB + 4
    assert peak_bytes(lambda: None) == 0
    layer, x = nn.Conv2d(3, 8, 3), torch.randn(1, 3, 66, 66)
    assert peak_bytes(lambda: layer(x).relu().sum().backward()) >= 2 * 8 * 64 * 64 * 4


def test_on_a_gpu_the_allocator_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for name, answer in (
        ("synchronize", None),
        ("memory_allocated", 300),
        ("reset_peak_memory_stats", None),
        ("max_memory_allocated", 1000),
    ):
        monkeypatch.setattr(
            f"torch.cuda.{name}",
            lambda device, name=name, answer=answer: asked.append(name) or answer,
        )
    assert peak_bytes(lambda: asked.append("work"), torch.device("cuda")) == 700
    assert asked[-3:] == ["reset_peak_memory_stats", "work", "max_memory_allocated"]


def step_bytes(network: nn.Module, x: Tensor, **how: int) -> int:
    """The peak of forward and backward, without the gradients of the weights."""
    network(x, **how).square().sum().backward()  # They are there from now on.
    for parameter in network.parameters():
        assert parameter.grad is not None
    return peak_bytes(lambda: network(x, **how).square().sum().backward())


@pytest.mark.parametrize("width", [128])
@pytest.mark.slow
def test_activation_memory_on_two_ranks_is_about_half(width: int) -> None:
    torch.manual_seed(0)
    module = ConvNeXt(3, 5, (2, 2), (8, 16), patch=2)
    x = numbers((4, 3, 32, width), torch.float32)
    whole, again_whole = step_bytes(module, x), 0

    def work(cnn: ShardedCNN) -> int:
        return step_bytes(cnn, x[..., slice(*cnn.columns(width))].clone(), width=width)

    (again_whole,) = on_ranks(1, module, (3, 32, width), work, keep_every=4)
    halves = on_ranks(2, module, (3, 32, width), work)
    again = on_ranks(2, module, (3, 32, width), work, keep_every=4)
    print(whole, again_whole, halves, again)
    assert (
        max(halves) <= 0.6 * whole
        and max(again) <= 0.6 * again_whole
        and again_whole <= 0.6 * whole
    )
