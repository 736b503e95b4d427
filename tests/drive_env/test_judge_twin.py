# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What each step is paid and adds to the metrics equals the twin's; so do the records made of the
sums.

Contacts, departures and goals are those of the state, which test_step_twin.py checks.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.generate.generate import generate_tree
from drive_env.rewards import terms
from drive_env.scenes.json_scene import scene_from_tree
from drive_env.scenes.sceneset import SceneSet
from drive_env.scenes.schema import LaneLinks, Road
from puffervec.vec.vector_env import VectorEnv
from tests.drive_env.test_step_twin import SlotStep
from tests.drive_env.worlds import agents_of, lit, make_env, pose_of, random_scene, write_world
from tests.twins import drive_judge as judge
from tests.twins.drive import SceneTwin
from tests.twins.drive_conflicts import Conflicts

State = dict[str, np.ndarray]
NAMES = [term.name for term in terms()]
WEIGHTS = {f"reward_{name}": round(0.01 * (-1) ** i * (i + 1), 3) for i, name in enumerate(NAMES)}
SUMS = (
    "judged_steps",
    "lane_steps",
    "aligned_steps",
    "displacement_steps",
    "spans",
    "comfortable_spans",
    "signs_run",
    "short_ttc_steps",
    "faults",
    "red_lights",
    "limit_steps",
    "speeding_steps",
)


class Judge:
    """Follows an env of one scene per slot. seen counts what was checked."""

    def __init__(self, vec: VectorEnv, scenes: SceneSet) -> None:
        self.vec, self.scenes, self.seen = vec, scenes, Counter[str]()
        self.config = vec.config

    def step(self, before: State, rewards: np.ndarray) -> State:
        after = self.vec.peek(0)
        for slot, scene in enumerate(before["slot_scene"]):
            if scene < 0:
                continue
            twin = SceneTwin(self.scenes, int(scene))
            if after["slot_clock"][slot] == 0:
                rows = np.flatnonzero(after["slot"] == slot)
                assert (
                    all(not after[name][rows].any() for name in SUMS)
                    and (after["least_ttc"][rows] == 5).all()
                )
                self.seen["starts"] += 1
                continue
            poses = {o: pose_of(after, row) for o, row in agents_of(after, slot).items()}
            bodies = twin.bodies(int(after["slot_clock"][slot]), poses, self.config)
            rows, clock = agents_of(after, slot), int(after["slot_clock"][slot])
            goals = {o: (after["goal_x"][row], after["goal_y"][row]) for o, row in rows.items()}
            self.conflicts = Conflicts(twin, bodies, clock + self.config.init_step, goals)
            poses = {o: pose_of(before, row) for o, row in agents_of(after, slot).items()}
            self.before = twin.bodies(int(after["slot_clock"][slot]) - 1, poses, self.config)
            for o, row in agents_of(after, slot).items():
                self.agent(twin, bodies, o, row, before, after, float(rewards[row]))
        return after

    def agent(
        self,
        twin: SceneTwin,
        bodies: Any,
        o: int,
        row: int,
        before: State,
        after: State,
        reward: float,
    ) -> None:
        old, new, clock = (
            pose_of(before, row),
            pose_of(after, row),
            int(after["slot_clock"][after["slot"][row]]),
        )
        found = judge.motion(old, new, twin.dt_s)
        known = before["judged_steps"][row] > 0
        found["jerk"] = (
            (found["acceleration"] - float(before["acceleration"][row])) / twin.dt_s
            if known
            else 0.0
        )
        assert after["acceleration"][row] == pytest.approx(found["acceleration"], abs=1e-2)
        lane = judge.lane_of(twin, new)
        frame = twin.frame(o, clock + self.config.init_step)
        log_m = (
            None if frame is None else float(np.hypot(new[0] - frame["x_m"], new[1] - frame["y_m"]))
        )
        red, stop, clear = judge.lines_crossed(
            twin, clock + self.config.init_step - 1, old, new, float(after["length"][row])
        )
        unknown = self.config.unknown_speed_limit_mps
        value = (
            judge.values(found, lane, log_m, unknown, new[3])
            | self.events(before, after, row)
            | {"red_light": float(red)}
        )
        left_s = (
            max((self.config.max_steps or twin.steps - self.config.init_step) - clock, 1)
            * twin.dt_s
        )
        parked = (
            judge.distance_to_goal(twin.frame(o, self.config.init_step), twin.objects[o])
            <= self.config.goal_radius_m
        )
        value["haste"] = (
            0.0 if parked or after["reached"][row] else judge.haste(new, twin.objects[o], left_s)
        )
        moved = float(np.hypot(new[0] - old[0], new[1] - old[1]))
        value["yield"] = float(self.conflicts.fails_to_yield(bodies.at(o), moved))
        if lane.clear and clear:
            expected = sum(self.weight(after, row, name) * value[name] for name in NAMES)
            assert reward == pytest.approx(expected, abs=2e-3, rel=1e-4), (o, clock)
            self.seen["paid"] += 1
            self.seen["red"] += red
            self.seen["speeding"] += value["speed_limit"] > 0
            self.seen["hasty"] += value["haste"] > 0
        if self.config.metrics:
            self.contacts(twin, self.before, bodies, o, row, before, after)
            assert (
                not clear or int(after["red_lights"][row]) - int(before["red_lights"][row]) == red
            )
            self.stops(stop if clear else None, abs(new[3]), twin.dt_s, row, before, after)
            self.span(twin, o, new, row, before, after)
            for name, sums in (
                ("contact_step", "contacts"), ("departure_step", "departures"),
                ("red_light_step", "red_lights"), ("stop_sign_step", "signs_run"),
            ):  # fmt: skip
                first = before[name][row] == 0 and after[sums][row] > before[sums][row]
                assert after[name][row] == (clock if first else before[name][row])
        self.sums(
            found,
            lane,
            log_m,
            judge.time_to_collision(bodies, bodies.at(o)),
            twin.dt_s,
            row,
            before,
            after,
        )

    def stops(
        self, at_line: bool | None, speed: float, dt_s: float, row: int, before: State, after: State
    ) -> None:
        """How far the car has come since it stood, and lines that it crossed without a stop.
        at_line None: not clear.
        """
        since = 0.0 if speed < 0.5 else float(before["since_stop"][row]) + speed * dt_s
        assert abs(speed - 0.5) < judge.NEAR or after["since_stop"][row] == pytest.approx(
            since, abs=1e-3
        )
        run = int(after["signs_run"][row]) - int(before["signs_run"][row])
        if at_line is not None and abs(since - 10) > judge.NEAR:
            assert run == (at_line and since > 10)
            self.seen["signs"] += run

    def span(
        self,
        twin: SceneTwin,
        o: int,
        pose: tuple[float, ...],
        row: int,
        before: State,
        after: State,
    ) -> None:
        """Every fifth step of an agent: whether these five were comfortable, and how far it is from
        its log's path.
        """
        more = {
            name: float(after[name][row]) - float(before[name][row])
            for name in ("spans", "comfortable_spans", "path_sum")
        }
        assert more["spans"] == (after["judged_steps"][row] % 5 == 0)
        if not more["spans"]:
            assert more["comfortable_spans"] == more["path_sum"] == 0
            return
        marked = (0.0, 0.0, float(before["span_heading"][row]), float(before["span_speed"][row]))
        found = judge.motion(marked, pose, 5 * twin.dt_s)  # type: ignore[arg-type]
        then = float(before["span_acceleration"][row])
        found["jerk"] = (
            (found["acceleration"] - then) / (5 * twin.dt_s) if before["spans"][row] else 0.0
        )
        comfortable, clear = judge.comfortable(found)
        assert not clear or more["comfortable_spans"] == comfortable
        self.seen["comfortable"] += comfortable
        assert more["path_sum"] == pytest.approx(judge.path_distance(twin, o, *pose[:2]), abs=1e-2)
        assert (after["span_speed"][row], after["span_heading"][row]) == pytest.approx(
            (pose[3], pose[2])
        )

    def contacts(
        self, twin: SceneTwin, was: Any, bodies: Any, o: int, row: int, before: State, after: State
    ) -> None:
        """Contacts that begin, by whose fault they are, and what is kept of the first one."""
        was, bodies = was.shrunk(self.config.box_scale), bodies.shrunk(self.config.box_scale)
        own, faults, clear = bodies.at(o), 0, True
        counted, begun = int(after["faults"][row]) - int(before["faults"][row]), []
        for i, other in enumerate(bodies.object):
            if i == own or np.hypot(bodies.x[i] - bodies.x[own], bodies.y[i] - bodies.y[own]) > 14:
                continue
            now, then = SlotStep.gap_of(bodies, o, int(other)), SlotStep.gap_of(was, o, int(other))
            clear &= abs(now) > judge.NEAR and abs(then) > judge.NEAR
            if now <= 0 < then:
                fault, sure = judge.at_fault(twin, bodies, own, i, twin.dt_s)
                faults, clear = faults + fault, clear and sure
                begun.append((i, int(other), fault))
                self.seen["at fault" if fault else "not at fault"] += 1
        assert counted == faults or not clear, (o, counted, faults)
        if before["contact_object"][row]:
            assert all(
                after[name][row] == before[name][row]
                for name in after
                if name.startswith(("contact_", "other_"))
            )
        elif clear:
            self.first_contact(was, bodies, own, begun, row, after)

    def first_contact(
        self,
        was: Any,
        bodies: Any,
        own: int,
        begun: list[tuple[int, int, bool]],
        row: int,
        after: State,
    ) -> None:
        """What is kept is of one of the contacts that have begun. Poses are those before the step,
        if both were there.
        """
        kept = int(after["contact_object"][row]) - 1
        assert [kept] == [other for _, other, _ in begun if other == kept] or (
            kept == -1 and not begun
        )
        for i, other, fault in begun:
            if other != kept:
                continue
            policies = set(
                after["object"][
                    (after["slot"] == after["slot"][row]) & (after["active"] == 1)
                ].tolist()
            )
            assert after["contact_fault"][row] == fault and after["contact_driver"][row] == (
                other in policies
            )
            source, places = (was, (was.at(int(after["object"][row])), was.at(other)))
            if min(places) < 0:
                source, places = bodies, (own, i)
            for name, at, now in zip(("contact", "other"), places, (own, i), strict=True):
                expected = source.x[at], source.y[at], bodies.speed[now]
                assert [
                    after[f"{name}_{part}"][row] for part in ("x", "y", "speed")
                ] == pytest.approx(expected, abs=1e-2)
                turn = after[f"{name}_heading"][row] - source.heading[at]
                assert abs((turn + np.pi) % (2 * np.pi) - np.pi) < 1e-3
            self.seen["first contact"] += 1

    def weight(self, state: State, row: int, name: str) -> float:
        if "reward_weights" in state:
            return float(state["reward_weights"][row, NAMES.index(name)])
        return float(getattr(self.config, f"reward_{name}"))

    @staticmethod
    def events(before: State, after: State, row: int) -> dict[str, float]:
        more = {
            name: float(after[name][row]) - float(before[name][row])
            for name in ("contacts", "departures", "reached", "progress")
        }
        return {
            "step": 1.0,
            "collision": more["contacts"],
            "offroad": more["departures"],
            "goal": more["reached"],
            "progress": more["progress"],
        }

    def sums(
        self, found: dict[str, float], lane: judge.Lane, log_m: float | None,
        ttc: tuple[float, bool], dt_s: float, row: int, before: State, after: State,
    ) -> None:  # fmt: skip
        if not self.config.metrics:
            return
        more = {name: int(after[name][row]) - int(before[name][row]) for name in SUMS}
        assert more["judged_steps"] == 1 and more["displacement_steps"] == (log_m is not None)
        for name, size in (
            ("acceleration", found["acceleration"]), ("braking", -found["acceleration"]),
            ("lateral", abs(found["lateral"])), ("jerk", abs(found["jerk"])),
        ):  # fmt: skip
            peak = max(float(before[f"peak_{name}"][row]), size)
            assert after[f"peak_{name}"][row] == pytest.approx(peak, abs=1e-2, rel=1e-3)
        if log_m is not None:
            assert after["displacement"][row] == pytest.approx(log_m, abs=1e-3)
            gone = float(after["displacement_sum"][row]) - float(before["displacement_sum"][row])
            assert gone == pytest.approx(log_m, abs=1e-2)
        if lane.clear:
            assert more["lane_steps"] == lane.there
            self.in_lane(lane, abs(pose_of(after, row)[3]) * dt_s, more, row, before, after)
        seconds, clear = ttc
        if clear:
            expected = min(float(before["least_ttc"][row]), seconds)
            assert after["least_ttc"][row] == pytest.approx(expected, abs=1e-3, rel=1e-3)
            if abs(seconds - 0.95) > 1e-2:
                assert more["short_ttc_steps"] == (seconds < 0.95)
            self.seen["followed"] += seconds < 5
            self.seen["short"] += seconds < 0.95

    def in_lane(
        self,
        lane: judge.Lane,
        way_m: float,
        more: dict[str, int],
        row: int,
        before: State,
        after: State,
    ) -> None:
        if abs(lane.cosine - np.cos(np.radians(15))) > judge.NEAR:
            assert more["aligned_steps"] == (lane.there and lane.cosine >= np.cos(np.radians(15)))
            self.seen["aligned"] += more["aligned_steps"]
        limit = lane.limit_mps or self.config.unknown_speed_limit_mps
        assert more["limit_steps"] == (lane.there and limit > 0)
        if abs(way_m / 0.1 - limit) > judge.NEAR:
            assert more["speeding_steps"] == (more["limit_steps"] and way_m / 0.1 > limit)
        against = float(after["wrong_way"][row]) - float(before["wrong_way"][row])
        if abs(lane.cosine + 0.5) > judge.NEAR:
            assert against == pytest.approx(
                way_m if lane.there and lane.cosine <= -0.5 else 0.0, abs=1e-3
            )
            self.seen["against"] += against > 0
        if lane.there:
            offset = float(after["lane_offset_sum"][row]) - float(before["lane_offset_sum"][row])
            assert offset == pytest.approx(lane.offset, abs=1e-2)


def record_of(vec: VectorEnv, scenes: SceneSet, state: State, slot: int) -> dict[str, float]:
    """What the sums of a state say that the slot's record is to be."""
    rows = np.flatnonzero(state["slot"] == slot)
    part = {
        name: value[rows].astype(float)
        for name, value in state.items()
        if len(value.shape) == 1 and len(value) == len(state["slot"])
    }
    logged = part["displacement_steps"] > 0
    distance = np.hypot(part["goal_x"] - part["x"], part["goal_y"] - part["y"])
    way = part["progress"] + distance - vec.config.goal_radius_m
    straight = np.clip(part["progress"] / np.maximum(way, 1e-9), 0, 1)
    twin = SceneTwin(scenes, int(state["slot_scene"][slot]))
    starts = [twin.frame(int(o), vec.config.init_step) for o in part["object"]]
    poses = [
        (float(f["x_m"]), float(f["y_m"]), float(f["heading"]) * np.pi / 32768)
        for f in starts
        if f is not None
    ]
    goals, places = (list(zip(part[f"{of}x"], part[f"{of}y"], strict=True)) for of in ("goal_", ""))
    along = np.array([judge.way_share(twin, *of) for of in zip(poses, goals, places, strict=True)])
    share = np.where(part["reached"] == 1, 1.0, np.where(along < 0, straight, along))
    arrivals = [
        judge.log_arrival(twin, int(o), vec.config.init_step, vec.config.goal_radius_m)
        for o in part["object"]
    ]
    log_steps = np.where(part["goal_step"] > 0, arrivals, 0)
    lawful = (
        (part["red_lights"] == 0)
        & (part["signs_run"] == 0)
        & (part["wrong_way"] <= 6)
        & (part["most_over_limit"] <= 2.23)
    )
    return {
        "at_fault": (part["faults"] > 0).sum(),
        "red_light": (part["red_lights"] > 0).sum(),
        "wrong_way": (part["wrong_way"] > 6).sum(),
        "stop_sign": (part["signs_run"] > 0).sum(),
        "lawful": lawful.sum(),
        "path_m": part["path_sum"].sum(),
        "log_steps": log_steps.sum(),
        "failed_to_yield": (part["yields_failed"] > 0).sum(),
        "timed_steps": part["goal_step"][log_steps > 0].sum(),
        "short_ttc": (part["short_ttc_steps"] > 0).sum(),
        "route_share": share.sum(),
        "steps": part["judged_steps"].sum(),
        "lane_offset_m": part["lane_offset_sum"].sum(),
        **{
            name: part[name].sum()
            for name in (
                *(
                    "lane_steps",
                    "aligned_steps",
                    "short_ttc_steps",
                    "limit_steps",
                    "speeding_steps",
                ),
                *("spans", "comfortable_spans"),
            )
        },
        "least_ttc_s": part["least_ttc"].sum(),
        **{
            f"peak_{name}": part[f"peak_{name}"].sum()
            for name in ("acceleration", "braking", "lateral", "jerk")
        },
        "logged": logged.sum(),
        "ade_m": (part["displacement_sum"][logged] / part["displacement_steps"][logged]).sum(),
        "fde_m": part["displacement"].sum(),
    }


@pytest.mark.slow
def test_the_way_along_the_lanes_equals_the_twin(tmp_path: Path) -> None:
    """On generated scenes, whose lanes lead on. Cars that speed up straight ahead from their start
    reach some goals.
    """
    trees = [generate_tree(5, number) for number in range(6)]
    scenes = write_world(
        tmp_path / "set", [scene_from_tree(tree, "", tree["name"]) for tree in trees]
    )
    shares: list[float] = []
    with make_env(tmp_path / "set", num_agents=96, metrics=1, max_steps=45) as vec:
        vec.reset(3)
        for _ in range(45):
            infos = vec.step(np.full(vec.num_agents, 4 * 13 + 6))[4]
        state = vec.peek(0)
        for record in infos.episodes:
            expected = record_of(vec, scenes, state, int(record["slot"]))
            values = dict(zip(vec.spec.record_names, record["values"].tolist(), strict=False))
            assert values["route_share"] == pytest.approx(expected["route_share"], abs=1e-2)
            shares.append(values["route_share"] / values["agents"])
    assert len(shares) >= 3 and 0.1 < np.mean(shares) < 0.95


@pytest.mark.parametrize(("goal", "way_m"), [((93.0, 0.0), 88.0), ((98.6, 0.8), 94.0)])
def test_the_way_to_the_goal_is_the_shortest(
    tmp_path: Path, goal: tuple[float, float], way_m: float
) -> None:
    """A lane that parts: the first exit leads to the goal by a detour of 40 m, the second straight.
    The lane bends 4 m before the end, and the way does not end at the bend where the goal lies
    behind it.
    """
    ways = {
        1: [(0, 0), (20, 0)],
        2: [(20, 0), (40, 34.64), (60, 0)],
        3: [(20, 0), (60, 0)],
        4: [(60, 0), (98, 0), (101, 4)],
    }
    exits = {1: (2, 3), 2: (4,), 3: (4,), 4: ()}
    lanes = [
        Road(
            "lane",
            2,
            number,
            np.c_[np.array(points, float), np.zeros(len(points))],
            LaneLinks(exits[number]),
        )
        for number, points in ways.items()
    ]
    scene = random_scene(0, objects=0, roads=0, frames=31)
    xs = 5.0 + np.arange(31)
    car = dataclasses.replace(
        scene.objects[0],
        position_m=np.stack([xs, 0 * xs, 0 * xs], -1),
        velocity_mps=np.tile([10.0, 0.0], (31, 1)),
        heading_rad=np.zeros(31),
        goal_m=np.array([*goal, 0.0]),
    )
    write_world(tmp_path / "set", [dataclasses.replace(scene, objects=(car,), roads=tuple(lanes))])
    with make_env(tmp_path / "set", num_agents=1, metrics=1, replay_log=1) as vec:
        vec.reset(0)
        for _ in range(30):
            infos = vec.step(np.array([45]))[4]
        (record,) = infos.episodes
        share = dict(zip(vec.spec.record_names, record["values"].tolist(), strict=False))[
            "route_share"
        ]
    assert share == pytest.approx(30 / way_m, abs=1e-3)


@pytest.mark.parametrize(
    "settings",
    [
        {"metrics": 1, "goal_behavior": "drive_on", "unknown_speed_limit_mps": 6.0, **WEIGHTS},
        pytest.param(
            {
                **WEIGHTS,
                "metrics": 1,
                "replay_log": 1,
                "control": "valid",
                "autoreset": "same_step",
                "num_agents": 30,
            },
            marks=pytest.mark.slow,
        ),
        {
            "reward_ranges": " ".join(f"{name}=-0.5:0.5" for name in NAMES[::2]),
            **WEIGHTS,
            "max_steps": 12,
        },
    ],
    ids=("metrics", "log", "ranges"),
)
def test_steps_equal_the_twin(tmp_path: Path, settings: dict[str, Any]) -> None:
    settings = dict(settings)
    mode = settings.pop("autoreset", "next_step")
    scenes = write_world(
        tmp_path / "set",
        [lit(random_scene(seed, spread_m=20.0, frames=25), seed) for seed in (21, 22)],
    )
    rng = np.random.default_rng(2)
    with make_env(tmp_path / "set", autoreset=mode, **{"num_agents": 20, **settings}) as vec:
        vec.reset(3)
        found, state = Judge(vec, scenes), vec.peek(0)
        for _ in range(27 if vec.config.metrics else 15):
            actions = np.where(
                rng.random(vec.num_agents) < 0.5, 4 * 13 + 6, rng.integers(0, 91, vec.num_agents)
            )
            _, rewards, _, _, infos = vec.step(actions)
            state = found.step(state, rewards)
            for record in infos.episodes if vec.config.metrics and mode == "next_step" else ():
                expected = record_of(vec, scenes, state, int(record["slot"]))
                values = dict(zip(vec.spec.record_names, record["values"].tolist(), strict=False))
                assert {name: values[name] for name in expected} == pytest.approx(
                    expected, rel=1e-3, abs=1e-3
                )
                found.seen["records"] += 1
    assert found.seen["paid"] > 200 and found.seen["starts"] > 0
    if vec.config.metrics:
        least = {
            "comfortable": 3,
            "followed": 20,
            "short": 2,
            "aligned": 20,
            "against": 20,
            "red": 0 if vec.config.replay_log else 1,
            "signs": 0 if vec.config.replay_log else 1,
            "speeding": 20,
            "hasty": 0 if vec.config.replay_log else 1,
            "at fault": 5,
            "not at fault": 3,
            "first contact": 5,
        }
        assert all(found.seen[name] >= most for name, most in least.items()), found.seen
        assert found.seen["records"] or mode != "next_step"


def route_share(
    path: Path, lanes: list[Road], start: tuple[float, float], end: tuple[float, float], goal: Any
) -> float:
    """The share of its way that a car has come whose log leads straight from start to end, and
    heads along x at first.
    """
    scene = random_scene(0, objects=0, roads=0, frames=31)
    places = np.linspace([*start, 0.0], [*end, 0.0], 31)
    car = dataclasses.replace(
        scene.objects[0], position_m=places, velocity_mps=np.tile([10.0, 0.0], (31, 1)),
        heading_rad=np.zeros(31), goal_m=np.array([*goal, 0.0]),
    )  # fmt: skip
    write_world(path, [dataclasses.replace(scene, objects=(car,), roads=tuple(lanes))])
    with make_env(path, num_agents=1, metrics=1, replay_log=1) as vec:
        vec.reset(0)
        for _ in range(30):
            infos = vec.step(np.array([45]))[4]
        (record,) = infos.episodes
    return float(
        dict(zip(vec.spec.record_names, record["values"].tolist(), strict=False))["route_share"]
    )


def way(number: int, exits: tuple[int, ...], *points: tuple[float, float]) -> Road:
    return Road(
        "lane", 2, number, np.c_[np.array(points, float), np.zeros(len(points))], LaneLinks(exits)
    )


@pytest.mark.parametrize(("first_leads_on", "share"), [(True, 15 / 55), (False, 15 / 75)])
def test_of_two_lanes_in_one_place_the_first_counts(
    tmp_path: Path, first_leads_on: bool, share: float
) -> None:
    """A car starts on both. One leads straight to the goal, 55 m; the other by a detour, 75 m."""
    straight, detour = (3,), (4,)
    lanes = [
        way(1, straight if first_leads_on else detour, (0, 0), (20, 0)),
        way(2, detour if first_leads_on else straight, (0, 0), (20, 0)),
        way(3, (), (20, 0), (60, 0)),
        way(4, (), (20, 0), (20, 10), (60, 10), (60, 0)),
    ]
    assert route_share(
        tmp_path / "set", lanes, (5.0, 0.0), (20.0, 0.0), (60.0, 0.0)
    ) == pytest.approx(share, abs=1e-3)


@pytest.mark.parametrize(("order", "length_m"), [((2, 3), 15 + np.hypot(18, 27)), ((3, 2), 15.0)])
def test_of_two_ways_of_one_length_that_to_the_first_lane_counts(
    tmp_path: Path, order: Any, length_m: float
) -> None:
    """Left and right around a block, 72 m each. The car goes left: by the way to the right it has
    come to the fork only.
    """
    sides = {2: 30.0, 3: -30.0}
    lanes = [
        way(1, (2, 3), (0, 0), (20, 0)),
        *(way(n, (), (20, 0), (40, sides[n]), (60, 0)) for n in order),
    ]
    found = route_share(tmp_path / "set", lanes, (5.0, 0.0), (38.0, 27.0), (60.0, 0.0))
    assert found == pytest.approx(length_m / (15 + 2 * np.hypot(20, 30)), abs=1e-3)
