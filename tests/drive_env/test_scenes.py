# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Scene files of any format and folders of them (drive_env/scenes/reader.py): what is read, what is
left out, and why.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.scenes import check, reader
from drive_env.scenes.bin_scene import bin_bytes
from drive_env.scenes.json_scene import scene_from_tree
from drive_env.scenes.reader import LeftOut, read_drivable, read_scene, read_usable, scene_files
from drive_env.scenes.schema import OBJECT_TYPES, Scene
from puffervec.errors import SceneError

MakeTree = Callable[..., dict[str, Any]]


def test_a_folder_leaves_out_what_cannot_be_driven(tiny_tree: MakeTree, tmp_path: Path) -> None:
    contents = {
        "a-good.json": tiny_tree(),
        "b-single.json": tiny_tree(frames=1),
        "c-empty.json": {**tiny_tree(), "objects": []},
    }
    for name, tree in contents.items():
        (tmp_path / name).write_text(json.dumps(tree))
    (tmp_path / "notes.txt").write_text("no scene")
    found = [read_usable(path) for path in scene_files(tmp_path)]
    assert [type(item).__name__ for item in found] == ["Scene", "LeftOut", "LeftOut"]
    reasons = [item.reason for item in found if isinstance(item, LeftOut)]
    assert reasons[0].startswith("the scene has a single frame")
    assert "the scene has no objects" in reasons[1] and "--env.placements" in reasons[1]
    assert all("\n" not in reason for reason in reasons)


def test_a_named_file_that_cannot_be_driven_is_an_error(
    tiny_tree: MakeTree, tmp_path: Path
) -> None:
    path = tmp_path / "single.json"
    path.write_text(json.dumps(tiny_tree(frames=1)))
    with pytest.raises(SceneError, match="single.json: the scene has a single frame"):
        read_drivable(path)
    assert read_scene(path).frame_count == 1  # to be converted or drawn


def test_a_folder_leaves_out_what_is_broken(tiny_tree: MakeTree, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "whole.json").write_text(json.dumps(tiny_tree()))
    bad, gone, whole = (read_usable(path) for path in scene_files(tmp_path))
    assert isinstance(bad, LeftOut) and bad.reason.startswith("not JSON")
    assert isinstance(gone, LeftOut) and gone.reason == "no such scene file"
    assert not isinstance(whole, LeftOut) and whole.name == "whole.json"


def test_subfolders_are_searched_and_formats_are_told_by_content(
    tiny_tree: MakeTree, tmp_path: Path
) -> None:
    scene = scene_from_tree(tiny_tree(), "t", "t")
    (tmp_path / "b" / "deep").mkdir(parents=True)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "b" / "deep" / "map.bin").write_bytes(bin_bytes(scene))
    (tmp_path / "b" / "misnamed.json").write_bytes(bin_bytes(scene, "v1"))
    (tmp_path / "a.bin").write_text(json.dumps(tiny_tree()))
    for hidden in (".hidden/x.json", ".part.json"):
        (tmp_path / hidden).write_text("{")
    (tmp_path / "circle").symlink_to(tmp_path)
    files = scene_files(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in files] == [
        "a.bin",
        "b/deep/map.bin",
        "b/misnamed.json",
    ]
    assert [item.agent_counts for item in map(read_scene, files)] == [scene.agent_counts] * 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into any folder")
def test_a_subfolder_that_cannot_be_read_is_left_out(tiny_tree: MakeTree, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(tiny_tree()))
    (tmp_path / "shut").mkdir(mode=0)
    _, shut = (read_usable(path) for path in scene_files(tmp_path))
    assert (
        isinstance(shut, LeftOut)
        and shut.path.name == "shut"
        and shut.reason == "the folder cannot be read"
    )
    with pytest.raises(SceneError, match="shut: the folder cannot be read"):
        scene_files(tmp_path / "shut")


def test_missing_and_empty_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(SceneError, match="nowhere: no such folder"):
        scene_files(tmp_path / "nowhere")
    with pytest.raises(SceneError, match=f"{tmp_path}: the folder holds no scenes"):
        scene_files(tmp_path)
    with pytest.raises(SceneError, match="nothing.json: no such scene file"):
        read_scene(tmp_path / "nothing.json")


def test_size_caps(tiny_tree: MakeTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "big.json"
    path.write_text(json.dumps(tiny_tree()))
    for module, name, value, text in (
        ("reader", "MAX_FILE_BYTES", 100, "expected at most 100 bytes"),
        ("json_scene", "MAX_OBJECTS", 1, "objects: expected at most 1 items, got a list of 2"),
        ("json_scene", "MAX_ROADS", 2, "roads: expected at most 2 items"),
        ("check", "MAX_FRAMES", 10, r"objects\[0\].valid: expected at most 10 items"),
        ("json_scene", "MAX_POINTS", 300, r"roads\[1\].geometry: expected at most 19 items"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"drive_env.scenes.{module}.{name}", value)
            with pytest.raises(SceneError, match=text):
                read_scene(path)
    with monkeypatch.context() as patch:
        patch.setattr(reader, "MAX_FILES", 0)
        with pytest.raises(SceneError, match="more than 0 scene files"):
            scene_files(tmp_path)


# Of each file: vehicles, pedestrians, cyclists, objects in frame 0, roads, points, frames, traffic
# lights.
REAL = {
    "scenes/tfrecord-00000-of-01000_325.json": (54, 8, 0, 35, 157, 10527, 91, 0),
    "scenes/tfrecord-00002-of-01000_407.json": (15, 0, 0, 8, 177, 11155, 91, 0),
    "scenes/tfrecord-00005-of-00150_792d65eb579314db.json": (99, 0, 0, 70, 37, 10037, 91, 0),
    "scenes/tfrecord-00004-of-00150_a5c442237e79e506.json": (72, 35, 0, 82, 402, 19761, 91, 0),
    "scenes/tfrecord-00000-of-00150_2a173b334be3d32c.json": (12, 3, 0, 12, 213, 14648, 91, 12),
    "scenes/tfrecord-00001-of-01000_307.json": (13, 8, 0, 10, 29, 3239, 91, 0),
    "scenes/tfrecord-00000-of-00150_78.json": (11, 0, 1, 10, 174, 10138, 11, 0),
    "scenes/carla_Town01_0.json": (32, 0, 0, 32, 238, 14569, 91, 0),
    "scenes/agent-agent-collision.json": (2, 0, 0, 2, 1, 3, 1, 0),
    "scenes/agent-road-edge-collision.json": (1, 0, 0, 1, 1, 2, 1, 0),
    "bins/map_000_v1.bin": (15, 0, 0, 8, 177, 1196, 91, 0),
    "bins/map_000_v2.bin": (50, 12, 2, 37, 38, 324, 91, 0),
}


def counts(scene: Scene) -> tuple[int, ...]:
    """Count what the table counts."""
    kinds = [
        sum(item.type == index for item in scene.objects) for index in range(len(OBJECT_TYPES))
    ]
    assert kinds.pop() == 0
    present = sum(item.valid_at_start for item in scene.objects)
    points = sum(len(road.points_m) for road in scene.roads)
    return (*kinds, present, len(scene.roads), points, scene.frame_count, len(scene.traffic_lights))


def test_every_real_file_has_what_the_table_says(real_data: Path) -> None:
    """Further scenes may lie beside those of the table."""
    files = {str(path.relative_to(real_data)): path for path in scene_files(real_data)}
    assert {name: counts(read_scene(files[name])) for name in REAL} == REAL


def test_real_headings_point_the_way_that_cars_drive(real_data: Path) -> None:
    """In degrees in one of the files, in radians in the others."""
    for name in REAL:
        scene = read_scene(real_data / name)
        off = [np.zeros(0)]
        for item in scene.objects:
            fast = item.valid & (np.hypot(*item.velocity_mps.T) > 3.0)
            off.append(
                np.abs(
                    check.wrap_angle(
                        item.heading_rad[fast] - np.arctan2(*item.velocity_mps[fast, ::-1].T)
                    )
                )
            )
        errors = np.concatenate(off)
        assert len(errors) == 0 or np.median(errors) < 0.1, name


def test_a_real_scene_is_the_same_in_json_and_bin(real_data: Path) -> None:
    """map_000_v1.bin is the scene 407 as PufferDrive converted it."""
    one, other = (
        read_scene(real_data / "scenes/tfrecord-00002-of-01000_407.json"),
        read_scene(real_data / "bins/map_000_v1.bin"),
    )
    for mine, its in zip(one.objects, other.objects, strict=True):
        np.testing.assert_array_equal(mine.valid, its.valid)
        np.testing.assert_allclose(its.position_m, mine.position_m, atol=1e-3)
        np.testing.assert_allclose(its.velocity_mps, mine.velocity_mps, atol=1e-3)
        np.testing.assert_allclose(its.heading_rad, mine.heading_rad, atol=1e-6)
        np.testing.assert_allclose(
            [its.length_m, its.width_m, its.height_m],
            [mine.length_m, mine.width_m, mine.height_m],
            1e-6,
        )
    assert [road.type for road in one.roads] == [road.type for road in other.roads]
