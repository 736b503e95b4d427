# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""JSON scenes of every generation: what is taken, what is filled in, and what exactly is said of a
bad value.

Also of what checks the values, drive_env/scenes/check.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from drive_env.scenes import json_scene
from drive_env.scenes.bin_scene import same_content
from drive_env.scenes.check import wrap_angle
from drive_env.scenes.json_scene import generation_of, json_bytes, parse_json, scene_from_tree
from drive_env.scenes.reader import parse_scene
from drive_env.scenes.schema import INVALID
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
    assert (car.length_m, car.width_m, car.height_m, car.id, car.expert) == (
        4.5,
        2.0,
        1.5,
        101,
        False,
    )
    assert [road.type for road in scene.roads] == [
        "lane",
        "lane",
        "road_line",
        "road_edge",
        "road_edge",
    ]
    assert scene.roads[2].map_element_id == 6


BAD = [
    (("objects",), DELETE, "objects: expected this key, got nothing"),
    (("objects", 1, "position"), DELETE,
     "objects[1].position: expected this key, got nothing (the key is missing)"),
    (("objects", 1, "position"), [], "objects[1].position: expected a list of 30, got a list of 0"),
    (("objects", 1, "position", 7, "x"), DELETE,
     "objects[1].position[7].x: expected this key, got nothing"),
    (("objects", 1, "position", 7, "x"), "9",
     "objects[1].position[7].x: expected a number, got the string '9'"),
    (("objects", 1, "position", 7, "x"), 1e30,
     "objects[1].position[7].x: expected a number between -100000 and 100000, got"),
    (("objects", 1, "position", 7, "y"), 10**400,
     "objects[1].position[7].y: expected a number that a double can hold"),
    (("objects", 0, "heading", 5), 1870.0,
     "objects[0].heading[5]: expected radians between -1000 and 1000, got 1870.0"),
    (("objects", 1, "valid"), [True] * 29,
     "objects[1].valid: expected a list of 30 (as many frames as objects[0])"),
    (("objects", 1, "valid", 2), 2, "objects[1].valid[2]: expected true or false, got 2"),
    (("objects", 1, "valid", 2), 1.0, "objects[1].valid[2]: expected true or false, got 1.0"),
    (("objects", 1, "mark_as_expert"), 2,
     "objects[1].mark_as_expert: expected true or false, got 2"),
    (("objects", 1, "position", 7, "y"), math.nan,
     "objects[1].position[7].y: expected a number between -100000 and"),
    (("objects", 0, "valid"), [], "objects[0].valid: expected at least one frame, got a list of 0"),
    (("objects", 1, "width"), 0, "objects[1].width: expected 0.01 to 100 (metres), got 0"),
    (("objects", 1, "goalPosition", "y"), DELETE, "objects[1].goalPosition.y: expected this key"),
    (("objects", 1, "type"), 1, "objects[1].type: expected a string, got 1"),
    (("objects", 1, "id"), 1.5,
     "objects[1].id: expected a whole number of at most 32 bits, got 1.5"),
    (("objects", 1, "id"), 100,
     "objects[1].id: expected an id that objects[0] does not have, got 100"),
    (("roads", 2, "type"), "river", "roads[2].type: expected one of lane, road_line"),
    (("roads", 2, "geometry", 4, "y"), -1e9, "roads[2].geometry[4].y: expected a number between"),
    (("tl_states",), [], "tl_states: expected a JSON object {...}, got a list of 0"),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "value", "expected"), BAD)
def test_a_bad_value_is_named(
    tiny_tree: MakeTree, keys: tuple[Any, ...], value: Any, expected: str
) -> None:
    tree = change(tiny_tree(), keys, value)
    with pytest.raises(SceneError) as caught:
        scene_from_tree(tree, "some/tiny.json", "tiny.json")
    assert str(caught.value).startswith("some/tiny.json: " + expected)


def test_a_cut_off_file_is_refused_at_every_length(tiny_tree: MakeTree) -> None:
    data = json.dumps(tiny_tree(frames=2, cars=1), separators=(",", ":")).encode()
    tree = json.loads(data)
    for road in tree["roads"]:
        road["geometry"] = road["geometry"][:3]
    data = json.dumps(tree, separators=(",", ":")).encode()
    assert parse_json(data, "whole.json", "whole.json").frame_count == 2
    for length in range(len(data)):
        with pytest.raises(
            SceneError,
            match=r"^cut\.json: not JSON, or cut off: .* at character \d+ of \d+ \(line 1, ",
        ):
            parse_json(data[:length], "cut.json", "cut.json")


def test_a_control_character_is_named_once() -> None:
    with pytest.raises(
        SceneError,
        match=r"cut off: Invalid control character at character 9 of 11 \(line 1, column 10\)$",
    ):
        parse_json(b'{"name":"\n"', "t", "t")


@pytest.mark.parametrize(
    "data", [b"\xff\xfe{}", b"[" * 200_000, b'{"a": ' + b"9" * 5000 + b"}", b"[]", b"3"]
)
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
    assert (
        np.isfinite(car.position_m).all()
        and np.isfinite(car.velocity_mps).all()
        and np.isfinite(car.heading_rad).all()
    )


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


def test_null_heights_are_missing_ones(tiny_tree: MakeTree) -> None:
    tree = tiny_tree()
    tree["objects"][0]["height"] = tree["objects"][0]["goalPosition"]["z"] = None
    tree["objects"][0]["position"] = [
        {**point, "z": 3.0} for point in tree["objects"][0]["position"]
    ]
    tree["roads"][0]["geometry"] = [{**point, "z": None} for point in tree["roads"][0]["geometry"]]
    scene = parse_json(json.dumps(tree).encode(), "t", "t")
    assert (
        scene.objects[0].height_m == 1.5 and scene.objects[0].goal_m[2] == 3.0 and scene.has_height
    )
    assert (scene.roads[0].points_m[:, 2] == 0).all()
    for item in tree["objects"]:
        item["position"] = [{**point, "z": None} for point in item["position"]]
    scene = parse_json(json.dumps(tree).encode(), "t", "t")
    assert (
        not scene.has_height
        and (scene.objects[0].position_m[:, 2] == 0).all()
        and scene.objects[0].goal_m[2] == 0.0
    )
    tree["objects"][0]["position"][0]["z"] = 3.0
    with pytest.raises(
        SceneError, match=r"objects\[0\]\.position\[1\]\.z: expected a number, got null"
    ):
        parse_json(json.dumps(tree).encode(), "t", "t")


def test_unknown_object_types_become_other(tiny_tree: MakeTree) -> None:
    tree = tiny_tree()
    tree["objects"][1]["type"] = "unset"
    scene = scene_from_tree(tree, "t", "t")
    assert scene.objects[1].type == 3
    assert scene.agent_counts == (1, 1)


def older(tree: dict[str, Any], generation: str, degrees: bool = True) -> dict[str, Any]:
    """Turn a scene into one of an older generation: keys are missing, headings are degrees and go
    on past 360.
    """
    del tree["metadata"]
    for item in tree["objects"]:
        del item["id"], item["mark_as_expert"]
        if degrees:
            item["heading"] = [math.degrees(angle) + 720.0 for angle in item["heading"]]
        if generation == "A":
            del item["height"], item["goalPosition"]["z"]
            for point in item["position"]:
                del point["z"]
    for road in tree["roads"]:
        del road["id"]
        if generation == "A":
            del road["map_element_id"]
            for point in road["geometry"]:
                del point["z"]
    if generation == "A":
        del tree["scenario_id"]
    return tree


@pytest.mark.parametrize("generation", ["A", "B"])
def test_older_generations_are_told_by_content(tiny_tree: MakeTree, generation: str) -> None:
    """And what they lack is filled in as docs/scenes.md says."""
    tree = older(tiny_tree(), generation)
    assert generation_of(tree) == generation
    found, expected = scene_from_tree(tree, "t", "t"), scene_from_tree(tiny_tree(), "t", "t")
    for one, other in zip(found.objects, expected.objects, strict=True):
        np.testing.assert_allclose(one.heading_rad, other.heading_rad, atol=1e-12)
        np.testing.assert_array_equal(one.position_m, other.position_m)
        np.testing.assert_array_equal(one.goal_m, other.goal_m)
        assert (one.id, one.expert, one.height_m) == (-1, False, 1.5)
    assert found.agent_counts == expected.agent_counts
    assert [road.type for road in found.roads] == [road.type for road in expected.roads]
    assert {road.map_element_id for road in found.roads} == (
        {-1} if generation == "A" else {2, 6, 15}
    )
    assert (found.scenario_id, found.metadata) == (
        "" if generation == "A" else expected.scenario_id,
        {},
    )


@pytest.mark.parametrize("generation", ["A", "C"])
def test_the_motion_tells_degrees_from_radians(tiny_tree: MakeTree, generation: str) -> None:
    """Cars that drive along +y: pi / 2, or 90 degrees, whatever the generation usually has."""
    tree = tiny_tree()
    for item in tree["objects"]:
        item["position"] = [
            {"x": point["y"], "y": point["x"], "z": 0.0} for point in item["position"]
        ]
        item["velocity"] = [{"x": 0.0, "y": point["x"]} for point in item["velocity"]]
        item["heading"] = [math.pi / 2 if generation == "A" else 90.0 for _ in item["heading"]]
    tree = older(tree, "A", degrees=False) if generation == "A" else tree
    assert generation_of(tree) == generation
    for item in scene_from_tree(tree, "t", "t").objects:
        np.testing.assert_allclose(item.heading_rad, math.pi / 2)
    for item in tree["objects"]:  # at walking pace nothing is told by it
        item["velocity"] = [{"x": 0.0, "y": 1.0} for _ in item["velocity"]]
    if generation == "C":
        words = r"objects\[0\].heading\[0\]: expected radians between -6.28419 and 6.28419, got 90"
        with pytest.raises(SceneError, match=words):
            scene_from_tree(tree, "t", "t")
    else:
        np.testing.assert_allclose(
            scene_from_tree(tree, "t", "t").objects[0].heading_rad, math.radians(math.pi / 2)
        )


@pytest.mark.parametrize(
    ("frames", "speed_mps", "course", "off", "radians"),
    [
        (10, 3.1, 1.5, 0.0, True), (9, 3.1, 1.5, 0.0, False), (30, 2.9, 1.5, 0.0, False),
        (30, 3.1, 1.5, 0.09, True), (30, 3.1, 1.5, 0.11, False), (30, 3.1, 1.5, -0.11, False),
        (30, 3.1, 0.315, 0.0, True), (30, 3.1, 0.295, 0.0, False),
    ],
)  # fmt: skip
def test_the_motion_tells_the_unit_at_its_limits(
    tiny_tree: MakeTree, frames: int, speed_mps: float, course: float, off: float, radians: bool
) -> None:
    """Ten frames at 3 m/s whose headings are within 0.1 rad of the motion, and would be more than
    0.3 rad off as degrees.
    """
    tree = older(tiny_tree(cars=1), "A", degrees=False)
    (item,) = tree["objects"]
    item["heading"] = [course + off] * 30
    speeds = [speed_mps] * frames + [1.0] * (30 - frames)
    item["velocity"] = [{"x": v * math.cos(course), "y": v * math.sin(course)} for v in speeds]
    (found,) = scene_from_tree(tree, "t", "t").objects
    expected = course + off if radians else math.radians(course + off)
    np.testing.assert_allclose(found.heading_rad, expected)


def test_radians_that_go_on_past_a_turn_are_wrapped(tiny_tree: MakeTree) -> None:
    """The car in front turns on and on, and the parked one has turned before; the motion agrees
    with radians.
    """
    tree, turns = tiny_tree(), [2 * math.pi, -4 * math.pi]
    for item, turn in zip(tree["objects"], turns, strict=False):
        item["heading"] = [angle + turn for angle in item["heading"]]
    found, expected = scene_from_tree(tree, "t", "t"), scene_from_tree(tiny_tree(), "t", "t")
    for one, other in zip(found.objects, expected.objects, strict=True):
        np.testing.assert_allclose(one.heading_rad, other.heading_rad, atol=1e-12)


def test_what_may_be_missing_or_null(tiny_tree: MakeTree) -> None:
    tree = tiny_tree()
    tree.update(tl_states=None, metadata=None, scenario_id=None)
    for item in tree["objects"]:
        del item["mark_as_expert"], item["goalPosition"]
        item["valid"] = [1] * 29 + [0]
    scene = scene_from_tree(tree, "t", "t")
    assert (scene.traffic_lights, scene.metadata, scene.scenario_id) == ({}, {}, "")
    assert scene.objects[0].valid.tolist() == [True] * 29 + [False] and not scene.objects[0].expert
    np.testing.assert_array_equal(scene.objects[0].goal_m, scene.objects[0].position_m[28])


@pytest.mark.parametrize("key", ["id", "mark_as_expert"])
def test_a_current_scene_that_lacks_a_key_is_not_old(tiny_tree: MakeTree, key: str) -> None:
    tree = tiny_tree()
    del tree["metadata"]
    for item in tree["objects"]:
        del item[key]
    assert generation_of(tree) == "C"


def test_a_scene_may_have_a_single_frame(tiny_tree: MakeTree) -> None:
    assert scene_from_tree(tiny_tree(frames=1), "t", "t").frame_count == 1


def test_written_and_read_again(tiny_tree: MakeTree) -> None:
    tree = tiny_tree()
    tree["objects"][1]["valid"][20:] = [False] * 10
    tree["objects"][1]["position"][25]["x"] = INVALID
    scene = scene_from_tree(tree, "t", "t")
    assert same_content(parse_scene(json_bytes(scene), "again", "t"), scene)
    flat = scene_from_tree(older(tiny_tree(), "A"), "t", "t")
    again = parse_scene(json_bytes(flat), "again", "t")
    assert same_content(again, flat) and not again.has_height
    tree["objects"][0]["position"][3]["x"] += 1e-9
    assert not same_content(scene_from_tree(tree, "t", "t"), scene)


def test_angles_in_range_keep_every_bit() -> None:
    angles = np.random.default_rng(1).uniform(-math.pi, math.pi, 1000)
    np.testing.assert_array_equal(wrap_angle(angles), angles)
    np.testing.assert_allclose(
        np.exp(1j * wrap_angle(37 * angles)), np.exp(37j * angles), atol=1e-12
    )
    assert (np.abs(wrap_angle(37 * angles)) <= math.pi).all() and wrap_angle(np.array([math.pi]))[
        0
    ] == -math.pi


# ---- with lists read as arrays, and by the module json alone -------------------------------------


def slowly(_: bytes) -> None:
    """In place of `tree_with_columns`: leaves all to the module json."""
    raise ValueError("not today")


def with_values(tree: dict[str, Any], **values: str) -> bytes:
    """A scene as JSON text, with other text in some places of its metadata, and of the first
    object.
    """
    text = json.dumps(tree)
    for name, value in values.items():
        text = text.replace(
            '"objects_of_interest": []', f'"objects_of_interest": [], "{name}": {value}', 1
        )
    return text.encode()


@pytest.mark.parametrize(
    "value",
    ["1e30", "NaN", "-Infinity", "1e400", "1" * 30, "-" + "1" * 30, str(2**64), str(2**63),
     str(2**53 + 1), "-0", "-0.0", "5e-324", '"\\ud800"', '{"a": 1, "a": [2]}',
     "[" * 600 + "]" * 600, "0.1e1", "2.2250738585072011e-308"],
)  # fmt: skip
def test_both_readers_of_json_read_the_same(
    tiny_tree: MakeTree, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    data = with_values(tiny_tree(), value=value)
    fast = parse_json(data, "a.json", "a.json")
    monkeypatch.setattr(json_scene, "tree_with_columns", slowly)
    slow = parse_json(data, "a.json", "a.json")
    assert repr(fast.metadata) == repr(slow.metadata)
    assert repr(slow.metadata["value"]) == repr(json.loads(value))


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (("objects", 0, "position", 3, "x"), "1e30"),
        (("objects", 0, "position", 3, "x"), "NaN"),
        (("objects", 0, "position", 3, "x"), "1e400"),
        (("objects", 0, "position", 3, "x"), "1" * 31),
        (("objects", 0, "id"), str(2**64)),
        (("scenario_id",), str(2**70)),
        (("roads", 0, "geometry", 0, "y"), '"7"'),
        (("objects",), "[" * 100_000),
        (("objects",), "[1, 2"),
        (("name",), '"\t"'),
    ],
)
def test_both_readers_of_json_refuse_the_same_in_the_same_words(
    tiny_tree: MakeTree, monkeypatch: pytest.MonkeyPatch, keys: tuple[Any, ...], text: str
) -> None:
    data = json.dumps(change(tiny_tree(), keys, "HERE")).replace('"HERE"', text).encode()
    said = []
    for _ in range(2):
        try:
            said.append(repr(parse_json(data, "a.json", "a.json").scenario_id))
        except SceneError as error:
            said.append(str(error))
        monkeypatch.setattr(json_scene, "tree_with_columns", slowly)
    assert said[0] == said[1] and (keys == ("scenario_id",) or "a.json: " in said[0])


def test_a_text_that_is_cut_off_anywhere_is_refused_in_the_same_words(
    tiny_tree: MakeTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.dumps(tiny_tree(frames=2, cars=1)).encode()
    cuts = range(1, len(data), 997)
    refused = [pytest.raises(SceneError, parse_json, data[:cut], "a", "a").value for cut in cuts]
    monkeypatch.setattr(json_scene, "tree_with_columns", slowly)
    assert [str(error) for error in refused] == [
        str(pytest.raises(SceneError, parse_json, data[:cut], "a", "a").value) for cut in cuts
    ]
