# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Scene sets verify before use: every cut and every flipped byte is noticed, by Python and by the C
that maps them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.config import DriveConfig
from drive_env.scenes import packed
from drive_env.scenes.compile import CompiledScene, CompileSettings, compile_scene
from drive_env.scenes.json_scene import scene_from_tree
from drive_env.scenes.sceneset import SceneSet, write_scene_set
from puffervec._ffi import ffi, lib
from puffervec.errors import SceneError
from tests.drive_env.sparse import with_hole

MakeTree = Callable[..., dict[str, Any]]
SETTINGS = CompileSettings((16, 8, 16), 50.0)


@pytest.fixture
def written(tiny_tree: MakeTree, tmp_path: Path) -> Path:
    """A set of two tiny scenes."""
    scenes = [
        compile_scene(scene_from_tree(tiny_tree(cars=cars), "t", f"tiny-{cars}.json"), SETTINGS)
        for cars in (1, 3)
    ]
    write_scene_set(tmp_path / "two.pvset", scenes, SETTINGS)
    return tmp_path / "two.pvset"


def c_verdict(data: bytes) -> str:
    """What C says of a set: nothing if it is sound."""
    copy = ffi.new("uint64_t[]", len(data) // 8 + 1)
    ffi.memmove(copy, data, len(data))
    text = ffi.new("char[]", lib.PV_ERROR_TEXT)
    failed = lib.pv_drive_scenes_check(ffi.cast("uint8_t*", copy), len(data), text)
    return ffi.string(text).decode() if failed else ""


def test_a_set_says_what_is_in_it(written: Path) -> None:
    scenes = SceneSet(written)
    assert len(scenes) == 2
    assert scenes.names == ["tiny-1.json", "tiny-3.json"]
    assert (
        list(scenes.agents(DriveConfig()))
        == [1, 3]
        == list(scenes.agents(DriveConfig(control="valid")))
    )
    head, arrays = scenes.scene(1)
    assert head["object_count"] == 3 and len(arrays["frames"]) == 90
    assert list(scenes.head["index_k"]) == [16, 8, 16] and scenes.head["index_range_m"] == 50.0
    assert c_verdict(written.read_bytes()) == ""


def test_arrays_start_on_64_bytes(written: Path) -> None:
    scenes = SceneSet(written)
    for index in range(2):
        assert scenes.entries[index]["offset"] % 64 == 0
        head, _ = scenes.scene(index)
        assert (head["sections"]["offset"] % 64 == 0).all()


def test_a_set_cut_at_any_length_is_refused(written: Path) -> None:
    data = written.read_bytes()
    for length in [*range(0, 700), *range(700, len(data), 997), len(data) - 1]:
        written.write_bytes(data[:length])
        with pytest.raises(SceneError, match="two.pvset: "):
            SceneSet(written)
        assert c_verdict(data[:length])


def test_any_changed_byte_is_noticed(written: Path) -> None:
    data = bytearray(written.read_bytes())
    for at in [*range(0, 400), *range(400, len(data), 499)]:
        data[at] ^= 0x40
        written.write_bytes(data)
        with pytest.raises(SceneError, match="two.pvset: "):
            SceneSet(written).check_all()
        data[at] ^= 0x40


def test_messages_name_what_is_wrong(written: Path) -> None:
    data = bytearray(written.read_bytes())
    for at, text in ((0, "magic at byte 0: expected"), (4, "version at byte 4: expected 2"),
                     (8, "bytes at byte 8: expected"),
                     (16, "crc32 at byte 16: expected .*; the file is damaged")):  # fmt: skip
        changed = bytearray(data)
        changed[at] ^= 1
        written.write_bytes(changed)
        with pytest.raises(SceneError, match=f"two.pvset: {text}"):
            SceneSet(written)
    with pytest.raises(SceneError, match="nowhere.pvset: cannot be read"):
        SceneSet(written.with_name("nowhere.pvset"))


def test_long_names_are_cut_between_characters_in_the_table(
    tiny_tree: MakeTree, tmp_path: Path
) -> None:
    name = "ä" * 40 + ".json"
    compiled = compile_scene(scene_from_tree(tiny_tree(), "t", name), SETTINGS)
    write_scene_set(tmp_path / "long.pvset", [compiled], SETTINGS)
    (entry,) = SceneSet(tmp_path / "long.pvset").entries
    assert bytes(entry["name"]).decode() == "ä" * 31
    assert SceneSet(tmp_path / "long.pvset").names == [name], (
        "the whole name stands in the scene's text"
    )
    assert c_verdict((tmp_path / "long.pvset").read_bytes()) == ""


def test_no_scenes_no_set(tmp_path: Path) -> None:
    with pytest.raises(SceneError, match="needs at least one scene"):
        write_scene_set(tmp_path / "none.pvset", [], SETTINGS)
    assert not (tmp_path / "none.pvset").exists()


def test_entries_outside_the_file_are_refused(tmp_path: Path) -> None:
    write_scene_set(tmp_path / "odd.pvset", [CompiledScene("odd", bytes(100), 0, 0, 0)], SETTINGS)
    with pytest.raises(
        SceneError,
        match=r"odd.pvset: .*\(scene 0, entry.bytes\): expected a scene.s head and at most 100",
    ):
        SceneSet(tmp_path / "odd.pvset")


def test_arrays_cannot_be_written_to(written: Path) -> None:
    _, arrays = SceneSet(written).scene(0)
    with pytest.raises(ValueError, match="read-only"):
        arrays["x"][0] = np.float32(1.0)


def test_a_scene_that_takes_minutes_to_check_is_refused_at_the_start(
    tiny_tree: MakeTree, tmp_path: Path
) -> None:
    """C looks at a scene in one go, and cannot be interrupted meanwhile."""
    scene = compile_scene(scene_from_tree(tiny_tree(cars=1), "t", "tiny.json"), SETTINGS)
    write_scene_set(tmp_path / "one.pvs", [scene], SETTINGS)
    path = with_hole(tmp_path / "one.pvs", tmp_path / "huge.pvs", 2**41, inside=True)
    with pytest.raises(
        SceneError, match=r"entry.bytes\): expected at most 1073741824, found 2199023255"
    ):
        SceneSet(path)
    assert "entry.bytes" not in c_verdict((tmp_path / "one.pvs").read_bytes())


def test_no_scene_is_compiled_that_would_be_refused(
    tiny_tree: MakeTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "MOST_SCENE_BYTES", 1000)
    with pytest.raises(SceneError, match="bytes; at most 1,000 are allowed"):
        compile_scene(scene_from_tree(tiny_tree(cars=1), "t", "tiny.json"), SETTINGS)
