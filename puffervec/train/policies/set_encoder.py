# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The set encoder as a torch operation: two layers shared by all objects, then the maximum over them. Path stop 7.

On a CPU a fused C kernel does it (csrc/set_encoder.h: 15 to 20 times faster than the same in torch operations, forward and
backward); elsewhere, and for other widths than the kernel's, the plain torch form below, which is also what tests compare with
and what an export holds. `torch.compile` sees the kernel as one operation, `puffervec::encode_set`, that it does not look into.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, library

from puffervec._ffi import ffi, lib

HIDDEN, WIDTH = int(lib.PV_SET_HIDDEN), int(lib.PV_SET_WIDTH)
MOST_OBJECTS, MOST_FEATURES = int(lib.PV_SET_MOST_OBJECTS), int(lib.PV_SET_MOST_FEATURES)
_DTYPES = (torch.float32, torch.bfloat16)


def encode_set(objects: Tensor, first: Tensor, second: Tensor, factor: float = 1.0) -> Tensor:
    """Encode the objects of each row and take the maximum over them.

    Args:
        objects: (..., n, k) of any data type; an all-zero object is an empty slot. first: (hidden, k + 1), the last column
            for the constant 1. second: (width, hidden). factor: what the objects' numbers are multiplied with.
    Returns:
        (..., width), at least 0; a row without objects gives zeros. float32 from the fused kernel.
    """
    if objects.dtype not in _DTYPES:  # What the kernel, and a matrix product, would not take.
        objects = objects.to(first.dtype)
    if factor != 1.0:
        objects = objects * factor
    if _fits_kernel(objects, first, second):
        if torch.compiler.is_compiling():
            out: Tensor = _encode_op(objects, first, second)[0]
            return out
        return _Fused.apply(objects, first, second)  # type: ignore[no-any-return, no-untyped-call]
    return encode_set_plain(objects, first, second)


def encode_set_plain(objects: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """The same in plain torch operations, on any device and under autocast."""
    filled = (objects != 0).any(-1, keepdim=True).to(objects.dtype)
    with_constant = torch.cat([objects, filled], dim=-1).to(first.dtype)
    hidden = torch.relu_(torch.nn.functional.linear(with_constant, first))
    return torch.relu(max_over_objects(torch.nn.functional.linear(hidden, second)))


class _MaxPool(torch.autograd.Function):
    """amax over dim -2 with a cheap backward pass: two passes over the input in its own dtype, where autograd's own takes six
    and widens bf16; a third of the time of an update on a CPU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        pooled = x.amax(-2)
        ctx.save_for_backward(x, pooled)
        return pooled

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        x, pooled = ctx.saved_tensors
        chosen = torch.eq(x, pooled.unsqueeze(-2), out=torch.empty_like(x))
        # Equal maxima share the gradient, as in amax.
        return chosen.mul_((grad / chosen.sum(-2)).unsqueeze(-2))


def max_over_objects(x: Tensor) -> Tensor:
    """Maximum over the objects: (..., n, width) -> (..., width). First derivatives only."""
    if not (torch.is_grad_enabled() and x.requires_grad):
        return x.amax(-2)
    pooled: Tensor = _MaxPool.apply(x)  # type: ignore[no-untyped-call]
    return pooled


def _fits_kernel(objects: Tensor, first: Tensor, second: Tensor) -> bool:
    n, k = objects.shape[-2:]
    return (
        objects.device.type == "cpu"
        and objects.dtype in _DTYPES
        and first.dtype == second.dtype == torch.float32
        and first.shape[0] == HIDDEN
        and second.shape[0] == WIDTH
        and 0 < n <= MOST_OBJECTS
        and k <= MOST_FEATURES
        and not objects.requires_grad
        and not torch.compiler.is_exporting()
        and not torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    )


def _rows_of(objects: Tensor) -> tuple[Any, Tensor]:
    """Return the C description of (rows, n, k) objects, and the tensor that it points into."""
    rows, n, k = objects.shape
    if objects.stride(2) != 1 or objects.stride(1) != k:
        objects = objects.contiguous()
    values = ffi.cast("void*", objects.data_ptr())
    return ffi.new("pv_set_rows*", (values, objects.stride(0), rows, n, k, int(objects.dtype == torch.bfloat16))), objects


def _floats(tensor: Tensor) -> Any:
    return ffi.cast("float*", tensor.data_ptr())


def _encode(objects: Tensor, first: Tensor, second: Tensor, winners: Tensor | None) -> Tensor:
    """Return (..., width); which object won goes into winners (rows, width) uint8, where it is given."""
    rows, flat = _rows_of(_flat(objects))  # which must stay alive
    first_t, second_t = first.detach().t().contiguous(), second.detach().t().contiguous()
    out = torch.empty(len(flat), WIDTH)
    told = ffi.NULL if winners is None else ffi.cast("uint8_t*", winners.data_ptr())
    lib.pv_set_encode(rows, _floats(first_t), _floats(second_t), _floats(out), told)
    return out.view(*objects.shape[:-2], WIDTH)


def _encode_grad(grad: Tensor, objects: Tensor, first: Tensor, second: Tensor, winners: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of first and second."""
    rows, flat = _rows_of(_flat(objects))
    first_t, second = first.detach().t().contiguous(), second.detach().contiguous()
    out_grad = grad.to(torch.float32).contiguous()
    first_grad, second_grad = torch.zeros_like(first_t), torch.zeros_like(second)
    told = ffi.cast("uint8_t*", winners.data_ptr())
    lib.pv_set_encode_grad(
        rows, _floats(first_t), _floats(second), _floats(out_grad), told, _floats(first_grad), _floats(second_grad)
    )
    return first_grad.t(), second_grad


def _flat(objects: Tensor) -> Tensor:
    """(..., n, k) as (rows, n, k)."""
    return objects.flatten(0, -3) if objects.dim() > 3 else objects.unsqueeze(0) if objects.dim() == 2 else objects


def _winners(objects: Tensor) -> Tensor:
    return torch.empty(math.prod(objects.shape[:-2]), WIDTH, dtype=torch.uint8)


class _Fused(torch.autograd.Function):
    """csrc/set_encoder.h. No gradient goes to the objects."""

    @staticmethod
    def forward(ctx: Any, objects: Tensor, first: Tensor, second: Tensor) -> Tensor:
        winners = _winners(objects) if ctx.needs_input_grad[1] or ctx.needs_input_grad[2] else None
        if winners is not None:
            ctx.save_for_backward(objects, first, second, winners)
        return _encode(objects, first, second, winners)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        return None, *_encode_grad(grad, *ctx.saved_tensors)


# ---- the same for torch.compile ----------------------------------------------------------------------------------------


@library.custom_op("puffervec::encode_set", mutates_args=())
def _encode_op(objects: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    winners = _winners(objects)
    return _encode(objects, first, second, winners), winners


@_encode_op.register_fake
def _(objects: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    return objects.new_empty(*objects.shape[:-2], WIDTH, dtype=torch.float32), _winners(objects)


@library.custom_op("puffervec::encode_set_grad", mutates_args=())
def _encode_grad_op(grad: Tensor, objects: Tensor, first: Tensor, second: Tensor, winners: Tensor) -> tuple[Tensor, Tensor]:
    first_grad, second_grad = _encode_grad(grad, objects, first, second, winners)
    return first_grad.contiguous(), second_grad


@_encode_grad_op.register_fake
def _(grad: Tensor, objects: Tensor, first: Tensor, second: Tensor, winners: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty(first.shape), torch.empty(second.shape)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs, output[1])


def _op_backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[None, Tensor, Tensor]:
    return None, *_encode_grad_op(grad, *ctx.saved_tensors)


_encode_op.register_autograd(_op_backward, setup_context=_keep)
