# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Test goals that nothing in a scene leads to: they are replaced, and named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.scenes.compile import CompileSettings, compile_scene
from drive_env.scenes.goals import remarks_on_goals, with_near_goals
from drive_env.scenes.json_scene import scene_from_tree
from drive_env.scenes.sceneset import SceneSet, write_scene_set

MakeTree = Callable[..., dict[str, Any]]
SETTINGS = CompileSettings((16, 8, 16), 50.0)


@pytest.mark.parametrize(("beside_m", "replaced"), [(10_800.0, True), (400.0, False)])
def test_a_goal_far_from_everything_becomes_the_last_position(
    tiny_tree: MakeTree, tmp_path: Path, beside_m: float, replaced: bool
) -> None:
    """Replace a goal kilometres away, of a car that leaves early; keep one within 500 m."""
    tree = tiny_tree(frames=30, cars=2)
    tree["objects"][1]["valid"][20:] = [False] * 10
    tree["objects"][1]["goalPosition"]["y"] += beside_m
    scene = scene_from_tree(tree, "t", "t")
    compiled = compile_scene(scene, SETTINGS)
    write_scene_set(tmp_path / "one.pvset", [compiled], SETTINGS)
    head, arrays = SceneSet(tmp_path / "one.pvset").scene(0)
    goals = np.stack([arrays["objects"]["goal_x_m"], arrays["objects"]["goal_y_m"]], axis=-1)
    expected = [item.goal_m[:2] for item in scene.objects]
    expected[1] = scene.objects[1].position_m[19, :2] if replaced else expected[1]
    origin = [head["origin_x"], head["origin_y"]]
    np.testing.assert_allclose(goals + origin, expected, atol=1e-3)
    assert compiled.moving_vehicles == 2
    remarks = remarks_on_goals(scene)
    assert len(remarks) == replaced
    assert all(line.startswith("objects[1]: its goal lies 10") for line in remarks)


def test_other_scenes_are_returned_as_they_are(tiny_tree: MakeTree) -> None:
    """Copy nothing where no goal is far, and where no object is present."""
    scene = scene_from_tree(tiny_tree(), "t", "t")
    assert with_near_goals(scene) is scene and remarks_on_goals(scene) == []
    tree = tiny_tree(cars=1)
    tree["objects"][0]["valid"] = [False] * len(tree["objects"][0]["valid"])
    empty = scene_from_tree(tree, "t", "t")
    assert with_near_goals(empty) is empty
