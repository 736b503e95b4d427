# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Whole networks on ranks beside one process. Also of puffervec/wings/sharded/network.py,
puffervec/wings/sharded/regions.py and puffervec/wings/sharded/rules.py, which are at work in each.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from puffervec.errors import ConfigError
from puffervec.wings.sharded import (
    CannotShard,
    ConvNeXt,
    DropPath,
    Gather,
    ShardedCNN,
    WidthError,
    check,
)
from puffervec.wings.sharded.columns import split
from puffervec.wings.sharded.network import Network
from puffervec.wings.sharded.team import Team
from tests.train.gangs import all_well
from tests.wings.sharded.split import TOLERANCE, far, gradients, numbers


class Residual(nn.Module):
    """A block as users write it: functions, operators, a skip, a weight, squeeze and excitation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (
            nn.Conv2d(width, width, 3, padding=1),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
        )
        self.norm, self.scale = nn.GroupNorm(2, width), nn.Parameter(torch.full((width, 1, 1), 0.7))
        self.squeeze = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm(self.first(x)))
        y = self.second(y) * self.scale
        gate = torch.sigmoid(self.squeeze(y.mean((2, 3))))
        return F.gelu(x + y * gate.view(x.shape[0], -1, 1, 1))


def nature(last: int = 7) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 8, 4), nn.ReLU(inplace=True), nn.Conv2d(8, 8, 4, 2), nn.ReLU(inplace=True),
        nn.Conv2d(8, 8, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(8 * 7 * last, 5),
    )  # fmt: skip


def pooled() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.SiLU(), nn.MaxPool2d(3, 2, 1),
        Residual(8), Residual(8), nn.AvgPool2d(2), nn.AdaptiveMaxPool2d(1), nn.Flatten(),
        nn.Linear(8, 5),
    )  # fmt: skip


def small_convnext(**settings: Any) -> ConvNeXt:
    return ConvNeXt(3, 5, (1, 2), (8, 12), patch=2, layer_scale=0.5, **settings)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, int, int]]] = {
    "nature": (nature, (3, 84, 84)),
    "pooled": (pooled, (3, 40, 50)),
    "convnext": (small_convnext, (3, 16, 22)),
    "pictures": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.LeakyReLU(), nn.Conv2d(4, 2, 1)),
        (3, 6, 11),
    ),
}


def made(name: str, dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(3)
    return NETWORKS[name][0]().to(dtype)


def on_ranks(
    size: int,
    module: nn.Module,
    shape: tuple[int, ...],
    work: Callable[[ShardedCNN], Any],
    keep_every: int = 0,
) -> Any:
    """Return what `work` returns with a copy of the network on each rank."""
    networks = [copy.deepcopy(module) for _ in range(size)]
    cnns = [
        ShardedCNN(network, Team(), keep_every) for network in networks
    ]  # Not in threads: torch.fx changes all modules.

    def run(ranks: Any) -> Any:
        cnn = cnns[ranks.rank]
        cnn.team = Team(ranks._group)
        return work(cnn.begin(shape))

    return all_well(size, run)


def beside(name: str, size: int, dtype: torch.dtype, keep_every: int = 0) -> float:
    module, shape = made(name, dtype), NETWORKS[name][1]
    x = numbers((3, *shape), dtype).requires_grad_()
    one = copy.deepcopy(module)
    y = one(x)
    y.square().sum().backward()
    assert x.grad is not None
    wanted = [y, x.grad, *gradients(one), *one.buffers()]

    def work(cnn: ShardedCNN) -> list[Tensor]:
        own = x.detach()[..., slice(*cnn.columns(shape[-1]))].clone().requires_grad_()
        z = cnn(own, width=shape[-1])
        z.square().sum().backward()
        assert own.grad is not None
        return [z, own.grad, *gradients(cnn), *cnn.buffers()]

    found = on_ranks(size, module, shape, work, keep_every)
    parts = [torch.cat([part[place] for part in found], -1) for place in (0, 1)]
    together = [parts[0] if y.dim() == 4 else found[0][0], parts[1], *found[0][2:]]
    for part in found[1:]:  # Bit for bit, or weights would drift apart.
        assert all(torch.equal(a, b) for a, b in zip(part[2:], found[0][2:], strict=True))
    return max(far(a, b) for a, b in zip(together, wanted, strict=True))


@pytest.mark.parametrize("keep_every", [1, 3])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_cut_into_segments_without_a_step_twice(name: str, keep_every: int) -> None:
    whole, cut = (Network(made(name), every).segments() for every in (0, keep_every))
    steps = [step.name for segment in cut for step in segment.steps]
    assert len(whole) == 1 < len(cut) and steps == [step.name for step in whole[0].steps]
    assert all(before.gives == after.needs for before, after in itertools.pairwise(cut))


def test_a_segment_ends_at_the_first_step_that_makes_it_long_enough() -> None:
    layers = nn.Sequential(*(nn.ReLU() for _ in range(6)))
    assert [len(segment.steps) for segment in Network(layers, 2).segments()] == [3, 3, 2]
    assert ShardedCNN(layers, Team()).network.keep_every == 0, "keep everything, unless asked"


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_on_two_ranks_is_that_of_one_process(name: str) -> None:
    assert beside(name, 2, torch.float64) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("keep_every", [0, 3])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_on_1_to_4_ranks_are_those_of_one_process(
    name: str, dtype: torch.dtype, size: int, keep_every: int
) -> None:
    if (name, keep_every) != (
        "pooled",
        3,
    ):  # Computing a BatchNorm again moves its statistics twice, in torch too.
        assert beside(name, size, dtype, keep_every) < TOLERANCE[dtype]


def test_steps_that_are_computed_again_give_the_same() -> None:
    assert beside("convnext", 2, torch.float64, keep_every=4) < 1e-10


@pytest.mark.parametrize(
    "size", [2, *(pytest.param(size, marks=pytest.mark.slow) for size in (1, 3, 4))]
)
def test_twenty_training_steps_later_weights_are_those_of_one_process_and_checkpoints_go_both_ways(
    size: int,
) -> None:
    module, shape = made("convnext"), (3, 8, 22)

    def trained(network: nn.Module) -> dict[str, Tensor]:
        optimizer = torch.optim.Adam(network.parameters(), 1e-3)
        for step in range(20):
            optimizer.zero_grad()
            network(numbers((3, *shape), torch.float64, step)).square().sum().backward()
            optimizer.step()
        return network.state_dict()

    one = copy.deepcopy(module)
    wanted = trained(one)
    first, *others = on_ranks(size, module, shape, trained)
    assert (
        list(first) == list(wanted)
        and max(far(first[name], wanted[name]) for name in wanted) < 1e-8
    )
    assert all(torch.equal(first[name], other[name]) for name in first for other in others)
    one.load_state_dict(first)

    def loaded(cnn: ShardedCNN) -> Tensor:
        cnn.load_state_dict(wanted)
        return cnn(numbers((1, *shape), torch.float64))

    torch.testing.assert_close(
        on_ranks(size, module, shape, loaded)[-1], one(numbers((1, *shape), torch.float64))
    )


def test_each_rank_brings_rows_of_its_own_and_gets_their_results() -> None:
    """As in the trainer: gradients are parts of the sum over all rows, also of a rank that has
    none.
    """
    for name in ("nature", "convnext", "pictures"):
        module, shape, counts = made(name), NETWORKS[name][1], [3, 0, 2]
        one, x = copy.deepcopy(module), numbers((5, *shape), torch.float64)
        wanted = one(x)
        wanted.square().sum().backward()

        def work(
            cnn: ShardedCNN, counts: list[int] = counts, x: Tensor = x
        ) -> tuple[Tensor, list[Tensor]]:
            y = cnn.deal(x.split(counts)[cnn.team.rank], counts)
            y.square().sum().backward()
            return y, gradients(cnn)

        found = on_ranks(3, module, shape, work)
        assert far(torch.cat([y for y, _ in found]), wanted) < 1e-10
        sums = [
            torch.stack(parts).sum(0) for parts in zip(*(grads for _, grads in found), strict=True)
        ]
        assert max(far(a, b) for a, b in zip(sums, gradients(one), strict=True)) < 1e-10


def test_rows_of_ones_own_cannot_be_weighed_by_whole_pictures() -> None:
    """A rank with one row would weigh all rows by what it knows of that one."""
    cnn = nn.Sequential(Residual(4), nn.AdaptiveAvgPool2d(1))

    def work(split: ShardedCNN) -> None:
        with pytest.raises(
            CannotShard, match="mul in 0: combines columns with values of whole pictures"
        ):
            split.deal(torch.zeros(1, 4, 6, 9), [1, 1])

    on_ranks(2, cnn, (4, 6, 9), work)


def test_random_masks_are_those_of_one_process() -> None:
    """The first rank draws, for all columns: ranks are threads here, which have one generator."""
    layers = nn.Sequential(
        nn.Conv2d(3, 4, 1),
        DropPath(0.4),
        nn.Dropout(0.3),
        nn.Dropout2d(0.3),
        nn.AdaptiveAvgPool2d(1),
    )
    x = numbers((6, 3, 4, 9), torch.float32)
    torch.manual_seed(5)
    wanted = layers(x)
    torch.manual_seed(5)
    for found in on_ranks(3, layers, (3, 4, 9), lambda cnn: cnn(x)):
        torch.testing.assert_close(found, wanted)
    assert float(wanted.count_nonzero()) < wanted.numel()
    layers.eval()
    for found in on_ranks(2, layers, (3, 4, 9), lambda cnn: cnn(x)):
        torch.testing.assert_close(found, layers(x))


def test_behind_a_gather_anything_goes() -> None:
    layers = nn.Sequential(
        nn.Conv2d(3, 4, 3), Gather(), nn.Upsample(scale_factor=2), nn.Conv2d(4, 2, 3)
    ).double()
    x = numbers((2, 3, 6, 9), torch.float64)
    wanted = layers(x)
    wanted.square().sum().backward()

    def work(cnn: ShardedCNN) -> tuple[Tensor, list[Tensor]]:
        y = cnn(x)
        y.square().sum().backward()
        return y, gradients(cnn)

    for y, grads in on_ranks(2, layers, (3, 6, 9), work):
        assert (
            far(y, wanted) < 1e-10
            and max(far(a, b) for a, b in zip(grads, gradients(layers), strict=True)) < 1e-10
        )


class Deciding(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


class By(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Added(nn.Module):
    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.zeros(shape))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.places


class ChannelsLast(nn.Module):
    """Layers and functions over the channels, which are last in between."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(self.norm(torch.permute(x, (0, 2, 3, 1))))
        return F.linear(F.layer_norm(y, (4,)), self.linear.weight).permute(0, 3, 1, 2)


REFUSED: list[tuple[nn.Module, str]] = [
    (nn.Upsample(scale_factor=2), r"layer 1 \(Upsample\): it has no rule"),
    (
        nn.Sequential(nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular")),
        r"layer 1\.1 \(Conv2d\): .*'circular'",
    ),
    (nn.AdaptiveAvgPool2d(2), r"layer 1 \(AdaptiveAvgPool2d\): output_size 2"),
    (nn.InstanceNorm2d(4), r"layer 1 \(InstanceNorm2d\)"),
    (nn.LayerNorm(9), r"layer 1 \(LayerNorm\): works along the columns"),
    (nn.ConvTranspose2d(4, 4, 2), r"layer 1 \(ConvTranspose2d\)"),
    (nn.AvgPool2d(2, ceil_mode=True), "ceil_mode"),
    (nn.MaxPool2d(2, return_indices=True), "return_indices"),
    (nn.AdaptiveMaxPool2d(2), r"layer 1 \(AdaptiveMaxPool2d\): output_size 2"),
    (nn.AdaptiveMaxPool2d(1, return_indices=True), r"layer 1 \(AdaptiveMaxPool2d\)"),
    (
        nn.Sequential(By(lambda x: x.permute(0, 1, 3, 2)), nn.Conv2d(4, 4, 1)),
        r"layer 1\.1 \(Conv2d\): takes \(N, C, H, W\) with the columns last",
    ),
    (By(lambda x: torch.roll(x, 1, -1)), "roll in 1: it has no rule"),
    (By(lambda x: x[..., 1:]), "getitem in 1"),
    (By(lambda x: x.mT), "reads the attribute mT of columns"),
    (By(lambda x: x.mean(0, keepdim=True)), "a mean over the batch"),
    (By(lambda x: x.mean(1)), "use keepdim=True"),
    (By(lambda x: x + x.permute(0, 1, 3, 2)), "add in 1: columns .* of another width or axis"),
    (Added(4, 6, 9), r"add in 1: a whole tensor \(4, 6, 9\)"),
    (Added(9), r"add in 1: a whole tensor \(9,\)"),
    (By(lambda x: torch.cat([x, -x])), "concatenates pictures along axis 0"),
    (By(lambda x: torch.cat([x, -x], -1)), "concatenates pictures along axis -1"),
    (Deciding(), "Sequential: torch.fx cannot follow its forward"),
]


@pytest.mark.parametrize(
    ("layer", "words"),
    REFUSED,
    ids=lambda part: type(part).__name__ if not isinstance(part, str) else "",
)
def test_what_cannot_be_split_is_named(layer: nn.Module, words: str) -> None:
    with pytest.raises(CannotShard, match=words):
        check(nn.Sequential(nn.Conv2d(3, 4, 1), layer, nn.ReLU()), 2, (3, 6, 9))
    check(nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU()), 2, (3, 6, 9))


@pytest.mark.parametrize("axis", [1, 2, -3])
def test_channels_and_rows_are_put_together(axis: int) -> None:
    module, x = (
        nn.Sequential(nn.Conv2d(3, 4, 1), By(lambda x: torch.cat([x, -x], axis))).double(),
        numbers((2, 3, 6, 8), torch.float64),
    )
    found = on_ranks(2, module, (3, 6, 8), lambda cnn: cnn(x))
    assert far(torch.cat(found, -1), module(x)) < 1e-10


FUNCTIONS: dict[str, nn.Module] = {
    "channels last": nn.Sequential(nn.Conv2d(3, 4, 1), ChannelsLast()),
    "means of channels": By(lambda x: x - x.mean(1, keepdim=True)),
    "means behind the columns": By(lambda x: x.permute(0, 2, 3, 1).mean(-1)),
    "fewer axes first": nn.Sequential(
        nn.Conv2d(3, 2, 1), By(lambda x: x.permute(0, 2, 3, 1).mean(-1) + x)
    ),
    "no padding of any mode": nn.Sequential(nn.Conv2d(3, 2, 3, padding_mode="circular")),
    "flat": By(lambda x: torch.flatten(x)),
    "flat rows": By(lambda x: x.flatten(1)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_on_columns_are_those_of_one_process(name: str) -> None:
    module, x = FUNCTIONS[name].double(), numbers((2, 3, 6, 9), torch.float64)
    wanted, found = module(x), on_ranks(2, module, (3, 6, 9), lambda cnn: cnn(x))
    whole = found[0] if wanted.dim() < 3 else torch.cat(found, -1)
    assert whole.shape == wanted.shape and far(whole, wanted) < 1e-10


def test_a_width_that_cannot_be_split_is_refused_with_what_would_fit() -> None:
    with pytest.raises(WidthError) as error:
        check(nature(), 4, (3, 84, 40))
    words = str(error.value)
    assert words.startswith("layer 2 (Conv2d): a picture of width 3 cannot be split over 4 ranks")
    assert words.endswith("pictures of width 40 fit on 1 rank, and 4 ranks fit a width of 60")
    check(nature(1), 1, (3, 84, 40))
    check(nature(4), 4, (3, 84, 60))
    for width, most in ((56, 3), (48, 2)):
        with pytest.raises(
            WidthError, match=rf"fit on {most} ranks, and 4 ranks fit a width of 60$"
        ):
            check(nature(4), 4, (3, 84, width))
    with pytest.raises(
        ConfigError, match="rank 0 has 3 columns of pictures of width 12: its part is 0 to 6"
    ):
        on_ranks(
            2,
            made("pictures"),
            (3, 6, 12),
            lambda cnn: cnn(numbers((1, 3, 6, 3), torch.float64), width=12),
        )


def test_another_width_is_rehearsed_when_it_comes() -> None:
    module = made("pictures")
    x = numbers((2, 3, 6, 17), torch.float64)
    found = on_ranks(2, module, (3, 6, 12), lambda cnn: cnn(x))
    assert far(torch.cat(found, -1), module(x)) < 1e-10
    first, _ = split(17, 2)
    assert found[0].shape[-1] == first[1]


def test_a_rehearsal_leaves_the_network_as_it_is() -> None:
    module = made("pooled")
    before = copy.deepcopy(module.state_dict())
    check(module, 2, (3, 40, 50))
    assert all(
        type(value) is Tensor and torch.equal(value, before[name])
        for name, value in module.state_dict().items()
    )
