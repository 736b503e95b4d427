# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads little-endian ints and floats one after another, and never past the end.

Runs in the learner. Memory use is bounded by the size of the file, whatever counts it contains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.schema import Control, Floats, Road, SceneObject


@dataclass(frozen=True)
class Contents:
    """The contents of a layout, before logs are brought to one length."""

    scenario_id: str
    objects: list[SceneObject]
    roads: list[Road]
    metadata: dict[str, Any]
    controls: tuple[Control, ...] | None = None


class Misfit(Exception):
    """The bytes do not fit the layout that is being tried.

    Attributes:
        at: the byte at which the misfit shows.
    """

    def __init__(self, at: int, text: str) -> None:
        super().__init__(f"byte {at}: {text}")
        self.at = at


class Cursor:
    """A position in the bytes of a file.

    `key` names the value that is read, for messages. All methods raise Misfit.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def misfit(self, key: str, expected: str, value: Any, at: int | None = None) -> NoReturn:
        """Raise a Misfit about the four-byte value that was read last, or about the one at `at`."""
        raise Misfit(self.at - 4 if at is None else at, f"{key}: expected {expected}, got {value}")

    def _take(self, count: int, size: int, key: str) -> int:
        """Advance by `count` values of `size` bytes and return where they begin."""
        start, left = self.at, len(self.data) - self.at
        if count * size > left:
            raise Misfit(start, f"{key}: expected {count * size} more bytes, got {left}")
        self.at += count * size
        return start

    def integer(self, key: str, low: int, high: int) -> int:
        """Read one int from low to high."""
        start = self._take(1, 4, key)
        value = int.from_bytes(self.data[start : self.at], "little", signed=True)
        if not low <= value <= high:
            self.misfit(key, f"{low} to {high}", value)
        return value

    def integers(self, count: int, key: str, low: int, high: int) -> NDArray[np.int32]:
        """Read ints from low to high, (count,), as a view of the file's bytes."""
        start = self._take(count, 4, key)
        values = np.frombuffer(self.data, "<i4", count, start)
        bad = np.flatnonzero((values < low) | (values > high))
        if bad.size:
            self.misfit(
                f"{key}[{bad[0]}]", f"{low} to {high}", int(values[bad[0]]), start + 4 * int(bad[0])
            )
        return values

    def floats(self, count: int, key: str) -> Floats:
        """Read floats, (count,) float64; any value is allowed."""
        start = self._take(count, 4, key)
        with np.errstate(invalid="ignore"):  # in case of a signalling NaN
            return np.frombuffer(self.data, "<f4", count, start).astype(np.float64)

    def number(self, key: str, low: float, high: float) -> float:
        """Read one float from low to high."""
        value = float(self.floats(1, key)[0])
        if not low <= value <= high:
            self.misfit(key, f"{low:g} to {high:g}", value)
        return value

    def text(self, count: int, key: str) -> str:
        """Read a string in a field of `count` bytes, padded with zeros."""
        start = self._take(count, 1, key)
        field = self.data[start : self.at].rstrip(b"\0")
        try:
            text = field.decode()
        except UnicodeDecodeError as error:
            raise Misfit(
                start + error.start,
                f"{key}: expected UTF-8 text, got byte {field[error.start]:#04x}",
            ) from error
        if not text.isprintable():
            raise Misfit(start, f"{key}: expected text padded with zeros, got {text[:20]!r}")
        return text

    def bounded(
        self, values: Floats, used: NDArray[np.bool_], limit: float, key: str, start: int
    ) -> None:
        """Check that those of the values (n,) which are used lie between -limit and limit.

        The values begin at byte `start`.
        """
        bad = np.flatnonzero(used & ~(np.abs(values) <= limit))
        if bad.size:
            at = int(bad[0])
            self.misfit(
                f"{key}[{at}]",
                f"a number between -{limit:g} and {limit:g}",
                float(values[at]),
                start + 4 * at,
            )

    def within(
        self, values: Sequence[float], low: float, high: float, keys: Sequence[str], start: int
    ) -> None:
        """Check that values, which begin at byte `start`, lie from low to high."""
        for index, (value, key) in enumerate(zip(values, keys, strict=True)):
            if not low <= value <= high:
                self.misfit(key, f"{low:g} to {high:g}", value, start + 4 * index)

    def end(self) -> None:
        """Check that nothing is left."""
        left = len(self.data) - self.at
        if left:
            raise Misfit(self.at, f"expected the end of the file, got {left} more bytes")
