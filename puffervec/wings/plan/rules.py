# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The rules by which operations run in planned memory: one table, which user code extends.

    @plan.rule(torch.ops.mine.swish.default)
    def swish(out, x):
        torch.mul(x, torch.sigmoid(x), out=out)

kernels.py has the rules of this package. Any other operation runs through its `out=` variant where
torch has a kernel for it. (Where it has none, torch generates variants that compute elsewhere and
copy, so they are not used.) Views need no rule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from puffervec.wings.plan import gradients  # noqa: F401  (its rules)
from puffervec.wings.plan.calls import Call, Rule, Work, out_rule
from puffervec.wings.plan.kernels import KERNELS

_RULES: dict[Any, Rule] = {}


def rule(
    *ops: Any,
    in_place: tuple[int, ...] = (),
    workspace: Callable[..., Sequence[Tensor]] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the rule of operations; each run calls `function(out, *arguments)`.

    out is the tensor to write, or a tuple of them where the operation returns several; `workspace=`
    tensors come as the keyword `workspace`. The function must write all of `out` and should not
    allocate.

    Args:
        ops: such as `torch.ops.aten.relu.default`, or that of a `custom_op`, or the result of
            `custom_op`.
        in_place, workspace: see `Rule`.
    """

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        def bind(call: Call) -> Sequence[Work]:
            extra = {"workspace": call.workspace} if workspace is not None else {}
            out = call.out if len(call.out) != 1 else call.out[0]
            return [functools.partial(function, out, *call.args, **call.kwargs, **extra)]

        for op in ops:
            _RULES[overload(op)] = Rule(bind, in_place, workspace)
        return function

    return add


def overload(op: Any) -> Any:
    """Return the overload of an operation, as it occurs in graphs. Raises: TypeError."""
    op = getattr(op, "_opoverload", op)  # Of a custom_op.
    if isinstance(op, torch._ops.OpOverloadPacket) and len(names := op.overloads()) == 1:  # type: ignore[no-untyped-call]
        op = getattr(op, names[0])
    if not isinstance(op, torch._ops.OpOverload):
        raise TypeError(
            f"plan.rule: {op!r} is not an operation such as torch.ops.aten.relu.default"
        )
    return op


def find(op: Any, device: torch.device) -> Rule | None:
    """Return the rule of an operation on a device; None where it has none."""
    kind = "cuda" if device.type == "cuda" else "cpu"
    return _RULES.get(op) or KERNELS.get((op, kind)) or out_rule(op, kind)


def is_view(op: Any) -> bool:
    """Return whether an operation's result is a view of its first argument."""
    return op is torch.ops.aten._unsafe_view.default or bool(getattr(op, "is_view", False))
