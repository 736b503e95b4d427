# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Ranges of weights: how they are written, drawn, and kept from one run to the next."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.config import DriveConfig
from drive_env.evaluate.observation import ObservationReader
from drive_env.rewards import parse_ranges, reward_params, terms
from puffervec.errors import ConfigError
from tests.drive_env.worlds import make_env, random_scene, write_world

NAMES = [term.name for term in terms()]
RANGES = "collision=-3:-1,lane_align=0.25:0.25 goal=0.5:2"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("colision=0:1", r"has 'colision=0:1'; the terms are step, collision"),
        ("collision", r"has 'collision'; write collision=LOW:HIGH, as in collision=0:1"),
        ("collision=1", "write collision=LOW:HIGH"),
        ("collision=0:1:2", "write collision=LOW:HIGH"),
        ("collision=a:1", "write collision=LOW:HIGH"),
        ("collision=1:0", "LOW must be at most HIGH, and both from -1000 to 1000"),
        ("collision=nan:0", "LOW must be at most HIGH"),
        ("collision=-inf:0", "LOW must be at most HIGH"),
        ("goal=0:1 goal=0:1", "goal occurs twice"),
        (3, "reward_ranges is 3; it must be text like"),
    ],
)
def test_bad_ranges_are_named(text: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=f"drive: reward_ranges .*{words}|drive: {words}"):
        DriveConfig(reward_ranges=text)


def test_ranges_reach_the_env_as_numbers() -> None:
    assert parse_ranges(RANGES) == {
        "collision": (-3.0, -1.0),
        "lane_align": (0.25, 0.25),
        "goal": (0.5, 2.0),
    }
    table = reward_params(RANGES)["reward_ranges"]
    assert table.shape == (len(NAMES), 2) and table[NAMES.index("goal")].tolist() == [0.5, 2.0]
    assert reward_params("") == {}


def weights(path: Path, seed: int = 3, **settings: Any) -> np.ndarray:
    """Weights of all agents after a seeded reset, (agents, terms)."""
    with make_env(path, num_agents=24, reward_ranges=RANGES, **settings) as vec:
        vec.reset(seed)
        state = vec.peek(0)
        return np.asarray(state["reward_weights"][state["slot"] >= 0])


def test_weights_are_drawn_per_agent_and_episode(tmp_path: Path) -> None:
    write_world(tmp_path / "set", [random_scene(seed, frames=12) for seed in (1, 2)])
    drawn = weights(tmp_path / "set")
    collision = drawn[:, NAMES.index("collision")]
    assert len(collision) > 8 and len(set(collision.tolist())) == len(collision)
    assert ((collision >= -3) & (collision < -1)).all() and (
        drawn[:, NAMES.index("lane_align")] == 0.25
    ).all()
    assert (drawn[:, NAMES.index("offroad")] == np.float32(DriveConfig.reward_offroad)).all()
    assert (weights(tmp_path / "set") == drawn).all() and (
        weights(tmp_path / "set", seed=4)[0] != drawn[0]
    ).any()
    given = weights(tmp_path / "set", draw_rewards=0, reward_collision=-1.5)
    assert (given[:, NAMES.index("collision")] == -1.5).all() and (
        given[:, NAMES.index("goal")] == 1.0
    ).all()
    with make_env(tmp_path / "set", num_agents=24, reward_ranges=RANGES) as vec:
        vec.reset(3)
        seen = set()
        for _ in range(40):
            vec.step(np.full(24, 45))
            seen.add(float(vec.peek(0)["reward_weights"][0, NAMES.index("collision")]))
    assert 3 <= len(seen) <= 5  # an episode has 11 steps, and one turn to start anew


def test_draws_are_uniform(tmp_path: Path) -> None:
    write_world(tmp_path / "set", [random_scene(1, objects=40)])
    drawn = np.concatenate(
        [weights(tmp_path / "set", seed)[:, NAMES.index("goal")] for seed in range(60)]
    )
    share = (drawn - 0.5) / 1.5
    assert (
        abs(share.mean() - 0.5) < 4 / np.sqrt(12 * len(share))
        and abs(share.std() - 12**-0.5) < 0.02
    )


def test_weights_are_shown(tmp_path: Path) -> None:
    """Each in its range, from -1 to 1; 0 of those without one; clipped where the settings give one
    outside.
    """
    write_world(tmp_path / "set", [random_scene(1)])
    given = {"num_agents": 20, "reward_ranges": RANGES, "observe_weights": 1}
    for settings, shown in (
        ({}, None),
        ({"draw_rewards": 0, "reward_collision": -1.5, "reward_goal": 9.0}, (0.5, 0.0, 1.0)),
    ):
        with make_env(tmp_path / "set", **given, **settings) as vec:
            obs, _ = vec.reset(3)
            state, there = vec.peek(0), vec.peek(0)["slot"] >= 0
            seen = ObservationReader(vec).read(obs)["weights"]
            expected = {
                "collision": state["reward_weights"][:, NAMES.index("collision")] + 2,
                "lane_align": 0 * state["x"],
            }
            expected["goal"] = (state["reward_weights"][:, NAMES.index("goal")] - 0.5) / 0.75 - 1
            for name, column in seen.items():
                own = np.clip(expected.get(name, 0 * state["x"]), -1, 1)[there]
                np.testing.assert_allclose(column[there], own, atol=1e-5, err_msg=name)
            if shown:
                assert [
                    float(seen[name][there][0]) for name in ("collision", "lane_align", "goal")
                ] == pytest.approx(shown)
            assert list(seen) == NAMES


def test_who_hastes_backward_pays_too(tmp_path: Path) -> None:
    """At 5 m/s backward it is faster than twice the speed that would reach the goal in time, though
    it gets no nearer.
    """
    scene = random_scene(3, objects=0, roads=0, frames=60)
    car = scene.objects[-1]
    frames = len(car.valid)
    at, goal = np.zeros((frames, 3)), np.array([10.0, 0.0, 0.0])
    back = dataclasses.replace(
        car,
        position_m=at,
        heading_rad=np.zeros(frames),
        velocity_mps=np.tile([-5.0, 0.0], (frames, 1)),
        goal_m=goal,
    )
    write_world(tmp_path / "set", [dataclasses.replace(scene, objects=(back,))])
    weights = {f"reward_{name}": 0.0 for name in ("collision", "offroad", "progress", "goal")}
    with make_env(tmp_path / "set", num_agents=1, reward_haste=-1.0, **weights) as vec:
        vec.reset(0)
        before = vec.peek(0)
        _, rewards, *_ = vec.step(np.array([3 * 13 + 6]))
        after = vec.peek(0)
    left_s = (frames - 1 - 1) * 0.1
    away = float(np.hypot(after["goal_x"][0] - after["x"][0], after["goal_y"][0] - after["y"][0]))
    assert before["speed"][0] == after["speed"][0] == -5.0
    assert rewards[0] == pytest.approx(-(5.0 - 2 * away / left_s), rel=1e-5) and rewards[0] < -1.0
