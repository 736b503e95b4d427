# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Checks the values of one scene file of any format, and reports exactly what is wrong.

Runs in the learner. Every failure is a SceneError that names the file, the key (JSON) or the byte
(binary), the expected value and the actual one. Checked values are finite and within the bounds
below.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.columns import Column, as_list
from drive_env.scenes.schema import Floats
from puffervec.errors import SceneError

MAX_OBJECTS = 4096
MAX_FRAMES = 10_000
MAX_ROADS = 65_535
MAX_POINTS = 2_000_000
MAX_CONTROLS = 4096
MAX_STATES = 4_000_000  # objects times frames, which need memory even if few states are listed
# Pairs that are compared when a scene is compiled: pieces of lanes that lie close together, ends
# and starts of lanes at one x; and signs and points of lanes. The largest real scene has 300,000
# pairs; these limits take about a second.
MAX_PAIRS, MAX_SIGN_PAIRS = 50_000_000, 10_000_000
MAX_LINKS = 1_000_000  # connections between lanes
COORDINATE_LIMIT_M = 100_000.0
SPEED_LIMIT_MPS = 1_000.0
SIZE_LEAST_M, SIZE_LIMIT_M = 0.01, 100.0
# Some writers do not wrap headings; in known files they reach 810 degrees.
HEADING_LIMIT_RAD = 1000.0
HEADING_LIMIT_DEG = 36_000.0

# Why a scene without objects is not driven, and what to do.
MAP_ALONE = (
    "a map without agents is driven with --env.placements 100, which makes 100 scenes of vehicles "
    "placed on its lanes"
)
MISSING = object()
# Exceptions that code may raise when it computes with a bad value that no check has refused.
_FAULTS = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError, ArithmeticError,
    NotImplementedError, RecursionError,
)  # fmt: skip


class Checker:
    """Checks values of one file; a method that refuses a value raises a SceneError."""

    def __init__(self, source: str) -> None:
        self.source = source

    def fail(self, key: str, expected: str, value: Any) -> NoReturn:
        """Raise a SceneError about one value."""
        raise SceneError(f"{self.source}: {key}: expected {expected}, got {describe(value)}")

    def get(self, item: dict[str, Any], name: str, key: str) -> Any:
        """Return the value of a required key."""
        value = item.get(name, MISSING)
        if value is MISSING:
            self.fail(f"{key}.{name}" if key else name, "this key", MISSING)
        return value

    def mapping(self, value: Any, key: str) -> dict[str, Any]:
        """Return a JSON object."""
        if not isinstance(value, dict):
            self.fail(key, "a JSON object {...}", value)
        return value

    def items(self, value: Any, key: str, limit: int) -> Any:
        """Return a list, or a Column, of at most `limit` items."""
        if not isinstance(value, (list, Column)):
            self.fail(key, "a list", value)
        if len(value) > limit:
            self.fail(key, f"at most {limit} items", value)
        return value

    def limit(self, value: Any, most: int, key: str, what: str) -> None:
        """Refuse a count, or a collection, above a limit. Args: what: noun for what is counted."""
        if (value if isinstance(value, int) else len(value)) > most:
            self.fail(key, f"at most {most} {what}", value)

    def speed(self, speed_mps: float, key: str, given: Any) -> float:
        """Return a speed limit. Args: given: its value in the file."""
        if not 0.0 <= speed_mps <= SPEED_LIMIT_MPS:
            self.fail(key, "a speed", given)
        return speed_mps

    def places(self, points_m: Floats, key: str) -> Floats:
        """Return points, (n, 3), within the bounds."""
        self.within(points_m, COORDINATE_LIMIT_M, lambda at, axis: f"{key}[{at}].{'xyz'[axis]}")
        return points_m

    def integer(self, value: Any, key: str) -> int:
        """Return a whole number that fits in 32 bits."""
        if type(value) is not int or not -(2**31) <= value < 2**31:
            self.fail(key, "a whole number of at most 32 bits", value)
        return value

    def whole(self, value: float, key: str) -> int:
        """Return a whole number of at most 32 bits that a file holds as a float."""
        if not -(2.0**31) <= value < 2.0**31 or value != math.floor(value):
            self.fail(key, "a whole number of at most 32 bits", value)
        return int(value)

    def flag(self, value: Any, key: str) -> bool:
        """Return a boolean, which may be written as 0 or 1."""
        if type(value) not in (bool, int) or value not in (0, 1):
            self.fail(key, "true or false", value)
        return bool(value)

    def size(self, value: Any, key: str, used: bool) -> float:
        """Return a width, length or height in metres; 1 for an object that is never present."""
        if type(value) not in (int, float):
            self.fail(key, "a number", value)
        if used and not SIZE_LEAST_M <= value <= SIZE_LIMIT_M:
            self.fail(key, f"{SIZE_LEAST_M:g} to {SIZE_LIMIT_M:g} (metres)", value)
        return float(value) if used else 1.0

    def length(self, value: Any, key: str, count: int) -> Any:
        """Return a list, or a Column, of exactly `count` items."""
        items = self.items(value, key, MAX_FRAMES if count == 0 else max(count, MAX_FRAMES))
        if len(items) != count:
            self.fail(key, f"a list of {count}", value)
        return items

    def flags(self, value: Any, key: str, count: int) -> NDArray[np.bool_]:
        """Return a list of booleans, which may be written as 0 and 1.

        Args:
            count: number of items; 0 allows any length from 1 to MAX_FRAMES.
        """
        items = self.items(value, key, MAX_FRAMES)
        if not items:
            self.fail(key, "at least one frame", value)
        if count and len(items) != count:
            self.fail(key, f"a list of {count} (as many frames as objects[0])", value)
        if isinstance(items, Column):
            return items.values
        for index, item in enumerate(items):
            if item is not True and item is not False:
                self.flag(item, f"{key}[{index}]")
        return np.array(items, dtype=np.bool_)

    def headings(
        self, value: Any, key: str, count: int, used: NDArray[np.bool_], degrees: bool, limit: float
    ) -> Floats:
        """Return headings in radians, (count,) float64.

        Those of used frames are wrapped to [-pi, pi), others are 0.

        Args:
            limit: largest magnitude of a heading in the file's unit.
        """
        items = self.length(value, key, count)
        column = (
            items.values
            if isinstance(items, Column)
            else self._column(items, lambda index: f"{key}[{index}]", "")
        )
        bad = np.flatnonzero(used & ~(np.abs(column) <= limit))
        if bad.size:
            unit = "degrees" if degrees else "radians"
            self.fail(
                f"{key}[{bad[0]}]",
                f"{unit} between -{limit:g} and {limit:g}",
                as_list(items)[bad[0]],
            )
        return wrap_angle(np.where(used, np.radians(column) if degrees else column, 0.0))

    def points(
        self, value: Any, key: str, count: int, used: NDArray[np.bool_], limit: float, axes: str
    ) -> Floats:
        """Return points {x, y[, z]}, (count, len(axes)) float64. z may be null.

        Points of used frames are checked against +-limit; others are 0.
        """
        items = value if key.endswith("geometry") else self.length(value, key, count)

        def name(index: int) -> str:
            return key if key.endswith("goalPosition") else f"{key}[{index}]"

        within = isinstance(items, Column) and items.largest <= limit
        result = (
            items.points(len(axes))
            if isinstance(items, Column)
            else self._points(items, count, axes, name)
        )
        good = within or (np.abs(result) <= limit) | ~used[:, None]
        if not np.all(good):
            index, axis = np.argwhere(~np.asarray(good))[0].tolist()
            value_there = as_list(items)[index][axes[axis]]
            self.fail(
                f"{name(index)}.{axes[axis]}",
                f"a number between -{limit:g} and {limit:g}",
                value_there,
            )
        return result if used.all() else np.where(used[:, None], result, 0.0)

    def _points(
        self, items: list[Any], count: int, axes: str, name: Callable[[int], str]
    ) -> Floats:
        """Return the numbers of a list of points, (count, len(axes)), without a range check."""
        result = np.zeros((count, len(axes)))
        for axis, letter in enumerate(axes):
            if letter == "z" and items and isinstance(items[0], dict) and items[0].get("z") is None:
                continue
            try:
                column = [item[letter] for item in items]
            except (KeyError, TypeError, IndexError):
                self._fail_point(items, letter, name)
            result[:, axis] = self._column(column, name, f".{letter}")
        return result

    def _fail_point(self, items: list[Any], letter: str, name: Callable[[int], str]) -> NoReturn:
        """Raise a SceneError about the first point without an axis."""
        for index, item in enumerate(items):
            self.get(self.mapping(item, name(index)), letter, name(index))
        raise AssertionError("unreachable: some point has no such axis")

    def _column(self, values: list[Any], name: Callable[[int], str], suffix: str) -> Floats:
        """Return numbers (not booleans) as float64.

        The list is first checked as a whole, since it may have tens of thousands of values.
        """
        if not set(map(type, values)) <= {float, int}:
            index = next(
                index for index, value in enumerate(values) if type(value) not in (float, int)
            )
            self.fail(name(index) + suffix, "a number", values[index])
        try:
            return np.array(values, dtype=np.float64)
        except OverflowError:
            index = next(index for index, value in enumerate(values) if abs(value) > 10**300)
            self.fail(name(index) + suffix, "a number that a double can hold", values[index])

    def within(self, values: Floats, limits: Any, name: Callable[..., str]) -> None:
        """Refuse the first number that is not finite, or larger than its limit.

        Args:
            values: values of any shape.
            limits: limits of magnitudes, which broadcast to that shape.
            name: returns the key of a number from its index.
        """
        bad = np.argwhere(~(np.abs(values) <= limits))
        if len(bad):
            index = tuple(bad[0].tolist())
            limit = float(np.broadcast_to(limits, values.shape)[index])
            expected = f"a number between -{limit:g} and {limit:g}"
            self.fail(name(*index), expected, float(values[index]))

    def unique_ids(self, ids: list[int]) -> None:
        """Check that no two objects share an id, except -1 for none."""
        seen: dict[int, int] = {}
        for index, value in enumerate(ids):
            if value != -1 and seen.setdefault(value, index) != index:
                self.fail(
                    f"objects[{index}].id",
                    f"an id that objects[{seen[value]}] does not have",
                    value,
                )


@contextlib.contextmanager
def refusing_faults(source: str) -> Iterator[None]:
    """Turn errors in the block, caused by values that no check refused, into a SceneError.

    Args:
        source: starts the message.
    """
    try:
        yield
    except SceneError:
        raise
    except _FAULTS as error:
        kind = type(error).__name__
        raise SceneError(f"{source}: cannot be read: {kind}: {reason_of(error)}") from error


def unreadable(path: Any, error: Exception) -> SceneError:
    """Return the error about a file that the system cannot open or read."""
    return SceneError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")


def reason_of(error: Exception) -> str:
    """Return the first line of another package's error."""
    return (str(error).splitlines() or [""])[0][:200]


def parse_message(kind: Any, data: bytes, source: str, what: str) -> Any:
    """Parse a protobuf message. Args: kind: its class; what: names it in errors.

    Raises:
        SceneError: the bytes are no such message.
    """
    from google.protobuf.message import DecodeError

    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise SceneError(
            f"{source}: expected {what}, got {len(data)} bytes that protobuf cannot read"
        ) from error
    return message


def wrap_angle(angles_rad: Floats) -> Floats:
    """Return angles in [-pi, pi); angles already in that range keep every bit."""
    shifted = angles_rad - 2 * math.pi * np.floor((angles_rad + math.pi) / (2 * math.pi))
    return np.asarray(np.where(shifted >= math.pi, -math.pi, shifted))


def describe(value: Any) -> str:
    """Describe a value in a few words."""
    if value is MISSING:
        return "nothing (the key is missing)"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, dict)):
        return f"{'a list' if isinstance(value, list) else 'a JSON object'} of {len(value)}"
    if isinstance(value, str):
        return f"the string {value[:40]!r}" + ("..." if len(value) > 40 else "")
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a number of more than 30 digits"
    return " ".join(repr(value).split())[:200]
