# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Define ConvNeXt of any depth and width (Liu et al. 2022), with timm's parameter names.

    stem: 4x4 convolution, stride 4, LayerNorm
    stages.I: (LayerNorm, 2x2 convolution, stride 2, from the second stage on), then blocks:
        x + drop_path(gamma * (depthwise 7x7, LayerNorm, Linear to 4 times as many channels, GELU,
                               Linear back))
    head: global mean, LayerNorm, Linear

Hence `load_state_dict` accepts the weights of `timm.create_model("convnext_tiny")` and its variants
unchanged. The classes are plain modules of one process; `shard_cnn` splits them like any other
network. Source: "A ConvNet for the 2020s".
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from puffervec.errors import ConfigError


class LayerNorm2d(nn.LayerNorm):
    """LayerNorm over the channels of (N, C, H, W)."""

    def __init__(self, channels: int, eps: float = 1e-6) -> None:
        """Create the layer.

        Args:
            channels: C.
            eps: Added to the variance.
        """
        super().__init__(channels, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each pixel."""
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class DropPath(nn.Module):
    """A layer that drops samples of a residual branch while training, and scales up the others.

    It draws one number per sample from torch's global generator, wherever the sample's columns are.
    Source: Huang et al. 2016, "Deep networks with stochastic depth".
    """

    def __init__(self, rate: float) -> None:
        """Set the rate.

        Args:
            rate: Share of the samples that are dropped, at least 0 and below 1.
        """
        super().__init__()
        if not 0 <= rate < 1:
            raise ConfigError(f"drop path: rate is {rate}: must be at least 0 and below 1")
        self.rate = rate

    def mask(self, x: Tensor) -> Tensor:
        """Draw the factors of the samples, (N, 1, ...)."""
        mask = x.new_empty(x.shape[0], *[1] * (x.dim() - 1)).bernoulli_(1 - self.rate)
        return mask.div_(1 - self.rate)

    def forward(self, x: Tensor) -> Tensor:
        """Multiply by the mask while training."""
        return x * self.mask(x) if self.training and self.rate > 0 else x

    def extra_repr(self) -> str:
        return f"{self.rate:g}"


class _Mlp(nn.Module):
    """Two linear layers over the last axis."""

    def __init__(self, width: int, ratio: int) -> None:
        super().__init__()
        self.fc1, self.act, self.fc2 = (
            nn.Linear(width, ratio * width),
            nn.GELU(),
            nn.Linear(ratio * width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc2(self.act(self.fc1(x)))
        return out


class ConvNeXtBlock(nn.Module):
    """A residual block; see the top of this file."""

    def __init__(
        self,
        width: int,
        kernel: int = 7,
        layer_scale: float = 1e-6,
        drop_path: float = 0.0,
        ratio: int = 4,
    ) -> None:
        """Create the layers.

        Args:
            width: Channels.
            kernel: Odd.
            layer_scale: Initial gamma.
            drop_path: Rate, see DropPath.
            ratio: Hidden width of the MLP / its input width.
        """
        super().__init__()
        self.conv_dw = nn.Conv2d(width, width, kernel, padding=kernel // 2, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.mlp = _Mlp(width, ratio)
        self.gamma = nn.Parameter(torch.full((width,), layer_scale))
        self.drop_path = DropPath(drop_path) if drop_path else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, C, H, W) to the same shape."""
        y = self.mlp(self.norm(self.conv_dw(x).permute(0, 2, 3, 1))) * self.gamma
        out: Tensor = self.drop_path(y.permute(0, 3, 1, 2)) + x
        return out


class _Stage(nn.Module):
    def __init__(
        self,
        before: int,
        width: int,
        rates: Sequence[float],
        kernel: int,
        layer_scale: float,
        first: bool,
    ) -> None:
        super().__init__()
        down = (LayerNorm2d(before), nn.Conv2d(before, width, 2, 2))
        self.downsample = nn.Identity() if first else nn.Sequential(*down)
        self.blocks = nn.Sequential(
            *(ConvNeXtBlock(width, kernel, layer_scale, rate) for rate in rates)
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.blocks(self.downsample(x))
        return out


class _Head(nn.Module):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.global_pool = nn.AdaptiveAvgPool2d(1)
        self.norm = LayerNorm2d(width)
        self.flatten = nn.Flatten(1)
        self.fc = nn.Linear(width, classes) if classes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(self.flatten(self.norm(self.global_pool(x))))
        return out


class ConvNeXt(nn.Module):
    """The network; see the top of this file."""

    def __init__(
        self,
        in_channels: int = 3,
        classes: int = 1000,
        depths: Sequence[int] = (3, 3, 9, 3),
        dims: Sequence[int] = (96, 192, 384, 768),
        patch: int = 4,
        kernel: int = 7,
        drop_path: float = 0.0,
        layer_scale: float = 1e-6,
    ) -> None:
        """Create a network with fresh weights; the defaults are those of ConvNeXt-T.

        Args:
            classes: Outputs; 0 for the features of the last stage.
            depths: Blocks per stage.
            dims: Channels per stage.
            patch: Size and stride of the stem.
            kernel: Size of the depthwise convolutions, odd.
            drop_path: Rate of the last block; the first has 0.

        Raises:
            ConfigError: The sizes cannot work.
        """
        super().__init__()
        if (
            len(depths) != len(dims)
            or not dims
            or min(*depths, *dims, patch, in_channels) < 1
            or kernel % 2 == 0
        ):
            raise ConfigError(
                f"convnext: depths {list(depths)}, dims {list(dims)}, patch {patch}, kernel "
                f"{kernel}: give as many depths as dims, all at least 1, and an odd kernel"
            )
        self.features = dims[-1]
        self.stem = nn.Sequential(
            nn.Conv2d(in_channels, dims[0], patch, patch), LayerNorm2d(dims[0])
        )
        count, stages, before = sum(depths), [], dims[0]
        for index, (depth, width) in enumerate(zip(depths, dims, strict=True)):
            done = sum(depths[:index])
            rates = [drop_path * (done + place) / max(1, count - 1) for place in range(depth)]
            stages.append(_Stage(before, width, rates, kernel, layer_scale, index == 0))
            before = width
        self.stages = nn.Sequential(*stages)
        self.head = _Head(before, classes)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.trunc_normal_(module.weight, std=0.02)
                assert module.bias is not None
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, channels, H, W) to (N, classes), or (N, dims[-1]) without classes."""
        out: Tensor = self.head(self.stages(self.stem(x)))
        return out
