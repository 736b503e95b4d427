# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Define policies for pictures: convolutions over rasters, a linear layer, heads.

    a picture     --  view (C, H, W), scaled to 0..1 on the device  --  convolutions
                      --  Linear, ReLU  --+
    other leaves  --  encoder.py          |
                      --  Linear, ReLU  --+--  trunk, heads

A row that is a single picture has no trunk. Pictures are transferred to the device as bytes and
become floats there. This holds for C and Python envs: `leaves.group_views` lists the leaves of
both. The convolutions are a few strided ones (cnn) or a ConvNeXt (convnext).

This is stop 7 of an observation's path from env to policy. Runs in the learner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from puffervec.core.spec import FEWEST_PIXELS, GroupSpec
from puffervec.errors import ConfigError
from puffervec.train.config.sections import PolicySection
from puffervec.train.policies.convnext import ConvNeXt
from puffervec.train.policies.encoder import RowEncoder
from puffervec.train.policies.leaves import EntryView, Observations, View, group_views
from puffervec.train.policies.mlp import NetworkPolicy, linear, mlp
from puffervec.workers.python.emulation.layout import Leaf

MOST_CHANNELS = 16  # Along the first or last axis.
LAYER_SCALE = 0.1  # Initial gamma of ConvNeXt blocks: networks are small, with no long warm-up.

Shape = tuple[int, int, int]
# The arguments are a network, pictures as observed (N, C, H, W), and a function that turns them
# into the network's input; the result is the network's output.
Convolve = Callable[[nn.Module, Tensor, Callable[[Tensor], Tensor]], Tensor]


def convolve(network: nn.Module, pictures: Tensor, prepare: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply convolutions to pictures.

    A wing may replace a policy's `convolve` by another function of this type.
    """
    out: Tensor = network(prepare(pictures))
    return out


def picture_shape(shape: tuple[int, ...]) -> Shape | None:
    """Return (channels, height, width) of an array that can be a picture, otherwise None.

    A picture has two axes, or three of which the last or the first is short (channels).
    """
    if len(shape) == 2:
        shape = (1, *shape)
    if len(shape) != 3:
        return None
    chw = (
        (shape[2], shape[0], shape[1]) if _channels_last(shape) else (shape[0], shape[1], shape[2])
    )
    return chw if chw[0] <= MOST_CHANNELS and min(chw[1:]) >= FEWEST_PIXELS else None


def _channels_last(shape: tuple[int, ...]) -> bool:
    return shape[2] <= MOST_CHANNELS and shape[2] <= shape[0]


def has_pictures(group: GroupSpec) -> bool:
    """Return whether some leaf of the group's rows is a picture of bytes."""
    if group.observation_plan is None and not any(field.keeps_shape for field in group.fields):
        return False  # A C env's table of objects is not a picture.
    return any(
        view.leaf.dtype == np.uint8 and picture_shape(view.leaf.shape) is not None
        for view in group_views(group)
    )


def _is_picture(leaf: Leaf) -> bool:
    """Return whether picture policies treat a leaf as a picture: bytes, or three axes."""
    return (leaf.dtype == np.uint8 or len(leaf.shape) == 3) and picture_shape(
        leaf.shape
    ) is not None


def cnn(group: GroupSpec, section: PolicySection) -> NetworkPolicy:
    """Return strided convolutions over pictures; see `picture_policy`."""
    return picture_policy(group, section)


def convnext(group: GroupSpec, section: PolicySection) -> NetworkPolicy:
    """Return a small ConvNeXt over pictures; see `picture_policy`."""
    return picture_policy(group, section)


def picture_policy(group: GroupSpec, section: PolicySection) -> NetworkPolicy:
    """Return the policy of the kind cnn or convnext that fits the group's rows.

    Leaves other than pictures get separate layers.

    Raises:
        ConfigError: The rows have no picture.
    """
    views = group_views(group)
    if len(views) == 1 and picture_shape(views[0].leaf.shape) is not None:
        return ConvolutionPolicy(group, section)
    if any(_is_picture(view.leaf) for view in views):
        return MixedPolicy(group, section)
    raise ConfigError(
        f"policy.kind is {section.kind}, but rows of {group.name} have no picture of at least 8 x "
        "8 pixels"
    )


class _Picture:
    """A picture's place in the rows, and its conversion to (N, C, H, W) of about 0 to 1."""

    def __init__(self, view: View) -> None:
        raw, shape = view.leaf.shape, picture_shape(view.leaf.shape)
        assert shape is not None
        self.view, self.shape = view, shape
        self.raw_shape = (1, *raw) if len(raw) == 2 else raw
        self.channels_last = len(raw) == 3 and _channels_last(raw)
        self.scale = 1 / 255 if view.leaf.dtype == np.uint8 else 1.0

    def __call__(self, obs: Observations) -> tuple[Tensor, tuple[int, ...]]:
        """Return (N, C, H, W) as observed, and the leading axes that became N."""
        flat = self.view(obs)
        pictures = flat.reshape(-1, *self.raw_shape)
        if self.channels_last:
            pictures = pictures.permute(0, 3, 1, 2)
        return pictures, tuple(flat.shape[:-1])

    def numbers(self, pictures: Tensor) -> Tensor:
        """Return the input of the convolutions."""
        return pictures.to(torch.get_default_dtype()) * self.scale


class ConvolutionPolicy(NetworkPolicy):
    """A policy for rows that are one picture."""

    def __init__(self, group: GroupSpec, section: PolicySection) -> None:
        """Create the network.

        Args:
            group: Its rows are one picture.
            section: `channels` and `hidden` (the first width) are read.
        """
        super().__init__()
        self.picture = _Picture(group_views(group)[0])
        self.convolve: Convolve = convolve
        self.convolutions = _convolutions(self.picture.shape, section)
        self.trunk = _behind(self.convolutions, self.picture.shape, section.hidden[0])
        self.finish(section.hidden[0], group, section)

    def features(self, obs: Observations) -> Tensor:
        """Return the trunk's output, (..., width)."""
        pictures, lead = self.picture(obs)
        out: Tensor = self.trunk(
            self.convolve(self.convolutions, pictures, self.picture.numbers).flatten(1)
        )
        return out.view(*lead, out.shape[-1])

    def networks(self) -> list[tuple[nn.Module, Shape]]:
        """Return the convolutions, with the shape of their pictures."""
        return [(self.convolutions, self.picture.shape)]

    def use_entries(self, entries: Mapping[tuple[Any, ...], EntryView]) -> None:
        """Read leaves from a dict of tensors from now on.

        Args:
            entries: The reader of each leaf, by the leaf's path.
        """
        self.picture.view = entries[self.picture.view.leaf.path]


class MixedPolicy(NetworkPolicy):
    """A policy for pictures and other leaves.

    Each picture has its own convolutions; the other leaves share one layer.
    """

    def __init__(self, group: GroupSpec, section: PolicySection) -> None:
        """Create the network.

        Args:
            group: Its rows have a picture.
            section: `channels`, `hidden` and `normalize` are read.
        """
        super().__init__()
        width, views = section.hidden[0], group_views(group)
        self.convolve: Convolve = convolve
        self.pictures = [_Picture(view) for view in views if _is_picture(view.leaf)]
        self.eyes = nn.ModuleList()
        for picture in self.pictures:
            convolutions = _convolutions(picture.shape, section)
            self.eyes.append(
                nn.Sequential(
                    convolutions, nn.Flatten(), _behind(convolutions, picture.shape, width)
                )
            )
        others = [view for view in views if not _is_picture(view.leaf)]
        self.encoder: RowEncoder | None = None
        if others:
            self.encoder = RowEncoder(others, section.normalize)
            self.vector = mlp((self.encoder.features, width))
        self.trunk = mlp((width * (len(self.pictures) + bool(others)), *section.hidden))
        self.finish(section.hidden[-1], group, section)

    def features(self, obs: Observations) -> Tensor:
        """Return the trunk's output, (..., width)."""
        parts = []
        for picture, eye in zip(self.pictures, self.eyes, strict=True):
            pictures, lead = picture(obs)
            convolutions, *rest = cast(nn.Sequential, eye)
            x = self.convolve(convolutions, pictures, picture.numbers)
            for layer in rest:
                x = layer(x)
            parts.append(x.view(*lead, x.shape[-1]))
        if self.encoder is not None:
            parts.append(self.vector(self.encoder(obs).to(torch.get_default_dtype())))
        out: Tensor = self.trunk(torch.cat(parts, dim=-1))
        return out

    def networks(self) -> list[tuple[nn.Module, Shape]]:
        """Return the convolutions of each picture, with the shape of their pictures."""
        pairs = zip(self.pictures, self.eyes, strict=True)
        return [(cast(nn.Sequential, eye)[0], picture.shape) for picture, eye in pairs]

    def use_entries(self, entries: Mapping[tuple[Any, ...], EntryView]) -> None:
        """Read leaves from a dict of tensors from now on.

        Args:
            entries: The reader of each leaf, by the leaf's path.
        """
        for picture in self.pictures:
            picture.view = entries[picture.view.leaf.path]
        if self.encoder is not None:
            self.encoder.use_entries(entries)


def _behind(convolutions: nn.Module, shape: Shape, width: int) -> nn.Sequential:
    """Return the layer that follows flattened convolutions over pictures of this shape."""
    with torch.no_grad():
        features = convolutions(torch.zeros(1, *shape)).numel()
    return nn.Sequential(linear(features, width), nn.ReLU(inplace=True))


def _convolutions(shape: Shape, section: PolicySection) -> nn.Module:
    """Return the convolutions of a policy's kind: a ConvNeXt without classes, or strided ones."""
    if section.kind != "convnext":
        return _strided(shape, section.channels)
    size, stages = min(shape[1:]), len(section.channels)
    patch = next((patch for patch in (4, 2, 1) if size // patch >> (stages - 1)), 0)
    if not patch:
        raise ConfigError(
            f"policy.channels has {stages} stages, each of which halves a picture of {size} "
            "pixels: give fewer"
        )
    depths = section.depths or (1,) * stages
    return ConvNeXt(
        shape[0],
        0,
        depths,
        section.channels,
        patch,
        drop_path=section.drop_path,
        layer_scale=LAYER_SCALE,
    )


def _strided(shape: Shape, channels: tuple[int, ...]) -> nn.Sequential:
    """Return a convolution and ReLU for each width of `channels`.

    A convolution divides height and width by about 4 from 64 pixels on, as in Mnih et al. 2015
    ("Human-level control"), and by about 2 from 8 pixels on; smaller inputs get stride 1.
    """
    layers: list[nn.Module] = []
    before, size = shape[0], min(shape[1:])
    for width in channels:
        kernel, stride = (
            (8, 4) if size >= 64 else (4, 2) if size >= 8 else (3, 1) if size >= 3 else (1, 1)
        )
        layer = nn.Conv2d(before, width, kernel, stride)
        nn.init.orthogonal_(layer.weight, 2**0.5)
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.ReLU(inplace=True)]
        before, size = width, (size - kernel) // stride + 1
    return nn.Sequential(*layers)
