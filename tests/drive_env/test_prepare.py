# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""From a setting to a compiled set: what is found, cached, compiled anew, and refused."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drive_env import prepare
from drive_env.config import DriveConfig
from drive_env.generate import generate
from drive_env.prepare import prepare_scenes
from drive_env.scenes.sceneset import SceneSet
from drive_env.scenes.schema import Scene
from puffervec.errors import ConfigError, SceneError
from puffervec.process.parallel import on_all_cores

MakeTree = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tiny_tree: MakeTree, tmp_path: Path) -> Path:
    """A folder with two scenes and one that is left out."""
    path = tmp_path / "scenes"
    path.mkdir()
    for name, tree in (("a", tiny_tree(cars=2)), ("b", tiny_tree(cars=3)), ("c", tiny_tree(frames=1))):
        (path / f"{name}.json").write_text(json.dumps(tree))
    return path


def test_a_folder_is_compiled_once(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_the_bytes_depend_on_is_in_the_key(folder: Path, cache: Path, tiny_tree: MakeTree) -> None:
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
    long_road["roads"][0]["geometry"] = [{"x": x, "y": 50_000.0 * (x % 2), "z": 0.0} for x in range(60)]
    (folder / "d.json").write_text(json.dumps(long_road))  # read, but more segments than can be numbered
    prepared = prepare_scenes(DriveConfig(scenes=str(folder)))
    assert prepared.scenes.names == ["a.json"]
    reasons = {item.path.name: item.reason for item in prepared.left_out}
    assert list(reasons) == ["b.json", "c.json", "d.json"]
    assert reasons["b.json"].startswith("not JSON, or cut off") and "more than 65535 road segments" in reasons["d.json"]
    (folder / "a.json").write_text("")
    with pytest.raises(SceneError, match=rf"{folder}: none of its 4 scenes can be used \(a.json: not JSON.*; and 1 more\)"):
        prepare_scenes(DriveConfig(scenes=str(folder)))


def test_scenes_with_levels_are_named(folder: Path, cache: Path, tiny_tree: MakeTree) -> None:
    tree = tiny_tree(cars=2)
    for car, height in zip(tree["objects"], (0.0, 8.0), strict=True):
        for point in car["position"]:
            point["z"] = height
    tree["objects"][1]["position"] = [{**point, "y": -1.75} for point in tree["objects"][1]["position"]]
    (folder / "b.json").write_text(json.dumps(tree))
    for _ in range(2):  # compiled, then from the cache
        ((name, text),) = prepare_scenes(DriveConfig(scenes=str(folder))).levels
        assert name == "b.json" and "1 pairs of paths that cross at another height (objects[0] and objects[1]: 8.0 m)" in text


def test_one_file(folder: Path, cache: Path) -> None:
    assert prepare_scenes(DriveConfig(scenes=str(folder / "b.json"))).scenes.names == ["b.json"]
    with pytest.raises(SceneError, match="c.json: the scene has a single frame"):
        prepare_scenes(DriveConfig(scenes=str(folder / "c.json")))


def test_nothing_to_drive_is_refused(folder: Path, cache: Path, tiny_tree: MakeTree, tmp_path: Path) -> None:
    with pytest.raises(SceneError, match='/nowhere: no such folder or file; it must be "generated", "generated:N"'):
        prepare_scenes(DriveConfig(scenes="/nowhere"))
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(SceneError, match=f"{empty}: the folder holds no scenes"):
        prepare_scenes(DriveConfig(scenes=str(empty)))
    (folder / "a.json").unlink()
    (folder / "b.json").unlink()
    with pytest.raises(SceneError, match=rf"{folder}: none of its 1 scenes can be used \(c.json: the scene has a single frame"):
        prepare_scenes(DriveConfig(scenes=str(folder)))
    (folder / "c.json").write_text(json.dumps(tiny_tree(speed_mps=0.0)))
    for control in ("moving", "valid"):
        with pytest.raises(SceneError, match=f"has an agent: control is {control}; there are 1 under control=sdc"):
            prepare_scenes(DriveConfig(scenes=str(folder), control=control))
    expert = tiny_tree(cars=2)
    expert["objects"][0]["mark_as_expert"] = expert["objects"][1]["mark_as_expert"] = True
    (folder / "c.json").write_text(json.dumps(expert))
    assert (prepare_scenes(valid := DriveConfig(scenes=str(folder), control="valid")).scenes.agents(valid) == [2]).all()


def test_more_agents_than_rows_are_refused(folder: Path, cache: Path) -> None:
    with pytest.raises(ConfigError, match="num_agents is 2, but b.json has 3 agents; raise num_agents"):
        prepare_scenes(DriveConfig(scenes=str(folder), num_agents=2))


def test_an_unwritable_cache_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path / "file"))
    with pytest.raises(SceneError, match="cannot be written: .*; set PUFFERVEC_CACHE to a folder that can"):
        prepare_scenes(DriveConfig(scenes=str(folder)))


def test_generated_sets_are_found_by_name(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int, bool]] = []
    original = generate.generate_scene

    def few(seed: int, index: int, wide: bool = False) -> Scene:
        asked.append((seed, index, wide))
        return original(seed, index % 2, wide)

    monkeypatch.setattr(generate, "generate_scene", few)
    monkeypatch.setattr(generate, "DEFAULT_COUNT", 3)
    monkeypatch.setattr(generate, "HELD_OUT_COUNT", 2)
    assert len(prepare_scenes(DriveConfig()).scenes) == 3
    assert len(prepare_scenes(DriveConfig(scenes="held-out")).scenes) == 2
    assert asked == [(1, 0, False), (1, 1, False), (1, 2, False), (1_000_003, 0, True), (1_000_003, 1, True)]


def test_as_many_generated_scenes_as_wanted(cache: Path) -> None:
    """The first of them are the same, however many there are."""
    two, three = (prepare_scenes(DriveConfig(scenes=f"generated:{count}")) for count in (2, 3))
    assert two.scenes.names == three.scenes.names[:2] and len(three.scenes) == 3
    assert prepare.scene_source("generated:200")[0] == prepare.scene_source("generated")[0]
    for wrong in ("generated:0", "generated:-1", "generated:x", "generated:100000", "generated:"):
        with pytest.raises(SceneError, match=f'{wrong}: no such folder or file; it must be "generated", "generated:N"'):
            prepare.scene_source(wrong)


def test_processes_compile_to_the_same_bytes(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prepare, "MANY", 6)
    monkeypatch.setattr("puffervec.process.parallel.usable_cores", lambda: 2)
    alone = prepare_scenes(DriveConfig(scenes="generated:6"))
    content = alone.path.read_bytes()
    alone.path.unlink()
    monkeypatch.setattr(prepare, "on_all_cores", functools.partial(on_all_cores, least=2))
    assert prepare_scenes(DriveConfig(scenes="generated:6")).path.read_bytes() == content
    assert capfd.readouterr().err == f"drive: compiling 6 scenes, once; they are kept in {cache / 'scenes'}\n" * 2


@pytest.mark.slow
def test_real_scenes(real_scenes: Path, cache: Path) -> None:
    prepared = prepare_scenes(DriveConfig(scenes=str(real_scenes)))
    assert len(prepared.scenes) == 7 and len(prepared.left_out) == 3
    assert isinstance(prepared.scenes, SceneSet)
    assert all(entry["bytes"] < 300_000 for entry in prepared.scenes.entries)
