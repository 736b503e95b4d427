# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads a scenario of CommonRoad: XML of the versions 2018b and 2020a, without another package.

https://gitlab.lrz.de/tum-cps/commonroad-scenarios documents the format. Lanelets become lanes,
their marks lines; edges follow from the bounds (outline.py). A planning problem becomes a vehicle
that is present at its initial state and whose goal is the middle of its goal region; the first one
is the self-driving car. `Scene.left_out` counts what a Scene cannot store. Runs in the learner and
in helper processes.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes import packed
from drive_env.scenes.check import (
    COORDINATE_LIMIT_M,
    MAX_CONTROLS,
    MAX_FRAMES,
    MAX_OBJECTS,
    MAX_POINTS,
    MAX_ROADS,
    MAX_STATES,
    MISSING,
    Checker,
)
from drive_env.scenes.controls import STOP_SIGN, TRAFFIC_LIGHT, YIELD_SIGN
from drive_env.scenes.frames import resample, step_of
from drive_env.scenes.json_scene import DEFAULTS
from drive_env.scenes.logged import ROW_LIMITS, logged_object, motion_of
from drive_env.scenes.outline import Strip, edges_of
from drive_env.scenes.schema import (
    GREEN,
    OFF,
    RED,
    YELLOW,
    Control,
    Floats,
    LaneLinks,
    Road,
    Scene,
    SceneObject,
)
from drive_env.scenes.xml_parts import Part, child_of, number_of, whole_of

VERSIONS = ("2018b", "2020a")
# Types of obstacles; unlisted ones are "other".
TYPES = {
    **dict.fromkeys(
        ("car", "truck", "bus", "priorityVehicle", "parkedVehicle", "motorcycle", "taxi", "train"),
        "vehicle",
    ),
    "bicycle": "cyclist",
    "pedestrian": "pedestrian",
}
# Static obstacles whose outlines are edges of the road, by map_element_id.
OUTLINES = {"roadBoundary": 15, "building": 15, "pillar": 15, "median_strip": 16}
# map_element_id of a lane, by the first of these types that its lanelet has; lanelets without one
# are surface streets.
LANES = {
    "highway": 1, "interstate": 1, "mainCarriageWay": 1, "accessRamp": 1, "exitRamp": 1,
    "bicycleLane": 3,
}  # fmt: skip
STREET, CROSSWALK = 2, 18
WALKS = ("sidewalk",)
# map_element_id of lines by their mark; the format has no colours.
MARKS = {
    "dashed": 6, "broad_dashed": 6, "dashed_dashed": 6, "solid": 7, "broad_solid": 7,
    "solid_solid": 8, "solid_dashed": 5, "dashed_solid": 5,
}  # fmt: skip
NO_MARKS, CURBS, CURB = ("no_marking", "unknown"), ("curb", "lowered_curb"), 15
# Ids of traffic signs in all countries that the format knows.
LIMITS = (
    "274",
    "R2-1",
    "r301",
    "3.24",
    "R15",
    "C43",
    "B14",
    "\N{GREEK CAPITAL LETTER RHO}-32",
    "B31",
)
STOPS, YIELDS = ("206", "R1-1", "R1-3", "r2"), ("205", "R1-2", "r1")
COLOURS = {"red": RED, "redYellow": RED, "yellow": YELLOW, "green": GREEN, "inactive": OFF}
# Length and width of the vehicle of a planning problem. The format does not store them; these are
# of the first of CommonRoad's vehicle models, a Ford Escort.
EGO_M = (4.298, 1.674)
AROUND = 16  # corners of a circle
# Elements of a state that are read; others are counted.
READ = ("time", "position", "positionZ", "orientation", "velocity", "velocityY")
# Parts of a scenario that are read elsewhere or have no content of their own.
HEADS = ("location", "scenarioTags")
COLUMNS = ("x", "y", "z", "orientation", "velocity x", "velocity y")


@dataclass(frozen=True)
class _Lanelet:
    """A lanelet.

    Attributes:
        marks: marks of its left and right bound.
        stop_m: left and right end of its stop line, (2, 3); None: it has none.
        signs, lights: ids of the signs and lights that hold for it.
    """

    id: int
    kind: str
    left_m: Floats
    right_m: Floats
    marks: tuple[str, str]
    links: LaneLinks
    stop_m: Floats | None
    signs: tuple[int, ...]
    lights: tuple[int, ...]

    @property
    def center_m(self) -> Floats:
        return (self.left_m + self.right_m) / 2


@dataclass(frozen=True)
class _Sign:
    kinds: tuple[int, ...]
    limit_mps: float
    place_m: Floats | None


@dataclass(frozen=True)
class _Light:
    """A traffic light: a cycle of states and their durations, in steps, and the cycle's offset."""

    states: NDArray[np.uint8]
    durations: NDArray[np.int64]
    offset: int

    def at(self, frames: int) -> NDArray[np.uint8]:
        """Return the state in each of the first frames, (frames,)."""
        ends = np.cumsum(self.durations)
        steps = (np.arange(frames) - self.offset) % ends[-1]
        return np.asarray(self.states[np.searchsorted(ends, steps, side="right")])


@dataclass(frozen=True)
class _Shape:
    """A box: its sides, and its centre and rotation in the obstacle's frame.

    Attributes:
        corners_m: corners of the shape itself, in the obstacle's frame, (n, 2).
    """

    length_m: float
    width_m: float
    center_m: Floats
    turn_rad: float
    corners_m: Floats


@dataclass(frozen=True)
class _Track:
    """An obstacle, or the vehicle of a planning problem.

    Attributes:
        steps: time steps of its states, (n,).
        rows: rows with the columns of ROW_LIMITS, (n, 6).
        always: whether it stays in its first state.
        goal: the element of its goal region, with its checker; None: the goal is its last place.
        until: the last step in which the goal may be reached.
    """

    id: int
    kind: str
    shape: _Shape
    steps: NDArray[np.int64]
    rows: Floats
    always: bool = False
    goal: tuple[Checker, Element] | None = None
    until: int = 0


@dataclass
class _Scenario:
    """The elements of a scenario that have been read, and the time of a step."""

    step_s: float
    left_out: Counter[str] = field(default_factory=Counter)
    lanelets: dict[int, _Lanelet] = field(default_factory=dict)
    signs: dict[int, _Sign] = field(default_factory=dict)
    lights: dict[int, _Light] = field(default_factory=dict)
    tracks: list[_Track] = field(default_factory=list)
    egos: list[_Track] = field(default_factory=list)
    outlines: list[Road] = field(default_factory=list)
    inside: set[int] = field(default_factory=set)  # lanelets of intersections
    tags: list[str] = field(default_factory=list)
    points: int = 0
    heights: bool = False


def parse_commonroad(root: Part, parts: Iterator[Part], source: str, name: str) -> Scene:
    """Read a scenario.

    Args:
        root: the element commonRoad.
        parts: its children.
        source: starts every error message.
        name: name of the scene.

    Raises:
        SceneError: an element is missing or wrong. The message reads `source: line: element:
            expected ..., got ...`.
    """
    head = Checker(f"{source}: line {root.line}")
    version = root.element.get("commonRoadVersion")
    if version not in VERSIONS:
        head.fail("commonRoadVersion", f"one of {', '.join(VERSIONS)}", version)
    raw_s = number_of(head, root.element.get("timeStepSize"), "timeStepSize")
    step_s = step_of(head, np.array([0.0, raw_s]), "timeStepSize")
    found = _Scenario(raw_s)
    for part in parts:
        element = part.element
        own_id = element.get("id")
        what = f" {own_id[:40]!r}" if own_id is not None else ""
        check = Checker(f"{source}: line {part.line}: {element.tag[:40]}{what}")
        _read_part(check, element, found)
    check = Checker(source)
    tracks = [*found.tracks, *found.egos]
    frames = 1 + max((int(track.steps[-1]) for track in tracks), default=0)
    if frames == 1:  # nothing has a trajectory
        frames += max((track.until for track in tracks), default=0)
    _check_counts(check, found, len(tracks), frames)
    objects = tuple(_object(check, track, frames, found) for track in tracks)
    check.unique_ids([item.id for item in objects])
    roads = tuple(_roads(check, found))
    check.limit(len(roads), MAX_ROADS, "lanelet", "lanes, lines and edges")
    scene = Scene(
        name=name,
        scenario_id=(root.element.get("benchmarkID") or "")[:200],
        frame_count=frames,
        objects=objects,
        roads=roads,
        traffic_lights={},
        metadata={
            "sdc_track_index": len(found.tracks) if found.egos else -1,
            "dataset": "CommonRoad",
            "source": (root.element.get("source") or "")[:200],
            "tags": [*(root.element.get("tags") or "").split(), *found.tags][:100],
        },
        has_height=found.heights,
        controls=tuple(_controls(check, found, frames)),
        left_out=dict(+found.left_out),
    )
    return resample(scene, step_s, check)


def _read_part(check: Checker, element: Element, found: _Scenario) -> None:
    """Read one child of the root."""
    tag = element.tag
    if tag == "lanelet":
        lanelet = _lanelet(check, element, found)
        if lanelet.id in found.lanelets:
            check.fail("id", "an id that no other lanelet has", lanelet.id)
        found.lanelets[lanelet.id] = lanelet
    elif tag == "trafficSign":
        found.signs[_id(check, element)] = _sign(check, element, found)
    elif tag == "trafficLight":
        found.lights[_id(check, element)] = _light(check, element)
    elif tag in ("staticObstacle", "dynamicObstacle", "obstacle", "environmentObstacle"):
        _obstacle(check, element, found)
    elif tag == "planningProblem":
        found.egos.append(_planning_problem(check, element, found))
    elif tag == "intersection":
        found.left_out["intersections (their lanelets are read)"] += 1
        inside = [item for item in element.iter() if item.tag.startswith("successors")]
        found.inside |= {whole_of(check, item.get("ref"), f"{item.tag}.ref") for item in inside}
    elif tag == "scenarioTags":
        found.tags += [item.tag[:40] for item in element]
    elif tag not in HEADS:
        found.left_out[f"elements {tag[:40]}"] += 1


def _id(check: Checker, element: Element) -> int:
    return whole_of(check, element.get("id"), "id")


def _check_counts(check: Checker, found: _Scenario, objects: int, frames: int) -> None:
    for key, expected, most, count in (
        ("obstacles", "obstacles", MAX_OBJECTS, objects),
        ("trajectory.state.time", "steps", MAX_FRAMES, frames),
        ("trajectory.state", "states, present or not,", MAX_STATES, objects * frames),
        ("lanelet", "lanelets", MAX_ROADS, len(found.lanelets)),
        ("lanelet", "points", MAX_POINTS, found.points),
        ("trafficLight", "lights", MAX_CONTROLS, len(found.lights)),
    ):
        check.limit(count, most, key, expected)


# ---- values --------------------------------------------------------------------------------------


def _point(check: Checker, element: Element, key: str, found: _Scenario) -> Floats:
    """Return a point, (3,)."""
    x, y = (number_of(check, element.findtext(axis), f"{key}.{axis}") for axis in "xy")
    z = number_of(check, element.findtext("z"), f"{key}.z", 0.0)
    found.heights |= z != 0.0
    point = np.array([x, y, z])
    check.within(point, COORDINATE_LIMIT_M, lambda axis: f"{key}.{'xyz'[axis]}")
    return point


def _points(check: Checker, element: Element, key: str, found: _Scenario) -> Floats:
    """Return the points of an element, (n, 3)."""
    points = [
        _point(check, item, f"{key}.point[{index}]", found)
        for index, item in enumerate(element.findall("point"))
    ]
    found.points += len(points)
    return np.array(points).reshape(-1, 3)


def _value(check: Checker, element: Element, key: str, found: _Scenario) -> float:
    """Return an exact value, or the middle of an interval."""
    exact = element.findtext("exact")
    if exact is not None:
        return number_of(check, exact, key)
    low, high = (
        number_of(check, element.findtext(name), f"{key}.{name}")
        for name in ("intervalStart", "intervalEnd")
    )
    found.left_out["intervals of states (their middle is used)"] += 1
    return (low + high) / 2


def _references(check: Checker, element: Element, tag: str) -> tuple[int, ...]:
    return tuple(
        whole_of(check, item.get("ref"), f"{tag}[{index}].ref")
        for index, item in enumerate(element.findall(tag))
    )


# ---- the road network ----------------------------------------------------------------------------


def _lanelet(check: Checker, element: Element, found: _Scenario) -> _Lanelet:
    left, right = (child_of(check, element, f"{side}Bound", "") for side in ("left", "right"))
    left_m, right_m = (_points(check, bound, bound.tag, found) for bound in (left, right))
    if len(left_m) < 2 or len(left_m) != len(right_m):
        check.fail("rightBound", f"{max(2, len(left_m))} points, as leftBound", len(right_m))
    kinds = [(item.text or "").strip() for item in element.findall("laneletType")]
    kind = next((name for name in kinds if name in (*LANES, *WALKS, "crosswalk")), "")
    for tag in ("userOneWay", "userBidirectional"):
        found.left_out["road users of lanelets"] += len(element.findall(tag))
    limit_mps = number_of(check, element.findtext("speedLimit"), "speedLimit", 0.0)
    check.speed(limit_mps, "speedLimit", limit_mps)
    links = LaneLinks(
        exits=_references(check, element, "successor"),
        entries=_references(check, element, "predecessor"),
        left=_adjacent(check, element, "adjacentLeft", found),
        right=_adjacent(check, element, "adjacentRight", found),
        speed_limit_mps=limit_mps,
    )
    line = element.find("stopLine")
    stop_m = None if line is None else _stop_line(check, line, left_m, right_m, found)
    beside = () if line is None else (line,)
    signs, lights = (
        tuple(ref for item in (element, *beside) for ref in _references(check, item, tag))
        for tag in ("trafficSignRef", "trafficLightRef")
    )
    if line is not None and not signs and not lights:
        found.left_out["stop lines without a sign or light"] += 1
    marks = tuple((bound.findtext("lineMarking") or "unknown").strip() for bound in (left, right))
    return _Lanelet(
        _id(check, element), kind, left_m, right_m, (marks[0], marks[1]), links, stop_m,
        tuple(dict.fromkeys(signs)), tuple(dict.fromkeys(lights)),
    )  # fmt: skip


def _adjacent(check: Checker, element: Element, tag: str, found: _Scenario) -> int:
    """Return the lanelet next to a lanelet if it has the same direction, else -1."""
    item = element.find(tag)
    if item is None:
        return -1
    if item.get("drivingDir") != "same":
        found.left_out["adjacent lanelets of the other direction"] += 1
        return -1
    return whole_of(check, item.get("ref"), f"{tag}.ref")


def _stop_line(
    check: Checker, line: Element, left_m: Floats, right_m: Floats, found: _Scenario
) -> Floats:
    """Return the left and right end of a stop line; without points, the lanelet's end."""
    points = _points(check, line, "stopLine", found)
    ends = np.stack([left_m[-1], right_m[-1]])
    if len(points) == 0:
        return ends
    if len(points) != 2:
        check.fail("stopLine.point", "two points", len(points))
    across = (ends[0] - ends[1])[:2]
    return points if float((points[0] - points[1])[:2] @ across) >= 0 else points[::-1].copy()


def _sign(check: Checker, element: Element, found: _Scenario) -> _Sign:
    kinds, limit_mps = [], 0.0
    for index, item in enumerate(element.findall("trafficSignElement")):
        key = f"trafficSignElement[{index}]"
        sign_id = (child_of(check, item, "trafficSignID", key).text or "").strip()
        if sign_id in LIMITS:
            own_mps = number_of(check, item.findtext("additionalValue"), f"{key}.additionalValue")
            check.speed(own_mps, f"{key}.additionalValue", own_mps)
            limit_mps = _lower(limit_mps, own_mps)
        elif sign_id in STOPS:
            kinds.append(STOP_SIGN)
        elif sign_id in YIELDS:
            kinds.append(YIELD_SIGN)
        else:
            found.left_out[f"traffic signs {sign_id[:40]}"] += 1
    place = element.find("position/point")
    place_m = None if place is None else _point(check, place, "position.point", found)
    return _Sign(tuple(dict.fromkeys(kinds)), limit_mps, place_m)


def _lower(one_mps: float, other_mps: float) -> float:
    """Return the lower of two speed limits, of which 0 means none."""
    return min(one_mps, other_mps) if one_mps and other_mps else one_mps or other_mps


def _light(check: Checker, element: Element) -> _Light:
    states, durations = [], []
    arrow = element.findtext("direction", "all").strip() != "all"
    for index, item in enumerate(element.findall("cycle/cycleElement")):
        key = f"cycle.cycleElement[{index}]"
        colour = (item.findtext("color") or "").strip()
        if colour not in COLOURS:
            check.fail(f"{key}.color", f"one of {', '.join(COLOURS)}", colour)
        duration = whole_of(check, item.findtext("duration"), f"{key}.duration")
        if duration < 1:
            check.fail(f"{key}.duration", "at least 1", duration)
        state = COLOURS[colour]
        states.append(state if state == OFF or not arrow else state | packed.STATE_ARROW)
        durations.append(duration)
    if not states or element.findtext("active", "true").strip() == "false":
        states, durations = [OFF], [1]
    offset = element.findtext("cycle/timeOffset")
    return _Light(
        np.array(states, dtype=np.uint8),
        np.array(durations, dtype=np.int64),
        0 if offset is None else whole_of(check, offset, "cycle.timeOffset"),
    )


def _roads(check: Checker, found: _Scenario) -> Iterator[Road]:
    """Yield lanes, crosswalks, lines and edges."""
    strips = []
    lines: dict[bytes, Road] = {}
    for lanelet in found.lanelets.values():
        if lanelet.kind == "crosswalk":
            corners = np.concatenate([lanelet.left_m, lanelet.right_m[::-1]])
            yield Road("crosswalk", CROSSWALK, lanelet.id, corners)
            continue
        for mark, points_m in zip(lanelet.marks, (lanelet.left_m, lanelet.right_m), strict=True):
            if mark in NO_MARKS:
                continue
            kind, element = ("road_edge", CURB) if mark in CURBS else ("road_line", MARKS.get(mark))
            if element is None:
                found.left_out[f"line marks {mark[:40]}"] += 1
                continue
            # Lanelets that lie side by side have the same bound, in one direction or the other.
            both = points_m.tobytes(), points_m[::-1].tobytes()
            if both[0] not in lines and both[1] not in lines:
                lines[both[0]] = Road(kind, element, -1, points_m)
        if lanelet.kind in WALKS:
            found.left_out[f"lanelets of type {lanelet.kind}"] += 1
            continue
        inside = lanelet.id in found.inside
        strips.append(Strip(lanelet.left_m, lanelet.right_m, inside))
        yield Road(
            "lane",
            LANES.get(lanelet.kind, STREET),
            lanelet.id,
            lanelet.center_m,
            _links(lanelet, found),
        )
    yield from lines.values()
    yield from found.outlines
    for points_m in edges_of(strips, check.source):
        yield Road("road_edge", CURB, -1, points_m)


def _links(lanelet: _Lanelet, found: _Scenario) -> LaneLinks:
    """Return the links of a lanelet, with its speed limit if a sign gives one."""
    limit_mps = lanelet.links.speed_limit_mps
    for ref in lanelet.signs:
        if ref in found.signs:
            limit_mps = _lower(limit_mps, found.signs[ref].limit_mps)
    links = lanelet.links
    return LaneLinks(links.exits, links.entries, links.left, links.right, limit_mps)


def _controls(check: Checker, found: _Scenario, frames: int) -> list[Control]:
    """Return one control for each lanelet of a light or sign."""
    red = np.array([RED], dtype=np.uint8)
    used: set[int] = set()
    controls: list[Control] = []
    for lanelet in found.lanelets.values():
        check.limit(len(controls), MAX_CONTROLS, "trafficLight", "lights and signs")
        end = np.stack([lanelet.left_m[-1], lanelet.right_m[-1]])
        stop_m = end if lanelet.stop_m is None else lanelet.stop_m
        for ref in lanelet.lights:
            if ref not in found.lights:
                found.left_out["references to lights that do not exist"] += 1
                continue
            used.add(ref)
            states = found.lights[ref].at(frames)
            place_m = stop_m.mean(axis=0)
            controls.append(Control(TRAFFIC_LIGHT, place_m, lanelet.id, states, ref, None, stop_m))
        for ref in lanelet.signs:
            sign = found.signs.get(ref)
            if sign is None:
                found.left_out["references to signs that do not exist"] += 1
                continue
            place_m = lanelet.right_m[-1] if sign.place_m is None else sign.place_m
            controls += [
                Control(kind, place_m, lanelet.id, red, ref, None, lanelet.stop_m)
                for kind in sign.kinds
            ]
    found.left_out["traffic lights without a lanelet"] += len(found.lights) - len(used)
    return controls


# ---- obstacles -----------------------------------------------------------------------------------


def _obstacle(check: Checker, element: Element, found: _Scenario) -> None:
    """Read an obstacle: an object, or an edge of the road."""
    own_id = _id(check, element)
    kind = element.findtext("type", "unknown").strip()
    shape = _shape(check, child_of(check, element, "shape", ""), "shape", found)
    for tag in ("initialSignalState", "signalSeries"):
        found.left_out["states of blinkers and brake lights"] += len(element.findall(tag))
    if element.tag == "environmentObstacle":
        found.outlines.append(_outline(check, kind, shape, np.zeros(4)))
        return
    initial = child_of(check, element, "initialState", "")
    first, row = _state(check, initial, "initialState", found)
    steps, rows = [first], [row]
    for index, item in enumerate(element.findall("trajectory/state")):
        key = f"trajectory.state[{index}]"
        step, row = _state(check, item, key, found)
        if step <= steps[-1]:
            check.fail(f"{key}.time", f"a step after {steps[-1]}", step)
        steps.append(step)
        rows.append(row)
    found.left_out["occupancy sets of obstacles"] += len(element.findall("occupancySet"))
    columns = _completed(np.array(steps, dtype=np.int64), np.array(rows), found)
    if kind in OUTLINES:
        found.outlines.append(_outline(check, kind, shape, columns[0]))
        return
    role = element.findtext("role", "").strip()
    always = element.tag == "staticObstacle" or role == "static"
    found.tracks.append(
        _Track(own_id, TYPES.get(kind, "other"), shape, np.array(steps), columns, always)
    )
    check.limit(len(found.tracks), MAX_OBJECTS, "id", "obstacles")


def _planning_problem(check: Checker, element: Element, found: _Scenario) -> _Track:
    item = child_of(check, element, "initialState", "")
    step, row = _state(check, item, "initialState", found)
    goals = element.findall("goalState")
    found.left_out["further goal regions"] += max(0, len(goals) - 1)
    for tag in ("time", "velocity", "orientation"):
        found.left_out["times, speeds and headings of goals"] += sum(
            goal.find(tag) is not None for goal in goals
        )
    place = goals[0].find("position") if goals else None
    time = goals[0].find("time") if goals else None
    until = 0.0
    if time is not None:
        last = time.findtext("intervalEnd", time.findtext("exact", ""))
        until = number_of(check, last, "goalState.time")
    if place is None:
        found.left_out["planning problems whose goal has no place"] += 1
    length_m, width_m = EGO_M
    steps = np.array([step], dtype=np.int64)
    return _Track(
        _id(check, element),
        "vehicle",
        _box(length_m, width_m, np.zeros(2), 0.0),
        steps,
        _completed(steps, np.array([row]), found),
        goal=None if place is None else (check, place),
        until=int(max(0.0, until)),
    )


def _state(check: Checker, element: Element, key: str, found: _Scenario) -> tuple[int, list[float]]:
    """Return the step of a state, and x, y, z, heading, speed along and across the heading.

    Values that the state does not have are NaN.
    """
    time = child_of(check, element, "time", key)
    step = _value(check, time, f"{key}.time", found)
    if not 0 <= step < MAX_FRAMES:
        check.fail(f"{key}.time", f"a step from 0 to {MAX_FRAMES - 1}", step)
    position = child_of(check, element, "position", key)
    place = _place(check, position, f"{key}.position", found)
    values = []
    for tag, default in (("orientation", math.nan), ("velocity", math.nan), ("velocityY", 0.0)):
        item = element.find(tag)
        values.append(default if item is None else _value(check, item, f"{key}.{tag}", found))
    for item in element:
        if item.tag not in READ:
            found.left_out[f"{item.tag[:40]} of states"] += 1
    if (height := element.find("positionZ")) is not None:
        place[2] = _value(check, height, f"{key}.positionZ", found)
        found.heights = True
    return int(step), [*place.tolist(), *values]


def _place(check: Checker, position: Element, key: str, found: _Scenario) -> Floats:
    """Return a point, or the middle of the shapes in which it lies, (3,)."""
    point = position.find("point")
    if point is not None:
        return _point(check, point, f"{key}.point", found)
    shape = _shape(check, position, key, found)
    found.left_out["regions of positions and goals (their middle is used)"] += 1
    return np.array([*shape.center_m, 0.0])


def _completed(steps: NDArray[np.int64], states: Floats, found: _Scenario) -> Floats:
    """Return rows with the columns of ROW_LIMITS.

    A missing heading becomes the direction of motion; a missing speed is computed from positions.
    """
    place, heading, along, across = states[:, :3], states[:, 3], states[:, 4], states[:, 5]
    motion = motion_of(place, steps * found.step_s)
    lost = np.isnan(heading)
    found.left_out["states without a heading (the direction of motion is used)"] += int(lost.sum())
    heading = np.where(lost, np.arctan2(motion[:, 1], motion[:, 0]), heading)
    cos, sin = np.cos(heading), np.sin(heading)
    velocity = np.stack([cos * along - sin * across, sin * along + cos * across], axis=-1)
    velocity = np.where(np.isnan(along)[:, None], motion, velocity)
    return np.concatenate([place, heading[:, None], velocity], axis=1)


def _object(check: Checker, track: _Track, frames: int, found: _Scenario) -> SceneObject:
    """Return an obstacle, or the vehicle of a planning problem, as an object."""
    key, shape = f"obstacle {track.id}", track.shape
    rows, valid = np.zeros((frames, 6)), np.zeros(frames, dtype=np.bool_)
    steps = np.arange(frames) if track.always else track.steps
    rows[steps], valid[steps] = track.rows[0] if track.always else track.rows, True
    heading = rows[:, 3]
    cos, sin = np.cos(heading), np.sin(heading)
    x, y = shape.center_m
    rows[:, 0] += np.where(valid, cos * x - sin * y, 0.0)
    rows[:, 1] += np.where(valid, sin * x + cos * y, 0.0)
    rows[:, 3] += np.where(valid, shape.turn_rad, 0.0)
    check.within(rows, ROW_LIMITS, lambda frame, column: f"{key}: {COLUMNS[column]}[{frame}]")
    size_m = [
        check.size(side_m, f"{key}: {side}", True)
        for side, side_m in (("width", shape.width_m), ("length", shape.length_m))
    ]
    made = logged_object(
        track.kind, track.id, [*size_m, DEFAULTS["height"][track.kind]], rows, valid
    )
    if track.goal is None:
        return made
    return dataclasses.replace(made, goal_m=_goal(*track.goal, found))


def _goal(check: Checker, place: Element, found: _Scenario) -> Floats:
    """Return the middle of a goal region: of its first lanelet, or of its shapes."""
    refs = _references(check, place, "lanelet")
    if not refs:
        return _place(check, place, "goalState.position", found)
    found.left_out["further lanelets of goals"] += len(refs) - 1
    if refs[0] not in found.lanelets:
        check.fail("goalState.position.lanelet[0].ref", "a lanelet of the file", refs[0])
    center_m = found.lanelets[refs[0]].center_m
    ends = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(center_m[:, :2], axis=0).T))])
    return np.array([np.interp(ends[-1] / 2, ends, center_m[:, axis]) for axis in range(3)])


# ---- shapes --------------------------------------------------------------------------------------


def _shape(check: Checker, element: Element, key: str, found: _Scenario) -> _Shape:
    """Return the shape in an element; the box around them if there are several."""
    shapes = [
        _one_shape(check, item, f"{key}.{item.tag[:40]}[{index}]", found)
        for index, item in enumerate(element)
    ]
    if not shapes:
        check.fail(key, "a rectangle, circle or polygon", MISSING)
    if len(shapes) == 1:
        return shapes[0]
    found.left_out["shapes of several parts (the box around them is used)"] += 1
    return _around(np.concatenate([shape.corners_m for shape in shapes]))


def _one_shape(check: Checker, item: Element, key: str, found: _Scenario) -> _Shape:
    center = item.find("center")
    center_m = np.zeros(2) if center is None else _point(check, center, f"{key}.center", found)[:2]
    if item.tag == "polygon":
        corners = _points(check, item, key, found)[:, :2]
        if len(corners) < 3:
            check.fail(f"{key}.point", "three or more points", len(corners))
        return _around(corners)
    if item.tag == "circle":
        radius_m = number_of(check, item.findtext("radius"), f"{key}.radius")
        angles = np.arange(AROUND) * (2 * math.pi / AROUND)
        corners = center_m + radius_m * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        return _Shape(2 * radius_m, 2 * radius_m, center_m, 0.0, corners)
    if item.tag != "rectangle":
        check.fail(key, "a rectangle, circle or polygon", item.tag)
    length_m, width_m = (
        number_of(check, item.findtext(side), f"{key}.{side}") for side in ("length", "width")
    )
    turn = number_of(check, item.findtext("orientation"), f"{key}.orientation", 0.0)
    shift = number_of(check, item.findtext("originXShift"), f"{key}.originXShift", 0.0)
    return _box(length_m, width_m, center_m - np.array([shift, 0.0]), turn)


def _box(length_m: float, width_m: float, center_m: Floats, turn_rad: float) -> _Shape:
    signs = np.array([[1, 1], [1, -1], [-1, -1], [-1, 1]]) / 2
    corners = _turned(signs * np.array([length_m, width_m]), turn_rad) + center_m
    return _Shape(length_m, width_m, center_m, turn_rad, corners)


def _around(corners_m: Floats) -> _Shape:
    """Return a shape with these corners, and the box around them."""
    low, high = corners_m.min(axis=0), corners_m.max(axis=0)
    length_m, width_m = (high - low).tolist()
    return _Shape(length_m, width_m, (low + high) / 2, 0.0, corners_m)


def _turned(points_m: Floats, angle_rad: float) -> Floats:
    cos, sin = math.cos(angle_rad), math.sin(angle_rad)
    return np.asarray(points_m @ np.array([[cos, sin], [-sin, cos]]))


def _outline(check: Checker, kind: str, shape: _Shape, row: Floats) -> Road:
    """Return the outline of an obstacle that never moves as an edge of the road."""
    points = np.zeros((len(shape.corners_m) + 1, 3))
    corners = _turned(shape.corners_m, float(row[3])) + row[:2]
    points[:, :2], points[:, 2] = np.concatenate([corners, corners[:1]]), row[2]
    return Road("road_edge", OUTLINES.get(kind, CURB), -1, check.places(points, "shape"))
