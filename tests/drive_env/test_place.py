# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Vehicles placed on maps: apart from each other and from road edges, on the road, with goals that
can be reached; the same for the same seed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from drive_env.config import DriveConfig
from drive_env.evaluate.evaluate import evaluate, held_out
from drive_env.generate.generate import generate_scene
from drive_env.generate.place import LATERAL_MPS2, LEVEL_M, place
from drive_env.generate.streets import street_scene
from drive_env.prepare import prepare_scenes
from drive_env.scenes.json_scene import tree_of
from drive_env.scenes.schema import LaneLinks, Road, Scene
from puffervec.errors import ConfigError, SceneError
from tests.drive_env.worlds import Straight
from tests.twins.drive import corners, gap, segment_in_box

PER_KM = 25.0


def maps() -> Iterator[Scene]:
    """Maps of both generators, large and small."""
    for index in itertools.count():
        yield street_scene(7, index) if index % 2 else generate_scene(7, index)


def check(scene: Scene) -> None:
    """Boxes are apart and off the edges, and every goal lies on a way from the start."""
    cars = [
        (*item.position_m[0, :2], float(item.heading_rad[0]), item.length_m, item.width_m)
        for item in scene.objects
    ]
    boxes = [corners(*car) for car in cars]
    centres = np.array([item.position_m[0] for item in scene.objects])
    for one, other in itertools.combinations(range(len(cars)), 2):
        across = centres[one] - centres[other]
        if np.hypot(*across[:2]) < 12 and abs(across[2]) < LEVEL_M:
            assert gap(boxes[one], boxes[other]) > 0
    edges = [road.points_m for road in scene.roads if road.type == "road_edge"]
    starts = np.concatenate([points[:-1] for points in edges])
    ends = np.concatenate([points[1:] for points in edges])
    apart = (starts + ends)[:, None] / 2 - centres
    reach_m = 10 + np.linalg.norm(ends - starts, axis=1)[:, None]
    same_level = np.abs(apart[..., 2]) < LEVEL_M
    near = (np.linalg.norm(apart[..., :2], axis=2) < reach_m) & same_level
    for edge, car in np.argwhere(near):
        assert not segment_in_box(starts[edge, :2], ends[edge, :2], cars[car], 0.0)
    reach = Ways(scene)
    for item in scene.objects:
        assert item.moves and item.valid.tolist() == [True] + [False] * (scene.frame_count - 1)
        assert reach.connects(item.position_m[0, :2], item.goal_m[:2])


class Ways:
    """Which lanes lead to which, by the ends of their points."""

    def __init__(self, scene: Scene) -> None:
        self.lanes = [road.points_m[:, :2] for road in scene.roads if road.type == "lane"]
        starts = np.array([lane[0] for lane in self.lanes])
        self.exits = [
            np.flatnonzero(np.hypot(*(starts - lane[-1]).T) < 0.11).tolist() for lane in self.lanes
        ]

    def on(self, point: np.ndarray) -> list[tuple[int, float]]:
        """Lanes through a point, with how far along them it is."""
        found = []
        for number, lane in enumerate(self.lanes):
            step = np.diff(lane, axis=0)
            length = np.maximum(np.hypot(*step.T), 1e-9)
            t = np.clip(((point - lane[:-1]) * step).sum(axis=1) / length**2, 0, 1)
            away = np.hypot(*(lane[:-1] + t[:, None] * step - point).T)
            at = int(away.argmin())
            if away[at] < 1e-3:
                found.append((number, float(length[:at].sum() + t[at] * length[at])))
        return found

    def connects(self, start: np.ndarray, goal: np.ndarray) -> bool:
        goals = self.on(goal)
        for number, along in self.on(start):
            if any(other == number and at >= along for other, at in goals):
                return True
            seen, todo = set(), list(self.exits[number])
            while todo:
                lane = todo.pop()
                if lane in seen:
                    continue
                if any(other == lane for other, _ in goals):
                    return True
                seen.add(lane)
                todo += self.exits[lane]
        return False


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 1000])
def test_placed_vehicles_are_apart_on_the_road_and_reach_their_goals(count: int) -> None:
    vehicles = 0
    for number, scene in enumerate(itertools.islice(maps(), count)):
        placed = place(scene, 3, number, PER_KM)
        check(placed)
        vehicles += len(placed.objects)
    assert vehicles > 10 * count


@pytest.mark.slow
def test_the_env_sees_no_contact_at_the_start(tmp_path: Path, cache: Path) -> None:
    """In the env, before and after the first step without steering."""
    settings = {"scenes": "streets:6", "placements": 3, "vehicles_per_km": PER_KM}
    config = DriveConfig(**settings, num_agents=400)
    with puffervec.make("drive", env_kwargs=config, backend="serial", num_envs=1) as vec:
        vec.reset(0)
        for _ in range(2):
            state = vec.peek(0)
            active = state["active"] == 1
            assert active.sum() > 30
            assert not state["collided"][active].any() and not state["offroad"][active].any()
            vec.step(np.full(vec.num_agents, 45))


def digest(scene: Scene) -> str:
    return hashlib.sha256(json.dumps(tree_of(scene), sort_keys=True).encode()).hexdigest()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_scene() -> None:
    scene = street_scene(7, 1)
    found = {
        (seed, number): digest(place(scene, seed, number, PER_KM))
        for seed in (0, 1)
        for number in (0, 1)
    }
    assert len(set(found.values())) == 4
    assert found[1, 1] == digest(place(scene, 1, 1, PER_KM))


def test_density_is_vehicles_per_km_of_lane() -> None:
    scene = street_scene(7, 1)
    km = sum(
        float(np.hypot(*np.diff(road.points_m[:, :2], axis=0).T).sum()) / 1000
        for road in scene.roads
        if road.type == "lane"
    )
    for per_km in (5.0, 20.0):
        assert len(place(scene, 0, 0, per_km).objects) == pytest.approx(per_km * km, abs=1)


def straight(length_m: float, limit_mps: float = 0.0, kind: int = 2) -> Scene:
    """A map of one lane without a log."""
    points = np.stack([np.arange(0.0, length_m + 1), *np.zeros((2, int(length_m) + 1))], axis=-1)
    lane = Road("lane", kind, 1, points, LaneLinks(speed_limit_mps=limit_mps))
    return Scene("one.xodr", "", 1, (), (lane,), {}, {})


def test_speeds_keep_to_the_limit_and_the_bend() -> None:
    limit = 6.0
    fast = place(straight(3000.0, limit), 0, 0, 20.0)
    speeds = [float(np.hypot(*item.velocity_mps[0])) for item in fast.objects]
    assert 0.5 * limit < max(speeds) <= limit

    angle = np.linspace(0, 6.0, 400)
    points = np.stack([15 * np.cos(angle), 15 * np.sin(angle), 0 * angle], axis=-1)
    ring = dataclasses.replace(straight(10.0), roads=(Road("lane", 2, 1, points),))
    speeds = [
        float(np.hypot(*item.velocity_mps[0]))
        for number in range(30)
        for item in place(ring, 0, number, 10.0).objects
    ]
    assert max(speeds) <= 1.02 * np.sqrt(15 * LATERAL_MPS2)


def test_a_full_map_counts_the_vehicles_without_room() -> None:
    scene = place(straight(100.0), 0, 0, 200.0)
    assert 1 < len(scene.objects) < 20
    assert scene.left_out["vehicles without room"] == 20 - len(scene.objects)
    assert scene.frame_count == 91


@pytest.mark.parametrize(
    ("scene", "reason"),
    [
        (dataclasses.replace(straight(50.0), roads=()), "the map has no lanes for them"),
        (straight(50.0, kind=3), "the map has no lanes for them"),
        (straight(8.0), "none had room between the road edges and a way of 10 m"),
    ],
)
def test_maps_without_room_are_refused(scene: Scene, reason: str) -> None:
    with pytest.raises(SceneError, match=f"^one.xodr: no vehicle can be placed: .*{reason}"):
        place(scene, 0, 0, 8.0)


# ---- the settings --------------------------------------------------------------------------------


def test_a_folder_of_maps_is_driven_with_placements(
    tiny_tree: Callable[..., dict[str, Any]], tmp_path: Path, cache: Path
) -> None:
    """A scene without objects is refused as it is; with placements it is driven."""
    folder = tmp_path / "scenes"
    folder.mkdir()
    (folder / "logged.json").write_text(json.dumps(tiny_tree()))
    (folder / "empty.json").write_text(json.dumps({**tiny_tree(), "objects": []}))
    as_logged = prepare_scenes(DriveConfig(scenes=str(folder)))
    assert len(as_logged.scenes) == 1
    (left_out,) = as_logged.left_out
    assert "--env.placements" in left_out.reason

    config = DriveConfig(scenes=str(folder), placements=3, vehicles_per_km=30.0)
    prepared = prepare_scenes(config)
    assert len(prepared.scenes) == 6 and not prepared.left_out
    outcome = evaluate(Straight(), config)
    assert len(outcome.scenes) == 6 and outcome.total.counts["goal"] > 0


def test_a_pvs_file_is_a_map_too(tmp_path: Path, cache: Path) -> None:
    prepared = prepare_scenes(DriveConfig(scenes="generated:2"))
    config = DriveConfig(scenes=str(prepared.path), placements=2)
    names = prepare_scenes(config).scenes.names
    assert len(names) == 4 and all("-placed-0-" in name for name in names)


def test_a_run_on_placements_is_evaluated_on_others() -> None:
    config = DriveConfig(scenes="streets:3", placements=5)
    other = held_out(config)
    assert (other.placements, other.placement_seed != config.placement_seed) == (5, True)
    assert held_out(DriveConfig()).placement_seed == 0


@pytest.mark.parametrize(
    ("name", "value"), [("placements", -1), ("vehicles_per_km", 0.0), ("placement_seed", 2.5)]
)
def test_wrong_placements_are_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{name} is {value}"):
        DriveConfig(**{name: value})
