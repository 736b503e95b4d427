# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""PufferDrive's binary scenes: all layouts are told apart, and whatever else the bytes are, nothing
but a SceneError comes.

Also of drive_env/scenes/bin_v3.py and of what reads the values, drive_env/scenes/bin_cursor.py.
"""

from __future__ import annotations

import dataclasses
import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from drive_env.scenes.bin_cursor import Cursor, Misfit
from drive_env.scenes.bin_scene import BY_NAME, bin_bytes, parse_bin
from drive_env.scenes.bin_v3 import ROAD_CODES, VARIANTS, Variant, parse_v3
from drive_env.scenes.controls import controls_of
from drive_env.scenes.json_scene import json_bytes, scene_from_tree
from drive_env.scenes.reader import parse_scene
from drive_env.scenes.schema import CONTROL_KINDS, GREEN, OFF, RED, UNKNOWN, LaneLinks, Scene
from puffervec.errors import SceneError
from tests.drive_env import bins
from tests.drive_env.bins import floats, ints, listed, tails, v3_bytes

MakeTree = Callable[..., dict[str, Any]]


def small(tiny_tree: MakeTree, frames: int = 30) -> Scene:
    """A scene of two cars, of which one leaves early, and of short roads."""
    tree = tiny_tree(frames=frames)
    tree["objects"][1]["valid"][frames - 4 :] = [False] * 4
    tree["objects"][1]["mark_as_expert"] = True
    tree["metadata"]["tracks_to_predict"] = [{"track_index": 1, "difficulty": 0}]
    for road in tree["roads"]:
        road["geometry"] = [{**point, "z": 1.5} for point in road["geometry"][::70]]
    return scene_from_tree(tree, "t", "t")


def assert_close(found: Scene, expected: Scene) -> None:
    """Equal up to float32, and but for what the layouts do not hold."""
    assert found.frame_count == expected.frame_count
    for one, other in zip(found.objects, expected.objects, strict=True):
        np.testing.assert_array_equal(one.valid, other.valid)
        for name in ("position_m", "velocity_mps", "heading_rad", "goal_m"):
            np.testing.assert_allclose(
                getattr(one, name), getattr(other, name), rtol=1e-6, atol=1e-6
            )
        assert (one.length_m, one.width_m, one.height_m) == pytest.approx(
            (other.length_m, other.width_m, other.height_m)
        )
        assert (one.type, one.expert) == (other.type, other.expert)
    for mine, its in zip(found.roads, expected.roads, strict=True):
        assert mine.type == its.type
        np.testing.assert_allclose(mine.points_m, its.points_m, rtol=1e-6)


@pytest.mark.parametrize("layout", BY_NAME)
def test_written_and_read_again(tiny_tree: MakeTree, layout: str) -> None:
    scene = small(tiny_tree)
    data = bin_bytes(scene, layout)
    found = parse_scene(data, "t", "t")
    assert_close(found, scene)
    assert [item.id for item in found.objects] == ([-1, -1] if layout == "v1" else [100, 101])
    assert found.metadata == (scene.metadata if layout == "v2" else {})
    assert data.count(struct.pack("<i", 91)) >= 2, (
        "PufferDrive reads 91 frames, however long the log is"
    )
    assert bin_bytes(found, layout) == bin_bytes(dataclasses.replace(found, frame_count=30), layout)


def test_objects_that_the_layouts_do_not_know_are_left_out(tiny_tree: MakeTree) -> None:
    scene = small(tiny_tree)
    odd = dataclasses.replace(
        scene, objects=(dataclasses.replace(scene.objects[0], type=3), scene.objects[1])
    )
    found = parse_scene(bin_bytes(odd), "t", "t")
    assert len(found.objects) == 1 and found.metadata["tracks_to_predict"] == [
        {"track_index": 0, "difficulty": 0}
    ]
    assert found.metadata["sdc_track_index"] == -1
    with pytest.raises(SceneError, match="layout is 'v3'; it must be one of v0, v1, v2"):
        bin_bytes(scene, "v3")


def test_the_layout_with_an_id_in_front(tiny_tree: MakeTree) -> None:
    scene = small(tiny_tree)
    found = parse_scene(b"2a173b334be3d32c" + bin_bytes(scene), "t", "t")
    assert found.scenario_id == "2a173b334be3d32c"
    assert_close(found, scene)


def test_roads_of_unknown_codes_are_the_unknown_of_their_kind() -> None:
    """In WOMD a lane has 0 to 3, a line 5 to 13 and an edge 14 to 16; the codes have gaps between
    them.
    """
    lane, line, edge = "lane", "road_line", "road_edge"
    assert [ROAD_CODES[code] for code in (3, 4, 9)] == [(lane, 3), (lane, 0), (lane, 0)]
    assert [ROAD_CODES[code] for code in (10, 18, 19)] == [(line, 5), (line, 13), (line, 5)]
    found = [ROAD_CODES[code] for code in (20, 22, 23, 29)]
    assert found == [(edge, element) for element in (14, 16, 14, 14)]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_version_3_in_all_its_variants(tiny_tree: MakeTree, variant: Variant) -> None:
    scene = small(tiny_tree)
    for behind in (b"", tails(scene)):
        found = parse_scene(v3_bytes(scene, variant, behind), "t", "t")
        assert_close(found, scene)
        assert [road.map_element_id for road in found.roads] == [2, 2, 6, 15, 15]
        assert found.scenario_id == "scenario 7" and found.has_height
        assert found.roads[0].links == LaneLinks(exits=(1,), speed_limit_mps=13.5)
        assert (
            found.roads[1].links == LaneLinks(entries=(0,), speed_limit_mps=13.5)
            and found.roads[2].links is None
        )
        assert found.controls is not None
        sign, light = found.controls
        assert [CONTROL_KINDS[item.kind] for item in found.controls] == [
            "stop_sign",
            "traffic_light",
        ]
        assert light.states.tolist() == [RED] * 10 + [GREEN] * 20 and sign.states.tolist() == [RED]
        assert sign.lane_id == light.lane_id == 0 and sign.heading_rad == 0.0
        np.testing.assert_allclose(sign.position_m, scene.roads[0].points_m[-1], rtol=1e-6)
        again = controls_of(parse_scene(json_bytes(found), "t", "t"))
        assert [(item.kind, item.states.tolist()) for item in again] == [
            (item.kind, item.states.tolist()) for item in (sign, light)
        ]
        assert found.metadata["tracks_to_predict"] == [
            {"track_index": index, "difficulty": 0} for index in (0, 1)
        ]
    with pytest.raises(
        SceneError, match=r"v3: byte \d+: expected the end of the file, got 3 more bytes"
    ):
        parse_scene(v3_bytes(scene, variant, b"abc"), "t", "t")


def test_lights_have_a_state_for_each_frame(tiny_tree: MakeTree) -> None:
    """Whatever their own count says; found by the fuzzer."""
    scene = small(tiny_tree)
    given = v3_bytes(scene, Variant())
    for cut, expected in (
        (4, [RED] * 10 + [GREEN] * 16 + [0] * 4),
        (-3, [RED] * 10 + [GREEN] * 20),
    ):
        count = 30 - cut
        states = [1] * 10 + [3] * (count - 10)
        data = given.replace(listed(*[1] * 10, *[3] * 20), listed(*states))
        controls = parse_scene(data, "t", "t").controls
        assert controls is not None and controls[1].states.tolist() == expected


def test_another_time_step_is_refused(tiny_tree: MakeTree) -> None:
    data = v3_bytes(small(tiny_tree), Variant())
    with pytest.raises(
        SceneError, match=r"v3: byte \d+: log_dt: expected 0.0999 to 0.1001, got 0.05"
    ):
        parse_scene(
            data.replace(struct.pack("<if", 30, 0.1), struct.pack("<if", 30, 0.05)), "t", "t"
        )


def test_ids_that_do_not_tell_objects_apart_are_dropped(tiny_tree: MakeTree) -> None:
    scene = small(tiny_tree)
    same = dataclasses.replace(
        scene, objects=tuple(dataclasses.replace(item, id=0) for item in scene.objects)
    )
    assert [item.id for item in parse_scene(bin_bytes(same), "t", "t").objects] == [-1, -1]


# Byte offsets in a file of layout v2: 5 ints, then object 0 with 4 ints in front of its body of 91
# frames.
FIRST = 20 + 16
LIES = [
    (12, "<i", 2**31 - 1, "v2: byte 12: num_objects: expected 0 to 4096, got 2147483647"),
    (12, "<i", 3, "v2: byte"),  # the first road is no object
    (16, "<i", -1, "v2: byte 16: num_roads: expected 0 to 65535, got -1"),
    (4, "<i", 4096, "v2: byte 8: tracks_to_predict: expected 16384 more bytes"),
    (32, "<i", 10_000, "v2: byte 36: objects[0]: expected 280000 more bytes, got"),
    (32, "<i", 0, "v2: byte 32: objects[0].size: expected 1 to 10000, got 0"),
    (24, "<i", 7, "v2: byte 24: objects[0].type: expected 1 to 3, got 7"),
    (FIRST + 4 * 5, "<f", float("nan"),
     f"v2: byte {FIRST + 20}: objects[0].x[5]: expected a number between -100000 and"),
    (FIRST + 4 * (91 + 5), "<f", 1e30,
     f"v2: byte {FIRST + 4 * 96}: objects[0].y[5]: expected a number between"),
    (FIRST + 4 * 7 * 91, "<i", 2,
     f"v2: byte {FIRST + 4 * 637}: objects[0].valid[0]: expected 0 to 1, got 2"),
    (FIRST + 4 * 8 * 91, "<f", 0.0,
     f"v2: byte {FIRST + 4 * 728}: objects[0].width: expected 0.01 to 100, got 0.0"),
    (FIRST + 4 * 8 * 91 + 24, "<i", 9,
     f"v2: byte {FIRST + 4 * 734}: objects[0].mark_as_expert: expected 0 to 1, got 9"),
]  # fmt: skip


@pytest.mark.parametrize(("at", "form", "value", "expected"), LIES)
def test_a_lie_is_named_with_its_byte(
    tiny_tree: MakeTree, at: int, form: str, value: Any, expected: str
) -> None:
    data = bytearray(
        bin_bytes(
            dataclasses.replace(
                small(tiny_tree), metadata={"sdc_track_index": 0, "tracks_to_predict": []}
            )
        )
    )
    data = bytearray(data[:4] + struct.pack("<ii", 1, 0) + data[8:])  # one track to predict
    struct.pack_into(form, data, at, value)
    with pytest.raises(SceneError) as caught:
        parse_scene(bytes(data), "some/map.bin", "map.bin")
    said = str(caught.value)
    assert (
        said.startswith("some/map.bin: neither JSON nor one of PufferDrive's layouts: ")
        and "\n" not in said
    )
    assert expected in said
    assert all(f"{layout}: byte" in said for layout in ("v0", "v1", "v2", "v2b", "v3")), (
        "all layouts were tried"
    )


@pytest.mark.parametrize("layout", [*BY_NAME, "v2b", "v3"])
def test_a_cut_off_file_is_refused_at_every_length(tiny_tree: MakeTree, layout: str) -> None:
    scene = small(tiny_tree, frames=11)
    writers = {
        "v3": lambda: v3_bytes(scene, Variant()),
        "v2b": lambda: b"0123456789abcdef" + bin_bytes(scene),
    }
    data = writers[layout]() if layout in writers else bin_bytes(scene, layout)
    parse_bin(data, "t", "t")
    for length in [*range(0, 120), *range(120, len(data), 61), len(data) - 1]:
        with pytest.raises(SceneError, match=r"^cut\.bin: "):
            parse_scene(data[:length], "cut.bin", "cut.bin")
    with pytest.raises(SceneError, match=r"got 1 more bytes"):
        parse_scene(data + b"\0", "long.bin", "long.bin")


@pytest.mark.slow
@pytest.mark.parametrize("layout", [*BY_NAME, "v3"])
def test_changed_values_are_read_or_refused(tiny_tree: MakeTree, layout: str) -> None:
    scene = small(tiny_tree, frames=11)
    data = v3_bytes(scene, Variant(), tails(scene)) if layout == "v3" else bin_bytes(scene, layout)
    rng = random.Random(3)
    refused = 0
    for _ in range(100):
        changed = bytearray(data)
        at = (
            4
            * rng.randrange(min(len(data), 400) if rng.random() < 0.5 else len(data))
            // 4
            // 4
            * 4
        )
        changed[at : at + 4] = rng.choice(
            [bytes(4), b"\xff" * 4, b"\0\0\xc0\x7f", b"\0\0\0\x80", rng.randbytes(4)]
        )
        try:
            found = parse_scene(bytes(changed), "t", "t")
        except SceneError:
            refused += 1
            continue
        assert all(
            np.isfinite(item.position_m).all() and np.isfinite(item.heading_rad).all()
            for item in found.objects
        )
    assert 0 < refused < 100


def test_bytes_that_fit_two_layouts_must_mean_the_same() -> None:
    empty = parse_scene(bytes(8), "t", "t")
    assert (len(empty.objects), len(empty.roads)) == (0, 0), (
        "both v0 and v1 say that there is nothing"
    )
    words = np.zeros(
        47, dtype="<i4"
    )  # roads of 1, 4 and 0 points with heads (type, id, size); of 2, 3 and 1 with (type, size)
    for at, value in {1: 3, 2: 4, 3: 2, 4: 1, 15: 4, 17: 4, 18: 3, 35: 4, 36: 1, 37: 4}.items():
        words[at] = value
    with pytest.raises(
        SceneError,
        match=r"t: these 188 bytes fit several layouts \(v0, v1\) that differ in content",
    ):
        parse_scene(words.tobytes(), "t", "t")


def test_garbage_is_refused() -> None:
    with pytest.raises(SceneError, match="t: neither JSON nor one of PufferDrive's layouts"):
        parse_scene(b"\0" + b"garbage" * 9, "t", "t")


def refused_v3(data: bytes, at: int, form: str, value: Any) -> str:
    """What version 3 says of data that have another value at a byte."""
    changed = bytearray(data)
    struct.pack_into(form, changed, at, value)
    with pytest.raises(Misfit) as caught:
        parse_v3(Cursor(bytes(changed)), Variant())
    return str(caught.value)


def test_version_3_names_the_byte_of_a_lie(tiny_tree: MakeTree) -> None:
    scene = small(tiny_tree)
    data, frames = v3_bytes(scene, Variant(), tails(scene)), 30
    agents = [bins.agent(index, item, Variant()) for index, item in enumerate(scene.objects)]
    roads = [bins.road(index, item, Variant()) for index, item in enumerate(scene.roads)]
    first = 16 + 12  # of agent 0, behind its id, type and number of frames
    axes = ("x", "y", "z", "heading", "vx", "vy")
    for row, axis in enumerate(axes):
        for frame in (0, frames - 1):
            at = first + 4 * (row * frames + frame)
            said = refused_v3(data, at, "<f", 1e30)
            assert said.startswith(f"byte {at}: agents[0].{axis}[{frame}]: expected a number")
    for row, side in enumerate(("length", "width", "height")):
        at = first + 4 * ((6 + row) * frames + frames - 1)
        assert f"byte {at}: agents[0].{side}[29]: expected 0.01" in refused_v3(data, at, "<f", 0.0)
    behind = first + 36 * frames
    tail = {"valid[0]": behind, "mark_as_expert": 16 + len(agents[0]) - 4}
    for name, at in tail.items():
        said = refused_v3(data, at, "<i", 2)
        assert said == f"byte {at}: agents[0].{name}: expected 0 to 1, got 2"
    at = tail["mark_as_expert"] - 8
    assert f"byte {at}: agents[0].goal[1]: " in refused_v3(data, at, "<f", float("nan"))
    for at, name, value in (
        (0, "num_agents", -1), (16, "agents[0].id", 1), (20, "agents[0].type", 4),
        (24, "agents[0].size", 0), (behind + 4 * frames + 4, "agents[0].route[0]", 5),
    ):  # fmt: skip
        assert refused_v3(data, at, "<i", value).startswith(f"byte {at}: {name}: expected ")
    start = 16 + sum(map(len, agents)) + len(roads[0])
    count = len(scene.roads[1].points_m)
    for row, axis in enumerate(("x", "y", "z", "heading")):
        at = start + 12 + 4 * (row * count + 1)
        assert f"byte {at}: roads[1].{axis}[1]: " in refused_v3(data, at, "<f", 1e30)
    links = start + 12 + 16 * count
    for at, name, form, value in (
        (links + 4, "roads[1].entry_lanes[0]", "<i", 5),
        (links + 4, "roads[1].entry_lanes[0]", "<i", -1),
        (links + 12, "roads[1].speed_limit", "<f", -1.5),
        (links + 16, "roads[1].length", "<f", -0.1),
        (links + 20 + 4, "roads[1].cum_length[1]", "<f", 1e30),
        (start, "roads[1].id", "<i", 2), (start + 4, "roads[1].type", "<i", 40),
    ):  # fmt: skip
        assert refused_v3(data, at, form, value).startswith(f"byte {at}: {name}: expected ")


def test_version_3_of_nothing_and_of_little() -> None:
    """Counts and values may be as small as their meaning allows, and lists as large."""
    rest = b"n".ljust(128, b"\0") + b"d".ljust(32, b"\0") + ints(0) + floats(0.1)
    numbers = listed(-1, 2**31 - 1) + listed(-1, 4096)
    nothing = ints(0, 0, 0, 0) + listed() + rest + numbers
    found = parse_v3(Cursor(nothing), Variant())
    assert (found.scenario_id, found.objects, found.roads, found.controls) == ("n", [], [], ())
    assert found.metadata == {
        "sdc_track_index": -1,
        "tracks_to_predict": [{"track_index": n, "difficulty": 0} for n in (-1, 4096)],
        "objects_of_interest": [-1, 2**31 - 1],
    }
    with pytest.raises(Misfit, match="tracks_to_predict"):
        parse_v3(Cursor(ints(0, 0, 0, 0) + listed() + rest + listed() + listed(4097)), Variant())
    with pytest.raises(Misfit, match="log_dt"):
        parse_v3(Cursor(nothing.replace(floats(0.1), floats(0.1002))), Variant())
    empty_lane = ints(0, 0, 0) + listed(0) + listed() + floats([-1.0, 0.0])
    misc = ints(1, 39, 0)
    line = floats([1, 2, 3, 5, 6, 9, 4.0])
    controls = [
        ints(number, code) + line + listed(*states) + listed(*lanes)
        for number, (code, states, lanes) in enumerate(
            ((0, (), ()), (1, (), ()), (2, (), (0, 1)), (3, (4, 0), (1,)))
        )
    ]
    thing = ints(-5, -6, 0)
    parts = [ints(0, 2, 4, 1), empty_lane, misc, *controls, thing, listed(0), floats(1.0)]
    found = parse_v3(Cursor(b"".join(parts) + rest + numbers), Variant())
    (lane,) = found.roads
    assert (lane.type, lane.map_element_id, len(lane.points_m)) == ("lane", 0, 0)
    assert lane.links == LaneLinks(entries=(0,), speed_limit_mps=0.0)
    assert found.controls is not None
    assert [
        (CONTROL_KINDS[item.kind], item.lane_id, item.id, item.states.tolist())
        for item in found.controls
    ] == [
        ("traffic_light", -1, 1, [UNKNOWN]), ("stop_sign", 0, 2, [RED]),
        ("stop_sign", 1, 2, [RED]), ("yield_sign", 1, 3, [OFF, UNKNOWN]),
    ]  # fmt: skip
    for item in found.controls:
        assert item.position_m.tolist() == [3, 4, 6] and item.stop_line_m is not None
        assert item.stop_line_m.tolist() == [[1, 2, 3], [5, 6, 9]]
        assert item.heading_rad == pytest.approx(4.0 - 2 * np.pi)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"), (b" \n", "not JSON"), (b"hello", "not JSON"), (b'{"a\0', "not JSON"),
        (b' ["a\0', "not JSON"), (b'"a\0', "not JSON"), (b"\1\0\0\0", "neither JSON nor one of"),
        (b"a\0\0\0", "neither JSON nor one of"),
    ],
)  # fmt: skip
def test_what_looks_like_text_is_refused_as_json(data: bytes, words: str) -> None:
    with pytest.raises(SceneError, match=f"^t: {words}"):
        parse_scene(data, "t", "t")
