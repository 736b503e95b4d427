# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Every format with every breakage: refused with the file and the key or the byte, or repaired by a
rule of docs/scenes.md.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.config import DriveConfig
from drive_env.prepare import prepare_scenes
from drive_env.scenes import open_scenes, packed, write_scenes
from drive_env.scenes.bin_scene import bin_bytes
from drive_env.scenes.bin_v3 import Variant
from drive_env.scenes.json_scene import generation_of, scene_from_tree
from drive_env.scenes.reader import read_scene
from puffervec.errors import SceneError
from tests.drive_env.bins import v3_bytes
from tests.drive_env.conftest import make_tree
from tests.drive_env.test_json_scene import older
from tests.fuzz.readers import with_sums

JSON, BIN = ("A", "B", "C"), ("v0", "v1", "v2", "v2b", "v3")
FORMATS = (*JSON, *BIN, "pvs")
FRAME, X_M, LENGTH_M = (
    7,
    777.25,
    7.03125,
)  # of object 1: these numbers stand nowhere else, so they show where it is
Tree = dict[str, Any]


def sound(form: str) -> Tree:
    """The tiny scene, whose second car has a number that shows where it stands."""
    tree = make_tree()
    tree["objects"][1]["position"][FRAME]["x"] = X_M
    tree["objects"][1]["length"] = LENGTH_M
    return older(tree, form) if form in ("A", "B") else tree


def bytes_of(tree: Tree, form: str, folder: Path) -> bytearray:
    """The scene in a format."""
    if form in JSON:
        assert generation_of(tree) == form
        return bytearray(json.dumps(tree).encode())
    scene = scene_from_tree(tree, "t", "t")
    if form == "pvs":
        write_scenes(folder / "sound.pvs", [scene])
        return bytearray((folder / "sound.pvs").read_bytes())
    if form == "v3":
        return bytearray(v3_bytes(scene, Variant()))
    return bytearray(
        b"0123456789abcdef" + bin_bytes(scene) if form == "v2b" else bin_bytes(scene, form)
    )


def read(data: bytes, form: str, folder: Path) -> Path:
    """Read the bytes as the commands do. Raises: SceneError."""
    path = folder / f"broken.{'json' if form in JSON else 'bin' if form in BIN else 'pvs'}"
    path.write_bytes(data)
    if form == "pvs":
        assert [scene.name for scene in open_scenes(path)]
    else:
        read_scene(path)
    return path


def refused(data: bytes, form: str, folder: Path, *words: str) -> None:
    with pytest.raises(SceneError) as caught:
        read(data, form, folder)
    said = str(caught.value)
    assert said.startswith(str(folder / "broken.")) and "\n" not in said
    assert all(word in said for word in words), said


def place(data: bytes, form: str, value: float, last: bool = False) -> int:
    """The byte at which a number of the second car stands."""
    if form == "pvs":
        base = int(np.frombuffer(data, packed.ENTRY, 1, packed.SET.itemsize)["offset"][0])
        sections = np.frombuffer(data, packed.SCENE, 1, base)["sections"][0]
        objects, frames = (
            base + int(sections[packed.ORDER.index(name)][0]) for name in ("objects", "frames")
        )
        if value == LENGTH_M:
            return objects + packed.OBJECT.itemsize + int(packed.OBJECT.fields["length_m"][1])  # type: ignore[index]
        second = int(np.frombuffer(data, packed.OBJECT, 2, objects)["frames_index"][1])
        return frames + (second + FRAME) * packed.FRAME.itemsize
    number = struct.pack("<f", value)
    assert last or data.count(number) == 1
    return data.rindex(number)


@pytest.mark.parametrize("form", FORMATS)
def test_a_sound_one_is_read(form: str, tmp_path: Path) -> None:
    read(bytes_of(sound(form), form, tmp_path), form, tmp_path)


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_at_all(form: str, tmp_path: Path) -> None:
    said = (
        "expected a header of 64 bytes, got 0"
        if form == "pvs"
        else "Expecting value at character 0 of 0"
    )
    refused(b"", form, tmp_path, said)


@pytest.mark.parametrize("form", FORMATS)
def test_cut_in_half(form: str, tmp_path: Path) -> None:
    data = bytes_of(sound(form), form, tmp_path)
    half = bytes(data[: len(data) // 8 * 4])
    if form in JSON:
        refused(half, form, tmp_path, "not JSON, or cut off: ", f"of {len(half)} (line 1, column ")
    elif form in BIN:
        refused(half, form, tmp_path, f"{form}: byte ", " more bytes, got ")
    else:
        refused(half, form, tmp_path, f"bytes at byte 8: expected {len(half)}, got {len(data)}")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("value", [math.nan, 1e30, -math.inf])
def test_no_number_or_a_huge_one_where_a_car_is(form: str, value: float, tmp_path: Path) -> None:
    tree = sound(form)
    if form in JSON:
        tree["objects"][1]["position"][FRAME]["x"] = value
        data, where = (
            bytes_of(tree, form, tmp_path),
            f"objects[1].position[{FRAME}].x: expected a number between",
        )
    else:
        data = bytes_of(tree, form, tmp_path)
        at = place(data, form, X_M)
        data[at : at + 4] = struct.pack("<f", value)
        key = "agents[1].x" if form == "v3" else "objects[1].x"
        where = (
            f"byte {at} (scene 0, frame"
            if form == "pvs"
            else f"{form}: byte {at}: {key}[{FRAME}]: expected a number between"
        )
    refused(
        with_sums(bytes(data)) if form == "pvs" else data,
        form,
        tmp_path,
        where,
        "found " if form == "pvs" else "got ",
        "nan" if value != value else "",
    )
    if form == "pvs":
        refused(data, form, tmp_path, "expected the sum of the scene's bytes")


@pytest.mark.parametrize("form", FORMATS)
def test_a_box_without_length(form: str, tmp_path: Path) -> None:
    tree = sound(form)
    if form in JSON:
        tree["objects"][1]["length"] = 0.0
        data, where = (
            bytes_of(tree, form, tmp_path),
            "objects[1].length: expected 0.01 to 100 (metres), got 0.0",
        )
    else:
        data = bytes_of(tree, form, tmp_path)
        at = place(data, form, LENGTH_M, last=True)
        data[at : at + 4] = bytes(4)
        key = "agents[1].length[29]" if form == "v3" else "objects[1].length"
        where = (
            f"byte {at} (scene 0, object.length_m)"
            if form == "pvs"
            else f"{form}: byte {at}: {key}: expected 0.01 to 100"
        )
    refused(with_sums(bytes(data)) if form == "pvs" else data, form, tmp_path, where)


@pytest.mark.parametrize("form", FORMATS)
def test_a_count_that_lies(form: str, tmp_path: Path) -> None:
    """Lists of other lengths in JSON; in the others a number of objects that the file has no room
    for.
    """
    tree = sound(form)
    if form in JSON:
        tree["objects"][1]["heading"].pop()
        refused(
            bytes_of(tree, form, tmp_path),
            form,
            tmp_path,
            "objects[1].heading: expected a list of 30, got a list of 29",
        )
        return
    data = bytes_of(tree, form, tmp_path)
    base = (
        int(np.frombuffer(data, packed.ENTRY, 1, packed.SET.itemsize)["offset"][0])
        if form == "pvs"
        else 0
    )
    head = int(packed.SCENE.fields["object_count"][1])  # type: ignore[index]
    at = {"v2": 8, "v2b": 24, "pvs": base + head}.get(form, 0)
    data[at : at + 4] = struct.pack("<I", 60_000)
    if form == "pvs":
        refused(
            with_sums(bytes(data)),
            form,
            tmp_path,
            "(scene 0, objects): expected a count of elements of 60000, found 2",
        )
    else:
        count = "num_agents" if form == "v3" else "num_objects"
        refused(data, form, tmp_path, f"{form}: byte {at}: {count}: expected 0 to 4096, got 60000")


@pytest.mark.parametrize("form", ["C", "v0", "v2", "v2b", "v3"])  # A, B and v1 have no ids
def test_two_objects_of_one_id(form: str, tmp_path: Path) -> None:
    tree = sound(form)
    if form == "C":
        tree["objects"][1]["id"] = 100
        said = "objects[1].id: expected an id that objects[0] does not have, got 100"
        refused(bytes_of(tree, form, tmp_path), form, tmp_path, said)
        return
    data = bytes_of(tree, form, tmp_path)
    if form == "v3":
        at = place(data, form, X_M) - 4 * FRAME - 12
        data[at : at + 4] = bytes(4)
        refused(data, form, tmp_path, f"v3: byte {at}: agents[1].id: expected 1 to 1, got 0")
        return
    data = data.replace(struct.pack("<i", 101), struct.pack("<i", 100))
    assert [item.id for item in read_scene(read(data, form, tmp_path)).objects] == [-1, -1], (
        "then no object has one"
    )


@pytest.mark.parametrize("form", FORMATS)
def test_nobody_to_control(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path / "cache"))
    tree = sound(form)
    for item in tree["objects"]:
        item["type"] = "pedestrian"
    path = read(bytes_of(tree, form, tmp_path), form, tmp_path)
    with pytest.raises(
        SceneError,
        match=r"none of its 1 scenes has an agent: control is moving.*2 under control=all",
    ):
        prepare_scenes(DriveConfig(scenes=str(path)))


def in_one_spot(kind: str, count: int, points: int, back: bool = False) -> Callable[[Tree], None]:
    """Adds crooked roads that lie in one spot. back: they end where they begin."""

    def change(tree: Tree) -> None:
        line = [
            {"x": 0.0 if back and x == points - 1 else float(x), "y": 0.6 * (x % 2), "z": 0.0}
            for x in range(points)
        ]
        tree["roads"] += [
            {"geometry": line, "type": kind, "map_element_id": 2, "id": 100 + i}
            for i in range(count)
        ]

    return change


def lights(tree: Tree) -> None:
    tree["tl_states"] = {
        str(lane): {"state": ["go"], "x": [0], "y": [0], "z": [0]} for lane in range(4097)
    }


def signs_far_and_near(tree: Tree) -> None:
    in_one_spot("stop_sign", 4000, 1)(tree)
    in_one_spot("lane", 10, 1300)(tree)


CROWDS: dict[str, tuple[Callable[[Tree], None], str]] = {
    "lanes beside each other": (
        in_one_spot("lane", 1000, 11),
        "pairs of pieces of lanes lie close together",
    ),
    "lanes that meet": (
        in_one_spot("lane", 7200, 3, back=True),
        "pairs of ends and starts of lanes lie close together",
    ),
    "signs": (
        in_one_spot("stop_sign", 4097, 1),
        "4097 traffic lights and signs; at most 4096 are allowed",
    ),
    "signs and lanes": (signs_far_and_near, "pairs of signs and points of lanes"),
    "lights": (lights, "tl_states: expected at most 4096 lanes, got a JSON object of 4097"),
}


@pytest.mark.parametrize("crowd", CROWDS)
def test_what_would_take_long_to_compare(
    crowd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path / "cache"))
    change, said = CROWDS[crowd]
    tree = make_tree()
    change(tree)
    (tmp_path / "a.json").write_text(json.dumps(tree))
    with pytest.raises(SceneError) as caught:
        prepare_scenes(DriveConfig(scenes=str(tmp_path / "a.json")))
    assert str(caught.value).startswith(f"{tmp_path / 'a.json'}: ") and said in str(caught.value)
