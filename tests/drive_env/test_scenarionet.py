# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""ScenarioNet's pickles (drive_env/scenes/plain_pickle.py, scenarionet.py)."""

from __future__ import annotations

import collections
import math
import os
import pickle
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.scenes import packed
from drive_env.scenes.controls import controls_of
from drive_env.scenes.plain_pickle import PickleError, is_pickle, load_plain
from drive_env.scenes.reader import parse_scene, read_scene, scene_files
from drive_env.scenes.schema import GREEN, RED, UNKNOWN, YELLOW, Scene
from puffervec.errors import SceneError

FRAMES = 6
SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "data" / "scenarionet"


def track(kind: str, x: float, **changes: Any) -> dict[str, Any]:
    position = np.zeros((FRAMES, 3), np.float32)
    position[:, 0] = x + np.arange(FRAMES)
    state = {
        "position": position,
        "heading": np.full(FRAMES, 0.5, np.float32),
        "velocity": np.tile(np.float32([10, 0]), (FRAMES, 1)),
        "valid": np.array([False] + [True] * (FRAMES - 1)),
        "length": np.full(FRAMES, 4.0),
        "width": np.full(FRAMES, 2.0),
        "height": np.full(FRAMES, 1.5),
    }
    return {"type": kind, "state": {**state, **changes}, "metadata": {}}


def tree() -> dict[str, Any]:
    line = np.array([[0.0, 0.0], [50.0, 0.0], [90.0, 3.0]])
    counts = collections.defaultdict(int, {"VEHICLE": 2})
    return {
        "id": "scene-1",
        "version": "MetaDrive v0.3",
        "length": FRAMES,
        "tracks": {
            "ego": track("VEHICLE", 0.0),
            "b": track("TRAFFIC_CONE", 9.0),
            "c": track(
                "PEDESTRIAN", 5.0, valid=np.ones((FRAMES, 1)), length=np.full((FRAMES, 1), 0.75)
            ),
        },
        "map_features": {
            "l1": {
                "type": "LANE_SURFACE_STREET", "polyline": line, "exit_lanes": ["l2", "gone"],
                "entry_lanes": [], "speed_limit_kmh": "36", "polygon": line,
                "left_neighbor": [
                    {"feature_id": "l2", "self_start_index": "0", "self_end_index": "2"}
                ],
            },
            "l2": {"type": "LANE_FREEWAY", "polyline": line + 4, "speed_limit_mph": 10.0},
            "e": {"type": "ROAD_EDGE_MEDIAN", "polyline": line},
            "w": {"type": "CROSSWALK", "polygon": line},
            "s": {"type": "STOP_SIGN", "position": np.float32([1, 2, 0]), "lane": ["l1"]},
            "g": {"type": "GUARDRAIL", "polyline": line},
        },
        "dynamic_map_states": {
            "l1": {
                "type": "TRAFFIC_LIGHT", "lane": "l1", "stop_point": np.float32([50, 0, 0]),
                "state": {"object_state": [None, "LANE_STATE_STOP"] + ["LANE_STATE_GO"] * 4},
            },
            "n": {"lane": "l2", "stop_point": None, "state": {"object_state": [None] * FRAMES}},
        },
        "metadata": {
            "ts": np.arange(FRAMES) * 0.1, "sdc_id": "ego", "dataset": "nuscenes",
            "tracks_to_predict": {"c": {"track_id": "c", "difficulty": 2}}, "counts": counts,
            "width": np.float64(3.0),
        },
    }  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_all_of_a_scene_is_read(protocol: int) -> None:
    data = pickle.dumps(tree(), protocol)
    assert is_pickle(data[:4]) and not is_pickle(b"\x0f\0\0\0")
    scene = parse_scene(data, "here", "one.pkl")
    assert (scene.frame_count, scene.scenario_id, scene.has_height) == (FRAMES, "scene-1", False)
    assert [item.type for item in scene.objects] == [0, 3, 1]
    assert [item.id for item in scene.objects] == [0, 1, 2]  # the file's are no numbers
    car, _, walker = scene.objects
    assert car.position_m[3].tolist() == [3.0, 0.0, 0.0] and not car.valid[0]
    assert (walker.length_m, walker.width_m) == (0.75, 2.0) and walker.valid.all()
    assert scene.sdc == 0 and scene.to_predict == {2}
    kinds = [(road.type, road.map_element_id, road.id) for road in scene.roads]
    assert kinds == [("lane", 2, 0), ("lane", 1, 1), ("road_edge", 16, 2), ("crosswalk", 18, 3)]
    first, second = (road.links for road in scene.roads[:2])
    assert first is not None and second is not None
    assert (first.exits, first.left, first.right) == ((1,), 1, -1)
    assert first.speed_limit_mps == pytest.approx(10.0)
    assert second.speed_limit_mps == pytest.approx(4.4704)
    sign, light = controls_of(scene)
    assert (sign.lane_id, light.lane_id) == (0, 0) and sign.position_m.tolist() == [1, 2, 0]
    assert light.states.tolist() == [UNKNOWN, RED] + [GREEN] * 4
    assert scene.left_out == {
        "lanes with polygon": 1,
        "map features of type GUARDRAIL": 1,
        "traffic lights without a place": 1,
    }


# In the order of WOMD's enumerations, of which schema.py has lines from 5 on and edges from 14 on.
NUMBERED = {
    "LANE": (0, ("UNKNOWN", "FREEWAY", "SURFACE_STREET", "BIKE_LANE")),
    "ROAD_LINE": (
        5,
        (
            "UNKNOWN", "BROKEN_SINGLE_WHITE", "SOLID_SINGLE_WHITE", "SOLID_DOUBLE_WHITE",
            "BROKEN_SINGLE_YELLOW", "BROKEN_DOUBLE_YELLOW", "SOLID_SINGLE_YELLOW",
            "SOLID_DOUBLE_YELLOW", "PASSING_DOUBLE_YELLOW",
        ),
    ),
    "ROAD_EDGE": (14, ("UNKNOWN", "BOUNDARY", "MEDIAN")),
}  # fmt: skip


def test_types_of_roads_are_those_of_womd() -> None:
    content, line = tree(), np.array([[0.0, 0.0, 0.0], [5.0, 0.0, 2.0]])
    expected, features = [], {}
    for kind, (first, names) in NUMBERED.items():
        for number, name in enumerate(names):
            expected.append((kind.lower(), first + number))
            features[f"{kind}_{name}"] = {"type": f"{kind}_{name}", "polyline": line}
    areas = {"CROSSWALK": 18, "SPEED_BUMP": 19, "DRIVEWAY": 20}
    features |= {kind: {"type": kind, "polygon": line} for kind in areas}
    expected += [(kind.lower(), number) for kind, number in areas.items()]
    scene = parse_scene(pickle.dumps({**content, "map_features": features}), "here", "one.pkl")
    assert [(road.type, road.map_element_id) for road in scene.roads] == expected
    assert scene.has_height and scene.roads[0].points_m[1].tolist() == [5, 0, 2]


def test_numbers_stay_and_what_is_missing_has_a_default() -> None:
    content = tree()
    car = track("VEHICLE", 0.0)
    for side in ("length", "width", "height"):
        del car["state"][side]
    car["state"]["position"] = car["state"]["position"][:, :2]
    parts = [{"feature_id": f, "self_start_index": 3, "self_end_index": e}
             for f, e in (("-102", 8), ("101", 12), (103, 9))]  # fmt: skip
    line = content["map_features"]["l1"]["polyline"]
    content["tracks"] = {"123456789": car, "-4": track("CYCLIST", 1.0)}
    content["map_features"] = {
        "101": {"type": "LANE_FREEWAY", "polyline": line, "speed_limit_mph": 20,
                "speed_limit_kmh": 9},
        "-102": {"type": "LANE_FREEWAY", "polyline": line, "left_neighbor": parts,
                 "right_neighbor": ["nowhere", 103, "101"]},
        "103": {"type": "LANE_FREEWAY", "polyline": line, "entry_lanes": ("-102", 101),
                "speed_limit_mph": 0.0, "speed_limit_kmh": 18},
    }  # fmt: skip
    places = [None, np.float32([7, 8, 9]), None]
    words = {
        "object_state": ["TRAFFIC_LIGHT_YELLOW", "LANE_STATE_ARROW_GO", "", None]
        + ["TRAFFIC_LIGHT_RED"] * 2
    }
    content["dynamic_map_states"] = {"x": {"lane": -102, "stop_point": places, "state": words}}
    content["metadata"] = {
        "timestep": np.arange(FRAMES) * 0.1, "sdc_id": -4, "scenario_id": "other",
        "tracks_to_predict": [{"track_id": -4, "difficulty": "x"}, {"track_id": "gone"}],
        "objects_of_interest": ["123456789", "gone", -4],
    }  # fmt: skip
    scene = parse_scene(pickle.dumps(content), "here", "one.pkl")
    first, second = scene.objects
    assert [item.id for item in scene.objects] == [123456789, -4] and scene.scenario_id == "other"
    assert (first.width_m, first.length_m, first.height_m) == (2.0, 4.5, 1.5)
    assert first.position_m[3].tolist() == [3, 0, 0] and second.type == 2
    assert [road.id for road in scene.roads] == [101, -102, 103]
    links = [road.links for road in scene.roads]
    assert all(links)
    found = [(each.left, each.right, each.entries, each.speed_limit_mps) for each in links if each]
    assert found == [
        (-1, -1, (), pytest.approx(20 * 0.44704)), (101, 103, (), 0.0),
        (-1, -1, (-102, 101), pytest.approx(5.0)),
    ]  # fmt: skip
    (light,) = controls_of(scene)
    assert light.position_m.tolist() == [7, 8, 9] and light.lane_id == -102
    arrow = GREEN | packed.STATE_ARROW
    assert light.states.tolist() == [YELLOW, arrow, UNKNOWN, UNKNOWN, RED, RED]
    assert scene.metadata["tracks_to_predict"] == [{"track_index": 1, "difficulty": 0}]
    assert scene.metadata["objects_of_interest"] == [123456789, -4] and scene.sdc == 1
    one_more = {**content, "tracks": {"1234567890": car}}
    assert parse_scene(pickle.dumps(one_more), "here", "one.pkl").objects[0].id == 0


def changed(**tracks: Any) -> dict[str, Any]:
    whole = tree()
    whole["tracks"]["ego"] = track("VEHICLE", 0.0, **tracks)
    return whole


def with_feature(**feature: Any) -> dict[str, Any]:
    """The scene with another feature of the map."""
    content = tree()
    content["map_features"]["1"] = {"polyline": np.zeros((2, 3)), **feature}
    return content


def nested(depth: int) -> list[Any]:
    """A list of 100 times the same list, `depth` times: 100 ** depth numbers in a small pickle."""
    content: list[Any] = [0.0] * 100
    for _ in range(depth - 1):
        content = [content] * 100
    return content


def test_what_is_unusual_but_clear_is_read() -> None:
    content = with_feature(type="LANE_FREEWAY", width=3.5)
    lights = content["dynamic_map_states"]
    light = next(iter(lights.values()))
    for stop_point in (np.zeros((0,)), np.zeros((0, 3)), []):
        lights["2"] = {**light, "stop_point": stop_point}
        scene = parse_scene(pickle.dumps(content), "here", "one.pkl")
        assert scene.left_out["traffic lights without a place"] == 2
        assert scene.left_out["lanes with width"] == 1
    content["map_features"] = dict.fromkeys(["7", "--5"], content["map_features"]["1"])
    roads = parse_scene(pickle.dumps(content), "here", "one.pkl").roads
    assert [road.id for road in roads] == [0, 1]  # "--5" is no number


def test_a_vehicle_is_longer_than_wide() -> None:
    """ScenarioNet has the sides of nuScenes' own car the wrong way round."""
    content = changed(length=np.full(FRAMES, 1.7), width=np.full(FRAMES, 4.1))
    car = parse_scene(pickle.dumps(content), "here", "one.pkl").objects[0]
    assert (car.length_m, car.width_m) == (4.1, 1.7)


@pytest.mark.parametrize(
    "content, message",
    [
        ([0] * 9, "the pickle: expected a JSON object"),
        ({"tracks": {}}, "map_features: expected this key"),
        ({**tree(), "length": 7}, "metadata.ts: expected 7 times"),
        (
            {**tree(), "metadata": {"ts": np.arange(FRAMES) * 0.6}},
            "steps of 0.02 to 0.5 s, got 0.6",
        ),
        (
            {**tree(), "metadata": {"ts": [0, 0.1, 0.2, 0.5, 0.6, 0.7]}},
            "metadata.ts[3]: expected a",
        ),
        (changed(position=np.zeros((2, 3))), "tracks['ego'].state.position: expected 6 frames"),
        (
            changed(heading=np.full(FRAMES, np.nan)),
            "tracks['ego'].state.heading[1]: expected a number between",
        ),
        (changed(width=np.zeros(FRAMES)), "tracks['ego'].state.width[5]"),
        (changed(valid="yes"), "tracks['ego'].state.valid: expected numbers"),
        (changed(height=np.zeros((0,))), "tracks['ego'].state.height: expected 6 frames"),
        (with_feature(type="STOP_SIGN", position=[]), "position: expected a point with two or"),
        (with_feature(type="LANE_FREEWAY", speed_limit_mph=10**400), "mph: expected a speed"),
        (with_feature(type="ROAD_EDGE_MEDIAN", polyline=nested(9)), "numbers, or lists of numbers"),
        (with_feature(type="ROAD_EDGE_MEDIAN", polyline=[[0.0] * 4000] * 4000), "6000000 numbers"),
        (
            with_feature(type="STOP_SIGN", position=[0, 0, 0], lane=[1] * 5000),
            "stop signs, one for",
        ),
        (with_feature(type="DRIVEWAY", polygon=np.array(1.0)), "polygon: expected points"),
        (
            {**tree(), "length": 9999, "metadata": {}, "tracks": dict.fromkeys(range(999), {})},
            "tracks: expected at most 4000000 states",
        ),
    ],
)
def test_a_bad_value_is_named(content: Any, message: str) -> None:
    with pytest.raises(SceneError) as error:
        parse_scene(pickle.dumps(content), "here", "one.pkl")
    assert str(error.value).startswith("here: ") and message in str(error.value)


# ---- hostile files -------------------------------------------------------------------------------


class Runs:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call, self.arguments


def array_state(shape: Any, code: str, data: Any) -> bytes:
    """The pickle of an array with any state."""
    head = b"\x80\x04cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR"
    parts = [pickle.dumps(part, 3)[2:-1] for part in (1, shape)]
    dtype = b"cnumpy\ndtype\n(" + pickle.dumps(code, 3)[2:-1] + b"K\x00K\x01tR"
    rest = [pickle.dumps(part, 3)[2:-1] for part in (False, data)]
    return (
        head.replace(b"U\x01b", b"C\x01b")
        + b"("
        + parts[0]
        + parts[1]
        + dtype
        + b"".join(rest)
        + b"tb."
    )


def test_arrays_are_built_from_as_many_bytes_as_they_need() -> None:
    assert load_plain(array_state((2,), "f8", struct.pack("<2d", 1, 2))).tolist() == [1.0, 2.0]
    for shape, code, data in (
        ((10**12,), "f8", b"1234"),
        ((2, -1), "u1", b""),
        ((1,) * 5, "u1", b"1"),
        ((1,), "O8", b"12345678"),
        ((1,), "V8", b"12345678"),
        ((1,), "f8", "12345678"),
        ("no", "f8", b""),
    ):
        with pytest.raises(PickleError, match=r"^byte \d+: an array"):
            load_plain(array_state(shape, code, data))


@pytest.mark.parametrize(
    "content",
    [
        Runs(os.system, "touch here"),
        Runs(eval, "1 + 1"),
        {"a": [Runs(getattr, "b", "c")]},
        np.array([Runs(os.getcwd)], dtype=object),
        np.array(["text"]),
    ],
    ids=["system", "eval", "getattr", "objects", "text"],
)
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_nothing_that_a_pickle_names_is_called(
    content: Any, protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PickleError, match=r"^byte \d+: "):
        load_plain(pickle.dumps(content, protocol))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04\x96" + b"\xff" * 7 + b"\x7f.",  # BYTEARRAY8 of 2^63 bytes
        b"\x80\x04\x8b\xff\xff\xff\x7f.",  # LONG4
        b"\x80\x04\x95" + b"\xff" * 8 + b".",  # a frame longer than the file
        b"\x80\x04}q",
        b"\x80\x02(((((((((.",
        b"\x80\x02.",
    ],
)
def test_instructions_that_allocate_or_end_early_are_refused(data: bytes) -> None:
    with pytest.raises(PickleError, match=r"^byte \d+: "):
        load_plain(data)


def test_a_dict_that_holds_itself_is_read() -> None:
    loop: dict[str, Any] = {"array": np.arange(3)}
    loop["self"] = loop
    read = load_plain(pickle.dumps(loop))
    assert read["self"] is read and read["array"].tolist() == [0, 1, 2]


def test_mutated_files_are_scenes_or_scene_errors() -> None:
    rng, sound = random.Random(7), pickle.dumps(tree())
    read = refused = 0
    for _ in range(500):
        data = bytearray(sound)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(4, len(data))] = rng.randrange(256)
        cut = bytes(data[: rng.randrange(8, len(data))] if rng.random() < 0.2 else data)
        try:
            assert isinstance(parse_scene(cut, "here", "one.pkl"), Scene)
            read += 1
        except SceneError as error:
            assert str(error).startswith("here: ") and "\n" not in str(error)
            refused += 1
    assert read > 20 and refused > 100


ODD = (
    None, True, 0, -1, 10**400, math.nan, math.inf, "", "text", "--5", b"", [], [[]], [None], {},
    (1.0,), [1.0, "a"], [[1.0, 2.0], [3.0]], set(), np.array(1.0), np.zeros(0), np.zeros((0, 3)),
    np.zeros((2, 2, 2)), np.full((6, 3), np.nan), np.zeros(6, np.bool_),
)  # fmt: skip


def places_in(content: Any) -> list[tuple[Any, Any]]:
    """Every dict or list of the content with each of its keys."""
    items = content.items() if isinstance(content, dict) else enumerate(content)
    found = [(content, key) for key, _ in items]
    inner = content.values() if isinstance(content, dict) else content
    return found + [
        place for item in inner if isinstance(item, (dict, list)) for place in places_in(item)
    ]


def test_odd_values_anywhere_are_scenes_or_scene_errors() -> None:
    read = refused = 0
    for number in range(len(places_in(tree()))):
        for value in ODD:
            content = tree()
            holder, key = places_in(content)[number]
            holder[key] = value
            try:
                assert isinstance(parse_scene(pickle.dumps(content), "here", "one.pkl"), Scene)
                read += 1
            except SceneError as error:
                assert str(error).startswith("here: ") and "\n" not in str(error)
                assert "cannot be read" not in str(error)
                refused += 1
    assert read > 500 and refused > 500


# ---- files of others -----------------------------------------------------------------------------


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="needs ../shared/data/scenarionet")
def test_files_that_scenarionet_wrote() -> None:
    files = scene_files(SAMPLES)
    assert len(files) == 3  # the lists of the data set are no scenes
    found = {}
    for path in files:
        scene = read_scene(path)
        content = pickle.loads(path.read_bytes())  # our own files: their content is known
        for item, source in zip(scene.objects, content["tracks"].values(), strict=True):
            valid = np.asarray(source["state"]["valid"]).reshape(-1) != 0
            given = np.asarray(source["state"]["position"], np.float64)[valid]
            np.testing.assert_array_equal(item.valid, valid)
            np.testing.assert_array_equal(item.position_m[valid], given)
        lanes = [road for road in scene.roads if road.type == "lane"]
        named = [
            value["polyline"]
            for value in content["map_features"].values()
            if value["type"].startswith("LANE")
        ]
        for lane, line in zip(lanes, named, strict=True):
            given = np.asarray(line)
            np.testing.assert_array_equal(lane.points_m[:, : given.shape[1]], given)
        assert scene.sdc >= 0
        found[path.name[:12]] = (scene.frame_count, len(scene.objects), len(scene.roads))
    assert found["sd_training."][:2] == (91, 138) and found["sd_training."][2] == 375
