# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""How each operation runs in planned memory: one table, which user code extends.

    @plan.rule(torch.ops.mine.swish.default)
    def swish(out, x):
        torch.mul(x, torch.sigmoid(x), out=out)

kernels.py has the rules of this package. An operation that is in neither runs through its own
`out=` variant where torch has one with a kernel of its own. (Where it has none, torch makes such
variants itself: they compute elsewhere and copy, so they are not used.) Views need no rule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from puffervec.wings.plan import gradients  # noqa: F401  (its rules)
from puffervec.wings.plan.calls import Call, Rule, Work, automatic
from puffervec.wings.plan.kernels import KERNELS

_RULES: dict[Any, Rule] = {}


def rule(
    *ops: Any,
    in_place: tuple[int, ...] = (),
    workspace: Callable[..., Sequence[Tensor]] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give operations a rule: the function below is called as `function(out, *arguments)` in each
        run.

    out is the tensor to write, a tuple of them where the operation returns several; `workspace=`
    tensors come as the keyword `workspace`. The function must write all of `out` and should
    allocate nothing.
    Args: ops: such as `torch.ops.aten.relu.default`, or that of a `custom_op`, or what `custom_op`
        returned; in_place,
        workspace: see `Rule`.
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
    """Return an operation as it stands in graphs. Raises: TypeError."""
    op = getattr(op, "_opoverload", op)  # of a custom_op
    if isinstance(op, torch._ops.OpOverloadPacket) and len(names := op.overloads()) == 1:  # type: ignore[no-untyped-call]
        op = getattr(op, names[0])
    if not isinstance(op, torch._ops.OpOverload):
        raise TypeError(
            f"plan.rule: {op!r} is not an operation such as torch.ops.aten.relu.default"
        )
    return op


def find(op: Any, device: torch.device) -> Rule | None:
    """Return the rule of an operation on a device; None where there is none."""
    kind = "cuda" if device.type == "cuda" else "cpu"
    return _RULES.get(op) or KERNELS.get((op, kind)) or automatic(op, kind)


def is_view(op: Any) -> bool:
    """True for operations whose result shows the memory of their first argument."""
    return op is torch.ops.aten._unsafe_view.default or bool(getattr(op, "is_view", False))
