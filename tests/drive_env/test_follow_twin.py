# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Vehicles that drive by the intelligent driver model equal their twin, step by step, and behave as
its formulas say.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.config import DriveConfig
from drive_env.generate.generate import generate_scene
from drive_env.prepare import prepare_scenes
from drive_env.scenes.json_scene import scene_from_tree
from drive_env.scenes.sceneset import SceneSet
from drive_env.scenes.schema import Road, Scene
from puffervec.vec.vector_env import VectorEnv
from tests.drive_env.worlds import (
    agents_of,
    make_env,
    moving_object,
    obstacles_of,
    pose_of,
    random_scene,
    write_world,
)
from tests.twins.drive import SceneTwin
from tests.twins.drive_follow import LANE, LOG, WAITS, followers, step

SAME = 2e-3  # m, m/s, rad


def compare_step(
    vec: VectorEnv,
    twins: dict[int, SceneTwin],
    before: dict[str, Any],
    seed: int,
    seen: Counter[str],
) -> None:
    """Compare what a step has made of the followers of all slots that went on."""
    after = vec.peek(0)
    for slot, scene in enumerate(before["slot_scene"]):
        if scene < 0 or after["slot_clock"][slot] == 0:
            continue
        twin, config = twins[int(scene)], vec.config
        mine, theirs = (followers(twins, state, slot, config, seed) for state in (before, after))
        # agents whose row has ended leave before the step, and others' followers are seen where
        # they were
        rows = {
            o: row
            for o, row in agents_of(before, slot).items()
            if not before["ended"][row] and not before["alone"][row]
        }
        parked = {
            o: (*pose_of(before, row)[:3], 0.0) for o, row in obstacles_of(after, slot).items()
        }
        poses = {item.o: item.pose() if item.there else None for item in mine}
        clock = int(before["slot_clock"][slot])
        bodies = twin.bodies(
            clock, {o: pose_of(before, row) for o, row in rows.items()} | parked, config, poses
        )
        for item, expected, found in zip(
            mine, step(mine, bodies, clock + config.init_step), theirs, strict=True
        ):
            seen[f"from {item.state['phase']} to {found.state['phase']}"] += 1
            if (
                abs(float(found.state["along"]) - expected.get("along", 0.0)) > SAME
                and expected["to"] != found.state["to"]
            ):
                seen["at the end of a piece"] += 1  # rounding decides on which
                continue
            for name, value in expected.items():
                assert float(found.state[name]) == pytest.approx(value, abs=SAME), (
                    item.o,
                    clock,
                    name,
                    expected,
                    found.state,
                )
            seen["compared"] += 1


def follow(vec: VectorEnv, scenes: SceneSet, steps: int, seed: int) -> Counter[str]:
    twins, seen = {index: SceneTwin(scenes, index) for index in range(len(scenes))}, Counter[str]()
    rng = np.random.default_rng(seed)
    vec.reset(seed)
    for _ in range(steps):
        before = vec.peek(0)
        vec.step(rng.integers(0, 91, vec.num_agents))
        compare_step(vec, twins, before, seed, seen)
    return seen


@pytest.mark.parametrize(
    "settings",
    [
        {"control": "predict"},
        {"control": "predict", "traffic_kinds": "inattentive late"},
        pytest.param(
            {"control": "predict", "traffic_kinds": "varied=2 hasty timid=2"},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {
                "control": "sdc",
                "init_step": 6,
                "idm_speed_mps": 9.0,
                "idm_gap_m": 1.0,
                "collision_behavior": "stop",
            },
            marks=pytest.mark.slow,
        ),
    ],
    ids=str,
)
def test_followers_equal_the_twin(tmp_path: Path, settings: dict[str, Any]) -> None:
    scenes = write_world(tmp_path / "set", [random_scene(22, objects=12, spread_m=25.0, frames=25)])
    with make_env(
        tmp_path / "set", num_agents=2, others="idm", partners=3, lines=0, **settings
    ) as vec:
        seen = follow(vec, scenes, 27, seed=3)
    assert seen["compared"] > 100 and (
        seen[f"from {WAITS} to {LOG}"] > 0 or "init_step" in settings
    ), seen
    assert seen["at the end of a piece"] < 0.01 * seen["compared"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["generated", "tfrecord-00000-of-00150_2a173b334be3d32c.json"])
def test_followers_equal_the_twin_on_roads(
    tmp_path: Path,
    name: str,
    shared_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Lanes that part, and a real crossing with lights."""
    monkeypatch.setenv("PUFFERVEC_CACHE", str(shared_cache))
    if name == "generated":
        scenes = write_world(tmp_path / "set", [generate_scene(3, index) for index in range(2)])
    else:
        scenes = prepare_scenes(
            DriveConfig(scenes=str(request.getfixturevalue("real_scenes") / name))
        ).scenes
    ids = tuple({int(scenes.scene(index)[1]["objects"]["id"][0]) for index in range(len(scenes))})
    settings = {"num_agents": 40, "max_steps": 200, "control": "ids", "control_ids": ids}
    with make_env(scenes.path, others="idm", partners=3, **settings) as vec:
        seen = follow(vec, scenes, 25, seed=3)
    assert seen["compared"] > 100, seen
    assert seen["at the end of a piece"] < 0.01 * seen["compared"]


# ---- which way they take ----

FORK_M = 20.0
LEFT, RIGHT = np.array([60.0, 10.0, 0.0]), np.array([60.0, -10.0, 0.0])
ALONE: dict[str, Any] = {"others": "idm", "control": "ids", "idm_speed_mps": 10.0}


def at_a_fork(path: Path, lane_m: float = FORK_M) -> SceneSet:
    """A car (1) whose log of 12 frames ends on a lane that forks at `lane_m`, a bus that stands in
    the left exit, and an agent far away (99).
    """
    rng, frames, items = np.random.default_rng(0), 100, []
    for number, (x, y), speed, there in (
        (1, (0.0, 0.0), 5.0, 12),
        (2, (70.0, 10.0), 0.0, frames),
        (99, (0.0, 500.0), 5.0, frames),
    ):
        item = moving_object(rng, frames, 0.0, 0)
        item.valid[:], item.heading_rad[:], item.velocity_mps[:] = False, 0.0, (speed, 0.0)
        item.valid[:there] = True
        item.position_m[:, 0] = x + 0.1 * speed * np.arange(frames)
        item.position_m[:, 1], item.goal_m[:2] = y, (FORK_M + 20.0, 0.0)
        items.append(dataclasses.replace(item, id=number, length_m=4.0, width_m=2.0, expert=False))
    start, fork = np.array([-50.0, 0.0, 0.0]), np.array([lane_m, 0.0, 0.0])
    ways = [(start, fork), (fork, LEFT, LEFT + (40, 0, 0)), (fork, RIGHT, RIGHT + (40, 0, 0))]
    roads = tuple(Road("lane", 2, 30 + n, np.array(way)) for n, way in enumerate(ways))
    return write_world(path, [Scene("fork", "", frames, tuple(items), roads, {}, {})])


def exit_of(state: dict[str, Any], scenes: SceneSet) -> int:
    """Return the lane on which the only follower is, by its place in the scene; -1 for its log."""
    on_lane = int(state["follower_phase"][0]) == LANE
    return int(scenes.scene(0)[1]["polyline"][state["follower_to"][0]]) if on_lane else -1


@pytest.mark.parametrize("lane_m", [FORK_M, pytest.param(5.6, marks=pytest.mark.slow)])
def test_followers_equal_the_twin_where_lanes_fork(tmp_path: Path, lane_m: float) -> None:
    """Two episodes of each seed, whether the log ends before the fork or at it. The bus slows down
    only those that will turn left. A state that is set leads to the same exit.
    """
    scenes = at_a_fork(tmp_path / "set", lane_m)
    twins, seen, taken = {0: SceneTwin(scenes, 0)}, Counter[str](), []
    settings = {**ALONE, "control_ids": (99,), "num_agents": 1, "max_steps": 60}
    for seed in range(7, 11):
        with make_env(scenes.path, **settings) as vec:
            vec.reset(seed)
            early = {}
            for _ in range(121):
                before = vec.peek(0)
                vec.step(np.array([45]))
                compare_step(vec, twins, before, seed, seen)
                if before["slot_clock"][0] == 4:
                    early = before
                elif before["slot_clock"][0] == 59:
                    taken.append(exit_of(before, scenes))
            vec.poke(0, early)
            for _ in range(55):
                vec.step(np.array([45]))
            assert exit_of(vec.peek(0), scenes) == taken[-1]
    assert seen["compared"] > 400 and seen["at the end of a piece"] < 0.01 * seen["compared"]
    first, second = taken[::2], taken[1::2]
    assert set(first) == set(second) == {1, 2} and first != second


def test_an_agent_that_returns_takes_the_same_exits(tmp_path: Path) -> None:
    """In an episode that is longer than the scene. The goal lies between the exits."""
    scenes, taken = at_a_fork(tmp_path / "set"), []
    settings = {**ALONE, "control_ids": (1,), "num_agents": 1, "idm_agents": 1, "max_steps": 150}
    with make_env(
        scenes.path, num_envs=8, goal_behavior="respawn", goal_radius_m=10.0, **settings
    ) as vec:
        vec.reset(0)
        ways = []
        for _ in range(148):
            vec.step(np.zeros(vec.num_agents, np.int32))
            ways.append([exit_of(vec.peek(env), scenes) for env in range(8)])
    for lanes in np.array(ways).T:
        entered = [lane for before, lane in itertools.pairwise(lanes) if before != lane > 0]
        assert len(entered) >= 2 and len(set(entered)) == 1
        taken.append(entered[0])
    assert set(taken) == {1, 2}


# ---- what the formulas say ----


def on_a_road(
    tmp_path: Path,
    start_m: dict[int, float],
    frames: int = 300,
    kinds: dict[int, int] | None = None,
    **fields: Any,
) -> SceneSet:
    """Cars on one lane along +x at 5 m/s, by id and start; and an agent far away."""
    rng, items = np.random.default_rng(0), []
    for number, x in {**start_m, 99: 0.0}.items():
        item = moving_object(rng, frames, 0.0, (kinds or {}).get(number, 0))
        item.valid[:], item.heading_rad[:], item.velocity_mps[:] = True, 0.0, (5.0, 0.0)
        item.position_m[:, 0], item.position_m[:, 1] = (
            x + 0.5 * np.arange(frames),
            500.0 if number == 99 else 0.0,
        )
        item.goal_m[:2] = 1000.0, 500.0
        items.append(dataclasses.replace(item, id=number, length_m=4.0, width_m=2.0, expert=False))
    lane = Road("lane", 2, 30, np.array([[-50.0, 0.0, 0.0], [900.0, 0.0, 0.0]]))
    roads = (lane, *fields.pop("roads", ()))
    return write_world(
        tmp_path / "set",
        [Scene("road", "", frames, tuple(items), roads, fields.pop("lights", {}), {})],
    )


def drive_on(scenes: SceneSet, steps: int, **settings: Any) -> np.ndarray:
    """(steps, 2): place along the road and speed of the only follower, metres in the scene's world
    frame.
    """
    track = []
    with make_env(
        scenes.path, num_agents=1, others="idm", control="ids", control_ids=(99,), **settings
    ) as vec:
        vec.reset(0)
        twins = {0: SceneTwin(scenes, 0)}
        for _ in range(steps):
            vec.step(np.array([45]))
            (found,) = followers(twins, vec.peek(0), 0, vec.config, 0)
            track.append((found.pose()[0] + float(scenes.scene(0)[0]["origin_x"]), found.pose()[3]))
    return np.array(track)


def test_the_gap_behind_a_steady_leader_is_the_models(tmp_path: Path) -> None:
    """s_e(v) = (s0 + v T) / sqrt(1 - (v / v0)^4): Treiber, Hennecke, Helbing 2000, equation 7. A
    cyclist leads at 5 m/s, and another one in front of that, who does not matter.
    """
    scenes = on_a_road(tmp_path, {1: 0.0, 2: 30.0, 3: 40.0}, kinds={2: 2, 3: 2})
    track = drive_on(scenes, 298, idm_speed_mps=9.0)
    leader_x = 30.0 + 0.5 * np.arange(1, 299)
    gap = leader_x - track[:, 0] - 4.0
    assert gap.min() > 2.0 and track[-1, 1] == pytest.approx(5.0, abs=0.02)
    assert gap[-1] == pytest.approx((2.0 + 5.0 * 1.5) / np.sqrt(1 - (5 / 9) ** 4), abs=0.1)


def test_a_free_car_nears_the_speed_it_wants(tmp_path: Path) -> None:
    track = drive_on(on_a_road(tmp_path, {1: 0.0}), 200, idm_speed_mps=14.0)
    speed = np.array([5.0])
    for _ in range(200):
        speed = np.append(speed, speed[-1] + 0.15 * (1 - (speed[-1] / 14) ** 4))
    np.testing.assert_allclose(track[:, 1], speed[1:], atol=1e-3)
    np.testing.assert_allclose(track[:, 0], np.cumsum(0.05 * (speed[1:] + speed[:-1])), atol=0.02)


def test_red_lights_and_stop_signs(tmp_path: Path) -> None:
    """A light at 60 m is red for 15 s; at 105 m there is a stop sign."""
    words = ["stop"] * 150 + ["go"] * 150
    light = {
        "state": words,
        "x": [60.0] * 300,
        "y": [0.0] * 300,
        "z": [0.0] * 300,
        "time_index": list(range(300)),
    }
    sign = Road("stop_sign", 17, 40, np.array([[105.0, -3.0, 0.0]]))
    track = drive_on(
        on_a_road(tmp_path, {1: 0.0}, roads=(sign,), lights={"30": light}), 299, idm_speed_mps=9.0
    )
    front, speed = track[:, 0] + 2.0, track[:, 1]
    assert front[:149].max() < 60.0 and front[148] > 56.0 and speed[148] < 0.3  # waits at the line
    at_the_sign = (front > 99.0) & (front < 105.0)
    assert speed[at_the_sign].min() < 0.5 and front[-1] > 107.0  # stops, and goes on


def test_agents_by_idm_drive_as_followers_do(tmp_path: Path) -> None:
    """Their actions do nothing. One that leads drives as if it were alone; the one behind it keeps
    its distance.
    """
    alone = drive_on(on_a_road(tmp_path, {1: 30.0}), 200, idm_speed_mps=9.0)[:, 0]
    scenes, track = on_a_road(tmp_path, {1: 0.0, 2: 30.0}), []
    ids = {"control": "ids", "control_ids": (1, 2), "goal_behavior": "drive_on"}
    with make_env(
        scenes.path, num_agents=2, idm_agents=1, idm_speed_mps=9.0, metrics=1, **ids
    ) as vec:
        vec.reset(0)
        for _ in range(200):
            vec.step(np.array([0, 90]))
            state = vec.peek(0)
            track.append(state["x"].astype(float) + float(scenes.scene(0)[0]["origin_x"]))
    behind, ahead = np.array(track).T
    np.testing.assert_allclose(ahead, alone, atol=1e-2)
    assert (ahead - behind).min() > 8 and behind[-1] > 100
    assert state["contacts"].sum() == state["wrong_way"].sum() == 0


def test_an_agent_by_idm_returns_with_what_moves_it(
    tmp_path: Path, tiny_tree: Callable[..., dict[str, Any]]
) -> None:
    """The goal is 29.5 m away; there it returns to its start, and drives on from there."""
    write_world(tmp_path / "set", [scene_from_tree(tiny_tree(frames=60, cars=1), "tiny", "tiny")])
    track = []
    with make_env(
        tmp_path / "set", num_agents=1, idm_agents=1, goal_behavior="respawn", max_steps=90
    ) as vec:
        vec.reset(0)
        start = float(vec.peek(0)["x"][0])
        for _ in range(85):
            vec.step(np.array([0]))
            track.append(float(vec.peek(0)["x"][0]) - start)
    back = int(np.argmin(np.diff(track)))
    assert track[back] > 25 and track[back + 1] == pytest.approx(0, abs=0.01) and track[-1] > 10
    assert np.diff(track[back + 1 :]).max() < 1
