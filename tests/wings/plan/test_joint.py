# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The graph of forward pass, loss and backward pass; test_step.py runs it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

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
