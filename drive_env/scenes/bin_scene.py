# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads PufferDrive's binary scenes of all layouts, and writes the three oldest.

Runs in the learner. The files have neither a magic number nor a version, so each layout is tried:
it must fit to the last byte with plausible values, and all layouts that fit must agree on the
content. All values are little-endian, of four bytes:

  v0   num_objects, num_roads; then objects, then roads, each with a head (type, id, size)
  v1   the same with the head (type, size)
  v2   sdc_track_index, n, tracks_to_predict[n], num_objects, num_roads; heads are (scenario_id,
       type, id, size)
  v2b  16 bytes of scenario id before v2, or before v2 with the heads of v0
  v3   num_agents, num_roads, num_traffic, num_objects; see bin_v3.py

  body: x[size] y[size] z[size]; of objects also vx[] vy[] vz[] heading[] (float) and valid[] (int);
        then width, length, height, goal x, goal y, goal z (float) and mark_as_expert (int), of
        roads without a meaning
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.bin_cursor import Contents, Cursor, Misfit
from drive_env.scenes.bin_v3 import VARIANTS, parse_v3
from drive_env.scenes.check import (
    COORDINATE_LIMIT_M,
    HEADING_LIMIT_RAD,
    MAX_FRAMES,
    MAX_OBJECTS,
    MAX_POINTS,
    MAX_ROADS,
    SIZE_LEAST_M,
    SIZE_LIMIT_M,
    SPEED_LIMIT_MPS,
    wrap_angle,
)
from drive_env.scenes.controls import roads_with_signs
from drive_env.scenes.schema import (
    INVALID,
    OBJECT_TYPES,
    ROAD_TYPES,
    UNKNOWN,
    Control,
    Road,
    Scene,
    SceneObject,
)
from puffervec.errors import SceneError

# Codes of roads, each with a guess at the subtype (map_element_id), which writers do not store.
ROAD_CODES = dict(
    zip(range(4, 11), zip(ROAD_TYPES, (0, 5, 14, 17, 18, 19, 20), strict=True), strict=True)
)
# Code of a map element whose subtype the converter did not know; it is dropped.
UNKNOWN_ROAD = -1
OBJECT_CODES = {1: "vehicle", 2: "pedestrian", 3: "cyclist"}
FRAMES = 91  # PufferDrive's envs read this many frames of each object, whatever its size


@dataclass(frozen=True)
class Layout:
    """One of the layouts without a lane graph."""

    name: str
    head: tuple[str, ...]  # ints before each object and road
    tracks: bool = False  # sdc_track_index and tracks_to_predict at the start
    id_bytes: int = 0  # length of a scenario id at the very start


V2_HEAD = ("scenario_id", "type", "id", "size")
LAYOUTS = (
    Layout("v0", ("type", "id", "size")),
    Layout("v1", ("type", "size")),
    Layout("v2", V2_HEAD, tracks=True),
    Layout("v2b", V2_HEAD, tracks=True, id_bytes=16),
    Layout("v2b", ("type", "id", "size"), tracks=True, id_bytes=16),
)
BY_NAME = {layout.name: layout for layout in LAYOUTS[:3]}


def parse_bin(data: bytes, source: str, name: str) -> Scene:
    """Read one scene from the bytes of a .bin file. `source` starts every error message.

    Raises:
        SceneError: no layout fits, or several do that differ in content; the message tells for each
            layout where it fails.
    """
    fits: list[tuple[str, Scene]] = []
    misfits: list[tuple[int, str, str]] = []
    tries: list[tuple[str, Callable[[Cursor], Contents]]] = [
        *((layout.name, functools.partial(_parse, layout=layout)) for layout in LAYOUTS),
        *(("v3", functools.partial(parse_v3, variant=variant)) for variant in VARIANTS),
    ]
    for layout, attempt in tries:
        try:
            fits.append((layout, _assemble(attempt(Cursor(data)), name)))
        except Misfit as error:
            misfits.append((error.at, layout, str(error)))
    if not fits:
        _refuse(source, misfits)
    (first, scene), *others = fits
    if any(not same_content(scene, other) for _, other in others):
        names = ", ".join(dict.fromkeys([first, *(other for other, _ in others)]))
        raise SceneError(
            f"{source}: these {len(data)} bytes fit several layouts ({names}) that differ in "
            "content"
        )
    return scene


def _refuse(source: str, misfits: list[tuple[int, str, str]]) -> NoReturn:
    """Raise a SceneError that tells where each layout fails, the one that came farthest first."""
    failures: dict[str, str] = {}
    for _, layout, text in sorted(misfits, key=lambda item: -item[0]):
        failures.setdefault(layout, text)
    tried = "; ".join(f"{layout}: {text}" for layout, text in failures.items())
    raise SceneError(f"{source}: neither JSON nor one of PufferDrive's layouts: {tried}")


def same_content(one: Scene, other: Scene) -> bool:
    """Return whether two scenes have equal contents, to the last bit."""
    return _same(vars(one), vars(other))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    if dataclasses.is_dataclass(one) and type(one) is type(other):
        return _same(vars(one), vars(other))
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(one == other)


# ---- reading -------------------------------------------------------------------------------------


def _parse(cursor: Cursor, layout: Layout) -> Contents:
    """Read a scene in one of the layouts without a lane graph.

    Raises:
        Misfit: the bytes do not fit.
    """
    scenario_id = cursor.text(layout.id_bytes, "scenario_id") if layout.id_bytes else ""
    metadata: dict[str, Any] = {}
    if layout.tracks:
        sdc = cursor.integer("sdc_track_index", -1, MAX_OBJECTS)
        tracks = cursor.integers(
            cursor.integer("tracks_to_predict", 0, MAX_OBJECTS),
            "tracks_to_predict",
            -1,
            MAX_OBJECTS,
        )
        metadata = {
            "sdc_track_index": sdc,
            "tracks_to_predict": [{"track_index": int(index), "difficulty": 0} for index in tracks],
            "objects_of_interest": [],
        }
    object_count = cursor.integer("num_objects", 0, MAX_OBJECTS)
    road_count = cursor.integer("num_roads", 0, MAX_ROADS)
    objects = [_object(cursor, layout, f"objects[{index}]") for index in range(object_count)]
    roads = [_road(cursor, layout, f"roads[{index}]") for index in range(road_count)]
    cursor.end()
    return Contents(scenario_id, objects, [road for road in roads if road is not None], metadata)


def _assemble(contents: Contents, name: str) -> Scene:
    """Return a scene from contents whose logs may differ in length; shorter logs are padded.

    Objects are absent in padded frames. The layouts always have heights; if all are 0 they were not
    known. Writers pad logs to 91 frames, so frames at the end in which nothing is present are
    dropped. Ids that are not unique count as unknown, so then no object gets one.
    """
    lengths = [
        int(np.flatnonzero(item.valid)[-1]) + 1 for item in contents.objects if item.valid.any()
    ]
    frame_count = max(lengths, default=1)
    ids = [item.id for item in contents.objects]
    nameless = len(set(ids)) < len(ids)
    heights = [
        *(item.position_m for item in contents.objects),
        *(road.points_m for road in contents.roads),
    ]
    return Scene(
        name=name,
        scenario_id=contents.scenario_id,
        frame_count=frame_count,
        objects=tuple(_fit(item, frame_count, nameless) for item in contents.objects),
        roads=tuple(contents.roads),
        traffic_lights={},
        metadata=contents.metadata,
        has_height=any(points[:, 2].any() for points in heights),
        controls=None
        if contents.controls is None
        else tuple(_pad_states(item, frame_count) for item in contents.controls),
    )


def _pad_states(control: Control, frames: int) -> Control:
    """Return a control with a state for each frame, UNKNOWN where it has none.

    A control with a single state is returned unchanged.
    """
    if len(control.states) == 1:
        return control
    states = np.full(frames, UNKNOWN, dtype=np.uint8)
    states[: len(control.states)] = control.states[:frames]
    return dataclasses.replace(control, states=states)


def _fit(item: SceneObject, frames: int, nameless: bool) -> SceneObject:
    """Return an object with `frames` frames, and without its id if ids are not unique."""

    def cut(values: NDArray[Any]) -> NDArray[Any]:
        fitted = np.zeros((frames, *values.shape[1:]), values.dtype)
        fitted[: len(values)] = values[:frames]
        return fitted

    logged = ("position_m", "velocity_mps", "heading_rad", "valid")
    arrays: dict[str, Any] = {key: cut(getattr(item, key)) for key in logged}
    return dataclasses.replace(item, **arrays, id=-1 if nameless else item.id)


def _object(cursor: Cursor, layout: Layout, key: str) -> SceneObject:
    head = _head(cursor, layout, key, 1, 3, MAX_FRAMES)
    size = head["size"]
    start = cursor.at
    arrays = cursor.floats(7 * size, key).reshape(7, size)
    valid = cursor.integers(size, f"{key}.valid", 0, 1).astype(np.bool_)
    for row, axis, limit in zip(
        arrays, ("x", "y", "z", "vx", "vy", "vz", "heading"), _LIMITS, strict=True
    ):
        cursor.bounded(row, valid, limit, f"{key}.{axis}", start)
        start += 4 * size
    box = cursor.at
    width, length, height, *goal = cursor.floats(6, key).tolist()
    used = bool(valid.any())
    if used:
        everything = np.ones(3, dtype=np.bool_)
        names = [f"{key}.{name}" for name in ("width", "length", "height")]
        cursor.within((width, length, height), SIZE_LEAST_M, SIZE_LIMIT_M, names, box)
        cursor.bounded(np.array(goal), everything, COORDINATE_LIMIT_M, f"{key}.goal", box + 12)
    expert = cursor.integer(f"{key}.mark_as_expert", 0, 1)
    arrays = np.where(valid, arrays, 0.0)
    return SceneObject(
        type=OBJECT_TYPES.index(OBJECT_CODES[head["type"]]),
        id=head.get("id", -1),
        width_m=width if used else 1.0,
        length_m=length if used else 1.0,
        height_m=height if used else 1.0,
        expert=bool(expert),
        position_m=arrays[:3].T.copy(),
        velocity_mps=arrays[3:5].T.copy(),
        heading_rad=wrap_angle(arrays[6]),
        valid=valid,
        goal_m=np.array(goal) if used else np.zeros(3),
    )


_LIMITS = (COORDINATE_LIMIT_M,) * 3 + (SPEED_LIMIT_MPS,) * 3 + (HEADING_LIMIT_RAD,)


def _road(cursor: Cursor, layout: Layout, key: str) -> Road | None:
    head = _head(cursor, layout, key, UNKNOWN_ROAD, max(ROAD_CODES), MAX_POINTS)
    start = cursor.at
    points = cursor.floats(3 * head["size"], key).reshape(3, -1)
    cursor.bounded(
        points.ravel(),
        np.ones(points.size, dtype=np.bool_),
        COORDINATE_LIMIT_M,
        f"{key}.geometry",
        start,
    )
    start = cursor.at
    tail = cursor.floats(6, key)
    cursor.bounded(tail, np.ones(6, dtype=np.bool_), COORDINATE_LIMIT_M, f"{key}.goal", start)
    cursor.integer(f"{key}.mark_as_expert", 0, 1)
    if head["type"] not in ROAD_CODES:
        return None
    kind, element = ROAD_CODES[head["type"]]
    return Road(kind, element, head.get("id", -1), points.T.copy())


def _head(
    cursor: Cursor, layout: Layout, key: str, least: int, most: int, longest: int
) -> dict[str, int]:
    """Read the ints before an object or a road."""
    bounds = (
        {"type": (least, most), "size": (least, longest)}
        if least > 0
        else {"type": (least, most), "size": (0, longest)}
    )
    values = {}
    for name in layout.head:
        low, high = bounds.get(name, (-(2**31), 2**31 - 1))
        values[name] = cursor.integer(f"{key}.{name}", low, high)
    if least < 0 <= values["type"] < min(ROAD_CODES):
        cursor.misfit(
            f"{key}.type", f"{min(ROAD_CODES)} to {most}, or {UNKNOWN_ROAD}", values["type"]
        )
    return values


# ---- writing -------------------------------------------------------------------------------------


def bin_bytes(scene: Scene, layout: str = "v2", scenario_number: int = 0) -> bytes:
    """Return a scene as PufferDrive's envs read it.

    Objects of types other than vehicle, pedestrian and cyclist are left out, since the layouts have
    no code for them. Logs shorter than 91 frames are padded. The layouts cannot store subtypes of
    roads, traffic lights and the data set's name.

    Args:
        layout: "v0", "v1" or "v2".
        scenario_number: scenario_id before each object and road of v2.

    Raises:
        SceneError: there is no such layout.
    """
    if layout not in BY_NAME:
        raise SceneError(f"layout is {layout!r}; it must be one of {', '.join(BY_NAME)}")
    form = BY_NAME[layout]
    codes = {OBJECT_TYPES.index(name): code for code, name in OBJECT_CODES.items()}
    kept = [index for index, item in enumerate(scene.objects) if item.type in codes]
    parts = [_ints(*_tracks(scene, kept))] if form.tracks else []
    roads = roads_with_signs(scene)
    parts.append(_ints(len(kept), len(roads)))
    for index in kept:
        item = scene.objects[index]
        size = max(FRAMES, scene.frame_count)
        head = {
            "scenario_id": scenario_number,
            "type": codes[item.type],
            "id": max(0, item.id),
            "size": size,
        }
        parts += [_ints(*(head[name] for name in form.head)), _object_body(item, size)]
    road_codes = {name: code for code, (name, _) in ROAD_CODES.items()}
    for road in roads:
        head = {
            "scenario_id": scenario_number,
            "type": road_codes[road.type],
            "id": max(0, road.id),
            "size": len(road.points_m),
        }
        parts += [
            _ints(*(head[name] for name in form.head)),
            _floats(road.points_m.T),
            bytes(7 * 4),
        ]
    return b"".join(parts)


def has_layout(data: bytes, layout: str) -> bool:
    """Return whether bytes written by `bin_bytes` have this layout, by their counts and length."""
    form, ints = BY_NAME[layout], np.frombuffer(data, "<i4", len(data) // 4)
    try:
        at = 2 + max(0, int(ints[1])) if form.tracks else 0
        objects, roads = ints[at : at + 2].tolist()
        at += 2
        for number in range(objects + roads):
            at += len(form.head)
            arrays = 8 if number < objects else 3
            at += arrays * max(0, int(ints[at - 1])) + 7
    except (IndexError, ValueError):
        return False
    return 4 * at == len(data)


def _tracks(scene: Scene, kept: list[int]) -> list[int]:
    """Return sdc_track_index, and the number and indices of the tracks to predict.

    Indices count the objects that are kept.
    """
    place = {index: at for at, index in enumerate(kept)}
    sdc = place.get(scene.metadata.get("sdc_track_index", -1), -1)
    listed = scene.metadata.get("tracks_to_predict", [])
    wanted = (
        [item.get("track_index") for item in listed if isinstance(item, dict)]
        if isinstance(listed, list)
        else []
    )
    tracks = [place[index] for index in wanted if index in place]
    return [sdc, len(tracks), *tracks]


def _object_body(item: SceneObject, size: int) -> bytes:
    valid = item.valid
    arrays = np.zeros((7, size))
    frames = len(valid)
    arrays[:3, :frames] = np.where(valid, item.position_m.T, INVALID)
    arrays[3:5, :frames] = np.where(valid, item.velocity_mps.T, INVALID)
    arrays[6, :frames] = np.where(valid, item.heading_rad, INVALID)
    present = np.zeros(size, dtype="<i4")
    present[:frames] = valid
    tail = np.array([item.width_m, item.length_m, item.height_m, *item.goal_m])
    return _floats(arrays) + present.tobytes() + _floats(tail) + _ints(int(item.expert))


def _ints(*values: int) -> bytes:
    return np.array(values, dtype="<i4").tobytes()


def _floats(values: Any) -> bytes:
    return np.ascontiguousarray(values, dtype="<f4").tobytes()
