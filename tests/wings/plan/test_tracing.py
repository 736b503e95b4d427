# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Modules as graphs (puffervec/wings/plan/tracing.py)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from puffervec.wings.plan.arena import place
from puffervec.wings.plan.build import PlanError
from puffervec.wings.plan.executor import PolicyExecutor
from puffervec.wings.plan.tracing import DECOMPOSITIONS, trace


class Counter(nn.Module):
    """Counts its calls in a buffer, and adds a state up."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.scale = nn.Parameter(torch.full((2,), 3.0))

    def forward(
        self, x: Tensor, state: tuple[Tensor, ...], extra: None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        self.calls.add_(1)
        new = state[0] + x * self.scale
        return new * 2 + self.calls, (new,)


def test_parameters_are_the_modules_and_states_and_buffers_are_replaced() -> None:
    net = Counter()
    traced = trace(net, (torch.ones(2), (torch.zeros(2),), None), carry=(1, 1))
    graph = traced.graph
    assert {traced.sources[name] for name in graph.parameters} == {"calls", "scale"}
    assert graph.inputs == ["x", "state_0", None] and len(graph.outputs) == 2
    assert {graph.tensors[target].kind for target in graph.carried.values()} == {
        "state",
        "parameter",
    }
    made = PolicyExecutor(graph, place(graph), traced.parameters)
    for calls in (1.0, 2.0, 3.0):
        made.tensors["x"].fill_(1.0)
        made.run()
        assert float(net.calls) == calls
        assert (
            made.outputs[0].tolist() == [6 * calls + calls] * 2
            and made.tensors["state_0"].tolist() == [3 * calls] * 2
        )


class Two(nn.Module):
    def forward(self, x: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        return (x + 1, x * 2), x


@pytest.mark.slow
def test_a_state_must_be_replaced_by_as_many_tensors() -> None:
    with pytest.raises(
        PlanError, match="output 0 has 2 tensors, argument 0, which it is to replace, has 1"
    ):
        trace(Two(), (torch.ones(2),), carry=(0, 0))
    with pytest.raises(PlanError, match="output 2 does not exist"):
        trace(Two(), (torch.ones(2),), carry=(0, 2))


class Largest(nn.Module):
    """Its state is one of two outputs of an operation."""

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        new = (x + state).max(0).values
        return new * 2, new


@pytest.mark.slow
def test_a_state_may_be_one_of_several_outputs_of_an_operation() -> None:
    traced = trace(Largest(), (torch.ones(3, 2), torch.zeros(2)), carry=(1, 1))
    made = PolicyExecutor(traced.graph, place(traced.graph))
    for count in (1.0, 2.0, 3.0):
        made.tensors["x"].fill_(1.0)
        made.run()
        assert (
            made.outputs[0].tolist() == [2 * count] * 2
            and made.tensors["state"].tolist() == [count] * 2
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "words"),
    [(nn.Dropout(0.5), "native_dropout"), (nn.BatchNorm1d(2), "batch_norm")],
    ids=["dropout", "batch norm"],
)
def test_layers_in_train_mode_say_what_to_do(layer: nn.Module, words: str) -> None:
    net = nn.Sequential(nn.Linear(2, 2), layer)
    with pytest.raises(
        PlanError,
        match=rf"^Sequential is in train mode, in which .*{words}[^\n]* has no plan: "
        r"call .eval\(\)",
    ):
        trace(net, (torch.ones(3, 2),))
    assert trace(net.eval(), (torch.ones(3, 2),)).graph.unplanned == []


class Branch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


def test_what_torch_cannot_export_is_said_in_one_line() -> None:
    with pytest.raises(PlanError, match="^torch.export cannot make a graph of Branch: [^\n]+$"):
        trace(Branch(), (torch.ones(2),))


@pytest.mark.parametrize("biased", [False, True])
def test_an_lstm_cell_of_cuda_is_put_together_from_smaller_operations(biased: bool) -> None:
    """With the numbers of torch's own cell."""
    cell = nn.LSTMCell(3, 5, bias=biased)
    x, state = torch.randn(4, 3), (torch.randn(4, 5), torch.randn(4, 5))
    gates = x @ cell.weight_ih.T, state[0] @ cell.weight_hh.T
    biases = (cell.bias_ih, cell.bias_hh) if biased else ()
    fused = DECOMPOSITIONS[torch.ops.aten._thnn_fused_lstm_cell.default]
    output, after, activated = fused(*gates, state[1], *biases)
    for found, wanted in zip((output, after), cell(x, state), strict=True):
        torch.testing.assert_close(found, wanted)
    assert activated.shape == (4, 20)
