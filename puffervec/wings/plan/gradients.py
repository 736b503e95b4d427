# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Rules for the operations of backward passes; kernels.py has those of forward passes."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from puffervec.train.policies.memory import recurrence_grad_into, recurrence_into
from puffervec.train.policies.object_set import encoder_grad_into
from puffervec.wings.plan.calls import Call, Work, copy_work
from puffervec.wings.plan.kernels import kernel

aten = torch.ops.aten


@kernel(aten.new_empty_strided.default)
def _nothing(call: Call) -> Sequence[Work]:
    """Do nothing: other operations fill the output."""
    return []


@kernel(aten.copy.default)
def _copy(call: Call) -> Sequence[Work]:
    return copy_work(call.out[0], call.args[1])


def _columns(grad: Tensor, x: Tensor, weight: Tensor, *args: Any, **kwargs: Any) -> list[Tensor]:
    """Return workspace for one sample's patches and their gradient."""
    groups, pixels = args[6], math.prod(grad.shape[2:])
    size = weight.shape[1] * groups * math.prod(weight.shape[2:])
    return [x.new_empty(size, pixels), x.new_empty(size, pixels)]


@kernel(aten.convolution_backward.default, workspace=_columns)
def _convolution_backward(call: Call) -> Sequence[Work]:
    """Work sample by sample, as the forward rule does, and scatter the gradients of the patches."""
    grad, x, weight, _, stride, padding, dilation, _, _, groups, mask = call.args
    columns, column_grads = (part.view(groups, -1, part.shape[1]) for part in call.workspace)
    outputs = iter(call.out)
    x_grad, weight_grad, bias_grad = (next(outputs) if wanted else None for wanted in mask)
    matrices = weight.view(groups, weight.shape[0] // groups, -1)
    pixels = grad.view(len(grad), groups, matrices.shape[1], -1)
    patches = list(weight.shape[2:]), dilation, padding, stride
    work: list[Work] = []
    if weight_grad is not None:
        into = weight_grad.view(matrices.shape)
        work.append(into.zero_)
        for sample, after in zip(x, pixels, strict=True):
            work += [
                functools.partial(aten.im2col.out, sample, *patches, out=call.workspace[0]),
                functools.partial(into.baddbmm_, after, columns.transpose(1, 2)),
            ]
    if x_grad is not None:
        size = list(x.shape[2:])
        for sample, after in zip(x_grad, pixels, strict=True):
            work += [
                functools.partial(torch.bmm, matrices.transpose(1, 2), after, out=column_grads),
                functools.partial(aten.col2im.out, call.workspace[1], size, *patches, out=sample),
            ]
    if bias_grad is not None:
        work.append(functools.partial(torch.sum, grad, [0, 2, 3], out=bias_grad))
    return work


@kernel(torch.ops.puffervec.linear_recurrence.default)
def _recurrence(call: Call) -> Sequence[Work]:
    return [functools.partial(recurrence_into, call.out[0], *call.args)]


@kernel(torch.ops.puffervec.linear_recurrence_grad.default)
def _recurrence_grad(call: Call) -> Sequence[Work]:
    return [
        functools.partial(recurrence_grad_into, (call.out[0], call.out[1], call.out[2]), *call.args)
    ]


def _set_workspace(grad: Tensor, objects: Tensor, *args: Any) -> list[Tensor]:
    """Return workspace for dense operands."""
    return [objects.new_empty(objects.shape), grad.new_empty(grad.shape)]


@kernel(torch.ops.puffervec.encode_set_grad.default, device="cpu", workspace=_set_workspace)
def _encode_set_grad(call: Call) -> Sequence[Work]:
    grad, objects, first, second, winners = call.args
    dense_objects, dense_grad = call.workspace
    rows = dense_objects.view(-1, *objects.shape[-2:])
    grads = call.out[0], call.out[1]
    return [
        *copy_work(dense_objects, objects),
        *copy_work(dense_grad, grad),
        encoder_grad_into(grads, dense_grad, rows, first, second, winners),
    ]
