# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Long scenes in windows (drive_env/scenes/windows.py), for `--scenes` and `convert`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from drive_env import cli
from drive_env.config import DriveConfig
from drive_env.prepare import prepare_scenes
from drive_env.scenes import open_scenes, write_scenes
from drive_env.scenes.controls import controls_of
from drive_env.scenes.json_scene import scene_from_tree
from drive_env.scenes.reader import read_scene
from drive_env.scenes.windows import frames_in, windows_of
from drive_env.sources import id_of, sources_of, split_of
from puffervec.errors import ConfigError

MakeTree = Callable[..., dict[str, Any]]
FRAMES = 205


def tree_of(make: MakeTree, frames: int = FRAMES) -> dict[str, Any]:
    """A scene whose second car leaves after 95 frames, with a light that changes in every frame."""
    made = make(frames=frames)
    made["objects"][1]["valid"] = [frame < 95 for frame in range(frames)]
    made["objects"][1]["goalPosition"] = {"x": 500.0, "y": 1.75, "z": 0.0}
    words = [("stop", "caution", "go")[frame % 3] for frame in range(frames)]
    place = {axis: [0.0] * frames for axis in "xyz"}
    made["tl_states"] = {"0": {"state": words, **place, "time_index": [*range(frames)]}}
    made["metadata"] = {"sdc_track_index": 1, "current_time_index": 100}
    return made


def test_windows_are_the_scene_one_after_the_other(tiny_tree: MakeTree) -> None:
    scene = scene_from_tree(tree_of(tiny_tree), "here", "long.json")
    scene = dataclasses.replace(scene, left_out={"things": 3})
    windows = windows_of(scene, 91)
    assert [window.frame_count for window in windows] == [91, 91, 23]
    assert [window.name for window in windows] == [f"long.json.window-{k}" for k in range(3)]
    for number, item in enumerate(scene.objects):
        parts = [window.objects[number] for window in windows]
        for name in ("position_m", "velocity_mps", "heading_rad", "valid"):
            joined = np.concatenate([getattr(part, name) for part in parts])
            np.testing.assert_array_equal(joined, getattr(item, name))
    (light,) = controls_of(scene)
    states = [controls_of(window)[0].states for window in windows]
    np.testing.assert_array_equal(np.concatenate(states), light.states)
    assert all(window.roads is scene.roads and window.sdc == 1 for window in windows)
    times = [window.metadata.get("current_time_index") for window in windows]
    assert times == [None, 9, None]
    assert [dict(window.left_out) for window in windows] == [{"things": 3}, {}, {}]


def test_the_goal_of_a_window_is_its_last_position(tiny_tree: MakeTree) -> None:
    scene = scene_from_tree(tree_of(tiny_tree), "here", "long.json")
    first, second, third = windows_of(scene, 91)
    stays, leaves = scene.objects
    assert first.objects[0].goal_m.tolist() == stays.position_m[90].tolist()
    assert second.objects[0].goal_m.tolist() == stays.position_m[181].tolist()
    assert third.objects[0].goal_m.tolist() == stays.goal_m.tolist()
    # The second car is last present in the second window, so its goal counts there.
    assert first.objects[1].goal_m.tolist() == leaves.position_m[90].tolist()
    assert second.objects[1].goal_m.tolist() == [500.0, 1.75, 0.0]
    assert not third.objects[1].valid.any()
    assert first.objects[0].moves and third.objects[0].moves


def test_short_scenes_stay_as_they_are(tiny_tree: MakeTree) -> None:
    scene = scene_from_tree(tiny_tree(frames=91), "here", "short")
    assert windows_of(scene, 91) == [scene] and windows_of(scene, 0) == [scene]
    (first, second) = windows_of(scene_from_tree(tiny_tree(frames=92), "here", "a"), 46)
    assert first.frame_count == second.frame_count == 46
    (only,) = windows_of(scene_from_tree(tiny_tree(frames=92), "here", "a"), 91)
    assert only.left_out == {"frames after the last window": 1}
    assert frames_in(9.1) == 91 and frames_in(0.0) == 0


def test_windows_have_the_id_and_the_split_of_their_scene(
    tiny_tree: MakeTree, tmp_path: Path
) -> None:
    names = ("a.json", "a.window-0.json", "b/a.json.window-12", "a.window-3.pvs")
    assert {id_of(name) for name in names} == {"a"}
    record = "tfrecord-00000-of-01000_325"
    assert split_of(id_of(f"{record}.window-4")) == split_of(id_of(record))
    (tmp_path / "long.json").write_text(json.dumps(tree_of(tiny_tree)))
    out = tmp_path / "out"
    line = ["convert", str(tmp_path / "long.json"), "--out", str(out), "--window-s", "9.1"]
    assert cli.main([*line, "--to", "json"]) == 0
    assert {item.id for item in sources_of(str(out))[0].items} == {"long"}


# ---- driving -------------------------------------------------------------------------------------


def driven(path: Path, **settings: Any) -> list[tuple[str, int]]:
    """Return names and frames of the scenes that an env draws."""
    scenes = prepare_scenes(DriveConfig(scenes=str(path), **settings)).scenes
    return [(scene.name, scene.frame_count) for scene in scenes]


@pytest.mark.parametrize("kind", ["json", "pvs"])
def test_long_scenes_are_driven_whole_or_in_windows(
    kind: str, tiny_tree: MakeTree, tmp_path: Path, cache: Path
) -> None:
    folder = tmp_path / "scenes"
    folder.mkdir()
    tree = tree_of(tiny_tree)
    path = folder / f"long.{kind}"
    if kind == "json":
        path.write_text(json.dumps(tree))
    else:
        write_scenes(path, [scene_from_tree(tree, "here", "long")])
    name = "long.json" if kind == "json" else "long"
    cut = [(f"{name}.window-0", 91), (f"{name}.window-1", 91), (f"{name}.window-2", 23)]
    assert driven(path) == [(name, FRAMES)]
    assert driven(path, window_s=9.1) == cut
    (folder / "short.json").write_text(json.dumps(tiny_tree(frames=30)))
    assert driven(folder, window_s=9.1) == [*cut, ("short.json", 30)]
    assert driven(folder, window_s=30.0) == [(name, FRAMES), ("short.json", 30)]
    settings = {"scenes": str(path), "window_s": 9.1, "num_agents": 8}
    with puffervec.make("drive", env_kwargs=settings, backend="serial", num_envs=1) as vec:
        vec.reset(seed=1)
        for _ in range(100):
            vec.step(np.zeros(vec.num_agents, dtype=np.int64))


def test_windows_of_a_compiled_scene_keep_its_roads(
    tiny_tree: MakeTree, tmp_path: Path, cache: Path
) -> None:
    path = tmp_path / "long.pvs"
    write_scenes(path, [scene_from_tree(tree_of(tiny_tree), "here", "long")])
    (whole,) = open_scenes(path)
    config = DriveConfig(scenes=str(path), window_s=9.1)
    frames = []
    for window in prepare_scenes(config).scenes:
        assert len(window.sections["x"]) == len(whole.sections["x"])
        ends = [whole.scene().roads, window.scene().roads]
        for one, other in zip(*ends, strict=True):
            np.testing.assert_allclose(one.points_m, other.points_m, atol=1e-3)
        frames.append(window.scene().objects[0].position_m)
    np.testing.assert_allclose(
        np.concatenate(frames), whole.scene().objects[0].position_m, atol=1e-3
    )


@pytest.mark.parametrize("value", [-1.0, 0.1, 2000.0, float("nan")])
def test_a_window_of_no_use_is_refused(value: float) -> None:
    with pytest.raises(ConfigError, match="window_s"):
        DriveConfig(window_s=value)


# ---- converting ----------------------------------------------------------------------------------


def test_converted_windows(
    tiny_tree: MakeTree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "long.json").write_text(json.dumps(tree_of(tiny_tree)))
    (folder / "short.json").write_text(json.dumps(tiny_tree(frames=30)))
    line = ["convert", str(folder), "--out", str(out), "--window-s", "9.1"]
    for kind in ("json", "bin"):
        assert cli.main([*line, "--to", kind]) == 0
        assert "windows: 1 scenes were cut into 3" in capsys.readouterr().out
        written = sorted(path.name for path in out.glob(f"*.{kind}"))
        assert written == [*(f"long.window-{k}.{kind}" for k in range(3)), f"short.{kind}"]
        counts = [read_scene(out / name).frame_count for name in written]
        assert counts == [91, 91, 23, 30]
    assert cli.main([*line, "--json"]) == 0  # one file of all windows
    assert json.loads(capsys.readouterr().out)["windows"] == 3
    assert [scene.frame_count for scene in open_scenes(out / "long.pvs")] == [91, 91, 23]
    again = ["convert", str(out / "long.pvs"), "--out", str(tmp_path / "more"), "--window-s", "5"]
    assert cli.main(again) == 0
    files = sorted((tmp_path / "more").rglob("*.pvs"))
    counts = [scene.frame_count for path in files for scene in open_scenes(path)]
    assert sorted(counts) == [23, 41, 41, 50, 50]
