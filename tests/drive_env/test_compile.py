# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compiled scenes hold what the source says: positions, flags, goals, and segments within the
bound.

With drive_env/scenes/segments.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from drive_env.scenes import packed
from drive_env.scenes.compile import CompiledScene, CompileSettings, compile_scene
from drive_env.scenes.geometry import box_crosses_segment
from drive_env.scenes.json_scene import scene_from_tree
from drive_env.scenes.reader import LeftOut, read_usable, scene_files
from drive_env.scenes.sceneset import SceneSet, write_scene_set
from drive_env.scenes.schema import Scene
from puffervec.errors import SceneError
from tests.helpers import slow_but
from tests.twins.drive_lines import segment_distance

MakeTree = Callable[..., dict[str, Any]]
SETTINGS = CompileSettings((16, 8, 16), 50.0)


def unpack(compiled: CompiledScene, folder: Path) -> tuple[Any, dict[str, np.ndarray]]:
    """Head and arrays of one compiled scene, by way of a file."""
    write_scene_set(folder / "one.pvset", [compiled], SETTINGS)
    return SceneSet(folder / "one.pvset").scene(0)


def test_objects_and_frames(tiny_tree: MakeTree, tmp_path: Path, index_twin: ModuleType) -> None:
    tree = tiny_tree(frames=30, cars=3)
    late, parked, expert = tree["objects"]
    late["valid"][:4] = [False] * 4
    late["valid"][10] = False
    parked["position"] = [{"x": 3.0, "y": 1.0, "z": 0.0}] * 30
    parked["goalPosition"] = {"x": 3.0, "y": 1.0, "z": 0.0}
    parked["heading"][:2] = [3.1415926, -3.1415926]
    expert["mark_as_expert"] = True
    expert["velocity"] = [{"x": -3.0, "y": 4.0}] * 30
    scene = scene_from_tree(tree, "t", "t")
    head, arrays = unpack(compile_scene(scene, SETTINGS, index_twin.build_index), tmp_path)
    origin = np.array([head["origin_x"], head["origin_y"]])
    objects, frames = arrays["objects"], arrays["frames"]
    assert head["frame_count"] == 30 and head["dt_s"] == pytest.approx(0.1) and len(objects) == 3
    assert list(objects["flags"]) == [
        packed.SDC,
        packed.VALID_AT_START,
        packed.EXPERT | packed.VALID_AT_START | packed.MOVES,
    ]
    assert (objects[0]["frame_first"], objects[0]["frame_count"]) == (4, 26)
    assert list(objects["frames_index"]) == [0, 26, 56]
    assert frames["speed"][6] == packed.FRAME_INVALID and frames["speed"][5] == 500
    np.testing.assert_allclose(
        [frames["x_m"][1] + origin[0], frames["y_m"][1] + origin[1]], [2.5, -1.75], atol=1e-4
    )
    assert frames["speed"][56] == -300  # along the heading
    assert abs(int(frames["heading"][26])) >= 32767 and abs(int(frames["heading"][27])) >= 32767
    goal = np.array([objects["goal_x_m"][2], objects["goal_y_m"][2]]) + origin
    np.testing.assert_allclose(goal, scene.objects[2].goal_m[:2], atol=1e-4)
    assert list(objects["id"]) == [100, 101, 102]


def test_the_origin_is_the_mean_of_all_points(
    tiny_tree: MakeTree, tmp_path: Path, index_twin: ModuleType
) -> None:
    tree = tiny_tree()
    for item in [*tree["objects"], *tree["roads"]]:
        for point in item.get("position", item.get("geometry")):
            point["x"] += 8096.25
            point["y"] -= 8330.5
    scene = scene_from_tree(tree, "t", "t")
    head, arrays = unpack(compile_scene(scene, SETTINGS, index_twin.build_index), tmp_path)
    points = [road.points_m[:, :2] for road in scene.roads] + [
        item.position_m[:, :2] for item in scene.objects
    ]
    np.testing.assert_allclose(
        [head["origin_x"], head["origin_y"]], np.concatenate(points).mean(axis=0)
    )
    exact = scene.objects[1].position_m[7, :2] - [head["origin_x"], head["origin_y"]]
    stored = arrays["frames"][arrays["objects"]["frames_index"][1] + 7]
    np.testing.assert_allclose([stored["x_m"], stored["y_m"]], exact, atol=1e-5)


def ends(arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    middle = np.stack([arrays["x"], arrays["y"]], axis=-1).astype(float)
    along = np.stack([arrays["ux"], arrays["uy"]], axis=-1).astype(float) * arrays["half"][:, None]
    return middle - along, middle + along


def check_segments(scene: Scene, head: Any, arrays: dict[str, np.ndarray], bound_m: float) -> None:
    """All points of lanes, lines and edges lie within the bound of their own polyline's segments,
    which are well formed.
    """
    start, end = ends(arrays)
    origin = np.array([head["origin_x"], head["origin_y"]])
    assert arrays["half"].min(initial=1.0) > 0 and arrays["half"].max(initial=0.0) <= 7.5 + 1e-4
    np.testing.assert_allclose(np.hypot(arrays["ux"], arrays["uy"]), 1.0, atol=1e-6)
    counts = head["segment_count"]
    numbers = np.repeat(np.arange(3), counts)
    polyline = 0
    for kind, name in enumerate(("lane", "road_line", "road_edge")):
        for road in (road for road in scene.roads if road.type == name):
            points = road.points_m[:, :2] - origin
            if len(points) < 2 or np.ptp(points, axis=0).max() < 2e-3:
                continue
            own = np.flatnonzero(arrays["polyline"] == polyline)
            polyline += 1
            if name == "road_edge" and not len(own):
                continue
            assert (numbers[own] == kind).all()
            assert (np.diff(own) == 1).all()
            expected = road.map_element_id if road.map_element_id >= 0 else packed.KIND_NONE
            assert (arrays["kind"][own] == expected).all()
            nearest = np.min([segment_distance(points, start[i], end[i]) for i in own], axis=0)
            assert nearest.max() <= bound_m + 5e-3


def test_segments_of_the_tiny_scene(
    tiny_tree: MakeTree, tmp_path: Path, index_twin: ModuleType
) -> None:
    scene = scene_from_tree(tiny_tree(), "t", "t")
    head, arrays = unpack(compile_scene(scene, SETTINGS, index_twin.build_index), tmp_path)
    assert list(head["segment_count"]) == [20, 10, 20]  # 140 m in pieces of at most 15 m
    check_segments(scene, head, arrays, 0.1)


def test_roads_without_extent_and_other_elements_make_no_segments(
    tiny_tree: MakeTree, index_twin: ModuleType, tmp_path: Path
) -> None:
    tree = tiny_tree()
    point = {"x": 1.0, "y": 2.0, "z": 0.0}
    tree["roads"] = [
        {"geometry": [point], "type": "lane", "map_element_id": 2, "id": 1},
        {"geometry": [point, point, point], "type": "road_edge", "map_element_id": 15, "id": 2},
        {"geometry": [], "type": "road_line", "map_element_id": 6, "id": 3},
        {"geometry": [point], "type": "stop_sign", "map_element_id": 17, "id": 4},
        {
            "geometry": [point, {"x": 9.0, "y": 2.0, "z": 0.0}],
            "type": "crosswalk",
            "map_element_id": 18,
            "id": 5,
        },
    ]
    head, arrays = unpack(
        compile_scene(scene_from_tree(tree, "t", "t"), SETTINGS, index_twin.build_index), tmp_path
    )
    assert list(head["segment_count"]) == [0, 0, 0]
    assert len(arrays["candidates"]) == 0


def test_too_many_segments_are_refused(
    tiny_tree: MakeTree, index_twin: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "MAX_SEGMENTS", 40)
    with pytest.raises(
        SceneError,
        match="t: more than 40 road segments of at most 15 m after simplif.*: raise simplify_m",
    ):
        compile_scene(scene_from_tree(tiny_tree(), "t", "t"), SETTINGS, index_twin.build_index)


@pytest.mark.parametrize("every", slow_but([5], [1, 5]))
def test_real_scenes_fit_and_stay_within_the_bound(
    every: int, real_scenes: Path, tmp_path: Path
) -> None:
    for scene in map(read_usable, scene_files(real_scenes)[::every]):
        if isinstance(scene, LeftOut):
            continue
        compiled = compile_scene(scene, SETTINGS)
        assert len(compiled.data) < 480_000, scene.name
        head, arrays = unpack(compiled, tmp_path)
        check_segments(scene, head, arrays, 0.1)
        assert (compiled.moving_vehicles, compiled.valid_vehicles) == scene.agent_counts


def beside_lanes(
    scene: Scene, rng: np.random.Generator, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Poses of cars that drive badly: 2 m and 0.3 rad off a lane, as standard deviations."""
    lanes = [
        road.points_m[:, :2]
        for road in scene.roads
        if road.type == "lane" and len(road.points_m) > 1
    ]
    steps = np.concatenate([np.diff(points, axis=0) for points in lanes])
    at = rng.integers(0, len(steps), count)
    places = np.concatenate([points[:-1] for points in lanes])[at] + rng.normal(0, 2.0, (count, 2))
    return places, np.arctan2(*steps[at].T[::-1]) + rng.normal(0, 0.3, count)


def off_road(
    places: np.ndarray, headings: np.ndarray, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """Whether boxes of 4.8 m x 2 m touch an edge."""
    found = np.zeros(len(places), bool)
    for at in range(0, len(places), 400):
        rows = slice(at, at + 400)
        found[rows] = box_crosses_segment(places[rows], headings[rows], 2.4, 1.0, start, end).any(
            axis=1
        )
    return found


@pytest.mark.slow
def test_simplified_edges_change_few_contacts(real_scenes: Path, tmp_path: Path) -> None:
    """Less than one pose in a thousand is off-road with the segments and not with all points of the
    edges, or the other way.
    """
    rng = np.random.default_rng(0)
    changed = total = 0
    for scene in map(read_usable, scene_files(real_scenes)):
        if isinstance(scene, LeftOut):
            continue
        head, arrays = unpack(compile_scene(scene, SETTINGS), tmp_path)
        origin = np.array([head["origin_x"], head["origin_y"]])
        dense = [road.points_m[:, :2] - origin for road in scene.roads if road.type == "road_edge"]
        edges = slice(-int(head["segment_count"][2]), None)
        places, headings = beside_lanes(scene, rng, 1500)
        kept = off_road(places - origin, headings, *(item[edges] for item in ends(arrays)))
        starts, stops = (
            np.concatenate([points[piece] for points in dense])
            for piece in (slice(-1), slice(1, None))
        )
        changed += int((kept != off_road(places - origin, headings, starts, stops)).sum())
        total += len(places)
    assert total == 8 * 1500 and changed < 0.001 * total
