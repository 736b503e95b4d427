# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What a plan is given must be what it was made for (puffervec/wings/plan/arguments.py)."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from puffervec.wings import plan
from puffervec.wings.plan.arguments import Arguments

ONE, TWO = torch.ones(2), torch.full((2,), 2.0)


class Weighted(nn.Module):
    """a + 2 b, times a number."""

    def forward(self, parts: dict[str, Tensor], factor: float) -> Tensor:
        return (parts["a"] + 2 * parts["b"]) * factor


def weighted(mode: str = "arena") -> plan.PolicyPlan:
    return plan.compile_policy(Weighted(), ({"a": torch.zeros(2), "b": torch.zeros(2)}, 2.0), mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["arena", "eager"])
def test_entries_of_a_dict_are_matched_by_key(mode: str) -> None:
    made = weighted(mode)
    assert made({"a": ONE, "b": TWO}, 2.0).tolist() == [10.0, 10.0]
    assert made({"b": TWO, "a": ONE}, 2.0).tolist() == [10.0, 10.0]


BAD: dict[str, tuple[tuple[Any, ...], str]] = {
    "another key": (
        ({"a": ONE, "c": TWO}, 2.0),
        r"args\[0\]\['b'\] missing and args\[0\]\['c'\] unknown: this plan takes args",
    ),
    "a key too many": (({"a": ONE, "b": TWO, "c": TWO}, 2.0), r"args\[0\]\['c'\] unknown"),
    "an argument too few": (({"a": ONE, "b": TWO},), r"args\[1\] missing"),
    "one row": (
        ({"a": ONE, "b": TWO[:1]}, 2.0),
        r"args\[0\]\['b'\] is float32 \(1,\), this plan was made for float32 \(2,\)",
    ),
    "another dtype": (
        ({"a": ONE.double(), "b": TWO}, 2.0),
        r"args\[0\]\['a'\] is float64 \(2,\), .* made for float32 \(2,\)",
    ),
    "no tensor": (
        ({"a": 1.0, "b": TWO}, 2.0),
        r"args\[0\]\['a'\] is 1.0, this plan was made for float32 \(2,\)",
    ),
    "another number": (
        ({"a": ONE, "b": TWO}, 3.0),
        r"args\[1\] is 3.0, this plan was made for 2.0",
    ),
    "a whole number": (({"a": ONE, "b": TWO}, 2), r"args\[1\] is 2, this plan was made for 2.0"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_differs_is_named_and_nothing_is_written(case: str) -> None:
    given, words = BAD[case]
    made = weighted("eager")
    made({"a": ONE, "b": TWO}, 2.0)
    with pytest.raises(plan.PlanError, match=words):
        made(*given)
    assert made.inputs[0]["a"].tolist() == [1.0, 1.0] and made.inputs[0]["b"].tolist() == [2.0, 2.0]


def test_floats_are_not_cut_to_whole_numbers() -> None:
    made = plan.compile_policy(nn.Identity(), torch.zeros(2, dtype=torch.int64), "eager")
    with pytest.raises(
        plan.PlanError, match=r"args\[0\] is float32 \(2,\), this plan was made for int64 \(2,\)"
    ):
        made(torch.tensor([1.7, 2.9]))


@pytest.mark.slow
def test_a_step_learns_from_the_entries_by_key() -> None:
    policy = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(policy.parameters(), 0.0)

    def loss(policy: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        found: Tensor = (policy(batch["x"]) - batch["t"]).square().mean()
        return found

    x, t = torch.linspace(0, 1, 4).view(4, 1), torch.linspace(5, 9, 4).view(4, 1)
    step = plan.compile_step(policy, loss, optimizer, {"x": x, "t": t})
    wanted = float(loss(policy, {"x": x, "t": t}).detach())
    assert float(step({"x": x, "t": t})) == float(step({"t": t, "x": x})) == pytest.approx(wanted)
    with pytest.raises(
        plan.PlanError, match=r"batch\['y'\] unknown: this plan takes batch\['x'\], batch\['t'\]"
    ):
        step({"x": x, "t": t, "y": t})
    with pytest.raises(plan.PlanError, match=r"batch\['x'\] is float32 \(1, 1\)"):
        step({"x": x[:1], "t": t})


def test_gradients_do_not_enter_a_plan() -> None:
    made = plan.compile_policy(nn.Linear(2, 2), ONE.view(1, 2))
    given = torch.ones(1, 2, requires_grad=True)
    assert not made(given).requires_grad and torch.equal(made(given), made(given.detach()))


@dataclasses.dataclass
class Rows:
    x: Tensor
    y: Tensor


class Pair:
    """A container whose parts have no names."""

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y


def test_registered_classes_and_named_tuples() -> None:
    pytree.register_dataclass(Rows)
    pytree.register_pytree_node(
        Pair, lambda pair: ([pair.x, pair.y], None), lambda parts, _: Pair(*parts)
    )
    Point = collections.namedtuple("Point", "x y")  # noqa: PYI024
    for make in (Rows, Pair, Point):
        wanted = Arguments("batch", make(ONE, TWO))
        assert [float(x[0]) for x in wanted.leaves(make(TWO, ONE))] == [2.0, 1.0]
        with pytest.raises(plan.PlanError, match=r"batch.y is|leaf 1 of batch is|batch\[1\] is"):
            wanted.leaves(make(ONE, TWO[:1]))
