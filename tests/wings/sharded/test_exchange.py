# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Convolutions and poolings on ranks beside torch's in one process. Also of
puffervec/wings/sharded/layers.py and puffervec/wings/sharded/team.py, which are at work in each.
"""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from puffervec.errors import ConfigError
from puffervec.train.device.ranks import RankLost
from puffervec.wings.sharded import layers
from puffervec.wings.sharded.columns import WidthError, Window, halos, split
from puffervec.wings.sharded.exchange import _assemble
from puffervec.wings.sharded.layers import Columns
from puffervec.wings.sharded.rules import FUNCTIONS
from puffervec.wings.sharded.team import Rehearsal, Team
from tests.train.gangs import together
from tests.wings.sharded.split import TOLERANCE, differences, numbers, teams

# kernel, stride, padding, dilation, groups, width
QUICK: list[tuple[int, int, Any, int, int, int]] = [
    (3, 1, 1, 1, 1, 16),  # as in most networks
    (7, 1, 3, 1, 4, 9),  # depthwise, uneven, as in ConvNeXt
    (8, 4, 0, 1, 1, 84),  # the first of Mnih et al. 2015
    (2, 2, 0, 1, 1, 14),  # patches that lie on two ranks
    (9, 1, 4, 1, 2, 7),  # a kernel wider than the neighbour's part
    (3, 1, 2, 2, 1, 13),  # dilated
    (4, 1, "same", 1, 1, 11),
    (4, 1, "same", 2, 1, 11),
    (3, 1, "valid", 1, 1, 12),
    (3, 2, 1, 1, 1, 15),
    (1, 3, 0, 1, 1, 13),  # some columns are seen by no window
]
KERNELS = [(1, 1, 0, 1), (3, 1, 1, 1), (3, 1, 0, 1), (5, 1, 2, 1), (7, 1, 3, 1), (9, 1, 4, 1),
           (3, 2, 1, 1), (7, 2, 3, 1), (2, 2, 0, 1), (4, 4, 0, 1), (4, 2, 1, 1), (1, 3, 0, 1),
           (3, 1, 2, 2), (5, 2, 4, 2), (4, 1, "same", 1)]  # fmt: skip
TABLE = [
    (*kernel, groups, width) for kernel in KERNELS for groups in (1, 2, 4) for width in (16, 21)
]


def _convolution(
    kernel: int, stride: int, padding: Any, dilation: int, groups: int
) -> tuple[Any, Any, Any]:
    """The layer in one process and on ranks, and its parameters; the height has other sizes."""
    pads = padding if isinstance(padding, str) else (1, padding)
    settings = (1, stride), pads, (2, dilation), groups
    return (
        lambda x, w, b: F.conv2d(x, w, b, *settings),
        lambda x, team, w, b: layers.conv2d(x, team, w, b, *settings),
        [(8, 4 // groups, 3, kernel), (8,)],
    )


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("setting", QUICK, ids=str)
def test_a_convolution_on_ranks_is_that_of_one_process(setting: Any) -> None:
    *kernel, width = setting
    for size in (2, 3):
        assert (
            differences(*_convolution(*kernel)[:2], width, _convolution(*kernel)[2], size) < 1e-10
        )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("setting", [*QUICK, *TABLE], ids=str)
def test_all_convolutions_on_1_to_4_ranks_are_those_of_one_process(
    setting: Any, dtype: torch.dtype
) -> None:
    *kernel, width = setting
    one, ours, shapes = _convolution(*kernel)
    for size in (1, 2, 3, 4):
        assert differences(one, ours, width, shapes, size, dtype) < TOLERANCE[dtype]


POOLS: list[tuple[Any, Any, dict[str, Any]]] = [
    (F.max_pool2d, layers.max_pool2d, {"kernel_size": 2}),
    (F.max_pool2d, layers.max_pool2d, {"kernel_size": 3, "stride": 2, "padding": (0, 1)}),
    # The last window would begin behind the picture, or in its padding.
    (F.max_pool2d, layers.max_pool2d, {"kernel_size": 2, "stride": 4, "ceil_mode": True}),
    (
        F.max_pool2d,
        layers.max_pool2d,
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    ),
    (F.max_pool2d, layers.max_pool2d, {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
    (F.max_pool2d, layers.max_pool2d, {"kernel_size": (1, 3), "stride": 1, "dilation": 2}),
    (F.avg_pool2d, layers.avg_pool2d, {"kernel_size": 2}),
    (F.avg_pool2d, layers.avg_pool2d, {"kernel_size": 3, "stride": 2, "padding": 1}),
    (
        F.avg_pool2d,
        layers.avg_pool2d,
        {"kernel_size": (3, 5), "stride": 1, "padding": (1, 2), "count_include_pad": False},
    ),
    (
        F.avg_pool2d,
        layers.avg_pool2d,
        {"kernel_size": 3, "stride": 1, "padding": 1, "divisor_override": 5},
    ),
    (
        F.avg_pool2d,
        layers.avg_pool2d,
        {
            "kernel_size": 3,
            "stride": 1,
            "padding": 1,
            "count_include_pad": False,
            "divisor_override": 5,
        },
    ),
]


@pytest.mark.parametrize("pool", POOLS, ids=lambda pool: f"{pool[1].__name__}-{pool[2]}")
def test_a_pooling_on_ranks_is_that_of_one_process(pool: Any) -> None:
    one, ours, settings = pool
    for size, width in ((2, 16), (3, 13)):
        assert (
            differences(
                lambda x: one(x, **settings), lambda x, t: ours(x, t, **settings), width, (), size
            )
            < 1e-10
        )


def test_a_mean_that_is_asked_for_by_its_window_alone_is_that_of_one_process() -> None:
    """Call the rule of torch's function as a network does, with torch's defaults for the other
    settings.
    """

    def ours(x: Columns, team: Team) -> Columns:
        found: Columns = FUNCTIONS[F.avg_pool2d](
            SimpleNamespace(region=SimpleNamespace(team=team)), x, 2
        )
        return found

    assert differences(lambda x: F.avg_pool2d(x, 2), ours, 16, (), 2) < 1e-10
    assert differences(F.conv2d, layers.conv2d, 16, [(8, 4, 3, 3)], 2) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("pool", POOLS, ids=lambda pool: f"{pool[1].__name__}-{pool[2]}")
def test_all_poolings_on_1_to_4_ranks_are_those_of_one_process(
    pool: Any, dtype: torch.dtype
) -> None:
    one, ours, settings = pool
    for size, width in itertools.product((1, 2, 3, 4), (16, 13, 23)):
        found = differences(
            lambda x: one(x, **settings),
            lambda x, t: ours(x, t, **settings),
            width,
            (),
            size,
            dtype,
        )
        assert found < TOLERANCE[dtype]


def test_what_is_kept_for_backward_is_the_own_columns_and_the_received_ones() -> None:
    """Not the columns put together: the layer before keeps the own ones anyway."""
    x, weight = numbers((2, 4, 7, 16), torch.float32), numbers((4, 4, 3, 3), torch.float32)

    def work(team: Team) -> list[tuple[int, ...]]:
        own = x[..., slice(*split(16, 2)[team.rank])].clone().requires_grad_()
        kept: list[tuple[int, ...]] = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t: kept.append(tuple(t.shape)) or t, lambda t: t
        ):
            layers.conv2d(Columns(own, 3, 16), team, weight, padding=1)
        return kept

    assert all(
        sorted(kept) == [(2, 4, 7, 1), (2, 4, 7, 8), (4, 4, 3, 3)] for kept in teams(2, work)
    )


def test_columns_that_are_all_there_are_not_copied() -> None:
    x = numbers((2, 4, 7, 8), torch.float32)
    for width, strips in ((8, [None]), (16, [None, None])):
        plan = halos(Window(1), width, width, len(strips))[0]
        assert _assemble(plan, x, strips, 0.0) is x


def test_a_team_without_a_group_is_one_process() -> None:
    assert (Team().rank, Team().size) == (0, 1)


def test_bf16_under_autocast_crosses_as_bf16() -> None:
    x, weight = numbers((2, 4, 7, 16), torch.float32), numbers((4, 4, 3, 3), torch.float32)

    def work(team: Team) -> tuple[torch.dtype, Tensor, Tensor]:
        own = x[..., slice(*split(16, 2)[team.rank])].clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            y = layers.conv2d(Columns(own, 3, 16), team, weight, padding=1).tensor
        y.float().sum().backward()
        assert own.grad is not None
        return y.dtype, y, own.grad

    with torch.autocast("cpu", torch.bfloat16):
        wanted = F.conv2d(x, weight, padding=1)
    found = teams(2, work)
    assert all(dtype == torch.bfloat16 and grad.dtype == torch.float32 for dtype, _, grad in found)
    torch.testing.assert_close(
        torch.cat([y for _, y, _ in found], -1), wanted, rtol=2e-2, atol=2e-2
    )


def test_too_narrow_pictures_and_odd_paddings_are_refused() -> None:
    x, team = torch.zeros(1, 4, 4, 2), Rehearsal(0, 4)
    with pytest.raises(WidthError, match="width 2 cannot be split over 4 ranks"):
        layers.conv2d(Columns(x, 3, 8), team, torch.zeros(4, 4, 4, 4), stride=4)
    with pytest.raises(ConfigError, match="kernel of height 4"):
        layers.conv2d(Columns(x, 3, 8), team, torch.zeros(4, 4, 4, 4), padding="same")


def test_a_rank_that_is_gone_is_named_or_called_another() -> None:
    def work(ranks: Any) -> Any:
        team = Team(ranks._group)
        return team.add_up([torch.ones(2)]) if team.rank == 0 else None

    error, none = together(2, work, timeout_s=0.3)
    assert (
        isinstance(error, RankLost)
        and "rank 0 of 2 lost another rank while adding up" in str(error)
        and none is None
    )
