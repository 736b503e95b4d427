# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Conversion: every scene gets a file of its own, made by the settings that were given, and what is
lost is said.

Of drive_env/convert.py and drive_env/losses.py, as `puffer-scenes convert` uses them.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.cli import main
from drive_env.losses import losses
from drive_env.scenes import open_scenes, write_scenes
from drive_env.scenes.bin_scene import bin_bytes, has_layout
from drive_env.scenes.compile import CompileSettings
from drive_env.scenes.controls import STATES, controls_of
from drive_env.scenes.json_scene import json_bytes, parse_json, scene_from_tree
from drive_env.scenes.reader import parse_scene, read_scene, scene_files
from drive_env.scenes.schema import CONTROL_KINDS, Control, Road, Scene
from drive_env.sources import sources_of, split_of
from tests.drive_env.conftest import make_tree

MakeTree = Callable[..., dict[str, Any]]
LONG = [
    f"{'of a recording with a long name, in two parts, ' * 2}number {number:04}"
    for number in range(8)
]


def write(path: Path, tree: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(tree))
    return path


def scene_of(tree: dict[str, Any], name: str = "s.json") -> Scene:
    return scene_from_tree(tree, name, name)


def convert(out: Path, *words: Path | str) -> int:
    return main(["convert", *map(str, words), "--out", str(out)])


def made(out: Path) -> dict[str, int]:
    """The .pvs files below a folder, and the objects of each."""
    return {
        str(path.relative_to(out)): open_scenes(path)[0].object_count
        for path in sorted(out.rglob("*.pvs"))
    }


# ---- where scenes go -----------------------------------------------------------------------------


def test_scenes_of_one_name_in_several_folders_get_a_file_each(tmp_path: Path) -> None:
    one, other = (
        write(tmp_path / name / "s.json", make_tree(cars=cars))
        for name, cars in (("a", 1), ("b", 3))
    )
    write(tmp_path / "b" / "t.json", make_tree(cars=2))
    assert convert(tmp_path / "o", tmp_path / "a", tmp_path / "b") == 0
    assert made(tmp_path / "o") == {"a/s.pvs": 1, "b/s.pvs": 3, "t.pvs": 2}
    assert convert(tmp_path / "p", one, other) == 0 and made(tmp_path / "p") == {
        "a/s.pvs": 1,
        "b/s.pvs": 3,
    }


def test_scenes_of_one_name_in_a_file_get_a_file_each(tmp_path: Path) -> None:
    write_scenes(tmp_path / "all.pvs", [scene_of(make_tree(cars=cars)) for cars in (1, 2)])
    assert convert(tmp_path / "o", tmp_path / "all.pvs") == 0
    assert made(tmp_path / "o") == {"all/0/s.pvs": 1, "all/1/s.pvs": 2}


def test_scenes_that_would_be_one_file_are_refused_before_any_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = (write(tmp_path / name / "a" / "s.json", make_tree()) for name in ("x", "y"))
    write(tmp_path / "x" / "a" / "fine.json", make_tree())
    assert convert(tmp_path / "o", one.parent, other.parent) == 2
    said = capsys.readouterr().err
    assert f"{one} and {other} would both become {tmp_path}/o/" in said and said.count("\n") == 1
    assert main(["draw", str(one), str(other), "--out", str(tmp_path / "o")]) == 2
    assert not (tmp_path / "o").exists()


def test_a_file_that_is_named_twice_is_converted_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a" / "s.json", make_tree())
    assert convert(tmp_path / "o", tmp_path / "a", path) == 0 and made(tmp_path / "o") == {
        "s.pvs": 2
    }
    assert capsys.readouterr().out.startswith("1 scenes converted")


def test_results_beside_their_sources_are_no_sources(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a" / "s.json", make_tree())
    assert convert(path.parent, path.parent) == 0 and convert(path.parent, path.parent) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("0 scenes converted") and made(
        path.parent
    ) == {"s.pvs": 2}
    before = path.read_bytes()
    assert (
        convert(path.parent, path, "--to", "json", "--force") == 2 and path.read_bytes() == before
    )
    assert "the scenes lie where they would be written" in capsys.readouterr().err


# ---- what is there already -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["--to", "bin", "--layout", "v1"], ["--to", "bin", "--layout", "v2"]),
        (["--to", "bin", "--layout", "v0"], ["--to", "bin", "--layout", "v1"]),
        (["--simplify-m", "0.1"], ["--simplify-m", "0.05"]),
        (["--simplify-m", "0.1"], ["--simplify-m", "0.01"]),
        (["--range-m", "50"], ["--range-m", "60"]),
    ],
)
def test_a_file_made_with_other_settings_is_made_again(
    one: list[str], other: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = write(tmp_path / "s.json", make_tree()), tmp_path / "o"
    contents = []
    for words, converted in ((one, 1), (one, 0), (other, 1), (other, 0), (one, 1)):
        assert convert(out, path, *words) == 0
        assert capsys.readouterr().out.startswith(
            f"{converted} scenes converted to {out}, {1 - converted} were there already"
        )
        contents.append(next(out.iterdir()).read_bytes())
    assert contents[0] == contents[1] == contents[4] != contents[2] == contents[3]


def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    path, out = write(tmp_path / "s.json", make_tree()), tmp_path / "o"
    for name, words in (("s.pvs", []), ("s.bin", ["--to", "bin"])):
        assert convert(out, path, *words) == 0
        content = (out / name).read_bytes()
        (out / name).write_bytes(content[:-64])
        assert convert(out, path, *words) == 0 and (out / name).read_bytes() == content


def test_layouts_are_told_from_what_was_written() -> None:
    scene = scene_of(make_tree(cars=3))
    for layout in ("v0", "v1", "v2"):
        data = bin_bytes(scene, layout)
        assert [has_layout(data, other) for other in ("v0", "v1", "v2")] == [
            layout == other for other in ("v0", "v1", "v2")
        ]
        assert not any(has_layout(data[:size], layout) for size in range(0, len(data), 101))
    assert not has_layout(b"\xff" * 64, "v2") and not has_layout(b"", "v0")


# ---- .pvs to .pvs, and back to others ------------------------------------------------------------


def test_scenes_of_a_compiled_file_keep_their_segments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Simplifying what is simplified would move roads farther than the tolerance; another index
    moves nothing.
    """
    tree = make_tree()
    tree["roads"][3]["geometry"] = [
        {"x": x / 4, "y": 9 * math.sin(x / 40), "z": 0.0} for x in range(400)
    ]
    settings = CompileSettings((16, 8, 16), 50.0, 0.3)
    write_scenes(tmp_path / "s.pvs", [scene_of(tree)], settings)
    source = open_scenes(tmp_path / "s.pvs")
    for words, same in (([], True), (["--range-m", "60"], False), (["--simplify-m", "1"], True)):
        assert convert(tmp_path / "o", tmp_path / "s.pvs", *words) == 0
        assert capsys.readouterr().out.splitlines()[1:] == [], "nothing is lost"
        found = open_scenes(tmp_path / "o" / "s.pvs")
        assert found.settings.tolerances_m == source.settings.tolerances_m
        assert (
            bytes(found[0].data) == bytes(source[0].data)
        ) == same and found.settings.range_m == (50.0 if same else 60.0)
        assert found[0].sections["x"].tobytes() == source[0].sections["x"].tobytes()


def with_signs(tree: dict[str, Any]) -> dict[str, Any]:
    for number, x in enumerate((10.0, 30.0)):
        tree["roads"].append(
            {
                "geometry": [{"x": x, "y": -4.0, "z": 0.0}],
                "type": "stop_sign",
                "map_element_id": 17,
                "id": 90 + number,
            }
        )
    return tree


@pytest.mark.parametrize("format", ["json", "bin", "pvs"])
def test_stop_signs_stay_as_many(format: str, tmp_path: Path) -> None:
    path = write(tmp_path / "s.json", with_signs(make_tree()))
    assert convert(tmp_path / "o", path) == 0
    for number in range(2):
        assert convert(tmp_path / f"{format}{number}", tmp_path / "o", "--to", format) == 0
        assert convert(tmp_path / "o", tmp_path / f"{format}{number}", "--force") == 0
    found = open_scenes(tmp_path / "o" / "s.pvs")[0].scene()
    assert sum(road.type == "stop_sign" for road in found.roads) == len(controls_of(found)) == 2


@pytest.mark.slow
def test_every_real_scene_keeps_its_signs_and_lights_as_json(
    real_scenes: Path, tmp_path: Path
) -> None:
    for path in scene_files(real_scenes):
        source = read_scene(path)
        write_scenes(tmp_path / "s.pvs", [source])
        stored = open_scenes(tmp_path / "s.pvs")[0].scene()
        again = parse_json(json_bytes(stored), "s", "s")
        assert len(again.roads) == len(stored.roads)
        assert sum(road.type == "stop_sign" for road in again.roads) == sum(
            road.type == "stop_sign" for road in source.roads
        )
        for one, other in zip(lights(stored), lights(again), strict=True):
            np.testing.assert_array_equal(one.states, other.states)


def lights(scene: Scene) -> list[Control]:
    return [item for item in controls_of(scene) if CONTROL_KINDS[item.kind] == "traffic_light"]


def test_every_state_of_a_light_comes_back(tmp_path: Path) -> None:
    tree = make_tree()
    words = [*STATES, *STATES, *STATES]
    tree["tl_states"] = {
        "0": {"state": words, **{axis: [1.0] * 30 for axis in "xyz"}, "time_index": [*range(30)]}
    }
    write_scenes(tmp_path / "s.pvs", [scene_of(tree)])
    assert convert(tmp_path / "o", tmp_path / "s.pvs", "--to", "json") == 0
    assert json.loads((tmp_path / "o" / "s.json").read_text())["tl_states"]["0"]["state"] == words


def test_lights_without_a_lane_or_of_one_state_come_back() -> None:
    """A key means a lane only where the light has one; a state that holds always is there for each
    frame.
    """
    red = np.array([STATES["stop"]], dtype=np.uint8)
    lanes = (Road("lane", 2, 1, np.array([[0.0, 0, 0], [9, 0, 0]])),)
    controls = tuple(
        Control(1, np.array([x, 0.0, 0.0]), lane, red, 1)
        for x, lane in ((1.0, 1), (2.0, -1), (3.0, -1), (4.0, 1))
    )
    scene = dataclasses.replace(scene_of(make_tree()), roads=lanes, controls=controls)
    found = lights(parse_json(json_bytes(scene), "s", "s"))
    assert [(item.position_m[0], item.lane_id) for item in found] == [
        (1.0, 1),
        (2.0, -1),
        (3.0, -1),
    ]
    assert all((item.states == red[0]).all() and len(item.states) == 30 for item in found)
    assert losses(scene, "json")[0]["traffic lights of a lane that has another"] == 1


# ---- names ---------------------------------------------------------------------------------------


def test_long_names_keep_their_split_in_every_format(tmp_path: Path, cache: Path) -> None:
    for name in LONG:
        write(tmp_path / "json" / f"{name}.json", make_tree())
    (tmp_path / "all").mkdir()
    write_scenes(
        tmp_path / "all" / "all.pvs", [scene_of(make_tree(), f"{name}.json") for name in LONG]
    )
    assert convert(tmp_path / "pvs", tmp_path / "json") == 0
    assert convert(tmp_path / "back", tmp_path / "all", "--to", "bin") == 0
    assert len({split_of(name) for name in LONG}) == 3
    for folder in ("json", "pvs", "all", "back"):
        ids = [item.id for item in sources_of(str(tmp_path / folder))[0].items]
        assert ids == LONG, folder
    assert open_scenes(tmp_path / "all" / "all.pvs").names == [f"{name}.json" for name in LONG]


def test_names_that_are_no_text_keep_their_split(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.json")
    write_scenes(
        tmp_path / "s.pvs", [scene_of(make_tree(), name), scene_of(make_tree(), "really?.json")]
    )
    assert open_scenes(tmp_path / "s.pvs").names == [name, "really?.json"]


def test_endings_that_stay_in_names_change_no_split(tmp_path: Path, cache: Path) -> None:
    path = write(tmp_path / "a" / "s.json", make_tree())
    (path.parent / "s.bin").write_bytes(bin_bytes(scene_of(make_tree(cars=1))))
    assert convert(tmp_path / "o", path.parent) == 0 and made(tmp_path / "o") == {
        "s.bin.pvs": 1,
        "s.json.pvs": 2,
    }
    assert convert(tmp_path / "p", tmp_path / "o", "--to", "json") == 0
    assert [item.id for item in sources_of(str(tmp_path / "p"))[0].items] == ["s", "s"]


# ---- formats by content --------------------------------------------------------------------------


def test_compiled_files_are_known_whatever_they_are_called(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_scenes(tmp_path / "s.pvs", [scene_of(make_tree(cars=3))])
    folder = tmp_path / "odd"
    folder.mkdir()
    for name in ("one.json", "two.bin", "three.dat"):
        (folder / name).write_bytes((tmp_path / "s.pvs").read_bytes())
    write(folder / "four.pvs", make_tree(cars=1))
    (folder / "five.pvs").write_bytes(bin_bytes(scene_of(make_tree(cars=2))))
    assert main(["info", "--json", str(folder), str(folder / "three.dat")]) == 0
    assert [item["vehicle"] for item in json.loads(capsys.readouterr().out)["scenes"]] == [
        2,
        1,
        3,
        3,
        3,
    ]
    (source,) = sources_of(str(folder))
    assert (
        [item.id for item in source.items]
        == ["five", "four", "s", "s"]
        == [item.id for item in sources_of(str(folder))[0].items]
    )
    (alone,) = sources_of(str(folder / "three.dat"))
    assert alone.compiled == folder / "three.dat" and [item.id for item in alone.items] == ["s"]
    with pytest.raises(
        Exception, match=r"s\.json: a \.pvs file may hold many scenes; open it with"
    ):
        parse_scene((tmp_path / "s.pvs").read_bytes(), "s.json", "s.json")


# ---- what is lost --------------------------------------------------------------------------------


def test_everything_that_a_bin_has_no_place_for_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = make_tree(cars=3)
    tree["metadata"] = {
        "sdc_track_index": 0, "tracks_to_predict": [{"track_index": 1, "difficulty": 2},
                                                    {"track_index": 2}],
        "objects_of_interest": [100, 101], "family": "x",
    }  # fmt: skip
    path = write(tmp_path / "s.json", tree)
    always = ["1 scenario ids", "2 objects of interest", "1 other metadata"]
    tracks, ids = (
        ["1 self-driving cars", "2 tracks to predict"],
        ["5 ids of roads", "3 ids of objects"],
    )
    for layout, expected in (
        ("v2", [*always, "1 difficulties of tracks"]),
        ("v0", always + tracks),
        ("v1", always + tracks + ids),
    ):
        assert convert(tmp_path / layout, path, "--to", "bin", "--layout", layout) == 0
        lines = capsys.readouterr().out.splitlines()[1:]
        assert [line for line in lines if "dropped" in line] == [
            f"  dropped: {what}, in 1 scenes" for what in expected
        ]
    tree["objects"][1]["id"] = tree["objects"][2]["id"] = -1
    assert losses(scene_of(tree), "bin")[0]["ids of objects"] == 1, (
        "two would have 0, so nobody has one"
    )


def test_what_lights_lose_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = make_tree()
    places = {axis: [1.0, 1.0, 1.0] for axis in "xyz"}
    tree["tl_states"] = {
        "0": {"state": ["go", "purple", None], **places, "time_index": [0, 1, 10**12]},
        "1": {"state": ["go"], "x": [math.nan], "y": [0.0], "z": [0.0], "time_index": [0]},
    }
    path = write(tmp_path / "s.json", tree)
    assert convert(tmp_path / "o", path) == 0
    said = capsys.readouterr().out
    assert "simplified: 2 unknown states of traffic lights, in 1 scenes" in said
    assert "dropped: 1 traffic lights without a place, in 1 scenes" in said
    (light,) = lights(open_scenes(tmp_path / "o" / "s.pvs")[0].scene())
    assert light.states[:3].tolist() == [STATES["go"], 0, 0]
    assert convert(tmp_path / "j", path, "--to", "json") == 1
    assert "tl_states or metadata hold a number that JSON cannot" in capsys.readouterr().err


def test_what_a_pvs_has_no_place_for_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = make_tree()
    tree["objects"][1]["valid"] = [False] * 30
    tree["roads"][0]["geometry"] = tree["roads"][0]["geometry"][:1]
    tree["metadata"]["long"] = "x" * 70_000
    assert convert(tmp_path / "o", write(tmp_path / "s.json", tree)) == 0
    said = capsys.readouterr().out
    for what in (
        "1 objects that are never present",
        "1 roads without length",
        "3 ids of lines and edges",
        "1 metadata",
    ):
        assert f"dropped: {what}, in 1 scenes" in said
