# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Who hit whom, at which angle and under which rule: hand-made scenes in which the logs meet, from
C to the files of `eval`.

The tables made of them are those of drive_env/evaluate/causes.py, the events of replays those of
drive_env/drawing/events.py.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from drive_env.config import DriveConfig
from drive_env.drawing.drawing import drawing
from drive_env.drawing.events import gap_m
from drive_env.evaluate.causes import causes_of, contacts_of
from drive_env.evaluate.contacts import (
    Body,
    Roads,
    _body,
    _within,
    angle_of,
    contact_of,
    contact_side,
    rule_of_lanes,
)
from drive_env.evaluate.evaluate import evaluate
from drive_env.evaluate.failures import cause_of
from drive_env.scenes import packed
from puffervec._ffi import lib
from puffervec.commands import cli
from puffervec.contract.drawing import Event
from puffervec.contract.evaluation import Interval, Row
from tests.drive_env.worlds import Straight

MakeTree = Callable[..., dict[str, Any]]
FRAMES = 40
COLUMNS = ("cause", "other", "driver", "angle", "rule", "at_fault")


def along(item: dict[str, Any], *points: tuple[float, float], speed_mps: float) -> None:
    """Let an object's log lead along a polyline at a constant speed; it stands at its end."""
    xs, ys, headings, speeds = [], [], [], []
    for frame in range(FRAMES):
        left, speed = 0.1 * speed_mps * frame, speed_mps
        for (x0, y0), (x1, y1) in zip(points, points[1:], strict=False):
            length = math.hypot(x1 - x0, y1 - y0)
            share, heading = min(left / length, 1.0), math.atan2(y1 - y0, x1 - x0)
            if left <= length:
                break
            left -= length
        else:
            speed = 0.0
        xs.append(x0 + share * (x1 - x0))
        ys.append(y0 + share * (y1 - y0))
        headings.append(heading)
        speeds.append(speed)
    item["position"] = [{"x": x, "y": y, "z": 0.0} for x, y in zip(xs, ys, strict=True)]
    item["velocity"] = [
        {"x": v * math.cos(h), "y": v * math.sin(h)} for v, h in zip(speeds, headings, strict=True)
    ]
    item["heading"], item["goalPosition"] = headings, {"x": xs[-1], "y": ys[-1], "z": 0.0}


def road(number: int, kind: str, element: int, *points: tuple[float, float]) -> dict[str, Any]:
    """A road of a JSON scene."""
    return {
        "geometry": [{"x": x, "y": y, "z": 0.0} for x, y in points],
        "type": kind,
        "map_element_id": element,
        "id": number,
    }


def red_at(x: float, lane: str = "0") -> dict[str, Any]:
    """A light that is red all the time."""
    return {lane: {"state": ["stop"] * FRAMES, "x": [x] * FRAMES, "y": [-1.75] * FRAMES,
                   "z": [0.0] * FRAMES, "time_index": list(range(FRAMES))}}  # fmt: skip


UP = ((10.0, -40.0), (10.0, 40.0))
LEFT_TURN = ((60.0, 1.75), (17.0, 1.75), (14.0, 0.0), (12.0, -3.0), (12.0, -40.0))
CROSSWALK = ((8.0, -6.0), (12.0, -6.0), (12.0, 6.0), (8.0, 6.0))


@pytest.fixture
def folder(tiny_tree: MakeTree, tmp_path: Path, cache: Path) -> Path:
    """Scenes in which car 100 drives along its lane at 5 m/s, and meets 101 or what the name says;
    car 101 follows its log.
    """
    trees: dict[str, dict[str, Any]] = {}

    def scene(
        name: str,
        *way: tuple[float, float],
        speed: float = 5.0,
        roads: Sequence[dict[str, Any]] = (),
        **of: Any,
    ) -> None:
        tree = trees[name] = tiny_tree(frames=FRAMES, cars=2 if way else 1)
        tree["roads"] = [item for item in tree["roads"] if item["type"] != "road_edge"] + list(
            roads
        )
        tree["tl_states"] = of.pop("lights", {})
        if way:
            along(tree["objects"][1], *way, speed_mps=speed)
            tree["objects"][1].update({"mark_as_expert": True, **of})

    scene(
        "both",
        (15.0, -1.75),
        (30.0, -1.75),
        speed=1.0,
        mark_as_expert=False,
        goalPosition={"x": 90.0, "y": -1.75, "z": 0.0},
    )
    scene("chase", (-12.0, -1.75), (40.0, -1.75), speed=10.0)
    scene("head", (30.0, -1.75), (0.0, -1.75))
    scene("cross", (10.0, -14.5), (10.0, 12.0), roads=[road(90, "lane", 2, *UP)])
    scene("turn", (21.0, 1.75), *LEFT_TURN[1:], roads=[road(90, "lane", 2, *LEFT_TURN)])
    scene("drift", (-2.0, 1.75), (0.0, 1.75), (20.0, -1.75))
    scene("walker", (12.0, -4.0), (12.0, 4.0), speed=1.0, type="pedestrian", width=0.6, length=0.6)
    scene("zebra", (12.0, -4.0), (12.0, 4.0), speed=1.0, type="pedestrian", width=0.6, length=0.6,
          roads=[road(91, "crosswalk", 18, *CROSSWALK)])  # fmt: skip
    scene("cyclist", (12.0, -1.75), (40.0, -1.75), speed=2.0, type="cyclist", width=0.6, length=1.8)
    scene("parked", (15.0, -1.75), (15.5, -1.75), speed=0.1)
    scene("beside", (12.0, -3.9), (12.5, -3.9), speed=0.1, width=2.4)
    scene("run", (10.0, -14.5), (10.0, 12.0), roads=[road(90, "lane", 2, *UP)], lights=red_at(5.0))
    lane = road(90, "lane", 2, (17.0, -40.0), (17.0, 40.0))
    sign = road(17, "stop_sign", 17, (14.0, -4.0))
    scene("sign", (17.0, -20.0), (17.0, 12.0), roads=[lane, sign])
    scene("red", lights=red_at(8.0))
    scene("kerb", roads=[road(92, "road_edge", 15, (8.0, -6.0), (20.0, 6.0))])
    scene("late")
    trees["late"]["objects"][0]["goalPosition"]["x"] = 80.0
    path = tmp_path / "scenes"
    path.mkdir()
    for name, tree in trees.items():
        (path / f"{name}.json").write_text(json.dumps(tree))
    return path


FOUND = {  # of car 100, by the scene
    "both": ("collision", "vehicle", "policy", "rear-end", "following", 1),
    "chase": ("collision", "vehicle", "log", "rear-ended", "following", 0),
    "head": ("collision", "vehicle", "log", "head-on", "on-coming lane", 1),
    "cross": ("collision", "vehicle", "log", "side", "crossing lanes", 0),
    "turn": ("collision", "vehicle", "log", "side", "left turn", 1),
    "drift": ("collision", "vehicle", "log", "side", "lane change", 0),
    "walker": ("collision", "pedestrian", "log", "side", None, 1),
    "zebra": ("collision", "pedestrian", "log", "side", "crosswalk", 1),
    "cyclist": ("collision", "cyclist", "log", "rear-end", "following", 1),
    "parked": ("collision", "parked vehicle", None, "rear-end", "following", 1),
    "beside": ("collision", "parked vehicle", None, "rear-end", None, 1),
    "run": ("collision", "vehicle", "log", "side", "red light", 0),
    "sign": ("collision", "vehicle", "log", "side", "stop sign", 1),
    "red": ("red light", None, None, None, None, None),
    "kerb": ("off-road", None, None, None, None, None),
    "late": ("did not arrive", None, None, None, None, None),
}
OTHER = ("collision", "vehicle", "policy", "rear-ended", "following", 0)  # of car 101 in "both"


@pytest.mark.parametrize("actor", ["straight", "log"])
def test_each_class_is_told(folder: Path, actor: str) -> None:
    """Where the car drives by itself, and where it follows its log, which leads straight on too."""
    from drive_env.evaluate.baselines import baseline

    result = evaluate(
        Straight() if actor == "straight" else baseline("log"), DriveConfig(scenes=str(folder))
    )
    rows = {(str(row["scene"]).removesuffix(".json"), row["id"]): row for row in result.agents}
    found = {key: tuple(row[name] for name in COLUMNS) for key, row in rows.items()}
    assert found == {
        **{(name, 100): values for name, values in FOUND.items()},
        ("both", 101): OTHER,
    }
    assert (rows["both", 100]["other_id"], rows["both", 101]["other_id"]) == (101, 100)
    speeds = {
        name: (rows[name, 100]["speed_mps"], rows[name, 100]["other_speed_mps"])
        for name in ("chase", "head", "walker")
    }
    assert speeds == {
        "chase": pytest.approx((5, 10), abs=0.01), "head": pytest.approx((5, 5), abs=0.01),
        "walker": pytest.approx((5, 1), abs=0.01),
    }  # fmt: skip


@pytest.mark.parametrize("metrics", [1, 0])
def test_a_replay_tells_each_contact_once(folder: Path, metrics: int) -> None:
    """With the other party, and with the same angle and fault as `eval`; boxes that stay in contact
    are one event.
    """
    settings = {
        "scenes": str(folder),
        "metrics": metrics,
        "collision_behavior": "ignore",
        "goal_behavior": "respawn",
    }
    with puffervec.make("drive", env_kwargs=settings, backend="serial", num_envs=1) as vec:
        told = {}
        for task, name in enumerate(sorted(FOUND)):
            vec.set_tasks([0], [task])
            vec.reset(seed=0)
            state = vec.peek(0)
            drawn = drawing(vec.config, state)
            assert drawn.title == f"{name}.json"
            found = []
            for _ in range(FRAMES - 2):
                vec.step(Straight().act(np.zeros(vec.num_agents), vec))
                before, state = state, vec.peek(0)
                found += [
                    s
                    for s in drawn.shapes(state, before)
                    if isinstance(s, Event) and s.role == "collision"
                ]
            told[name] = [f"{event.of} {event.did} {event.other}: {event.how}" for event in found]
    blame = {
        name: f", car 0{' not' * (name in ('chase', 'cross'))} at fault"
        for name in ("both", "chase", "head", "cross")
    }
    assert {name: told[name] for name in (*blame, "walker", "late")} == {
        "both": [f"car 0 hit car 1: rear-end{blame['both'] * metrics}"],
        "chase": [f"car 1 hit car 0: rear-end{blame['chase'] * metrics}"],
        "head": [f"car 0 hit car 1: head-on{blame['head'] * metrics}"],
        "cross": [f"car 0 hit car 1: side{blame['cross'] * metrics}"],
        "walker": [f"car 0 hit pedestrian 1: side{', car 0 at fault' * metrics}"],
        "late": [],
    }
    for name, values in FOUND.items():
        if values[0] == "collision":
            angle = str(values[3]).replace("rear-ended", "rear-end")
            assert len(told[name]) == 1 and f": {angle}" in told[name][0], name
            assert not metrics or ("not at fault" in told[name][0]) == (values[5] == 0), name


def test_who_starts_at_its_goal_does_not_fail_to_arrive(
    tiny_tree: MakeTree, tmp_path: Path, cache: Path
) -> None:
    tree = tiny_tree(frames=FRAMES, cars=1, speed_mps=0.0)
    (tmp_path / "parked.json").write_text(json.dumps(tree))
    config = DriveConfig(scenes=str(tmp_path / "parked.json"), control="sdc")
    report = evaluate(Straight(), config).report()
    assert report.tables["failures"] == [] and report.tables["causes"] == []
    assert "1 of the 1 agents start at their goal and cannot score" in report.remarks
    assert getattr((report.total or {})["score"], "value", None) == 0


def test_tables_count_causes_and_contacts(folder: Path) -> None:
    agents = evaluate(Straight(), DriveConfig(scenes=str(folder))).agents
    causes = {row["cause"]: row for row in causes_of(agents)}
    assert {name: row["agents"] for name, row in causes.items()} == {
        "collision": 14, "red light": 1, "off-road": 1, "did not arrive": 1, "any": 17,
    }  # fmt: skip
    share = causes["collision"]["share"]
    assert (
        isinstance(share, Interval)
        and share.value == pytest.approx(14 / 17)
        and 0.4 < share.low < share.value < share.high
    )
    assert causes["collision"]["at_fault"] == sum(values[-1] or 0 for values in FOUND.values())
    contacts = contacts_of(agents)
    assert sum(int(str(row["agents"])) for row in contacts[:-1]) == contacts[-1]["agents"] == 14
    assert (
        contacts[-1]["other"] == "any"
        and contacts_of([{**row, "cause": None} for row in agents]) == []
    )


def test_the_command_prints_and_writes_them(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "eval",
        "drive",
        "--baseline",
        "log",
        "--scenes",
        str(folder),
        "--csv",
        str(tmp_path / "a.csv"),
    ]
    assert cli.main([*command, "--json", str(tmp_path / "a.json")]) == 0
    out = capsys.readouterr().out
    assert (
        "causes: " in out
        and "did not arrive" in out
        and "crossing lanes" in out
        and "other_speed_mps" not in out
    )
    with (tmp_path / "a.failures.csv").open() as file:
        lines = {(line["scene"], line["id"]): line for line in csv.DictReader(file)}
    assert (
        lines["turn.json", "100"]["rule"] == "left turn"
        and lines["kerb.json", "100"]["cause"] == "off-road"
    )
    with (tmp_path / "a.causes.csv").open() as file:
        (collision,) = [line for line in csv.DictReader(file) if line["cause"] == "collision"]
    assert collision["agents"] == "14" and float(collision["share_low"]) < float(collision["share"])
    tables = json.loads((tmp_path / "a.json").read_text())["tables"]
    assert {row["rule"] for row in tables["contacts"]} >= {
        "red light",
        "stop sign",
        "left turn",
        None,
    }
    assert cli.main([*command, "--failures"]) == 0
    assert "other_speed_mps" in capsys.readouterr().out


def car(x: float, y: float, heading_deg: float, speed: float = 5.0) -> Body:
    return Body(x, y, math.radians(heading_deg), speed, 4.5, 2.0)


@pytest.mark.parametrize(
    ("other", "angle", "part"),
    [
        (car(5.0, 0.0, 0, 1.0), "rear-end", "front"),
        (car(5.0, 0.0, 44, 1.0), "rear-end", "front"),
        (car(5.0, 0.0, 46, 1.0), "side", "front"),
        (car(-5.0, 0.0, 0, 9.0), "rear-ended", "rear"),
        (car(0.5, 2.2, -10), "side", "side"),
        (car(5.0, 0.0, 180), "head-on", "front"),
        (car(5.0, 0.5, 136), "head-on", "front"),
        (car(1.0, 2.2, -170), "side", "side"),
        (car(0.0, -3.6, 90), "side", "side"),
        (
            car(4.0, 1.5, 0, 4.0),
            "rear-end",
            "front",
        ),  # they overlap already, by more across than along
        (car(5.0, 4.5, -90, 1.0), "side", "side"),  # both gaps are open; that across closes last
        (car(5.0, 4.5, -90, 30.0), "side", "front"),  # ... that along
    ],
)
def test_angles(other: Body, angle: str, part: str) -> None:
    assert (angle_of(car(0.0, 0.0, 0), other), contact_side(car(0.0, 0.0, 0), other)) == (
        angle,
        part,
    )


def test_the_first_event_is_the_cause() -> None:
    clean: dict[str, Any] = {
        "contact_step": 0,
        "departure_step": 0,
        "reached": 1,
        "wrong_way": 0.0,
        "red_lights": 0,
        "signs_run": 0,
    }
    assert cause_of(clean) is None
    assert cause_of({**clean, "contact_step": 9, "departure_step": 9}) == "collision"
    assert cause_of({**clean, "red_lights": 1, "reached": 0}) == "did not arrive"
    assert cause_of({**clean, "red_lights": 1, "wrong_way": 7.0}) == "wrong way"
    assert cause_of({**clean, "signs_run": 1}) == "stop sign"


def test_shares_are_of_all_agents_with_scenes_as_clusters() -> None:
    def row(scene: str, cause: str | None) -> Row:
        return {
            "scene": scene,
            "seed": 0,
            "cause": cause,
            "other": "vehicle",
            "driver": "log",
            "angle": "side",
            "rule": None,
            "at_fault": 1,
        }

    apart = [row(f"{n}", "collision" if n % 2 else None) for n in range(40)]
    together = [row(f"{n // 10}", "collision" if n // 10 % 2 else None) for n in range(40)]
    wide, narrow = (causes_of(agents)[0]["share"] for agents in (together, apart))
    assert isinstance(wide, Interval) and isinstance(narrow, Interval)
    assert wide.value == narrow.value == 0.5 and wide.high - wide.low > 1.5 * (
        narrow.high - narrow.low
    )
    assert causes_of([row("a", None)]) == []


class Lanes(Roads):
    """Lanes of a scene that is made here: each a straight line of one segment; `links`: the lanes
    that go on from each.
    """

    def __init__(
        self, lines: Sequence[tuple[float, float, float, float]], links: Sequence[Sequence[int]]
    ) -> None:
        ends = np.array(lines, float).reshape(-1, 2, 2)
        step = ends[:, 1] - ends[:, 0]
        length, middle = np.hypot(*step.T), ends.mean(axis=1)
        dtype = [
            (name, np.int64) for name in ("exits", "exit_count", "first_segment", "segment_count")
        ]
        lanes = np.zeros(len(lines), dtype)
        lanes["exit_count"], lanes["first_segment"], lanes["segment_count"] = (
            [len(of) for of in links],
            range(len(lines)),
            1,
        )
        lanes["exits"] = np.cumsum([0, *lanes["exit_count"][:-1]])
        arrays = {
            "x": middle[:, 0], "y": middle[:, 1], "ux": step[:, 0] / length,
            "uy": step[:, 1] / length, "half": length / 2, "polyline": np.arange(len(lines)),
            "lanes": lanes, "links": np.array([o for of in links for o in of], np.int64),
        }  # fmt: skip
        super().__init__(arrays, len(lines))


@pytest.mark.parametrize(
    ("links", "rule"), [(1, "following"), (2, "following"), (3, "lane change")]
)
def test_two_lanes_on_it_is_still_the_same_way(links: int, rule: str) -> None:
    lines = [(10.0 * number, 0.0, 10.0 * number + 10.0, 0.0) for number in range(4)]
    roads = Lanes(lines, [[1], [2], [3], []])
    assert rule_of_lanes(car(5.0, 0.0, 0), car(5.0 + 10.0 * links, 0.0, 0), roads) == rule
    assert rule_of_lanes(car(5.0 + 10.0 * links, 0.0, 0), car(5.0, 0.0, 0), roads) == rule


@pytest.mark.parametrize(
    ("speed", "angle"), [(-1.0, "head-on"), (-0.05, "rear-end"), (1.0, "rear-end")]
)
def test_a_car_that_drives_backward_is_taken_by_its_motion(speed: float, angle: str) -> None:
    """One ahead of us, with its rear towards us, drives back into us; what hardly moves stands."""
    bodies = {"contact": (0.0, 0.0, 0.0, 5.0), "other": (4.8, 0.0, 0.0, speed)}
    state = {
        f"{of}_{part}": [value]
        for of, values in bodies.items()
        for part, value in zip(("x", "y", "heading", "speed"), values, strict=True)
    }
    size = {"length_m": 4.5, "width_m": 2.0}
    own, other = (_body(state, 0, name, size) for name in ("contact", "other"))
    assert (other.speed, angle_of(own, other)) == (abs(speed), angle)


def gap_of_corners(a: Body, b: Body) -> float:
    """Separating axes, from the corners of both boxes."""

    def corners(of: Body) -> np.ndarray:
        c, s = math.cos(of.heading), math.sin(of.heading)
        unit = np.array([[1, 1], [1, -1], [-1, -1], [-1, 1]]) * [of.length / 2, of.width / 2]
        return unit @ np.array([[c, s], [-s, c]]) + [of.x, of.y]

    ours, theirs = corners(a), corners(b)
    gaps = []
    for heading in (a.heading, b.heading, a.heading + math.pi / 2, b.heading + math.pi / 2):
        axis = np.array([math.cos(heading), math.sin(heading)])
        one, two = ours @ axis, theirs @ axis
        gaps.append(max(one.min() - two.max(), two.min() - one.max()))
    return float(max(gaps))


def test_gaps_between_boxes_are_those_of_their_corners() -> None:
    draw = np.random.default_rng(4)
    signs = set()
    for _ in range(300):
        a, b = (
            Body(*draw.uniform(-4, 4, 2), draw.uniform(-7, 7), 0.0, *draw.uniform(0.5, 6, 2))
            for _ in range(2)
        )
        gap = gap_m(a, b)
        assert gap == pytest.approx(gap_of_corners(a, b), abs=1e-9) and gap == pytest.approx(
            gap_m(b, a), abs=1e-9
        )
        signs.add(gap > 0)
    assert signs == {True, False}


@pytest.mark.parametrize(
    ("body", "lane"),
    [
        (car(20.0, 3.9, 0), 0), (car(20.0, -4.1, 0), None),  # one that drives
        (car(20.0, 1.9, 0, 0.08), 0), (car(20.0, 2.1, 0, 0.08), None),  # one that stands
        (car(20.0, 3.0, 0, 0.12), 0), (car(20.0, 3.0, 0, 0.08), None),
        (car(50.9, 1.0, 31), 1), (car(51.1, 1.0, 31), 0), (car(50.1, 1.0, 29), 0),
        (car(50.1, 3.2, 29), 1), (car(50.1, 3.0, 29), 0),
    ],
)  # fmt: skip
def test_the_lane_of_a_body(body: Body, lane: int | None) -> None:
    """The nearest within 4 m, or 2 m if it stands; one more than 30 degrees off counts as 3 m
    farther away. docs/drive.md has these numbers.
    """
    found = Lanes([(0, 0, 100, 0), (50, -50, 50, 50)], [[], []]).lane_at(body)
    assert (found and found.number) == lane if lane is not None else found is None


@pytest.mark.parametrize(
    ("own", "other", "rule"),
    [
        (car(20.0, 0.0, 121), car(20.0, 30.0, 0), "on-coming lane"),
        (car(20.0, 0.0, 119), car(20.0, 30.0, 0), "crossing lanes"),
        (car(20.0, 0.0, 180, 0.05), car(20.0, 30.0, 0), "crossing lanes"),
        (car(20.0, 0.0, 180, 0.05), car(20.0, 50.0, 0), None),
        (car(20.0, 50.0, 0), car(20.0, 0.0, 121), "on-coming lane"),
        (car(20.0, 0.0, 44), car(20.0, 30.0, 0), "lane change"),
        (car(20.0, 0.0, 46), car(20.0, 30.0, 0), "crossing lanes"),
        (car(150.0, 0.0, 0), car(150.0, 60.0, 0), "merge"),
    ],
)
def test_rules_of_lanes_at_their_limits(own: Body, other: Body, rule: str | None) -> None:
    lines = [(0, 0, 100, 0), (0, 30, 100, 30), (101, 0, 200, 0), (101, 60, 200, 60),
             (300, 0, 400, 0)]  # fmt: skip
    assert rule_of_lanes(own, other, Lanes(lines, [[], [], [4], [4], []])) == rule


@pytest.mark.parametrize(
    ("turn_deg", "left"), [(29, False), (31, True), (-31, False), (200, False)]
)
@pytest.mark.parametrize("start_deg", [0, 170, -100])
def test_turns_to_the_left_are_of_more_than_30_degrees(
    turn_deg: float, left: bool, start_deg: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    roads = Lanes([(0, 0, 100, 0)], [[]])
    start = math.radians(start_deg)
    end = math.remainder(start + math.radians(turn_deg), math.tau)
    monkeypatch.setattr(roads, "directions", lambda lane: (start, end))
    assert roads.turns_left(0) == left


@pytest.mark.parametrize(("turn_deg", "rule"), [(134, "crossing lanes"), (136, "left turn")])
def test_a_left_turn_is_across_what_comes_from_ahead(turn_deg: float, rule: str) -> None:
    """One lane turns to the left, the other comes from the opposite direction, 45 degrees at most
    off it.
    """
    c, s = math.cos(math.radians(turn_deg)), math.sin(math.radians(turn_deg))
    roads = Lanes([(0, 0, 100, 0), (20 - 50 * c, 30 - 50 * s, 20 + 50 * c, 30 + 50 * s)], [[], []])
    assert rule_of_lanes(car(20, 0, 0), car(20, 30, turn_deg), roads) == "crossing lanes"
    roads.turns_left = lambda lane: lane == 0  # type: ignore[method-assign]
    assert rule_of_lanes(car(20, 0, 0), car(20, 30, turn_deg), roads) == rule


def test_a_place_is_on_a_polygon_or_2_m_beside_it() -> None:
    """Against the half planes and the sides of a triangle."""
    rng, found = np.random.default_rng(8), 0
    for _ in range(400):
        corners = rng.uniform(-10, 10, (3, 2))
        x, y = rng.uniform(-12, 12, 2)
        step = np.roll(corners, -1, axis=0) - corners
        gap = np.array([x, y]) - corners
        inside = abs(np.sign(step[:, 0] * gap[:, 1] - step[:, 1] * gap[:, 0]).sum()) == 3
        along = np.clip((gap * step).sum(axis=1) / (step * step).sum(axis=1), 0, 1)
        near = np.hypot(*(gap - along[:, None] * step).T).min() <= 2.0
        assert _within(x, y, *corners.T) == (inside or near)
        found += inside or near
    assert 40 < found < 300
    square = np.array([0.0, 4.0, 4.0, 0.0]), np.array([0.0, 0.0, 9.0, 9.0])
    for x, y, on in ((-1.9, 3, True), (-2.1, 3, False), (2.0, 4.5, True), (6.1, 9, False)):
        assert _within(x, y, *square) == on


@pytest.mark.parametrize(("moved_m", "other"), [(0.9, "parked vehicle"), (1.1, "vehicle")])
def test_a_parked_car_stays_within_a_metre(moved_m: float, other: str) -> None:
    """Frames in which it is absent do not count."""
    frames = np.zeros(9, packed.FRAME)
    frames["x_m"][3:6], frames["y_m"][3:6] = [50.0, 50.0 + 0.6 * moved_m, 99.0], [7.0, 7.0, 99.0]
    frames["y_m"][4] += 0.8 * moved_m
    frames["speed"][5] = packed.FRAME_INVALID
    objects = np.zeros(2, packed.OBJECT)
    objects["length_m"], objects["width_m"], objects["id"] = 4.0, 2.0, (7, 8)
    objects["frames_index"], objects["frame_count"] = 3, 3
    arrays = {**Lanes([(0, 0, 100, 0)], [[]]).arrays, "objects": objects, "frames": frames}
    parts = ("x", "y", "heading", "speed")
    state = {
        **{f"contact_{part}": [value] for part, value in zip(parts, (0, 0, 0, 5.0), strict=True)},
        **{f"other_{part}": [value] for part, value in zip(parts, (4.2, 0, 0, 1.0), strict=True)},
        "contact_object": [2], "contact_driver": [lib.PV_DRIVE_BY_LOG], "object": np.array([0]),
        "slot": np.array([0]), "contact_fault": [1], "contact_step": [4], "red_light_step": [5],
        "stop_sign_step": [0],
    }  # fmt: skip
    found = contact_of(state, 0, arrays, 1)
    assert found == {
        "other": other, "other_id": 8, "driver": None if "parked" in other else "log",
        "angle": "rear-end", "rule": "following", "at_fault": 1, "speed_mps": 5.0,
        "other_speed_mps": 1.0,
    }  # fmt: skip
    for step, rule in ((4, "red light"), (0, "following")):
        assert contact_of({**state, "red_light_step": [step]}, 0, arrays, 1)["rule"] == rule
    assert contact_of({**state, "stop_sign_step": [1]}, 0, arrays, 1)["rule"] == "stop sign"
    for number in (0, 3):
        assert contact_of({**state, "contact_object": [number]}, 0, arrays, 1)["other"] is None
