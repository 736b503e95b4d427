# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Define a policy for observations made of sets of objects, such as drive's road segments.

    field (n, k)  --  encoder shared by its objects: Linear, ReLU, Linear
                      --  max over n, ReLU  --+
    field (k,)    --  Linear, ReLU  ----------+--  trunk  --  heads, value

The order of objects cannot matter, and all objects of a field share its encoder's weights (Zaheer
et al. 2017, "Deep Sets"). Empty slots are all zero. They need no mask: the encoders have no biases,
but a column of ones for filled slots, so that an empty slot becomes exactly 0, which a maximum
followed by ReLU ignores.

Fields in `policy.object_attention` are pooled by attention instead (attention.py); its queries come
from the plain fields.

Rows may have any dtype: they are stored and transferred to the device unchanged, and become float32
there, next to the layer that reads them. Whole numbers are divided by the largest value of the
field, so that they lie in -1..1, as floats do by convention; 0 stays 0, and an empty slot stays
empty.

On a CPU a fused C kernel encodes the sets (csrc/learner/set_encoder.h: 15 to 20 times faster than
torch operations, forward and backward). Other devices, and widths that the kernel does not support,
use the plain torch form, which exports also hold. `torch.compile` treats the kernel as one opaque
operation, `puffervec::encode_set`. Path stop 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, library, nn

from puffervec._ffi import ffi, lib
from puffervec.core.spec import Field, GroupSpec
from puffervec.errors import ConfigError
from puffervec.train.config.sections import PolicySection
from puffervec.train.policies.attention import ObjectAttention
from puffervec.train.policies.leaves import ROW, Observations
from puffervec.train.policies.mlp import NetworkPolicy, linear, mlp
from puffervec.train.policies.whole import is_kept_whole, is_traced

HIDDEN, WIDTH = int(lib.PV_SET_HIDDEN), int(lib.PV_SET_WIDTH)
MOST_OBJECTS, MOST_FEATURES = int(lib.PV_SET_MOST_OBJECTS), int(lib.PV_SET_MOST_FEATURES)
_DTYPES = (torch.float32, torch.bfloat16)


def encode_set(objects: Tensor, first: Tensor, second: Tensor, factor: float = 1.0) -> Tensor:
    """Encode the objects of each row and take the maximum over them.

    Args:
        objects: (..., n, k) of any dtype; an all-zero object is an empty slot.
        first: (hidden, k + 1), the last column for the constant 1.
        second: (width, hidden).
        factor: Multiplies the objects' numbers.

    Returns:
        (..., width), at least 0; a row without objects gives zeros. float32 from the fused kernel.
    """
    # Neither the kernel nor a matrix product takes other dtypes.
    if objects.dtype not in _DTYPES:
        objects = objects.to(first.dtype)
    if factor != 1.0:
        objects = objects * factor
    if _fits_kernel(objects, first, second):
        if is_traced():
            out: Tensor = _encode_op(objects, first, second)[0]
            return out
        return _Fused.apply(objects, first, second)  # type: ignore[no-any-return, no-untyped-call]
    return encode_set_plain(objects, first, second)


def encode_set_plain(objects: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Do the same as `encode_set` in plain torch operations, on any device and under autocast."""
    filled = (objects != 0).any(-1, keepdim=True).to(objects.dtype)
    with_constant = torch.cat([objects, filled], dim=-1).to(first.dtype)
    hidden = torch.relu_(torch.nn.functional.linear(with_constant, first))
    return torch.relu(max_over_objects(torch.nn.functional.linear(hidden, second)))


class _MaxPool(torch.autograd.Function):
    """amax over dim -2 with a cheap backward pass.

    It takes two passes over the input in its own dtype, where autograd takes six and widens bf16;
    that is a third of the time of an update on a CPU.
    """

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
    """Return the maximum over the objects: (..., n, width) -> (..., width).

    It has first derivatives only.
    """
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
        and (is_kept_whole() or not torch.compiler.is_exporting())
        and not torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    )


def _rows_of(objects: Tensor) -> tuple[Any, Tensor]:
    """Return the C description of (rows, n, k) objects, and the tensor that it points into."""
    rows, n, k = objects.shape
    if objects.stride(2) != 1 or objects.stride(1) != k:
        objects = objects.contiguous()
    values = ffi.cast("void*", objects.data_ptr())
    return ffi.new(
        "pv_set_rows*",
        (values, objects.stride(0), rows, n, k, int(objects.dtype == torch.bfloat16)),
    ), objects


def _floats(tensor: Tensor) -> Any:
    return ffi.cast("float*", tensor.data_ptr())


def _encode(objects: Tensor, first: Tensor, second: Tensor, winners: Tensor | None) -> Tensor:
    """Return (..., width), and write the index of the winning object into `winners`, if any.

    Args:
        winners: (rows, width) uint8 or None.
    """
    rows, flat = _rows_of(_flat(objects))  # `flat` must stay alive during the call.
    first_t, second_t = first.detach().t().contiguous(), second.detach().t().contiguous()
    out = torch.empty(len(flat), WIDTH)
    winner_pointer = ffi.NULL if winners is None else ffi.cast("uint8_t*", winners.data_ptr())
    lib.pv_set_encode(rows, _floats(first_t), _floats(second_t), _floats(out), winner_pointer)
    return out.view(*objects.shape[:-2], WIDTH)


def encoder_into(
    out: Tensor,
    winners: Tensor,
    objects: Tensor,
    weights: tuple[Tensor, Tensor],
    transposed: tuple[Tensor, Tensor],
) -> Callable[[], None]:
    """Return a function that encodes these objects into `out` and `winners` and allocates nothing.

    All tensors must keep their memory.

    Args:
        objects: (rows, n, k), contiguous rows.
        weights: first and second.
        transposed: Buffers for their transposes.
    """
    rows, flat = _rows_of(objects)
    pointers = (
        rows,
        *(_floats(x) for x in (*transposed, out)),
        ffi.cast("uint8_t*", winners.data_ptr()),
    )
    pairs = [
        (room.unsqueeze(0), weight.t().unsqueeze(0))
        for room, weight in zip(transposed, weights, strict=True)
    ]
    assert flat.data_ptr() == objects.data_ptr(), "the kernel would read a copy of these objects"

    def encode() -> None:
        for room, weight in pairs:
            room.copy_(weight)
        lib.pv_set_encode(*pointers)

    return encode


def _encode_grad(
    grad: Tensor, objects: Tensor, first: Tensor, second: Tensor, winners: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of first and second."""
    rows, flat = _rows_of(_flat(objects))
    first_t, second = first.detach().t().contiguous(), second.detach().contiguous()
    out_grad = grad.to(torch.float32).contiguous()
    first_grad, second_grad = torch.zeros_like(first_t), torch.zeros_like(second)
    winner_pointer = ffi.cast("uint8_t*", winners.data_ptr())
    lib.pv_set_encode_grad(
        rows,
        _floats(first_t),
        _floats(second),
        _floats(out_grad),
        winner_pointer,
        _floats(first_grad),
        _floats(second_grad),
    )
    return first_grad.t().contiguous(), second_grad


def encoder_grad_into(
    grads: tuple[Tensor, Tensor],
    grad: Tensor,
    objects: Tensor,
    second: Tensor,
    winners: Tensor,
    first_t: Tensor,
    room: Tensor,
) -> Callable[[], None]:
    """Return a function that writes the gradients of first and second and allocates nothing.

    All tensors must keep their memory.

    Args:
        grads: Receives the gradients.
        grad: Gradient of the encoded objects, float32, contiguous.
        objects: (rows, n, k), contiguous.
        first_t: The first weight, transposed.
        room: Buffer for the gradient of `first_t`.
    """
    rows, flat = _rows_of(objects)
    assert flat.data_ptr() == objects.data_ptr(), "the kernel would read a copy of these objects"
    pointers = (
        rows,
        _floats(first_t),
        _floats(second),
        _floats(grad),
        ffi.cast("uint8_t*", winners.data_ptr()),
        _floats(room),
        _floats(grads[1]),
    )
    target, source = grads[0].unsqueeze(0), room.t().unsqueeze(0)

    def differentiate() -> None:
        room.zero_()
        grads[1].zero_()
        lib.pv_set_encode_grad(*pointers)
        target.copy_(source)

    return differentiate


def _flat(objects: Tensor) -> Tensor:
    """Return (..., n, k) as (rows, n, k)."""
    return (
        objects.flatten(0, -3)
        if objects.dim() > 3
        else objects.unsqueeze(0)
        if objects.dim() == 2
        else objects
    )


def _winners(objects: Tensor) -> Tensor:
    return torch.empty(math.prod(objects.shape[:-2]), WIDTH, dtype=torch.uint8)


class _Fused(torch.autograd.Function):
    """The kernel of csrc/learner/set_encoder.h. The objects get no gradient."""

    @staticmethod
    def forward(ctx: Any, objects: Tensor, first: Tensor, second: Tensor) -> Tensor:
        winners = _winners(objects) if ctx.needs_input_grad[1] or ctx.needs_input_grad[2] else None
        if winners is not None:
            ctx.save_for_backward(objects, first, second, winners)
        return _encode(objects, first, second, winners)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        return None, *_encode_grad(grad, *ctx.saved_tensors)


# ---- the kernel as operations for torch.compile --------------------------------------------------


@library.custom_op("puffervec::encode_set", mutates_args=())
def _encode_op(objects: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    winners = _winners(objects)
    return _encode(objects, first, second, winners), winners


@_encode_op.register_fake
def _(objects: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    return objects.new_empty(*objects.shape[:-2], WIDTH, dtype=torch.float32), _winners(objects)


@library.custom_op("puffervec::encode_set_grad", mutates_args=())
def _encode_grad_op(
    grad: Tensor, objects: Tensor, first: Tensor, second: Tensor, winners: Tensor
) -> tuple[Tensor, Tensor]:
    return _encode_grad(grad, objects, first, second, winners)


@_encode_grad_op.register_fake
def _(
    grad: Tensor, objects: Tensor, first: Tensor, second: Tensor, winners: Tensor
) -> tuple[Tensor, Tensor]:
    return torch.empty(first.shape), torch.empty(second.shape)


def _save_inputs(
    ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: tuple[Tensor, Tensor]
) -> None:
    ctx.save_for_backward(*inputs, output[1])


def _op_backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[None, Tensor, Tensor]:
    return None, *_encode_grad_op(grad, *ctx.saved_tensors)


_encode_op.register_autograd(_op_backward, setup_context=_save_inputs)


def has_object_sets(group: GroupSpec) -> bool:
    """Return whether some field is a table of objects, (n, k)."""
    return any(len(field.shape) == 2 for field in group.fields)


class ObjectSetPolicy(NetworkPolicy):
    """Shared encoders per object, pooled by a maximum or by attention; see the file's head."""

    def __init__(self, group: GroupSpec, section: PolicySection) -> None:
        """Create the network.

        Args:
            group: Gives fields and actions.
            section: object_hidden, object_width, object_attention and hidden are read.
        """
        super().__init__()
        if group.observation_plan is not None or not has_object_sets(group):
            raise ConfigError(
                f"policy.kind is object_set, but {group.name} has no observation field of shape "
                "(objects, features)"
            )
        width = section.object_width
        # Name, first column in a flat row, shape.
        self.flat_fields: list[tuple[str, int, tuple[int, ...]]] = []
        self.factors = {field.name: factor_of(field) for field in group.fields}
        column = 0
        for field in group.fields:
            self.flat_fields.append((field.name, column, tuple(field.shape)))
            column += math.prod(field.shape)
        self.encoders = nn.ModuleDict()
        plain = [name for name, _, shape in self.flat_fields if len(shape) != 2]
        self.attention_fields = _attention_fields(
            section, [name for name, _, _ in self.flat_fields if name not in plain], plain
        )
        for name, _, shape in self.flat_fields:
            if name in self.attention_fields:
                sizes = (shape[1], width * len(plain), section.object_hidden, width)
                self.encoders[name] = ObjectAttention(*sizes, factor=self.factors[name])
            elif len(shape) == 2:
                self.encoders[name] = ObjectEncoder(
                    shape[1], section.object_hidden, width, self.factors[name]
                )
            else:
                self.encoders[name] = mlp((math.prod(shape), width))
        self.trunk = mlp((width * len(self.flat_fields), *section.hidden))
        self.finish(section.hidden[-1], group, section)

    def features(self, obs: Observations) -> Tensor:
        """Return the trunk's output."""
        pooled: dict[str, Tensor] = {}
        for name, column, shape in self.flat_fields:
            if name in self.attention_fields:
                continue
            part = self._part(obs, name, column, shape)
            if len(shape) != 2:
                part, factor = part.to(torch.get_default_dtype()), self.factors[name]
                part = part if factor == 1.0 else part * factor
            pooled[name] = self.encoders[name](part)
        if self.attention_fields:
            plain = torch.cat(
                [pooled[name] for name, _, shape in self.flat_fields if len(shape) != 2], dim=-1
            )
            for name, column, shape in self.flat_fields:
                if name in self.attention_fields:
                    pooled[name] = self.encoders[name](self._part(obs, name, column, shape), plain)
        out: Tensor = self.trunk(
            torch.cat([pooled[name] for name, _, _ in self.flat_fields], dim=-1)
        )
        return out

    @staticmethod
    def _part(obs: Observations, name: str, column: int, shape: tuple[int, ...]) -> Tensor:
        """Return a field of the observations, (..., *shape)."""
        if name in obs:
            return obs[name]
        row = obs[ROW]
        return row[..., column : column + math.prod(shape)].view(*row.shape[:-1], *(shape or (1,)))


def _attention_fields(
    section: PolicySection, tables: list[str], plain: list[str]
) -> frozenset[str]:
    """Return the fields that are pooled by attention, or raise ConfigError."""
    if not section.object_attention:
        return frozenset()
    unknown = [name for name in section.object_attention if name not in tables]
    if unknown:
        raise ConfigError(
            f"policy.object_attention has {unknown[0]!r}; the tables of objects are "
            f"{', '.join(tables)}"
        )
    if not plain:
        raise ConfigError(
            "policy.object_attention: every field is a table of objects, so there is no input for "
            "the queries: leave it empty"
        )
    return frozenset(section.object_attention)


def factor_of(field: Field) -> float:
    """Return the factor for stored numbers of a field: 1 for floats, 1 / 255 for whole bytes."""
    if field.dtype.kind not in "iu":
        return 1.0
    limits = np.iinfo(field.dtype)
    most = max(abs(max(field.low, limits.min)), abs(min(field.high, limits.max)))
    return 1.0 / most if most > 0 else 1.0


class ObjectEncoder(nn.Module):
    """Two layers shared by all objects of a field, then a maximum: (..., n, k) -> (..., width)."""

    def __init__(self, features: int, hidden: int, width: int, factor: float = 1.0) -> None:
        """Create the layers.

        Args:
            features: k.
            hidden: Width of the first layer.
            width: Width of the result.
            factor: Multiplies the objects' numbers.
        """
        super().__init__()
        self.factor = factor
        # The extra column is 1 for a filled slot.
        self.first = linear(features + 1, hidden, bias=False)
        self.second = linear(hidden, width, bias=False)

    def forward(self, objects: Tensor) -> Tensor:
        """Encode the objects; a row without objects gives zeros."""
        return encode_set(objects, self.first.weight, self.second.weight, self.factor)
