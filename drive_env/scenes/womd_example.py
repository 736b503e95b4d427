# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads a tf.Example of the Waymo Open Motion Dataset (WOMD), without TensorFlow.

This is the other form in which the data set is published
(https://waymo.com/open/data/motion/tfexample). It has arrays of a fixed size for at most 128
objects, 30,000 points of the map and 16 lights. It has no lane graph, no speed limits and no lanes
of stop signs. Runs in the learner and in helper processes.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.check import (
    COORDINATE_LIMIT_M,
    MAX_CONTROLS,
    MAX_FRAMES,
    MAX_OBJECTS,
    MAX_POINTS,
    MAX_ROADS,
    MAX_STATES,
    Checker,
    parse_message,
)
from drive_env.scenes.frames import resample, step_of
from drive_env.scenes.logged import ROW_LIMITS, lights_of, logged_object, signs_of
from drive_env.scenes.schema import (
    FRAME_S,
    UNKNOWN,
    Control,
    Floats,
    Road,
    Scene,
    SceneObject,
)
from drive_env.scenes.wire import message_class
from drive_env.scenes.womd import STATES, TYPES

# tensorflow/core/example: example.proto, feature.proto. A map is a list of entries on the wire.
SCHEMA = {
    "Example": "1 Features features",
    "Features": "1 Entry[] feature",
    "Entry": "1 string key, 2 Feature value",
    "Feature": "1 BytesList bytes_list, 2 FloatList float_list, 3 Int64List int64_list",
    "BytesList": "1 bytes[] value",
    "FloatList": "1 float[] value",
    "Int64List": "1 int64[] value",
}
TIMES = ("past", "current", "future")
MARK = b"state/current/x"  # in every Example of the data set
FIELDS = ("x", "y", "z", "bbox_yaw", "velocity_x", "velocity_y")
SIDES = ("width", "length", "height")
# Types of roads by map_element_id, which the data set calls "type".
ROADS = {
    **dict.fromkeys(range(4), "lane"),
    **dict.fromkeys(range(5, 14), "road_line"),
    **dict.fromkeys(range(14, 17), "road_edge"),
    17: "stop_sign",
    18: "crosswalk",
    19: "speed_bump",
    20: "driveway",
}


def is_example(data: bytes) -> bool:
    """Return whether the content of a record is a tf.Example, not a Scenario."""
    return data[:1] == b"\x0a" and MARK in data


@functools.cache
def _example_class() -> Any:
    return message_class(SCHEMA, "puffervec.example", "Example")


class _Features:
    """The arrays of an Example by name."""

    def __init__(self, check: Checker, data: bytes) -> None:
        message = parse_message(_example_class(), data, check.source, "a tf.Example")
        self.check = check
        self.entries = {entry.key: entry.value for entry in message.features.feature}

    def numbers(self, name: str, *shape: int, default: float | None = None) -> Floats:
        """Return numbers as float64 of a shape, in which one size may be -1.

        Args:
            default: the value of a feature that may be missing; the -1 in its shape is then 0.
        """
        feature = self.entries.get(name)
        if feature is None and default is not None:
            return np.full([max(size, 0) for size in shape], default)
        if feature is None:
            self.check.fail(name, "this feature", None)
        listed = feature.float_list.value or feature.int64_list.value
        values = np.array(listed, dtype=np.float64)
        try:
            return values.reshape(shape)
        except ValueError:
            self.check.fail(name, f"numbers of shape {shape}", len(values))

    def over_time(self, name: str, count: int, by_frame: bool = False) -> Floats:
        """Return the past, current and future of a feature, (count, frames).

        Args:
            by_frame: the file has (frames, count).
        """
        parts = []
        for time in TIMES:
            key = name.format(time)
            if key not in self.entries and time != "current":
                continue  # The test split has no future.
            part = self.numbers(key, *((-1, count) if by_frame else (count, -1)))
            parts.append(part.T if by_frame else part)
        return np.concatenate(parts, axis=1)

    def text(self, name: str) -> str:
        """Return a text, "" if there is none."""
        feature = self.entries.get(name)
        values = feature.bytes_list.value if feature is not None else ()
        return values[0].decode("utf-8", "replace") if values else ""


def parse_example(data: bytes, source: str, name: str) -> Scene:
    """Read a tf.Example by the rules of `womd.parse_scenario`.

    Raises:
        SceneError: the bytes are not such an Example, or a value is missing or wrong. The message
            reads `source: feature: expected ..., got ...`.
    """
    check = Checker(source)
    features = _Features(check, data)
    ids = features.numbers("state/id", -1)
    if not 1 <= len(ids) <= MAX_OBJECTS:
        check.fail("state/id", f"1 to {MAX_OBJECTS} objects", len(ids))
    columns = [features.over_time(f"state/{{}}/{field}", len(ids)) for field in FIELDS]
    sides = [features.over_time(f"state/{{}}/{side}", len(ids)) for side in SIDES]
    valid = features.over_time("state/{}/valid", len(ids)) > 0
    frames = valid.shape[1]
    if frames > MAX_FRAMES or any(column.shape != valid.shape for column in (*columns, *sides)):
        check.fail("state", "features of equally many frames", sorted({c.shape for c in columns}))
    check.limit(valid.size, MAX_STATES, "state", "states, objects times frames,")
    kinds = features.numbers("state/type", len(ids))
    # The array is padded with rows that have no object; their type is -1 or they are never valid.
    used = np.flatnonzero(valid.any(axis=1) & (kinds >= 0) & (kinds < len(TYPES)))
    rows = np.where(valid[..., None], np.stack(columns, axis=-1), 0.0)
    check.within(
        rows, ROW_LIMITS, lambda row, frame, column: f"state/*/{FIELDS[column]}[{row}][{frame}]"
    )
    objects = tuple(_object(check, row, ids, kinds, rows, sides, valid) for row in used.tolist())
    check.unique_ids([item.id for item in objects])
    roads, signs = _map(features)
    scene = Scene(
        name=name,
        scenario_id=features.text("scenario/id"),
        frame_count=frames,
        objects=objects,
        roads=roads,
        traffic_lights={},
        metadata=_metadata(features, used, ids),
        controls=(*signs, *_lights(features, frames)),
    )
    return resample(scene, _step_s(features, valid), check)


def _step_s(features: _Features, valid: NDArray[np.bool_]) -> float:
    """Return the time between frames, by the first object that is there in all of them."""
    key = "state/{}/timestamp_micros"
    whole = np.flatnonzero(valid.all(axis=1))
    if key.format("current") not in features.entries or not len(whole):
        return FRAME_S
    times_s = features.over_time(key, len(valid))[whole[0]] / 1e6
    return step_of(features.check, times_s, key.format("*"))


def _object(
    check: Checker,
    row: int,
    ids: Floats,
    kinds: Floats,
    rows: Floats,
    sides: list[Floats],
    valid: NDArray[np.bool_],
) -> SceneObject:
    last = int(np.flatnonzero(valid[row])[-1])
    size_m = [
        check.size(float(side[row, last]), f"state/*/{name}[{row}][{last}]", True)
        for name, side in zip(SIDES, sides, strict=True)
    ]
    kind = TYPES[int(kinds[row])]
    own_id = check.whole(float(ids[row]), f"state/id[{row}]")
    return logged_object(kind, own_id, size_m, rows[row], valid[row])


def _map(features: _Features) -> tuple[tuple[Road, ...], list[Control]]:
    """Return the roads, which are runs of points with one id, and the stop signs."""
    check, prefix = features.check, "roadgraph_samples"
    points = features.numbers(f"{prefix}/xyz", -1, 3)
    count = len(points)
    check.limit(count, MAX_POINTS, f"{prefix}/xyz", "points")
    kinds, ids = (features.numbers(f"{prefix}/{name}", count) for name in ("type", "id"))
    valid = features.numbers(f"{prefix}/valid", count) > 0
    kept = np.flatnonzero(valid)
    points, kinds, ids = points[kept], kinds[kept], ids[kept]
    check.within(
        points, COORDINATE_LIMIT_M, lambda index, axis: f"{prefix}/xyz[{kept[index]}][{axis}]"
    )
    changes = np.flatnonzero((ids[1:] != ids[:-1]) | (kinds[1:] != kinds[:-1])) + 1
    roads: list[Road] = []
    signs: list[Control] = []
    for begin, end in zip([0, *changes.tolist()], [*changes.tolist(), len(ids)], strict=True):
        if begin == end:
            continue
        element = check.whole(float(kinds[begin]), f"{prefix}/type[{kept[begin]}]")
        kind = ROADS.get(element)
        if kind is None:
            check.fail(f"{prefix}/type[{kept[begin]}]", "a known type", element)
        own_id = check.whole(float(ids[begin]), f"{prefix}/id[{kept[begin]}]")
        if kind == "stop_sign":
            signs += signs_of(points[begin].copy(), (), own_id)
        else:
            roads.append(Road(kind, element, own_id, points[begin:end].copy()))
    check.limit(roads, MAX_ROADS, f"{prefix}/id", "features")
    check.limit(signs, MAX_CONTROLS, f"{prefix}/id", "stop signs")
    return tuple(roads), signs


def _lights(features: _Features, frames: int) -> list[Control]:
    """Return one traffic light for each lane that has a state in any frame."""
    prefix, check = "traffic_light_state/{}", features.check
    listed = features.entries.get(prefix.format("current") + "/state")
    if listed is None:
        return []
    count = len(listed.int64_list.value or listed.float_list.value)
    arrays = {
        name: features.over_time(f"{prefix}/{name}", count, by_frame=True)
        for name in ("id", "state", "valid", "x", "y", "z")
    }
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) > 1 or arrays["id"].shape[1] > frames:
        check.fail("traffic_light_state", f"at most {frames} frames of {count}", sorted(shapes))
    states: dict[int, NDArray[np.uint8]] = {}
    places: dict[int, Floats] = {}
    for slot, frame in np.argwhere(arrays["valid"] > 0).tolist():
        lane = check.whole(float(arrays["id"][slot, frame]), "traffic_light_state/*/id")
        state = check.whole(float(arrays["state"][slot, frame]), "traffic_light_state/*/state")
        if not 0 <= state < len(STATES):
            check.fail("traffic_light_state/*/state", f"0 to {len(STATES) - 1}", state)
        place = np.array([arrays[axis][slot, frame] for axis in "xyz"])
        check.within(place, COORDINATE_LIMIT_M, lambda axis: f"traffic_light_state/*/{'xyz'[axis]}")
        if lane not in states:
            check.limit(len(states) + 1, MAX_CONTROLS, "traffic_light_state/*/id", "lights")
            states[lane], places[lane] = np.full(frames, UNKNOWN, dtype=np.uint8), place
        states[lane][frame] = STATES[state]
    return lights_of(places, states)


def _metadata(features: _Features, used: NDArray[np.int64], ids: Floats) -> dict[str, Any]:
    """Return the metadata in the form of JSON scenes; indices refer to objects that are kept."""
    count = len(ids)
    drivers, predicted, interest = (
        features.numbers(f"state/{name}", count, default=0.0)[used] > 0
        for name in ("is_sdc", "tracks_to_predict", "objects_of_interest")
    )
    return {
        "sdc_track_index": int(np.flatnonzero(drivers)[0]) if drivers.any() else -1,
        "tracks_to_predict": [
            {"track_index": index, "difficulty": 0} for index in np.flatnonzero(predicted).tolist()
        ],
        "objects_of_interest": [int(ids[row]) for row in used[interest].tolist()],
    }
