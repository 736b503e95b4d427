# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Numbers as few bytes: whole multiples of a power of ten, as differences, in planes of bytes, for
zlib. Runs in the learner.

puffervec/viewing/web/static/decode.js reads them back.
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
STEPS_OF_MOST = 20_000  # the largest number of a column has at least so many steps
MOST = 2**31 - 1


class Stream:
    """Whole numbers of 32 bits, one after the other."""

    def __init__(self) -> None:
        self._parts: list[Whole] = []

    def add(self, numbers: Any) -> None:
        """Add numbers (n,) as they are."""
        self._parts.append(np.asarray(numbers, np.int64).reshape(-1))

    def add_differences(self, numbers: Any, stride: int = 1) -> None:
        """Add the first `stride` numbers, and of each further one how far it is from the one
        `stride` places before.
        """
        numbers = np.asarray(numbers, np.int64).reshape(-1)
        ahead = np.concatenate([np.zeros(min(stride, len(numbers)), np.int64), numbers[:-stride]])
        self.add(numbers - ahead)

    def packed(self, head: dict[str, Any]) -> bytes:
        """Return zlib data: the size of the head, the head as JSON, then the numbers, their lowest
        bytes first.
        """
        numbers = np.concatenate([np.zeros(0, np.int64), *self._parts]).astype("<i4")
        text = json.dumps(head, separators=(",", ":"), allow_nan=False).encode()
        planes = numbers.view(np.uint8).reshape(-1, 4).T.tobytes()
        return zlib.compress(struct.pack("<I", len(text)) + text + planes, 9)


def exponent_of(most: float) -> int:
    """Return the power of ten in whose multiples numbers up to `most` are kept.

    >>> exponent_of(250.0), exponent_of(1.0), exponent_of(0.0)
    (-2, -5, 0)
    """
    return math.floor(math.log10(most / STEPS_OF_MOST)) if most > 0 else 0


def whole(numbers: Any, exponent: int) -> Whole:
    """Return numbers as multiples of 10 ** exponent; what 32 bits do not hold is cut."""
    scaled = np.asarray(numbers, np.float64) * 10.0**-exponent
    found: Whole = np.rint(np.clip(scaled, -MOST, MOST)).astype(np.int64)
    return found


def runs_of(there: NDArray[np.bool_]) -> Runs:
    """Return the first place and the end of each run of True.

    >>> runs_of(np.array([False, True, True, False, True]))
    [[1, 3], [4, 5]]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], there, [False]]).astype(np.int8)))
    found: Runs = edges.reshape(-1, 2).tolist()
    return found


def held(numbers: Whole, there: NDArray[np.bool_]) -> Whole:
    """Return numbers (n,) in which places that are not there repeat the last one that is, or the
    first one.
    """
    last = np.maximum.accumulate(np.where(there, np.arange(len(there)), -1))
    found: Whole = numbers[np.where(last < 0, int(there.argmax()), last)]
    return found


def put_column(stream: Stream, numbers: Floats, exponent: int) -> list[Any]:
    """Add a column (n,), NaN where there is nothing, to a stream; return what a reader has to know
    of it.

    Returns: [runs] where the numbers follow in the stream, [runs, number] where they are all the
        same.
    """
    there = np.isfinite(numbers)
    runs = runs_of(there)
    if not runs:
        return [runs, 0]
    values = held(whole(np.where(there, numbers, 0.0), exponent), there)
    if (values == values[0]).all():
        return [runs, int(values[0])]
    stream.add_differences(values)
    return [runs]
