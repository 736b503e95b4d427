# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The rules by which layers and functions work on columns.

A rule is called with the pass (`Pass`), the columns and the function's other arguments, and returns
columns, or whole tensors after a global mean. Layers and functions without a rule cannot be split;
network.py names them in the error.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from puffervec.errors import ConfigError
from puffervec.train.policies.convnext import DropPath, LayerNorm2d
from puffervec.wings.sharded import layers, norms
from puffervec.wings.sharded.columns import split
from puffervec.wings.sharded.layers import Columns
from puffervec.wings.sharded.regions import Region


class CannotShard(ConfigError):
    """A network has a layer that cannot work on columns."""


class Gather(nn.Module):
    """A layer after which each rank has whole pictures; in one process it does nothing."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x."""
        return x


@dataclasses.dataclass(frozen=True)
class Pass:
    """A forward pass.

    Attributes:
        region: how the batch is distributed over the ranks.
        parameter: returns a parameter by name, for use in layers whose columns are split.
        prepared: id() of each of these parameters.
    """

    region: Region
    parameter: Callable[[str], Tensor]
    prepared: frozenset[int] = frozenset()

    def share_grad(self, whole: Tensor) -> Tensor:
        """Return a whole tensor for use with columns; each rank has a part of its gradient."""
        if not whole.requires_grad or id(whole) in self.prepared:
            return whole
        return self.region.parameters([whole])[0]

    def of(self, name: str, layer: nn.Module) -> dict[str, Tensor]:
        """Return a layer's parameters by their names in it."""
        return {key: self.parameter(f"{name}.{key}") for key, _ in layer.named_parameters()}


Value = Any  # Columns, or the tensor of one process.
Rule = Callable[..., Value]


# ---- windows -------------------------------------------------------------------------------------


def _picture(x: Columns) -> Columns:
    if x.dim != 3:  # Only in pictures are columns the last axis.
        raise CannotShard(
            f"takes (N, C, H, W) with the columns last, not {tuple(x.shape)} with the columns at "
            f"axis {x.dim}"
        )
    return x


def _conv2d(run: Pass, x: Columns, *args: Any, **kwargs: Any) -> Columns:
    return layers.conv2d(_picture(x), run.region.team, *args, **kwargs)


def _max_pool2d(
    run: Pass, x: Columns, *args: Any, return_indices: bool = False, **kwargs: Any
) -> Columns:
    if return_indices:
        raise CannotShard("return_indices: an index counts all columns")
    return layers.max_pool2d(_picture(x), run.region.team, *args, **kwargs)


def _avg_pool2d(
    run: Pass,
    x: Columns,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    *args: Any,
    **kwargs: Any,
) -> Columns:
    if ceil_mode:
        raise CannotShard("ceil_mode of a mean")
    return layers.avg_pool2d(
        _picture(x), run.region.team, kernel_size, stride, padding, *args, **kwargs
    )


# ---- over all columns ----------------------------------------------------------------------------


def _mean(run: Pass, x: Columns, dim: Any = None, keepdim: bool = False) -> Value:
    dims = {
        d % x.tensor.dim()
        for d in ((dim,) if isinstance(dim, int) else dim or range(x.tensor.dim()))
    }
    if 0 in dims:
        raise CannotShard("a mean over the batch")
    if x.dim not in dims:
        if not keepdim and any(d < x.dim for d in dims):
            raise CannotShard(
                f"a mean over axes {sorted(dims)} that drops them before the columns: use "
                "keepdim=True"
            )
        return x.of(x.tensor.mean(sorted(dims), keepdim))
    count = x.width
    for d in dims - {x.dim}:
        count *= x.tensor.shape[d]
    wide = torch.float32 if x.tensor.dtype in (torch.bfloat16, torch.float16) else None
    total = run.region.total(x.tensor.sum(sorted(dims), keepdim, dtype=wide))
    return (total / count).to(x.tensor.dtype)


def _adaptive_avg(run: Pass, x: Columns, output_size: Any) -> Value:
    if layers.pair(output_size) != (1, 1):
        raise CannotShard(
            f"output_size {output_size}: only the mean of the whole picture, 1, can be split"
        )
    return _mean(run, _picture(x), (2, 3), keepdim=True)


def _adaptive_max(run: Pass, x: Columns, output_size: Any, return_indices: bool = False) -> Value:
    if layers.pair(output_size) != (1, 1) or return_indices:
        raise CannotShard(
            f"output_size {output_size}: only the maximum of the whole picture, 1, can be split"
        )
    own = _picture(x).tensor.amax((2, 3), keepdim=True)
    return run.region.gather(own, 3, run.region.team.size).amax(3, keepdim=True)


def _gather(run: Pass, x: Columns) -> Tensor:
    return run.region.gather(x.tensor, x.dim, x.width)


def _flatten(run: Pass, x: Columns, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    return _gather(run, x).flatten(start_dim, end_dim)


# ---- columns independently -----------------------------------------------------------------------


def _pointwise(function: Callable[..., Tensor]) -> Rule:
    """Return the rule of an elementwise function.

    The function's other arguments may be columns, or have the same value for all columns.
    """

    def rule(run: Pass, *args: Any, **kwargs: Any) -> Columns:
        lead = max(
            (arg for arg in args if isinstance(arg, Columns)), key=lambda arg: arg.tensor.dim()
        )
        return lead.of(
            function(
                *(_match(lead, arg) for arg in args),
                **{k: _match(lead, v) for k, v in kwargs.items()},
            )
        )

    return rule


def _match(lead: Columns, arg: Any) -> Any:
    """Return an argument of an elementwise function whose first argument is columns."""
    if isinstance(arg, Columns):
        if (arg.dim - arg.tensor.dim(), arg.width) != (lead.dim - lead.tensor.dim(), lead.width):
            raise CannotShard(
                f"columns {tuple(arg.shape)} with columns {tuple(lead.shape)} of another width "
                "or axis"
            )
        return arg.tensor
    if isinstance(arg, Tensor):
        place = arg.dim() - (lead.tensor.dim() - lead.dim)
        if arg.dim() > lead.tensor.dim() or (place >= 0 and arg.shape[place] != 1):
            raise CannotShard(f"a whole tensor {tuple(arg.shape)} with columns {tuple(lead.shape)}")
    return arg


def _last_axes(run: Pass, x: Columns, count: int) -> Tensor:
    if x.dim >= x.tensor.dim() - count:
        raise CannotShard(f"works along the columns of {tuple(x.shape)}")
    return x.tensor


def _layer_norm(
    run: Pass, x: Columns, normalized_shape: Sequence[int], *args: Any, **kwargs: Any
) -> Columns:
    out: Tensor = F.layer_norm(
        _last_axes(run, x, len(normalized_shape)), list(normalized_shape), *args, **kwargs
    )
    return x.of(out)


def _linear(run: Pass, x: Columns, *args: Any, **kwargs: Any) -> Columns:
    return x.of(F.linear(_last_axes(run, x, 1), *args, **kwargs))


def _permute(run: Pass, x: Columns, *dims: Any) -> Columns:
    order = dims[0] if isinstance(dims[0], (tuple, list)) else dims
    return x.of(x.tensor.permute(*order), [d % x.tensor.dim() for d in order].index(x.dim))


def _cat(run: Pass, tensors: Sequence[Any], dim: int = 0) -> Columns:
    if not all(isinstance(part, Columns) for part in tensors):
        raise CannotShard("whole tensors with columns")
    lead, *_ = tensors
    if dim % lead.tensor.dim() in (0, lead.dim):
        raise CannotShard(f"concatenates pictures along axis {dim}")
    joined: Columns = lead.of(torch.cat([_match(lead, part) for part in tensors], dim))
    return joined


# ---- random numbers ------------------------------------------------------------------------------


def _apply_mask(run: Pass, x: Columns, shape: Sequence[int], draw: Callable[[], Tensor]) -> Columns:
    """Multiply by a mask that rank 0 draws for all columns, as a single process would."""
    team = run.region.team
    mask = team.broadcast(draw() if team.rank == 0 else x.tensor.new_empty(shape))
    if mask.shape[x.dim] != 1:
        first, end = split(x.width, team.size)[team.rank]
        mask = mask.narrow(x.dim, first, end - first)
    return x.of(x.tensor * mask)


def _dropout(run: Pass, x: Columns, p: float, training: bool, inplace: bool = False) -> Columns:
    if not (training and p):
        return x
    return _apply_mask(run, x, x.shape, lambda: F.dropout(x.tensor.new_ones(x.shape), p))


def _dropout2d(run: Pass, x: Columns, p: float, training: bool, inplace: bool = False) -> Columns:
    if not (training and p):
        return x
    shape = (*_picture(x).shape[:2], 1, 1)
    return _apply_mask(run, x, shape, lambda: F.dropout(x.tensor.new_ones(shape), p))


def _drop_path(run: Pass, layer: DropPath, name: str, x: Columns) -> Columns:
    if not (layer.training and layer.rate):
        return x
    shape = [x.shape[0]] + [1] * (len(x.shape) - 1)
    return _apply_mask(run, x, shape, lambda: layer.mask(x.tensor))


def _attribute(x: Columns, name: str) -> Any:
    if name == "shape":
        return x.shape
    if name not in ("dtype", "device", "ndim"):
        raise CannotShard(f"reads the attribute {name} of columns")
    return getattr(x.tensor, name)


# ---- the tables ----------------------------------------------------------------------------------


def _conv_layer(run: Pass, layer: nn.Conv2d, name: str, x: Columns) -> Columns:
    if layer.padding_mode != "zeros" and layer.padding not in ((0, 0), "valid"):
        raise CannotShard(f"padding_mode {layer.padding_mode!r}: only zeros")
    of = run.of(name, layer)
    return _conv2d(
        run,
        x,
        of["weight"],
        of.get("bias"),
        layer.stride,
        layer.padding,
        layer.dilation,
        layer.groups,
    )


def _max_pool_layer(run: Pass, layer: nn.MaxPool2d, name: str, x: Columns) -> Columns:
    settings = layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.ceil_mode
    return _max_pool2d(run, x, *settings, return_indices=layer.return_indices)


def _avg_pool_layer(run: Pass, layer: nn.AvgPool2d, name: str, x: Columns) -> Columns:
    settings = (
        layer.kernel_size,
        layer.stride,
        layer.padding,
        layer.ceil_mode,
        layer.count_include_pad,
        layer.divisor_override,
    )
    return _avg_pool2d(run, x, *settings)


def _group_norm_layer(run: Pass, layer: nn.GroupNorm, name: str, x: Columns) -> Columns:
    of = run.of(name, layer)
    y = norms.group_norm(
        _picture(x).tensor,
        run.region.team,
        layer.num_groups,
        of.get("weight"),
        of.get("bias"),
        layer.eps,
    )
    return x.of(y)


def _batch_norm_layer(run: Pass, layer: nn.BatchNorm2d, name: str, x: Columns) -> Columns:
    of = run.of(name, layer)
    return x.of(
        norms.batch_norm(
            _picture(x).tensor, run.region.team, layer, of.get("weight"), of.get("bias")
        )
    )


def _alone(run: Pass, layer: nn.Module, name: str, x: Columns) -> Columns:
    """Apply a layer that works on each column independently."""
    out: Tensor = torch.func.functional_call(layer, run.of(name, layer), (x.tensor,))
    return x.of(out)


def _on_last_axes(run: Pass, layer: Any, name: str, x: Columns) -> Columns:
    _last_axes(run, x, len(layer.normalized_shape) if isinstance(layer, nn.LayerNorm) else 1)
    return _alone(run, layer, name, x)


# Rules by layer, called with the pass, the layer, its name and columns.
LAYERS: dict[type[nn.Module], Rule] = {
    nn.Conv2d: _conv_layer,
    nn.MaxPool2d: _max_pool_layer,
    nn.AvgPool2d: _avg_pool_layer,
    nn.GroupNorm: _group_norm_layer,
    nn.BatchNorm2d: _batch_norm_layer,
    nn.LayerNorm: _on_last_axes,
    nn.Linear: _on_last_axes,
    LayerNorm2d: lambda run, layer, name, x: _alone(run, layer, name, _picture(x)),
    DropPath: _drop_path,
    nn.Dropout: lambda run, layer, name, x: _dropout(run, x, layer.p, layer.training),
    nn.Dropout2d: lambda run, layer, name, x: _dropout2d(run, x, layer.p, layer.training),
    nn.AdaptiveAvgPool2d: lambda run, layer, name, x: _adaptive_avg(run, x, layer.output_size),
    nn.AdaptiveMaxPool2d: lambda run, layer, name, x: _adaptive_max(
        run, x, layer.output_size, layer.return_indices
    ),
    nn.Flatten: lambda run, layer, name, x: _flatten(run, x, layer.start_dim, layer.end_dim),
    Gather: lambda run, layer, name, x: _gather(run, x),
}
_EACH = (
    "Identity ReLU ReLU6 LeakyReLU PReLU ELU CELU SELU GELU SiLU Mish Sigmoid Tanh Hardtanh "
    "Hardswish Hardsigmoid Softplus"
)
LAYERS |= {getattr(nn, name): _alone for name in _EACH.split()}

# Rules by function, or by name of a method; called with the pass and the function's own arguments,
# of which one or more are columns.
FUNCTIONS: dict[Any, Rule] = {
    F.conv2d: _conv2d,
    F.max_pool2d: _max_pool2d,
    F.avg_pool2d: _avg_pool2d,
    F.adaptive_avg_pool2d: _adaptive_avg,
    F.adaptive_max_pool2d: _adaptive_max,
    F.layer_norm: _layer_norm,
    F.linear: _linear,
    F.dropout: _dropout,
    F.dropout2d: _dropout2d,
    torch.mean: _mean,
    "mean": _mean,
    torch.flatten: _flatten,
    "flatten": _flatten,
    torch.permute: _permute,
    "permute": _permute,
    torch.cat: _cat,
    getattr: lambda run, x, name: _attribute(x, name),
    "size": lambda run, x, dim=None: x.shape if dim is None else x.shape[dim],
    "dim": lambda run, x: x.tensor.dim(),
}
_EACH = (
    "relu relu6 leaky_relu elu gelu silu mish sigmoid tanh hardtanh hardswish hardsigmoid softplus"
)
FUNCTIONS |= {getattr(F, name): _pointwise(getattr(F, name)) for name in _EACH.split()}
_EACH = "relu sigmoid tanh add sub mul div neg clamp exp abs square sqrt"
FUNCTIONS |= {getattr(torch, name): _pointwise(getattr(torch, name)) for name in _EACH.split()}
_METHODS = f"{_EACH} relu_ add_ mul_ contiguous float to"
FUNCTIONS |= {name: _pointwise(getattr(Tensor, name)) for name in _METHODS.split()}
_EACH = "add sub mul truediv neg iadd isub imul"
FUNCTIONS |= {
    getattr(operator, name): _pointwise(getattr(operator, name)) for name in _EACH.split()
}
