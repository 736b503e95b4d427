# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Who counts as moving, valid and controllable."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from drive_env.scenes.json_scene import scene_from_tree
from drive_env.scenes.schema import SceneObject


@pytest.fixture
def car(tiny_tree: Callable[..., dict[str, Any]]) -> SceneObject:
    """A car at (0, -1.75) in frame 0 whose goal is 14.5 m ahead."""
    return scene_from_tree(tiny_tree(cars=1), "t", "t").objects[0]


def test_a_car_with_a_goal_is_controllable(car: SceneObject) -> None:
    assert car.valid_at_start and car.moves and car.controllable


@pytest.mark.parametrize(("goal_x", "moves"), [(1.99, False), (2.0, True)])
def test_goals_two_metres_away_count(car: SceneObject, goal_x: float, moves: bool) -> None:
    near = dataclasses.replace(car, goal_m=np.array([goal_x, -1.75, 0.0]))
    assert near.moves is moves and near.controllable is moves


def test_experts_latecomers_and_pedestrians_are_not_controlled(car: SceneObject) -> None:
    late = car.valid.copy()
    late[0] = False
    assert not dataclasses.replace(car, expert=True).controllable
    assert not dataclasses.replace(car, valid=late).moves
    assert (
        not dataclasses.replace(car, type=1).controllable and dataclasses.replace(car, type=1).moves
    )


def test_counts_of_a_scene(tiny_tree: Callable[..., dict[str, Any]]) -> None:
    tree = tiny_tree(cars=4)
    tree["objects"][0]["mark_as_expert"] = True
    tree["objects"][1]["type"] = "cyclist"
    tree["objects"][2]["valid"][0] = False
    assert scene_from_tree(tree, "t", "t").agent_counts == (1, 2)
