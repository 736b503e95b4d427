# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""How an operation runs in planned memory: the tensors it is given, and what is to be called in
each run.

Bound once, called often: `Rule.bind` is given the tensors of a node, which stay where they are, and
returns the calls. None of these may allocate. Numbers that torch would wrap into a tensor at each
call are wrapped when they are bound.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Work = Callable[[], Any]


@dataclasses.dataclass(frozen=True)
class Call:
    """A node with its tensors, which are views on the plan's memory. Attributes: out: as many as
    the operation returns.
    """

    op: Any
    out: tuple[Tensor, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    workspace: tuple[Tensor, ...] = ()


@dataclasses.dataclass(frozen=True)
class Rule:
    """How an operation runs.

    Attributes:
        bind: returns the work of a call, in order.
        in_place: positions of arguments whose memory the output may take: the work must be right
        where both are the same.
        workspace: from the arguments (tensors without memory, on the device `meta`), tensors of
            that kind that the work needs.
    """

    bind: Callable[[Call], Sequence[Work]]
    in_place: tuple[int, ...] = ()
    workspace: Callable[..., Sequence[Tensor]] | None = None


# ---- out= variants -------------------------------------------------------------------------------


@functools.cache
def automatic(op: Any, device: str = "cpu") -> Rule | None:
    """Return a rule by the operation's own `out=` variant, where torch has a kernel for that; else
    None.
    """
    if not isinstance(op, torch._ops.OpOverload):
        return None
    variant = out_variant(op, device)
    if variant is None:
        return None
    pointwise = torch.Tag.pointwise in op.tags
    tensors = [
        i for i, argument in enumerate(op._schema.arguments) if str(argument.type) == "Tensor"
    ]
    if pointwise and len(tensors) == 2:
        return Rule(functools.partial(_in_one_dtype, variant), tuple(tensors), _casts)
    return Rule(functools.partial(through, variant), tuple(tensors) if pointwise else ())


def _casts(x: Any, y: Any, *args: Any, **kwargs: Any) -> list[Tensor]:
    """Room for an operand that torch would cast in each call, in memory of its own."""
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        return []
    wanted = torch.result_type(x, y)
    return [
        torch.empty(part.shape, dtype=wanted, device="meta")
        for part in (x, y)
        if part.dtype != wanted
    ]


def _in_one_dtype(variant: Any, call: Call) -> Sequence[Work]:
    """An operation of two tensors, whose dtypes may differ."""
    work: list[Work] = []
    args, rooms = list(call.args), iter(call.workspace)
    if call.workspace:
        wanted = torch.result_type(*args[:2])
        for index, part in enumerate(args[:2]):
            if part.dtype != wanted:
                args[index] = next(rooms)
                work += copying(args[index], part)
    return [*work, *through(variant, dataclasses.replace(call, args=tuple(args)))]


def out_variant(op: Any, device: str = "cpu") -> Any:
    """Return the overload that writes what `op` returns into given tensors, where torch has a
    kernel for it; else None.

    Args: device: its type, cpu or cuda.
    """
    wanted = [(argument.name, str(argument.type)) for argument in op._schema.arguments]
    packet = op.overloadpacket
    for name in packet.overloads():
        found = getattr(packet, name)
        given = [
            (argument.name, str(argument.type))
            for argument in found._schema.arguments
            if not argument.is_out
        ]
        writes = [argument for argument in found._schema.arguments if argument.is_out]
        full = f"{found._schema.name}.{found._schema.overload_name}"
        if given == wanted and len(writes) == len(op._schema.returns) and _has_kernel(full, device):
            return found
    return None


def _has_kernel(name: str, device: str) -> bool:
    """True where torch has not made the variant itself."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, device.upper()))


def through(variant: Any, call: Call) -> Sequence[Work]:
    """Call a variant with `out=`; through torch's own function of that name where there is one,
    which is called faster.

    Raises: NotImplementedError: the variant resizes its outputs.
    """
    args, kwargs = _wrapped(variant, call), call.kwargs
    function = getattr(torch, variant.overloadpacket.__name__, None)
    if function is not None and len(call.out) == 1:
        quick = functools.partial(function, *args, **kwargs)
        try:
            _try_out(quick, {"out": call.out[0]})
        except (TypeError, RuntimeError):
            pass
        else:
            return [functools.partial(quick, out=call.out[0])]
    names = [argument.name for argument in variant._schema.arguments if argument.is_out]
    work, out = functools.partial(variant, *args, **kwargs), dict(zip(names, call.out, strict=True))
    _try_out(work, out)
    return [functools.partial(work, **out)]


def _try_out(work: Callable[..., Any], out: dict[str, Tensor]) -> None:
    """Run the work with outputs like these whose memory holds nothing else.

    Raises: NotImplementedError: it resizes them, and so would write over other tensors of the
        arena.
    """
    alone = {
        name: torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
        for name, x in out.items()
    }
    sizes = [x.untyped_storage().nbytes() for x in alone.values()]
    work(**alone)
    if sizes != [x.untyped_storage().nbytes() for x in alone.values()]:
        raise NotImplementedError(
            "its out= variant resizes the result: give it a rule with plan.rule"
        )


def _wrapped(variant: Any, call: Call) -> list[Any]:
    """Arguments, with tensors for numbers that stand in the place of tensors."""
    types = [str(argument.type) for argument in variant._schema.arguments]
    return [
        constant(value, call)
        if kind == "Tensor" and isinstance(value, (bool, int, float))
        else value
        for value, kind in zip(call.args, types, strict=False)
    ]


def constant(value: float, call: Call) -> Tensor:
    """Return a number as a tensor that a kernel takes as it is: of the dtype in which the call
    computes.
    """
    like = next((x for x in call.args if isinstance(x, Tensor) and x.dim()), call.out[0])
    return torch.tensor(value, dtype=torch.result_type(like, value))


def copying(target: Tensor, source: Tensor) -> Sequence[Work]:
    """Return the work of a copy, whatever the dtypes. (Of a transposed matrix torch would copy
    blocks by way of a buffer.)
    """
    target, source = target.unsqueeze(0), source.expand(target.shape).unsqueeze(0)
    return [functools.partial(target.copy_, source)]
