# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Control modes: who is an agent in C, in the learner, and by the rules; what is said where nobody
is.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.config import CONTROLS, DriveConfig
from drive_env.prepare import prepare_scenes
from drive_env.scenes.schema import Scene
from puffervec.errors import ConfigError, SceneError
from tests.drive_env.worlds import make_env, random_scene, write_world
from tests.twins.drive import SceneTwin

MakeTree = Callable[..., dict[str, Any]]


def ids_of(settings: dict[str, Any], scenes: list[Scene]) -> dict[str, Any]:
    """The settings with some ids of the scenes where they ask for a list."""
    listed = tuple(item.id for item in scenes[0].objects[::3])
    return settings | ({"control_ids": listed} if settings["control"] == "ids" else {})


def with_experts(scene: Scene) -> Scene:
    """The scene; every third object is marked as expert."""
    marked = (
        dataclasses.replace(item, expert=number % 3 == 1)
        for number, item in enumerate(scene.objects)
    )
    return dataclasses.replace(scene, objects=tuple(marked))


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize(
    "start",
    [{}, {"init_step": 7, "goal_radius_m": 5.0}, {"init_step": 19, "max_steps": 5}],
    ids=str,
)
def test_agents_are_those_of_the_rules(tmp_path: Path, control: str, start: dict[str, Any]) -> None:
    worlds = [with_experts(random_scene(seed)) for seed in (1, 2)]
    scenes = write_world(tmp_path / "set", worlds)
    with make_env(
        tmp_path / "set", num_agents=200, **ids_of({"control": control, **start}, worlds)
    ) as vec:
        expected = [SceneTwin(scenes, index).controlled(vec.config) for index in range(2)]
        vec.set_tasks([0], [int(not expected[0])])
        vec.reset(0)
        state, rows = vec.peek(0), vec.halves[0].groups["agents"]
        scene = int(state["slot_scene"][0])
        assert expected[scene] and state["object"][state["slot"] == 0].tolist() == expected[scene]
        assert rows.agent_types[rows.masks].tolist() == [
            worlds[scene].objects[o].type for o in expected[scene]
        ]
        assert scenes.agents(vec.config).tolist() == [len(found) for found in expected]


def test_a_mode_without_agents_says_which_mode_has_some(
    tiny_tree: MakeTree, tmp_path: Path, cache: Path
) -> None:
    tree = tiny_tree(cars=3)
    for item in tree["objects"]:
        item["mark_as_expert"] = True
    (tmp_path / "a.json").write_text(json.dumps(tree))
    with pytest.raises(
        SceneError,
        match="its 1 scenes has an agent: control is moving; there are 3 under control=valid",
    ):
        prepare_scenes(DriveConfig(scenes=str(tmp_path / "a.json")))
    with pytest.raises(
        SceneError,
        match="init_step is 40, but the longest of their logs has 30 frames: it must be at most 28",
    ):
        prepare_scenes(DriveConfig(scenes=str(tmp_path / "a.json"), control="valid", init_step=40))


def test_ids_that_no_scene_has_are_named(tiny_tree: MakeTree, tmp_path: Path, cache: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(tiny_tree(cars=3)))
    given = {"scenes": str(tmp_path / "a.json"), "control": "ids"}
    prepared = prepare_scenes(config := DriveConfig(**given, control_ids=[102, 100, 102]))
    assert prepared.scenes.agents(config).tolist() == [2]
    with pytest.raises(
        ConfigError, match="control_ids names 7, 8, but no scene .* its ids are 100, 101, 102"
    ):
        prepare_scenes(DriveConfig(**given, control_ids=(7, 8, 100)))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"control": "ids"},
            "control is ids and control_ids is (): set control_ids to the agents' track ids",
        ),
        ({"control_ids": (3,)}, "control is moving and control_ids is (3,): set control to ids"),
        (
            {"control": "ids", "control_ids": (1.5,)},
            "control_ids is (1.5,); it must be a list of whole numbers",
        ),
        ({"control": "ids", "control_ids": "12"}, "control_ids is '12'; it must be a list"),
        (
            {"control": "everybody"},
            "control is 'everybody'; it must be one of moving, valid, all, predict, sdc, ids",
        ),
    ],
    ids=str,
)
def test_lists_that_cannot_be_are_refused(settings: dict[str, Any], text: str, cache: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        prepare_scenes(DriveConfig(**settings, scenes="generated:1"))
    assert text in str(caught.value)


@pytest.mark.parametrize("control", ["sdc", "predict", "ids"])
def test_a_parked_car_is_no_success(tmp_path: Path, control: str) -> None:
    """Chosen by name it is an agent, but its goal is where it stands: it never reaches it, and is
    paid nothing for it.
    """
    scene = random_scene(3, objects=4, roads=0)
    parked = scene.metadata["sdc_track_index"]
    scene.objects[parked].goal_m[:2] = scene.objects[parked].position_m[0, :2]
    write_world(tmp_path / "set", [scene])
    listed = {"control_ids": (scene.objects[parked].id,)} if control == "ids" else {}
    with make_env(tmp_path / "set", control=control, **listed, partners=0) as vec:
        vec.reset(0)
        row = int(np.flatnonzero(vec.peek(0)["object"] == parked)[0])
        for _ in range(12):
            _, rewards, terminals, *_ = vec.step(np.full(vec.num_agents, 45))
            assert not vec.peek(0)["reached"][row] and not terminals[row] and rewards[row] <= 0
