# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Packs the stop signs, traffic lights and areas (crosswalks, speed bumps, driveways) of a scene.

Runs in the learner. Files tell little about these, so the following rules fill in what is missing:

- a traffic light of a JSON scene stands at the recorded stop point of its lane; its heading is that
  of the lane there;
- a sign holds for the nearest lane that passes it on its left, at most SIGN_M away;
- a missing stop line is LINE_M long, across the lane, at the light's stop point or where the lane
  is nearest to the sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes import packed
from drive_env.scenes.check import MAX_CONTROLS, MAX_SIGN_PAIRS
from drive_env.scenes.schema import (
    AREA_TYPES,
    CONTROL_KINDS,
    GREEN,
    OFF,
    RED,
    UNKNOWN,
    YELLOW,
    Control,
    Floats,
    Road,
    Scene,
)  # fmt: skip
from drive_env.scenes.segments import Polyline
from puffervec.errors import SceneError

Pieces = tuple[Floats, Floats, NDArray[np.int64]]
SIGN_M = 8.0
LINE_M = 3.5
STOP_SIGN, YIELD_SIGN, TRAFFIC_LIGHT = map(
    CONTROL_KINDS.index, ("stop_sign", "yield_sign", "traffic_light")
)
# The words of `tl_states` (WOMD's TrafficSignalLaneState.State).
STATES = {
    "unknown": UNKNOWN, "off": OFF,
    "stop": RED, "caution": YELLOW, "go": GREEN,
    "arrow_stop": RED | packed.STATE_ARROW, "arrow_caution": YELLOW | packed.STATE_ARROW,
    "arrow_go": GREEN | packed.STATE_ARROW,
    "flashing_stop": RED | packed.STATE_FLASHING,
    "flashing_caution": YELLOW | packed.STATE_FLASHING,
}  # fmt: skip

WORDS = {state: word for word, state in STATES.items()}


def word_of(state: int) -> str:
    """Return the word of a state, or that of its colour alone if the state has none."""
    return WORDS.get(state) or WORDS.get(state & packed.STATE_COLOUR, "unknown")


def controls_of(scene: Scene) -> tuple[Control, ...]:
    """Return the controls of a scene, or derive them from its roads and traffic lights."""
    if scene.controls is not None:
        return scene.controls
    red = np.array([RED], dtype=np.uint8)
    signs = [
        Control(STOP_SIGN, road.points_m[0], -1, red, road.id)
        for road in scene.roads
        if road.type == "stop_sign" and len(road.points_m)
    ]
    return (*signs, *lights_of(scene))


def roads_with_signs(scene: Scene) -> tuple[Road, ...]:
    """Return the roads of a scene and its stop signs, each once.

    Formats without controls store stop signs among the roads.
    """
    if scene.controls is None:
        return scene.roads
    signs = {(item.id, *item.position_m): item for item in scene.controls if item.kind == STOP_SIGN}
    others = [road for road in scene.roads if road.type != "stop_sign"]
    return (
        *others,
        *(Road("stop_sign", 17, item.id, item.position_m[None]) for item in signs.values()),
    )


def light_tree(controls: Sequence[Control], roads: Sequence[Road], frames: int) -> dict[str, Any]:
    """Return traffic lights as in JSON scenes (`tl_states`): by lane, a word and a place per frame.

    A light without a lane gets a key that is no lane's id. Of two lights for one lane, the first is
    used.
    """
    lanes = {road.id for road in roads if road.type == "lane"}
    trees: dict[str, Any] = {}
    for number, item in enumerate(controls):
        if item.kind != TRAFFIC_LIGHT:
            continue
        key = str(item.id if item.lane_id == -1 else item.lane_id)
        if item.lane_id == -1 and (item.id in lanes or key in trees):
            key = f"light {number}"
        axes = {
            axis: [float(value)] * frames
            for axis, value in zip("xyz", item.position_m, strict=True)
        }
        words = [word_of(state) for state in np.broadcast_to(item.states, frames).tolist()]
        trees.setdefault(key, {"state": words, **axes, "time_index": [*range(frames)]})
    return trees


def lights_of(scene: Scene) -> list[Control]:
    """Return the traffic lights of a JSON scene (`tl_states`) that have a place.

    A state that is missing or an unknown word is UNKNOWN.
    """
    lights = []
    for key, light in scene.traffic_lights.items():
        if not isinstance(light, dict):
            continue
        states = np.full(scene.frame_count, UNKNOWN, dtype=np.uint8)
        place: list[float] | None = None
        columns = [light.get(name) for name in ("state", "x", "y", "z")]
        words, *axes = [column if isinstance(column, list) else [] for column in columns]
        times = light.get("time_index")
        for index, word in enumerate(words):
            at = times[index] if isinstance(times, list) and index < len(times) else index
            if type(at) is int and 0 <= at < scene.frame_count:
                states[at] = STATES.get(word, UNKNOWN) if isinstance(word, str) else UNKNOWN
            point = [axis[index] if index < len(axis) else 0.0 for axis in axes]
            if place is None and all(
                type(value) in (int, float) and abs(value) < 1e5 for value in point
            ):
                place = [float(value) for value in point]
        lane = int(key) if key.lstrip("-").isdecimal() and len(key) < 10 else -1
        if place is not None:
            lights.append(Control(TRAFFIC_LIGHT, np.array(place), lane, states, lane))
    return lights


def pack_controls(
    scene: Scene, lanes: list[Polyline], origin: Floats
) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Return the records of all controls, and the states to which they refer.

    Raises:
        SceneError: more controls than a scene may have, or more than can be compared with its
            lanes.
    """
    controls = controls_of(scene)
    _check_count(scene, controls, sum(len(item.points_m) for item in lanes))
    records = np.zeros(len(controls), dtype=packed.CONTROL)
    number = {item.road.id: index for index, item in enumerate(lanes) if item.road.id != -1}
    pieces = _pieces_of(lanes)
    total = 0
    for record, control in zip(records, controls, strict=True):
        place = control.position_m - origin
        lane = number.get(control.lane_id, packed.NO_LANE)
        heading, stop = 0.0, place
        if lane == packed.NO_LANE and control.kind != TRAFFIC_LIGHT:
            lane, stop = _lane_beside(pieces, place)
        if lane != packed.NO_LANE:
            heading = _heading_at(lanes[lane].points_m, stop)
        if control.heading_rad is not None:
            heading = control.heading_rad
        record["x_m"], record["y_m"], record["z_m"] = place
        record["heading"] = (heading + np.pi) % (2 * np.pi) - np.pi
        line = _stop_line(control, stop, heading, lane != packed.NO_LANE, origin)
        record["line_x0_m"], record["line_y0_m"], record["line_x1_m"], record["line_y1_m"] = line[
            :, :2
        ].ravel()
        record["states"], record["state_count"] = total, len(control.states)
        record["lane"], record["kind"], record["id"] = lane, control.kind, control.id
        total += len(control.states)
    states = [control.states.astype(np.uint8) for control in controls]
    return records, np.concatenate(states) if states else np.zeros(0, dtype=np.uint8)


def _check_count(scene: Scene, controls: Sequence[Control], points: int) -> None:
    if len(controls) > MAX_CONTROLS:
        raise SceneError(
            f"{scene.name}: {len(controls)} traffic lights and signs; at most {MAX_CONTROLS} are "
            "allowed: cut the scene"
        )
    known = {road.id for road in scene.roads if road.type == "lane"}
    lost = sum(
        control.kind != TRAFFIC_LIGHT and control.lane_id not in known for control in controls
    )
    if lost * points > MAX_SIGN_PAIRS:
        raise SceneError(
            f"{scene.name}: more than {MAX_SIGN_PAIRS} pairs of signs and points of lanes; cut "
            "the scene"
        )


def _stop_line(
    control: Control, stop: Floats, heading: float, on_lane: bool, origin: Floats
) -> Floats:
    """Return the left and the right end of the stop line, (2, 3).

    Both are the stop point if the line is unknown.
    """
    if control.stop_line_m is not None:
        return np.asarray(control.stop_line_m - origin)
    left = np.array([-np.sin(heading), np.cos(heading), 0.0]) * (LINE_M / 2 if on_lane else 0.0)
    return np.stack([stop + left, stop - left])


def _lane_beside(pieces: Pieces, place: Floats) -> tuple[int, Floats]:
    """Return the lane for which a sign holds, and its point nearest to the sign.

    Returns NO_LANE and the sign's place if there is no such lane.
    """
    start, step, lane = pieces
    share = ((place[:2] - start[:, :2]) * step[:, :2]).sum(axis=1) / np.maximum(
        (step[:, :2] ** 2).sum(axis=1), 1e-12
    )
    nearest = start + np.clip(share, 0.0, 1.0)[:, None] * step
    gap = place[:2] - nearest[:, :2]
    distance = np.hypot(gap[:, 0], gap[:, 1])
    near = np.flatnonzero(distance < SIGN_M)
    seen: set[int] = set()
    for at in near[np.argsort(distance[near], kind="stable")].tolist():
        right = step[at, 0] * gap[at, 1] - step[at, 1] * gap[at, 0] < 0
        if right and lane[at] not in seen:
            return int(lane[at]), nearest[at]
        seen.add(int(lane[at]))  # the nearest point of this lane has the sign on its left
    return packed.NO_LANE, place


def _pieces_of(lanes: list[Polyline]) -> Pieces:
    """Return start (n, 3), step (n, 3) and lane (n,) of the segments of all lanes."""
    points = np.concatenate([np.zeros((0, 3)), *(item.points_m for item in lanes)])
    lane = np.repeat(np.arange(len(lanes)), [len(item.points_m) for item in lanes])
    within = np.flatnonzero(lane[1:] == lane[:-1])
    return points[within], points[within + 1] - points[within], lane[within]


def _heading_at(points_m: Floats, place: Floats) -> float:
    """Return the direction of a polyline's segment whose middle is nearest to a place."""
    middle = (points_m[:-1, :2] + points_m[1:, :2]) / 2
    at = int(np.hypot(*(middle - place[:2]).T).argmin())
    step = points_m[at + 1] - points_m[at]
    return float(np.arctan2(step[1], step[0]))


def pack_areas(scene: Scene, origin: Floats) -> tuple[NDArray[Any], Floats]:
    """Return the records of all areas, and the points (n, 3) to which they refer.

    A closing point is left out.
    """
    roads = [road for road in scene.roads if road.type in AREA_TYPES and len(road.points_m)]
    records = np.zeros(len(roads), dtype=packed.AREA)
    points = [np.zeros((0, 3))]
    total = 0
    for record, road in zip(records, roads, strict=True):
        closed = len(road.points_m) > 1 and bool((road.points_m[0] == road.points_m[-1]).all())
        points.append(road.points_m[: len(road.points_m) - closed] - origin)
        record["first"], record["count"] = total, len(points[-1])
        record["id"], record["kind"] = road.id, AREA_TYPES.index(road.type)
        total += len(points[-1])
    return records, np.concatenate(points)
