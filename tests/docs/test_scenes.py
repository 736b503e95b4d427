# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/scenes.md says what the readers do: of each broken scene of its table, what happens and what
is said.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drive_env.cli import parser
from drive_env.compare import MEASURES
from drive_env.config import DriveConfig
from drive_env.generate.families import FAMILIES
from drive_env.prepare import prepare_scenes
from drive_env.scenes import check, open_scenes, write_scenes
from drive_env.scenes.bin_scene import bin_bytes
from drive_env.scenes.json_scene import DEFAULTS, scene_from_tree
from drive_env.scenes.reader import read_scene
from puffervec.errors import PuffervecError
from tests.drive_env.conftest import make_tree

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scenes.md"
TREE = Callable[[dict[str, Any]], None]


def tree(change: TREE | None = None) -> dict[str, Any]:
    """The tiny scene, changed."""
    made = make_tree()
    if change is not None:
        change(made)
    return made


def of_tree(change: TREE) -> Callable[[Path], Path]:
    """What writes a changed scene as JSON."""
    return lambda folder: written(folder / "a.json", json.dumps(tree(change)).encode())


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def binary() -> bytearray:
    made = make_tree()
    made["metadata"] = {}
    return bytearray(bin_bytes(scene_from_tree(made, "t", "t")))


def lie(at: int, value: int) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        data = binary()
        struct.pack_into("<i", data, at, value)
        return written(folder / "a.bin", bytes(data))

    return make


def compiled(damage: Callable[[bytearray], bytes]) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        write_scenes(folder / "a.pvs", [scene_from_tree(make_tree(), "t", "t")])
        return written(folder / "a.pvs", damage(bytearray((folder / "a.pvs").read_bytes())))

    return make


def flipped(data: bytearray) -> bytes:
    data[len(data) // 2] ^= 1
    return bytes(data)


def put(value: float, absent: bool = False) -> TREE:
    def change(made: dict[str, Any]) -> None:
        made["objects"][1]["position"][7]["x"] = value
        made["objects"][1]["valid"][7] = not absent

    return change


def same_ids(made: dict[str, Any]) -> None:
    made["objects"][1]["id"] = 100


def pointless(made: dict[str, Any]) -> None:
    made["roads"][0]["geometry"] = made["roads"][0]["geometry"][:1]
    made["roads"][1]["geometry"] = [made["roads"][1]["geometry"][0]] * 5


def crooked(made: dict[str, Any]) -> None:
    made["roads"][0]["geometry"] = [{"x": x, "y": 50_000.0 * (x % 2), "z": 0.0} for x in range(60)]


def crowded(made: dict[str, Any]) -> None:
    line = [{"x": float(x), "y": 0.6 * (x % 2), "z": 0.0} for x in range(11)]
    made["roads"] += [
        {"geometry": line, "type": "lane", "map_element_id": 2, "id": 100 + lane}
        for lane in range(1000)
    ]


def same_road_ids(made: dict[str, Any]) -> None:
    """The second lane and the line below have the first lane's id, and a light holds for it."""
    made["roads"][1]["id"] = made["roads"][2]["id"] = made["roads"][0]["id"]
    light({"state": ["go"]})(made)


def light(changed: dict[str, Any]) -> TREE:
    """What adds a traffic light of the first lane, with a stop in frame 0, changed."""
    sound = {"state": ["stop"], "x": [1.0], "y": [1.0], "z": [0.0], "time_index": [0]}
    return lambda made: made["tl_states"].update({"0": {**sound, **changed}})


def two_keys(folder: Path) -> Path:
    data = json.dumps(make_tree(cars=1))
    return written(
        folder / "a.json",
        f'{data[:-1]}, "objects": {json.dumps(make_tree(cars=3)["objects"])}}}'.encode(),
    )


def same_ids_in_bin(folder: Path) -> Path:
    data = binary()
    (second,) = [at for at in range(0, len(data), 4) if data[at : at + 4] == struct.pack("<i", 101)]
    data[second : second + 4] = struct.pack("<i", 100)
    return written(folder / "a.bin", bytes(data))


def sparse(folder: Path) -> Path:
    with (folder / "a.json").open("wb") as file:
        file.truncate(65 << 20)
    return folder / "a.json"


BROKEN: dict[str, Callable[[Path], Path]] = {
    "JSON that is cut off": lambda folder: written(folder / "a.json", b'{"objects": [], "ro'),
    ".bin that is cut off": lambda folder: written(folder / "a.bin", bytes(binary()[:-5])),
    ".pvs that is cut off": compiled(lambda data: bytes(data[:-64])),
    ".pvs with a changed byte": compiled(flipped),
    "NaN where an object is present": of_tree(put(math.nan)),
    "1e30 where an object is present": of_tree(put(1e30)),
    "1e30 where an object is absent": of_tree(put(1e30, absent=True)),
    "a box without width": of_tree(lambda made: made["objects"][1].update(width=0)),
    "a road of a single point, or of points that coincide": of_tree(pointless),
    "two objects with one id in JSON": of_tree(same_ids),
    "two objects with one id in .bin": same_ids_in_bin,
    "lists of different lengths": of_tree(lambda made: made["objects"][1]["valid"].pop()),
    "two roads with one id": of_tree(same_road_ids),
    "a key that comes twice in JSON": two_keys,
    "an index in `metadata` that no object has": of_tree(
        lambda made: made["metadata"].update(
            sdc_track_index=10**9, tracks_to_predict=[{"track_index": 2}]
        )
    ),
    "a traffic light that never has a place": of_tree(light({"x": [math.nan]})),
    "a state of a traffic light of no known word": of_tree(light({"state": ["purple"]})),
    "a `time_index` beyond the log": of_tree(light({"time_index": [10**12]})),
    "a count that lies": lie(8, 2**31 - 1),
    "a size that lies": lie(28, 10_000),
    "a single frame": lambda folder: written(
        folder / "a.json", json.dumps(make_tree(frames=1)).encode()
    ),
    "no objects": of_tree(lambda made: made.update(objects=[])),
    "no vehicle to control": of_tree(
        lambda made: [item.update(type="pedestrian") for item in made["objects"]] and None
    ),
    "roads with too many segments": of_tree(crooked),
    "lanes in one spot, 50,000,000 pairs of pieces (real: 300,000); 10,000,000 of signs and "
    "points of lanes": of_tree(crowded),
    "a file of more than 64 MiB": sparse,
}


def rows() -> dict[str, tuple[str, str]]:
    """The page's table: broken, (what happens, what is said)."""
    table = PAGE.read_text().partition("| broken |")[2]
    found = re.findall(r"^\| (.+?) \| (.+?) \| (?:`(.+)`)? ?\|$", table, re.MULTILINE)
    return {broken: (happens, said) for broken, happens, said in found}


def test_the_table_has_all_cases() -> None:
    assert list(rows()) == list(BROKEN)


@pytest.mark.parametrize("broken", BROKEN)
def test_broken_scenes(broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path / "cache"))
    happens, said = rows()[broken]
    path = BROKEN[broken](tmp_path)
    if not said:
        assert happens.startswith("repaired: ")
        prepared = prepare_scenes(DriveConfig(scenes=str(path)))
        assert len(prepared.scenes) == 1 and prepared.left_out == ()
    else:
        with pytest.raises(PuffervecError) as caught:
            prepare_scenes(DriveConfig(scenes=str(path)))
        assert str(caught.value).startswith(f"{path}: ") and said in str(caught.value)
    if "converted" in happens:
        assert len(read_scene(path).roads) == 5


def test_repairs(tmp_path: Path) -> None:
    scene = read_scene(BROKEN["two objects with one id in .bin"](tmp_path))
    assert [item.id for item in scene.objects] == [-1, -1]
    write_scenes(
        tmp_path / "a.pvs",
        [read_scene(BROKEN["a road of a single point, or of points that coincide"](tmp_path))],
    )
    assert open_scenes(tmp_path / "a.pvs")[0].counts["lanes"] == 0


def test_repairs_of_json(tmp_path: Path) -> None:
    found = {}
    for broken in list(BROKEN)[list(BROKEN).index("two roads with one id") :][:6]:
        write_scenes(tmp_path / "a.pvs", [read_scene(BROKEN[broken](tmp_path))])
        found[broken] = open_scenes(tmp_path / "a.pvs")[0]
    assert [int(item["lane"]) for item in found["two roads with one id"].sections["controls"]] == [
        1
    ]
    assert found["a key that comes twice in JSON"].object_count == 3
    scene = found["an index in `metadata` that no object has"].scene()
    assert scene.sdc == -1 and not scene.to_predict
    assert found["a traffic light that never has a place"].counts["lights"] == 0
    for broken in ("a state of a traffic light of no known word", "a `time_index` beyond the log"):
        assert found[broken].counts["lights"] == 1 and not found[broken].sections["states"].any()


def test_bounds_and_defaults() -> None:
    text = " ".join(PAGE.read_text().split())
    assert (
        f"{check.MAX_OBJECTS:,} objects, {check.MAX_FRAMES:,} frames, {check.MAX_ROADS:,} roads "
        f"and {check.MAX_POINTS:,} points of roads, and {check.MAX_CONTROLS:,} signs and lights"
        in text
    )
    assert f"{check.MAX_PAIRS:,} pairs" in text and f"{check.MAX_SIGN_PAIRS:,} of signs" in text
    assert (
        check.COORDINATE_LIMIT_M,
        check.SPEED_LIMIT_MPS,
        check.SIZE_LEAST_M,
        check.SIZE_LIMIT_M,
    ) == (1e5, 1e3, 0.01, 100.0)
    assert all(f"`{name}`" in text for name in DEFAULTS)


def test_the_commands_are_those_of_the_command() -> None:
    for line in re.findall(r"^puffer-scenes (.*?)(?: +#.*)?$", PAGE.read_text(), re.MULTILINE):
        parser().parse_args(line.split())


def test_the_measures_of_compare_are_those_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert "\n".join(f"| {name} | {meaning} |" for name, meaning in MEASURES.items()) in page
    number = r" [0-9.,e-]+(?: \\\*)? \|"
    shown = re.findall(rf"^\| ([a-z ]+) \|(?:{number}){{11}}$", page, re.MULTILINE)
    assert shown == list(MEASURES), "both comparisons have a row for each"


def test_the_families_of_streets_are_those_of_the_code() -> None:
    rows = re.search(r"\| `--family` .*?\n\n", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert rows and set(re.findall(r"`([a-z-]+)`", rows[0])) - {"--family"} == set(FAMILIES)
