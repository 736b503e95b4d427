# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Who goes first where ways meet: in the observation, in the reward and in the metrics
(csrc/drive/search/conflicts.c); small scenes by hand, others against the twin.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.evaluate.observation import ObservationReader
from drive_env.generate.streets import street_scene
from drive_env.scenes.schema import (
    GREEN,
    PEDESTRIAN,
    RED,
    UNKNOWN,
    VEHICLE,
    Control,
    LaneLinks,
    Road,
    Scene,
    SceneObject,
)
from puffervec.vec.vector_env import VectorEnv
from tests.drive_env.test_observe_twin import split
from tests.drive_env.worlds import agents_of, lit, make_env, pose_of, random_scene, write_world
from tests.helpers import slow_but
from tests.twins.drive import SceneTwin
from tests.twins.drive_conflicts import Conflicts

COASTS = 45  # the action that neither accelerates nor steers
LENGTH_M, FRAMES = 4.5, 40
OTHERS = {"num_agents": 8, "control": "valid", "goal_radius_m": 1.0, "reward_progress": 0.0}
Values = dict[str, np.ndarray]


def body(
    place: tuple[float, float], degrees: float, speed: float, goal: tuple[float, float],
    kind: int = VEHICLE,
) -> SceneObject:  # fmt: skip
    """An object that goes straight on."""
    heading = np.radians(degrees)
    velocity = np.tile(speed * np.array([np.cos(heading), np.sin(heading)]), (FRAMES, 1))
    position = np.array(place) + 0.1 * np.arange(FRAMES)[:, None] * velocity
    length, width = (LENGTH_M, 1.9) if kind == VEHICLE else (0.6, 0.6)
    return SceneObject(
        kind, -1, width, length, 1.5, False, np.c_[position, np.zeros(FRAMES)], velocity,
        np.full(FRAMES, heading), np.ones(FRAMES, bool), np.array([*goal, 0.0]),
    )  # fmt: skip


def lane(number: int, *points: tuple[float, float], exits: tuple[int, ...] = ()) -> Road:
    return Road("lane", 2, number, np.c_[np.array(points), np.zeros(len(points))],
                LaneLinks(exits=exits))  # fmt: skip


def scene_of(objects: list[SceneObject], roads: list[Road], *controls: Control) -> Scene:
    return Scene("t", "", FRAMES, tuple(objects), tuple(roads), {}, {}, controls=controls)


EAST, NORTH = lane(0, (-60.0, 0.0), (60.0, 0.0)), lane(1, (0.0, -60.0), (0.0, 60.0))
CARS = [body((-20.0, 0.0), 0.0, 10.0, (50.0, 0.0)), body((0.0, -25.0), 90.0, 10.0, (0.0, 50.0))]


def conflicts_of(path: Path, scene: Scene, **settings: Any) -> Values:
    """The conflicts of the first rows, by column, (rows, k); with whether they are there."""
    write_world(path, [scene])
    with make_env(path, **{**OTHERS, "conflicts": 3, **settings}) as vec:
        obs, _ = vec.reset(seed=0)
        return ObservationReader(vec).read(obs)["conflicts"]


def first(values: Values, row: int = 0) -> str:
    """Who goes first in the nearest conflict of a row: "goes", "yields" or "unknown"."""
    names = [name for name in ("goes", "yields", "unknown") if values[name][row, 0]]
    assert len(names) == 1
    return names[0]


def control(kind: int, lane_id: int, state: int, place: tuple[float, float]) -> Control:
    return Control(kind, np.array([*place, 0.0]), lane_id, np.array([state], np.uint8))


STOP, LIGHT = 0, 1


def test_a_crossing_says_where_when_and_who(tmp_path: Path) -> None:
    values = conflicts_of(tmp_path / "set", scene_of(CARS, [EAST, NORTH]))
    wanted = {
        "distance": 20 - LENGTH_M / 2 - 2,
        "other_distance": 25 - LENGTH_M / 2 - 2,
        "time": 1.575,
        "other_time": 2.075,
        "x": 20.0,
        "y": 0.0,
        "cos": 0.0,
        "sin": 1.0,
        "joins": 0.0,
        "walks": 0.0,
    }
    for name, value in wanted.items():
        assert values[name][0, 0] == pytest.approx(value, abs=1e-3), name
    assert values["there"][:2, 0].all() and not values["there"][:2, 1:].any()
    assert values["y"][1, 0] == pytest.approx(0.0, abs=1e-3)
    assert values["sin"][1, 0] == pytest.approx(-1.0)
    # The other comes from the right of the first car, and that one from the left of the other.
    assert (first(values, 0), first(values, 1)) == ("yields", "goes")


@pytest.mark.parametrize(
    ("controls", "wanted"),
    [
        ([control(STOP, 1, RED, (0.0, -5.0))], "goes"),
        ([control(STOP, 0, RED, (-5.0, 0.0))], "yields"),
        ([control(LIGHT, 0, GREEN, (-5.0, 0.0)), control(LIGHT, 1, RED, (0.0, -5.0))], "goes"),
        ([control(LIGHT, 0, GREEN, (-5.0, 0.0)), control(LIGHT, 1, GREEN, (0.0, -5.0))], "yields"),
        ([control(LIGHT, 0, UNKNOWN, (-5.0, 0.0)), control(LIGHT, 1, RED, (0, -5.0))], "unknown"),
        ([control(STOP, 1, RED, (0.0, -5.0)), control(LIGHT, 0, RED, (-5.0, 0.0))], "yields"),
    ],
)  # fmt: skip
def test_lights_and_signs_decide(tmp_path: Path, controls: list[Control], wanted: str) -> None:
    assert first(conflicts_of(tmp_path / "set", scene_of(CARS, [EAST, NORTH], *controls))) == wanted


@pytest.mark.parametrize(("nearer_m", "wanted"), [(-40.0, "goes"), (-13.0, "yields")])
def test_of_two_at_signs_the_nearer_one_goes(tmp_path: Path, nearer_m: float, wanted: str) -> None:
    cars = [CARS[0], body((0.0, nearer_m), 90.0, 2.0, (0.0, 50.0))]
    signs = [control(STOP, 0, RED, (-5.0, 0.0)), control(STOP, 1, RED, (0.0, -5.0))]
    assert first(conflicts_of(tmp_path / "set", scene_of(cars, [EAST, NORTH], *signs))) == wanted


def test_a_ramp_lets_the_road_go_first(tmp_path: Path) -> None:
    roads = [
        lane(0, (-60.0, 0.0), (0.0, 0.0), exits=(2,)),
        lane(1, (-60.0, -10.0), (-40.0, -10.0), (-20.0, -5.0), (0.0, 0.0), exits=(2,)),
        lane(2, (0.0, 0.0), (80.0, 0.0)),
    ]
    cars = [body((-20.0, 0.0), 0.0, 10.0, (70.0, 0.0)), body((-48.0, -10.0), 0.0, 10.0, (70.0, 0))]
    values = conflicts_of(tmp_path / "set", scene_of(cars, roads))
    assert values["joins"][0, 0] == values["joins"][1, 0] == 1
    assert (first(values, 0), first(values, 1)) == ("goes", "yields")
    way = 8.0 + np.hypot(20.0, 5.0) * 2
    assert values["distance"][1, 0] == pytest.approx(way - LENGTH_M / 2 - 2, abs=0.1)


def test_a_left_turn_waits_for_oncoming_traffic(tmp_path: Path) -> None:
    bend = [
        (10.0 * np.sin(a), -1.75 - 10.0 * (1 - np.cos(a))) for a in np.linspace(0, np.pi / 2, 12)
    ]
    left = [(x, -3.5 - y) for x, y in bend]
    roads = [
        lane(0, (-60.0, -1.75), (0.0, -1.75), exits=(1,)),
        lane(1, *left, exits=(2,)),
        lane(2, left[-1], (10.0, 60.0)),
        lane(3, (60.0, 1.75), (-60.0, 1.75)),
    ]
    cars = [
        body((-15.0, -1.75), 0.0, 8.0, (10.0, 50.0)), body((40.0, 1.75), 180.0, 8.0, (-50.0, 1.75)),
    ]  # fmt: skip
    values = conflicts_of(tmp_path / "set", scene_of(cars, roads))
    assert (first(values, 0), first(values, 1)) == ("yields", "goes")
    assert values["cos"][0, 0] == pytest.approx(-1.0, abs=1e-4)


@pytest.mark.parametrize("crosswalk", [True, False])
def test_pedestrians_go_first_on_crosswalks(tmp_path: Path, crosswalk: bool) -> None:
    walker = body((0.0, -5.0), 90.0, 1.5, (0.0, 5.0), PEDESTRIAN)
    corners = np.array([(-2.0, -6.0, 0.0), (2.0, -6.0, 0), (2.0, 6.0, 0), (-2.0, 6.0, 0)])
    area = [Road("crosswalk", 18, 9, corners)] if crosswalk else []
    values = conflicts_of(tmp_path / "set", scene_of([CARS[0], walker], [EAST, *area]))
    assert first(values) == ("yields" if crosswalk else "goes") and values["walks"][0, 0] == 1


def test_without_lanes_nobody_knows(tmp_path: Path) -> None:
    line = Road("road_line", 6, 5, np.array([(-60.0, 9.0, 0.0), (60.0, 9.0, 0.0)]))
    values = conflicts_of(tmp_path / "set", scene_of(CARS, [line]))
    assert first(values, 0) == first(values, 1) == "unknown"
    assert values["distance"][0, 0] == pytest.approx(20 - LENGTH_M / 2 - 2, abs=1e-3)


def test_who_follows_has_no_conflict(tmp_path: Path) -> None:
    cars = [CARS[0], body((0.0, 0.0), 0.0, 5.0, (50.0, 0.0)), body((0.0, 9.0), 0.0, 0.0, (0.0, 0))]
    values = conflicts_of(tmp_path / "set", scene_of(cars, [EAST]))
    assert not values["there"].any()


def test_ways_follow_exits_to_the_goal(tmp_path: Path) -> None:
    """The way to a goal on the left crosses, the way to one on the right does not."""
    roads = [
        lane(0, (-60.0, 0.0), (0.0, 0.0), exits=(1, 2)),
        lane(1, (0.0, 0.0), (15.0, 6.0), (30.0, 30.0)),
        lane(2, (0.0, 0.0), (15.0, -6.0), (30.0, -30.0)),
        lane(3, (60.0, 10.0), (-60.0, 10.0)),
    ]
    other = body((50.0, 10.0), 180.0, 5.0, (-50.0, 10.0))
    for goal, meets in (((30.0, 30.0), True), ((30.0, -30.0), False)):
        cars = [body((-20.0, 0.0), 0.0, 10.0, goal), other]
        values = conflicts_of(tmp_path / f"set{meets}", scene_of(cars, roads))
        assert bool(values["there"][0, 0]) == meets


@pytest.mark.parametrize(("sign", "fails"), [(False, True), (True, False)])
def test_entering_before_who_goes_first_costs_once(tmp_path: Path, sign: bool, fails: bool) -> None:
    """The first car enters the area after 1.6 s, the other one half a second later."""
    signs = [control(STOP, 1, RED, (0.0, -5.0))] if sign else []
    write_world(tmp_path / "set", [scene_of(CARS, [EAST, NORTH], *signs)])
    rewards = {"reward_yield": -1.0, "reward_collision": 0.0, "reward_offroad": 0.0}
    with make_env(tmp_path / "set", **{**OTHERS, **rewards, "metrics": 1}) as vec:
        vec.reset(seed=0)
        paid = [vec.step([COASTS] * vec.num_agents)[1][0] for _ in range(19)]
        state = vec.peek(0)
        assert paid == [-1.0 if fails and step == 15 else 0.0 for step in range(19)]
        assert state["yields_failed"][0] == fails and state["yield_step"][0] == 16 * fails
        for _ in range(30):
            infos = vec.step([COASTS] * vec.num_agents)[4]
            if infos:  # the other car enters while the first one is there
                record = dict(zip(vec.spec.record_names, infos.episodes[0]["values"], strict=False))
                assert record["failed_to_yield"] == 1 + fails
                return
    pytest.fail("no episode ended")


# ---- against the twin ----------------------------------------------------------------------------


def compare(vec: VectorEnv, twins: dict[int, SceneTwin], obs: np.ndarray, before: Any) -> Any:
    """Compare conflicts, and what was not yielded to since `before`. Returns counts of rows, of
    conflicts, of events, and of rows that differ.
    """
    state, block, counts = vec.peek(0), split(vec, obs)["conflicts"], np.zeros(4, int)
    masks = vec.halves[0].groups["agents"].masks
    bound = max(8.0, vec.config.range_m / 20 + 1)
    for slot, scene in enumerate(state["slot_scene"]):
        if scene < 0:
            continue
        twin, clock = twins[int(scene)], int(state["slot_clock"][slot])
        rows = {o: row for o, row in agents_of(state, slot).items() if masks[row]}
        bodies = twin.bodies(clock, {o: pose_of(state, row) for o, row in rows.items()}, vec.config)
        goals = {o: (float(state["goal_x"][r]), float(state["goal_y"][r])) for o, r in rows.items()}
        found = Conflicts(twin, bodies, clock + vec.config.init_step, goals)
        for o, row in rows.items():
            own = bodies.at(o)
            wanted = found.block(own, vec.config.conflicts, bound)
            same = np.allclose(block[row], wanted, atol=2e-3)
            if before is not None and clock > 0:
                moved = np.hypot(*(state[a][row] - before[a][row] for a in ("x", "y")))
                event = int(state["yields_failed"][row]) - int(before["yields_failed"][row])
                same &= event == found.fails_to_yield(own, float(moved))
                counts[2] += event
            counts += (1, int((wanted != 0).any(axis=1).sum()), 0, not same)
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("init_step", slow_but([0], [0, 4]))
@pytest.mark.parametrize("world", ["streets", "random"])
def test_rows_and_events_equal_the_twin(tmp_path: Path, world: str, init_step: int) -> None:
    """Float32 and float64 may decide otherwise next to a threshold: one row in 100."""
    families = ("cross", "signal", "stop", "roundabout", "ramps", "left", "crosswalk")
    scenes = (
        [street_scene(3, number, family=name) for number, name in enumerate(families)]
        if world == "streets"
        else [
            lit(random_scene(seed, objects=16, spread_m=30.0), seed) if seed % 2
            else random_scene(seed, spread_m=30.0)
            for seed in range(4)
        ]
    )  # fmt: skip
    sets = write_world(tmp_path / "set", scenes)
    twins = {index: SceneTwin(sets, index) for index in range(len(scenes))}
    settings = {"conflicts": 5, "metrics": 1, "init_step": init_step, "goal_behavior": "drive_on"}
    rng = np.random.default_rng(init_step)
    total = np.zeros(4, int)
    with make_env(tmp_path / "set", control="all", **{"num_agents": 48, **settings}) as vec:
        obs, _ = vec.reset(seed=1)
        total += compare(vec, twins, obs, None)
        for step in range(42):
            before = vec.peek(0)
            # Mostly on their way: those who steer at random soon meet nobody.
            some = rng.random(vec.num_agents) < 0.8
            chosen = np.where(some, COASTS, rng.integers(0, 91, vec.num_agents))
            obs = vec.step(chosen.astype(np.int32))[0]
            fresh = (vec.peek(0)["yields_failed"] > before["yields_failed"]).any()
            if fresh or step % 6 == 0:
                total += compare(vec, twins, obs, before)
    rows, conflicts, events, wrong = total.tolist()
    assert rows > 200 and conflicts > rows / 10, total
    assert events > 2 or world == "streets", total
    assert wrong <= 0.01 * rows, total


def test_a_state_that_is_set_shows_the_same_conflicts(tmp_path: Path) -> None:
    write_world(tmp_path / "set", [street_scene(3, 1, family="cross")])
    with make_env(tmp_path / "set", conflicts=4, control="valid", goal_behavior="drive_on") as vec:
        vec.reset(seed=0)
        for _ in range(9):
            obs = vec.step([COASTS] * vec.num_agents)[0].copy()
        assert split(vec, obs)["conflicts"].any()
        vec.poke(0, vec.peek(0))
        np.testing.assert_array_equal(vec.halves[0].groups["agents"].observations, obs)


def test_rows_of_bytes_hold_conflicts_too(tmp_path: Path) -> None:
    scene = scene_of(CARS, [EAST, NORTH])
    full = conflicts_of(tmp_path / "set", scene)
    small = conflicts_of(tmp_path / "set", scene, row_dtype="uint8")
    for name in ("distance", "time", "x", "yields"):
        assert small[name][0, 0] == pytest.approx(full[name][0, 0], abs=0.3)


def test_the_setting_leaves_no_trace_in_other_rows(tmp_path: Path) -> None:
    write_world(tmp_path / "set", [dataclasses.replace(scene_of(CARS, [EAST, NORTH]), name="a")])
    rows = []
    for settings in ({}, {"conflicts": 2}):
        with make_env(tmp_path / "set", **{**OTHERS, **settings}) as vec:
            obs, _ = vec.reset(seed=0)
            rows.append(obs.copy())
    np.testing.assert_array_equal(rows[0], rows[1][:, : rows[0].shape[1]])
