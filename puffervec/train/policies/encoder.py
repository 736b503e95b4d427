# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Turn observation rows into a network's inputs of about 1 in size: the first stage of MLPPolicy.

    leaf                              features
    Box uint8 with bounds 0 and 255   x / 255
    Box with finite bounds            -1 at low to 1 at high, per element (a range above 1e6 does
                                      not count as bounds)
    other numbers of a Box            (x - mean) / standard deviation over the run, clipped to
                                      -10..10
    Discrete, MultiDiscrete           one-hot if a leaf has at most 1,024 choices in all, otherwise
                                      -1 (first) to 1 (last)
    MultiBinary, Box of bool          0 or 1

A field of a C env is a Box. With `policy.normalize` off the numbers of Boxes stay as they are
(except for uint8 images). The statistics are buffers of the policy, so its checkpoints hold them.
They change after an update (`observe`), so that a rollout and its update use the same ones, with
two exceptions: the first update, whose rollout had none, and `train.asynchronous`, whose rollouts
use those from one update before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from puffervec.train.policies.leaves import EntryView, Observations, View
from puffervec.workers.python.emulation.layout import Leaf

if TYPE_CHECKING:
    from puffervec.train.device.ranks import Ranks

# Bounds further apart say nothing about usual values (CartPole's 3.4e38).
WIDEST_RANGE = 1e6
MOST_CHOICES = 1024  # One-hot features of one leaf.
PIECE_NUMBERS = 2**22
FARTHEST = 10.0  # Standard deviations.


@dataclasses.dataclass(frozen=True)
class _Sample:
    """Statistics of `count` rows: mean and mean square deviation, (features,) float64 each."""

    count: int
    mean: Tensor
    square: Tensor

    @classmethod
    def of(cls, numbers: Tensor) -> _Sample:
        """Return the statistics of (n, features) float64 numbers."""
        square, mean = torch.var_mean(numbers, dim=0, correction=0)
        return cls(len(numbers), mean, square)

    @classmethod
    def from_lists(
        cls, like: Tensor, count: int, mean: list[float], square: list[float]
    ) -> _Sample:
        """Return another rank's sample, on the device of `like`."""
        return cls(count, like.new_tensor(mean), like.new_tensor(square))


class RowEncoder(nn.Module):
    """An encoder of the leaves of observation rows to features (..., features) float32."""

    scale: Tensor
    offset: Tensor
    running: Tensor
    count: Tensor
    mean: Tensor
    square: Tensor

    def __init__(self, views: Sequence[View], normalize: bool) -> None:
        """Prepare scales and statistics.

        Args:
            views: The leaves.
            normalize: Scale the numbers of Boxes.
        """
        super().__init__()
        self.parts = [(view, _choices(view.leaf)) for view in views]
        scales = [_scales(view.leaf, choices, normalize) for view, choices in self.parts]
        self.features = sum(len(scale) for scale, _, _ in scales)
        for name, index in (("scale", 0), ("offset", 1), ("running", 2)):
            self.register_buffer(
                name,
                torch.from_numpy(np.concatenate([part[index] for part in scales])),
                persistent=False,
            )
        self.adapts = bool(self.running.any())
        self.scaled = bool((self.scale != 1).any() or (self.offset != 0).any())
        # Statistics of the raw numbers: count of rows, mean and mean square deviation.
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(self.features, dtype=torch.float64))
        self.register_buffer("square", torch.ones(self.features, dtype=torch.float64))

    def forward(self, obs: Observations) -> Tensor:
        """Encode observations in the layout of the storage."""
        numbers = self._numbers(obs)
        if self.scaled:
            numbers = numbers * self.scale + self.offset
        if self.adapts:
            spread = (self.square + 1e-8).rsqrt()
            normal = (numbers - self.mean.float()) * spread.float()
            numbers = torch.where(self.running, normal.clamp(-FARTHEST, FARTHEST), numbers)
        return numbers

    def use_entries(self, entries: Mapping[tuple[Any, ...], EntryView]) -> None:
        """Read leaves from a dict of tensors from now on.

        Args:
            entries: The reader of each leaf, by the leaf's path.
        """
        self.parts = [(entries[view.leaf.path], choices) for view, choices in self.parts]

    def _numbers(self, obs: Observations) -> Tensor:
        """Return the leaves concatenated, choices one-hot, before scaling."""
        parts = []
        for view, choices in self.parts:
            values = view(obs)
            parts.append(values.float() if choices is None else _one_hot(values, choices))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    @torch.no_grad()
    def observe(self, obs: Observations, seen: Tensor, ranks: Ranks | None = None) -> None:
        """Add the rows of a rollout to the statistics, in pieces that need little memory.

        Rows with a number that is not finite are left out: a single one would spoil the statistics
        for good.

        Args:
            obs: (T, R, ...) each.
            seen: (T, R) bool, the rows that count.
            ranks: The ranks whose rollouts are merged; all get the same statistics.
        """
        if not self.adapts:
            return
        rows = (_finite(self._numbers(piece)[mask]) for piece, mask in self._pieces(obs, seen))
        pieces = [_Sample.of(numbers.double()) for numbers in rows if len(numbers)]
        if ranks is not None and ranks.size > 1:
            lists = [[piece.count, piece.mean.tolist(), piece.square.tolist()] for piece in pieces]
            pieces = [
                _Sample.from_lists(self.mean, *piece)
                for part in ranks.all_gather_object(lists)
                for piece in part
            ]
        for piece in pieces:
            self._merge(piece)

    def _pieces(self, obs: Observations, seen: Tensor) -> Iterator[tuple[Observations, Tensor]]:
        """Split rows along their first axis into pieces of about PIECE_NUMBERS features."""
        steps = max(1, PIECE_NUMBERS // (self.features * max(1, seen[:1].numel())))
        for begin in range(0, len(seen), steps):
            piece = slice(begin, begin + steps)
            yield {key: part[piece] for key, part in obs.items()}, seen[piece]

    def _merge(self, sample: _Sample) -> None:
        """Merge a sample into the statistics (Chan, Golub and LeVeque 1979)."""
        fresh, total = sample.count, float(self.count) + sample.count
        mean, square = sample.mean, sample.square
        share = fresh / total
        away = mean - self.mean
        if float(self.count) == 0:
            self.mean.copy_(mean)
            self.square.copy_(square)
        else:
            self.square.mul_(1 - share).add_(square * share).add_(
                away.square() * (share * (1 - share))
            )
            self.mean.add_(away * share)
        self.count.fill_(total)


def _finite(numbers: Tensor) -> Tensor:
    """Return the rows of (n, features) that have only finite numbers."""
    whole = numbers.isfinite().all(1)
    return numbers if bool(whole.all()) else numbers[whole]


def _choices(leaf: Leaf) -> list[tuple[int, int]] | None:
    """Return (number of choices, least value) of each element that becomes one-hot, or None."""
    space: Any = leaf.space
    if isinstance(space, spaces.Discrete):
        pairs = [(int(space.n), int(space.start))]
    elif isinstance(space, spaces.MultiDiscrete):
        pairs = list(
            zip(space.nvec.reshape(-1).tolist(), space.start.reshape(-1).tolist(), strict=True)
        )
    else:
        return None
    return pairs if sum(n for n, _ in pairs) <= MOST_CHOICES else None


def _one_hot(values: Tensor, choices: list[tuple[int, int]]) -> Tensor:
    """Turn values (..., D) into (..., sum of choices).

    A value outside the choices (the zeros of an absent agent) becomes zeros.
    """
    known = [torch.arange(start, start + n, device=values.device) for n, start in choices]
    return torch.cat(
        [values[..., d : d + 1].long() == row for d, row in enumerate(known)], dim=-1
    ).float()


def _scales(
    leaf: Leaf, choices: list[tuple[int, int]] | None, normalize: bool
) -> tuple[np.ndarray, ...]:
    """Return scale and offset (float32) per feature of a leaf, and which use running statistics."""
    space: Any = leaf.space
    features = leaf.size if choices is None else sum(n for n, _ in choices)
    scale, offset = np.ones(features), np.zeros(features)
    running = np.zeros(features, np.bool_)
    if choices is None and isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        sizes, low = (np.reshape(np.asarray(x, np.float64), -1) for x in _span(space))
        scale, offset = _between(low, low + sizes - 1)
    elif isinstance(space, spaces.Box) and leaf.dtype != np.bool_:
        low, high = (np.reshape(np.asarray(x, np.float64), -1) for x in (space.low, space.high))
        if leaf.dtype == np.uint8 and (low == 0).all() and (high == 255).all():
            scale = np.full(features, 1 / 255)
        elif normalize:
            bounded = np.isfinite(low) & np.isfinite(high)
            bounded &= np.where(bounded, high, 0) - np.where(bounded, low, 0) <= WIDEST_RANGE
            running = ~bounded
            scale, offset = _between(np.where(bounded, low, -1), np.where(bounded, high, 1))
    return scale.astype(np.float32), offset.astype(np.float32), running


def _span(space: Any) -> tuple[Any, Any]:
    """Return the number of choices and the least value of each element."""
    return (space.n if isinstance(space, spaces.Discrete) else space.nvec), space.start


def _between(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the scale and offset that map low to -1 and high to 1.

    An element with a single possible value becomes 0.
    """
    half = np.where(high > low, (high - low) / 2, 1.0)
    return 1 / half, -(high + low) / 2 / half
