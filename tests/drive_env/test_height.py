# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Heights (csrc/drive/motion/height.c): no contact across levels, cars stand on their road, and
flat scenes are as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.scenes import packed
from drive_env.scenes.sceneset import SceneSet
from drive_env.scenes.schema import Road, Scene, SceneObject
from puffervec.vec.vector_env import VectorEnv
from tests.drive_env.worlds import make_env, write_world
from tests.twins.drive import corners, gap, segment_in_box

MARGIN_M = 1e-3
LEAST_HEIGHT_M, EDGE_M = 1.0, 2.0
STRAIGHT = 3 * 13 + 6  # no acceleration, no steering
Height = Callable[[np.ndarray], np.ndarray]


def car(
    points: np.ndarray,
    heading: float,
    speed_mps: float = 10.0,
    size: tuple[float, float, float] = (4.5, 2.0, 1.5),
) -> SceneObject:
    """A vehicle whose underside is at the points (T, 3); its goal is far away."""
    frames = len(points)
    length, width, height = size
    velocity = np.tile([speed_mps * np.cos(heading), speed_mps * np.sin(heading)], (frames, 1))
    centre = points + [0.0, 0.0, height / 2]
    return SceneObject(
        0,
        -1,
        width,
        length,
        height,
        False,
        centre,
        velocity,
        np.full(frames, heading),
        np.ones(frames, bool),
        centre[-1] + 500.0,
    )


def scene_of(objects: list[SceneObject], roads: list[Road], has_height: bool = True) -> Scene:
    return Scene(
        "levels", "", len(objects[0].valid), tuple(objects), tuple(roads), {}, {}, has_height
    )


def along(
    start: tuple[float, float], heading: float, frames: int, height: Height, step_m: float = 1.0
) -> np.ndarray:
    """Points (T, 3) of a straight drive over ground of some height."""
    xy = np.array(start) + step_m * np.arange(frames)[:, None] * [np.cos(heading), np.sin(heading)]
    return np.column_stack([xy, height(xy)])


def road(kind: str, start: tuple[float, float], end: tuple[float, float], height: Height) -> Road:
    xy = np.linspace(start, end, 201)
    return Road(kind, 2 if kind == "lane" else 15, -1, np.column_stack([xy, height(xy)]))


def flat(xy: np.ndarray) -> np.ndarray:
    return np.zeros(len(xy))


def bridge(xy: np.ndarray) -> np.ndarray:
    return np.full(len(xy), 8.0)


def ramp(xy: np.ndarray) -> np.ndarray:
    """Up 8 m over 100 m, from x = 0 on."""
    return np.asarray(np.clip(0.08 * xy[:, 0], 0.0, 8.0))


def drive(path: Path, scene: Scene, steps: int, **settings: Any) -> list[dict[str, np.ndarray]]:
    """States of an env after reset and each step, all cars going straight on."""
    write_world(path, [scene])
    with make_env(path, control=1, num_agents=len(scene.objects), **settings) as vec:
        vec.reset(seed=0)
        states = [vec.peek(0)]
        for _ in range(steps):
            vec.step(np.full(vec.num_agents, STRAIGHT))
            states.append(vec.peek(0))
    return states


def crossing(above: Height, has_height: bool = True) -> Scene:
    """One car along +x at height 0; one along -y, which it meets at (20, 0), over the road edges of
    the first.
    """
    low = car(along((0, 0), 0.0, 60, flat), 0.0)
    high = car(along((20, 20), -np.pi / 2, 60, above), -np.pi / 2)
    roads = [
        road("lane", (-10, 0), (90, 0), flat), road("road_edge", (-10, 4), (90, 4), flat),
        road("lane", (20, 60), (20, -60), above), road("road_edge", (24, 60), (24, -60), above),
    ]  # fmt: skip
    return scene_of([low, high], roads, has_height)


@pytest.mark.parametrize("replay_log", [0, 1])
@pytest.mark.parametrize("level", ["bridge", "one level", "unknown"])
def test_cars_that_cross(tmp_path: Path, replay_log: int, level: str) -> None:
    """8 m apart they touch neither each other nor the edges of the other road; on one level, or if
    nobody knows, they do.
    """
    scene = crossing(flat if level == "one level" else bridge, level != "unknown")
    states = drive(tmp_path / "set", scene, 35, replay_log=replay_log)
    touched = [any(state[flag].any() for state in states) for flag in ("collided", "offroad")]
    assert touched == ([False, False] if level == "bridge" else [True, True])


def test_a_car_stands_on_its_ramp(tmp_path: Path) -> None:
    """It follows the road up 8 m, while another goes straight on below the bridge that the ramp
    becomes.
    """
    up = car(along((-20, 0), 0.0, 90, ramp), 0.0)
    below = car(along((60, -40), np.pi / 2, 90, flat), np.pi / 2)
    roads = [road("lane", (-30, 0), (90, 0), ramp), road("lane", (60, -50), (60, 60), flat)]
    states = drive(tmp_path / "set", scene_of([up, below], roads), 85)
    for state in states:
        expected = ramp(
            np.array([[state["x"][0], state["y"][0]]]) + origin_of(tmp_path / "set")[:2]
        )
        ground = state["ground"] + origin_of(tmp_path / "set")[2]
        assert ground[0] == pytest.approx(expected[0], abs=0.2) and ground[1] == pytest.approx(
            0.0, abs=1e-3
        )
    assert not any(state["collided"].any() for state in states)
    assert states[0]["surface"].tolist() == [-1, -1] and (states[-1]["surface"] >= 0).all()


def origin_of(path: Path) -> np.ndarray:
    head, _ = SceneSet(path).scene(0)
    return np.array([head["origin_x"], head["origin_y"], head["origin_z"]])


def test_what_a_car_climbs(tmp_path: Path) -> None:
    """A step of 1.8 m in the road, as soon as it looks; one of 2.5 m is a wall, and the car stays
    on its level.
    """
    for rise, expected in ((1.8, 1.8), (2.5, 0.0)):
        upper = road("lane", (10, 0), (60, 0), lambda xy, rise=rise: np.full(len(xy), rise))  # type: ignore[misc]
        scene = scene_of(
            [car(along((0, 0), 0.0, 40, flat), 0.0)], [road("lane", (-10, 0), (10, 0), flat), upper]
        )
        ground = [float(state["ground"][0]) for state in drive(tmp_path / "set", scene, 30)]
        assert ground[-1] - ground[0] == pytest.approx(expected, abs=1e-3)


def test_a_flat_scene_at_any_height_is_the_same(tmp_path: Path) -> None:
    """Heights that differ by less than a metre change nothing, and nothing is computed for them."""
    lifted = crossing(lambda xy: np.full(len(xy), 0.4))
    low, high = (
        drive(tmp_path / name, scene, 30)
        for name, scene in (("low", crossing(flat)), ("high", lifted))
    )
    for one, two in zip(low, high, strict=True):
        for name in ("x", "y", "collided", "offroad"):
            np.testing.assert_array_equal(one[name], two[name])
    head, _ = SceneSet(tmp_path / "high").scene(0)
    assert head["flags"] & packed.HAS_HEIGHT and not head["flags"] & packed.LEVELS


# ---- against polygons ----------------------------------------------------------------------------


def crowded(seed: int, cars: int = 40) -> Scene:
    """Boxes and edges everywhere, at any height up to 8 m: about half of what touches in the plane
    is on another level.
    """
    rng = np.random.default_rng(seed)
    objects = []
    for _ in range(cars):
        point = np.array([[*rng.uniform(-25, 25, 2), rng.uniform(0, 8)]])
        size = (
            float(rng.uniform(0.5, 9)),
            float(rng.uniform(0.5, 2.5)),
            float(rng.uniform(0.2, 3.5)),
        )
        objects.append(
            car(np.repeat(point, 2, axis=0), float(rng.uniform(-np.pi, np.pi)), 0.0, size)
        )
    roads = []
    for _ in range(25):
        steps = np.column_stack([rng.normal(0, 4, (4, 2)), rng.normal(0, 0.5, 4)])
        roads.append(
            Road(
                "road_edge",
                15,
                -1,
                np.cumsum([[*rng.uniform(-25, 25, 2), rng.uniform(0, 8)], *steps], axis=0),
            )
        )
    return scene_of(objects, roads)


def check_scene(vec: VectorEnv, scenes: SceneSet, index: int) -> tuple[int, int]:
    """Compare the flags of an env that was just reset with polygons. Returns the pairs of boxes,
    and of boxes and edges.
    """
    _, arrays = scenes.scene(index)
    state = vec.peek(index)
    objects = arrays["objects"]
    frames = arrays["frames"][objects["frames_index"]]
    x, y, heading = (frames[name].astype(float) for name in ("x_m", "y_m", "heading"))
    heading *= np.pi / 32768
    low = frames["z_m"].astype(float) - objects["height_m"].astype(float) / 2
    high = low + np.maximum(objects["height_m"], LEAST_HEIGHT_M)
    boxes = [
        corners(*item)
        for item in zip(x, y, heading, objects["length_m"], objects["width_m"], strict=True)
    ]
    apart = np.maximum(
        low[:, None] - high, low - high[:, None]
    )  # metres between two heights, negative: they overlap
    touching, unclear = np.zeros(len(objects), bool), np.zeros(len(objects), bool)
    for i in range(len(objects)):
        for j in range(i):
            if np.hypot(x[i] - x[j], y[i] - y[j]) > 12 or apart[i, j] > MARGIN_M:
                continue
            between = max(gap(boxes[i], boxes[j]), apart[i, j])
            touching[[i, j]] |= between <= -MARGIN_M
            unclear[[i, j]] |= abs(between) < MARGIN_M
    rows = state["object"]
    sure = ~(unclear & ~touching)
    np.testing.assert_array_equal(state["collided"][sure[rows]] == 1, touching[rows][sure[rows]])
    for row, o in enumerate(rows):
        box = (x[o], y[o], heading[o], objects["length_m"][o], objects["width_m"][o])
        assert_offroad(arrays, box, float(low[o]), bool(state["offroad"][row]))
    return len(objects) * (len(objects) - 1) // 2, len(objects) * len(arrays["x"])


def assert_offroad(
    arrays: dict[str, np.ndarray], box: tuple[Any, ...], ground: float, found: bool
) -> None:
    at = np.array(box[:2])
    any_sure, any_unclear = False, False
    for s in range(len(arrays["x"])):
        middle = np.array([arrays["x"][s], arrays["y"][s]], float)
        u, half = np.array([arrays["ux"][s], arrays["uy"][s]], float), float(arrays["half"][s])
        if np.hypot(*(middle - at)) > half + 6:
            continue
        height = arrays["z"][s] + arrays["slope"][s] * np.clip((at - middle) @ u, -half, half)
        level = abs(height - ground) - EDGE_M
        start, end = middle - half * u, middle + half * u
        if level > MARGIN_M or not segment_in_box(start, end, box, MARGIN_M):
            continue
        if level < -MARGIN_M and segment_in_box(start, end, box, -MARGIN_M):
            any_sure = True
        else:
            any_unclear = True
    assert found == any_sure or any_unclear


@pytest.mark.parametrize("count", [4, pytest.param(140, marks=pytest.mark.slow)])
def test_flags_equal_polygons_with_height(tmp_path: Path, count: int) -> None:
    """140 scenes have more than 100,000 pairs of boxes, and as many of a box and an edge."""
    scenes = write_world(tmp_path / "set", [crowded(seed) for seed in range(count)])
    with make_env(tmp_path / "set", num_envs=count, num_agents=40, control=1) as vec:
        vec.set_tasks(np.arange(count), np.arange(count))
        vec.reset(seed=0)
        pairs = np.sum([check_scene(vec, scenes, index) for index in range(count)], axis=0)
        state = [vec.peek(index) for index in range(count)]
    assert (pairs > 780 * count - 1).all()
    for flag in ("collided", "offroad"):
        assert 0.1 < np.mean([item[flag] for item in state]) < 0.9


@pytest.mark.parametrize("beside_m", [0.0, 10.0])
def test_a_car_that_finds_its_road_is_on_it_after_a_step(tmp_path: Path, beside_m: float) -> None:
    """It starts 1.5 m above a lane, looks for one in every fourth step only, and may then sink by 2
    m at once; also far beside the lane.
    """
    above = car(along((0, beside_m), 0.0, 20, lambda xy: np.full(len(xy), 1.5)), 0.0)
    roads = [road("lane", (-10, 0), (90, 0), flat), road("lane", (60, 60), (60, -60), bridge)]
    states = drive(tmp_path / "set", scene_of([above], roads), 8)
    grounds = [
        round(float(state["ground"][0] + origin_of(tmp_path / "set")[2]), 3) for state in states
    ]
    found = grounds.index(0.0)
    assert 1 <= found <= 4 and grounds == [1.5] * found + [0.0] * (9 - found)
