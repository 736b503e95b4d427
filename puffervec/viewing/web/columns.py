# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compact columns of numbers, for zlib: multiples of a power of ten as differences in byte planes.

puffervec/viewing/web/static/decode.js reads them. Runs in the learner.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]
Floats = NDArray[np.float64]
Runs = list[list[int]]
STEPS_OF_MOST = 20_000  # The largest number of a column is at least this multiple of the unit.
MOST = 2**31 - 1


class Stream:
    """A sequence of 32-bit integers."""

    def __init__(self) -> None:
        self._parts: list[Whole] = []

    def add(self, numbers: Any) -> None:
        """Add numbers (n,) unchanged."""
        self._parts.append(np.asarray(numbers, np.int64).ravel())

    def add_differences(self, numbers: Any, stride: int = 1) -> None:
        """Add the first `stride` numbers, then each number minus the one `stride` places before."""
        numbers = np.asarray(numbers, np.int64).ravel()
        ahead = np.concatenate([np.zeros(min(stride, len(numbers)), np.int64), numbers[:-stride]])
        self.add(numbers - ahead)

    def pack(self, head: dict[str, Any]) -> bytes:
        """Return zlib data: the size of the head, the head as JSON, the numbers as byte planes.

        The plane of the lowest bytes comes first.
        """
        numbers = np.concatenate([np.zeros(0, np.int64), *self._parts]).astype("<i4")
        text = json.dumps(head, separators=(",", ":"), allow_nan=False).encode()
        planes = numbers.view(np.uint8).reshape(len(numbers), 4).T.tobytes()
        return zlib.compress(struct.pack("<I", len(text)) + text + planes, 9)


def exponent_of(most: float) -> int:
    """Return the exponent of the power of ten to which numbers up to `most` are rounded.

    >>> exponent_of(250.0), exponent_of(1.0), exponent_of(0.0)
    (-2, -5, 0)
    """
    return math.floor(math.log10(most / STEPS_OF_MOST)) if most > 0 else 0


def whole(numbers: Any, exponent: int) -> Whole:
    """Return numbers as multiples of 10 ** exponent, clipped to 32 bits."""
    scaled = np.asarray(numbers, np.float64) * 10.0**-exponent
    multiples: Whole = np.rint(np.clip(scaled, -MOST, MOST)).astype(np.int64)
    return multiples


def runs_of(present: NDArray[np.bool_]) -> Runs:
    """Return the start and end (exclusive) of each run of True values.

    >>> runs_of(np.array([False, True, True, False, True]))
    [[1, 3], [4, 5]]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], present, [False]]).astype(np.int8)))
    runs: Runs = edges.reshape(len(edges) // 2, 2).tolist()
    return runs


def fill_gaps(numbers: NDArray[Any], present: NDArray[np.bool_]) -> NDArray[Any]:
    """Fill each gap in numbers (n,) with the number before it; at the start, with the first one."""
    places = np.where(present, np.arange(len(present)), present.argmax())
    return numbers[np.maximum.accumulate(places)]


def put_column(stream: Stream, numbers: Floats, exponent: int) -> list[Any]:
    """Add a column (n,), NaN where it has gaps, to a stream; return what a reader needs.

    Returns: [runs] if the numbers are in the stream, [runs, number] if all are equal.
    """
    present = np.isfinite(numbers)
    runs = runs_of(present)
    if not runs:
        return [runs, 0]
    values = whole(fill_gaps(numbers, present), exponent)
    if (values == values[0]).all():
        return [runs, int(values[0])]
    stream.add_differences(values)
    return [runs]
