# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Graphs that run in an arena (puffervec/wings/plan/executor.py): the numbers are eager's, whatever
the dead bytes hold.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from puffervec.wings.plan.arena import ALIGNMENT
from puffervec.wings.plan.build import PlanError
from puffervec.wings.plan.executor import PolicyExecutor
from puffervec.wings.plan.ir import PARAMETER
from tests.wings.plan.graphs import executor, planned, random_function, results

QUICK, ALL = 20, 200


@pytest.mark.parametrize(
    "seeds",
    [range(QUICK), pytest.param(range(QUICK, ALL), marks=pytest.mark.slow)],
    ids=["quick", "all"],
)
def test_random_graphs_give_the_numbers_of_eager_over_poisoned_memory(seeds: range) -> None:
    for seed in seeds:
        function, inputs = random_function(seed)
        made = executor(function, *inputs)
        wanted = function(*inputs)
        for poisoned in (True, False):
            found = results(made, *inputs, poisoned=poisoned)
            for a, b in zip(wanted, found, strict=True):
                assert torch.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True), (
                    seed,
                    poisoned,
                    a,
                    b,
                )
        assert made.arena.bytes <= 1.15 * made.arena.bound, f"seed {seed}"


def test_poison_finds_a_block_that_is_given_up_too_soon() -> None:
    graph, arena = planned(lambda x: (x * 2).exp() + x, torch.randn(9))
    (block,) = [block for block in arena.blocks["float32"] if graph.inputs[0] in block.tensors]
    made = PolicyExecutor(graph, arena)
    x = torch.randn(9)
    assert torch.equal(results(made, x, poisoned=True)[0], (x * 2).exp() + x)
    block.last -= 1
    assert results(made, x, poisoned=True)[0].isnan().all()


def test_a_state_goes_on_from_run_to_run() -> None:
    def step(x: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return a + b, b * x

    for carried in ({"add": "a_1", "mul": "b_1"}, {"add": "b_1", "mul": "a_1"}):
        made = executor(step, torch.ones(2), torch.ones(2), torch.ones(2), carried=carried)
        x, a, b = made.inputs
        assert x is not None and a is not None and b is not None
        a.fill_(1.0), b.fill_(2.0)
        wanted = [torch.full((2,), 1.0), torch.full((2,), 2.0)]
        for _ in range(3):
            x.fill_(3.0)
            made.run()
            new = step(torch.full((2,), 3.0), *wanted)
            wanted = list(new) if carried["add"] == "a_1" else list(new)[::-1]
            assert torch.equal(a, wanted[0]) and torch.equal(b, wanted[1])


def test_parameters_are_read_where_they_stand_also_after_a_move() -> None:
    weight = nn.Parameter(torch.ones(3))
    graph, arena = planned(
        lambda w, x: w * x, weight.detach(), torch.ones(3), kinds={"w_1": PARAMETER}
    )
    made = PolicyExecutor(graph, arena, lambda: {"w_1": weight})
    assert results(made, torch.full((3,), 2.0))[0].tolist() == [2.0] * 3
    with torch.no_grad():
        weight.add_(1)
    assert results(made, torch.full((3,), 2.0))[0].tolist() == [4.0] * 3
    weight.data = torch.full((3,), 5.0)
    assert results(made, torch.full((3,), 2.0))[0].tolist() == [10.0] * 3


def test_views_of_a_parameter_that_is_a_part_of_another_tensor() -> None:
    weight = torch.arange(10.0)[4:].view(2, 3)
    graph, arena = planned(
        lambda w, x: w.view(-1)[2:5] * x, weight, torch.ones(3), kinds={"w_1": PARAMETER}
    )
    made = PolicyExecutor(graph, arena, lambda: {"w_1": weight})
    assert results(made, torch.full((3,), 2.0))[0].tolist() == [12.0, 14.0, 16.0]
    held = graph.tensors["w_1"]
    assert (held.buffer, held.offset) == ("", -1), "it has no place in the arena"


def test_buffers_are_aligned() -> None:
    made = executor(lambda x: (x.double() * 2, x > 0), torch.randn(3))
    assert all(raw.data_ptr() % ALIGNMENT == 0 for raw in made.buffers.values())


def test_a_parameter_is_replaced_by_each_run_and_not_by_binding() -> None:
    weight = torch.full((3,), 8.0)
    graph, arena = planned(
        lambda w, g: (w - g,),
        weight,
        torch.ones(3),
        kinds={"w_1": PARAMETER},
        carried={"sub": "w_1"},
    )
    made = PolicyExecutor(graph, arena, lambda: {"w_1": weight})
    assert weight.tolist() == [8.0] * 3
    for left in (7.0, 6.0):
        results(made, torch.ones(3))
        assert weight.tolist() == [left] * 3


def test_operations_without_a_rule_are_named() -> None:
    with pytest.raises(PlanError, match=r"aten\.sort\.default at sort"):
        executor(lambda x: x.sort().values, torch.randn(2))
