# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Computes the bounds of the lanes of an OpenDRIVE road, through the parser of py123d.

Of py123d it imports only what needs NumPy, SciPy, Shapely and pyquaternion. Runs in the learner and
in helper processes.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from drive_env.scenes.check import COORDINATE_LIMIT_M, MAX_POINTS, MISSING, Checker
from drive_env.scenes.schema import Floats
from drive_env.scenes.xml_parts import child_of, number_of
from puffervec.system import extras

STEP_M = 1.0  # largest distance between two points of a bound along the reference line
MAX_LANES = 200  # on one side of a section: bounds are computed one from the other
LEAST_M = 1e-9  # shorter pieces of a reference line, and shorter sections, are skipped
UNREAD = ("access", "height", "material", "rule")  # children of lanes


def require_parser(name: str) -> None:
    """Check that py123d and what its parser imports are installed.

    Args:
        name: name of the file.

    Raises:
        MissingExtraError: something is missing.
    """
    with extras.required(f"{name}, an OpenDRIVE map,", "opendrive"):
        import py123d.parser.opendrive.utils.lane_helper  # noqa: F401


@dataclass(frozen=True)
class LaneBounds:
    """The bounds of a lane in a section, in the direction of the reference line, both (n, 3)."""

    id: int
    kind: str
    element: Element
    inner_m: Floats
    outer_m: Floats
    predecessor: int | None
    successor: int | None


@dataclass(frozen=True)
class Section:
    """A piece of a road with the same lanes.

    Attributes:
        s_m: distances of the points of all bounds along the reference line, (n,).
        center: the element of lane 0.
    """

    begin_m: float
    s_m: Floats
    lanes: tuple[LaneBounds, ...]
    center: Element | None


class Line:
    """A reference line; it maps distances along and across a road to places.

    Args:
        plan: XODRPlanView.
        heights: rows of s, a, b, c, d.
    """

    def __init__(self, plan: Any, heights: Floats) -> None:
        self.plan = plan
        self.pieces = heights[np.argsort(heights[:, 0], kind="stable")]

    def heights(self, s_m: Floats) -> Floats:
        """Return the heights of the reference line, (n,)."""
        if not len(self.pieces):
            return np.zeros(len(s_m))
        at = np.maximum(np.searchsorted(self.pieces[:, 0], s_m, side="right") - 1, 0)
        begin, a, b, c, d = self.pieces[at].T
        ds = s_m - begin
        return np.asarray(a + ds * (b + ds * (c + ds * d)))

    def place(self, s: float, t: float) -> tuple[Floats, float]:
        """Return a place, (3,), and the heading of the reference line there.

        Args:
            s: metres along the line, clamped to its ends.
            t: metres to the left of it.
        """
        along = np.array([min(max(s, 0.0), self.plan.length)])
        ((x, y, heading),) = self.plan.interpolate_se2_batch(
            along, np.array([t]), np.array([False])
        )
        return np.array([x, y, float(self.heights(along)[0])]), float(heading)


def sections_of(
    check: Checker, road: Element, left_out: Counter[str]
) -> tuple[Line, list[Section]]:
    """Return the reference line of a road and its sections, in their order.

    Args:
        left_out: receives counts of what is not read.

    Raises:
        SceneError: an element is missing or wrong.
        ValueError and others: py123d cannot read an element.
    """
    from py123d.parser.opendrive.utils.lane_helper import lane_section_to_lane_helpers
    from py123d.parser.opendrive.xodr_parser.lane import XODRLaneOffset, XODRLanes
    from py123d.parser.opendrive.xodr_parser.reference import XODRPlanView, XODRReferenceLine

    geometries = [
        made
        for number, item in enumerate(child_of(check, road, "planView", "").findall("geometry"))
        if (made := _geometry(check, item, f"planView.geometry[{number}]")) is not None
    ]
    length_m = number_of(check, road.get("length"), "length")
    plan = XODRPlanView(geometries)
    for key, value in (("length", length_m), ("planView", float(plan.length))):
        if not 0.0 < value <= COORDINATE_LIMIT_M:
            check.fail(key, f"a length of at most {COORDINATE_LIMIT_M:g} m", value)
    line = Line(plan, _heights(check, road))
    for item in road.findall("lateralProfile/*"):
        if any(number_of(check, item.get(name), item.tag, 0.0) for name in "abcd"):
            left_out[f"elements {item.tag[:40]}"] += 1
    element = child_of(check, road, "lanes", "")
    lanes = XODRLanes.parse(element)
    if not lanes.lane_offsets:
        lanes.lane_offsets.append(XODRLaneOffset(s=0.0, a=0.0, b=0.0, c=0.0, d=0.0))
    reference = XODRReferenceLine.from_plan_view(plan, lanes.lane_offsets, [])
    elements = sorted(element.findall("laneSection"), key=lambda item: float(item.get("s", "nan")))
    ends = [section.s for section in lanes.lane_sections[1:]] + [min(length_m, float(plan.length))]
    _check_points(check, lanes.lane_sections, ends)
    sections = []
    for number, (section, item, end) in enumerate(
        zip(lanes.lane_sections, elements, ends, strict=True)
    ):
        if end - section.s < LEAST_M:
            left_out["lane sections without length"] += 1
            continue
        key = f"laneSection[{number}]"
        by_id = {int(lane.get("id", "")): lane for lane in item.iter("lane")}
        for lane in (*section.left_lanes, *section.right_lanes):
            if not lane.widths:
                check.fail(
                    f"{key}.lane[{lane.id}].width", "a width (borders are not read)", MISSING
                )
        s_m = np.linspace(section.s, end, _count(end - section.s))
        helpers = lane_section_to_lane_helpers(
            str(number), section, reference, section.s, end, [], STEP_M
        )
        bounds = [
            _bounds(check, helper, by_id[helper.open_drive_lane.id], s_m, line, key)
            for helper in helpers.values()
        ]
        for bound in bounds:
            for tag in UNREAD:
                left_out[f"{tag} of lanes"] += len(bound.element.findall(tag))
        sections.append(Section(section.s, s_m, tuple(bounds), by_id.get(0)))
    return line, sections


def _count(length_m: float) -> int:
    return max(2, math.ceil(length_m / STEP_M) + 1)


def _check_points(check: Checker, sections: list[Any], ends: list[float]) -> None:
    """Refuse roads with too many lanes or points, before they are computed."""
    points = 0
    for number, (section, end) in enumerate(zip(sections, ends, strict=True)):
        lanes = max(len(section.left_lanes), len(section.right_lanes))
        check.limit(lanes, MAX_LANES, f"laneSection[{number}]", "lanes on a side")
        if not abs(section.s) <= COORDINATE_LIMIT_M:
            check.fail(f"laneSection[{number}].s", "a distance along the road", section.s)
        points += 2 * lanes * _count(max(0.0, end - section.s))
    check.limit(points, MAX_POINTS, "lanes", "points")


def _bounds(
    check: Checker, helper: Any, element: Element, s_m: Floats, line: Line, key: str
) -> LaneBounds:
    """Return the bounds of a lane; heights are those of the reference line."""
    lane = helper.open_drive_lane
    along, across = s_m - s_m[0], np.zeros(len(s_m))
    last = np.arange(len(s_m)) == len(s_m) - 1
    sides = []
    for side, s in (
        (helper.inner_boundary, along + helper.s_inner_offset),
        (helper.outer_boundary, along),
    ):
        points = np.zeros((len(s_m), 3))
        points[:, :2] = side.interpolate_se2_batch(s, across, last)[:, :2]
        points[:, 2] = line.heights(s_m)
        name = f"{key}.lane[{lane.id}]"
        check.within(points, COORDINATE_LIMIT_M, lambda at, axis, name=name: f"{name}[{at}]")
        sides.append(points)
    return LaneBounds(
        lane.id, str(lane.type), element, sides[0], sides[1], lane.predecessor, lane.successor
    )


def _heights(check: Checker, road: Element) -> Floats:
    """Return the pieces of the elevation profile, (n, 5)."""
    rows = [
        [number_of(check, item.get(name), f"elevation[{at}].{name}", 0.0) for name in "sabcd"]
        for at, item in enumerate(road.findall("elevationProfile/elevation"))
    ]
    return np.array(rows).reshape(-1, 5)


# ---- geometries ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParamPoly:
    """A cubic curve with the methods of XODRGeometry; py123d has no such class.

    Attributes:
        u, v: coefficients along and across the heading at its start, constants first.
        normalized: whether the parameter runs from 0 to 1 instead of to the length.
    """

    s: float
    x: float
    y: float
    hdg: float
    length: float
    u: tuple[float, ...]
    v: tuple[float, ...]
    normalized: bool

    def interpolate_se2_batch(self, s: Floats, t: Floats) -> Floats:
        """Return places and headings, (n, 3), s along the curve and t to the left of it."""
        p = s / self.length if self.normalized else s
        u, v = (np.polynomial.polynomial.polyval(p, each) for each in (self.u, self.v))
        du, dv = (
            np.polynomial.polynomial.polyval(p, np.polynomial.polynomial.polyder(each))
            for each in (self.u, self.v)
        )
        heading = self.hdg + np.arctan2(dv, du)
        cos, sin = math.cos(self.hdg), math.sin(self.hdg)
        x = self.x + cos * u - sin * v - t * np.sin(heading)
        y = self.y + sin * u + cos * v + t * np.cos(heading)
        return np.stack([x, y, heading], axis=-1)


def _geometry(check: Checker, item: Element, key: str) -> Any:
    """Return a piece of a reference line; None if it has no length."""
    from py123d.parser.opendrive.xodr_parser.geometry import XODRArc, XODRLine, XODRSpiral

    base = {
        name: number_of(check, item.get(name), f"{key}.{name}")
        for name in ("s", "x", "y", "hdg", "length")
    }
    length_m = base["length"]
    if not 0.0 <= length_m <= COORDINATE_LIMIT_M:
        check.fail(f"{key}.length", f"a length of at most {COORDINATE_LIMIT_M:g} m", length_m)
    if length_m < LEAST_M:
        return None
    shape = next((child for child in item if child.tag != "userData"), item)

    def value(name: str, default: float | None = None) -> float:
        return number_of(check, shape.get(name), f"{key}.{shape.tag[:40]}.{name}", default)

    curvature = end = 0.0
    if shape.tag == "arc":
        curvature = end = value("curvature")
    elif shape.tag == "spiral":
        curvature, end = value("curvStart"), value("curvEnd")
    elif shape.tag == "paramPoly3":
        u, v = (tuple(value(f"{name}{axis}", 0.0) for name in "abcd") for axis in "UV")
        return ParamPoly(**base, u=u, v=v, normalized=shape.get("pRange") != "arcLength")
    elif shape.tag != "line":
        check.fail(key, "a line, arc, spiral or paramPoly3", shape.tag)
    if abs(end - curvature) / length_m >= 1e-10:
        return XODRSpiral(**base, curvature_start=curvature, curvature_end=end)
    return XODRArc(**base, curvature=curvature) if abs(curvature) > 1e-12 else XODRLine(**base)
