# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The columns of each rank, and the columns that a window needs from other ranks.

    width 10 on 3 ranks     | 0 1 2 3 | 4 5 6 7 | 8 9 |
    3x3, padding 1, rank 1        [3 4 5 6 7 8]             needs columns 3 to 8: it receives 3 from
                                                            rank 0, 8 from rank 2
    5x5, stride 2, rank 0   [z z 0 1 2 3 4]                 zeros outside the picture, other ranks'
                                                            columns inside

All pictures of one width are split in the same way on every layer, so the width determines on which
rank a column is. This file computes with numbers only, not with tensors.
"""

from __future__ import annotations

import dataclasses
import functools

from puffervec.errors import ConfigError

Range = tuple[int, int]  # First column, column after the last.


class WidthError(ConfigError):
    """A picture has fewer columns than there are ranks."""


@functools.lru_cache(maxsize=4096)
def split(width: int, ranks: int) -> tuple[Range, ...]:
    """Return each rank's columns.

    The split is that of DTensor's Shard (all ranks except the last ones have equally many columns)
    unless that leaves a rank without any; then the sizes differ by at most one.

    Raises:
        WidthError: there are fewer columns than ranks.

    >>> split(10, 3), split(9, 4)
    (((0, 4), (4, 8), (8, 10)), ((0, 3), (3, 5), (5, 7), (7, 9)))
    """
    if width < ranks:
        raise WidthError(
            f"a picture of width {width} cannot be split over {ranks} ranks: at most {width} fit"
        )
    if as_dtensor(width, ranks):
        each = -(-width // ranks)
        edges = [min(width, each * rank) for rank in range(ranks + 1)]
    else:
        edges = [rank * (width // ranks) + min(rank, width % ranks) for rank in range(ranks + 1)]
    return tuple(zip(edges[:-1], edges[1:], strict=True))


def as_dtensor(width: int, ranks: int) -> bool:
    """Return whether `split` equals DTensor's Shard, so that a DTensor can describe the columns.

    >>> as_dtensor(10, 3), as_dtensor(9, 4)
    (True, False)
    """
    return -(-width // ranks) * (ranks - 1) < width


@dataclasses.dataclass(frozen=True)
class Window:
    """A sliding window along the width, as in convolutions and pooling.

    Attributes:
        kernel, stride, dilation: as in torch.nn.Conv2d.
        padding: columns before the picture.
    """

    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1

    def sees(self, outputs: Range) -> Range:
        """Return the input columns that these output columns depend on.

        Columns below 0 and beyond the width are padding.
        """
        first, last = (
            output * self.stride - self.padding for output in (outputs[0], outputs[1] - 1)
        )
        return first, last + self.dilation * (self.kernel - 1) + 1


@dataclasses.dataclass(frozen=True)
class Halo:
    """The columns that one rank sends, receives and pads for one layer.

    Attributes:
        rank: rank of this plan.
        sends: for each other rank, the range of this rank's columns that it needs, counted from
            this rank's first column; empty if it needs none.
        receives: for each rank, the number of columns that come from it.
        own: range of this rank's columns that its outputs need, counted from its first column.
        left, right: numbers of columns of padding, only at the picture's borders.
    """

    rank: int
    sends: tuple[Range, ...]
    receives: tuple[int, ...]
    own: Range
    left: int
    right: int

    @property
    def whole(self) -> bool:
        """Whether the rank has all columns that it needs."""
        return not (any(self.receives) or self.left or self.right)

    @property
    def silent(self) -> bool:
        """Whether this rank sends and receives nothing; other ranks may."""
        return not any(self.receives) and not any(end > first for first, end in self.sends)


def _common(a: Range, b: Range) -> Range:
    """Return the columns that two ranges share, or an empty range within `b`."""
    first = min(max(a[0], b[0]), b[1])
    return first, max(first, min(a[1], b[1]))


@functools.lru_cache(maxsize=4096)
def halos(window: Window, width: int, out_width: int, ranks: int) -> tuple[Halo, ...]:
    """Return the plan of every rank for a layer between pictures of two widths.

    Raises: WidthError.
    """
    inputs, outputs = split(width, ranks), split(out_width, ranks)
    spans = [window.sees(part) for part in outputs]
    needs = [_common(span, (0, width)) for span in spans]
    plans = []
    for rank, (begin, end) in enumerate(inputs):
        taken = [_common(need, (begin, end)) for need in needs]
        sends = [(first - begin, last - begin) for first, last in taken]
        own, sends[rank] = sends[rank], (0, 0)
        receives = []
        for other, part in enumerate(inputs):
            first, last = _common(needs[rank], part)
            receives.append(0 if other == rank else last - first)
        left = min(max(0, -spans[rank][0]), spans[rank][1] - spans[rank][0])
        right = spans[rank][1] - spans[rank][0] - left - (needs[rank][1] - needs[rank][0])
        plans.append(Halo(rank, tuple(sends), tuple(receives), own, left, right))
    return tuple(plans)


def messages_due(window: Window, width: int, out_width: int, ranks: int) -> bool:
    """Return whether any rank sends anything; then all ranks take part in the message."""
    return not all(halo.silent for halo in halos(window, width, out_width, ranks))
