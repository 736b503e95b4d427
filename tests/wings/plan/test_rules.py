# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Rules of user code (puffervec/wings/plan/rules.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, library, nn

from puffervec.wings.plan import rules
from puffervec.wings.plan.arena import place
from puffervec.wings.plan.build import PlanError
from puffervec.wings.plan.executor import PolicyExecutor
from puffervec.wings.plan.tracing import TracedModule, trace


@library.custom_op("plan_tests::squash", mutates_args=())
def squash(x: Tensor) -> Tensor:
    """A new activation."""
    return x / (1 + x.abs())


@squash.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = squash(self.layer(x))
        return out


@pytest.fixture
def own() -> Iterator[None]:
    """Forget the test's rules."""
    before = dict(rules._RULES)
    yield
    rules._RULES.clear()
    rules._RULES.update(before)


def planned(made: TracedModule) -> PolicyExecutor:
    return PolicyExecutor(made.graph, place(made.graph), made.parameters)


@pytest.mark.slow
def test_user_code_gives_a_new_activation_a_rule(own: None) -> None:
    net, x = Net(), torch.randn(2, 3)
    with pytest.raises(
        PlanError,
        match=r"plan_tests\.squash\.default at squash .*test_rules.py:\d+: out: Tensor = squash",
    ):
        planned(trace(net, (x,)))

    @rules.rule(squash)
    def into(out: Tensor, x: Tensor) -> None:
        torch.abs(x, out=out)
        out.add_(1)
        torch.div(x, out, out=out)

    made = planned(trace(net, (x,)))
    made.tensors["x"].copy_(x)
    made.run_poisoned()
    assert torch.equal(made.outputs[0], net(x))
    assert made.tensors["squash"].data_ptr() != made.tensors["addmm"].data_ptr()


@pytest.mark.slow
def test_a_rule_may_work_in_place_and_with_workspace(own: None) -> None:
    given: list[int] = []

    @rules.rule(
        torch.ops.plan_tests.squash.default,
        in_place=(0,),
        workspace=lambda x: [torch.empty_like(x)],
    )
    def into(out: Tensor, x: Tensor, workspace: tuple[Tensor, ...]) -> None:
        given.append(workspace[0].numel())
        torch.abs(x, out=workspace[0]).add_(1)
        torch.div(x, workspace[0], out=out)

    net, x = Net(), torch.randn(2, 3)
    traced = trace(net, (x,))
    made = planned(traced)
    made.tensors["x"].copy_(x)
    made.run_poisoned()
    assert torch.equal(made.outputs[0], net(x)) and given[-1] == 8
    assert made.tensors["squash"].data_ptr() == made.tensors["addmm"].data_ptr()
    assert traced.graph.nodes[-1].workspace_bytes == 32


def test_what_is_no_operation_is_refused() -> None:
    with pytest.raises(TypeError, match="is not an operation such as torch.ops.aten.relu.default"):
        rules.rule(torch.relu)(lambda out, x: None)


def test_an_operation_with_one_overload_may_be_given_without_it() -> None:
    assert rules.overload(torch.ops.aten.is_same_size) is torch.ops.aten.is_same_size.default
