# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""From graphs of torch to the representation (puffervec/wings/plan/build.py)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from puffervec.wings.plan.build import PlanError, from_graph
from puffervec.wings.plan.tracing import trace
from tests.wings.plan.graphs import traced


def test_every_operation_has_its_inputs_outputs_and_attributes() -> None:
    graph = traced(
        lambda x, y: torch.addmm(x[0], x, y, beta=2).split(2, dim=1),
        torch.randn(3, 4),
        torch.randn(4, 4),
    )
    select, addmm, split = graph.nodes
    assert (select.view, addmm.view, split.view) == (True, False, True)
    assert addmm.inputs == (select.outputs[0], *graph.inputs) and addmm.attrs == {"beta": 2}
    assert len(split.outputs) == 2 and graph.tensors[split.outputs[1]].start == 8
    assert graph.output_names() == list(split.outputs)


def test_what_nobody_needs_is_left_out() -> None:
    def function(x: Tensor) -> Tensor:
        x.exp().sum()
        return x + 1

    assert [str(node.op) for node in traced(function, torch.randn(2)).nodes] == ["aten.add.Tensor"]


def test_a_copy_into_an_input_says_what_replaces_it() -> None:
    def step(w: Tensor, grad: Tensor) -> Tensor:
        new = w - grad
        w.copy_(new)
        return new.sum()

    graph = traced(step, torch.randn(3), torch.randn(3))
    assert (
        graph.carried == {"sub": graph.inputs[0]}
        and graph.tensors[str(graph.inputs[0])].kind == "state"
    )


def test_states_that_change_places_are_copied_first() -> None:
    graph = traced(
        lambda a, b: (b, a), torch.randn(3), torch.randn(3), carried={"b_1": "a_1", "a_1": "b_1"}
    )
    assert sorted(graph.carried.values()) == ["a_1", "b_1"]
    assert all(graph.root(name).name not in ("a_1", "b_1") for name in graph.carried)


def test_other_writes_are_refused_with_their_place() -> None:
    def function(x: Tensor) -> Tensor:
        return (x + 1).mul_(2)

    with pytest.raises(PlanError, match=r"aten\.mul_\.Tensor writes to its inputs"):
        traced(function, torch.randn(2))


def test_sizes_that_are_not_fixed_are_refused() -> None:
    module = make_fx(lambda x: x + 1, tracing_mode="symbolic")(torch.randn(3, 2))
    with pytest.raises(PlanError, match="its shape .* is not fixed"):
        from_graph(module)


class Odd(nn.Module):
    """Has an operation that no rule knows."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 2), nn.LogSigmoid())

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(x).sort().values
        return out


def test_an_operation_without_a_rule_is_named_with_its_place() -> None:
    (node,) = trace(Odd(), (torch.randn(2, 2),)).graph.unplanned
    assert str(node.op) == "aten.sort.default"
    assert "test_build.py" in node.place and "self.inner(x).sort().values" in node.place
