# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""From graphs of torch to the representation (puffervec/wings/plan/build.py)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, fx, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

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
    assert [node.workspace_bytes for node in graph.nodes] == [0, 0]


def test_other_writes_are_refused_with_their_place() -> None:
    def function(x: Tensor) -> Tensor:
        return (x + 1).mul_(2)

    with pytest.raises(PlanError, match=r"aten\.mul_\.Tensor writes to its inputs"):
        traced(function, torch.randn(2))
    with pytest.raises(PlanError, match=r"aten\.copy_\.default writes to its inputs"):
        traced(lambda x: (x + 1).copy_(x), torch.randn(2))


@pytest.mark.parametrize("value", [3.0, []], ids=["a number", "nothing"])
def test_operations_that_return_no_tensors_are_refused(value: object) -> None:
    graph = fx.Graph()
    given = graph.placeholder("x")
    odd = graph.call_function(torch.ops.aten.sum.default, (given,))
    given.meta["val"], odd.meta["val"] = torch.zeros(2), value
    graph.output((odd,))
    with pytest.raises(PlanError, match="does not return tensors"):
        from_graph(fx.GraphModule(nn.Module(), graph))


def test_layouts_without_gaps_are_kept_and_others_are_put_in_order() -> None:
    def strides(x: Tensor) -> list[tuple[int, ...]]:
        graph = traced(lambda x: x + 1, x)
        return [tensor.stride for tensor in graph.tensors.values()]

    assert strides(torch.randn(3, 2).t()) == [(1, 2)] * 2
    assert strides(torch.randn(3, 6)[:, ::2])[0] == (3, 1)
    assert strides(torch.randn(3, 1).expand(3, 4))[0] == (4, 1)


def test_an_input_that_is_an_output_stays_an_input() -> None:
    graph = traced(lambda x: (x, x * 2), torch.randn(2))
    given, doubled = (graph.tensors[name] for name in graph.output_names())
    assert (given.kind, given.first, doubled.kind) == ("input", 0, "output")


def test_workspace_is_needed_at_the_step_of_its_node_alone() -> None:
    graph = traced(lambda x: F.layer_norm(x.t(), (5,)) + 1, torch.randn(5, 6))
    ((step, node),) = [(s, n) for s, n in enumerate(graph.nodes, start=1) if n.workspace]
    (space,) = (graph.tensors[name] for name in node.workspace)
    assert (space.first, space.last) == (step, step) and node.workspace_bytes == 5 * 6 * 4


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
    graph = trace(Odd(), (torch.randn(2, 2),)).graph
    assert any(node.place.startswith("inner.0, ") for node in graph.nodes)
    (node,) = graph.unplanned
    assert str(node.op) == "aten.sort.default"
    assert "test_build.py" in node.place and "self.inner(x).sort().values" in node.place
