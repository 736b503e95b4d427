# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads and writes driving scenes as JSON, in the schema that GPUDrive and PufferDrive use.

Runs in the learner. The schema has no version number. It has three generations, told apart by
their keys:

  A  no scenario_id, no height, no map_element_id, no z; headings in degrees, which go beyond 360
  B  scenario_id, height, map_element_id, z; headings in degrees
  C  also ids, mark_as_expert and metadata; headings in radians

What an older generation lacks is filled in by the rules of docs/scenes.md: `DEFAULTS` and
`_unit_of_headings`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.check import (
    COORDINATE_LIMIT_M,
    HEADING_LIMIT_DEG,
    HEADING_LIMIT_RAD,
    MAX_CONTROLS,
    MAX_OBJECTS,
    MAX_POINTS,
    MAX_ROADS,
    MISSING,
    SPEED_LIMIT_MPS,
    Checker,
    wrap_angle,
)
from drive_env.scenes.columns import Column, as_list, tree_with_columns
from drive_env.scenes.controls import light_tree, roads_with_signs
from drive_env.scenes.schema import (
    INVALID,
    OBJECT_TYPES,
    ROAD_TYPES,
    Floats,
    Road,
    Scene,
    SceneObject,
)
from puffervec.errors import SceneError

# Values for missing keys. height: of the box in metres, by object type; a missing height is never a
# reason to refuse a scene.
DEFAULTS: dict[str, Any] = {
    "mark_as_expert": False,
    "id": -1,
    "map_element_id": -1,
    "scenario_id": "",
    "tl_states": {},
    "metadata": {},
    "height": {"vehicle": 1.5, "pedestrian": 1.75, "cyclist": 1.75, "other": 1.5},
}
# The unit of headings is inferred from frames in which an object moves at least this fast.
MOVING_MPS = 3.0
LEAST_MOVING, MOST_MOVING = 10, 200
WRAPPED_RAD = 2 * math.pi + 1e-3  # wrapped headings in radians are at most this large
# Bounds on the median difference between the heading and the direction of motion
AGREES_RAD, DISAGREES_RAD = 0.1, 0.3


def parse_json(data: bytes, source: str, name: str) -> Scene:
    """Check one scene given as JSON text and turn it into arrays.

    Long lists are read as arrays. If that fails, the text is read again with the module json alone,
    which reports where a mistake is.

    Args:
        source: starts every error message.

    Raises:
        SceneError: the text is not JSON, or `scene_from_tree` refuses it.
    """
    with contextlib.suppress(ValueError, RecursionError, SceneError):
        return scene_from_tree(tree_with_columns(data), source, name)
    try:
        tree = json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise SceneError(f"{source}: not JSON: byte {error.start} is not UTF-8") from error
    except json.JSONDecodeError as error:
        where = (
            f"character {error.pos} of {len(error.doc)} (line {error.lineno}, column {error.colno})"
        )
        what = error.msg.removesuffix(" at")  # "Invalid control character at"
        raise SceneError(f"{source}: not JSON, or cut off: {what} at {where}") from error
    except (RecursionError, ValueError) as error:
        raise SceneError(f"{source}: not JSON that can be read: {error}") from error
    return scene_from_tree(tree, source, name)


def scene_from_tree(tree: Any, source: str, name: str) -> Scene:
    """Check one scene given as parsed JSON: dicts, lists, and Columns in place of some lists.

    Raises:
        SceneError: a key is missing or wrong. The message reads `source: key path: expected ...,
            got ...`.
    """
    check = Checker(source)
    top = check.mapping(tree, "the file")
    objects = check.items(check.get(top, "objects", ""), "objects", MAX_OBJECTS)
    roads = check.items(check.get(top, "roads", ""), "roads", MAX_ROADS)
    unit = _unit_of_headings(objects, generation_of(top))
    read_objects: list[SceneObject] = []
    frame_count = 0
    for index, item in enumerate(objects):
        key = f"objects[{index}]"
        read_objects.append(_read_object(check, check.mapping(item, key), key, frame_count, unit))
        frame_count = len(read_objects[0].valid)
    check.unique_ids([item.id for item in read_objects])
    lights = check.mapping(_or_default(top, "tl_states"), "tl_states")
    check.limit(lights, MAX_CONTROLS, "tl_states", "lanes")
    scenario_id = _or_default(top, "scenario_id")
    if type(scenario_id) not in (str, int):
        check.fail("scenario_id", "a string", scenario_id)
    return Scene(
        name=name,
        scenario_id=str(scenario_id),
        frame_count=frame_count,
        objects=tuple(read_objects),
        roads=_read_roads(check, roads),
        traffic_lights=lights,
        metadata=check.mapping(_or_default(top, "metadata"), "metadata"),
        has_height=_has_height([*objects, *roads]),
    )


def generation_of(top: dict[str, Any]) -> str:
    """Return the generation ("A", "B" or "C") of a parsed scene, according to its keys."""
    object_keys = _keys_of(top.get("objects"))
    road_keys = _keys_of(top.get("roads"))
    if "metadata" in top or object_keys & {"mark_as_expert", "id"} or "id" in road_keys:
        return "C"
    if "scenario_id" in top or "height" in object_keys or "map_element_id" in road_keys:
        return "B"
    return "A"


def _has_height(items: list[Any]) -> bool:
    """Return whether the first object or road with a point has heights."""
    points = (item.get("position") or item.get("geometry") for item in items)
    first: Any = next(
        (as_list for as_list in points if isinstance(as_list, (list, Column)) and as_list), [{}]
    )
    return first.has_z if isinstance(first, Column) else first[0].get("z") is not None


def _keys_of(items: Any) -> set[str]:
    keys: set[str] = set()
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            keys.update(item)
    return keys


def _or_default(item: dict[str, Any], name: str) -> Any:
    """Return the value of a key that may be missing or null."""
    value = item.get(name)
    return DEFAULTS[name] if value is None else value


def _unit_of_headings(objects: list[Any], generation: str) -> tuple[bool, float]:
    """Return whether headings are degrees, and the largest magnitude that they may have.

    Headings of A and B are degrees and those of C are radians, unless the content contradicts. It
    does so if the headings lie in the range of the other unit (for degrees some are beyond 2 pi,
    for radians none is) and the direction of motion agrees with them in that unit and not in the
    expected one, judged by the first MOST_MOVING frames in which something moves. Radians beyond 2
    pi are allowed if the motion agrees with them; otherwise they may be degrees. Malformed objects
    are skipped: reading them reports what is wrong.
    """
    expected = generation != "C"
    pairs = list(itertools.islice(_moving(objects), MOST_MOVING))
    if len(pairs) < LEAST_MOVING:
        return expected, HEADING_LIMIT_DEG if expected else WRAPPED_RAD
    headings, directions = np.array(pairs).T
    off_rad, off_deg = (
        float(np.median(np.abs(wrap_angle(heading - directions))))
        for heading in (headings, np.radians(headings))
    )
    agrees, disagrees = (off_rad, off_deg) if expected else (off_deg, off_rad)
    in_range = expected != bool(
        (np.abs(headings) > WRAPPED_RAD).any()
    )  # the range of the other unit
    degrees = expected != (in_range and agrees < AGREES_RAD and disagrees > DISAGREES_RAD)
    if degrees:
        return True, HEADING_LIMIT_DEG
    return False, HEADING_LIMIT_RAD if off_rad < AGREES_RAD else WRAPPED_RAD


def _moving(objects: list[Any]) -> Iterator[tuple[float, float]]:
    """Yield (heading, direction of motion in radians) for each frame in which an object moves."""
    for item in objects:
        try:
            lists = [item["heading"], item["velocity"], item["valid"]]
            if all(isinstance(values, Column) for values in lists):
                yield from _moving_in_arrays(*(values.values for values in lists))
                continue
            for heading, velocity, valid in zip(*map(as_list, lists), strict=False):
                if (
                    valid
                    and math.hypot(velocity["x"], velocity["y"]) >= MOVING_MPS
                    and abs(heading) <= HEADING_LIMIT_DEG
                ):
                    yield float(heading), math.atan2(velocity["y"], velocity["x"])
        except (TypeError, KeyError, AttributeError, OverflowError, ValueError):
            continue


def _moving_in_arrays(
    heading: Floats, velocity: Floats, valid: NDArray[np.bool_]
) -> Iterator[tuple[float, float]]:
    """Return what `_moving` yields for one object, computed on arrays.

    Raises:
        ValueError: the arrays are of different lengths.
    """
    x, y = velocity[:, 0], velocity[:, 1]
    moves = valid & (np.hypot(x, y) >= MOVING_MPS) & (np.abs(heading) <= HEADING_LIMIT_DEG)
    return zip(heading[moves].tolist(), np.arctan2(y[moves], x[moves]).tolist(), strict=True)


def _read_object(
    check: Checker, item: dict[str, Any], key: str, frame_count: int, unit: tuple[bool, float]
) -> SceneObject:
    """Check one object.

    Args:
        frame_count: number of frames; 0: this is the first object, whose number holds for all.
        unit: see `_unit_of_headings`.
    """
    valid = check.flags(check.get(item, "valid", key), f"{key}.valid", frame_count)
    count = len(valid)
    position = check.points(
        check.get(item, "position", key), f"{key}.position", count, valid, COORDINATE_LIMIT_M, "xyz"
    )
    velocity = check.points(
        check.get(item, "velocity", key), f"{key}.velocity", count, valid, SPEED_LIMIT_MPS, "xy"
    )
    heading = check.headings(check.get(item, "heading", key), f"{key}.heading", count, valid, *unit)
    kind = check.get(item, "type", key)
    if not isinstance(kind, str):
        check.fail(f"{key}.type", "a string", kind)
    kind = kind if kind in OBJECT_TYPES else "other"
    used = bool(valid.any())
    height = item.get("height")
    height = DEFAULTS["height"][kind] if height is None else height
    return SceneObject(
        type=OBJECT_TYPES.index(kind),
        id=check.integer(_or_default(item, "id"), f"{key}.id"),
        width_m=check.size(check.get(item, "width", key), f"{key}.width", used),
        length_m=check.size(check.get(item, "length", key), f"{key}.length", used),
        height_m=check.size(height, f"{key}.height", used),
        expert=check.flag(_or_default(item, "mark_as_expert"), f"{key}.mark_as_expert"),
        position_m=position,
        velocity_mps=velocity,
        heading_rad=heading,
        valid=valid,
        goal_m=_read_goal(
            check, item.get("goalPosition", MISSING), f"{key}.goalPosition", position, valid
        ),
    )


def _read_goal(
    check: Checker, goal: Any, key: str, position_m: Floats, valid: NDArray[np.bool_]
) -> Floats:
    """Return the goal, (3,), or the last position if there is none.

    A goal without a height gets that of the last position.
    """
    last = position_m[np.flatnonzero(valid)[-1]] if valid.any() else np.zeros(3)
    if goal is MISSING or goal is None:
        return np.array(last)
    place = check.points([goal], key, 1, np.array([valid.any()]), COORDINATE_LIMIT_M, "xyz")[0]
    if isinstance(goal, dict) and goal.get("z") is None:
        place[2] = last[2]
    return np.asarray(place)


def _read_roads(check: Checker, roads: list[Any]) -> tuple[Road, ...]:
    read: list[Road] = []
    total_points = 0
    for index, entry in enumerate(roads):
        key = f"roads[{index}]"
        item = check.mapping(entry, key)
        kind = check.get(item, "type", key)
        if kind not in ROAD_TYPES:
            check.fail(f"{key}.type", f"one of {', '.join(ROAD_TYPES)}", kind)
        geometry = check.items(
            check.get(item, "geometry", key), f"{key}.geometry", MAX_POINTS - total_points
        )
        total_points += len(geometry)
        everywhere = np.ones(len(geometry), dtype=bool)
        points = check.points(
            geometry, f"{key}.geometry", len(geometry), everywhere, COORDINATE_LIMIT_M, "xyz"
        )
        element = check.integer(_or_default(item, "map_element_id"), f"{key}.map_element_id")
        read.append(
            Road(kind, element, check.integer(_or_default(item, "id"), f"{key}.id"), points)
        )
    return tuple(read)


def json_bytes(scene: Scene) -> bytes:
    """Return a scene as compact JSON of generation C.

    Reading it again gives an equal scene, except for what the schema has no keys for: links of
    lanes, stop lines, yield signs.

    Raises:
        SceneError: traffic lights or metadata contain NaN or infinity.
    """
    try:
        return json.dumps(tree_of(scene), separators=(",", ":"), allow_nan=False).encode()
    except (
        ValueError
    ) as error:  # from traffic lights or metadata, which are stored as they were read
        raise SceneError(
            f"{scene.name}: tl_states or metadata hold a number that JSON cannot hold: {error}"
        ) from error


def tree_of(scene: Scene) -> dict[str, Any]:
    """Return a scene as JSON-like data of generation C.

    Frames in which an object is absent hold the format's -10000.
    """
    axes = 3 if scene.has_height else 2
    controls = scene.controls
    lights = (
        scene.traffic_lights
        if controls is None
        else light_tree(controls, scene.roads, scene.frame_count)
    )
    return {
        "name": scene.name,
        "scenario_id": scene.scenario_id,
        "objects": [_object_tree(item, axes) for item in scene.objects],
        "roads": [
            {
                "geometry": _points(road.points_m[:, :axes]),
                "type": road.type,
                "map_element_id": road.map_element_id,
                "id": road.id,
            }
            for road in roads_with_signs(scene)
        ],
        "tl_states": lights,
        "metadata": scene.metadata,
    }


def _object_tree(item: SceneObject, axes: int) -> dict[str, Any]:
    there = item.valid[:, None]
    return {
        "position": _points(np.where(there, item.position_m, INVALID)[:, :axes]),
        "velocity": _points(np.where(there, item.velocity_mps, INVALID)),
        "heading": np.where(item.valid, item.heading_rad, INVALID).tolist(),
        "valid": item.valid.tolist(),
        "width": item.width_m,
        "length": item.length_m,
        "height": item.height_m,
        "goalPosition": _points(item.goal_m[None, :axes])[0],
        "type": OBJECT_TYPES[item.type],
        "id": item.id,
        "mark_as_expert": item.expert,
    }


def _points(points_m: Floats) -> list[dict[str, float]]:
    axes = "xyz"[: points_m.shape[1]]
    return [dict(zip(axes, point, strict=True)) for point in points_m.tolist()]
