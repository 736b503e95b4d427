# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads driving scenes from JSON of the current schema and says exactly what is wrong with a bad one.

Runs in the learner. The format has no version number, but three generations of it exist, which differ in content: A (no ids, no
height, headings in degrees), B (z and height, still degrees), C (ids, mark_as_expert, metadata, radians). Only C is read.
Values are checked here, once: all returned values are finite and in range, and arrays have equal lengths.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.schema import OBJECT_TYPES, ROAD_TYPES, Floats, Road, Scene, SceneObject
from puffervec.errors import SceneError

MAX_FILE_BYTES = 64 << 20  # parsed JSON takes several times its text; the largest known scenes have 3 MiB
MAX_OBJECTS = 4096
MAX_FRAMES = 10_000
MAX_ROADS = 65_535
MAX_POINTS = 2_000_000
COORDINATE_LIMIT_M = 100_000.0
SPEED_LIMIT_MPS = 1_000.0
SIZE_LEAST_M, SIZE_LIMIT_M = 0.01, 100.0
HEADING_LIMIT_RAD = 2 * math.pi + 1e-3

_MISSING = object()
_OLDER = {
    "A": "an older format (generation A: no ids, headings in degrees); convert it to the current schema",
    "B": "an older format (generation B: headings in degrees, no mark_as_expert); convert it to the current schema",
}


class Unusable(SceneError):
    """A valid file without anything to drive: an older format, a single frame, no objects."""


@dataclass(frozen=True)
class LeftOut:
    """A file of a folder that was left out, and the reason in one line."""

    path: Path
    reason: str


def read_scene(path: Path) -> Scene:
    """Read one scene file.

    Raises:
        SceneError: the file is missing, too large, not JSON, or has a key that is absent or wrong. The message reads
            `path: key path: expected ..., found ...`. `Unusable` (a SceneError) for older formats and single-frame scenes.
    """
    return parse_scene(read_bytes(path), str(path), path.name)


def read_bytes(path: Path) -> bytes:
    """Read the bytes of a scene file: a plain file (or a link to one) of at most MAX_FILE_BYTES.

    Raises:
        SceneError: it is missing, not a plain file, too large, or cannot be read.
    """
    try:
        if not path.is_file():
            raise SceneError(f"{path}: no such scene file")
        size_bytes = path.stat().st_size
        if size_bytes > MAX_FILE_BYTES:
            raise SceneError(f"{path}: expected at most {MAX_FILE_BYTES} bytes, found {size_bytes}")
        return path.read_bytes()
    except SceneError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise SceneError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def scene_files(folder: Path) -> list[Path]:
    """Return every `*.json` file of a folder, in the order of their names.

    Raises:
        SceneError: the folder is missing or holds none.
    """
    if not folder.is_dir():
        raise SceneError(f"{folder}: no such folder")
    paths = sorted(path for path in folder.glob("*.json") if not path.is_dir())
    if not paths:
        raise SceneError(f"{folder}: the folder holds no scenes (no *.json file in it)")
    return paths


def read_usable(path: Path) -> Scene | LeftOut:
    """Read one scene file of a folder. A file that `read_scene` refuses is left out, with the reason."""
    try:
        return read_scene(path)
    except SceneError as error:
        return LeftOut(path, str(error).removeprefix(f"{path}: "))


def parse_scene(data: bytes, source: str, name: str) -> Scene:
    """Check one scene given as JSON text and turn it into arrays. `source` starts every error message.

    Raises:
        SceneError: see `read_scene`.
    """
    try:
        tree = json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise SceneError(f"{source}: not JSON: byte {error.start} is not UTF-8") from error
    except json.JSONDecodeError as error:
        where = f"character {error.pos} of {len(error.doc)} (line {error.lineno}, column {error.colno})"
        raise SceneError(f"{source}: not JSON, or cut off: {error.msg} at {where}") from error
    except (RecursionError, ValueError) as error:
        raise SceneError(f"{source}: not JSON that can be read: {error}") from error
    return scene_from_tree(tree, source, name)


def scene_from_tree(tree: Any, source: str, name: str) -> Scene:
    """Check one scene given as parsed JSON (dicts and lists). Raises as `read_scene`."""
    check = _Checker(source)
    top = check.mapping(tree, "the file")
    objects = check.items(check.get(top, "objects", ""), "objects", MAX_OBJECTS)
    roads = check.items(check.get(top, "roads", ""), "roads", MAX_ROADS)
    if _frames(objects) == 1:
        raise Unusable(f"{source}: the scene has a single frame, so nothing can be driven in it")
    generation = generation_of(top)
    if generation in _OLDER:
        raise Unusable(f"{source}: {_OLDER[generation]}")
    if not objects:
        raise Unusable(f"{source}: the scene has no objects")
    read_objects = []
    frame_count = 0
    for index, item in enumerate(objects):
        read_objects.append(_read_object(check, check.mapping(item, f"objects[{index}]"), f"objects[{index}]", frame_count))
        frame_count = frame_count or len(read_objects[0].valid)
    check.unique_ids([item.id for item in read_objects])
    scenario_id = top.get("scenario_id")
    if scenario_id is None:
        scenario_id = ""
    if type(scenario_id) not in (str, int):
        check.fail("scenario_id", "a string", scenario_id)
    return Scene(
        name=name,
        scenario_id=str(scenario_id),
        frame_count=frame_count,
        objects=tuple(read_objects),
        roads=_read_roads(check, roads),
        traffic_lights=check.mapping(top.get("tl_states", {}), "tl_states"),
        metadata=check.mapping(top.get("metadata", {}), "metadata"),
    )


def generation_of(top: dict[str, Any]) -> str:
    """Tell the generation ("A", "B" or "C") of a parsed scene by the keys it has."""
    object_keys = _keys_of(top.get("objects"))
    road_keys = _keys_of(top.get("roads"))
    if "metadata" in top or object_keys & {"mark_as_expert", "id"} or "id" in road_keys:
        return "C"
    if "scenario_id" in top or "height" in object_keys or "map_element_id" in road_keys:
        return "B"
    return "A"


def _frames(objects: list[Any]) -> int:
    """Return the frames of the longest object in any generation; 0 if unknown."""
    flags = [item.get("valid") for item in objects if isinstance(item, dict)]
    return max((len(found) for found in flags if isinstance(found, list)), default=0)


def _keys_of(items: Any) -> set[str]:
    found: set[str] = set()
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            found.update(item)
    return found


def _read_object(check: _Checker, item: dict[str, Any], key: str, frame_count: int) -> SceneObject:
    """Check one object. frame_count 0: this is the first object, whose length counts for all."""
    valid = check.flags(check.get(item, "valid", key), f"{key}.valid", frame_count)
    count = len(valid)
    position = check.points(check.get(item, "position", key), f"{key}.position", count, valid, COORDINATE_LIMIT_M, "xyz")
    velocity = check.points(check.get(item, "velocity", key), f"{key}.velocity", count, valid, SPEED_LIMIT_MPS, "xy")
    heading = check.numbers(check.get(item, "heading", key), f"{key}.heading", count, valid)
    used = np.array([valid.any()])
    goal = check.points([check.get(item, "goalPosition", key)], f"{key}.goalPosition", 1, used, COORDINATE_LIMIT_M, "xyz")
    kind = check.get(item, "type", key)
    if not isinstance(kind, str):
        check.fail(f"{key}.type", "a string", kind)
    expert = check.get(item, "mark_as_expert", key)
    if not isinstance(expert, bool):
        check.fail(f"{key}.mark_as_expert", "true or false", expert)
    sizes = [
        check.size(check.get(item, name, key), f"{key}.{name}", bool(valid.any())) for name in ("width", "length", "height")
    ]
    return SceneObject(
        type=OBJECT_TYPES.index(kind) if kind in OBJECT_TYPES else OBJECT_TYPES.index("other"),
        id=check.integer(item.get("id", -1), f"{key}.id"),
        width_m=sizes[0],
        length_m=sizes[1],
        height_m=sizes[2],
        expert=expert,
        position_m=position,
        velocity_mps=velocity,
        heading_rad=heading,
        valid=valid,
        goal_m=goal[0],
    )


def _read_roads(check: _Checker, roads: list[Any]) -> tuple[Road, ...]:
    found: list[Road] = []
    total_points = 0
    for index, entry in enumerate(roads):
        key = f"roads[{index}]"
        item = check.mapping(entry, key)
        kind = check.get(item, "type", key)
        if kind not in ROAD_TYPES:
            check.fail(f"{key}.type", f"one of {', '.join(ROAD_TYPES)}", kind)
        geometry = check.items(check.get(item, "geometry", key), f"{key}.geometry", MAX_POINTS - total_points)
        total_points += len(geometry)
        everywhere = np.ones(len(geometry), dtype=bool)
        points = check.points(geometry, f"{key}.geometry", len(geometry), everywhere, COORDINATE_LIMIT_M, "xyz")
        element = check.integer(item.get("map_element_id", -1), f"{key}.map_element_id")
        found.append(Road(kind, element, check.integer(item.get("id", -1), f"{key}.id"), points))
    return tuple(found)


class _Checker:
    """Checks values of one file; every failure is a SceneError that names file, key path, expected and found."""

    def __init__(self, source: str) -> None:
        self.source = source

    def fail(self, key: str, expected: str, found: Any) -> NoReturn:
        """Raise a SceneError about one value."""
        raise SceneError(f"{self.source}: {key}: expected {expected}, found {_describe(found)}")

    def get(self, item: dict[str, Any], name: str, key: str) -> Any:
        """Return the value of a required key."""
        value = item.get(name, _MISSING)
        if value is _MISSING:
            self.fail(f"{key}.{name}" if key else name, "this key", _MISSING)
        return value

    def mapping(self, value: Any, key: str) -> dict[str, Any]:
        """Return a JSON object."""
        if not isinstance(value, dict):
            self.fail(key, "a JSON object {...}", value)
        return value

    def items(self, value: Any, key: str, limit: int) -> list[Any]:
        """Return a list of at most `limit` items."""
        if not isinstance(value, list):
            self.fail(key, "a list", value)
        if len(value) > limit:
            self.fail(key, f"at most {limit} items", value)
        return value

    def integer(self, value: Any, key: str) -> int:
        """Return a whole number that fits in 32 bits."""
        if type(value) is not int or not -(2**31) <= value < 2**31:
            self.fail(key, "a whole number of at most 32 bits", value)
        return value

    def size(self, value: Any, key: str, used: bool) -> float:
        """Return a width, length or height in metres; any number for an object that is never present."""
        if type(value) not in (int, float):
            self.fail(key, "a number", value)
        if used and not SIZE_LEAST_M <= value <= SIZE_LIMIT_M:
            self.fail(key, f"{SIZE_LEAST_M:g} to {SIZE_LIMIT_M:g} (metres)", value)
        return float(value) if used else 1.0

    def length(self, value: Any, key: str, count: int) -> list[Any]:
        """Return a list of exactly `count` items."""
        items = self.items(value, key, MAX_FRAMES if count == 0 else max(count, MAX_FRAMES))
        if len(items) != count:
            self.fail(key, f"a list of {count}", value)
        return items

    def flags(self, value: Any, key: str, count: int) -> NDArray[np.bool_]:
        """Return a list of booleans; count 0 allows any length from 1 to MAX_FRAMES."""
        items = self.items(value, key, MAX_FRAMES)
        if not items:
            self.fail(key, "at least one frame", value)
        if count and len(items) != count:
            self.fail(key, f"a list of {count} (as many frames as objects[0])", value)
        for index, item in enumerate(items):
            if type(item) is not bool:
                self.fail(f"{key}[{index}]", "true or false", item)
        return np.array(items, dtype=np.bool_)

    def numbers(self, value: Any, key: str, count: int, used: NDArray[np.bool_]) -> Floats:
        """Return headings, (count,) float64; those of used frames are wrapped to [-pi, pi), others are 0."""
        items = self.length(value, key, count)
        column = self._column(items, lambda index: f"{key}[{index}]", "")
        bad = np.flatnonzero(used & ~(np.abs(column) <= HEADING_LIMIT_RAD))
        if bad.size:
            self.fail(f"{key}[{bad[0]}]", "radians between -2 pi and 2 pi", items[bad[0]])
        column = np.where(used, column, 0.0)
        return np.where(column >= math.pi, column - 2 * math.pi, np.where(column < -math.pi, column + 2 * math.pi, column))

    def points(self, value: Any, key: str, count: int, used: NDArray[np.bool_], limit: float, axes: str) -> Floats:
        """Return points {x, y[, z]}, (count, len(axes)) float64; used ones within +-limit, others 0. z may be absent."""
        items = value if key.endswith("geometry") else self.length(value, key, count)

        def name(index: int) -> str:
            return key if key.endswith("goalPosition") else f"{key}[{index}]"

        result = np.zeros((count, len(axes)))
        for axis, letter in enumerate(axes):
            if letter == "z" and items and isinstance(items[0], dict) and "z" not in items[0]:
                continue
            try:
                column = [item[letter] for item in items]
            except (KeyError, TypeError, IndexError):
                self._fail_point(items, letter, name)
            suffix = f".{letter}"
            result[:, axis] = self._column(column, name, suffix)
        bad = np.argwhere(used[:, None] & ~(np.abs(result) <= limit))
        if bad.size:
            index, axis = (int(bad[0][0]), int(bad[0][1]))
            self.fail(f"{name(index)}.{axes[axis]}", f"a number between -{limit:g} and {limit:g}", items[index][axes[axis]])
        result[~used] = 0.0
        return result

    def _fail_point(self, items: list[Any], letter: str, name: Callable[[int], str]) -> NoReturn:
        """Raise a SceneError about the first point without an axis."""
        for index, item in enumerate(items):
            self.get(self.mapping(item, name(index)), letter, name(index))
        raise AssertionError("unreachable: a point without its axis was seen before")

    def _column(self, values: list[Any], name: Callable[[int], str], suffix: str) -> Floats:
        """Return numbers (not booleans) as float64; columns are checked as a whole first, since there are tens of thousands."""
        if not set(map(type, values)) <= {float, int}:
            index = next(index for index, value in enumerate(values) if type(value) not in (float, int))
            self.fail(name(index) + suffix, "a number", values[index])
        try:
            return np.array(values, dtype=np.float64)
        except OverflowError:
            index = next(index for index, value in enumerate(values) if abs(value) > 10**300)
            self.fail(name(index) + suffix, "a number that a double can hold", values[index])

    def unique_ids(self, ids: list[int]) -> None:
        """Check that no two objects share an id, except -1 for none."""
        seen: dict[int, int] = {}
        for index, value in enumerate(ids):
            if value != -1 and seen.setdefault(value, index) != index:
                self.fail(f"objects[{index}].id", f"an id that objects[{seen[value]}] does not have", value)


def _describe(value: Any) -> str:
    """Describe what was found, in a few words."""
    if value is _MISSING:
        return "nothing (the key is missing)"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, dict)):
        return f"{'a list' if isinstance(value, list) else 'a JSON object'} of {len(value)}"
    if isinstance(value, str):
        return f"the string {value[:40]!r}" + ("..." if len(value) > 40 else "")
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**30 else "a number of more than 30 digits"
    return text
