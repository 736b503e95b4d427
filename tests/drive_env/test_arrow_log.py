# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Logs of 123D (drive_env/scenes/arrow_log.py), written by py123d's own writers."""

from __future__ import annotations

import importlib
import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env import cli
from drive_env.config import DriveConfig
from drive_env.prepare import prepare_scenes
from drive_env.scenes.arrow_log import log_digest
from drive_env.scenes.controls import STOP_SIGN, TRAFFIC_LIGHT, controls_of
from drive_env.scenes.reader import name_of, read_scene, scene_files
from drive_env.scenes.schema import GREEN, OBJECT_TYPES, RED, UNKNOWN, Road, Scene
from drive_env.sources import sources_of
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


def write_log(root: Path, name: str = LOG, frames: int = FRAMES, step_s: float = 0.1) -> Path:
    """Write a log below root/logs, and return its sync.arrow."""
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
        modalities = [
            ego(10 * frame * step_s, stamp, origin),
            boxes(frame, step_s, stamp),
            TrafficLightDetections(lights, stamp),
        ]
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
