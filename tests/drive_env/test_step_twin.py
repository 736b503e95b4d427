# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Each step equals the twin's: motion, contacts, road edges, goals, rewards, flags, masks, episode
records.

The twin starts every step from the state that the env shows (`vec.peek`), so errors cannot hide
behind drift. What hangs on less than a millimetre is not judged.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.config import DriveConfig
from drive_env.generate.generate import generate_scene
from drive_env.motion import Body
from drive_env.prepare import prepare_scenes
from drive_env.scenes.sceneset import SceneSet
from drive_env.scenes.schema import OBJECT_TYPES, Road, Scene
from puffervec.testing.reference.philox import below
from puffervec.vec.vector_env import VectorEnv
from tests.drive_env.worlds import (
    CUT,
    GONE,
    RETURNS,
    STAYS,
    agents_of,
    make_env,
    moving_object,
    obstacles_of,
    pose_of,
    random_scene,
    write_world,
)
from tests.twins.drive import (
    ACCELERATIONS,
    STEERINGS,
    Bodies,
    SceneTwin,
    bicycle,
    distance_to_path,
    gap,
    paths_cross,
    segment_in_box,
)
from tests.twins.drive_models import step

MARGIN_M = 1e-3
State = dict[str, np.ndarray]


@dataclass
class Sums:
    """An agent's episode, as the twin adds it up."""

    returns: float = 0.0
    contacts: int = 0
    departures: int = 0
    goal_step: int = 0
    again: int = 0
    scored: bool = False


@dataclass
class Judge:
    """Follows an env step by step. seen counts what was checked, so that a test can tell that it
    was not empty.
    """

    vec: VectorEnv
    scenes: SceneSet
    seed: int = 0
    sums: dict[int, Sums] = field(default_factory=lambda: defaultdict(Sums))
    seen: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    unclear: set[int] = field(
        default_factory=set
    )  # slots whose sums hang on less than a millimetre

    def step(
        self, before: State, actions: np.ndarray, live: np.ndarray, result: tuple[Any, ...]
    ) -> State:
        """Check one step of env 0. live (A,): rows whose masks were set and that were not done."""
        after = self.vec.peek(0)
        _, rewards, terminals, truncations, infos = result
        for slot, scene in enumerate(before["slot_scene"]):
            if scene < 0:
                continue
            if after["slot_clock"][slot] == 0:
                self.started(after, slot, rewards, terminals, truncations)
            else:
                twin = SceneTwin(self.scenes, int(scene))
                SlotStep(self, twin, slot, before, after, actions).check(
                    rewards, terminals, truncations
                )
        self.records(infos)
        return after

    def started(
        self,
        after: State,
        slot: int,
        rewards: np.ndarray,
        terminals: np.ndarray,
        truncations: np.ndarray,
    ) -> None:
        """The slot's scene started again: reset rows."""
        rows = np.flatnonzero(after["slot"] == slot)
        assert after["active"][rows].all() and not after["reached"][rows].any()
        assert not rewards[rows].any() and not terminals[rows].any() and not truncations[rows].any()
        assert self.vec.halves[0].groups["agents"].masks[rows].all()
        for row in rows:
            self.sums.pop(int(row), None)
        self.unclear.discard(slot)
        self.seen["starts"] += 1

    def records(self, infos: dict[str, Any]) -> None:
        """Records of scenes that ended equal the sums."""
        names = self.vec.spec.record_names
        state = self.vec.peek(0)
        for record in infos.episodes:
            slot = int(record["slot"])
            if slot in self.unclear:
                continue
            sums = [self.sums[int(row)] for row in np.flatnonzero(state["slot"] == slot)]
            values = dict(zip(names, record["values"], strict=False))
            assert (
                record["task"] == state["slot_scene"][slot]
                and record["length"] == state["slot_clock"][slot]
            )
            assert values["agents"] == len(sums)
            assert values["goals"] == sum(s.goal_step > 0 for s in sums)
            assert values["score"] == sum(s.scored for s in sums)
            assert values["collisions"] == sum(s.contacts > 0 for s in sums)
            assert values["offroads"] == sum(s.departures > 0 for s in sums)
            assert values["contacts"] == sum(s.contacts for s in sums)
            assert values["departures"] == sum(s.departures for s in sums)
            assert values["goal_steps"] == sum(s.goal_step for s in sums)
            assert values["goals_again"] == sum(s.again for s in sums)
            assert values["complete"] == 1
            assert record["return"] == pytest.approx(np.mean([s.returns for s in sums]), abs=1e-3)
            self.seen["records"] += 1


class SlotStep:
    """One step of one scene."""

    def __init__(
        self,
        judge: Judge,
        twin: SceneTwin,
        slot: int,
        before: State,
        after: State,
        actions: np.ndarray,
    ) -> None:
        self.judge, self.twin, self.slot, self.before, self.after, self.actions = (
            judge,
            twin,
            slot,
            before,
            after,
            actions,
        )
        self.config = judge.vec.config
        self.clock = int(after["slot_clock"][slot])
        self.rows = agents_of(after, slot)
        # who is there after the step was there before it, apart from those whose rows had ended
        parked = {
            o: (*pose_of(after, row)[:3], 0.0) for o, row in obstacles_of(after, slot).items()
        }
        met = {o: row for o, row in self.rows.items() if not after["alone"][row]}
        self.old = twin.bodies(
            self.clock - 1,
            {o: pose_of(before, row) for o, row in met.items()} | parked,
            self.config,
        ).shrunk(self.config.box_scale)
        self.new = twin.bodies(
            self.clock, {o: pose_of(after, row) for o, row in met.items()} | parked, self.config
        ).shrunk(self.config.box_scale)

    def check(self, rewards: np.ndarray, terminals: np.ndarray, truncations: np.ndarray) -> None:
        masks = self.judge.vec.halves[0].groups["agents"].masks
        out_of_time = self.clock >= (
            self.config.max_steps or self.twin.steps - self.config.init_step
        )
        returned = set()
        for row in np.flatnonzero(self.after["slot"] == self.slot):
            there = self.before["active"][row] == 1 and not self.before["ended"][row]
            if (
                self.before["active"][row] == 1
                and self.before["ended"][row] == RETURNS
                and not out_of_time
            ):
                self.returned(int(row))
                returned.add(row)
                there = True
            assert (self.after["active"][row] == 1) == there == bool(masks[row])
            if not there or row in returned:
                assert rewards[row] == 0 and not terminals[row] and not truncations[row]
                self.judge.seen["gone"] += not there
        for o, row in self.rows.items():
            if row in returned:
                continue
            self.motion(o, row)
            reward, events, clear = self.judged(o, row)
            end = self.end(o, row, events)
            if clear:
                assert self.after["ended"][row] == end
            end = int(self.after["ended"][row])
            self.judge.seen[f"end {end}"] += 1
            assert bool(terminals[row]) == (end in (GONE, STAYS, RETURNS))
            assert bool(truncations[row]) == (not terminals[row] and (out_of_time or end == CUT))
            sums = self.judge.sums[row]
            if clear:
                assert rewards[row] == pytest.approx(reward, abs=2e-4), (o, row, self.clock)
            else:
                self.judge.unclear.add(self.slot)
            sums.returns += float(rewards[row])

    def end(self, o: int, row: int, events: set[str]) -> int:
        """How a row ends in which these things happened."""
        if "goal" in events and self.config.goal_behavior == "next" and not self.next_goal(row):
            return GONE
        behaviors = {
            "drive_on": 0,
            "next": 0,
            "ignore": 0,
            "remove": GONE,
            "stop": STAYS,
            "respawn": RETURNS,
        }
        if "goal" in events and behaviors[self.config.goal_behavior]:
            return behaviors[self.config.goal_behavior]
        mishaps = {
            behaviors[getattr(self.config, f"{event}_behavior")] for event in events - {"goal"}
        } - {0}
        if mishaps:
            return min(mishaps)  # gone rather than in the way
        item = self.twin.objects[o]
        over = (
            self.clock + self.config.init_step
            >= int(item["frame_first"]) + int(item["frame_count"]) - 1
        )
        return CUT if self.config.replay_log and over else 0

    def next_goal(self, row: int) -> bool:
        """An agent at its goal got the next one; False: there is none."""
        keys = self.judge.seed, int(self.after["episode"]), int(self.after["step"])

        def draw(lane: int, count: int) -> int:
            self.judge.seen["draws"] += 1
            return below(*keys, 2**31 + row * 2**16 + lane, count)

        expected = self.twin.next_goal(pose_of(self.after, row), self.config, draw)
        if expected is None:
            return False
        np.testing.assert_allclose(
            (self.after["goal_x"][row], self.after["goal_y"][row]), expected, atol=2e-3
        )
        self.judge.seen["next goals"] += 1
        return True

    def returned(self, row: int) -> None:
        """An agent's row began again at its start."""
        start = self.twin.frame(int(self.after["object"][row]), self.config.init_step)
        expected = (
            start["x_m"],
            start["y_m"],
            start["heading"] * np.pi / 32768,
            start["speed"] * 0.01,
        )
        np.testing.assert_allclose(pose_of(self.after, row), expected, atol=1e-4)
        assert (
            self.after["alone"][row] and self.after["reached"][row] and not self.after["ended"][row]
        )
        self.judge.seen["returns"] += 1

    def motion(self, o: int, row: int) -> None:
        length = float(self.twin.objects[o]["length_m"])
        start, action = pose_of(self.before, row), int(self.actions[row])
        expected: tuple[float, ...] = bicycle(start, action, length, self.twin.dt_s, self.config)
        if kind := int(self.twin.objects[o]["type"]):
            chosen = ACCELERATIONS[action // 13], STEERINGS[action % 13]
            moved = step(
                self.config, Body(*start, length=length), chosen, OBJECT_TYPES[kind], self.twin.dt_s
            )
            expected = moved.x, moved.y, moved.heading, moved.speed
        if self.config.replay_log:
            frame = self.twin.frame(o, self.clock + self.config.init_step)
            expected = (*pose_of(self.before, row)[:3], 0.0)
            if frame is not None:
                expected = (
                    frame["x_m"],
                    frame["y_m"],
                    frame["heading"] * np.pi / 32768,
                    frame["speed"] * 0.01,
                )
        found = pose_of(self.after, row)
        difference = np.subtract(found, expected)
        difference[2] = (difference[2] + np.pi) % (2 * np.pi) - np.pi
        np.testing.assert_allclose(difference, 0, atol=1e-4)
        assert -np.pi - 1e-6 <= found[2] < np.pi + 1e-6
        self.judge.seen["moves"] += 1

    def judged(self, o: int, row: int) -> tuple[float, set[str], bool]:
        """(reward, what happened, clear), and the flags checked on the way."""
        config, sums, seen = self.config, self.judge.sums[row], self.judge.seen
        alone = bool(self.after["alone"][row])
        touching, begun, clear = (False, 0, True) if alone else self.contacts(o)
        if clear:
            assert bool(self.after["collided"][row]) == touching, (o, row, self.clock)
            seen["contacts"] += begun
            sums.contacts += begun
        offroad, clear_edge = self.offroad(o, row)
        departed = False
        if clear_edge:
            assert bool(self.after["offroad"][row]) == offroad, (o, row, self.clock)
            departed = offroad and not self.before["offroad"][row]
            seen["departures"] += departed
            sums.departures += departed
        reward = (
            config.reward_step + config.reward_collision * begun + config.reward_offroad * departed
        )
        reached, clear_goal, first = False, True, not self.before["reached"][row]
        if first or self.config.goal_behavior in ("respawn", "next"):
            goal, (p, q) = (
                np.array([self.before["goal_x"][row], self.before["goal_y"][row]]),
                self.path(row),
            )
            nearer = np.hypot(*(goal - p)) - np.hypot(*(goal - q))
            distance = distance_to_path(goal, p, q)
            clear_goal = abs(distance - config.goal_radius_m) > MARGIN_M
            reached = (
                bool(self.after["reached"][row]) if first else distance <= config.goal_radius_m
            )
            if clear_goal:
                assert reached == (distance <= config.goal_radius_m)
            share = config.respawn_goal_share if alone else 1.0
            reward += config.reward_progress * nearer + config.reward_goal * share * reached
            if reached and first:
                seen["goals"] += 1
                sums.goal_step = self.clock
                sums.scored = sums.contacts == 0 and sums.departures == 0
            sums.again += reached and not first
        else:
            assert self.after["reached"][row]
        happened = {"goal": reached, "collision": begun > 0, "offroad": departed}
        return (
            reward,
            {name for name, it_did in happened.items() if it_did},
            clear and clear_edge and clear_goal,
        )

    def path(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        return np.array(pose_of(self.before, row)[:2]), np.array(pose_of(self.after, row)[:2])

    def contacts(self, o: int) -> tuple[bool, int, bool]:
        """(touching anything now, contacts that began, clear)."""
        touching, begun, clear = False, 0, True
        own = self.new.at(o)
        for i, other in enumerate(self.new.object):
            reach = np.hypot(self.new.length[[own, i]], self.new.width[[own, i]]).sum() / 2
            if (
                i == own
                or np.hypot(self.new.x[i] - self.new.x[own], self.new.y[i] - self.new.y[own])
                > reach + 0.1
            ):
                continue
            now, before = self.gap_of(self.new, o, int(other)), self.gap_of(self.old, o, int(other))
            clear &= abs(now) > MARGIN_M and abs(before) > MARGIN_M
            touching |= now <= 0
            begun += now <= 0 and before > 0
        return touching, begun, clear

    @staticmethod
    def gap_of(bodies: Bodies, o: int, other: int) -> float:
        i, j = bodies.at(o), bodies.at(other)
        return np.inf if i < 0 or j < 0 else gap(bodies.corners(i), bodies.corners(j))

    def offroad(self, o: int, row: int) -> tuple[bool, bool]:
        """(touches or crossed an edge, clear)."""
        item, (p, q) = self.twin.objects[o], self.path(row)
        box = (
            q[0],
            q[1],
            pose_of(self.after, row)[2],
            self.config.box_scale * float(item["length_m"]),
            self.config.box_scale * float(item["width_m"]),
        )
        edges = self.twin.of_type["edges"]
        x, y, ux, uy, half = (
            self.twin.road[name][edges].astype(float) for name in ("x", "y", "ux", "uy", "half")
        )
        reach = max(np.hypot(box[3], box[4]) / 2, np.hypot(*(q - p))) + 0.1
        near = np.flatnonzero(np.hypot(x - q[0], y - q[1]) <= half + reach)
        outside = inside = crossed = False
        for s in near:
            middle, along = np.array([x[s], y[s]]), half[s] * np.array([ux[s], uy[s]])
            inside |= segment_in_box(middle - along, middle + along, box, -MARGIN_M)
            outside |= segment_in_box(middle - along, middle + along, box, MARGIN_M)
            crossed |= paths_cross(p, q, middle - along, middle + along)
        if inside or crossed:
            return True, bool(inside or self.after_crossing_clear(p, q, near, x, y, ux, uy, half))
        return False, not outside

    @staticmethod
    def after_crossing_clear(
        p: np.ndarray, q: np.ndarray, near: np.ndarray, *road: np.ndarray
    ) -> bool:
        """True if the path does not end within a millimetre of an edge's line, where rounding
        decides.
        """
        x, y, ux, uy, _ = road
        sides = [
            abs((point[0] - x[near]) * uy[near] - (point[1] - y[near]) * ux[near]).min(initial=1)
            for point in (p, q)
        ]
        return min(sides) > MARGIN_M


def follow(
    vec: VectorEnv, scenes: SceneSet, steps: int, seed: int, bias: float = 0.0
) -> dict[str, int]:
    """Run random actions (a share `bias` of them full throttle straight on) under the judge."""
    rng = np.random.default_rng(seed)
    judge = Judge(vec, scenes, seed)
    vec.reset(seed)
    state = vec.peek(0)
    for _ in range(steps):
        actions = np.where(
            rng.random(vec.num_agents) < bias, 6 * 13 + 6, rng.integers(0, 91, vec.num_agents)
        )
        rows = vec.halves[0].groups["agents"]
        live = rows.masks & ~rows.terminals & ~rows.truncations
        state = judge.step(state, actions, live, vec.step(actions))
    return judge.seen


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"control": "valid", "goal_behavior": "drive_on", "edges": 2, "max_steps": 12},
        pytest.param(
            {
                "edges": 0,
                "goal_radius_m": 6.0,
                "reward_progress": 0.3,
                "reward_step": -0.01,
                "max_steps": 30,
            },
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"replay_log": 1, "control": "valid", "goal_behavior": 0}, marks=pytest.mark.slow
        ),  # as older runs say it
        {
            "control": "all",
            "others": "static",
            "init_step": 4,
            "goal_behavior": "respawn",
            "offroad_behavior": "remove",
        },
        {
            "goal_behavior": "stop",
            "collision_behavior": "stop",
            "offroad_behavior": "stop",
            "init_step": 2,
            "max_steps": 40,
            "box_scale": 0.7,
        },
        pytest.param(
            {"goal_behavior": "respawn", "collision_behavior": "remove", "init_step": 1},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {
                "goal_behavior": "next",
                "next_goal_m": 15.0,
                "collision_behavior": "remove",
                "goal_radius_m": 4.0,
            },
            marks=pytest.mark.slow,
        ),
    ],
    ids=str,
)
def test_steps_equal_the_twin(tmp_path: Path, settings: dict[str, Any]) -> None:
    scenes = write_world(
        tmp_path / "set", [random_scene(seed, spread_m=25.0, frames=25) for seed in (21, 22, 23)]
    )
    with make_env(tmp_path / "set", num_agents=40, **settings) as vec:
        seen = follow(vec, scenes, 60, seed=3, bias=0.3)
    assert (
        seen["moves"] > 500
        and seen["contacts"] > (20 if vec.config.box_scale == 1 else 5)
        and seen["departures"] > 5
        and seen["goals"] > 3
    )
    assert seen["starts"] > 3 and seen["records"] > 0
    behaviors = {
        vec.config.goal_behavior,
        vec.config.collision_behavior,
        vec.config.offroad_behavior,
    }
    for name, end in {"remove": GONE, "stop": STAYS, "respawn": RETURNS}.items():
        assert (seen[f"end {end}"] > 0) == (name in behaviors)
    assert (seen["gone"] > 0) == bool(behaviors & {"remove", "stop"})
    assert (seen["next goals"] > 0) == ("next" in behaviors)
    assert (seen["returns"] > 0) == ("respawn" in behaviors)


@pytest.mark.slow
def test_next_goals_follow_the_lanes(tmp_path: Path) -> None:
    """On generated scenes, whose lanes part and join; the cars' logs lead them to their first
    goals.
    """
    scenes = write_world(tmp_path / "set", [generate_scene(3, index) for index in range(4)])
    settings = {
        "goal_behavior": "next",
        "goal_radius_m": 30.0,
        "next_goal_m": 75.0,
        "replay_log": 1,
        "lines": 0,
    }
    with make_env(tmp_path / "set", num_agents=40, **settings) as vec:
        seen = follow(vec, scenes, 40, seed=11)
    assert seen["next goals"] > 10 and seen["draws"] > 5


def test_fast_cars_cannot_jump_over_an_edge(tmp_path: Path) -> None:
    # A car of 1 m at 60 to 100 m/s, so 6 to 10 m per step, and a fence every 40 m. Hardly ever does
    # its box stand on one.
    frames = 90
    car = moving_object(np.random.default_rng(0), frames, 0.0, 0)
    car.valid[:], car.heading_rad[:], car.velocity_mps[:], car.position_m[:] = (
        True,
        0.0,
        (60.0, 0.0),
        0.0,
    )
    car.goal_m[:] = 900.0, 0.0, 0.0
    car = dataclasses.replace(car, length_m=1.0, expert=False)
    fences = [
        Road("road_edge", 15, i, np.array([[25.0 + 40 * i, -9.0, 0.0], [25.0 + 40 * i, 9.0, 0.0]]))
        for i in range(11)
    ]
    scenes = write_world(
        tmp_path / "set", [Scene("fences", "", frames, (car,), tuple(fences), {}, {})]
    )
    with make_env(tmp_path / "set", num_agents=1, max_speed_mps=100.0, partners=0) as vec:
        vec.reset(0)
        judge, state = Judge(vec, scenes), vec.peek(0)
        while state["x"][0] < 440.0:
            result = vec.step(np.array([6 * 13 + 6]))
            state = judge.step(state, np.array([6 * 13 + 6]), np.ones(1, bool), result)
    assert judge.seen["departures"] == 11


def test_a_car_that_arrives_in_the_last_step_is_not_cut(tmp_path: Path) -> None:
    """It is done for good, and its value is not to be bootstrapped."""
    frames = 40
    car = moving_object(np.random.default_rng(0), frames, 0.0, 0)
    car.valid[:], car.heading_rad[:], car.velocity_mps[:], car.position_m[:] = (
        True,
        0.0,
        (10.0, 0.0),
        0.0,
    )
    car.goal_m[:] = 15.0, 0.0, 0.0
    write_world(
        tmp_path / "set",
        [Scene("near", "", frames, (dataclasses.replace(car, expert=False),), (), {}, {})],
    )
    steps, limit = 0, 0
    for limit in (0, 1):  # first without a limit, to see how long it takes
        with make_env(tmp_path / "set", num_agents=1, max_steps=limit * steps) as vec:
            vec.reset(0)
            done: tuple[Any, Any] = (False, False)
            steps = 0
            while not any(done):
                _, _, terminals, truncations, _ = vec.step(np.array([6 * 13 + 6]))
                done, steps = (bool(terminals[0]), bool(truncations[0])), steps + 1
            assert done == (True, False), f"after {steps} steps"
    assert 3 < steps < frames


@pytest.mark.slow
def test_real_scenes(
    real_scenes: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUFFERVEC_CACHE", str(shared_cache))
    prepared = prepare_scenes(DriveConfig(scenes=str(real_scenes)))
    with make_env(prepared.path, num_agents=96) as vec:
        seen = follow(vec, prepared.scenes, 60, seed=5, bias=0.2)
    assert (
        seen["moves"] > 1000
        and seen["contacts"] > 5
        and seen["departures"] > 5
        and seen["starts"] > 1
    )
