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
torch operations, forward and backward). Other devices, and widths besides 32 and 64, use the plain
torch form, and so do exported policies. `torch.compile` treats the kernel as one opaque operation,
`puffervec::encode_set`. This is stop 7 of an observation's path from env to policy.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
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

HIDDEN = int(lib.PV_SET_HIDDEN)
NARROW, WIDE = WIDTHS = int(lib.PV_SET_NARROW), int(lib.PV_SET_WIDE)
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
    return encode_sets([objects], [first], [second], [factor])[0]


def encode_sets(
    objects: Sequence[Tensor],
    firsts: Sequence[Tensor],
    seconds: Sequence[Tensor],
    factors: Sequence[float],
) -> list[Tensor]:
    """Do what `encode_set` does for several fields of the same rows, in one call of the kernel.

    Fields that are not as wide as the first one are encoded in the plain form.

    Each call spends time in Python, where threads take turns: with a call per field two threads are
    no faster than one (drive, 512 rows: 4.5 ms, in one call 2.9 ms; AMD EPYC).
    """
    numbers = [_numbers(*each) for each in zip(objects, firsts, factors, strict=True)]
    sets = list(zip(numbers, firsts, seconds, strict=True))
    fits = [_fits_kernel(*each) and each[2].shape[0] == seconds[0].shape[0] for each in sets]
    encoded = iter(_encode_fused([each for each, fit in zip(sets, fits, strict=True) if fit]))
    return [
        next(encoded) if fit else encode_set_plain(*each)
        for each, fit in zip(sets, fits, strict=True)
    ]


def _encode_fused(sets: Sequence[tuple[Tensor, Tensor, Tensor]]) -> list[Tensor]:
    """Return (..., width) of each set of objects, first and second weight, by the kernel."""
    if not sets:
        return []
    if is_traced():
        return [_encode_op(*each)[0] for each in sets]
    objects, firsts, seconds = zip(*sets, strict=True)
    out: Tensor = (
        _Fused.apply(len(sets), *objects, *firsts, *seconds)  # type: ignore[no-untyped-call]
        if torch.is_grad_enabled()
        else _encode(objects, firsts, seconds, None)
    )
    return list(torch.split(out, len(seconds[0]), dim=-1))


def _numbers(objects: Tensor, first: Tensor, factor: float) -> Tensor:
    """Return the objects' numbers in a dtype that the kernel and matrix products support."""
    if objects.dtype not in _DTYPES:
        objects = objects.to(first.dtype)
    return objects if factor == 1.0 else objects * factor


def encode_set_plain(objects: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Do the same as `encode_set` in plain torch operations, on any device and under autocast."""
    filled = (objects != 0).any(-1, keepdim=True).to(objects.dtype)
    with_constant = torch.cat([objects, filled], dim=-1).to(first.dtype)
    hidden = torch.relu_(torch.nn.functional.linear(with_constant, first))
    return torch.relu(max_over_objects(torch.nn.functional.linear(hidden, second)))


class _MaxPool(torch.autograd.Function):
    """amax over dim -2 with a cheap backward pass.

    It takes two passes over the input in its own dtype, where autograd takes six and widens bf16,
    which is a third of the time of an update on a CPU.
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
        and second.shape[0] in WIDTHS
        and 0 < n <= MOST_OBJECTS
        and k <= MOST_FEATURES
        and not objects.requires_grad
        and (is_kept_whole() or not torch.compiler.is_exporting())
        and not torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    )


def _describe(
    field: Any, objects: Tensor, first: Tensor, second: Tensor, winners: Tensor | None
) -> tuple[Tensor, ...]:
    """Fill the C description of a field; return the tensors that must outlive it.

    Args:
        field: A `pv_set_field`.
        objects: (rows, n, k).
        winners: (rows, width) uint8 or None.
    """
    if objects.stride(2) != 1 or objects.stride(1) != objects.shape[2]:
        objects = objects.contiguous()
    first, second = first.detach().contiguous(), second.detach().contiguous()
    field.values, field.row_stride = ffi.cast("void*", objects.data_ptr()), objects.stride(0)
    field.objects, field.features = objects.shape[1:]
    field.is_bf16 = objects.dtype == torch.bfloat16
    field.first, field.second = _floats(first), _floats(second)
    field.winners = ffi.NULL if winners is None else ffi.cast("uint8_t*", winners.data_ptr())
    return objects, first, second


def _describe_all(
    objects: Sequence[Tensor],
    firsts: Sequence[Tensor],
    seconds: Sequence[Tensor],
    winners: Tensor | None,
) -> tuple[Any, int, list[tuple[Tensor, ...]]]:
    """Return the C descriptions of fields, their number of rows, and what must outlive the call.

    Args:
        winners: (fields, rows, width) uint8 or None.
    """
    fields, flat = ffi.new("pv_set_field[]", len(objects)), [_flat(part) for part in objects]
    alive = [
        _describe(
            fields[f], flat[f], firsts[f], seconds[f], None if winners is None else winners[f]
        )
        for f in range(len(flat))
    ]
    return fields, len(flat[0]), alive


def _floats(tensor: Tensor) -> Any:
    return ffi.cast("float*", tensor.data_ptr())


def _encode(
    objects: Sequence[Tensor],
    firsts: Sequence[Tensor],
    seconds: Sequence[Tensor],
    winners: Tensor | None,
) -> Tensor:
    """Return (..., fields * width), and write the indices of the winning objects, if wanted.

    Args:
        winners: (fields, rows, width) uint8 or None.
    """
    fields, rows, alive = _describe_all(objects, firsts, seconds, winners)
    count, width = len(objects), len(seconds[0])
    out = torch.empty(rows, count * width)
    lib.pv_set_encode(fields, count, width, rows, _floats(out))
    del alive
    return out.view(*objects[0].shape[:-2], count * width)


def encoder_into(
    out: Tensor, winners: Tensor, objects: Tensor, first: Tensor, second: Tensor
) -> Callable[[], None]:
    """Return a function that encodes these objects into `out` and `winners` and allocates nothing.

    All tensors must keep their memory.

    Args:
        objects: (rows, n, k), contiguous rows.
        first, second: Contiguous.
    """
    field = ffi.new("pv_set_field*")
    alive = _describe(field, objects, first, second, winners)
    _refuse_copies(alive, (objects, first, second))
    return functools.partial(lib.pv_set_encode, field, 1, len(second), len(objects), _floats(out))


def _refuse_copies(alive: Sequence[Tensor], given: Sequence[Tensor]) -> None:
    for one, other in zip(alive, given, strict=True):
        assert one.data_ptr() == other.data_ptr(), "the kernel would read a copy of these numbers"


def _encode_grad(
    grad: Tensor,
    objects: Sequence[Tensor],
    firsts: Sequence[Tensor],
    seconds: Sequence[Tensor],
    winners: Tensor,
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the gradients of `firsts` and `seconds`.

    Args:
        grad: (..., fields * width).
        winners: From `_encode`.
    """
    fields, rows, alive = _describe_all(objects, firsts, seconds, winners)
    count = len(objects)
    grads = [torch.empty(weight.shape) for weight in (*firsts, *seconds)]
    for f in range(count):
        fields[f].first_grad, fields[f].second_grad = _floats(grads[f]), _floats(grads[count + f])
    out_grad = grad.to(torch.float32).contiguous()
    lib.pv_set_encode_grad(fields, count, len(seconds[0]), rows, _floats(out_grad))
    del alive
    return grads[:count], grads[count:]


def encoder_grad_into(
    grads: tuple[Tensor, Tensor],
    grad: Tensor,
    objects: Tensor,
    first: Tensor,
    second: Tensor,
    winners: Tensor,
) -> Callable[[], None]:
    """Return a function that writes the gradients of first and second and allocates nothing.

    All tensors must keep their memory.

    Args:
        grads: Receives the gradients; contiguous.
        grad: Gradient of the encoded objects, float32, contiguous.
        objects: (rows, n, k), contiguous.
        first, second: Contiguous.
    """
    field = ffi.new("pv_set_field*")
    alive = _describe(field, objects, first, second, winners)
    _refuse_copies(alive, (objects, first, second))
    field.first_grad, field.second_grad = _floats(grads[0]), _floats(grads[1])
    return functools.partial(
        lib.pv_set_encode_grad, field, 1, len(second), len(objects), _floats(grad)
    )


def _flat(objects: Tensor) -> Tensor:
    """Return (..., n, k) as (rows, n, k)."""
    return (
        objects.flatten(0, -3)
        if objects.dim() > 3
        else objects.unsqueeze(0)
        if objects.dim() == 2
        else objects
    )


def _winners(objects: Tensor, width: int, fields: int = 1) -> Tensor:
    return torch.empty(fields, math.prod(objects.shape[:-2]), width, dtype=torch.uint8)


class _Fused(torch.autograd.Function):
    """The kernel of csrc/learner/set_encoder.h. The objects get no gradient."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor) -> Tensor:
        """Encode `count` fields.

        Args:
            tensors: The fields' objects, then their first weights, then their second ones.
        """
        objects, firsts, seconds = _thirds(tensors)
        winners = None
        if any(ctx.needs_input_grad):
            winners = _winners(objects[0], len(seconds[0]), count)
            ctx.save_for_backward(*tensors, winners)
        return _encode(objects, firsts, seconds, winners)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *tensors, winners = ctx.saved_tensors
        objects, firsts, seconds = _thirds(tensors)
        first_grads, second_grads = _encode_grad(grad, objects, firsts, seconds, winners)
        return (None, *(None for _ in objects), *first_grads, *second_grads)


def _thirds(tensors: Sequence[Tensor]) -> tuple[Sequence[Tensor], ...]:
    count = len(tensors) // 3
    return tensors[:count], tensors[count : 2 * count], tensors[2 * count :]


# ---- the kernel as operations for torch.compile --------------------------------------------------


@library.custom_op("puffervec::encode_set", mutates_args=())
def _encode_op(objects: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    winners = _winners(objects, len(second))
    return _encode([objects], [first], [second], winners), winners[0]


@_encode_op.register_fake
def _(objects: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    return (
        objects.new_empty(*objects.shape[:-2], len(second), dtype=torch.float32),
        _winners(objects, len(second))[0],
    )


@library.custom_op("puffervec::encode_set_grad", mutates_args=())
def _encode_grad_op(
    grad: Tensor, objects: Tensor, first: Tensor, second: Tensor, winners: Tensor
) -> tuple[Tensor, Tensor]:
    firsts, seconds = _encode_grad(grad, [objects], [first], [second], winners.unsqueeze(0))
    return firsts[0], seconds[0]


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
    """Shared encoders per object, pooled by a maximum or attention; see the top of this file."""

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
        self.plain_fields = plain = [name for name, _, shape in self.flat_fields if len(shape) != 2]
        tables = [name for name, _, _ in self.flat_fields if name not in plain]
        self.attention_fields = _attention_fields(section, tables, plain)
        self.pooled_fields = [name for name in tables if name not in self.attention_fields]
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
        parts = {
            name: self._part(obs, name, column, shape) for name, column, shape in self.flat_fields
        }
        encoders: list[Any] = [self.encoders[name] for name in self.pooled_fields]
        encoded = encode_sets(
            [parts[name] for name in self.pooled_fields],
            [encoder.first.weight for encoder in encoders],
            [encoder.second.weight for encoder in encoders],
            [encoder.factor for encoder in encoders],
        )
        found = dict(zip(self.pooled_fields, encoded, strict=True))
        for name in self.plain_fields:
            part, factor = parts[name].to(torch.get_default_dtype()), self.factors[name]
            found[name] = self.encoders[name](part if factor == 1.0 else part * factor)
        if self.attention_fields:
            plain = torch.cat([found[name] for name in self.plain_fields], dim=-1)
            for name in self.attention_fields:
                found[name] = self.encoders[name](parts[name], plain)
        out: Tensor = self.trunk(
            torch.cat([found[name] for name, _, _ in self.flat_fields], dim=-1)
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
    """Return the factor for numbers of a field: 1 for floats, else 1 / the largest magnitude."""
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
