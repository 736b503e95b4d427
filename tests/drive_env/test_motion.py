# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Expert actions (csrc/drive/motion/inverse.c, expert.c; drive_env/motion.py): they follow the log,
and the env plays the same.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.config import DriveConfig
from drive_env.evaluate.observation import ObservationReader
from drive_env.motion import Body, count_tracked, expert_actions, main, move
from drive_env.scenes.check import wrap_angle
from drive_env.scenes.sceneset import SceneSet
from puffervec.errors import ConfigError
from tests.drive_env.worlds import make_env, random_scene, write_world

INVERTIBLE = (
    "state",
    "delta_local",
    "invertible_bicycle",
    "bicycle",
    "classic_gpudrive",
    "classic_pufferdrive",
)
SPACES = ("discrete", "multi_discrete", "continuous")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> SceneSet:
    path = tmp_path_factory.mktemp("motion") / "set"
    return write_world(
        path, [random_scene(seed, objects=20, spread_m=90.0, frames=60) for seed in (4, 5)]
    )


def config_of(dynamics: str, actions: str = "continuous", **settings: Any) -> DriveConfig:
    return DriveConfig(
        dynamics=dynamics, actions=actions, expert_actions=1, control="valid", **settings
    )


@pytest.mark.parametrize(("dynamics", "most_m"), [("state", 1e-6), ("delta_local", 1e-4)])
def test_models_that_set_poses_are_exactly_where_the_log_is(
    world: SceneSet, dynamics: str, most_m: float
) -> None:
    found = expert_actions(config_of(dynamics), 0, world)
    assert np.nanmax(found.errors) <= most_m and np.isfinite(found.errors).sum() > 200


@pytest.mark.parametrize("dynamics", INVERTIBLE[2:])
def test_the_others_follow_smooth_logs(world: SceneSet, dynamics: str) -> None:
    """Cars that drive arcs at a constant speed, forward; a log that jumps or goes sideways is not
    followed.
    """
    worst = np.concatenate(
        [
            np.nanmax(expert_actions(config_of(dynamics), scene, world).errors, axis=1)
            for scene in (0, 1)
        ]
    )
    assert np.mean(worst <= 0.5) >= 0.95, np.sort(worst)


def circling(
    tmp_path: Path, radius_m: float, slip_rad: float = 0.0, missing: slice = slice(0, 0)
) -> SceneSet:
    """A scene of one car that drives along a circle at 5 m/s, turned out of it by `slip_rad`, and
    whose log has a gap.
    """
    scene = random_scene(0, objects=1, roads=3, frames=60)
    angle = 0.5 / radius_m * np.arange(60)
    item = dataclasses.replace(
        scene.objects[1],
        position_m=radius_m * np.stack([np.sin(angle), 1 - np.cos(angle), 0 * angle], -1),
        velocity_mps=5 * np.stack([np.cos(angle), np.sin(angle)], -1),
        heading_rad=wrap_angle(angle - slip_rad),
        valid=~np.isin(np.arange(60), np.arange(60)[missing]),
        length_m=5.0,
        width_m=2.0,
    )
    return write_world(tmp_path / "set", [dataclasses.replace(scene, objects=(item,))])


def test_experts_steer_as_the_circle_wants(tmp_path: Path) -> None:
    """Of a path of curvature k of the centre, at a wheelbase L: sin(slip) = k L / 2, tan(steering)
    = 2 tan(slip).
    """
    slip = float(np.arcsin(0.6 * 5.0 / 15.0 / 2))
    found = expert_actions(config_of("bicycle"), 0, circling(tmp_path, 15.0, slip))
    np.testing.assert_allclose(found.values[0, 5:50, 1], np.arctan(2 * np.tan(slip)), atol=3e-3)
    assert np.nanmax(found.errors) < 0.03


@pytest.mark.parametrize(("dynamics", "most_m"), [("invertible_bicycle", 0.1), ("bicycle", 0.8)])
def test_a_car_that_backs_is_followed(tmp_path: Path, dynamics: str, most_m: float) -> None:
    """The speeds of the classic models have no sign, so that they cannot back."""
    found = expert_actions(config_of(dynamics), 0, circling(tmp_path, 15.0, np.pi))
    assert np.nanmax(found.errors) < most_m and found.poses[0, :, 3].max() < 0


def test_a_gap_of_the_log_is_driven_through_evenly(tmp_path: Path) -> None:
    found = expert_actions(
        config_of("delta_local"), 0, circling(tmp_path, 1000.0, missing=slice(20, 30))
    )
    np.testing.assert_allclose(found.values[0, :58, 0], 0.5, atol=1e-3)


@pytest.mark.parametrize("actions", SPACES)
@pytest.mark.parametrize("dynamics", INVERTIBLE)
def test_an_env_plays_them(world: SceneSet, dynamics: str, actions: str) -> None:
    """The env's mode leads to the poses of the function."""
    if dynamics == "state" and actions != "continuous":
        return
    found = expert_actions(config_of(dynamics, actions), 1, world)
    steps = 30
    with make_env(
        world.path,
        dynamics=dynamics,
        actions=actions,
        expert_actions=1,
        control="valid",
        remove_at_goal=0,
    ) as vec:
        vec.reset(0)
        state = vec.peek(0)
        slot = int(np.flatnonzero(state["slot_scene"] == 1)[0])
        rows = {
            int(state["object"][row]): int(row) for row in np.flatnonzero(state["slot"] == slot)
        }
        for t in range(1, steps):
            vec.step(np.zeros_like(vec.action_space.sample()))
            state = vec.peek(0)
            for o, row in rows.items():
                pose = found.poses[list(found.objects).index(o), t]
                assert np.array(
                    [state[name][row] for name in ("x", "y", "heading", "speed")]
                ) == pytest.approx(pose, abs=1e-4)
    assert len(rows) > 2


@pytest.mark.parametrize("actions", SPACES)
def test_actions_are_those_of_the_action_space(world: SceneSet, actions: str) -> None:
    found = expert_actions(config_of("bicycle", actions), 0, world)
    n, frames = found.errors.shape
    assert found.values.shape == (n, frames - 1, 2) and found.poses.shape == (n, frames, 4)
    assert found.actions.shape == ((n, frames - 1) if actions == "discrete" else (n, frames - 1, 2))
    body = Body(
        *found.poses[0, 0].tolist(),
        length=float(world.scene(0)[1]["objects"][found.objects[0]]["length_m"]),
    )
    for t in range(frames - 1):
        body = move(config_of("bicycle", actions), body, tuple(found.values[0, t].tolist()))
        assert (body.x, body.y) == pytest.approx(found.poses[0, t + 1, :2].tolist(), abs=1e-3)


def test_what_cannot_be_is_refused(world: SceneSet) -> None:
    with pytest.raises(ConfigError, match="jerk cannot be inverted"):
        expert_actions(DriveConfig(dynamics="jerk"), 0, world)
    for scene in (2, -1, "x"):
        with pytest.raises(ConfigError, match="there is no scene"):
            expert_actions(DriveConfig(), scene, world)
    with pytest.raises(ConfigError, match="move: action"):
        move(DriveConfig(), Body(), (1.0,))
    with pytest.raises(ConfigError, match="kind one of vehicle"):
        move(DriveConfig(), Body(), (1.0, 0.0), "tram")


def test_the_command_wants_scenes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2 and "usage" in capsys.readouterr().err
    assert (
        main(["nowhere"]) == 2
        and "drive_env.motion: nowhere: no such folder or file" in capsys.readouterr().err
    )


@pytest.mark.slow
@pytest.mark.parametrize("dynamics", INVERTIBLE)
def test_real_logs_are_followed_within_half_a_metre(
    real_scenes: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch, dynamics: str
) -> None:
    monkeypatch.setenv("PUFFERVEC_CACHE", str(shared_cache))
    found = count_tracked(config_of(dynamics, scenes=str(real_scenes)))
    print(f"{dynamics}: {found}")
    assert found.close >= 0.95 * found.vehicles and found.close_moving >= 0.9 * found.moving > 90


def test_an_agent_sees_what_limits_left_of_its_actions(tmp_path: Path) -> None:
    write_world(tmp_path / "set", [random_scene(3, spread_m=40.0)])
    limits = {"max_steering_rate_radps": 0.6, "max_acceleration_mps2": 2.0, "max_lateral_mps2": 1.0}
    with make_env(tmp_path / "set", num_agents=12, observe_motion=1, **limits) as vec:
        reader = ObservationReader(vec)
        observations, _ = vec.reset(0)
        assert not any(column.any() for column in reader.read(observations)["motion"].values())
        for turn in range(1, 6):
            observations = vec.step(np.full(vec.num_agents, 6 * 13 + 12))[
                0
            ]  # 4 m/s2, 1 rad to the left
            state = vec.peek(0)
            rows = np.flatnonzero(state["active"])
            seen = {
                name: column[rows] for name, column in reader.read(observations)["motion"].items()
            }
            assert seen["steering"] == pytest.approx(np.full(len(rows), 0.06 * turn), abs=1e-5)
            for name in ("acceleration", "lateral"):
                assert seen[name] == pytest.approx(state[f"model_{name}"][rows], abs=1e-4)
                assert 0 < np.abs(seen[name]).max() <= 2.001
