# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The graph of forward pass, loss and backward pass; test_step.py runs it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from puffervec.wings.plan.build import PlanError
from puffervec.wings.plan.joint import trace_joint

X = torch.ones(3, 4)


def loss(policy: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    error = (policy(batch["x"]) ** 2).mean()
    return error, {"error": error}


def test_what_comes_in_and_goes_out() -> None:
    policy = nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.5))
    joint = trace_joint(policy, loss, {"x": X})
    assert sorted(joint.sources.values()) == ["0.bias", "0.weight"] and set(joint.gradients) == {
        "0.bias",
        "0.weight",
    }
    assert len(joint.graph.outputs) == 2 + 2 and joint.loss_spec.num_leaves == 2
    assert [noise.normal for noise in joint.noise] == [False]
    assert len([name for name in joint.graph.inputs if name]) == 2, (
        "the batch and the noise; weights stand elsewhere"
    )


@pytest.mark.parametrize("results", [(), 1.0, X], ids=["nothing", "a float", "12 numbers"])
def test_a_loss_must_return_one_number(results: Any) -> None:
    with pytest.raises(PlanError, match="must return a tensor with one number"):
        trace_joint(nn.Linear(4, 2), lambda policy, batch: results, {"x": X})


def test_saved_is_what_is_written_before_the_loss_and_read_after_it() -> None:
    policy = nn.Sequential(nn.Linear(4, 2), nn.Tanh(), nn.Linear(2, 2), nn.Tanh())
    graph = trace_joint(policy, loss, {"x": X}).graph
    value = graph.output_names()[0]
    (end,) = (step for step, node in enumerate(graph.nodes, 1) if value in node.outputs)
    written = {name for node in graph.nodes[:end] for name in node.outputs}
    read = {name for node in graph.nodes[end:] if not node.view for name in node.inputs}
    read |= set(graph.output_names())
    saved = {name for name, tensor in graph.tensors.items() if tensor.kind == "saved"}
    assert saved == {
        name
        for name in written
        if graph.root(name).name in read and graph.tensors[name].kind in ("saved", "temporary")
    }
    assert saved and read - saved


def test_operations_with_a_rule_stay_whole() -> None:
    graph = trace_joint(
        nn.Linear(4, 2), lambda policy, batch: F.mse_loss(policy(batch), torch.zeros(3, 2)), X
    ).graph
    assert "aten.mse_loss.default" in [str(node.op) for node in graph.nodes]


def test_nodes_say_who_asked_for_them() -> None:
    places = [node.place for node in trace_joint(nn.Linear(4, 2), loss, {"x": X}).graph.nodes]
    assert (
        any(f"{__file__}:" in place and "mean()" in place for place in places)
        and "backward pass" in places
    )


def test_a_frozen_parameter_stays_frozen_and_gets_no_gradient() -> None:
    policy = nn.Linear(4, 2)
    policy.bias.requires_grad_(False)
    assert trace_joint(policy, loss, {"x": X}).gradients == ("weight",)
    assert not policy.bias.requires_grad and policy.weight.requires_grad
