# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Scenes in which cars pass above or below each other say so; flat and sloping ones do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drive_env.scenes.json_scene import scene_from_tree
from drive_env.scenes.levels import height_conflicts
from drive_env.scenes.reader import read_usable, scene_files
from drive_env.scenes.schema import Scene

MakeTree = Callable[..., dict[str, Any]]
Place = Callable[[float, float], float]


def scene_of(tree: dict[str, Any], height: Place = lambda x, y: 0.0) -> Scene:
    """The scene, with everything raised by what `height` says of its place."""
    for item in tree["objects"]:
        for point in item["position"]:
            point["z"] += height(point["x"], point["y"]) + item["height"] / 2
    for road in tree["roads"]:
        for point in road["geometry"]:
            point["z"] += height(point["x"], point["y"])
    return scene_from_tree(tree, "t", "t")


@pytest.fixture
def bridge(tiny_tree: MakeTree) -> dict[str, Any]:
    """Two cars along +x, and one that crosses them at x = 30, 8 m above, at another time."""
    tree = tiny_tree(frames=60, cars=3)
    for step, point in enumerate(tree["objects"][2]["position"]):
        point.update(x=30.0, y=40.0 - step, z=8.0)
    tree["objects"][2].update(heading=[-1.57] * 60, goalPosition={"x": 30.0, "y": -19.0, "z": 8.0})
    return tree


def test_a_car_that_crosses_8_m_above(bridge: dict[str, Any]) -> None:
    text = height_conflicts(scene_of(bridge))
    assert text.startswith("height is not simulated") and "2 pairs of paths that cross at another height (objects[" in text
    assert "1 paths that cross a road edge at another height (objects[2]: 8.0 m)" in text


def test_the_same_on_one_level(bridge: dict[str, Any]) -> None:
    for point in bridge["objects"][2]["position"]:
        point["z"] = 0.0
    assert height_conflicts(scene_of(bridge)) == ""


@pytest.mark.parametrize("slope", [0.05, 0.12])
def test_slopes_are_no_levels(tiny_tree: MakeTree, slope: float) -> None:
    assert height_conflicts(scene_of(tiny_tree(frames=90, cars=6), lambda x, y: slope * x)) == ""


def test_what_stands_is_no_agent_and_does_not_count(tiny_tree: MakeTree) -> None:
    tree = tiny_tree(cars=2, speed_mps=0.0)
    for item, height in zip(tree["objects"], (0.0, 3.0), strict=True):  # one parked above the other
        item["position"] = [{"x": 0.0, "y": 0.0, "z": height} for _ in item["position"]]
        item["goalPosition"] = {"x": 0.0, "y": 0.0, "z": height}
    assert height_conflicts(scene_of(tree)) == ""


def test_real_scenes_of_one_level(real_scenes: Path) -> None:
    for scene in map(read_usable, scene_files(real_scenes)):
        if isinstance(scene, Scene):
            assert height_conflicts(scene) == ""
