# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Presets of observations, single blocks beside them, and rows of other types: each number equals
the twin's.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.config import DriveConfig
from drive_env.evaluate.observation import ObservationReader, columns
from drive_env.scenes.sceneset import SceneSet
from drive_env.scenes.schema import OBJECT_TYPES, Control, Road, Scene
from puffervec.errors import ConfigError
from puffervec.vec.vector_env import VectorEnv
from tests.drive_env.test_observe_twin import split
from tests.drive_env.worlds import agents_of, make_env, pose_of, random_scene, write_world
from tests.twins import drive_presets as twins
from tests.twins.drive import SceneTwin, turned

TOLERANCE = 2e-5
MOTION = ("steering", "model_acceleration", "model_lateral")  # of the models that keep it


def twin_blocks(
    preset: str,
    ks: dict[str, int],
    twin: SceneTwin,
    arrays: Any,
    bodies: Any,
    own: int,
    pose: Any,
    goal: Any,
    hit: bool,
    motion: tuple[float, float, float],
    range_m: float,
) -> dict[str, np.ndarray]:
    """The blocks of a preset. ks: entries of each. motion: steering, acceleration, lateral
    acceleration.
    """
    if preset == "pufferdrive":
        ego = twins.pufferdrive_ego(bodies, own, goal, hit)
        jerks = "pufferdrive_jerk_ego" in ks
        return {
            **(
                {"pufferdrive_jerk_ego": twins.pufferdrive_jerk_ego(ego, *motion)}
                if jerks
                else {"pufferdrive_ego": ego}
            ),
            "pufferdrive_partners": twins.pufferdrive_partners(
                bodies, own, ks["pufferdrive_partners"], range_m
            ),
            "pufferdrive_roads": twins.pufferdrive_roads(
                twin, arrays, pose, ks["pufferdrive_roads"], range_m
            ),
        }
    if preset == "gpudrive":
        return {
            "gpudrive_ego": twins.gpudrive_ego(bodies, own, goal, hit),
            "gpudrive_partners": twins.gpudrive_partners(
                bodies, own, ks["gpudrive_partners"], range_m
            ),
            "gpudrive_roads": twins.gpudrive_roads(
                twin, arrays, pose, ks["gpudrive_roads"], range_m
            ),
        }
    return {}


def compare_rows(vec: VectorEnv, scenes: SceneSet, obs: np.ndarray) -> int:
    """Compare the blocks of all live rows with their twins; returns how many rows there were."""
    config, state, blocks = vec.config, vec.peek(0), split(vec, obs)
    masks, range_m = vec.halves[0].groups["agents"].masks, config.range_m
    compared = 0
    for slot, scene in enumerate(state["slot_scene"]):
        if scene < 0:
            continue
        twin, arrays = SceneTwin(scenes, int(scene)), scenes.scene(int(scene))[1]
        rows = {o: row for o, row in agents_of(state, slot).items() if masks[row]}
        poses = {o: pose_of(state, row) for o, row in rows.items()}
        bodies = twin.bodies(int(state["slot_clock"][slot]), poses, config)
        for o, row in rows.items():
            own = bodies.at(o)
            pose = float(bodies.x[own]), float(bodies.y[own]), float(bodies.heading[own])
            goal = float(state["goal_x"][row]), float(state["goal_y"][row])
            hit = bool(state["collided"][row] or state["offroad"][row])
            ks = {name: block.shape[1] for name, block in blocks.items()}
            motion = tuple(float(state[name][row]) if name in state else 0.0 for name in MOTION)
            expected = twin_blocks(
                config.observation, ks, twin, arrays, bodies, own, pose, goal, hit, motion, range_m
            )
            for name, wanted in expected.items():
                np.testing.assert_allclose(
                    blocks[name][row], wanted, atol=TOLERANCE, err_msg=f"{name} of row {row}"
                )
            if "lidar" in blocks:
                wanted = twins.lidar(
                    arrays,
                    bodies,
                    own,
                    config.lidar_rays,
                    config.lidar_fov_deg,
                    config.lidar_range_m,
                )
                np.testing.assert_array_equal(
                    blocks["lidar"][row][:, 1:], wanted[:, 1:], err_msg=f"lidar of row {row}"
                )
                np.testing.assert_allclose(
                    blocks["lidar"][row][:, 0],
                    wanted[:, 0],
                    atol=1e-5,
                    err_msg=f"lidar of row {row}",
                )
            if "route" in blocks:
                wanted = twins.route(arrays, pose, goal, config.route, config.route_step_m)
                np.testing.assert_allclose(
                    blocks["route"][row], wanted, atol=1e-4, err_msg=f"route of row {row}"
                )
            if "controls" in blocks:
                wanted = twins.controls(
                    arrays, pose, config.controls, range_m, int(state["slot_clock"][slot])
                )
                np.testing.assert_allclose(
                    blocks["controls"][row],
                    wanted,
                    atol=TOLERANCE,
                    err_msg=f"controls of row {row}",
                )
            if config.segments == "spread":
                for name, k in zip(("lanes", "lines", "edges"), config.segment_k, strict=True):
                    compare_spread(twin, name, pose, k, range_m, blocks[name][row])
            compared += 1
    return compared


def compare_spread(
    twin: SceneTwin,
    name: str,
    pose: tuple[float, float, float],
    k: int,
    range_m: float,
    found: np.ndarray,
) -> None:
    of = twin.of_type[name]
    shown = twins.spread(twin.squares(name, *pose[:2]), k, range_m)
    middles = [
        turned(
            float(twin.road["x"][of][s]) - pose[0], float(twin.road["y"][of][s]) - pose[1], pose[2]
        )
        for s in shown
    ]
    np.testing.assert_allclose(
        found[: len(shown), :2] * 20, np.reshape(middles, (-1, 2)), atol=1e-3
    )
    assert not found[len(shown) :].any()


CASES: dict[str, dict[str, Any]] = {
    "pufferdrive": {"observation": "pufferdrive"},
    "pufferdrive, jerk": {"observation": "pufferdrive", "dynamics": "jerk"},
    "gpudrive": {"observation": "gpudrive"},
    "pufferdrive, few, far": {
        "observation": "pufferdrive",
        "roads": 13,
        "partners": 5,
        "range_m": 120.0,
        "lanes": 3,
    },
    "gpudrive, few, near": {
        "observation": "gpudrive",
        "roads": 40,
        "partners": 64,
        "range_m": 9.0,
        "control": "valid",
    },
    "far": {"observation": "far"},
    "spread, odd numbers": {
        "segments": "spread",
        "lanes": 7,
        "lines": 2,
        "edges": 64,
        "range_m": 90.0,
    },
    "lidar": {"lidar_rays": 50, "lidar_fov_deg": 120.0, "lidar_range_m": 80.0},
    "lidar, all around": {"lidar_rays": 33, "lidar_range_m": 20.0, "observation": "pufferdrive"},
    "lidar, one ray": {"lidar_rays": 1, "lidar_fov_deg": 90.0},
}


@pytest.mark.parametrize("name", CASES)
def test_rows_equal_the_twin(tmp_path: Path, name: str) -> None:
    scenes = write_world(
        tmp_path / "set",
        [random_scene(seed, roads=60, copies=seed, spread_m=35.0 * seed) for seed in (1, 2)],
    )
    rng = np.random.default_rng(0)
    with make_env(tmp_path / "set", num_agents=24, **CASES[name]) as vec:
        obs, _ = vec.reset(0)
        compared = compare_rows(vec, scenes, obs)
        for _ in range(2):
            obs, *_ = vec.step(rng.integers(0, vec.spec.groups[0].action_sizes[0], vec.num_agents))
            compared += compare_rows(vec, scenes, obs)
    assert compared > 50


def crossing(seed: int) -> Scene:
    """A scene with lanes that part, lights that change and a stop sign."""
    rng = np.random.default_rng(seed)
    ways = {
        1: [(-60, 0), (-20, 1), (20, 0)],
        2: [(20, 0), (40, 3), (60, 3)],
        3: [(20, 0), (30, 4), (32, 60)],
        4: [(32, 60), (32, 90)],
    }
    lanes = [
        Road("lane", 2, number, np.c_[np.array(points, float), np.zeros(len(points))])
        for number, points in ways.items()
    ]
    line = np.array([[20.0, 2, 0], [20.0, -2, 0]])
    lights = [
        Control(
            1, np.array([20.0, 0, 0]), 1, rng.integers(0, 5, 20).astype(np.uint8), 7, None, line
        ),
        Control(1, np.array([32.0, 60, 0]), 3, rng.integers(0, 5, 20).astype(np.uint8), 8, 1.5),
        Control(
            1, np.array([32.0, 60, 0]), 3, rng.integers(0, 5, 20).astype(np.uint8), 10, 0.5
        ),  # as far away as that one
        Control(0, np.array([-5.0, 6, 0]), -1, np.zeros(1, np.uint8), 9, -2.0),
    ]
    others = random_scene(seed, roads=9, spread_m=40.0)
    return dataclasses.replace(others, roads=(*lanes, *others.roads), controls=tuple(lights))


@pytest.mark.parametrize(
    "settings",
    [
        {"route": 12, "controls": 3},
        {
            "route": 40,
            "route_step_m": 3.0,
            "controls": 5,
            "range_m": 25.0,
            "observation": "pufferdrive",
        },
    ],
    ids=str,
)
def test_the_way_ahead(tmp_path: Path, settings: dict[str, Any]) -> None:
    scenes = write_world(tmp_path / "set", [crossing(seed) for seed in (1, 2, 3)])
    rng = np.random.default_rng(0)
    shown = []
    with make_env(tmp_path / "set", num_agents=48, **settings) as vec:
        obs, _ = vec.reset(0)
        for _ in range(8):
            assert compare_rows(vec, scenes, obs) > 20
            shown.append(
                {
                    name: split(vec, obs)[name].any(axis=(0, 1)).tolist()
                    for name in ("route", "controls")
                }
            )
            obs, *_ = vec.step(rng.integers(0, 91, vec.num_agents))
    assert all(any(step["route"]) for step in shown)
    assert np.any([step["controls"] for step in shown], axis=0).all()


def test_the_way_of_a_car_under_a_bridge(tmp_path: Path) -> None:
    """The lane above it is nearer as seen from above."""
    scene = random_scene(0, objects=0, roads=0)
    car = scene.objects[-1]
    frames = len(car.valid)
    there = dataclasses.replace(
        car,
        position_m=np.stack([np.zeros(frames), np.zeros(frames), np.full(frames, 0.75)], -1),
        heading_rad=np.zeros(frames),
        goal_m=np.array([60.0, 0.0, 0.75]),
    )
    places = [(0.0, 8.0), (0.5, 0.0)]  # y and z
    lanes = tuple(
        Road("lane", 2, y > 0, np.array([[-20.0, y, z], [90.0, y, z]])) for y, z in places
    )
    write_world(
        tmp_path / "set",
        [dataclasses.replace(scene, objects=(there,), roads=lanes, has_height=True)],
    )
    with make_env(tmp_path / "set", num_agents=1, route=4) as vec:
        route = split(vec, vec.reset(0)[0])["route"][0]
    scale = columns()["route"][1].scale
    np.testing.assert_allclose(route[:, 1] * scale, 0.5, atol=1e-3)


def test_more_ties_than_fit(tmp_path: Path) -> None:
    scenes = write_world(tmp_path / "set", [random_scene(7, roads=6, copies=100, spread_m=15.0)])
    with make_env(tmp_path / "set", observation="pufferdrive", roads=77) as vec:
        obs, _ = vec.reset(0)
        assert compare_rows(vec, scenes, obs) > 0


@pytest.mark.parametrize("at_m", [None, -2.0, -0.7, 0.6, 2.1])
def test_more_edges_beside_a_car_than_are_handed_out(tmp_path: Path, at_m: float | None) -> None:
    """90 short edges left and right of a car that it does not touch, and one that it does, wherever
    it comes in the list.
    """
    scene = random_scene(7, objects=0, roads=0)
    still = np.zeros((len(scene.objects[0].valid), 3))
    car = dataclasses.replace(
        scene.objects[0], position_m=still, heading_rad=still[:, 0], length_m=4.5, width_m=2.0
    )
    spots = [
        (x, side * y)
        for x in np.linspace(-2.2, 2.2, 15)
        for y in (1.2, 1.6, 2.0)
        for side in (-1, 1)
    ]
    spots += [] if at_m is None else [(at_m, 0.9)]
    edges = tuple(
        Road("road_edge", 15, -1, np.array([[x, y, 0.0], [x + 0.1, y, 0.0]])) for x, y in spots
    )
    write_world(tmp_path / "set", [dataclasses.replace(scene, objects=(car,), roads=edges)])
    for preset in ("pufferdrive", "gpudrive", "compact"):
        with make_env(tmp_path / "set", num_agents=1, observation=preset) as vec:
            vec.reset(0)
            assert vec.peek(0)["offroad"][0] == (at_m is not None)


@pytest.mark.parametrize(("ahead_m", "wanted"), [(51.0, (51 - 2.25) / 50), (53.0, 0.0)])
def test_a_ray_meets_the_near_side_of_a_car_whose_middle_is_out_of_range(
    tmp_path: Path, ahead_m: float, wanted: float
) -> None:
    scene = random_scene(7, objects=2, roads=0)
    still = np.zeros((len(scene.objects[0].valid), 3))
    own, other = (
        dataclasses.replace(
            car,
            type=OBJECT_TYPES.index("vehicle"),
            position_m=still + [at_m, 0.0, 0.0],
            heading_rad=still[:, 0],
            length_m=4.5,
            width_m=2.0,
            valid=np.ones(len(still), bool),
            goal_m=np.array([at_m + 9.0, 0.0, 0.0]),
        )
        for car, at_m in zip(scene.objects[:2], (0.0, ahead_m), strict=True)
    )
    write_world(tmp_path / "set", [dataclasses.replace(scene, objects=(own, other))])
    with make_env(
        tmp_path / "set", num_agents=1, observation="pufferdrive", lidar_rays=1, lidar_range_m=50.0
    ) as vec:
        obs, _ = vec.reset(0)
        assert split(vec, obs)["lidar"][0][0, 0] == pytest.approx(wanted)


def test_a_scene_without_roads_or_others(tmp_path: Path) -> None:
    scenes = write_world(tmp_path / "set", [random_scene(9, objects=0, roads=0)])
    with make_env(tmp_path / "set", num_agents=2, observation="pufferdrive", lidar_rays=20) as vec:
        obs, _ = vec.reset(0)
        assert compare_rows(vec, scenes, obs) == 2
        assert not obs[:, 7:].any()


@pytest.mark.parametrize(
    ("preset", "floats"),
    [("compact", 389), ("pufferdrive", 1848), ("gpudrive", 2984), ("far", 389), ("driver", 508)],
)
def test_sizes(tmp_path: Path, preset: str, floats: int) -> None:
    write_world(tmp_path / "set", [random_scene(1)])
    with make_env(tmp_path / "set", observation=preset) as vec:
        assert vec.single_observation_space.shape == (floats,)


def test_pufferdrive_rows_of_the_jerk_model(tmp_path: Path) -> None:
    """1851 numbers, as there. A braking car shows its acceleration in units of 15 m/s^2, one that
    speeds up in units of 4.
    """
    write_world(tmp_path / "set", [random_scene(1)])
    with make_env(
        tmp_path / "set", observation="pufferdrive", dynamics="jerk", actions="multi_discrete"
    ) as vec:
        vec.reset(0)
        obs, *_ = vec.step(
            np.tile([0, 2], (vec.num_agents, 1))
        )  # jerk -15 m/s^3 along the heading, 4 to the left
        braking = split(vec, obs)["pufferdrive_jerk_ego"][0].copy()
        vec.reset(0)
        obs, *_ = vec.step(
            np.tile([3, 0], (vec.num_agents, 1))
        )  # jerk 4 along the heading, 4 to the right
        ahead = split(vec, obs)["pufferdrive_jerk_ego"][0]
    assert obs.shape[1] == 1851 and len(ahead) == 10
    assert (braking[7], ahead[7]) == pytest.approx((-1.5 / 15, 0.4 / 4))
    assert braking[6] > 0 > ahead[6] and braking[8] > 0 > ahead[8]


def test_what_was_seen_before_changes_no_byte(tmp_path: Path) -> None:
    write_world(tmp_path / "set", [random_scene(seed, roads=120, spread_m=60.0) for seed in (1, 2)])
    settings = {"observation": "pufferdrive", "num_agents": 16, "roads": 50}
    rng = np.random.default_rng(0)
    with make_env(tmp_path / "set", **settings) as a, make_env(tmp_path / "set", **settings) as b:
        a.reset(3), b.reset(3)
        for _ in range(10):
            actions = rng.integers(0, 91, a.num_agents)
            first = a.step(actions)[0].copy()
            state = a.peek(0)
            np.testing.assert_array_equal(b.step(actions)[0], first)
            for name in ("x", "y"):  # somewhere else, and back
                state[name] += np.where(state["slot"] >= 0, 200.0, 0.0).astype(np.float32)
            b.poke(0, state)
            b.poke(0, a.peek(0))
            np.testing.assert_array_equal(b.peek(0)["x"], a.peek(0)["x"])


@pytest.mark.parametrize(
    "settings",
    [
        {"lidar_rays": 20, "range_m": 30.0},
        {"observation": "pufferdrive", "observe_previous_action": 1},
    ],
    ids=str,
)
def test_other_types_of_rows(tmp_path: Path, settings: dict[str, Any]) -> None:
    write_world(tmp_path / "set", [random_scene(seed) for seed in (1, 2)])
    rng = np.random.default_rng(0)
    made = {
        dtype: make_env(tmp_path / "set", num_agents=24, row_dtype=dtype, **settings)
        for dtype in ("float32", "float16", "uint8")
    }
    with made["float32"] as whole, made["float16"] as half, made["uint8"] as byte:
        rows = {dtype: vec.reset(1)[0] for dtype, vec in made.items()}
        range_m = whole.config.range_m
        for _ in range(5):
            live = whole.halves[0].groups["agents"].masks == 1
            np.testing.assert_array_equal(rows["float16"], rows["float32"].astype(np.float16))
            floats = split(whole, rows["float32"])
            readers = {
                dtype: ObservationReader(vec).read(rows[dtype]) for dtype, vec in made.items()
            }
            for field in byte.spec.groups[0].fields:
                shown = rows["uint8"][:, field.offset : field.offset + field.size].reshape(
                    -1, *field.shape
                )
                np.testing.assert_array_equal(
                    shown[live],
                    twins.as_bytes(floats[field.name], columns()[field.name], range_m)[live],
                )
                for column in columns()[field.name]:
                    most = column.most or range_m
                    exact = np.clip(readers["float32"][field.name][column.name][live], -most, most)
                    np.testing.assert_allclose(
                        readers["uint8"][field.name][column.name][live], exact, atol=most / 250
                    )
            actions = rng.integers(0, 91, whole.num_agents)
            rows = {dtype: vec.step(actions)[0] for dtype, vec in made.items()}
        assert half.single_observation_space.dtype == np.float16
        assert byte.single_observation_space.dtype == np.uint8


def test_partners_with_types(tmp_path: Path) -> None:
    scenes = write_world(tmp_path / "set", [random_scene(1)])
    with make_env(tmp_path / "set") as plain, make_env(tmp_path / "set", partner_types=1) as typed:
        before, after = plain.reset(0)[0], typed.reset(0)[0]
        for _ in range(12):  # others than cars come later
            before, after = (vec.step(np.full(vec.num_agents, 45))[0] for vec in (plain, typed))
        partners = split(typed, after)["typed_partners"]
        np.testing.assert_array_equal(partners[..., :8], split(plain, before)["partners"])
        there = (partners != 0).any(-1)
        kinds = scenes.scene(0)[1]["objects"]["type"]
        assert partners[there][:, 8:].sum(0).all() and (partners[there][:, 8:].sum(1) <= 1).all()
        assert set(np.unique(kinds)) == {0, 1, 2, 3}


def test_blocks_that_differ_from_the_preset() -> None:
    config = DriveConfig(observation="pufferdrive", partners=4, lanes=2)
    assert (config.partners, config.lanes, config.roads, config.edges) == (4, 2, 200, 0)
    with pytest.raises(
        ConfigError,
        match="observation is 'puffer'; it must be one of compact, pufferdrive, gpudrive, far",
    ):
        DriveConfig(observation="puffer")


def test_respawned_is_1_from_the_first_goal_on(tmp_path: Path) -> None:
    """The car is back at its start with that column set, and it stays so until the episode ends."""
    scene = random_scene(7, objects=0, roads=0)
    car = scene.objects[0]
    frames = len(car.valid)
    ahead = dataclasses.replace(
        car, position_m=np.zeros((frames, 3)), heading_rad=np.zeros(frames),
        velocity_mps=np.tile([10.0, 0.0], (frames, 1)), goal_m=np.array([5.0, 0.0, 0.0]),
    )  # fmt: skip
    write_world(tmp_path / "set", [dataclasses.replace(scene, objects=(ahead,))])
    shown = []
    with make_env(
        tmp_path / "set", num_agents=1, observation="pufferdrive", goal_behavior="respawn"
    ) as vec:
        obs, _ = vec.reset(0)
        for _ in range(9):
            shown.append(float(split(vec, obs)["pufferdrive_ego"][0][6]))
            obs, *_ = vec.step(np.array([3 * 13 + 6]))
    first = shown.index(1.0)
    assert 2 <= first <= 5 and shown == [0.0] * first + [1.0] * (9 - first)
