# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A policy for pictures: strided convolutions over rasters, a linear layer, heads. Path stop 7; runs in the learner.

    rows as they stand (bytes)  --  view (C, H, W), scaled to 0..1 on the device  --  conv, ReLU, ...  --  Linear  --  heads

A row that is one picture crosses to the device as its bytes; only there it becomes numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from puffervec.errors import ConfigError
from puffervec.spec import GroupSpec
from puffervec.train.config import PolicySection
from puffervec.train.policy import NetworkPolicy, Observation, linear

FEWEST_PIXELS = 8  # a side; smaller tables are matrices, not pictures
MOST_CHANNELS = 16  # along the first or last axis


def picture_shape(group: GroupSpec) -> tuple[int, int, int] | None:
    """Return (channels, height, width) of a row that is one picture, None where it is not.

    A picture has two axes, or three of which the first or the last is short (channels).
    """
    plan = group.observation_plan
    if plan is not None:
        shape = plan.row_shape if plan.is_flat else ()
    else:
        shape = tuple(group.fields[0].shape) if len(group.fields) == 1 else ()
    if len(shape) == 2:
        shape = (1, *shape)
    if len(shape) != 3:
        return None
    found = (shape[2], shape[0], shape[1]) if _channels_last(shape) else shape
    return found if found[0] <= MOST_CHANNELS and min(found[1:]) >= FEWEST_PIXELS else None


def _channels_last(shape: tuple[int, ...]) -> bool:
    return shape[2] <= MOST_CHANNELS and shape[2] <= shape[0]


class ConvolutionPolicy(NetworkPolicy):
    """Three strided convolutions as in Mnih et al. 2015 ("Human-level control"); small pictures get smaller kernels."""

    def __init__(self, group: GroupSpec, section: PolicySection) -> None:
        """Args: group: whose rows are one picture; section: `channels` and `hidden` (the first width) are read.

        Raises: ConfigError where the rows are no pictures.
        """
        super().__init__()
        shape = picture_shape(group)
        if shape is None:
            raise ConfigError(f"policy.kind is cnn, but rows of {group.name} are no pictures of at least 8 x 8 points")
        plan = group.observation_plan
        raw = plan.row_shape if plan is not None else tuple(group.fields[0].shape)
        self.raw_shape = (1, *raw) if len(raw) == 2 else raw
        self.channels_last = len(raw) == 3 and _channels_last(raw)
        self.field = group.fields[0].name if plan is None else ""
        self.convolutions = _convolutions(shape, section.channels)
        with torch.no_grad():
            features = self.convolutions(torch.zeros(1, *shape)).numel()
        self.trunk = nn.Sequential(linear(features, section.hidden[0]), nn.ReLU(inplace=True))
        self.finish(section.hidden[0], group, section)

    def features(self, obs: Observation) -> Tensor:
        """The trunk's output: (..., width)."""
        rows = obs[self.field] if isinstance(obs, dict) else obs
        lead = rows.shape[: rows.dim() - (1 if not isinstance(obs, dict) else len(self.raw_shape))]
        pictures = rows.reshape(-1, *self.raw_shape)
        if self.channels_last:
            pictures = pictures.permute(0, 3, 1, 2)
        scale = 1 / 255 if pictures.dtype == torch.uint8 else 1.0
        out: Tensor = self.trunk(self.convolutions(pictures.to(torch.get_default_dtype()) * scale).flatten(1))
        return out.view(*lead, -1)


def _convolutions(shape: tuple[int, int, int], channels: tuple[int, ...]) -> nn.Sequential:
    """Return conv and ReLU per width of `channels`, each halving height and width (of large pictures: quartering)."""
    layers: list[nn.Module] = []
    before, size = shape[0], min(shape[1:])
    for width in channels:
        kernel, stride = (8, 4) if size >= 64 else (4, 2) if size >= 8 else (3, 1) if size >= 3 else (1, 1)
        layer = nn.Conv2d(before, width, kernel, stride)
        nn.init.orthogonal_(layer.weight, 2**0.5)
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.ReLU(inplace=True)]
        before, size = width, (size - kernel) // stride + 1
    return nn.Sequential(*layers)
