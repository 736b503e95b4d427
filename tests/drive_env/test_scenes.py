# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reading scenes: what is taken, what is left out, and what exactly is said of a bad file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.scenes import reader
from drive_env.scenes.reader import (
    LeftOut,
    Unusable,
    generation_of,
    parse_scene,
    read_scene,
    read_usable,
    scene_files,
    scene_from_tree,
)
from puffervec.errors import SceneError

MakeTree = Callable[..., dict[str, Any]]
DELETE = object()


def change(tree: dict[str, Any], keys: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Put a value at a key path of a tree, or delete the key."""
    item: Any = tree
    for key in keys[:-1]:
        item = item[key]
    if value is DELETE:
        del item[keys[-1]]
    else:
        item[keys[-1]] = value
    return tree


def test_a_good_scene_becomes_arrays(tiny_tree: MakeTree) -> None:
    scene = scene_from_tree(tiny_tree(frames=30, cars=3), "tiny.json", "tiny.json")
    assert scene.frame_count == 30
    assert scene.agent_counts == (3, 3)
    car = scene.objects[1]
    assert car.position_m.shape == (30, 3) and car.velocity_mps.shape == (30, 2)
    np.testing.assert_allclose(car.position_m[4], [14.0, 1.75, 0.0])
    assert (car.length_m, car.width_m, car.height_m, car.id, car.expert) == (4.5, 2.0, 1.5, 101, False)
    assert [road.type for road in scene.roads] == ["lane", "lane", "road_line", "road_edge", "road_edge"]
    assert scene.roads[2].map_element_id == 6


BAD = [
    (("objects",), DELETE, "objects: expected this key, found nothing"),
    (("objects", 1, "position"), DELETE, "objects[1].position: expected this key, found nothing (the key is missing)"),
    (("objects", 1, "position"), [], "objects[1].position: expected a list of 30, found a list of 0"),
    (("objects", 1, "position", 7, "x"), DELETE, "objects[1].position[7].x: expected this key, found nothing"),
    (("objects", 1, "position", 7, "x"), "9", "objects[1].position[7].x: expected a number, found the string '9'"),
    (("objects", 1, "position", 7, "x"), 1e30, "objects[1].position[7].x: expected a number between -100000 and 100000, fou"),
    (("objects", 1, "position", 7, "y"), 10**400, "objects[1].position[7].y: expected a number that a double can hold"),
    (("objects", 0, "heading", 5), 187.0, "objects[0].heading[5]: expected radians between -2 pi and 2 pi, found 187.0"),
    (("objects", 1, "valid"), [True] * 29, "objects[1].valid: expected a list of 30 (as many frames as objects[0])"),
    (("objects", 1, "valid", 2), 1, "objects[1].valid[2]: expected true or false, found 1"),
    (("objects", 0, "valid"), [], "objects[0].valid: expected at least one frame, found a list of 0"),
    (("objects", 1, "width"), 0, "objects[1].width: expected 0.01 to 100 (metres), found 0"),
    (("objects", 1, "goalPosition", "y"), DELETE, "objects[1].goalPosition.y: expected this key"),
    (("objects", 1, "type"), 1, "objects[1].type: expected a string, found 1"),
    (("objects", 1, "id"), 1.5, "objects[1].id: expected a whole number of at most 32 bits, found 1.5"),
    (("objects", 1, "id"), 100, "objects[1].id: expected an id that objects[0] does not have, found 100"),
    (("roads", 2, "type"), "river", "roads[2].type: expected one of lane, road_line"),
    (("roads", 2, "geometry", 4, "y"), -1e9, "roads[2].geometry[4].y: expected a number between"),
    (("tl_states",), [], "tl_states: expected a JSON object {...}, found a list of 0"),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "value", "expected"), BAD)
def test_a_bad_value_is_named(tiny_tree: MakeTree, keys: tuple[Any, ...], value: Any, expected: str) -> None:
    tree = change(tiny_tree(), keys, value)
    with pytest.raises(SceneError) as caught:
        scene_from_tree(tree, "some/tiny.json", "tiny.json")
    assert str(caught.value).startswith("some/tiny.json: " + expected)
    assert not isinstance(caught.value, Unusable)


def test_a_cut_off_file_is_refused_at_every_length(tiny_tree: MakeTree) -> None:
    data = json.dumps(tiny_tree(frames=2, cars=1), separators=(",", ":")).encode()
    tree = json.loads(data)
    for road in tree["roads"]:
        road["geometry"] = road["geometry"][:3]
    data = json.dumps(tree, separators=(",", ":")).encode()
    assert parse_scene(data, "whole.json", "whole.json").frame_count == 2
    for length in range(len(data)):
        with pytest.raises(SceneError, match=r"^cut\.json: not JSON, or cut off: .* at character \d+ of \d+ \(line 1, "):
            parse_scene(data[:length], "cut.json", "cut.json")


@pytest.mark.parametrize("data", [b"\xff\xfe{}", b"[" * 200_000, b'{"a": ' + b"9" * 5000 + b"}", b"[]", b"3"])
def test_what_is_no_scene_is_a_scene_error(data: bytes) -> None:
    with pytest.raises(SceneError, match=r"^odd\.json: "):
        parse_scene(data, "odd.json", "odd.json")


def test_values_of_frames_in_which_an_object_is_absent_do_not_matter(tiny_tree: MakeTree) -> None:
    tree = tiny_tree()
    item = tree["objects"][1]
    item["valid"][20:] = [False] * 10
    item["position"][25] = {"x": -10000.0, "y": math.nan, "z": 1e30}
    item["heading"][25] = -10000.0
    item["velocity"][25] = {"x": math.inf, "y": -10000}
    car = scene_from_tree(tree, "t", "t").objects[1]
    assert np.isfinite(car.position_m).all() and np.isfinite(car.velocity_mps).all() and np.isfinite(car.heading_rad).all()


def test_headings_are_wrapped(tiny_tree: MakeTree) -> None:
    tree = tiny_tree()
    tree["objects"][0]["heading"][:3] = [math.pi, 1.5 * math.pi, -1.5 * math.pi]
    heading = scene_from_tree(tree, "t", "t").objects[0].heading_rad
    np.testing.assert_allclose(heading[:3], [-math.pi, -0.5 * math.pi, 0.5 * math.pi])


def test_traffic_lights_and_heights_are_kept(tiny_tree: MakeTree) -> None:
    tree = tiny_tree()
    lights = {"17": {"state": ["stop"] * 30, "x": [1.0], "y": [2.0], "z": [0.0], "time_index": [0]}}
    tree["tl_states"] = lights
    tree["roads"][0]["geometry"][3]["z"] = 6.5
    scene = scene_from_tree(tree, "t", "t")
    assert scene.traffic_lights == lights
    assert scene.roads[0].points_m[3, 2] == 6.5


def test_a_road_without_heights_is_read(tiny_tree: MakeTree) -> None:
    tree = tiny_tree()
    for point in tree["roads"][0]["geometry"]:
        del point["z"]
    assert (scene_from_tree(tree, "t", "t").roads[0].points_m[:, 2] == 0).all()


def test_unknown_object_types_become_other(tiny_tree: MakeTree) -> None:
    tree = tiny_tree()
    tree["objects"][1]["type"] = "unset"
    scene = scene_from_tree(tree, "t", "t")
    assert scene.objects[1].type == 3
    assert scene.agent_counts == (1, 1)


def older(tree: dict[str, Any], generation: str) -> dict[str, Any]:
    """Turn a scene into one of an older generation."""
    del tree["metadata"]
    for item in tree["objects"]:
        del item["id"], item["mark_as_expert"]
        if generation == "A":
            del item["height"]
    for road in tree["roads"]:
        del road["id"]
        if generation == "A":
            del road["map_element_id"]
    if generation == "A":
        del tree["scenario_id"]
    return tree


@pytest.mark.parametrize("generation", ["A", "B"])
def test_older_generations_are_told_by_content_and_refused(tiny_tree: MakeTree, generation: str) -> None:
    tree = older(tiny_tree(), generation)
    assert generation_of(tree) == generation
    with pytest.raises(Unusable, match=f"an older format \\(generation {generation}: .*convert it to the current schema"):
        scene_from_tree(tree, "t", "t")


@pytest.mark.parametrize("key", ["id", "mark_as_expert"])
def test_a_current_scene_that_lacks_a_key_is_broken_and_not_old(tiny_tree: MakeTree, key: str) -> None:
    tree = tiny_tree()
    del tree["metadata"]
    for item in tree["objects"]:
        del item[key]
    assert generation_of(tree) == "C"


def test_a_folder_leaves_out_what_cannot_be_driven(tiny_tree: MakeTree, tmp_path: Path) -> None:
    contents = {
        "a-good.json": tiny_tree(),
        "b-single.json": tiny_tree(frames=1),
        "c-old.json": older(tiny_tree(), "A"),
        "d-empty.json": {**tiny_tree(), "objects": []},
    }
    for name, tree in contents.items():
        (tmp_path / name).write_text(json.dumps(tree))
    (tmp_path / "notes.txt").write_text("no scene")
    found = [read_usable(path) for path in scene_files(tmp_path)]
    assert [type(item).__name__ for item in found] == ["Scene", "LeftOut", "LeftOut", "LeftOut"]
    reasons = [item.reason for item in found if isinstance(item, LeftOut)]
    assert reasons[0].startswith("the scene has a single frame")
    assert reasons[1].startswith("an older format (generation A")
    assert reasons[2] == "the scene has no objects"
    assert all("\n" not in reason for reason in reasons)


def test_a_named_file_that_cannot_be_driven_is_an_error(tiny_tree: MakeTree, tmp_path: Path) -> None:
    path = tmp_path / "single.json"
    path.write_text(json.dumps(tiny_tree(frames=1)))
    with pytest.raises(SceneError, match="single.json: the scene has a single frame"):
        read_scene(path)


def test_a_folder_leaves_out_what_is_broken(tiny_tree: MakeTree, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "whole.json").write_text(json.dumps(tiny_tree()))
    bad, gone, whole = (read_usable(path) for path in scene_files(tmp_path))
    assert isinstance(bad, LeftOut) and bad.reason.startswith("not JSON")
    assert isinstance(gone, LeftOut) and gone.reason == "no such scene file"
    assert not isinstance(whole, LeftOut) and whole.name == "whole.json"


@pytest.mark.parametrize("generation", ["A", "B", "C"])
def test_a_single_frame_is_what_is_said_of_any_generation(tiny_tree: MakeTree, generation: str) -> None:
    tree = tiny_tree(frames=1) if generation == "C" else older(tiny_tree(frames=1), generation)
    with pytest.raises(SceneError, match="t: the scene has a single frame"):
        scene_from_tree(tree, "t", "t")


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
    for name, value, text in (
        ("MAX_FILE_BYTES", 100, "expected at most 100 bytes"),
        ("MAX_OBJECTS", 1, "objects: expected at most 1 items, found a list of 2"),
        ("MAX_ROADS", 2, "roads: expected at most 2 items"),
        ("MAX_FRAMES", 10, r"objects\[0\].valid: expected at most 10 items"),
        ("MAX_POINTS", 300, r"roads\[1\].geometry: expected at most 19 items"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(reader, name, value)
            with pytest.raises(SceneError, match=text):
                read_scene(path)


def test_real_scenes(real_scenes: Path) -> None:
    found = [read_usable(path) for path in scene_files(real_scenes)]
    left_out = {item.path.name for item in found if isinstance(item, LeftOut)}
    assert left_out == {"agent-agent-collision.json", "agent-road-edge-collision.json", "tfrecord-00001-of-01000_307.json"}
    by_name = {item.name: item for item in found if not isinstance(item, LeftOut)}
    assert len(by_name) == 7
    lights = by_name["tfrecord-00000-of-00150_2a173b334be3d32c.json"]
    assert len(lights.traffic_lights) == 12
    assert by_name["tfrecord-00000-of-00150_78.json"].frame_count == 11
    assert by_name["tfrecord-00005-of-00150_792d65eb579314db.json"].agent_counts == (42, 70)
