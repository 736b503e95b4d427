# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Rules for operations without an `out=` kernel in torch, or with one that allocates."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from puffervec._ffi import ffi, lib
from puffervec.train.policies.object_set import encoder_into
from puffervec.wings.plan.calls import Call, Rule, Work, call_out, constant, copy_work

aten = torch.ops.aten
KERNELS: dict[tuple[Any, str], Rule] = {}  # By operation and type of device.
DEVICES = ("cpu", "cuda")


def kernel(
    *ops: Any,
    in_place: tuple[int, ...] = (),
    workspace: Callable[..., Sequence[Tensor]] | None = None,
    device: str = "",
) -> Callable[[Callable[[Call], Sequence[Work]]], Callable[[Call], Sequence[Work]]]:
    """Register a function as the rule of operations: it is called once and returns the work.

    Args:
        ops: the operations.
        in_place, workspace: see `Rule`.
        device: the only type of device that the rule is for; "" for all.
    """

    def add(function: Callable[[Call], Sequence[Work]]) -> Callable[[Call], Sequence[Work]]:
        for where in (device,) if device else DEVICES:
            KERNELS.update({(op, where): Rule(function, in_place, workspace) for op in ops})
        return function

    return add


# ---- copies and constants ------------------------------------------------------------------------


@kernel(
    aten.clone.default,
    aten._to_copy.default,
    aten.lift_fresh_copy.default,
    aten.alias_copy.default,
    in_place=(),
)
def _copy(call: Call) -> Sequence[Work]:
    return copy_work(call.out[0], call.args[0])


@kernel(
    aten.full.default,
    aten.full_like.default,
    aten.zeros.default,
    aten.zeros_like.default,
    aten.ones.default,
    aten.ones_like.default,
    aten.scalar_tensor.default,
    aten.new_zeros.default,
    aten.new_ones.default,
    aten.new_full.default,
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.new_empty.default,
)
def _fill(call: Call) -> Sequence[Work]:
    name = call.op._schema.name
    if "full" in name:
        value = call.args[2] if "new_full" in name else call.args[1]
    elif "scalar_tensor" in name:
        value = call.args[0]
    else:
        value = 1 if "ones" in name else 0
    return [functools.partial(call.out[0].fill_, value)]


@kernel(aten.arange.start_step, aten.arange.start, aten.arange.default)
def _arange(call: Call) -> Sequence[Work]:
    values = torch.arange(*call.args, dtype=call.out[0].dtype, device=call.out[0].device)
    return copy_work(call.out[0], values)


# ---- operations in terms of others ---------------------------------------------------------------


@kernel(aten.relu.default, in_place=(0,))
def _relu(call: Call) -> Sequence[Work]:
    # torch's own relu is implemented this way too.
    return [functools.partial(torch.clamp_min, call.args[0], 0, out=call.out[0])]


@kernel(aten.rsub.Scalar, aten.rsub.Tensor, in_place=(0, 1))
def _rsub(call: Call) -> Sequence[Work]:
    x, other, *rest = call.args
    alpha = rest[0] if rest else call.kwargs.get("alpha", 1)
    minuend = other if isinstance(other, Tensor) else constant(other, call)
    return [functools.partial(torch.sub, minuend, x, alpha=alpha, out=call.out[0])]


_COMPARED: dict[Any, Callable[..., Any]] = {
    aten.eq: torch.eq,
    aten.ne: torch.ne,
    aten.lt: torch.lt,
    aten.le: torch.le,
    aten.gt: torch.gt,
    aten.ge: torch.ge,
}


@kernel(*(packet.Scalar for packet in _COMPARED))
def _compare(call: Call) -> Sequence[Work]:
    function, (x, number) = _COMPARED[call.op.overloadpacket], call.args
    return [functools.partial(function, x, constant(number, call), out=call.out[0])]


_SCALED: dict[Any, Callable[..., Any]] = {
    aten.add: torch.add,
    aten.sub: torch.sub,
    aten.mul: torch.mul,
    aten.div: torch.div,
}


@kernel(*(packet.Scalar for packet in _SCALED), in_place=(0,))
def _scale(call: Call) -> Sequence[Work]:
    function, (x, number, *rest) = _SCALED[call.op.overloadpacket], call.args
    extra = {"alpha": rest[0]} if rest else call.kwargs
    return [functools.partial(function, x, constant(number, call), **extra, out=call.out[0])]


@kernel(aten.mean.dim)
def _mean(call: Call) -> Sequence[Work]:
    x, dims, *rest = call.args
    keep = rest[0] if rest else call.kwargs.get("keepdim", False)
    return _mean_into(call.out[0], x, list(range(x.dim())) if dims is None else list(dims), keep)


@kernel(aten.mean.default)
def _mean_of_all(call: Call) -> Sequence[Work]:
    return _mean_into(call.out[0], call.args[0], list(range(call.args[0].dim())), False)


def _mean_into(out: Tensor, x: Tensor, dims: list[int], keep: bool) -> Sequence[Work]:
    """Sum, then divide by a tensor, because torch would wrap a number into one in each call."""
    count = torch.tensor(math.prod(x.shape[dim] for dim in dims), dtype=out.dtype)
    return [
        functools.partial(torch.sum, x, dims, keep, out=out),
        functools.partial(torch.div, out, count, out=out),
    ]


@kernel(aten.sum.default)
def _sum_of_all(call: Call) -> Sequence[Work]:
    x = call.args[0]
    return [functools.partial(torch.sum, x, list(range(x.dim())), out=call.out[0])]


@kernel(aten.embedding.default)
def _embedding(call: Call) -> Sequence[Work]:
    weight, indices = call.args[:2]
    rows = call.out[0].view(-1, weight.shape[1])
    return [functools.partial(torch.index_select, weight, 0, indices.view(-1), out=rows)]


@kernel(aten.embedding_dense_backward.default)
def _embedding_backward(call: Call) -> Sequence[Work]:
    """Add rows in the order of the indices, as torch's own kernel does on a CPU."""
    grad, indices, _, padding, by_frequency = call.args
    if by_frequency:
        raise NotImplementedError("nn.Embedding(scale_grad_by_freq=True) has no rule: use False")
    out = call.out[0]
    rows = grad.view(-1, grad.shape[-1])
    work: list[Work] = [out.zero_, functools.partial(out.index_add_, 0, indices.view(-1), rows)]
    return work if padding < 0 else [*work, out[padding].zero_]


@kernel(aten.stack.default)
def _stack(call: Call) -> Sequence[Work]:
    parts, *rest = call.args
    dim = rest[0] if rest else call.kwargs.get("dim", 0)
    return [
        functools.partial(torch.cat, [part.unsqueeze(dim) for part in parts], dim, out=call.out[0])
    ]


@kernel(aten.repeat.default)
def _repeat(call: Call) -> Sequence[Work]:
    """Split each repeated axis in two and broadcast the input over the first."""
    x, repeats = call.args
    x = x.expand(*[1] * (len(repeats) - x.dim()), *x.shape)
    target = call.out[0].view(
        [size for pair in zip(repeats, x.shape, strict=True) for size in pair]
    )
    source = x.view([size for n in x.shape for size in (1, n)])
    return copy_work(target, source)


@kernel(aten.constant_pad_nd.default)
def _pad(call: Call) -> Sequence[Work]:
    x, pad, *rest = call.args
    out, inner, source = call.out[0], call.out[0], x
    for index, (low, high) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        dim = x.dim() - 1 - index
        inner = inner.narrow(dim, max(low, 0), inner.shape[dim] - max(low, 0) - max(high, 0))
        source = source.narrow(dim, max(-low, 0), source.shape[dim] - max(-low, 0) - max(-high, 0))
    return [functools.partial(out.fill_, rest[0] if rest else 0), *copy_work(inner, source)]


# ---- losses --------------------------------------------------------------------------------------
# With a reduction, torch's `out=` variants resize the result to one number per element and back.

_NONE, _MEAN, _SUM = range(3)  # values of the argument `reduction`


def _reduction(args: Sequence[Any]) -> int:
    return next((value for value in args if type(value) is int), _MEAN)


def _elements(x: Tensor, target: Tensor, *args: Any) -> list[Tensor]:
    """Return workspace for the loss of each element, if the loss is to be reduced."""
    # On `meta` the sum computes only shape and dtype.
    return [] if _reduction(args) == _NONE else [x + target]


@kernel(
    aten.mse_loss.default,
    aten.smooth_l1_loss.default,
    aten.huber_loss.default,
    aten.binary_cross_entropy.default,
    workspace=_elements,
)
def _loss(call: Call) -> Sequence[Work]:
    variant, out, reduction = call.op.overloadpacket.out, call.out[0], _reduction(call.args)
    if not call.workspace:
        return [functools.partial(variant, *call.args, out=out)]
    each, dims = call.workspace[0], list(range(call.workspace[0].dim()))
    named = [argument.name for argument in call.op._schema.arguments]
    arguments = dict(zip(named, call.args, strict=False)) | {"reduction": _NONE}
    work = functools.partial(variant, **arguments, out=each)
    if reduction == _SUM:
        return [work, functools.partial(torch.sum, each, dims, out=out)]
    return [work, *_mean_into(out, each, dims, False)]


@kernel(aten.binary_cross_entropy_backward.default)
def _binary_cross_entropy_backward(call: Call) -> Sequence[Work]:
    """Divide the loss by a tensor, because torch would wrap a number into one in each call."""
    out, variant = call.out[0], aten.binary_cross_entropy_backward.grad_input
    grad, x, target, *rest = call.args
    weight = rest[0] if rest else None
    if _reduction(call.args) != _MEAN:
        return [functools.partial(variant, *call.args, grad_input=out)]
    count = torch.tensor(x.numel(), dtype=out.dtype)
    work = functools.partial(variant, grad, x, target, weight, _SUM, grad_input=out)
    return [work, functools.partial(torch.div, out, count, out=out)]


# ---- normalization -------------------------------------------------------------------------------
# torch's own kernels allocate their results. The ones below sum in another order, so their results
# are equal only within rounding.


def _normalize(rows: Tensor, out: Tensor, mean: Tensor, rstd: Tensor, eps: float) -> list[Work]:
    """Compute (x - mean) / sqrt(variance + eps) of each row.

    Args:
        rows, out: (n, size).
        mean, rstd: (n, 1), also written.
        eps: added to the variance.
    """
    size, small = torch.tensor(rows.shape[1], dtype=out.dtype), torch.tensor(eps, dtype=out.dtype)
    return [
        functools.partial(torch.sum, rows, [1], True, out=mean),
        functools.partial(torch.div, mean, size, out=mean),
        functools.partial(torch.sub, rows, mean, out=out),
        functools.partial(torch.linalg.vector_norm, out, 2, [1], True, out=rstd),
        functools.partial(torch.mul, rstd, rstd, out=rstd),
        functools.partial(torch.div, rstd, size, out=rstd),
        functools.partial(torch.add, rstd, small, out=rstd),
        functools.partial(torch.rsqrt, rstd, out=rstd),
        functools.partial(torch.mul, out, rstd, out=out),
    ]


def _by_channel(part: Tensor | None, x: Tensor) -> Tensor | None:
    """Return a number per channel in a shape that broadcasts over (N, C, ...)."""
    return None if part is None else part.view(-1, *[1] * (x.dim() - 2))


def _affine(out: Tensor, weight: Tensor | None, bias: Tensor | None) -> list[Work]:
    work: list[Work] = []
    if weight is not None:
        work.append(functools.partial(torch.mul, out, weight, out=out))
    if bias is not None:
        work.append(functools.partial(torch.add, out, bias, out=out))
    return work


def _in_order(x: Tensor, *args: Any, **kwargs: Any) -> list[Tensor]:
    """Return workspace for an input that is not contiguous."""
    return [] if x.is_contiguous() else [x.new_empty(x.shape)]


@kernel(aten.native_layer_norm.default, workspace=_in_order)
def _layer_norm(call: Call) -> Sequence[Work]:
    x, shape, weight, bias, eps = call.args
    out, mean, rstd = call.out
    before = [work for room in call.workspace for work in copy_work(room, x)]
    x = call.workspace[0] if call.workspace else x
    size = math.prod(shape)
    work = _normalize(x.view(-1, size), out.view(-1, size), mean.view(-1, 1), rstd.view(-1, 1), eps)
    return [*before, *work, *_affine(out, weight, bias)]


@kernel(aten.native_group_norm.default, workspace=_in_order)
def _group_norm(call: Call) -> Sequence[Work]:
    x, weight, bias, n, channels, pixels, groups, eps = call.args
    out, mean, rstd = call.out
    before = [work for room in call.workspace for work in copy_work(room, x)]
    x = call.workspace[0] if call.workspace else x
    shape = (n * groups, channels // groups * pixels)
    work = _normalize(x.view(shape), out.view(shape), mean.view(-1, 1), rstd.view(-1, 1), eps)
    weight, bias = (None if part is None else part.view(channels, 1) for part in (weight, bias))
    return [*before, *work, *_affine(out.view(n, channels, pixels), weight, bias)]


def _batch_norm_workspace(x: Tensor, *args: Any, **kwargs: Any) -> list[Tensor]:
    return [x.new_empty(x.shape[1])]


@kernel(
    aten._native_batch_norm_legit_no_training.default,
    aten.native_batch_norm.default,
    workspace=_batch_norm_workspace,
)
def _batch_norm(call: Call) -> Sequence[Work]:
    """Normalize with running statistics; with batch statistics torch's variant allocates memory."""
    x, weight, bias, mean, variance, *rest = call.args
    if rest[0] is True:
        return call_out(aten.native_batch_norm.out, call)
    out, scale, eps = call.out[0], call.workspace[0], rest[-1]
    small = torch.tensor(eps, dtype=x.dtype)
    return [
        functools.partial(torch.add, variance, small, out=scale),
        functools.partial(torch.rsqrt, scale, out=scale),
        functools.partial(torch.sub, x, _by_channel(mean, x), out=out),
        *_affine(out, _by_channel(scale, x), None),
        *_affine(out, _by_channel(weight, x), _by_channel(bias, x)),
    ]


# ---- convolution ---------------------------------------------------------------------------------
# oneDNN's convolution, which torch uses on a CPU, allocates reordered copies of input, weights and
# result. So float32 uses puffervec's own (csrc/learner/convolution.h), and other dtypes use im2col
# and a matrix product.


def _shape_of(x: Tensor, weight: Tensor, args: Sequence[Any]) -> Any:
    """Return the sizes of a convolution as C reads them."""
    _, stride, padding, dilation, _, _, groups = args
    out = aten.convolution.default(x.to("meta"), weight.to("meta"), None, *args[1:])
    sizes = (len(x), groups, x.shape[1], len(weight), *x.shape[2:], *out.shape[2:])
    return ffi.new("pv_convolution*", (*sizes, list(weight.shape[2:]), stride, padding, dilation))


def _by_our_kernel(x: Tensor, weight: Tensor) -> bool:
    return x.dtype == weight.dtype == torch.float32 and weight.is_contiguous()


def _convolution_workspace(x: Tensor, weight: Tensor, *args: Any) -> list[Tensor]:
    """Return the kernel's workspace; for channels-last input also dense copies."""
    if args[4] or x.dim() != 4:
        return []
    out = aten.convolution.default(x, weight, *args)
    if _by_our_kernel(x, weight):
        rooms = [x.new_empty(int(lib.pv_convolution_workspace(_shape_of(x, weight, args))))]
    else:
        taps = weight.shape[1] * args[6] * math.prod(weight.shape[2:])
        rooms = [x.new_empty(taps, math.prod(out.shape[2:]))]
    return rooms if x.is_contiguous() else [*rooms, x.new_empty(x.shape), x.new_empty(out.shape)]


@kernel(aten.convolution.default, device="cpu", workspace=_convolution_workspace)
def _convolution(call: Call) -> Sequence[Work]:
    x, weight, bias, *rest = call.args
    if not call.workspace:
        raise NotImplementedError("only 2D convolutions that are not transposed have a rule")
    room, *ordered = call.workspace
    before: Sequence[Work] = ()
    after: Sequence[Work] = ()
    out = call.out[0]
    if ordered:
        before, after = copy_work(ordered[0], x), copy_work(out, ordered[1])
        x, out = ordered
    if _by_our_kernel(x, weight):
        pointers = [
            ffi.NULL if part is None else ffi.cast("float*", part.data_ptr())
            for part in (x, weight, bias, room, out)
        ]
        return [
            *before,
            functools.partial(lib.pv_convolve, _shape_of(x, weight, call.args[2:]), *pointers),
            *after,
        ]
    return [*before, *_by_columns(x, weight, bias, rest, room, out), *after]


def _by_columns(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    rest: Sequence[Any],
    columns: Tensor,
    out: Tensor,
) -> list[Work]:
    stride, padding, dilation, _, _, groups = rest
    matrices, kernel_size = (
        weight.view(groups, weight.shape[0] // groups, -1),
        list(weight.shape[2:]),
    )
    work: list[Work] = []
    for sample, target in zip(x, out.view(len(x), groups, matrices.shape[1], -1), strict=True):
        work += [
            functools.partial(
                aten.im2col.out, sample, kernel_size, dilation, padding, stride, out=columns
            ),
            functools.partial(
                torch.bmm, matrices, columns.view(groups, -1, columns.shape[1]), out=target
            ),
        ]
    return [*work, *_affine(out, None, _by_channel(bias, x))]


@kernel(aten.convolution.default, device="cuda")
def _convolution_of_cudnn(call: Call) -> Sequence[Work]:
    """Call cuDNN, whose scratch memory comes from torch's cache of device memory."""
    x, weight, bias, stride, padding, dilation, transposed, _, groups = call.args
    if transposed:
        raise NotImplementedError("transposed convolutions have no rule")
    flags = (
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.allow_tf32,
    )
    (out,) = call.out
    work = functools.partial(
        aten.cudnn_convolution.out, x, weight, padding, stride, dilation, groups, *flags, out=out
    )
    return [work, *_affine(out, None, _by_channel(bias, x))]


# ---- the encoder of object sets ------------------------------------------------------------------


def _set_workspace(objects: Tensor, first: Tensor, second: Tensor) -> list[Tensor]:
    """Return workspace for dense objects."""
    return [objects.new_empty(objects.shape)]


@kernel(torch.ops.puffervec.encode_set.default, device="cpu", workspace=_set_workspace)
def _encode_set(call: Call) -> Sequence[Work]:
    objects, first, second = call.args
    (room,) = call.workspace
    work: list[Work] = []
    if objects.stride()[-2:] != (objects.shape[-1], 1):
        work, objects = list(copy_work(room, objects)), room
    rows = objects.view(-1, *objects.shape[-2:])
    out, winners = call.out
    return [*work, encoder_into(out, winners, rows, first, second)]
