# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads a Scenario of the Waymo Open Motion Dataset (WOMD), without TensorFlow and Waymo's package.

SCHEMA lists the fields that are read, with their published numbers (waymo_open_dataset/protos:
scenario.proto, map.proto). Fields of other numbers, such as those of lidar and cameras, are skipped
by protobuf. Values are checked while they are read, as those of all formats (check.py). Runs in the
learner and in helper processes.

`Scene.left_out` counts what a Scene cannot store.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes import controls
from drive_env.scenes.check import (
    MAX_CONTROLS,
    MAX_FRAMES,
    MAX_OBJECTS,
    MAX_POINTS,
    MAX_ROADS,
    Checker,
    parse_message,
)
from drive_env.scenes.frames import resample, step_of
from drive_env.scenes.logged import MPH_MPS, ROW_LIMITS, lights_of, logged_object, signs_of
from drive_env.scenes.schema import (
    UNKNOWN,
    Control,
    Floats,
    LaneLinks,
    Road,
    Scene,
    SceneObject,
)
from drive_env.scenes.wire import message_class

# See `message_class`.
SCHEMA = {
    "Scenario": (
        "5 string scenario_id, 1 double[] timestamps_seconds, 10 int32 current_time_index, "
        "2 Track[] tracks, 7 DynamicMapState[] dynamic_map_states, 8 MapFeature[] map_features, "
        "6 int32 sdc_track_index, 4 int32[] objects_of_interest, "
        "11 RequiredPrediction[] tracks_to_predict, 12 bytes[] compressed_frame_laser_data, "
        "13 bytes[] frame_camera_tokens"
    ),
    "Track": "1 int32 id, 2 int32 object_type, 3 ObjectState[] states",
    "ObjectState": (
        "2 double center_x, 3 double center_y, 4 double center_z, 5 float length, 6 float width, "
        "7 float height, 8 float heading, 9 float velocity_x, 10 float velocity_y, 11 bool valid"
    ),
    "RequiredPrediction": "1 int32 track_index, 2 int32 difficulty",
    "DynamicMapState": "1 TrafficSignalLaneState[] lane_states",
    "TrafficSignalLaneState": "1 int64 lane, 2 int32 state, 3 MapPoint stop_point",
    "MapFeature": (
        "1 int64 id, 3 LaneCenter lane, 4 Line road_line, 5 Line road_edge, 7 StopSign stop_sign, "
        "8 Area crosswalk, 9 Area speed_bump, 10 Area driveway"
    ),
    "MapPoint": "1 double x, 2 double y, 3 double z",
    "LaneCenter": (
        "1 double speed_limit_mph, 2 int32 type, 3 bool interpolating, 8 MapPoint[] polyline, "
        "9 int64[] entry_lanes, 10 int64[] exit_lanes, 11 LaneNeighbor[] left_neighbors, "
        "12 LaneNeighbor[] right_neighbors, 13 bytes[] left_boundaries, "
        "14 bytes[] right_boundaries"
    ),
    "LaneNeighbor": "1 int64 feature_id, 2 int32 self_start_index, 3 int32 self_end_index",
    "Line": "1 int32 type, 2 MapPoint[] polyline",
    "StopSign": "1 int64[] lane, 2 MapPoint position",
    "Area": "1 MapPoint[] polygon",
}
FIELDS = ("center_x", "center_y", "center_z", "heading", "velocity_x", "velocity_y")
# Types of objects, indexed by Track.object_type.
TYPES = ("other", "vehicle", "pedestrian", "cyclist", "other")
# map_element_id of the first subtype, and the number of subtypes.
ELEMENTS = {"lane": (0, 4), "road_line": (5, 9), "road_edge": (14, 3)}
AREAS = {"crosswalk": 18, "speed_bump": 19, "driveway": 20}
# States of lights, indexed by TrafficSignalLaneState.state.
STATES = tuple(
    controls.STATES[word]
    for word in (
        "unknown", "arrow_stop", "arrow_caution", "arrow_go", "stop", "caution", "go",
        "flashing_stop", "flashing_caution",
    )
)  # fmt: skip


@functools.cache
def scenario_class() -> Any:
    """Return protobuf's class for a Scenario."""
    return message_class(SCHEMA, "puffervec.womd", "Scenario")


def parse_scenario(data: bytes, source: str, name: str) -> Scene:
    """Read a Scenario.

    Lengths are those of each object's last valid frame, goals its last valid position; no object
    counts as an expert, since the data set has no such mark. A light that is not listed in a frame
    is unknown there. Its stop point is the first one recorded.

    Args:
        data: the content of a record.
        source: starts every error message.
        name: name of the scene.

    Raises:
        SceneError: the bytes are not a Scenario, or a value is missing or wrong. The message reads
            `source: field: expected ..., got ...`.
    """
    what = "a Scenario of the Waymo Open Motion Dataset"
    message = parse_message(scenario_class(), data, source, what)
    check = Checker(source)
    frames, step_s = _frames(check, message.timestamps_seconds)
    check.limit(len(message.tracks), MAX_OBJECTS, "tracks", "tracks")
    objects = tuple(
        _object(check, track, f"tracks[{index}]", frames)
        for index, track in enumerate(message.tracks)
    )
    check.unique_ids([item.id for item in objects])
    roads, signs = _map(check, message.map_features)
    scene = Scene(
        name=name,
        scenario_id=message.scenario_id,
        frame_count=frames,
        objects=objects,
        roads=roads,
        traffic_lights={},
        metadata=_metadata(check, message),
        controls=(*signs, *_lights(check, message.dynamic_map_states, frames)),
        left_out=_left_out(message),
    )
    return resample(scene, step_s, check)


def _frames(check: Checker, timestamps: Sequence[float]) -> tuple[int, float]:
    """Return the number of frames and the time between them."""
    times_s = np.array(timestamps, dtype=np.float64)
    if not 1 <= len(times_s) <= MAX_FRAMES:
        check.fail("timestamps_seconds", f"1 to {MAX_FRAMES} times", len(times_s))
    return len(times_s), step_of(check, times_s, "timestamps_seconds")


def _object(check: Checker, track: Any, key: str, frames: int) -> SceneObject:
    states = track.states
    if len(states) != frames:
        check.fail(f"{key}.states", f"{frames}, as many as timestamps", len(states))
    if not 0 <= track.object_type < len(TYPES):
        check.fail(f"{key}.object_type", f"0 to {len(TYPES) - 1}", track.object_type)
    valid = np.array([state.valid for state in states], dtype=np.bool_)
    rows = np.zeros((frames, 6))
    used = np.flatnonzero(valid)
    for frame in used.tolist():
        state = states[frame]
        rows[frame] = [getattr(state, field) for field in FIELDS]
    check.within(rows, ROW_LIMITS, lambda frame, column: f"{key}.states[{frame}].{FIELDS[column]}")
    size_m = [1.0, 1.0, 1.0]
    if len(used):
        last = states[int(used[-1])]
        size_m = [
            check.size(getattr(last, side), f"{key}.states[{used[-1]}].{side}", True)
            for side in ("width", "length", "height")
        ]
    return logged_object(TYPES[track.object_type], track.id, size_m, rows, valid)


def _map(check: Checker, features: Sequence[Any]) -> tuple[tuple[Road, ...], list[Control]]:
    """Return the roads and the stop signs."""
    check.limit(len(features), MAX_ROADS, "map_features", "features")
    roads: list[Road] = []
    signs: list[Control] = []
    total = 0
    for index, feature in enumerate(features):
        key = f"map_features[{index}]"
        own_id = check.integer(feature.id, f"{key}.id")
        kind = next((field.name for field, _ in feature.ListFields() if field.name != "id"), "")
        if not kind:
            continue  # A kind of feature that newer files may have; it is counted as left out.
        item, key = getattr(feature, kind), f"{key}.{kind}"
        if kind == "stop_sign":
            (position,) = _points(check, [item.position], f"{key}.position")
            lanes = [check.integer(lane, f"{key}.lane") for lane in item.lane]
            signs += signs_of(position, lanes, own_id)
            continue
        listed, field = (item.polygon, "polygon") if kind in AREAS else (item.polyline, "polyline")
        total += len(listed)
        check.limit(total, MAX_POINTS, "map_features", "points")
        points = _points(check, listed, f"{key}.{field}")
        links = _links(check, item, key) if kind == "lane" else None
        roads.append(Road(kind, _element(check, kind, item, key), own_id, points, links))
    check.limit(len(signs), MAX_CONTROLS, "map_features", "stop signs")
    return tuple(roads), signs


def _element(check: Checker, kind: str, item: Any, key: str) -> int:
    """Return the map_element_id of a feature."""
    if kind in AREAS:
        return AREAS[kind]
    first, count = ELEMENTS[kind]
    if not 0 <= item.type < count:
        check.fail(f"{key}.type", f"0 to {count - 1}", item.type)
    return first + int(item.type)


def _points(check: Checker, listed: Sequence[Any], key: str) -> Floats:
    """Return points, (n, 3)."""
    points = np.array([(point.x, point.y, point.z) for point in listed]).reshape(-1, 3)
    return check.places(points, key)


def _links(check: Checker, lane: Any, key: str) -> LaneLinks:
    given = lane.speed_limit_mph
    return LaneLinks(
        exits=tuple(check.integer(item, f"{key}.exit_lanes") for item in lane.exit_lanes),
        entries=tuple(check.integer(item, f"{key}.entry_lanes") for item in lane.entry_lanes),
        left=_neighbor(check, lane.left_neighbors, f"{key}.left_neighbors"),
        right=_neighbor(check, lane.right_neighbors, f"{key}.right_neighbors"),
        speed_limit_mps=check.speed(given * MPH_MPS, f"{key}.speed_limit_mph", given),
    )


def _neighbor(check: Checker, neighbors: Sequence[Any], key: str) -> int:
    """Return the lane that runs alongside for the most points, -1 if none does."""
    if not neighbors:
        return -1
    most = max(neighbors, key=lambda item: item.self_end_index - item.self_start_index)
    return check.integer(most.feature_id, key)


def _lights(check: Checker, steps: Sequence[Any], frames: int) -> list[Control]:
    """Return one traffic light for each lane that has a state in any frame."""
    if len(steps) > frames:
        check.fail("dynamic_map_states", f"at most {frames}, as many as timestamps", len(steps))
    states: dict[int, NDArray[np.uint8]] = {}
    places: dict[int, Floats] = {}
    for frame, step in enumerate(steps):
        for number, light in enumerate(step.lane_states):
            key = f"dynamic_map_states[{frame}].lane_states[{number}]"
            lane = check.integer(light.lane, f"{key}.lane")
            if not 0 <= light.state < len(STATES):
                check.fail(f"{key}.state", f"0 to {len(STATES) - 1}", light.state)
            if lane not in states:
                if len(states) == MAX_CONTROLS:
                    check.fail(key, f"at most {MAX_CONTROLS} lights", MAX_CONTROLS + 1)
                states[lane] = np.full(frames, UNKNOWN, dtype=np.uint8)
                (places[lane],) = _points(check, [light.stop_point], f"{key}.stop_point")
            states[lane][frame] = STATES[light.state]
    return lights_of(places, states)


def _metadata(check: Checker, message: Any) -> dict[str, Any]:
    """Return the metadata in the form of JSON scenes, with the index of the last past frame."""
    tracks = len(message.tracks)
    for index, item in enumerate(message.tracks_to_predict):
        if not 0 <= item.track_index < tracks:
            key = f"tracks_to_predict[{index}].track_index"
            check.fail(key, f"0 to {tracks - 1}", item.track_index)
    has_driver = message.HasField("sdc_track_index")
    if has_driver and not 0 <= message.sdc_track_index < max(tracks, 1):
        check.fail("sdc_track_index", f"0 to {tracks - 1}", message.sdc_track_index)
    return {
        "sdc_track_index": message.sdc_track_index if has_driver and tracks else -1,
        "tracks_to_predict": [
            {"track_index": item.track_index, "difficulty": item.difficulty}
            for item in message.tracks_to_predict
        ],
        "objects_of_interest": list(message.objects_of_interest),
        "current_time_index": message.current_time_index,
    }


def _left_out(message: Any) -> dict[str, int]:
    """Count, by kind, the things in the file that a Scene cannot store."""
    counts: Counter[str] = Counter()
    for feature in message.map_features:
        if feature.HasField("lane"):
            lane = feature.lane
            counts["boundaries of lanes"] += len(lane.left_boundaries) + len(lane.right_boundaries)
            for side in (lane.left_neighbors, lane.right_neighbors):
                counts["further neighbours of lanes"] += max(0, len(side) - 1)
        elif len(feature.ListFields()) < 2:
            counts["map features of unknown kinds"] += 1
    counts["frames of lidar"] = len(message.compressed_frame_laser_data)
    counts["frames of camera tokens"] = len(message.frame_camera_tokens)
    return dict(+counts)
