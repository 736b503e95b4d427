# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/device_half.py beside what tests/bench/test_loops.py shows of it on a CPU: on a GPU, and what it asks of CUDA."""

from __future__ import annotations

import pytest
import torch

from bench import device_half, loops
from bench.loops import Loop, Ways
from puffervec.train import TrainConfig
from tests.bench.test_loops import SMALL
from tests.train.conftest import torch_state  # noqa: F401 (autouse)

ALL = Ways(storage=True, quiet=True, own_distributions=True, pinned=True, one_copy=True, event=True, graph=True)


def test_rows_cross_at_once_or_one_by_one() -> None:
    config = TrainConfig.of("probe", **SMALL)
    for one_copy in (False, True):
        loop = Loop(config, Ways(storage=True, own_distributions=True, quiet=True, pinned=True, one_copy=one_copy))
        try:
            (half,) = loop.turns
            apart = half.staging.data_ptr() != half.block.data_ptr()
            assert apart == one_copy
            loop.collect()
            assert half.rows.actions.equal(loop.store["actions"][-1]) and int(half.step) == SMALL["train"]["horizon"]
        finally:
            loop.close()


@pytest.mark.gpu
@pytest.mark.parametrize("ways", [way for way in loops.ladder(torch.device("cuda")).values() if way.pinned])
def test_a_graph_is_captured_where_it_is_wanted(ways: Ways) -> None:
    tables = {**SMALL, "train": {**SMALL["train"], "device": "cuda", "horizon": 8}}
    loop = Loop(TrainConfig.of("probe", **tables), ways)
    try:
        for _ in range(3):
            loop.collect()
            assert loop.update() == 4 * 6
        assert all((half.graph is not None) == ways.graph for half in loop.turns)
        assert device_half.WARM_UPS < 8
    finally:
        loop.close()
