# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Baselines do what their names say, and the generated logs can be driven with the env's own
actions.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from drive_env.actions import axes_of
from drive_env.config import PRESETS, DriveConfig
from drive_env.evaluate import baselines
from drive_env.evaluate.baselines import (
    ACCELERATIONS_MPS2,
    BASELINES,
    STEERINGS_RAD,
    TARGET_MPS,
    LaneFollowActor,
    action_of,
    baseline,
    following_acceleration,
    lookahead,
)
from drive_env.evaluate.evaluate import evaluate
from drive_env.generate.generate import main as generate_main
from tests.helpers import thinned

MakeTree = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of eight generated scenes."""
    folder = tmp_path_factory.mktemp("generated")
    assert generate_main(["--out", str(folder), "--count", "8", "--seed", "77"]) == 0
    return folder


@pytest.fixture
def tiny(tiny_tree: MakeTree, tmp_path: Path, cache: Path) -> DriveConfig:
    """Two cars on a straight road."""
    (tmp_path / "tiny.json").write_text(json.dumps(tiny_tree(frames=60)))
    return DriveConfig(scenes=str(tmp_path / "tiny.json"))


def test_the_nearest_action_is_chosen() -> None:
    wanted = action_of(
        np.array([-9.0, 0.1, 3.0], np.float32), np.array([0.0, -0.2, 2.0], np.float32)
    )
    assert wanted.tolist() == [0 * 13 + 6, 3 * 13 + 5, 5 * 13 + 12]
    assert len(ACCELERATIONS_MPS2) * len(STEERINGS_RAD) == 91


@pytest.mark.slow
def test_the_log_scores_one(generated: Path, cache: Path) -> None:
    total = evaluate(baseline("log"), DriveConfig(scenes=str(generated))).total
    assert total.agents > 30
    assert {name: total.rate(name) for name in total.counts} == {
        "score": 1.0,
        "goal": 1.0,
        "collision": 0.0,
        "offroad": 0.0,
    }


def test_lane_follow_keeps_its_lane(tiny: DriveConfig) -> None:
    total = evaluate(baseline("lane-follow"), tiny).total
    assert total.rate("score") == 1.0


def test_lane_follow_does_not_know_its_route(
    tiny_tree: MakeTree, tmp_path: Path, cache: Path
) -> None:
    tree = tiny_tree(frames=60, cars=1)
    tree["objects"][0]["goalPosition"]["y"] = 1.75  # on the other lane
    (tmp_path / "other.json").write_text(json.dumps(tree))
    total = evaluate(
        baseline("lane-follow"), DriveConfig(scenes=str(tmp_path / "other.json"))
    ).total
    assert total.rate("goal") == 0.0 and total.rate("offroad") == 0.0


def test_lane_follow_stops_behind_a_standing_car(
    tiny_tree: MakeTree, tmp_path: Path, cache: Path
) -> None:
    tree = tiny_tree(frames=60, cars=3)
    standing = tree["objects"][2]  # same lane as car 0, 24 m ahead
    standing["position"] = [standing["position"][0]] * 60
    standing["goalPosition"] = dict(standing["position"][0])
    del tree["objects"][1]
    (tmp_path / "behind.json").write_text(json.dumps(tree))
    total = evaluate(
        baseline("lane-follow"), DriveConfig(scenes=str(tmp_path / "behind.json"))
    ).total
    assert total.agents == 1 and total.rate("collision") == 0.0 and total.rate("goal") == 0.0


@pytest.mark.parametrize(
    ("speed", "wanted"), [(TARGET_MPS - 1, 2.0), (TARGET_MPS, 0.0), (TARGET_MPS + 1, -2.0)]
)
def test_lane_follow_is_at_its_speed_in_half_a_second(speed: float, wanted: float) -> None:
    lane = {"x": 6.0, "y": 0.0, "half_length": 30.0, "cos": 1.0, "sin": 0.0, "there": 1.0}
    lanes = {name: np.array([[value]], np.float32) for name, value in lane.items()}
    names = ("x", "y", "length", "width", "cos", "sin", "velocity_x", "there")
    nobody = {name: np.zeros((1, 1), np.float32) for name in names}
    size = {"speed": speed, "length": 4.5, "width": 2.0}
    ego = {name: np.array([value], np.float32) for name, value in size.items()}
    actor = LaneFollowActor()
    actor._reader = SimpleNamespace(  # type: ignore[assignment]
        read=lambda rows: {"ego": ego, "lanes": lanes, "partners": nobody}
    )
    found: Any = actor.act(np.zeros((1, 1), np.float32), None)  # type: ignore[arg-type]
    assert found == action_of(np.array([wanted], np.float32), np.zeros(1, np.float32))


def test_the_lookahead_prefers_the_own_lane() -> None:
    lanes = {
        "x": np.array([[6.0, 6.0]], np.float32), "y": np.array([[0.2, 3.5]], np.float32),
        "half_length": np.full((1, 2), 7.0, np.float32), "cos": np.ones((1, 2), np.float32),
        "sin": np.zeros((1, 2), np.float32), "there": np.array([[True, True]]),
    }  # fmt: skip
    x, y = lookahead(lanes, np.array([8.0], np.float32))
    assert y[0] == pytest.approx(0.2) and abs(x[0] - 8.0) < 2.0
    nothing = {**lanes, "there": np.array([[False, False]])}
    assert [float(value[0]) for value in lookahead(nothing, np.array([8.0], np.float32))] == [
        8.0,
        0.0,
    ]


def lane_points(row: dict[str, np.ndarray]) -> list[tuple[float, float, float]]:
    """Nine points along each lane that is there: x, y, heading."""
    points = []
    for x, y, half, cos, sin, there in zip(
        *(row[name] for name in ("x", "y", "half_length", "cos", "sin", "there")), strict=True
    ):
        if there:
            points += [
                (x + k / 4 * half * cos, y + k / 4 * half * sin, math.atan2(sin, cos))
                for k in range(-4, 5)
            ]
    return points


def test_the_lookahead_equals_a_plain_search() -> None:
    """It weighs the distance from the reach, the bearing and the turn, of what lies ahead."""
    rng = np.random.default_rng(2)
    shape, heading = (60, 5), rng.uniform(-1.6, 1.6, (60, 5))
    lanes = {
        "x": rng.uniform(-8, 25, shape), "y": rng.uniform(-7, 7, shape),
        "half_length": rng.uniform(0.5, 8, shape), "cos": np.cos(heading), "sin": np.sin(heading),
        "there": (rng.random(shape) < 0.5).astype(float),
    }  # fmt: skip
    lanes = {name: values.astype(np.float32) for name, values in lanes.items()}
    reach = rng.uniform(5, 15, 60).astype(np.float32)
    found = np.stack(lookahead(lanes, reach), axis=-1)
    straight = 0
    for row, want in enumerate(reach.tolist()):
        points = lane_points({name: values[row] for name, values in lanes.items()})
        costs = {
            abs(math.hypot(x, y) - want) / want + 1.5 * abs(math.atan2(y, x)) + 0.5 * abs(turn): (
                x,
                y,
            )
            for x, y, turn in points
            if x > 1 and abs(turn) < 1
        }
        best = costs[min(costs)] if costs else (want, 0.0)
        assert found[row] == pytest.approx(best, abs=1e-4), row
        straight += not costs
    assert 2 < straight < 30


def test_the_gap_to_the_car_ahead_is_kept_by_the_driver_model() -> None:
    """2 m and a second, 1.5 m/s2 and 3 m/s2, to whatever reaches into the corridor and 0.2 m
    beside it.
    """
    rng = np.random.default_rng(3)
    shape, heading = (300, 4), rng.uniform(-np.pi, np.pi, (300, 4))
    partners = {
        "x": rng.uniform(-10, 40, shape), "y": rng.uniform(-5, 5, shape),
        "length": rng.uniform(0.5, 8, shape), "width": rng.uniform(0.5, 3, shape),
        "cos": np.cos(heading), "sin": np.sin(heading),
        "velocity_x": rng.uniform(-12, 8, shape), "there": rng.random(shape) < 0.7,
    }  # fmt: skip
    ego = {
        "speed": rng.uniform(-3, 15, 300), "length": rng.uniform(3, 8, 300),
        "width": rng.uniform(1.5, 2.5, 300),
    }  # fmt: skip
    curvature = rng.uniform(-0.02, 0.02, 300)

    def single(of: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: values.astype(np.float32) for name, values in of.items()}

    found = following_acceleration(single(ego), single(partners), curvature.astype(np.float32))
    free = 0
    for row in range(300):
        speed, gaps = max(ego["speed"][row], 0.0), []
        for x, y, length, width, cos, sin, velocity, there in zip(
            *(values[row] for values in partners.values()), strict=True
        ):
            reach = (length * abs(cos) + width * abs(sin)) / 2
            side = (length * abs(sin) + width * abs(cos)) / 2
            off = abs(y - curvature[row] * x * x / 2)
            if there and x > 0 and off < side + ego["width"][row] / 2 + 0.2:
                gaps.append((max(x - reach - ego["length"][row] / 2, 0.1), -velocity))
        wanted = 1.5
        if gaps:
            gap, closing = min(gaps)
            room = 2.0 + max(0.0, speed + speed * closing / (2 * math.sqrt(1.5 * 3.0)))
            wanted = max(1.5 * (1 - (room / gap) ** 2), -speed / 0.1)
        free += not gaps
        assert found[row] == pytest.approx(wanted, rel=1e-4, abs=1e-4), row
    assert 30 < free < 270


@pytest.mark.parametrize("radius_m", [12.0, -12.0, 20.0, -40.0])
def test_lane_follow_steers_round_a_circle(
    radius_m: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any point of it gives the curvature; the wheelbase is 0.6 of the length, as in the env, and
    the lateral acceleration stays at 3 m/s2.
    """
    turn = np.arange(0.5, 20.0, 1.0) / radius_m
    lanes = {
        "x": radius_m * np.sin(turn), "y": radius_m * (1 - np.cos(turn)),
        "half_length": np.full(len(turn), 0.2), "cos": np.cos(turn), "sin": np.sin(turn),
        "there": np.ones(len(turn)),
    }  # fmt: skip
    lanes = {name: values[None].astype(np.float32) for name, values in lanes.items()}
    top = math.sqrt(3.0 * abs(radius_m))
    size = {"speed": top - 0.7, "length": 4.5, "width": 2.0}
    ego = {name: np.array([value], np.float32) for name, value in size.items()}
    names = ("x", "y", "length", "width", "cos", "sin", "velocity_x", "there")
    nobody = {name: np.zeros((1, 1), np.float32) for name in names}
    actor = LaneFollowActor()
    actor._reader = SimpleNamespace(  # type: ignore[assignment]
        read=lambda rows: {"ego": ego, "lanes": lanes, "partners": nobody}
    )
    asked = []
    monkeypatch.setattr(
        baselines,
        "lookahead",
        lambda of, reach: asked.append(float(reach[0])) or lookahead(of, reach),
    )
    found: Any = actor.act(np.zeros((1, 1), np.float32), None)  # type: ignore[arg-type]
    steering = math.atan(0.6 * 4.5 / radius_m)
    assert found == action_of(np.array([1.4], np.float32), np.array([steering], np.float32))
    assert asked == [pytest.approx(max(5.0, 0.9 * (top - 0.7)), rel=1e-6)]


def test_values_of_actions_are_those_of_the_model() -> None:
    for own, axis in zip((ACCELERATIONS_MPS2, STEERINGS_RAD), axes_of("bicycle"), strict=True):
        np.testing.assert_allclose(own, axis.values, atol=1e-3)


ELSEWHERE: dict[str, Any] = {
    "row_dtype": "uint8",
    "range_m": 80.0,
    "lanes": 3,
    "segments": "spread",
    "partner_types": 1,
}


@pytest.mark.parametrize("name", thinned(2, sorted(BASELINES)))
def test_baselines_drive_alike_whatever_the_run_observes(tiny: DriveConfig, name: str) -> None:
    outcomes = []
    for preset in (*PRESETS, "compact"):
        for settings in ({}, ELSEWHERE):
            config = dataclasses.replace(
                tiny, partners=-1, lanes=-1, lines=-1, edges=-1, roads=-1, observation=preset
            )
            outcomes.append(evaluate(baseline(name), dataclasses.replace(config, **settings)).total)
    assert all(outcome == outcomes[0] for outcome in outcomes) and outcomes[0].agents == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    thinned(
        2,
        [
            ("random", {"dynamics": "jerk"}),
            ("random", {"actions": "multi_discrete"}),
            ("random", {"dynamics": "invertible_bicycle", "actions": "continuous"}),
            ("stop", {"dynamics": "state", "actions": "continuous"}),
            ("log", {"dynamics": "delta_local", "action_values": ("dx=0,1",)}),
            ("expert", {"dynamics": "delta_local", "actions": "continuous"}),
            ("expert", {}),
        ],
    ),
    ids=str,
)
def test_baselines_act_in_every_action_space(
    generated: Path, cache: Path, name: str, settings: dict[str, Any]
) -> None:
    total = evaluate(
        baseline(name), DriveConfig(scenes=str(generated), max_steps=90, **settings)
    ).total
    assert total.agents > 10
    if name in ("log", "expert"):
        assert total.counts["goal"] >= 0.95 * total.agents
