# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The set encoder as a torch operation: two layers shared by all objects, then the maximum over them. Path stop 7.

On a CPU a fused C kernel does it (csrc/set_encoder.h: 15 to 20 times faster than the same in torch operations, forward and
backward); elsewhere, and for other widths than the kernel's, the plain torch form below, which is also what tests compare with.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from puffervec._ffi import ffi, lib

HIDDEN, WIDTH = int(lib.PV_SET_HIDDEN), int(lib.PV_SET_WIDTH)
_DTYPES = (torch.float32, torch.bfloat16)


def encode_set(objects: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Encode the objects of each row and take the maximum over them.

    Args:
        objects: (..., n, k); an all-zero object is an empty slot. first: (hidden, k + 1), the last column for the constant 1.
        second: (width, hidden).
    Returns:
        (..., width), at least 0; a row without objects gives zeros. float32 from the fused kernel.
    """
    if _fits_kernel(objects, first, second):
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
        and 0 < n <= lib.PV_SET_MOST_OBJECTS
        and k <= lib.PV_SET_MOST_FEATURES
        and not objects.requires_grad
        and not torch.compiler.is_compiling()
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


class _Fused(torch.autograd.Function):
    """csrc/set_encoder.h. No gradient goes to the objects."""

    @staticmethod
    def forward(ctx: Any, objects: Tensor, first: Tensor, second: Tensor) -> Tensor:
        flat = objects.flatten(0, -3) if objects.dim() > 3 else objects.unsqueeze(0) if objects.dim() == 2 else objects
        rows, flat = _rows_of(flat)
        first_t, second_t = first.detach().t().contiguous(), second.detach().t().contiguous()
        out = torch.empty(rows.count, WIDTH)
        needs_grad = ctx.needs_input_grad[1] or ctx.needs_input_grad[2]
        winners = torch.empty(rows.count, WIDTH, dtype=torch.uint8) if needs_grad else None
        told = ffi.NULL if winners is None else ffi.cast("uint8_t*", winners.data_ptr())
        lib.pv_set_encode(rows, _floats(first_t), _floats(second_t), _floats(out), told)
        if winners is not None:
            ctx.save_for_backward(flat, first_t, second.detach().contiguous(), winners)
        return out.view(*objects.shape[:-2], WIDTH)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        flat, first_t, second, winners = ctx.saved_tensors
        rows, flat = _rows_of(flat)
        out_grad = grad.to(torch.float32).contiguous()
        first_grad, second_grad = torch.zeros_like(first_t), torch.zeros_like(second)
        told = ffi.cast("uint8_t*", winners.data_ptr())
        lib.pv_set_encode_grad(
            rows, _floats(first_t), _floats(second), _floats(out_grad), told, _floats(first_grad), _floats(second_grad)
        )
        return None, first_grad.t(), second_grad
