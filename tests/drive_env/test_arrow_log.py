# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Logs of 123D (drive_env/scenes/arrow_log.py), written by py123d's own writers."""

from __future__ import annotations

import importlib
import json
import math
import sys
import warnings
from enum import Enum
from pathlib import Path
from types import SimpleNamespace as Plain
from typing import Any

import numpy as np
import pytest

from drive_env import cli
from drive_env.config import DriveConfig
from drive_env.prepare import prepare_scenes
from drive_env.scenes import arrow_log
from drive_env.scenes.arrow_log import log_digest
from drive_env.scenes.controls import STOP_SIGN, TRAFFIC_LIGHT, controls_of
from drive_env.scenes.reader import name_of, read_scene, scene_files
from drive_env.scenes.schema import (
    CONTROL_KINDS,
    GREEN,
    OBJECT_TYPES,
    OFF,
    RED,
    UNKNOWN,
    YELLOW,
    Road,
    Scene,
)
from drive_env.sources import digests_of, load_file, sources_of, stamp_of
from puffervec.errors import SceneError
from puffervec.system import extras

FRAMES = 12
LOG = "2021.05.12_veh-35"


def needed() -> str:
    """Return why py123d's API cannot be used, "" if it can."""
    if not extras.installed("py123d"):
        return "py123d"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module("py123d.api.scene.arrow.arrow_log_writer")
            importlib.import_module("py123d.api.map.arrow.arrow_map_writer")
    except ImportError as error:
        return str(error.name)
    return ""


MISSING = needed()
pytestmark = pytest.mark.filterwarnings("ignore")
needs_py123d = pytest.mark.skipif(bool(MISSING), reason=f"needs {MISSING}: see docs/scenes.md")


def pose(x: float, y: float, yaw: float, z: float = 1.0) -> Any:
    from py123d.geometry import PoseSE3

    return PoseSE3(x, y, z, math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))


def ego(x: float, stamp: Any, origin: Any) -> Any:
    from py123d.datatypes import DynamicStateSE3, EgoStateSE3, EgoStateSE3Metadata
    from py123d.geometry import Vector3D

    metadata = EgoStateSE3Metadata("car", 2.0, 4.5, 1.6, 2.8, origin, origin)
    speeds = [Vector3D(*values) for values in ((10.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))]
    dynamic = DynamicStateSE3(*speeds)
    return EgoStateSE3.from_center(pose(x, 0.0, 0.0), metadata, stamp, dynamic)


def boxes(frame: int, step_s: float, stamp: Any) -> Any:
    """A walker without velocities who comes in frame 2, and a van that stands."""
    from py123d.datatypes import (
        BoxDetectionAttributes,
        BoxDetectionSE3,
        BoxDetectionsSE3,
        BoxDetectionsSE3Metadata,
        DefaultBoxDetectionLabel,
    )
    from py123d.geometry import BoundingBoxSE3, Vector3D

    label = DefaultBoxDetectionLabel
    items = [
        BoxDetectionSE3(
            BoxDetectionAttributes(label.VEHICLE, "van"),
            BoundingBoxSE3(pose(30.0, 3.5, 0.5), 6.0, 2.2, 2.5),
            Vector3D(0.0, 0.0, 0.0),
        )
    ]
    if frame >= 2:
        walker = BoundingBoxSE3(pose(5.0, 8.0 + frame * step_s, 1.5), 0.6, 0.7, 1.8)
        items.append(BoxDetectionSE3(BoxDetectionAttributes(label.PERSON, "w"), walker, None))
    return BoxDetectionsSE3(items, stamp, BoxDetectionsSE3Metadata(label))


def write_log(
    root: Path, name: str = LOG, frames: int = FRAMES, step_s: float = 0.1, objects: bool = True
) -> Path:
    """Write a log below root/logs, of lights alone without objects; return its sync.arrow."""
    from py123d.api.scene.arrow.arrow_log_writer import ArrowLogWriter
    from py123d.api.scene.arrow.utils.log_writer_config import LogWriterConfig
    from py123d.datatypes import (
        LogMetadata,
        MapMetadata,
        Timestamp,
        TrafficLightDetection,
        TrafficLightDetections,
        TrafficLightStatus,
    )
    from py123d.parser.base_dataset_parser import ModalitiesSync

    maps = MapMetadata("test", "town", True, False)
    config = LogWriterConfig(write_route=False)
    writer = ArrowLogWriter(config, logs_root=root / "logs", sensors_root=root / "sensors")
    assert writer.reset(LogMetadata("test", "test_train", name, "town", maps))
    origin = pose(0.0, 0.0, 0.0, 0.0)
    for frame in range(frames):
        stamp = Timestamp.from_us(1_000_000_000 + round(frame * step_s * 1e6))
        status = TrafficLightStatus.RED if frame < 6 else TrafficLightStatus.GREEN
        lights = [TrafficLightDetection(0, status)] if frame else []
        modalities: list[Any] = [TrafficLightDetections(lights, stamp)]
        if objects:
            modalities += [ego(10 * frame * step_s, stamp, origin), boxes(frame, step_s, stamp)]
        writer.write_sync(ModalitiesSync(stamp, modalities))
    writer.close()
    return root / "logs" / "test_train" / name / "sync.arrow"


def write_map(root: Path, edges: bool = True) -> None:
    """Write a map: two lanes one after the other, far away a third, and one thing of each kind."""
    from py123d.api.map.arrow.arrow_map_writer import ArrowMapWriter
    from py123d.datatypes import (
        Crosswalk,
        Lane,
        LaneGroup,
        LaneType,
        MapMetadata,
        RoadEdge,
        RoadEdgeType,
        RoadLine,
        RoadLineType,
        StopZone,
        StopZoneType,
        Walkway,
    )
    from py123d.geometry import Polyline3D

    def line(y: float, x0: float, x1: float) -> Any:
        return Polyline3D.from_array(
            np.array([[x0, y, 1.0], [(x0 + x1) / 2, y, 1.0], [x1, y, 1.0]])
        )

    def square(x: float, y: float) -> Any:
        corners = [[x, y, 1.0], [x + 2, y, 1.0], [x + 2, y + 2, 1.0], [x, y + 2, 1.0], [x, y, 1.0]]
        return Polyline3D.from_array(np.array(corners))

    def lane(own_id: int, x0: float, x1: float, **links: Any) -> Any:
        left, right, center = line(1.75, x0, x1), line(-1.75, x0, x1), line(0.0, x0, x1)
        return Lane(own_id, LaneType.SURFACE_STREET, left, right, center, own_id, **links)

    spans = ((0, 0.0, 40.0), (1, 40.0, 80.0), (2, 5000.0, 5040.0))
    objects = [
        lane(0, 0.0, 40.0, successor_ids=[1], predecessor_ids=[], speed_limit_mps=13.0),
        lane(1, 40.0, 80.0, successor_ids=[], predecessor_ids=[0]),
        lane(2, 5000.0, 5040.0, successor_ids=[], predecessor_ids=[]),
        *(
            LaneGroup(own_id, [own_id], line(1.75, x0, x1), line(-1.75, x0, x1), None, [], [])
            for own_id, x0, x1 in spans
        ),
        RoadLine(0, RoadLineType.SOLID_YELLOW, line(1.75, 0, 80)),
        Crosswalk(0, outline=square(20, -1)),
        Walkway(0, outline=square(20, 10)),
        StopZone(0, StopZoneType.STOP_SIGN, outline=square(38, -1), lane_ids=[0]),
    ]
    if edges:
        objects.append(RoadEdge(0, RoadEdgeType.ROAD_EDGE_MEDIAN, line(-1.75, 0, 80)))
    writer = ArrowMapWriter(True, root / "maps", root / "logs")
    assert writer.reset(MapMetadata("test", "town", True, False))
    for each in objects:
        writer.write_map_object(each)
    writer.close()


def of_type(scene: Scene, kind: str) -> list[Road]:
    return [road for road in scene.roads if road.type == kind]


@needs_py123d
def test_all_of_a_log_is_read(tmp_path: Path) -> None:
    write_map(tmp_path)
    scene = read_scene(write_log(tmp_path))
    assert (scene.name, scene.scenario_id, scene.frame_count) == (f"{LOG}.arrow", LOG, FRAMES)
    car, van, walker = scene.objects
    assert [OBJECT_TYPES[item.type] for item in scene.objects] == [
        "vehicle",
        "vehicle",
        "pedestrian",
    ]
    assert scene.sdc == 0 and scene.metadata["dataset"] == "test"
    np.testing.assert_allclose(car.position_m, [[k, 0, 1] for k in range(FRAMES)], atol=1e-6)
    np.testing.assert_allclose(car.velocity_mps, [[10, 0]] * FRAMES, atol=1e-6)
    assert (car.length_m, car.width_m, car.height_m) == (4.5, 2.0, 1.6)
    assert van.valid.all() and van.heading_rad == pytest.approx(0.5) and van.length_m == 6.0
    assert walker.valid.tolist() == [False] * 2 + [True] * 10
    np.testing.assert_allclose(walker.velocity_mps[2:], [[0, 1]] * 10, atol=1e-6)
    first, second = of_type(scene, "lane")
    assert first.links is not None and second.links is not None
    assert (first.links.exits, second.links.entries) == ((second.id,), (first.id,))
    assert first.links.speed_limit_mps == 13.0 and first.map_element_id == 2
    assert first.points_m.tolist() == [[0, 0, 1], [20, 0, 1], [40, 0, 1]]
    kinds = [(road.type, road.map_element_id) for road in scene.roads[2:]]
    assert kinds == [("road_line", 11), ("road_edge", 16), ("crosswalk", 18)]
    stop, light = controls_of(scene)
    assert (stop.kind, stop.lane_id) == (STOP_SIGN, first.id)
    assert (light.kind, light.lane_id) == (TRAFFIC_LIGHT, first.id)
    assert light.states.tolist() == [UNKNOWN] + [RED] * 5 + [GREEN] * 6
    assert scene.left_out == {
        "map objects farther than 100 m": 2,
        "map objects of layer WALKWAY": 1,
        "lane groups (their lanes are read)": 2,
    }


@needs_py123d
def test_edges_follow_from_lane_groups(tmp_path: Path) -> None:
    write_map(tmp_path, edges=False)
    edges = [road.points_m for road in of_type(read_scene(write_log(tmp_path)), "road_edge")]
    assert sorted(float(edge[0, 1]) for edge in edges) == [-1.75, -1.75, 1.75, 1.75]


@needs_py123d
@pytest.mark.parametrize("step_s, frames", [(0.05, 21), (0.2, 6), (0.5, 3)])
def test_other_frame_times(tmp_path: Path, step_s: float, frames: int) -> None:
    scene = read_scene(write_log(tmp_path, frames=frames, step_s=step_s))
    assert scene.frame_count == 11
    np.testing.assert_allclose(scene.objects[0].position_m[:, 0], np.arange(11), atol=1e-6)
    assert scene.roads == () and scene.left_out["traffic lights without a map"] == 1


@needs_py123d
def test_logs_are_scenes_of_a_folder(tmp_path: Path, cache: Path, tiny_tree: Any) -> None:
    write_map(tmp_path)
    first, second = write_log(tmp_path), write_log(tmp_path, "other.log")
    (tmp_path / "one.json").write_text(json.dumps(tiny_tree()))
    assert scene_files(tmp_path) == [first, second, tmp_path / "one.json"]
    assert name_of(first) == f"{LOG}.arrow"
    (source,) = sources_of(str(tmp_path))
    assert [item.id for item in source.items] == [LOG, "other.log", "one"]
    names = prepare_scenes(DriveConfig(scenes=str(tmp_path), control="valid")).scenes.names
    assert names == [f"{LOG}.arrow", "other.log.arrow", "one.json"]
    assert log_digest(first) != log_digest(second)
    out = tmp_path / "out"
    assert cli.main(["convert", str(tmp_path / "logs"), "--out", str(out), "--to", "json"]) == 0
    written = sorted(str(path.relative_to(out)) for path in out.rglob("*.json"))
    assert written == [f"test_train/{LOG}.json", "test_train/other.log.json"]


@needs_py123d
def test_a_map_that_comes_later_is_noticed(tmp_path: Path, cache: Path) -> None:
    path = write_log(tmp_path)
    before, stamp = digests_of(tmp_path, [path]), stamp_of(path)
    out = tmp_path / "out"
    convert = ["convert", str(tmp_path / "logs"), "--out", str(out), "--to", "json"]
    assert cli.main(convert) == 0
    (written,) = out.rglob("*.json")
    assert json.loads(written.read_text())["roads"] == []
    write_map(tmp_path)
    assert digests_of(tmp_path, [path]) != before and stamp_of(path) != stamp
    assert cli.main(convert) == 0 and len(json.loads(written.read_text())["roads"]) > 3


@needs_py123d
def test_a_log_without_boxes_is_a_map(tmp_path: Path) -> None:
    write_map(tmp_path)
    path = write_log(tmp_path, objects=False)
    digest = log_digest(path)
    scene = load_file(path, digest, as_map=True)
    assert isinstance(scene, Scene) and not scene.objects and scene.roads
    with pytest.raises(SceneError, match="has no objects"):
        load_file(path, digest)


@needs_py123d
def test_broken_logs_are_refused_in_one_line(tmp_path: Path) -> None:
    path = write_log(tmp_path)
    for number, name in enumerate(("sync.arrow", "box_detections_se3.arrow")):
        folder = tmp_path / f"copy-{number}"
        folder.mkdir()
        for file in path.parent.iterdir():
            data = file.read_bytes()
            (folder / file.name).write_bytes(data[:-200] if file.name == name else data)
        with pytest.raises(SceneError, match=f"{name}: not an Arrow file, or cut off") as error:
            read_scene(folder / "sync.arrow")
        assert "\n" not in str(error.value)
    with pytest.raises(SceneError, match="no such scene file"):
        read_scene(tmp_path / "nowhere" / "sync.arrow")


@needs_py123d
def test_no_module_that_a_file_names_is_imported(tmp_path: Path) -> None:
    import msgpack
    import pyarrow

    path = write_log(tmp_path)
    file = path.with_name("box_detections_se3.arrow")
    with pyarrow.OSFile(str(file), "rb") as source:
        table = pyarrow.ipc.open_file(source).read_all()
    hostile = msgpack.packb({"box_detection_label_class": "antigravity.fly"})
    table = table.replace_schema_metadata({**table.schema.metadata, b"metadata": hostile})
    with pyarrow.OSFile(str(file), "wb") as sink, pyarrow.ipc.new_file(sink, table.schema) as out:
        out.write_table(table)
    with pytest.raises(SceneError, match="expected a class of py123d, got 'antigravity.fly'"):
        read_scene(path)


# ---- a stand-in for py123d's API ----------------------------------------------------------------


Layer = Enum(
    "Layer",
    "LANE ROAD_LINE ROAD_EDGE CROSSWALK SPEED_BUMP LANE_GROUP STOP_ZONE WALKWAY CARPARK "
    "GENERIC_DRIVABLE INTERSECTION",
)


def named(name: str) -> Plain:
    return Plain(name=name)


def plain_line(*points: tuple[float, float], z: float = 1.0) -> Plain:
    return Plain(array=np.array([[x, y, z] for x, y in points]))


def detection(
    token: str, kind: str, place: tuple[float, ...], velocity: tuple[float, float] | None
) -> Plain:
    x, y, z, yaw = place
    box = Plain(center_se3=Plain(x=x, y=y, z=z, yaw=yaw), width=2.0, length=4.0 + x, height=1.5)
    moving = None if velocity is None else Plain(x=velocity[0], y=velocity[1])
    attributes = Plain(track_token=token, default_label=named(kind))
    return Plain(attributes=attributes, bounding_box_se3=box, velocity_3d=moving)


def plain_lane(own_id: int, x0: float, kind: str = "FREEWAY", **links: Any) -> Plain:
    given = {
        "successor_ids": [], "predecessor_ids": [], "left_lane_id": None, "right_lane_id": None,
        "speed_limit_mps": None, **links,
    }  # fmt: skip
    center = plain_line((x0, 0), (x0 + 20, 0))
    return Plain(object_id=own_id, lane_type=named(kind), centerline_3d=center, **given)


def plain_map(has_z: bool = True) -> Any:
    """Return a map with a thing of each kind near the origin, and lanes far from it."""
    square = plain_line((3, -1), (5, -1), (5, 1), (3, 1))

    def lines(kinds: dict[str, str], attribute: str) -> list[Plain]:
        return [
            Plain(object_id=n, polyline_3d=plain_line((0, n), (9, n)), **{attribute: named(kind)})
            for n, kind in enumerate(kinds)
        ]

    groups = [
        Plain(object_id=n, left_boundary_3d=plain_line((0, y + 3), (20, y + 3)),
              right_boundary_3d=plain_line((0, y), (20, y)), intersection_id=None)
        for n, y in enumerate((0.0, 3.0))
    ]  # fmt: skip
    things = {
        Layer.LANE: [
            plain_lane(7, 0.0, successor_ids=[9], right_lane_id=8, speed_limit_mps=12.0),
            plain_lane(8, 0.0, "BIKE_LANE", left_lane_id=7),
            plain_lane(9, 109.5, "BUS_LANE", predecessor_ids=[7]), plain_lane(4, 130.5),
            plain_lane(5, -95.0), plain_lane(6, -100.5),
        ],
        Layer.ROAD_LINE: lines({**arrow_log.LINES, "NONE": 0, "NEW": 0}, "road_line_type"),
        Layer.ROAD_EDGE: lines({**arrow_log.EDGES, "NEW": 0}, "road_edge_type"),
        Layer.CROSSWALK: [Plain(object_id=1, outline_3d=square)],
        Layer.SPEED_BUMP: [Plain(object_id=1, outline_3d=square)],
        Layer.LANE_GROUP: groups,
        Layer.STOP_ZONE: [
            Plain(object_id=n, stop_zone_type=named(kind), outline_3d=square, lane_ids=lanes)
            for n, (kind, lanes) in enumerate(
                (("STOP_SIGN", [7, 8]), ("YIELD_SIGN", []), ("TURN_STOP", [7]))
            )
        ],
        Layer.WALKWAY: [Plain(object_id=1)], Layer.CARPARK: [Plain(object_id=1)] * 2,
    }  # fmt: skip

    def query(area: tuple[float, ...], layers: list[Layer], predicate: str) -> dict[Layer, Any]:
        """Everything but lanes that begin outside of the area."""
        assert predicate == "intersects" and len(area) == 4
        low, high = area[0], area[2]
        return {
            layer: [
                item for item in things[layer]
                if layer != Layer.LANE or low <= item.centerline_3d.array[0, 0] <= high
            ]
            for layer in layers
        }  # fmt: skip

    return Plain(
        map_has_z=has_z, query=query, things=things,
        get_available_map_layers=lambda: list(things),
        get_all_map_object_ids_in_layer=lambda layer: [item.object_id for item in things[layer]],
        get_all_map_objects_in_layer=lambda layer: things[layer],
    )  # fmt: skip


def plain_log(map_api: Any, step_us: int = 100_000) -> Any:
    """Six iterations: no boxes in the first; a cyclist without velocities, seen twice in one."""

    def boxes_at(at: int) -> list[Plain] | None:
        if at == 0:
            return None
        rider = detection("r", "TWO_WHEELER", (0.1 * at, 0.2 * at, 3.0, 0.5), None)
        cone = detection("c", "CONE", (9.0, 9.0, 1.0, 4.0), (0.5, -0.5))
        return [rider, rider, cone] if at == 3 else [cone] if at == 1 else [rider]

    colours = ("", "GREEN", "YELLOW", "RED", "OFF", "NEW")
    return Plain(
        get_all_iteration_timestamps=lambda: [Plain(time_us=5 + step_us * at) for at in range(6)],
        get_box_detections_se3_metadata=lambda: Plain(),
        get_box_detections_se3_at_iteration=boxes_at,
        get_ego_state_se3_at_iteration=lambda at: Plain(
            box_detection_se3=detection("ego_vehicle", "EGO", (1.0 * at, 0, 1, 0), (10.0, 1.0))
        ) if at != 5 else None,
        get_traffic_light_detections_at_iteration=lambda at: [
            Plain(lane_id=7, status=named(colours[at])),
            *([Plain(lane_id=77, status=named("RED"))] * (at == 1)),
        ],
        get_map_api=lambda: map_api,
        get_log_metadata=lambda: Plain(log_name="l", dataset="d", location="somewhere"),
    )  # fmt: skip


def read_plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, map_api: Any) -> Scene:
    geometry = Plain(box=lambda *area: area)
    monkeypatch.setitem(sys.modules, "shapely.geometry", geometry)  # type: ignore[arg-type]
    for name in ("sync", "map", "lidar", "camera"):
        (tmp_path / f"{name}.arrow").touch()
    return arrow_log._Log(plain_log(map_api), "here").scene("one.arrow", tmp_path)


def test_a_log_by_its_api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Check what the API returns, whoever implements it; the log of the file tests is written by
    py123d.
    """
    scene = read_plain(monkeypatch, tmp_path, plain_map())
    ego, cone, rider = scene.objects
    assert [OBJECT_TYPES[item.type] for item in scene.objects] == ["vehicle", "other", "cyclist"]
    assert scene.frame_count == 5 and scene.sdc == 0 and scene.has_height
    assert ego.valid.tolist() == [True] * 4 + [False]
    assert ego.position_m[:4].tolist() == [[1, 0, 1], [2, 0, 1], [3, 0, 1], [4, 0, 1]]
    assert ego.velocity_mps[:4].tolist() == [[10, 1]] * 4
    assert (ego.width_m, ego.length_m, ego.height_m) == (2.0, 8.0, 1.5)  # of the last frame
    assert cone.valid.tolist() == [True, False, True, False, False]
    assert cone.heading_rad[0] == pytest.approx(4.0 - 2 * math.pi)
    assert rider.valid.tolist() == [False] + [True] * 4
    np.testing.assert_allclose(rider.velocity_mps[1:], [[1.0, 2.0]] * 4)
    lanes = of_type(scene, "lane")
    found = [(road.map_element_id, road.points_m[0, 0]) for road in lanes]
    assert found == [(1, 0), (3, 0), (1, -95)]
    first, second, _ = (road.links for road in lanes)
    assert first is not None and second is not None
    assert (first.right, first.left, first.speed_limit_mps) == (lanes[1].id, -1, 12.0)
    assert (second.left, second.speed_limit_mps, second.exits) == (lanes[0].id, 0.0, ())
    lines = [road.map_element_id for road in of_type(scene, "road_line")]
    assert lines == [*arrow_log.LINES.values(), 5]
    edges = [road.map_element_id for road in of_type(scene, "road_edge")]
    assert edges == [*arrow_log.EDGES.values(), 14]
    assert [len(of_type(scene, kind)) for kind in ("crosswalk", "speed_bump")] == [1, 1]
    *signs, light = controls_of(scene)
    assert [(CONTROL_KINDS[item.kind], item.lane_id, item.id) for item in signs] == [
        ("stop_sign", lanes[0].id, 0), ("stop_sign", lanes[1].id, 0), ("yield_sign", -1, 1),
    ]  # fmt: skip
    assert all(item.position_m.tolist() == [4, 0, 1] for item in signs)
    assert light.states.tolist() == [GREEN, YELLOW, RED, OFF, UNKNOWN]
    assert light.position_m.tolist() == [0, 0, 1] and light.lane_id == lanes[0].id
    assert scene.left_out == {
        "iterations without boxes": 1, "second boxes of an object in a frame": 1,
        "map objects farther than 100 m": 3, "map objects of layer WALKWAY": 1,
        "map objects of layer CARPARK": 2, "lane groups (their lanes are read)": 2,
        "stop zones of type TURN_STOP": 1, "traffic lights without a lane": 1,
        "files of sensors": 2,
    }  # fmt: skip


def test_a_flat_map_without_edges_by_its_api(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Objects lie on the ground; edges follow from groups of lanes, of which each has two sides."""
    flat = plain_map(has_z=False)
    del flat.things[Layer.ROAD_EDGE]
    scene = read_plain(monkeypatch, tmp_path, flat)
    assert not scene.has_height
    assert all(not item.position_m[:, 2].any() for item in scene.objects)
    edges = of_type(scene, "road_edge")
    assert sorted((road.points_m[0, 1], road.map_element_id) for road in edges) == [
        (0, 15),
        (6, 15),
    ]
