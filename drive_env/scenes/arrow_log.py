# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads a log of 123D through the API of the package py123d.

A log is a folder of Arrow files; `sync.arrow` stands for it. py123d writes such logs from nuPlan,
nuScenes, Argoverse 2, WOD, PandaSet and others. This module reads the boxes of all objects, the
ego vehicle, traffic lights, and the map within AROUND_M of them: that of the log, or one in a
folder `maps` next to the logs. `Scene.left_out` counts what a Scene cannot store.

The files are checked before py123d sees them: it would import any module that a file names. Runs in
the learner and in helper processes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from drive_env.scenes.check import (
    MAX_CONTROLS,
    MAX_FRAMES,
    MAX_OBJECTS,
    MAX_POINTS,
    MAX_ROADS,
    Checker,
    reason_of,
    unreadable,
)
from drive_env.scenes.controls import STOP_SIGN, TRAFFIC_LIGHT, YIELD_SIGN
from drive_env.scenes.frames import resample, step_of
from drive_env.scenes.logged import ROW_LIMITS, logged_object, motion_of, signs_of
from drive_env.scenes.outline import Strip, edges_of
from drive_env.scenes.schema import (
    GREEN,
    OFF,
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
from puffervec.system import extras

SYNC, MAP = "sync.arrow", "map.arrow"
# Files from which a scene is made; other files of the folder hold data of sensors.
PARTS = (
    SYNC,
    "box_detections_se3.arrow",
    "ego_state_se3.arrow",
    "traffic_light_detections.arrow",
    MAP,
)
# Number of folders above a log that may contain `maps`: logs lie in DATA/logs/SPLIT/LOG, maps in
# DATA/maps.
MAPS_ABOVE = 3
AROUND_M = 100.0
MAX_STATES = 20_000_000  # objects times frames
CHUNK_BYTES = 1 << 20
# Types by the names of py123d's DefaultBoxDetectionLabel; unlisted names are "other".
TYPES = {
    "EGO": "vehicle",
    "VEHICLE": "vehicle",
    "TRAIN": "vehicle",
    "TWO_WHEELER": "cyclist",
    "PERSON": "pedestrian",
}
COLOURS = {"GREEN": GREEN, "YELLOW": YELLOW, "RED": RED, "OFF": OFF, "UNKNOWN": UNKNOWN}
# The map_element_id of each of py123d's types, by name.
LANES = {"UNDEFINED": 0, "FREEWAY": 1, "SURFACE_STREET": 2, "BIKE_LANE": 3, "BUS_LANE": 2}
LINES = {
    "UNKNOWN": 5, "DASH_SOLID_YELLOW": 13, "DASH_SOLID_WHITE": 5, "DASHED_WHITE": 6,
    "DASHED_YELLOW": 9, "DOUBLE_SOLID_YELLOW": 12, "DOUBLE_SOLID_WHITE": 8,
    "DOUBLE_DASH_YELLOW": 10, "DOUBLE_DASH_WHITE": 6, "SOLID_YELLOW": 11, "SOLID_WHITE": 7,
    "SOLID_DASH_WHITE": 5, "SOLID_DASH_YELLOW": 13, "SOLID_BLUE": 5,
}  # fmt: skip
EDGES = {"UNKNOWN": 14, "ROAD_EDGE_BOUNDARY": 15, "ROAD_EDGE_MEDIAN": 16}
AREAS = {"CROSSWALK": ("crosswalk", 18), "SPEED_BUMP": ("speed_bump", 19)}
SIGNS = {"STOP_SIGN": STOP_SIGN, "YIELD_SIGN": YIELD_SIGN}
COLUMNS = ("x", "y", "z", "heading", "velocity x", "velocity y")


@dataclass
class _Track:
    """The boxes of one object by frame."""

    kind: str
    size_m: tuple[float, float, float]  # width, length and height in the last frame
    frames: list[int] = field(default_factory=list)
    rows: list[list[float]] = field(default_factory=list)  # NaN for an unknown velocity


def is_log(path: Path) -> bool:
    """Return whether a file stands for a log.

    >>> is_log(Path("logs/a/sync.arrow")), is_log(Path("logs/a/map.arrow"))
    (True, False)
    """
    return path.name == SYNC


def log_name(path: Path) -> str:
    """Return the name of the log for which a file stands, with a suffix.

    >>> log_name(Path("/logs/2021.05.12_veh-35/sync.arrow"))
    '2021.05.12_veh-35.arrow'
    """
    return f"{path.absolute().parent.name}.arrow"


def log_digest(path: Path) -> str:
    """Return the SHA-256 of what the scene of a log is made of, hexadecimal.

    The digest covers the content of its files, but only names, sizes and times of shared maps,
    which are large.

    Raises:
        SceneError: a file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        for file in _own_files(path):
            digest.update(f"{file.name}\n".encode())
            with file.open("rb") as content:
                while chunk := content.read(CHUNK_BYTES):
                    digest.update(chunk)
        for file in _shared_maps(path):
            status = file.stat()
            digest.update(f"{file} {status.st_size} {status.st_mtime_ns}\n".encode())
    except OSError as error:
        raise unreadable(Path(error.filename or path), error) from error
    return digest.hexdigest()


def log_files(path: Path) -> list[Path]:
    """Return the files that the scene of a log is made of, with the shared maps it may use."""
    return _own_files(path) + _shared_maps(path)


def _own_files(path: Path) -> list[Path]:
    folder = path.absolute().parent
    return [folder / name for name in PARTS if (folder / name).is_file()]


def _shared_maps(path: Path) -> list[Path]:
    """Return the maps next to the logs; a log that has a map of its own uses none of them."""
    folder = path.absolute().parent
    maps = None if (folder / MAP).is_file() else _maps_beside(folder)
    return sorted(maps.rglob("*.arrow")) if maps is not None else []


def read_log(path: Path) -> Scene:
    """Read the log for which a file stands.

    Raises:
        SceneError: the log cannot be read, or a value is wrong. The message reads `path: place:
            expected ..., got ...`.
        MissingExtraError: py123d is not installed.
    """
    name = log_name(path)
    with extras.required(f"{name}, a log of 123D,", "opendrive"):
        from py123d.api.scene.arrow.arrow_scene_api import ArrowSceneAPI
    if not path.is_file():
        raise SceneError(f"{path}: no such scene file")
    folder = path.absolute().parent
    try:
        _check_files(path)
        log = ArrowSceneAPI(folder, maps_root=_maps_beside(folder))
        return _Log(log, str(path)).scene(name, folder)
    except SceneError:
        raise
    except Exception as error:  # py123d and its packages raise errors of many kinds
        kind = type(error).__name__
        raise SceneError(f"{path}: cannot be read: {kind}: {reason_of(error)}") from error


def _maps_beside(folder: Path) -> Path | None:
    """Return the folder of maps next to the logs, if there is one."""
    places = (each / "maps" for each in folder.parents[:MAPS_ABOVE])
    return next((place for place in places if place.is_dir()), None)


def _check_files(path: Path) -> None:
    """Check that files are whole, and that they name only modules of py123d."""
    import msgpack
    import pyarrow

    read = log_files(path)
    for file in read:
        try:
            with pyarrow.memory_map(str(file), "rb") as source:
                table = pyarrow.ipc.open_file(source).read_all()
                table.validate(full=True)
        except (pyarrow.ArrowException, OSError) as error:
            raise SceneError(
                f"{path}: {file.name}: not an Arrow file, or cut off: {reason_of(error)}"
            ) from error
    for file in sorted({*read, *path.absolute().parent.glob("*.arrow")}):
        with pyarrow.memory_map(str(file), "rb") as source:
            metadata = pyarrow.ipc.open_file(source).schema.metadata or {}
        content = msgpack.unpackb(metadata.get(b"metadata", b"\x80"), strict_map_key=False)
        for key, value in content.items() if isinstance(content, dict) else ():
            named = "class" in str(key) and isinstance(value, str) and "." in value
            if named and not value.startswith("py123d."):
                raise SceneError(
                    f"{path}: {file.name}: {str(key)[:40]}: expected a class of py123d, got "
                    f"{value[:80]!r}"
                )


class _Log:
    """A log that is being read.

    Args:
        log: ArrowSceneAPI.
        source: starts every error message.
    """

    def __init__(self, log: Any, source: str) -> None:
        self.log, self.check = log, Checker(source)
        self.left_out: Counter[str] = Counter()
        self.tracks: dict[str, _Track] = {}
        self.lights: dict[int, dict[int, int]] = {}  # lane: frame: state
        self.numbers: dict[str, int] = {}

    def scene(self, name: str, folder: Path) -> Scene:
        """Return the log as a scene."""
        times = [stamp.time_us for stamp in self.log.get_all_iteration_timestamps()]
        if not 1 <= len(times) <= 10 * MAX_FRAMES:
            self.check.fail("sync.timestamp_us", f"1 to {10 * MAX_FRAMES} times", len(times))
        used = self.read_frames(len(times))
        if not 1 <= len(used) <= MAX_FRAMES:
            self.check.fail("box_detections_se3", f"1 to {MAX_FRAMES} frames of boxes", len(used))
        times_s = (np.array(times, dtype=np.float64)[used] - times[used[0]]) / 1e6
        step_s = step_of(self.check, times_s, "sync.timestamp_us")
        tracks = len(self.tracks)
        self.check.limit(tracks, MAX_OBJECTS, "box_detections_se3", "objects")
        self.check.limit(tracks * len(used), MAX_STATES, "box_detections_se3", "states")
        map_api = self.log.get_map_api()
        flat = map_api is not None and not map_api.map_has_z
        objects = tuple(
            self.object(number, token, track, times_s, flat)
            for number, (token, track) in enumerate(self.tracks.items())
        )
        roads, controls = self.map(map_api, objects, len(used))
        tokens = list(self.tracks)
        others = [file.name for file in folder.glob("*.arrow") if file.name not in PARTS]
        self.left_out["files of sensors"] += len(others)
        metadata = self.log.get_log_metadata()
        scene = Scene(
            name=name,
            scenario_id=str(metadata.log_name)[:200],
            frame_count=len(used),
            objects=objects,
            roads=tuple(roads),
            traffic_lights={},
            metadata={
                "sdc_track_index": tokens.index("ego_vehicle") if "ego_vehicle" in tokens else -1,
                "dataset": str(metadata.dataset)[:40],
                "location": str(metadata.location)[:40],
            },
            has_height=not flat,
            controls=tuple(controls),
            left_out=dict(+self.left_out),
        )
        return resample(scene, step_s, self.check)

    def read_frames(self, count: int) -> list[int]:
        """Read boxes and lights; return the iterations that have boxes, or all if none has."""
        log = self.log
        used: list[int] = []
        has_boxes = log.get_box_detections_se3_metadata() is not None
        for at in range(count):
            boxes = log.get_box_detections_se3_at_iteration(at) if has_boxes else ()
            if boxes is None:  # boxes may be rarer than other data
                self.left_out["iterations without boxes"] += 1
                continue
            frame = len(used)
            used.append(at)
            ego = log.get_ego_state_se3_at_iteration(at)
            if ego is not None:
                self.add(frame, ego.box_detection_se3)
            for box in boxes:
                self.add(frame, box)
            for light in log.get_traffic_light_detections_at_iteration(at) or ():
                state = COLOURS.get(light.status.name, UNKNOWN)
                self.lights.setdefault(int(light.lane_id), {})[frame] = state
        return used

    def add(self, frame: int, detection: Any) -> None:
        """Add a box to the track of its object."""
        token = str(detection.attributes.track_token)
        box, velocity = detection.bounding_box_se3, detection.velocity_3d
        center = box.center_se3
        size_m = (float(box.width), float(box.length), float(box.height))
        kind = TYPES.get(detection.attributes.default_label.name, "other")
        track = self.tracks.setdefault(token, _Track(kind, size_m))
        if track.frames and track.frames[-1] == frame:
            self.left_out["second boxes of an object in a frame"] += 1
            return
        track.size_m = size_m
        track.frames.append(frame)
        moving = (np.nan, np.nan) if velocity is None else (float(velocity.x), float(velocity.y))
        place = (float(center.x), float(center.y), float(center.z), float(center.yaw))
        track.rows.append([*place, *moving])

    def object(
        self, number: int, token: str, track: _Track, times_s: Floats, flat: bool
    ) -> SceneObject:
        """Return a track as an object; missing velocities are computed from the positions."""
        rows, valid = np.zeros((len(times_s), 6)), np.zeros(len(times_s), dtype=np.bool_)
        given = np.array(track.rows)
        lost = np.isnan(given[:, 4:]).any(axis=1)
        given[lost, 4:] = motion_of(given, times_s[track.frames])[lost]
        if flat:
            given[:, 2] = 0.0
        rows[track.frames], valid[track.frames] = given, True
        key = f"object {token[:40]!r}"
        self.check.within(rows, ROW_LIMITS, lambda frame, at: f"{key}: {COLUMNS[at]}[{frame}]")
        size_m = [
            self.check.size(side_m, f"{key}: {side}", True)
            for side, side_m in zip(("width", "length", "height"), track.size_m, strict=True)
        ]
        return logged_object(track.kind, number, size_m, rows, valid)

    # ---- the map ---------------------------------------------------------------------------------

    def map(
        self, map_api: Any, objects: tuple[SceneObject, ...], frames: int
    ) -> tuple[list[Road], list[Control]]:
        """Return roads, signs and lights around the objects."""
        if map_api is None:
            self.left_out["traffic lights without a map"] += len(self.lights)
            return [], []
        from shapely.geometry import box

        layers = list(map_api.get_available_map_layers())
        places = np.concatenate(
            [np.zeros((0, 2)), *(item.position_m[item.valid, :2] for item in objects)]
        )
        if len(places):
            low, high = places.min(axis=0) - AROUND_M, places.max(axis=0) + AROUND_M
            found = map_api.query(box(*low, *high), layers, predicate="intersects")
        else:
            found = {layer: list(map_api.get_all_map_objects_in_layer(layer)) for layer in layers}
        by_layer = {layer.name: list(found.get(layer, ())) for layer in layers}
        far = sum(
            len(map_api.get_all_map_object_ids_in_layer(layer)) - len(by_layer[layer.name])
            for layer in layers
        )
        self.left_out[f"map objects farther than {AROUND_M:g} m"] += far
        for layer in ("WALKWAY", "CARPARK", "GENERIC_DRIVABLE", "INTERSECTION"):
            self.left_out[f"map objects of layer {layer}"] += len(by_layer.get(layer, ()))
        roads = list(self.roads(by_layer))
        self.check.limit(len(roads), MAX_ROADS, "map.arrow", "lanes, lines and edges")
        total = sum(len(road.points_m) for road in roads)
        self.check.limit(total, MAX_POINTS, "map.arrow", "points")
        lanes = {road.id: road for road in roads if road.type == "lane"}
        controls = [*self.signs(by_layer.get("STOP_ZONE", [])), *self.signals(lanes, frames)]
        self.check.limit(len(controls), MAX_CONTROLS, "map.arrow", "signs and lights")
        return roads, controls

    def points(self, line: Any, key: str) -> Floats:
        """Return the points of a polyline, (n, 3)."""
        return self.check.places(np.array(line.array, dtype=np.float64), key)

    def roads(self, by_layer: dict[str, list[Any]]) -> Iterator[Road]:
        """Yield lanes, lines, edges and areas; if there are no edges, lane groups give them."""
        for item in by_layer.get("LANE", ()):
            key = f"lane {item.object_id}"
            limit_mps = float(item.speed_limit_mps or 0.0)
            self.check.speed(limit_mps, f"{key}: speed_limit_mps", limit_mps)
            links = LaneLinks(
                tuple(self.number(other) for other in item.successor_ids),
                tuple(self.number(other) for other in item.predecessor_ids),
                self.number(item.left_lane_id),
                self.number(item.right_lane_id),
                limit_mps,
            )
            points = self.points(item.centerline_3d, f"{key}: centerline")
            element = LANES.get(item.lane_type.name, 0)
            yield Road("lane", element, self.number(item.object_id), points, links)
        for item in by_layer.get("ROAD_LINE", ()):
            kind = item.road_line_type.name
            if kind != "NONE":
                points = self.points(item.polyline_3d, f"road line {item.object_id}")
                yield Road("road_line", LINES.get(kind, 5), -1, points)
        for item in by_layer.get("ROAD_EDGE", ()):
            points = self.points(item.polyline_3d, f"road edge {item.object_id}")
            yield Road("road_edge", EDGES.get(item.road_edge_type.name, 14), -1, points)
        for layer, (kind, element) in AREAS.items():
            for item in by_layer.get(layer, ()):
                points = self.points(item.outline_3d, f"{kind} {item.object_id}")
                yield Road(kind, element, -1, points)
        groups = by_layer.get("LANE_GROUP", [])
        if by_layer.get("ROAD_EDGE"):
            self.left_out["lane groups (their lanes are read)"] += len(groups)
            return
        strips = [
            Strip(
                self.points(item.left_boundary_3d, f"lane group {item.object_id}"),
                self.points(item.right_boundary_3d, f"lane group {item.object_id}"),
                item.intersection_id is not None,
            )
            for item in groups
        ]
        for points in edges_of(strips, self.check.source):
            yield Road("road_edge", EDGES["ROAD_EDGE_BOUNDARY"], -1, points)

    def number(self, own_id: Any) -> int:
        """Return the number of a lane, -1 for none."""
        if own_id is None:
            return -1
        return self.numbers.setdefault(str(own_id), len(self.numbers))

    def signs(self, zones: list[Any]) -> Iterator[Control]:
        """Yield a control for each lane of a stop sign or yield sign."""
        for at, zone in enumerate(zones):
            kind = SIGNS.get(zone.stop_zone_type.name)
            if kind is None:
                self.left_out[f"stop zones of type {zone.stop_zone_type.name}"] += 1
                continue
            place = self.points(zone.outline_3d, f"stop zone {zone.object_id}").mean(axis=0)
            yield from signs_of(place, [self.number(lane) for lane in zone.lane_ids], at, kind)

    def signals(self, lanes: dict[int, Road], frames: int) -> Iterator[Control]:
        """Yield a traffic light for each lane that has a state; traffic stops where it begins."""
        for at, (own_id, by_frame) in enumerate(self.lights.items()):
            lane = lanes.get(self.numbers.get(str(own_id), -1))
            if lane is None:
                self.left_out["traffic lights without a lane"] += 1
                continue
            states = np.full(frames, UNKNOWN, dtype=np.uint8)
            states[list(by_frame)] = list(by_frame.values())
            yield Control(TRAFFIC_LIGHT, lane.points_m[0].copy(), lane.id, states, at)
