# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads the binary scenes of PufferDrive 3, which have a lane graph and traffic controls.

Runs in the learner. All values are little-endian, of four bytes unless noted otherwise. A `list` is
a count and as many ints.

  head      num_agents, num_roads, num_traffic, num_objects
  agent     id (its index), type, T; x[T] y[T] z[T] heading[T] vx[T] vy[T] length[T] width[T]
            height[T]; valid[T] (int); route (list), route_gt_len, goal x y z, mark_as_expert
  road      id (its index), type, n; x[n] y[n] z[n] heading[n];
            lanes (types 0 to 9) also: entry lanes (list), exit lanes (list), speed_limit, length,
            cumulative length[n]
  traffic   id (its index), type; stop line x y z x y z; heading; states (list), lanes (list)
  object    id, type, T, 9 T floats, T ints; PufferDrive skips these, and so does this reader
  graph     n, lane_ids[n], distances[n n]
  end       scenario_id (128 bytes), dataset (32 bytes), log_length, log_dt, objects_of_interest
            (list), tracks_to_predict (list); then any of "TLPHASE1" (8 bytes; two ints per traffic
            control) and "LANEWID1" (8 bytes; a float per point of each lane)

Builds of 2026 differ in four places (`Variant`). A file is read in each way, and all ways that fit
must agree on the content.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.bin_cursor import Contents, Cursor
from drive_env.scenes.check import (
    COORDINATE_LIMIT_M,
    HEADING_LIMIT_RAD,
    MAX_CONTROLS,
    MAX_FRAMES,
    MAX_OBJECTS,
    MAX_POINTS,
    MAX_ROADS,
    SIZE_LEAST_M,
    SIZE_LIMIT_M,
    SPEED_LIMIT_MPS,
    wrap_angle,
)
from drive_env.scenes.schema import (
    CONTROL_KINDS,
    FRAME_S,
    OBJECT_TYPES,
    RED,
    UNKNOWN,
    Control,
    LaneLinks,
    Road,
    SceneObject,
)

OBJECT_CODES = {0: "other", 1: "vehicle", 2: "pedestrian", 3: "cyclist"}
LANE_CODES = range(0, 10)
# Codes of roads, and their type and map_element_id; unknown codes of a kind become its "unknown".
ROAD_CODES: dict[int, tuple[str, int]] = {
    **{code: ("lane", code if code <= 3 else 0) for code in LANE_CODES},
    **{code: ("road_line", code - 5 if code <= 18 else 5) for code in range(10, 20)},
    **{code: ("road_edge", code - 6 if code <= 22 else 14) for code in range(20, 30)},
    31: ("crosswalk", 18),
    32: ("speed_bump", 19),
}
LIGHT = 1
CONTROL_CODES = {LIGHT: "traffic_light", 2: "stop_sign", 3: "yield_sign"}
MISC_CODES = range(30, 40)  # those without an entry above have no meaning and are dropped
MAX_GRAPH_LANES = 8192
MAX_LIST = 65_535
PHASES, WIDTHS = b"TLPHASE1", b"LANEWID1"


@dataclass(frozen=True)
class Variant:
    """The places in which builds of the format differ."""

    route_count: bool = True  # route_gt_len after an agent's route
    lane_lengths: bool = True  # length and cumulative lengths after a lane's speed limit
    graph_lengths: bool = False  # lengths[n] between the lane graph's ids and distances
    map_id: bool = False  # an int between scenario_id and dataset


VARIANTS = tuple(
    Variant(*chosen)
    for chosen in itertools.product((True, False), (True, False), (False, True), (False, True))
)


def parse_v3(cursor: Cursor, variant: Variant) -> Contents:
    """Read a scene.

    Raises:
        Misfit: the bytes do not fit the variant.
    """
    agents = cursor.integer("num_agents", 0, MAX_OBJECTS)
    roads = cursor.integer("num_roads", 0, MAX_ROADS)
    controls = cursor.integer("num_traffic", 0, MAX_CONTROLS)
    objects = cursor.integer("num_objects", 0, MAX_OBJECTS)
    agents_read = [_agent(cursor, variant, index, roads) for index in range(agents)]
    lane_points = 0
    roads_read: list[Road] = []
    for index in range(roads):
        road, points = _road(cursor, variant, index, roads)
        roads_read += [] if road is None else [road]
        lane_points += points
    controls_read = [_control(cursor, index, roads) for index in range(controls)]
    for index in range(objects):
        _object(cursor, index)
    _graph(cursor, variant, roads)
    scenario_id = cursor.text(128, "scenario_id")
    if variant.map_id:
        cursor.integer("map_id", -(2**31), 2**31 - 1)
    cursor.text(32, "dataset")
    cursor.integer("log_length", 0, MAX_FRAMES)
    cursor.number("log_dt", FRAME_S - 1e-4, FRAME_S + 1e-4)
    interest = _list(cursor, "objects_of_interest", -1, 2**31 - 1)
    tracks = _list(cursor, "tracks_to_predict", -1, MAX_OBJECTS)
    _tails(cursor, controls, lane_points)
    cursor.end()
    metadata = {
        "sdc_track_index": 0 if agents else -1,
        "tracks_to_predict": [{"track_index": int(index), "difficulty": 0} for index in tracks],
        "objects_of_interest": interest.tolist(),
    }
    return Contents(
        scenario_id,
        agents_read,
        roads_read,
        metadata,
        tuple(control for group in controls_read for control in group),
    )


def _list(cursor: Cursor, key: str, low: int, high: int) -> NDArray[np.int32]:
    return cursor.integers(cursor.integer(f"{key} (count)", 0, MAX_LIST), key, low, high)


def _read_id(cursor: Cursor, key: str, index: int) -> None:
    """Read an id, which must equal the index."""
    cursor.integer(f"{key}.id", index, index)


def _agent(cursor: Cursor, variant: Variant, index: int, roads: int) -> SceneObject:
    key = f"agents[{index}]"
    _read_id(cursor, key, index)
    code = cursor.integer(f"{key}.type", 0, 3)
    size = cursor.integer(f"{key}.size", 1, MAX_FRAMES)
    start = cursor.at
    arrays = cursor.floats(9 * size, key).reshape(9, size)
    valid = cursor.integers(size, f"{key}.valid", 0, 1).astype(np.bool_)
    axes = ("x", "y", "z", "heading", "vx", "vy")
    limits = (COORDINATE_LIMIT_M,) * 3 + (HEADING_LIMIT_RAD,) + (SPEED_LIMIT_MPS,) * 2
    for row, (values, axis, limit) in enumerate(zip(arrays, axes, limits, strict=False)):
        cursor.bounded(values, valid, limit, f"{key}.{axis}", start + 4 * row * size)
    sizes = [1.0, 1.0, 1.0]
    if valid.any():
        last = int(np.flatnonzero(valid)[-1])
        sizes = arrays[6:, last].tolist()
        for row, name in enumerate(("length", "width", "height")):
            at = start + 4 * ((6 + row) * size + last)
            cursor.within(
                sizes[row : row + 1], SIZE_LEAST_M, SIZE_LIMIT_M, [f"{key}.{name}[{last}]"], at
            )
    _list(cursor, f"{key}.route", -1, max(0, roads - 1))
    if variant.route_count:
        cursor.integer(f"{key}.route_gt_len", 0, MAX_LIST)
    start = cursor.at
    goal = cursor.floats(3, f"{key}.goal")
    cursor.bounded(goal, np.full(3, valid.any()), COORDINATE_LIMIT_M, f"{key}.goal", start)
    expert = cursor.integer(f"{key}.mark_as_expert", 0, 1)
    arrays = np.where(valid, arrays, 0.0)
    return SceneObject(
        type=OBJECT_TYPES.index(OBJECT_CODES[code]),
        id=index,
        width_m=sizes[1],
        length_m=sizes[0],
        height_m=sizes[2],
        expert=bool(expert),
        position_m=arrays[:3].T.copy(),
        velocity_mps=arrays[4:6].T.copy(),
        heading_rad=wrap_angle(arrays[3]),
        valid=valid,
        goal_m=goal if valid.any() else np.zeros(3),
    )


def _road(cursor: Cursor, variant: Variant, index: int, roads: int) -> tuple[Road | None, int]:
    """Read a road; return it, and its number of points if it is a lane."""
    key = f"roads[{index}]"
    _read_id(cursor, key, index)
    code = cursor.integer(f"{key}.type", 0, MISC_CODES[-1])
    size = cursor.integer(f"{key}.size", 0, MAX_POINTS)
    start = cursor.at
    arrays = cursor.floats(4 * size, key).reshape(4, size)
    everywhere = np.ones(size, dtype=np.bool_)
    for row, axis in enumerate("xyz"):
        cursor.bounded(
            arrays[row], everywhere, COORDINATE_LIMIT_M, f"{key}.{axis}", start + 4 * row * size
        )
    cursor.bounded(arrays[3], everywhere, HEADING_LIMIT_RAD, f"{key}.heading", start + 12 * size)
    links = None
    if code in LANE_CODES:
        entries, exits = (
            _list(cursor, f"{key}.{name}", 0, roads - 1) for name in ("entry_lanes", "exit_lanes")
        )
        limit_mps = cursor.number(f"{key}.speed_limit", -1.0, SPEED_LIMIT_MPS)
        links = LaneLinks(
            tuple(exits.tolist()), tuple(entries.tolist()), speed_limit_mps=max(0.0, limit_mps)
        )
        if variant.lane_lengths:
            cursor.number(f"{key}.length", 0.0, 10 * COORDINATE_LIMIT_M)
            start = cursor.at
            along = cursor.floats(size, f"{key}.cum_length")
            cursor.bounded(along, everywhere, 10 * COORDINATE_LIMIT_M, f"{key}.cum_length", start)
    if code not in ROAD_CODES:
        return None, 0
    kind, element = ROAD_CODES[code]
    return Road(kind, element, index, arrays[:3].T.copy(), links), size if code in LANE_CODES else 0


def _control(cursor: Cursor, index: int, roads: int) -> list[Control]:
    """Read a traffic control; return one control per lane, or one without a lane.

    Type 0 yields none.
    """
    key = f"traffic[{index}]"
    _read_id(cursor, key, index)
    code = cursor.integer(f"{key}.type", 0, 3)
    start = cursor.at
    line = cursor.floats(6, key)
    cursor.bounded(line, np.ones(6, dtype=np.bool_), COORDINATE_LIMIT_M, f"{key}.stop_line", start)
    heading = cursor.number(f"{key}.heading", -HEADING_LIMIT_RAD, HEADING_LIMIT_RAD)
    # The numbers are those of schema.py: UNKNOWN, RED...
    states = _list(cursor, f"{key}.states", 0, 4).astype(np.uint8)
    lanes = _list(cursor, f"{key}.lanes", 0, roads - 1)
    if code not in CONTROL_CODES:
        return []
    line = line.reshape(2, 3)
    common: dict[str, Any] = {
        "kind": CONTROL_KINDS.index(CONTROL_CODES[code]),
        "position_m": line.mean(axis=0),
        "states": states
        if len(states)
        else np.array([UNKNOWN if code == LIGHT else RED], dtype=np.uint8),
        "id": index,
        "heading_rad": float(wrap_angle(np.array([heading]))[0]),
        "stop_line_m": line,
    }
    return [Control(lane_id=lane, **common) for lane in lanes.tolist() or [-1]]


def _object(cursor: Cursor, index: int) -> None:
    """Skip a static object."""
    key = f"objects[{index}]"
    cursor.integer(f"{key}.id", -(2**31), 2**31 - 1)
    cursor.integer(f"{key}.type", -(2**31), 2**31 - 1)
    size = cursor.integer(f"{key}.size", 0, MAX_FRAMES)
    cursor.floats(9 * size, key)
    cursor.integers(size, f"{key}.valid", 0, 1)


def _graph(cursor: Cursor, variant: Variant, roads: int) -> None:
    """Skip the distances between lanes."""
    count = cursor.integer("lane graph (count)", 0, MAX_GRAPH_LANES)
    cursor.integers(count, "lane graph", 0, roads - 1)
    if variant.graph_lengths:
        cursor.floats(count, "lane graph lengths")
    cursor.floats(count * count, "lane graph distances")


def _tails(cursor: Cursor, controls: int, lane_points: int) -> None:
    """Skip the tagged parts after the end."""
    for _ in range(2):
        tag = cursor.data[cursor.at : cursor.at + 8]
        if tag not in (PHASES, WIDTHS):
            return
        cursor.at += 8
        if tag == PHASES:
            cursor.integers(2 * controls, "TLPHASE1", -1, MAX_LIST)
        else:
            start = cursor.at
            widths = cursor.floats(lane_points, "LANEWID1")
            cursor.bounded(
                widths, np.ones(len(widths), dtype=np.bool_), SIZE_LIMIT_M, "LANEWID1", start
            )
