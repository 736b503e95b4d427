# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Generated scenes: the same for a seed, in the current schema, varied, and writable from the
command line.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from drive_env.generate import generate
from drive_env.generate.generate import generate_scene, generate_tree, main
from drive_env.scenes.json_scene import generation_of
from drive_env.scenes.reader import read_usable, scene_files
from drive_env.scenes.schema import Scene
from puffervec.errors import SceneError


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    """Twelve scenes, half of them wide."""
    return [generate_scene(5, index, wide=index % 2 == 1) for index in range(12)]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_scene_and_others_differ() -> None:
    text = json.dumps(generate_tree(5, 3))
    assert json.dumps(generate_tree(5, 3)) == text
    assert (
        len({text, *(json.dumps(generate_tree(*key)) for key in ((5, 4), (6, 3), (5, 3, True)))})
        == 4
    )


def test_scenes_of_this_version_stay_what_they_are() -> None:
    assert generate.GENERATOR_VERSION == 3, (
        "new version: renew the list, and the baselines in docs/drive.md"
    )
    agents = [
        (scene.name.split("-")[1], *scene.agent_counts)
        for scene in (generate_scene(1, index) for index in range(8))
    ]
    assert agents == [
        ("cross", 4, 22), ("curve", 6, 6), ("tee", 4, 9), ("cross", 6, 7),
        ("tee", 5, 15), ("cross", 7, 7), ("cross", 6, 6), ("tee", 5, 5),
    ]  # fmt: skip


@pytest.mark.slow
def test_they_are_of_the_current_schema(scenes: list[Scene]) -> None:
    tree = generate_tree(5, 0)
    assert generation_of(tree) == "C"
    assert set(tree) == {"name", "scenario_id", "objects", "roads", "tl_states", "metadata"}
    keys = "position velocity heading valid width length height goalPosition type id mark_as_expert"
    assert set(tree["objects"][0]) == set(keys.split())
    absent = [item["position"][-1] for item in tree["objects"] if not item["valid"][-1]]
    assert absent and all(
        point == {"x": -10000.0, "y": -10000.0, "z": -10000.0} for point in absent
    )
    assert all(scene.frame_count == 91 for scene in scenes)


@pytest.mark.slow
def test_they_are_varied(scenes: list[Scene]) -> None:
    families = Counter(scene.name.split("-")[1] for scene in scenes)
    assert set(families) == {"straight", "curve", "tee", "cross"}
    agents = [scene.agent_counts[0] for scene in scenes]
    assert min(agents) >= generate.MIN_CARS and max(agents) <= 16 and len(set(agents)) > 4
    speeds = [
        np.hypot(*item.velocity_mps[0])
        for scene in scenes
        for item in scene.objects
        if item.controllable
    ]
    assert np.percentile(speeds, 10) < 5 and np.percentile(speeds, 90) > 8
    assert any(item.expert for scene in scenes for item in scene.objects)
    assert any(item.valid_at_start and not item.moves for scene in scenes for item in scene.objects)


def test_goals_are_where_logs_end(scenes: list[Scene]) -> None:
    for scene in scenes:
        for item in scene.objects:
            last = int(np.flatnonzero(item.valid)[-1])
            np.testing.assert_array_equal(item.goal_m, item.position_m[last])
            assert not item.controllable or last <= 76


def test_velocities_are_those_of_the_positions(scenes: list[Scene]) -> None:
    for scene in scenes[:6]:
        for item in scene.objects:
            frames = np.flatnonzero(item.valid)
            if len(frames) < 4:
                continue
            moved = (item.position_m[frames[2:], :2] - item.position_m[frames[:-2], :2]) / 0.2
            assert np.abs(moved - item.velocity_mps[frames[1:-1]]).max() < 0.35


def test_negative_seeds_are_refused() -> None:
    with pytest.raises(SceneError, match="seed -1 and index 0 must be 0 or more"):
        generate_tree(-1, 0)


def test_the_command_writes_scenes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path / "out"), "--count", "3", "--seed", "11"]) == 0
    assert "3 scenes written" in capsys.readouterr().out
    found = [read_usable(path) for path in scene_files(tmp_path / "out")]
    assert len(found) == 3 and all(isinstance(item, Scene) for item in found)
    assert json.loads(sorted((tmp_path / "out").glob("*.json"))[0].read_text())["tl_states"] == {}


def test_the_command_refuses_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path), "--count", "0"]) == 2
    assert capsys.readouterr().err == "error: --count is 0; it must be at least 1\n"
    (tmp_path / "file").write_text("")
    assert main(["--out", str(tmp_path / "file"), "--count", "1"]) == 2
    assert "error: " in capsys.readouterr().err
