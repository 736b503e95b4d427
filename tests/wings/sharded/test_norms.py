# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from puffervec.wings.sharded.columns import split
from puffervec.wings.sharded.layers import Columns
from puffervec.wings.sharded.norms import batch_norm, group_norm
from puffervec.wings.sharded.team import Team
from tests.wings.sharded.split import TOLERANCE, differences, numbers, teams

AFFINE = [(4,), (4,)]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_group_norm_on_ranks_is_that_of_one_process(size: int, dtype: torch.dtype) -> None:
    for groups, width in ((1, 13), (2, 16), (4, 5)):

        def ours(x: Columns, team: Team, w: Tensor, b: Tensor, groups: int = groups) -> Columns:
            return x.of(group_norm(x.tensor, team, groups, w, b))

        def one(x: Tensor, w: Tensor, b: Tensor, groups: int = groups) -> Tensor:
            return F.group_norm(x, groups, w, b)

        assert differences(one, ours, width, AFFINE, size, dtype) < TOLERANCE[dtype]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_batch_norm_on_ranks_is_that_of_one_process(size: int) -> None:
    def ours(x: Columns, team: Team, w: Tensor, b: Tensor) -> Columns:
        return x.of(batch_norm(x.tensor, team, nn.BatchNorm2d(4).double(), w, b))

    assert (
        differences(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), ours, 13, AFFINE, size)
        < 1e-10
    )


@pytest.mark.parametrize("momentum", [0.1, None])
def test_running_statistics_are_those_of_one_process(momentum: float | None) -> None:
    def layer() -> nn.BatchNorm2d:
        return nn.BatchNorm2d(4, momentum=momentum).double()

    one = layer()
    pictures = [numbers((2, 4, 7, 13), torch.float64, seed) for seed in range(3)]
    for x in pictures:
        one(x)

    def work(team: Team) -> tuple[nn.BatchNorm2d, Tensor]:
        own, part = layer(), slice(*split(13, team.size)[team.rank])
        for x in pictures:
            batch_norm(x[..., part], team, own, own.weight, own.bias)
        own.eval()
        return own, batch_norm(pictures[0][..., part], team, own, own.weight, own.bias)

    found = teams(3, work)
    for own, _ in found:
        for name, value in own.state_dict().items():
            torch.testing.assert_close(value, one.state_dict()[name], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(
        torch.cat([y for _, y in found], -1), one.eval()(pictures[0]), rtol=1e-10, atol=1e-10
    )


def test_numbers_far_from_zero_keep_their_variance() -> None:
    """Sums of squares would lose it: 1e4 squared has no digits left for it in float32."""

    def ours(x: Columns, team: Team) -> Columns:
        return x.of(group_norm(x.tensor + 1e4, team, 2, None, None))

    assert differences(lambda x: F.group_norm(x + 1e4, 2), ours, 13, (), 3, torch.float32) < 1e-3
