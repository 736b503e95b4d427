# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads a scene of ScenarioNet (MetaDrive's scenario description): a pickle of one dict.

https://scenarionet.readthedocs.io/en/latest/description.html. ScenarioNet writes such files from
WOMD, nuScenes, nuPlan and others; they are read without MetaDrive, and without running the pickle
(plain_pickle.py). Ids that are not numbers are replaced by numbers in the order of the file.
`Scene.left_out` counts what a Scene cannot store. Runs in the learner and in helper processes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from drive_env.scenes.check import (
    COORDINATE_LIMIT_M,
    MAX_CONTROLS,
    MAX_FRAMES,
    MAX_OBJECTS,
    MAX_POINTS,
    MAX_ROADS,
    MAX_STATES,
    MISSING,
    Checker,
    refusing_faults,
)
from drive_env.scenes.controls import STATES, TRAFFIC_LIGHT
from drive_env.scenes.frames import resample, step_of
from drive_env.scenes.logged import KMH_MPS, MPH_MPS, ROW_LIMITS, logged_object, signs_of
from drive_env.scenes.plain_pickle import PickleError, load_plain
from drive_env.scenes.schema import (
    FRAME_S,
    GREEN,
    RED,
    UNKNOWN,
    YELLOW,
    Control,
    Floats,
    LaneLinks,
    Road,
    Scene,
    SceneObject,
)
from puffervec.errors import SceneError

TYPES = {"VEHICLE": "vehicle", "PEDESTRIAN": "pedestrian", "CYCLIST": "cyclist"}
# map_element_id by MetaDrive's type; other types of a kind are its "unknown".
ELEMENTS = {
    "LANE_FREEWAY": 1, "LANE_SURFACE_STREET": 2, "LANE_BIKE_LANE": 3,
    "ROAD_LINE_BROKEN_SINGLE_WHITE": 6, "ROAD_LINE_SOLID_SINGLE_WHITE": 7,
    "ROAD_LINE_SOLID_DOUBLE_WHITE": 8, "ROAD_LINE_BROKEN_SINGLE_YELLOW": 9,
    "ROAD_LINE_BROKEN_DOUBLE_YELLOW": 10, "ROAD_LINE_SOLID_SINGLE_YELLOW": 11,
    "ROAD_LINE_SOLID_DOUBLE_YELLOW": 12, "ROAD_LINE_PASSING_DOUBLE_YELLOW": 13,
    "ROAD_EDGE_BOUNDARY": 15, "ROAD_EDGE_MEDIAN": 16, "ROAD_EDGE_SIDEWALK": 15,
}  # fmt: skip
KINDS = {"LANE": ("lane", 0), "ROAD_LINE": ("road_line", 5), "ROAD_EDGE": ("road_edge", 14)}
AREAS = {"CROSSWALK": 18, "SPEED_BUMP": 19, "DRIVEWAY": 20}
COLOURS = {"GREEN": GREEN, "YELLOW": YELLOW, "RED": RED, "UNKNOWN": UNKNOWN}
LIGHTS = {
    **{f"LANE_STATE_{word.upper()}": state for word, state in STATES.items()},
    **{f"TRAFFIC_LIGHT_{word}": state for word, state in COLOURS.items()},
}
LANE_EXTRAS = ("left_boundaries", "right_boundaries", "polygon", "width")
# Of the columns of an object's rows.
PLACES = (
    "position[{}][0]", "position[{}][1]", "position[{}][2]", "heading[{}]", "velocity[{}][0]",
    "velocity[{}][1]",
)  # fmt: skip
# The lists of a data set, stored next to its scenes.
LISTS = ("dataset_summary.pkl", "dataset_mapping.pkl")


def parse_scenarionet(data: bytes, source: str, name: str) -> Scene:
    """Read a scene.

    Sizes are those of an object's last valid frame, its goal is its last valid position; no object
    counts as an expert, since the format has no such mark.

    Raises:
        SceneError: the bytes are not such a pickle, or a value is missing or wrong. The message
            reads `source: key: expected ..., got ...`.
    """
    try:
        tree = load_plain(data)
    except PickleError as error:
        raise SceneError(f"{source}: {error}") from error
    with refusing_faults(source):
        return _scene(Checker(source), tree, name)


def _scene(check: Checker, tree: Any, name: str) -> Scene:
    tree = check.mapping(tree, "the pickle")
    tracks, features, lights = (
        check.mapping(check.get(tree, key, ""), key)
        for key in ("tracks", "map_features", "dynamic_map_states")
    )
    metadata = check.mapping(tree.get("metadata", {}), "metadata")
    frames, step_s = _frames(check, tree, metadata)
    check.limit(tracks, MAX_OBJECTS, "tracks", "tracks")
    check.limit(len(tracks) * frames, MAX_STATES, "tracks", "states, tracks times frames,")
    left_out: Counter[str] = Counter()
    numbers = _numbers(tracks)
    objects = tuple(
        _object(check, check.mapping(track, f"tracks[{key!r}]"), f"tracks[{key!r}]", number, frames)
        for (key, track), number in zip(tracks.items(), numbers.values(), strict=True)
    )
    ids = _numbers(features)
    roads, signs = _map(check, features, ids, left_out)
    controls = (*signs, *_lights(check, lights, ids, frames, left_out))
    heights = any(road.points_m[:, 2].any() for road in roads) or any(
        item.position_m[:, 2].any() for item in objects
    )
    scene = Scene(
        name=name,
        scenario_id=str(metadata.get("scenario_id", tree.get("id", "")))[:200],
        frame_count=frames,
        objects=objects,
        roads=roads,
        traffic_lights={},
        metadata=_metadata(metadata, list(tracks), numbers),
        has_height=bool(heights),
        controls=controls,
        left_out=dict(+left_out),
    )
    return resample(scene, step_s, check)


def _numbers(items: Mapping[Any, Any]) -> dict[Any, int]:
    """Return a number for each key: itself if all are 32-bit whole numbers, else its position."""
    texts = [str(key) for key in items]
    plain = all(re.fullmatch("-?[0-9]{1,9}", text) for text in texts)
    values = [int(text) for text in texts] if plain else range(len(texts))
    return dict(zip(items, values, strict=True))


def _frames(
    check: Checker, tree: Mapping[str, Any], metadata: Mapping[str, Any]
) -> tuple[int, float]:
    """Return the number of frames and the time between them."""
    length = check.integer(check.get(dict(tree), "length", ""), "length")
    if not 1 <= length <= MAX_FRAMES:
        check.fail("length", f"1 to {MAX_FRAMES}", length)
    times = metadata.get("ts", metadata.get("timestep"))
    if times is None:
        return length, FRAME_S
    times_s = _array(check, times, "metadata.ts")
    if times_s.shape != (length,):
        check.fail("metadata.ts", f"{length} times", times_s.shape)
    return length, step_of(check, times_s, "metadata.ts")


def _array(check: Checker, value: Any, key: str) -> Floats:
    """Return numbers as float64, whatever their type in the file.

    Lists may be nested once. Their numbers are counted first, because a small pickle can hold one
    list many times.
    """
    if isinstance(value, (list, tuple)):
        inner = [item for item in value if isinstance(item, (list, tuple, np.ndarray))]
        count = len(value) - len(inner) + sum(map(len, inner))
        check.limit(count, 3 * MAX_POINTS, key, "numbers")
        if any(
            item.ndim > 1
            if isinstance(item, np.ndarray)
            else any(isinstance(number, (list, tuple, np.ndarray)) for number in item)
            for item in inner
        ):
            check.fail(key, "numbers, or lists of numbers", value)
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        check.fail(key, "numbers", value)
    return array


def _object(
    check: Checker, track: Mapping[str, Any], key: str, number: int, frames: int
) -> SceneObject:
    state = check.mapping(check.get(dict(track), "state", key), f"{key}.state")

    def column(name: str, axes: int, default: Any = MISSING) -> Floats:
        value = state.get(name, default)
        if value is MISSING:
            check.get(dict(state), name, f"{key}.state")
        array = _array(check, value, f"{key}.state.{name}")
        if array.ndim < 2:
            array = array.reshape(-1, 1)
        if array.ndim > 2 or len(array) != frames or array.shape[1] < min(axes, 2):
            check.fail(f"{key}.state.{name}", f"{frames} frames", array.shape)
        return array

    valid = column("valid", 1)[:, 0] != 0
    position = np.zeros((frames, 3))
    given = column("position", 3)[:, :3]
    position[:, : given.shape[1]] = given
    parts = [position, column("heading", 1)[:, :1], column("velocity", 2)[:, :2]]
    rows = np.where(valid[:, None], np.concatenate(parts, axis=1), 0.0)
    check.within(
        rows,
        ROW_LIMITS,
        lambda frame, column: f"{key}.state.{PLACES[column].format(frame)}",
    )
    used = np.flatnonzero(valid)
    size_m = [1.0, 1.0, 1.0]
    if len(used):
        last = int(used[-1])
        size_m = [
            check.size(
                float(column(name, 1, np.full(frames, default))[last, 0]),
                f"{key}.state.{name}[{last}]",
                True,
            )
            for name, default in (("width", 2.0), ("length", 4.5), ("height", 1.5))
        ]
    kind = TYPES.get(str(track.get("type")), "other")
    if kind == "vehicle" and size_m[0] > size_m[1]:
        # ScenarioNet has the sides of nuScenes' own car the wrong way round.
        size_m[:2] = size_m[1], size_m[0]
    return logged_object(kind, number, size_m, rows, valid)


def _map(
    check: Checker, features: Mapping[Any, Any], ids: Mapping[Any, int], left_out: Counter[str]
) -> tuple[tuple[Road, ...], list[Control]]:
    """Return the roads and the stop signs; counts features of other kinds."""
    check.limit(features, MAX_ROADS, "map_features", "features")
    roads: list[Road] = []
    signs: list[Control] = []
    total = 0
    for name, value in features.items():
        key = f"map_features[{name!r}]"
        feature = check.mapping(value, key)
        kind = str(feature.get("type"))
        road_type, element = next(
            (entry for prefix, entry in KINDS.items() if kind.startswith(prefix)), ("", 0)
        )
        if kind == "STOP_SIGN":
            place = _array(check, check.get(feature, "position", key), f"{key}.position")
            if place.size not in (2, 3):
                check.fail(f"{key}.position", "a point with two or three axes", place.shape)
            (position,) = _points(check, place.reshape(1, -1), f"{key}.position")
            lane = feature.get("lane")
            lanes = _lanes(lane if isinstance(lane, (list, tuple)) else [lane], ids)
            signs += signs_of(position, lanes, ids[name])
            check.limit(signs, MAX_CONTROLS, "map_features", "stop signs, one for each lane,")
            continue
        if kind in AREAS:
            road_type, element = kind.lower(), AREAS[kind]
        elif not road_type:
            left_out[f"map features of type {kind[:40]}"] += 1
            continue
        field = "polygon" if kind in AREAS else "polyline"
        points = _points(check, check.get(feature, field, key), f"{key}.{field}")
        total += len(points)
        check.limit(total, MAX_POINTS, "map_features", "points")
        links = None
        if road_type == "lane":
            links = _links(check, feature, key, ids)
            for extra in LANE_EXTRAS:
                if not _is_empty(feature.get(extra)):
                    left_out[f"lanes with {extra.replace('_', ' ')}"] += 1
        roads.append(Road(road_type, ELEMENTS.get(kind, element), ids[name], points, links))
    return tuple(roads), signs


def _is_empty(content: Any) -> bool:
    """Return whether the file has nothing under a key: None, or a list or array without items."""
    if isinstance(content, np.ndarray):
        return content.size == 0
    return content is None or (isinstance(content, (list, tuple)) and not content)


def _points(check: Checker, value: Any, key: str) -> Floats:
    """Return points, (n, 3); those without a height get 0."""
    given = _array(check, value, key)
    if given.size == 0:
        return np.zeros((0, 3))
    if given.ndim != 2 or not 2 <= given.shape[1] <= 3:
        check.fail(key, "points with two or three axes", given.shape)
    points = np.zeros((len(given), 3))
    points[:, : given.shape[1]] = given
    check.within(points, COORDINATE_LIMIT_M, lambda index, axis: f"{key}[{index}][{axis}]")
    return points


def _links(check: Checker, lane: Mapping[str, Any], key: str, ids: Mapping[Any, int]) -> LaneLinks:
    limit_mps = 0.0
    for name, factor in (("speed_limit_mph", MPH_MPS), ("speed_limit_kmh", KMH_MPS)):
        given = lane.get(name)
        if given is not None and limit_mps == 0.0:
            try:
                limit_mps = float(given) * factor
            except (TypeError, ValueError, OverflowError):
                check.fail(f"{key}.{name}", "a speed", given)
            check.speed(limit_mps, f"{key}.{name}", given)
    return LaneLinks(
        exits=_lanes(lane.get("exit_lanes"), ids),
        entries=_lanes(lane.get("entry_lanes"), ids),
        left=_neighbor(lane.get("left_neighbor"), ids),
        right=_neighbor(lane.get("right_neighbor"), ids),
        speed_limit_mps=limit_mps,
    )


def _lanes(listed: Any, ids: Mapping[Any, int]) -> tuple[int, ...]:
    """Return the numbers of lanes that a file lists by key, as text or number."""
    if not isinstance(listed, (list, tuple, set)):
        return ()
    return tuple(number for item in listed if (number := _number(item, ids)) is not None)


def _number(item: Any, ids: Mapping[Any, int]) -> int | None:
    """Return the number of a feature; None if the file has no such feature."""
    if not isinstance(item, (str, int)):
        return None
    return ids.get(item, ids.get(str(item)))


def _neighbor(listed: Any, ids: Mapping[Any, int]) -> int:
    """Return the lane that runs alongside for the most points, -1 if none does."""
    best, most = -1, -1
    for item in listed if isinstance(listed, (list, tuple)) else ():
        length, lane = 0, item
        if isinstance(item, dict):
            lane = item.get("feature_id")
            try:
                length = int(item["self_end_index"]) - int(item["self_start_index"])
            except (KeyError, TypeError, ValueError, OverflowError):
                length = 0
        number = _number(lane, ids)
        if number is not None and length > most:
            best, most = number, length
    return best


def _lights(
    check: Checker,
    lights: Mapping[Any, Any],
    ids: Mapping[Any, int],
    frames: int,
    left_out: Counter[str],
) -> list[Control]:
    check.limit(lights, MAX_CONTROLS, "dynamic_map_states", "lights")
    controls = []
    for number, (name, value) in enumerate(lights.items()):
        key = f"dynamic_map_states[{name!r}]"
        light = check.mapping(value, key)
        words = check.get(check.mapping(check.get(light, "state", key), key), "object_state", key)
        words = list(check.length(words, f"{key}.state.object_state", frames))
        states = np.array([_state(check, word, key) for word in words], dtype=np.uint8)
        place = _place(check, light.get("stop_point"), f"{key}.stop_point")
        if place is None:
            left_out["traffic lights without a place"] += 1
            continue
        lane = _number(light.get("lane"), ids)
        controls.append(Control(TRAFFIC_LIGHT, place, -1 if lane is None else lane, states, number))
    return controls


def _state(check: Checker, word: Any, key: str) -> int:
    """Return the code of a light's state; None and "" (no record in this frame) mean unknown."""
    if word is None or (isinstance(word, str) and not word):
        return UNKNOWN
    state = LIGHTS.get(word) if isinstance(word, str) else None
    if state is None:
        check.fail(f"{key}.state.object_state", f"one of {', '.join(LIGHTS)}", word)
    return state


def _place(check: Checker, value: Any, key: str) -> Floats | None:
    """Return the stop point, or the first one if there is one per frame; None if there is none."""
    if value is None or (isinstance(value, (list, tuple)) and not value):
        return None
    if isinstance(value, (list, tuple)) and any(
        item is None or isinstance(item, (list, tuple, np.ndarray)) for item in value
    ):
        value = next((item for item in value if item is not None), None)
        if value is None:
            return None
    places = _array(check, value, key)
    if not places.size:
        return None
    places = places.reshape(-1, places.shape[-1] if places.ndim else 1)
    return np.array(_points(check, places[:1], key)[0])


def _metadata(
    metadata: Mapping[str, Any], tracks: list[Any], numbers: Mapping[Any, int]
) -> dict[str, Any]:
    """Return the metadata in the form of JSON scenes, with the name of the data set."""
    index_of = {str(key): index for index, key in enumerate(tracks)}
    listed = metadata.get("tracks_to_predict")
    predicted = list(listed.values()) if isinstance(listed, dict) else listed
    interest = metadata.get("objects_of_interest")
    return {
        "sdc_track_index": index_of.get(str(metadata.get("sdc_id")), -1),
        "tracks_to_predict": [
            {
                "track_index": index_of[str(item.get("track_id"))],
                "difficulty": item.get("difficulty") if type(item.get("difficulty")) is int else 0,
            }
            for item in (predicted if isinstance(predicted, list) else [])
            if isinstance(item, dict) and str(item.get("track_id")) in index_of
        ],
        "objects_of_interest": [
            number
            for item in (interest if isinstance(interest, list) else [])
            if (number := _number(item, numbers)) is not None
        ],
        "dataset": str(metadata.get("dataset", ""))[:40],
    }
