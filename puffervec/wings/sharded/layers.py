# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Functions like those of torch.nn.functional, for pictures of which each rank has some columns.

    y = conv2d(Columns(x, 3, width), team, weight, bias, padding=1)
    x: (N, C, H, own columns) of columns.split(width, ranks)

Their arguments and results are `Columns`. All ranks of the team must call them in the same order.
Gradients of parameters are those of a rank's own columns: parts of a sum over the ranks.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor, nn

from puffervec.errors import ConfigError
from puffervec.wings.sharded.columns import Window, split
from puffervec.wings.sharded.exchange import AveragePool, Convolution, MaxPool, Pair, windowed
from puffervec.wings.sharded.team import Team

Size = int | tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Columns:
    """This rank's columns of a tensor.

    Attributes:
        tensor: the columns.
        dim: the axis along which they lie, counted from the first.
        width: width of all columns together.
    """

    tensor: Tensor
    dim: int
    width: int

    def of(self, tensor: Tensor, dim: int | None = None) -> Columns:
        """Return another tensor as `Columns` of the same width."""
        return Columns(tensor, self.dim if dim is None else dim, self.width)

    @property
    def shape(self) -> torch.Size:
        """Shape of all columns together."""
        return torch.Size(
            self.width if dim == self.dim else size for dim, size in enumerate(self.tensor.shape)
        )


def pair(size: Size) -> Pair:
    """Return a size as (height, width)."""
    return (size, size) if isinstance(size, int) else (size[0], size[-1])


def out_size(
    size: int, kernel: int, stride: int, padding: int, dilation: int = 1, ceil_mode: bool = False
) -> int:
    """Return the number of window positions, as in torch.nn.Conv2d and torch.nn.MaxPool2d."""
    rest = size + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return rest // stride + 1
    places = -(-rest // stride) + 1
    # A window must begin within the picture.
    return places - 1 if (places - 1) * stride >= size + padding else places


def conv2d(
    x: Columns,
    team: Team,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Columns:
    """Return this rank's columns of a convolution, with the arguments of F.conv2d.

    Raises:
        WidthError: see `split`.
        ConfigError: padding is "same" and the kernel has an even height.
    """
    (step_h, step_w), (dil_h, dil_w) = pair(stride), pair(dilation)
    kernel_h, kernel_w = weight.shape[2:]
    if padding == "same":  # As many outputs as inputs; an unpaired zero goes to the right.
        if dil_h * (kernel_h - 1) % 2:
            raise ConfigError(
                f"padding 'same' with a kernel of height {kernel_h}: pad the height before, or use "
                "an odd kernel height"
            )
        (pad_h, pad_w), out_width = (
            (dil_h * (kernel_h - 1) // 2, dil_w * (kernel_w - 1) // 2),
            x.width,
        )
    else:
        pad_h, pad_w = (0, 0) if isinstance(padding, str) else pair(padding)
        out_width = out_size(x.width, kernel_w, step_w, pad_w, dil_w)
    own, device = x.tensor, x.tensor.device.type
    if torch.is_autocast_enabled(device):
        kind = torch.get_autocast_dtype(device)
        own, weight, bias = own.to(kind), weight.to(kind), None if bias is None else bias.to(kind)
    layer, window = (
        Convolution((step_h, step_w), pad_h, (dil_h, dil_w), groups),
        Window(kernel_w, step_w, pad_w, dil_w),
    )
    with torch.autocast(device, enabled=False):
        return _picture(
            windowed(layer, window, x.width, out_width, team, own, weight, bias), out_width
        )


def max_pool2d(
    x: Columns,
    team: Team,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> Columns:
    """Return this rank's columns of max pooling. Raises: WidthError."""
    kernel, step, pad, dil = (
        pair(kernel_size),
        pair(kernel_size if stride is None else stride),
        pair(padding),
        pair(dilation),
    )
    out_width = out_size(x.width, kernel[1], step[1], pad[1], dil[1], ceil_mode)
    layer, window = (
        MaxPool(kernel, step, pad[0], dil, ceil_mode),
        Window(kernel[1], step[1], pad[1], dil[1]),
    )
    return _picture(windowed(layer, window, x.width, out_width, team, x.tensor), out_width)


def avg_pool2d(
    x: Columns,
    team: Team,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Columns:
    """Return this rank's columns of average pooling. Raises: WidthError."""
    kernel, step, pad = (
        pair(kernel_size),
        pair(kernel_size if stride is None else stride),
        pair(padding),
    )
    out_width = out_size(x.width, kernel[1], step[1], pad[1])
    counted = count_include_pad or divisor_override is not None
    layer = AveragePool(kernel, step, pad[0], divisor_override if counted else 1)
    means = windowed(layer, Window(kernel[1], step[1], pad[1]), x.width, out_width, team, x.tensor)
    if not counted:
        first, end = split(out_width, team.size)[team.rank]
        ones = means.new_ones(1, x.tensor.shape[2], x.width)
        means = (
            means
            / nn.functional.avg_pool2d(ones, kernel, step, pad, divisor_override=1)[..., first:end]
        )
    return _picture(means, out_width)


def _picture(tensor: Tensor, width: int) -> Columns:
    return Columns(tensor, 3, width)
