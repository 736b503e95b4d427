# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""From a setting to a compiled set: what is found, cached, compiled anew, and refused.

Also of drive_env/sources.py, which says what scenes there are, and drive_env/progress.py.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import puffervec
from drive_env import prepare, sources
from drive_env.config import DriveConfig
from drive_env.env import build
from drive_env.generate import generate
from drive_env.prepare import prepare_scenes
from drive_env.scenes import packed, reader, write_scenes
from drive_env.scenes.bin_scene import bin_bytes
from drive_env.scenes.json_scene import scene_from_tree
from drive_env.scenes.reader import LeftOut
from drive_env.scenes.sceneset import SceneSet
from drive_env.scenes.schema import Scene
from drive_env.sources import SHARES, sources_of, split_of
from puffervec.errors import ConfigError, PuffervecError, SceneError

MakeTree = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tiny_tree: MakeTree, tmp_path: Path) -> Path:
    """A folder with two scenes and one that is left out."""
    path = tmp_path / "scenes"
    path.mkdir()
    for name, tree in (
        ("a", tiny_tree(cars=2)),
        ("b", tiny_tree(cars=3)),
        ("c", tiny_tree(frames=1)),
    ):
        (path / f"{name}.json").write_text(json.dumps(tree))
    return path


def test_a_folder_is_compiled_once(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prepare_scenes(DriveConfig(scenes=str(folder)))
    assert first.scenes.names == ["a.json", "b.json"]
    assert [(item.path.name, item.reason.split(",")[0]) for item in first.left_out] == [
        ("c.json", "the scene has a single frame")
    ]
    assert first.path.parent == cache / "scenes"
    content = first.path.read_bytes()

    def refuse(*_: Any) -> None:
        raise AssertionError("compiled although it is in the cache")

    monkeypatch.setattr(prepare, "compile_scene", refuse)
    second = prepare_scenes(DriveConfig(scenes=str(folder)))
    assert second.path == first.path and second.left_out == first.left_out
    assert second.path.read_bytes() == content


def test_what_the_bytes_depend_on_is_in_the_key(
    folder: Path, cache: Path, tiny_tree: MakeTree
) -> None:
    base = {"scenes": str(folder)}
    paths = [
        prepare_scenes(DriveConfig(**settings)).path
        for settings in (
            base,
            {**base, "lanes": 20},
            {**base, "edges": 20},
            {**base, "range_m": 60.0},
            {**base, "simplify_m": 0.2},
        )
    ]
    (folder / "a.json").write_text(json.dumps(tiny_tree(cars=1)))
    paths.append(prepare_scenes(DriveConfig(**base)).path)
    assert len(set(paths)) == 6
    same = [DriveConfig(**base), DriveConfig(**base, reward_goal=2.0, num_agents=64, edges=3)]
    assert len({prepare_scenes(config).path for config in same}) == 1


@pytest.mark.parametrize("damage", ["cut", "flip", "notes", "gone"])
def test_a_damaged_entry_is_compiled_anew(folder: Path, cache: Path, damage: str) -> None:
    path = prepare_scenes(DriveConfig(scenes=str(folder))).path
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:-1])
    elif damage == "flip":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "notes":
        prepare.notes_path(path).write_text("{")
    else:
        path.unlink()
    assert prepare_scenes(DriveConfig(scenes=str(folder))).path.read_bytes() == content


def test_one_broken_file_refuses_no_other(folder: Path, cache: Path, tiny_tree: MakeTree) -> None:
    (folder / "b.json").write_text((folder / "b.json").read_text()[:200])
    long_road = tiny_tree()
    long_road["roads"][0]["geometry"] = [
        {"x": x, "y": 50_000.0 * (x % 2), "z": 0.0} for x in range(60)
    ]
    (folder / "d.json").write_text(
        json.dumps(long_road)
    )  # read, but more segments than can be numbered
    prepared = prepare_scenes(DriveConfig(scenes=str(folder)))
    assert prepared.scenes.names == ["a.json"]
    reasons = {item.path.name: item.reason for item in prepared.left_out}
    assert list(reasons) == ["b.json", "c.json", "d.json"]
    assert (
        reasons["b.json"].startswith("not JSON, or cut off")
        and "more than 65535 road segments" in reasons["d.json"]
    )
    (folder / "a.json").write_text("")
    with pytest.raises(
        SceneError,
        match=rf"{folder}: none of its 4 scenes can be used \(a.json: not JSON.*; and 1 more\)",
    ):
        prepare_scenes(DriveConfig(scenes=str(folder)))


def test_remarks_name_the_first_files() -> None:
    files = [LeftOut(Path(f"{number}.json"), "why") for number in range(prepare.REMARKS_SHOWN + 2)]
    assert prepare.remarks_on(files[:1]) == ["left out 0.json: why"]
    assert (
        prepare.remarks_on(files[:-1])[-1]
        == "left out 1 more file; `puffer-scenes check --json` names all"
    )
    assert prepare.remarks_on(files)[-1].startswith("left out 2 more files; ")


def test_one_file(folder: Path, cache: Path) -> None:
    assert prepare_scenes(DriveConfig(scenes=str(folder / "b.json"))).scenes.names == ["b.json"]
    with pytest.raises(SceneError, match="c.json: the scene has a single frame"):
        prepare_scenes(DriveConfig(scenes=str(folder / "c.json")))


def test_nothing_to_drive_is_refused(
    folder: Path, cache: Path, tiny_tree: MakeTree, tmp_path: Path
) -> None:
    with pytest.raises(
        SceneError, match='/nowhere: no such folder or file; it must be "generated", "generated:N"'
    ):
        prepare_scenes(DriveConfig(scenes="/nowhere"))
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(SceneError, match=f"{empty}: the folder holds no scenes"):
        prepare_scenes(DriveConfig(scenes=str(empty)))
    (folder / "a.json").unlink()
    (folder / "b.json").unlink()
    with pytest.raises(
        SceneError,
        match=rf"{folder}: none of its 1 scenes can be used \(c.json: the scene has a single frame",
    ):
        prepare_scenes(DriveConfig(scenes=str(folder)))
    (folder / "c.json").write_text(json.dumps(tiny_tree(speed_mps=0.0)))
    for control in ("moving", "valid"):
        with pytest.raises(
            SceneError, match=f"has an agent: control is {control}; there are 1 under control=sdc"
        ):
            prepare_scenes(DriveConfig(scenes=str(folder), control=control))
    expert = tiny_tree(cars=2)
    expert["objects"][0]["mark_as_expert"] = expert["objects"][1]["mark_as_expert"] = True
    (folder / "c.json").write_text(json.dumps(expert))
    assert (
        prepare_scenes(valid := DriveConfig(scenes=str(folder), control="valid")).scenes.agents(
            valid
        )
        == [2]
    ).all()


def test_more_agents_than_rows_are_refused(folder: Path, cache: Path) -> None:
    with pytest.raises(
        ConfigError, match="num_agents is 2, but b.json has 3 agents; raise num_agents"
    ):
        prepare_scenes(DriveConfig(scenes=str(folder), num_agents=2))


def test_an_unwritable_cache_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path / "file"))
    with pytest.raises(
        SceneError, match="cannot be written: .*; set PUFFERVEC_CACHE to a writable folder"
    ):
        prepare_scenes(DriveConfig(scenes=str(folder)))


def test_generated_sets_are_found_by_name(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int, bool]] = []
    original = generate.generate_scene

    def few(seed: int, index: int, wide: bool = False) -> Scene:
        asked.append((seed, index, wide))
        return original(seed, index % 2, wide)

    monkeypatch.setitem(sources.GENERATORS, "generated", (generate.GENERATOR_VERSION, few))
    monkeypatch.setattr(generate, "DEFAULT_COUNT", 3)
    monkeypatch.setattr(generate, "HELD_OUT_COUNT", 2)
    assert len(prepare_scenes(DriveConfig()).scenes) == 3
    assert len(prepare_scenes(DriveConfig(scenes="held-out")).scenes) == 2
    assert asked == [
        (1, 0, False),
        (1, 1, False),
        (1, 2, False),
        (1_000_003, 0, True),
        (1_000_003, 1, True),
    ]


def test_as_many_generated_scenes_as_wanted(cache: Path) -> None:
    """The first of them are the same, however many there are."""
    two, three = (prepare_scenes(DriveConfig(scenes=f"generated:{count}")) for count in (2, 3))
    assert two.scenes.names == three.scenes.names[:2] and len(three.scenes) == 3
    names = [
        [item.identity for item in sources_of(name)[0].items]
        for name in ("generated:200", "generated")
    ]
    assert names[0] == names[1]
    for wrong in ("generated:0", "generated:-1", "generated:x", "generated:100000", "generated:"):
        with pytest.raises(
            SceneError,
            match=f'{wrong}: no such folder or file; it must be "generated", "generated:N"',
        ):
            sources_of(wrong)


@pytest.mark.slow
def test_processes_compile_to_the_same_bytes(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prepare, "MANY", 6)
    monkeypatch.setattr("puffervec.workers.process.parallel.usable_cores", lambda: 2)
    alone = prepare_scenes(DriveConfig(scenes="generated:6"))
    content = alone.path.read_bytes()
    alone.path.unlink()
    monkeypatch.setattr(prepare, "PART", 2)
    monkeypatch.setattr(prepare, "LEAST_PARTS", 1)
    assert prepare_scenes(DriveConfig(scenes="generated:6")).path.read_bytes() == content
    assert (
        capfd.readouterr().err
        == f"drive: compiling 6 scenes, once; they are kept in {cache / 'scenes'}\n" * 2
    )


@pytest.mark.slow
def test_compiling_that_was_cut_off_goes_on(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Parts that are there are not compiled again, and are gone when the whole is there."""
    whole = prepare_scenes(DriveConfig(scenes="generated:5"))
    content = whole.path.read_bytes()
    whole.path.unlink()
    monkeypatch.setattr(prepare, "PART", 2)
    loaded: list[int] = []
    original = generate.generate_scene

    def breaking(seed: int, index: int, wide: bool = False) -> Scene:
        loaded.append(index)
        if len(loaded) == 4:
            raise KeyboardInterrupt
        return original(seed, index, wide)

    monkeypatch.setitem(sources.GENERATORS, "generated", (generate.GENERATOR_VERSION, breaking))
    monkeypatch.setattr("random.Random.shuffle", lambda self, parts: None)
    with pytest.raises(KeyboardInterrupt):
        prepare_scenes(DriveConfig(scenes="generated:5"))
    assert loaded == [0, 1, 2, 3]
    again = prepare_scenes(DriveConfig(scenes="generated:5"))
    assert loaded == [0, 1, 2, 3, 2, 3, 4] and again.path.read_bytes() == content
    assert sorted(path.suffix for path in again.path.parent.iterdir()) == [".json", ".pvset"]


@pytest.mark.slow
def test_sets_with_the_same_scenes_are_compiled_at_the_same_time(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has parts of its own: the first to end removes them."""
    monkeypatch.setattr(prepare, "PART", 1)
    join = prepare.join_parts

    def join_after_another(path: Path, *rest: Any) -> None:
        monkeypatch.setattr(prepare, "join_parts", join)
        prepare_scenes(DriveConfig(scenes=f"{folder},generated:1"))
        join(path, *rest)

    monkeypatch.setattr(prepare, "join_parts", join_after_another)
    assert prepare_scenes(DriveConfig(scenes=str(folder))).scenes.names == ["a.json", "b.json"]


@pytest.mark.slow
def test_processes_that_need_the_same_set_share_its_parts(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one compiles its first part, another compiles all others and ends."""
    monkeypatch.setattr(prepare, "PART", 1)
    config = DriveConfig(scenes="generated:5")
    compiled: list[Path] = []
    original = prepare.compile_part

    def compile_beside_another(part: prepare.Part, *rest: Any) -> int:
        compiled.append(part.path)
        count = original(part, *rest)
        if len(compiled) == 1:
            prepare_scenes(config)
        return count

    monkeypatch.setattr(prepare, "compile_part", compile_beside_another)
    prepared = prepare_scenes(config)
    assert len(prepared.scenes) == len(compiled) == len(set(compiled)) == 5
    assert sorted(path.suffix for path in prepared.path.parent.iterdir()) == [".json", ".pvset"]


def test_parts_without_a_usable_scene(
    tiny_tree: MakeTree, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "PART", 2)
    place = tmp_path / "scenes"
    place.mkdir()
    for name in "abcd":
        (place / f"{name}.json").write_text(json.dumps(tiny_tree()) if name == "d" else "{")
    prepared = prepare_scenes(DriveConfig(scenes=str(place)))
    assert prepared.scenes.names == ["d.json"]
    assert [item.path.name for item in prepared.left_out] == ["a.json", "b.json", "c.json"]
    (place / "d.json").write_text("{")
    with pytest.raises(SceneError, match="none of its 4 scenes can be used"):
        prepare_scenes(DriveConfig(scenes=str(place)))


def test_a_folder_of_all_formats(folder: Path, cache: Path, tiny_tree: MakeTree) -> None:
    """Scenes of a .pvs file stay as they are if it was compiled with the same settings, and are
    compiled anew if not.
    """
    scene = scene_from_tree(tiny_tree(cars=4), "x", "x.json")
    (folder / "deep").mkdir()
    (folder / "deep" / "map.bin").write_bytes(bin_bytes(scene))
    write_scenes(folder / "two.pvs", [scene, dataclasses.replace(scene, name="y.json")])
    (folder / "broken.pvs").write_bytes(b"PVVS" + bytes(100))
    for settings in ({}, {"lanes": 20}):
        prepared = prepare_scenes(DriveConfig(scenes=str(folder), **settings))
        assert prepared.scenes.names == ["a.json", "b.json", "map.bin", "x.json", "y.json"]
        assert list(prepared.scenes.agents(DriveConfig())) == [2, 3, 4, 4, 4]
        assert [item.path.name for item in prepared.left_out] == ["broken.pvs", "c.json"]
        assert prepared.left_out[0].reason.startswith("version at byte 4: expected")


def test_a_compiled_file_is_mapped_where_it_lies(
    tmp_path: Path, cache: Path, tiny_tree: MakeTree
) -> None:
    path = tmp_path / "own.pvs"
    write_scenes(
        path, [scene_from_tree(tiny_tree(cars=cars), "x", f"{cars}.json") for cars in (1, 2)]
    )
    assert prepare_scenes(DriveConfig(scenes=str(path))).path == path and not cache.exists()
    other = prepare_scenes(DriveConfig(scenes=str(path), range_m=60.0))
    assert other.path.parent == cache / "scenes" and other.scenes.names == ["1.json", "2.json"]


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="reads mappings from /proc")
def test_workers_map_the_file_of_the_set(cache: Path) -> None:
    """A page counts once, however many workers there are: none of them has a copy of its own."""
    file = str(prepare_scenes(DriveConfig(scenes="generated:2")).path)
    with puffervec.make(
        "drive", env_kwargs={"scenes": "generated:2"}, num_envs=2, num_workers=2
    ) as vec:
        vec.reset(seed=0)
        maps = [
            [item.rss for item in process.memory_maps() if item.path == file]
            for process in psutil.Process().children(recursive=True)
        ]
    assert sum(any(rss > 0 for rss in one) for one in maps) == 2


def test_nothing_in_the_cache_vouches_for_a_large_set(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers check each of its scenes, whatever the files beside it say."""
    monkeypatch.setattr(prepare, "CHECKED_BYTES", 1)
    monkeypatch.setattr(prepare, "PART", 2)
    config = DriveConfig(scenes="generated:3")
    prepared = prepare_scenes(config)
    content = bytearray(prepared.path.read_bytes())
    for index in range(3):
        scenes = SceneSet(prepared.path)
        place = int(
            scenes.entries[index]["offset"]
            + scenes.scene(index)[0]["sections"][packed.ORDER.index("half")]["offset"]
        )
        content[place : place + 4] = np.float32(np.nan).tobytes()
    prepared.path.write_bytes(content)
    found = prepared.path.stat()
    stamp = [found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns]
    notes = prepare.notes_path(prepared.path)
    notes.write_text(json.dumps({**json.loads(notes.read_text()), "checked": stamp}))
    assert not prepare_scenes(config).checked and "scenes_checked" not in build(config).params
    with (
        pytest.raises(PuffervecError, match="entry.crc32"),
        puffervec.make(
            "drive", env_kwargs={"scenes": "generated:3"}, num_envs=1, backend="serial"
        ) as vec,
    ):
        vec.reset(seed=0)


def test_a_replaced_file_is_read_anew(tmp_path: Path, cache: Path, tiny_tree: MakeTree) -> None:
    """Within one process, which may have the old one open; nothing of that is kept under the new
    one's key.
    """
    folder = tmp_path / "scenes"
    folder.mkdir()
    for cars in (1, 2):
        write_scenes(folder / "own.pvs", [scene_from_tree(tiny_tree(cars=cars), "x", "a.json")])
        for range_m in (60.0, 70.0):
            config = DriveConfig(scenes=str(folder / "own.pvs"), range_m=range_m)
            assert (
                agents_of(config)
                == agents_of(DriveConfig(scenes=str(folder), range_m=range_m))
                == [cars]
            )


def agents_of(config: DriveConfig) -> list[int]:
    return [int(count) for count in prepare_scenes(config).scenes.agents(config)]


@pytest.mark.parametrize("kind", ["pvs", "json"])
def test_a_file_that_is_replaced_while_it_is_compiled_is_kept_under_no_key(
    kind: str, tmp_path: Path, cache: Path, tiny_tree: MakeTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"own.{kind}"

    def write(cars: int) -> None:
        if kind == "json":
            path.write_text(json.dumps(tiny_tree(cars=cars)))
        else:
            write_scenes(path, [scene_from_tree(tiny_tree(cars=cars), "x", "a.json")])

    def compile_late(*arguments: Any, **more: Any) -> Any:
        write(3)
        return original(*arguments, **more)

    original = prepare.compile_into
    for config in (
        DriveConfig(scenes=str(path), range_m=60.0),
        DriveConfig(scenes=str(tmp_path), range_m=70.0),
    ):
        write(1)
        with monkeypatch.context() as patch:
            patch.setattr(prepare, "compile_into", compile_late)
            with pytest.raises(SceneError, match=f"own.{kind}: the file was replaced while"):
                prepare_scenes(config)
        write(1)
        assert agents_of(config) == [1]


def test_a_folder_of_anything_is_refused_before_it_is_read(
    tmp_path: Path, cache: Path, tiny_tree: MakeTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MANY_UNKNOWN", 20)
    monkeypatch.setattr(sources, "PROBES", 5)
    for number in range(21):
        (tmp_path / f"{number:02d}.json").write_text("{}")
    with monkeypatch.context() as patch:
        patch.setattr(sources, "digest_of", lambda _: pytest.fail("read"))
        words = "none of 5 files, drawn evenly from the 21 below it .* is a scene: name the folder"
        with pytest.raises(SceneError, match=words):
            prepare_scenes(DriveConfig(scenes=str(tmp_path)))
    (tmp_path / "00.json").write_text(json.dumps(tiny_tree(cars=2)))
    assert len(prepare_scenes(DriveConfig(scenes=str(tmp_path))).left_out) == 20
    monkeypatch.setattr(reader, "MAX_NAMES", 20)
    with pytest.raises(
        SceneError, match="more than 20 files and folders lie below it: name the folder"
    ):
        prepare_scenes(DriveConfig(scenes=str(tmp_path)))


def test_several_sets_with_weights(folder: Path, cache: Path) -> None:
    prepared = prepare_scenes(DriveConfig(scenes=f"{folder}=3,generated:4"))
    assert prepared.counts == (2, 4) and prepared.weights == (3.0, None)
    assert prepared.scene_weights is not None
    np.testing.assert_allclose(prepared.scene_weights, [1.5, 1.5, 0.25, 0.25, 0.25, 0.25])
    both = prepare_scenes(DriveConfig(scenes=f"{folder},generated:4"))
    assert both.path == prepared.path and both.scene_weights is None, (
        "without weights all scenes are drawn equally often"
    )


def test_a_set_with_a_weight_and_no_scene_is_named(
    folder: Path, cache: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "broken.json").write_text("{}")
    assert prepare_scenes(DriveConfig(scenes=f"{folder},{empty}")).counts == (2, 0)
    with pytest.raises(
        SceneError, match=r"empty: none of its 1 scenes can be used, .* leave it out"
    ):
        prepare_scenes(DriveConfig(scenes=f"{folder},{empty}=0.5"))


def test_scenes_of_the_same_name_are_told_apart_by_their_folders(
    tmp_path: Path, cache: Path, tiny_tree: MakeTree
) -> None:
    for day, cars in (("monday", 2), ("tuesday", 3)):
        (tmp_path / day).mkdir()
        (tmp_path / day / "a.json").write_text(json.dumps(tiny_tree(cars=cars)))
    (tmp_path / "monday" / "0.json").write_text(
        "{"
    )  # left out: the scenes behind it keep their places
    (tmp_path / "b.json").write_text(json.dumps(tiny_tree(cars=4)))
    for _ in range(2):  # compiled, and from the cache
        assert prepare_scenes(DriveConfig(scenes=str(tmp_path))).scenes.names == [
            "b.json",
            "monday/a.json",
            "tuesday/a.json",
        ]
    (tmp_path / "tuesday").rename(
        tmp_path / "wednesday"
    )  # the same set in the cache: contents and names are the same
    assert prepare_scenes(DriveConfig(scenes=str(tmp_path))).scenes.names[2] == "wednesday/a.json"
    apart = prepare_scenes(DriveConfig(scenes=f"{tmp_path / 'monday'},{tmp_path / 'wednesday'}"))
    assert apart.scenes.names == ["monday/a.json", "wednesday/a.json"]
    mixed = prepare_scenes(DriveConfig(scenes=f"{tmp_path},generated:1"))
    assert mixed.scenes.names[:3] == ["b.json", "monday/a.json", "wednesday/a.json"]


def test_splits_are_by_name(tmp_path: Path, cache: Path, tiny_tree: MakeTree) -> None:
    """Each scene is in one of them, wherever its file lies and whatever its format."""
    scene = scene_from_tree(tiny_tree(), "x", "x")
    for number in range(30):
        (tmp_path / f"scene-{number}.bin").write_bytes(bin_bytes(scene))
    names = {
        split: prepare_scenes(DriveConfig(scenes=str(tmp_path), split=split)).scenes.names  # type: ignore[arg-type]
        for split in ("all", "train", "validation", "test")
    }
    assert (
        sorted(names["train"] + names["validation"] + names["test"]) == names["all"]
        and len(names["all"]) == 30
    )
    assert all(split_of(Path(name).stem) == split for split in SHARES for name in names[split])
    shares = Counter(split_of(f"scene-{number}") for number in range(4000))
    assert [round(shares[name] / 4000, 1) for name in ("train", "validation", "test")] == [
        0.8,
        0.1,
        0.1,
    ]
    with pytest.raises(
        SceneError,
        match="none of its 1 scenes is in the split test: use --env.split all",
    ):
        prepare_scenes(DriveConfig(scenes=str(tmp_path / names["train"][0]), split="test"))


def test_a_text_file_lists_scenes(tmp_path: Path, cache: Path, tiny_tree: MakeTree) -> None:
    """They are found from any folder, and their split depends on their own names."""
    scene = scene_from_tree(tiny_tree(), "x", "x")
    (tmp_path / "more").mkdir()
    for name in ("a", "b", "c", "more/d", "more/e"):
        (tmp_path / f"{name}.bin").write_bytes(bin_bytes(scene))
    listed = tmp_path / "train.txt"
    listed.write_text("# the first part\nc.bin\n\n  a.bin\nmore\n")
    found = prepare_scenes(DriveConfig(scenes=f"{listed}=1,generated:1=3"))
    assert found.scenes.names[:4] == ["c.bin", "a.bin", "d.bin", "e.bin"]
    weights = found.scene_weights
    assert weights is not None and weights.tolist() == [0.25] * 4 + [3.0]
    (own,) = sources_of(str(listed))
    assert [item.id for item in own.items] == ["c", "a", "d", "e"]
    for text, words in (
        ("a.bin\nnone.bin", "train.txt, line 2: none.bin is not a scene file"),
        ("train.txt", "line 1: train.txt is not a scene file"),
        ("# nothing\n", "it lists no scenes"),
        ("\udcff", "is not a list of scenes"),
    ):
        listed.write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(SceneError, match=words):
            sources_of(str(listed))


@pytest.mark.slow
def test_counts_of_agents_are_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "COUNTS_KEPT", 3)
    config = DriveConfig(scenes="generated:4")
    scenes = prepare_scenes(config).scenes
    counted = prepare.agents_in(scenes, config)
    assert counted == scenes.agents(config).tolist() and sum(counted)
    other = DriveConfig(scenes="generated:4", control="valid")
    assert prepare.agents_in(scenes, other) == scenes.agents(other).tolist() != counted
    with monkeypatch.context() as patch:
        patch.setattr(SceneSet, "agents", lambda *_: pytest.fail("counted again"))
        assert prepare.agents_in(scenes, config) == counted
        with pytest.raises(ConfigError, match="num_agents is 2, but"):
            prepare_scenes(DriveConfig(scenes="generated:4", num_agents=2))
    for path in (cache / "scenes").glob("*.json"):
        path.write_text("[1, 2")  # a damaged list is made anew
    assert prepare.agents_in(scenes, config) == counted


def test_unchanged_files_are_not_read_again(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To know what they contain; and a file that was changed is."""
    long_ago = 1_600_000_000
    for path in folder.iterdir():
        os.utime(path, (long_ago, long_ago))
    monkeypatch.setattr(
        sources, "FRESH_NS", -(10**12)
    )  # the time at which a file's entry changes cannot be set back
    first = prepare_scenes(DriveConfig(scenes=str(folder)))
    read: list[str] = []
    original = sources.digest_of
    monkeypatch.setattr(sources, "digest_of", lambda path: read.append(path.name) or original(path))
    assert prepare_scenes(DriveConfig(scenes=str(folder))).path == first.path and read == []
    content = (folder / "b.json").read_text()
    (folder / "b.json").write_text(content.replace("5.0", "6.0"))
    assert prepare_scenes(DriveConfig(scenes=str(folder))).path != first.path and read == ["b.json"]
    monkeypatch.setattr(sources, "FRESH_NS", 10**18)  # all files were changed just now
    read.clear()
    prepare_scenes(DriveConfig(scenes=str(folder)))
    assert read == ["a.json", "b.json", "c.json"]


@pytest.mark.slow
def test_real_scenes(real_scenes: Path, cache: Path) -> None:
    prepared = prepare_scenes(DriveConfig(scenes=str(real_scenes)))
    assert len(prepared.scenes) == 8 and len(prepared.left_out) == 2
    assert isinstance(prepared.scenes, SceneSet)
    assert all(entry["bytes"] < 500_000 for entry in prepared.scenes.entries)
