# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads OpenDRIVE maps (.xodr) through the parser of the package py123d.

py123d computes reference lines and the bounds of lanes (xodr_lines.py). This module reads links,
speeds, signals, objects and road marks. Differences from py123d's own maps: no road and no lane is
left out because it has no predecessor or successor, heights are right in all lane sections, and
left-hand traffic drives on the left.

A map has no log: the result is a scene without objects. `Scene.left_out` counts what a
Scene cannot store. Runs in the learner and in helper processes.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from drive_env.scenes.check import (
    MAX_CONTROLS,
    MAX_POINTS,
    MAX_ROADS,
    MISSING,
    Checker,
    refusing_faults,
)
from drive_env.scenes.controls import STOP_SIGN, TRAFFIC_LIGHT, YIELD_SIGN
from drive_env.scenes.logged import KMH_MPS, MPH_MPS
from drive_env.scenes.outline import Strip, edges_of
from drive_env.scenes.schema import (
    RED,
    UNKNOWN,
    Control,
    Floats,
    LaneLinks,
    Road,
    Scene,
)
from drive_env.scenes.xml_parts import Part, number_of, whole_of
from drive_env.scenes.xodr_lines import Line, Section, require_parser, sections_of

SPEEDS_MPS = {None: 1.0, "m/s": 1.0, "km/h": KMH_MPS, "mph": MPH_MPS}
NO_SPEED = ("no limit", "undefined")
# map_element_id by type: lanes for cars, and for bicycles. On ROADS["motorway"] cars have FREEWAY.
FREEWAY, STREET, BICYCLE = 1, 2, 3
CARS = (
    "driving", "entry", "exit", "onRamp", "offRamp", "connectingRamp", "slipLane", "mwyEntry",
    "mwyExit", "bus", "taxi", "HOV",
)  # fmt: skip
LANES = {**dict.fromkeys(CARS, STREET), "biking": BICYCLE}
FREEWAYS = ("motorway", "freeway")
# Types of lanes inside the edges of the road, besides LANES.
SURFACES = ("bidirectional", "border", "parking", "shoulder", "stop")
# map_element_id of a road mark by its type and whether it is yellow.
MARKS = {
    ("broken", False): 6, ("solid", False): 7, ("solid solid", False): 8, ("broken", True): 9,
    ("broken broken", True): 10, ("solid", True): 11, ("solid solid", True): 12,
    ("solid broken", True): 13, ("broken solid", True): 13, ("broken broken", False): 6,
    ("solid broken", False): 5, ("broken solid", False): 5, ("botts dots", False): 6,
    ("botts dots", True): 9,
}  # fmt: skip
NO_MARK, CURB = (None, "none"), "curb"
BOUNDARY = 15  # map_element_id of an edge
STOPS, YIELDS = ("206", "R1-1"), ("205", "R1-2")
WALKERS = "1000002"  # the type of a light for pedestrians
MEET_M = 1.0  # lanes whose ends are this far apart are not connected
SHORT_M = 0.1  # a mark shorter than this is not drawn
# A lane of the file: its road, the number of the section along it, and its id there.
Key = tuple[str, int, int]


@dataclass
class _Lane:
    """A lane of a section; points lie in the direction of travel.

    Attributes:
        number: its `Road.id`; -1 if it is not a lane of the scene.
        s_m: distances of the points along its road, (n,).
    """

    number: int
    kind: str
    along: bool
    s_m: Floats
    left_m: Floats
    right_m: Floats
    limit_mps: float
    junction: bool
    freeway: bool
    predecessor: int | None
    successor: int | None
    exits: list[int] = field(default_factory=list)
    entries: list[int] = field(default_factory=list)

    @property
    def center_m(self) -> Floats:
        return (self.left_m + self.right_m) / 2


@dataclass
class _Road:
    """A road; its neighbours are (type of element, id, contact point)."""

    sections: int
    junction: bool
    before: tuple[str, str, str] | None
    after: tuple[str, str, str] | None
    starts_m: list[float]


@dataclass
class _Signal:
    """A traffic light or sign.

    Attributes:
        uses: (road, distance along it in metres, validity as (from, to), orientation).
    """

    number: int
    kind: int
    place_m: Floats
    uses: list[tuple[str, float, list[tuple[int, int]], str]]


def parse_opendrive(root: Part, parts: Iterator[Part], source: str, name: str) -> Scene:
    """Read an OpenDRIVE map as a scene without objects.

    Args:
        root: the element OpenDRIVE.
        parts: its children.
        source: starts every error message.
        name: name of the scene.

    Raises:
        SceneError: an element is missing or wrong. The message reads `source: line: element:
            expected ..., got ...`.
        MissingExtraError: py123d is not installed.
    """
    require_parser(name)
    reader = _Map(source)
    for part in parts:
        with np.errstate(all="ignore"):
            reader.add(part)
    return reader.scene(name)


class _Map:
    """The parts of a map that were read so far."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.roads: dict[str, _Road] = {}
        self.lanes: dict[Key, _Lane] = {}
        self.lanes_in: dict[tuple[str, int], list[int]] = {}  # ids by road and section
        self.lines: list[Road] = []
        self.areas: list[Road] = []
        self.signals: dict[str, _Signal] = {}
        self.references: list[tuple[str, tuple[str, float, list[tuple[int, int]], str]]] = []
        # incoming road, connecting road, contact point, [(from, to)]
        self.connections: list[tuple[str, str, str, list[tuple[int, int]]]] = []
        self.left_out: Counter[str] = Counter()
        self.points = self.numbers = 0
        self.name = ""

    def add(self, part: Part) -> None:
        """Read one child of the root."""
        element = part.element
        own_id = (element.get("id") or "")[:40]
        what = f" {own_id!r}" if own_id else ""
        check = Checker(f"{self.source}: line {part.line}: {element.tag[:40]}{what}")
        with refusing_faults(check.source):
            if element.tag == "road":
                self.read_road(check, element)
            elif element.tag == "junction":
                self.read_junction(check, element)
            elif element.tag == "header":
                self.name = (element.get("name") or "")[:200]
            else:
                self.left_out[f"elements {element.tag[:40]}"] += 1

    # ---- roads -----------------------------------------------------------------------------------

    def read_road(self, check: Checker, element: Element) -> None:
        own_id = element.get("id")
        if own_id is None or own_id in self.roads:
            check.fail("id", "an id that no other road has", MISSING if own_id is None else own_id)
        line, sections = sections_of(check, element, self.left_out)
        left_hand = element.get("rule") == "LHT"
        junction = element.get("junction", "-1") != "-1"
        types = _types(check, element)
        self.roads[own_id] = _Road(
            len(sections),
            junction,
            _neighbour(element, "predecessor"),
            _neighbour(element, "successor"),
            [section.begin_m for section in sections],
        )
        for number, section in enumerate(sections):
            limit_mps, freeway = _type_at(types, section.begin_m)
            for lane in section.lanes:
                if lane.kind not in LANES and lane.kind not in SURFACES:
                    self.left_out[f"lanes of type {lane.kind[:40]}"] += 1
                    continue
                key = f"laneSection[{number}].lane[{lane.id}]"
                own_mps = _speed(check, lane.element.find("speed"), f"{key}.speed")
                read = _Lane(
                    number=self.next_number() if lane.kind in LANES else -1,
                    kind=lane.kind,
                    along=(lane.id < 0) != left_hand,
                    s_m=section.s_m,
                    left_m=lane.inner_m,
                    right_m=lane.outer_m,
                    limit_mps=own_mps or limit_mps,
                    junction=junction,
                    freeway=freeway,
                    predecessor=lane.predecessor,
                    successor=lane.successor,
                )
                self.lanes[own_id, number, lane.id] = _directed(read, lane.id)
                self.lanes_in.setdefault((own_id, number), []).append(lane.id)
                self.points += len(section.s_m)
            self.read_marks(check, section)
        check.limit(self.points, MAX_POINTS, "lanes", "points in all roads")
        self.read_objects(check, element, line)
        self.read_signals(check, element, line, own_id)

    def next_number(self) -> int:
        """Return the number of the next lane of the scene."""
        self.numbers += 1
        return self.numbers - 1

    def read_marks(self, check: Checker, section: Section) -> None:
        """Read the road marks of a section: those of each lane lie on its outer bound."""
        bounds = [(lane.element, lane.outer_m) for lane in section.lanes]
        inner = next((lane.inner_m for lane in section.lanes if abs(lane.id) == 1), None)
        if section.center is not None and inner is not None:
            bounds.append((section.center, inner))
        for element, points_m in bounds:
            marks = [
                (section.begin_m + number_of(check, item.get("sOffset"), "roadMark.sOffset"), item)
                for item in element.findall("roadMark")
            ]
            marks.sort(key=lambda pair: pair[0])
            for at, (begin, item) in enumerate(marks):
                end = marks[at + 1][0] if at + 1 < len(marks) else math.inf
                self.read_mark(item, begin, end, section.s_m, points_m)

    def read_mark(
        self, item: Element, begin: float, end: float, s_m: Floats, points_m: Floats
    ) -> None:
        kind = item.get("type")
        begin, end = max(begin, float(s_m[0])), min(end, float(s_m[-1]))
        if kind in NO_MARK or end - begin < SHORT_M:
            return
        within = s_m[(s_m > begin) & (s_m < end)]
        at = np.concatenate([[begin], within, [end]])
        line = np.stack([np.interp(at, s_m, points_m[:, axis]) for axis in range(3)], axis=-1)
        self.points += len(line)
        if kind == CURB:
            self.lines.append(Road("road_edge", BOUNDARY, -1, line))
            return
        number = MARKS.get((str(kind), item.get("color") == "yellow"))
        if number is None:
            self.left_out[f"road marks of type {str(kind)[:40]}"] += 1
        else:
            self.lines.append(Road("road_line", number, -1, line))

    # ---- objects and signals ---------------------------------------------------------------------

    def read_objects(self, check: Checker, road: Element, line: Line) -> None:
        """Read crosswalks, and count other objects."""
        for number, item in enumerate(road.findall("objects/object")):
            if item.get("type") != "crosswalk":
                self.left_out[f"objects of type {str(item.get('type'))[:40]}"] += 1
                continue
            key = f"objects.object[{number}]"
            at = {
                name: number_of(check, item.get(name), f"{key}.{name}", 0.0)
                for name in ("s", "t", "zOffset", "hdg", "length", "width")
            }
            origin, heading = line.place(at["s"], at["t"])
            corners = _corners(check, item, key, line, origin, heading + at["hdg"], at)
            corners[:, 2] += at["zOffset"]
            check.places(corners, key)
            self.areas.append(Road("crosswalk", 18, -1, corners))

    def read_signals(self, check: Checker, road: Element, line: Line, own_id: str) -> None:
        """Read traffic lights, stop signs and yield signs, and count other signals."""
        for number, item in enumerate(road.findall("signals/*")):
            key = f"signals.{item.tag[:40]}[{number}]"
            if item.tag not in ("signal", "signalReference"):
                continue
            s, t = (number_of(check, item.get(name), f"{key}.{name}", 0.0) for name in "st")
            validity = [
                (
                    whole_of(check, one.get("fromLane"), f"{key}.validity.fromLane"),
                    whole_of(check, one.get("toLane"), f"{key}.validity.toLane"),
                )
                for one in item.findall("validity")
            ]
            use = (own_id, s, validity, item.get("orientation", "none"))
            signal_id = item.get("id", "")
            if item.tag == "signalReference":
                self.references.append((signal_id, use))
                continue
            kind = _kind_of_signal(item)
            if kind is None:
                self.left_out[f"signals of type {item.get('type', '')[:40]}"] += 1
                continue
            place, _ = line.place(s, t)
            place[2] += number_of(check, item.get("zOffset"), f"{key}.zOffset", 0.0)
            check.places(place[None], key)
            self.signals[signal_id] = _Signal(len(self.signals), kind, place, [use])

    # ---- links -----------------------------------------------------------------------------------

    def read_junction(self, check: Checker, element: Element) -> None:
        for number, item in enumerate(element.findall("connection")):
            key = f"connection[{number}]"
            links = [
                (
                    whole_of(check, link.get("from"), f"{key}.laneLink.from"),
                    whole_of(check, link.get("to"), f"{key}.laneLink.to"),
                )
                for link in item.findall("laneLink")
            ]
            connecting = item.get("connectingRoad") or item.get("linkedRoad") or ""
            self.connections.append(
                (item.get("incomingRoad") or "", connecting, item.get("contactPoint") or "", links)
            )

    def link(self) -> None:
        """Connect the lanes."""
        for (own_id, section, _), lane in self.lanes.items():
            road = self.roads[own_id]
            for step, other, neighbour in (
                (1, lane.successor, road.after),
                (-1, lane.predecessor, road.before),
            ):
                if other is None:
                    continue
                if 0 <= section + step < road.sections:
                    self.connect(lane, [(own_id, section + step, other)], math.inf)
                elif neighbour is not None and neighbour[0] == "road":
                    self.connect(lane, self.ends(neighbour[1], neighbour[2], other), MEET_M)
        for incoming, connecting, contact, links in self.connections:
            for one, other in links:
                for key in self.ends(connecting, contact, other):
                    if key in self.lanes:
                        self.connect(self.lanes[key], self.ends(incoming, "", one), MEET_M)
        for lane in self.lanes.values():
            lane.exits = list(dict.fromkeys(lane.exits))
            lane.entries = list(dict.fromkeys(lane.entries))

    def ends(self, road_id: str, contact: str, lane_id: int) -> list[Key]:
        """Return the lanes with an id at one end of a road, or at both if `contact` names none."""
        road = self.roads.get(road_id)
        if road is None or not road.sections:
            return []
        numbers = {"start": [0], "end": [road.sections - 1]}.get(contact, [0, road.sections - 1])
        return [(road_id, number, lane_id) for number in dict.fromkeys(numbers)]

    def connect(self, lane: _Lane, keys: list[Key], most_m: float) -> None:
        """Connect a lane, in the direction of travel, with that lane of `keys` which it meets.

        Args:
            most_m: largest distance between their ends.
        """
        if lane.number < 0:
            return
        found = [self.lanes[key] for key in keys if key in self.lanes]
        others = [other for other in found if other.number >= 0]
        gaps = [
            (gap_m, at, before, after)
            for at, other in enumerate(others)
            if other is not lane
            for before, after in ((lane, other), (other, lane))
            if (gap_m := _gap(before, after)) <= most_m
        ]
        if not gaps:
            self.left_out["links of lanes that do not meet"] += bool(others)
            return
        _, _, before, after = min(gaps, key=lambda gap: gap[:2])
        before.exits.append(after.number)
        after.entries.append(before.number)

    def inherit_limits(self) -> None:
        """Give lanes of junctions without a speed limit that of a lane before or after them."""
        by_number = {lane.number: lane for lane in self.lanes.values()}
        for lane in self.lanes.values():
            if lane.junction and not lane.limit_mps:
                limits = (by_number[number].limit_mps for number in (*lane.entries, *lane.exits))
                lane.limit_mps = next((limit for limit in limits if limit), 0.0)

    # ---- the scene -------------------------------------------------------------------------------

    def scene(self, name: str) -> Scene:
        """Return the map as a scene."""
        check = Checker(self.source)
        self.link()
        self.inherit_limits()
        lanes = [self.lane_road(key, lane) for key, lane in self.lanes.items() if lane.number >= 0]
        strips = [
            Strip(lane.left_m, lane.right_m, lane.junction)
            for lane in self.lanes.values()
            if lane.kind in LANES or lane.kind in SURFACES
        ]
        edges = [
            Road("road_edge", BOUNDARY, -1, points_m) for points_m in edges_of(strips, self.source)
        ]
        roads = (*lanes, *self.lines, *edges, *self.areas)
        total = sum(len(road.points_m) for road in roads)
        if not lanes:
            check.fail("road", "a road with lanes for cars", 0)
        check.limit(len(roads), MAX_ROADS, "road", "lanes, lines and edges: cut the map")
        check.limit(total, MAX_POINTS, "road", "points: cut the map")
        controls = self.controls()
        check.limit(len(controls), MAX_CONTROLS, "signals", "lights and signs")
        return Scene(
            name=name,
            scenario_id=self.name,
            frame_count=1,
            objects=(),
            roads=roads,
            traffic_lights={},
            metadata={"dataset": "OpenDRIVE"},
            has_height=any(bool(road.points_m[:, 2].any()) for road in roads),
            controls=tuple(controls),
            left_out=dict(+self.left_out),
        )

    def lane_road(self, key: Key, lane: _Lane) -> Road:
        own_id, section, lane_id = key
        sides = {}
        for side, step in (("left", -1), ("right", 1)):
            towards = step if lane_id > 0 else -step
            other = self.lanes.get((own_id, section, lane_id + towards))
            sides[side] = other.number if other is not None else -1
        if (lane_id < 0) != lane.along:  # left-hand traffic
            sides = {"left": sides["right"], "right": sides["left"]}
        element = FREEWAY if lane.freeway and lane.kind in CARS else LANES[lane.kind]
        links = LaneLinks(
            tuple(lane.exits), tuple(lane.entries), sides["left"], sides["right"], lane.limit_mps
        )
        return Road("lane", element, lane.number, lane.center_m, links)

    def controls(self) -> list[Control]:
        """Return one control for each lane of a signal."""
        for signal_id, use in self.references:
            if signal_id in self.signals:
                self.signals[signal_id].uses.append(use)
            else:
                self.left_out["references to signals that are not read"] += 1
        controls = []
        for signal in self.signals.values():
            light = signal.kind == TRAFFIC_LIGHT
            states = np.array([UNKNOWN if light else RED], dtype=np.uint8)
            found = list(itertools.chain.from_iterable(self.lanes_of(*use) for use in signal.uses))
            seen: set[int] = set()
            for lane, at in found:
                if lane.number in seen:
                    continue
                seen.add(lane.number)
                line = np.stack([lane.left_m[at], lane.right_m[at]])
                place = lane.center_m[at].copy() if light else signal.place_m
                controls.append(
                    Control(signal.kind, place, lane.number, states, signal.number, None, line)
                )
            if not found and light:
                self.left_out["traffic lights without a lane"] += 1
            elif not found:
                controls.append(Control(signal.kind, signal.place_m, -1, states, signal.number))
        return controls

    def lanes_of(
        self, road_id: str, s: float, validity: list[tuple[int, int]], orientation: str
    ) -> Iterator[tuple[_Lane, int]]:
        """Yield the lanes for which a signal holds, each with the index of its point there.

        In a junction traffic stops where the lane begins.
        """
        road = self.roads[road_id]
        section = max(0, sum(begin <= s + 1e-6 for begin in road.starts_m) - 1)
        for lane_id in self.lanes_in.get((road_id, section), ()):
            lane = self.lanes[road_id, section, lane_id]
            if lane.number < 0:
                continue
            if validity:
                holds = any(min(pair) <= lane_id <= max(pair) for pair in validity)
            else:
                holds = orientation not in ("+", "-") or (orientation == "+") == lane.along
            if holds:
                yield lane, 0 if road.junction else int(np.abs(lane.s_m - s).argmin())


# ---- parts of roads ------------------------------------------------------------------------------


def _directed(lane: _Lane, lane_id: int) -> _Lane:
    """Return a lane whose bounds are inner and outer, with left and right in travel direction."""
    if lane_id > 0 and lane.along or lane_id < 0 and not lane.along:
        lane.left_m, lane.right_m = lane.right_m, lane.left_m  # left-hand traffic
    if not lane.along:
        lane.left_m, lane.right_m, lane.s_m = lane.left_m[::-1], lane.right_m[::-1], lane.s_m[::-1]
    return lane


def _gap(before: _Lane, after: _Lane) -> float:
    """Return the distance in the plane between the end of a lane and the start of another."""
    end = (before.left_m[-1] + before.right_m[-1]) / 2
    start = (after.left_m[0] + after.right_m[0]) / 2
    return float(np.hypot(*(end - start)[:2]))


def _neighbour(road: Element, which: str) -> tuple[str, str, str] | None:
    item = road.find(f"link/{which}")
    if item is None:
        return None
    return (item.get("elementType", ""), item.get("elementId", ""), item.get("contactPoint", ""))


def _types(check: Checker, road: Element) -> list[tuple[float, float, bool]]:
    """Return where each type of a road begins, its speed limit, and whether it is a freeway."""
    types = [
        (
            number_of(check, item.get("s"), f"type[{number}].s", 0.0),
            _speed(check, item.find("speed"), f"type[{number}].speed"),
            item.get("type") in FREEWAYS,
        )
        for number, item in enumerate(road.findall("type"))
    ]
    return sorted(types, key=lambda item: item[0])


def _type_at(types: list[tuple[float, float, bool]], s: float) -> tuple[float, bool]:
    """Return the speed limit at a distance along a road, and whether it is a freeway there."""
    held = [item for item in types if item[0] <= s + 1e-6]
    return held[-1][1:] if held else (0.0, False)


def _speed(check: Checker, item: Element | None, key: str) -> float:
    """Return a speed limit in m/s; 0 if there is none."""
    if item is None or item.get("max") in NO_SPEED:
        return 0.0
    unit = item.get("unit")
    if unit not in SPEEDS_MPS:
        check.fail(f"{key}.unit", "m/s, km/h or mph", unit)
    speed_mps = number_of(check, item.get("max"), f"{key}.max") * SPEEDS_MPS[unit]
    return check.speed(speed_mps, f"{key}.max", item.get("max"))


def _kind_of_signal(item: Element) -> int | None:
    kind = item.get("type", "")
    if kind in STOPS:
        return STOP_SIGN
    if kind in YIELDS:
        return YIELD_SIGN
    return TRAFFIC_LIGHT if item.get("dynamic") == "yes" and kind != WALKERS else None


def _corners(
    check: Checker,
    item: Element,
    key: str,
    line: Line,
    origin: Floats,
    heading: float,
    at: dict[str, Any],
) -> Floats:
    """Return the corners of an object, (n, 3)."""
    outline = next((found for found in item.iter("outline")), None)
    local: list[tuple[float, float, float]] = []
    for number, corner in enumerate(outline if outline is not None else ()):
        where = f"{key}.outline.{corner.tag[:40]}[{number}]"
        if corner.tag == "cornerLocal":
            u, v, z = (number_of(check, corner.get(n), f"{where}.{n}", 0.0) for n in "uvz")
            local.append((u, v, z))
        elif corner.tag == "cornerRoad":
            s, t, dz = (
                number_of(check, corner.get(n), f"{where}.{n}", 0.0) for n in ("s", "t", "dz")
            )
            place, _ = line.place(s, t)
            offset = place - origin
            cos, sin = math.cos(heading), math.sin(heading)
            local.append(
                (
                    float(cos * offset[0] + sin * offset[1]),
                    float(cos * offset[1] - sin * offset[0]),
                    float(offset[2]) + dz,
                )
            )
    if not local:
        u, v = at["length"] / 2, at["width"] / 2
        local = [(u, v, 0.0), (u, -v, 0.0), (-u, -v, 0.0), (-u, v, 0.0)]
    turn = np.array(
        [[math.cos(heading), math.sin(heading)], [-math.sin(heading), math.cos(heading)]]
    )
    corners = np.array(local)
    corners[:, :2] = corners[:, :2] @ turn
    return corners + origin
