# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A plain parser of OpenDRIVE roads, which stands in for py123d's where that is not installed: of
straight pieces and arcs, with lanes of constant width and no offset.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from drive_env.scenes.check import Checker
from drive_env.scenes.schema import Floats
from drive_env.scenes.xodr_lines import LaneBounds, Line, Section, _heights


class Plan:
    """A reference line; its rows are s, x, y, heading, length and curvature."""

    def __init__(self, geometries: list[Element]) -> None:
        self.rows = [
            (
                *(float(item.get(name, "")) for name in ("s", "x", "y", "hdg", "length")),
                sum(float(arc.get("curvature", "")) for arc in item.iter("arc")),
            )
            for item in geometries
        ]
        self.length = sum(row[4] for row in self.rows)

    def interpolate_se2_batch(self, s_m: Floats, t_m: Floats, last: Any) -> Floats:
        """Return places and headings, (n, 3)."""
        poses = []
        for s, t in zip(s_m.tolist(), t_m.tolist(), strict=True):
            begin, x, y, heading, _, bend = [row for row in self.rows if row[0] <= s + 1e-9][-1]
            turn, chord = bend * (s - begin), s - begin
            if turn:
                chord *= math.sin(turn / 2) / (turn / 2)
            x += chord * math.cos(heading + turn / 2) - t * math.sin(heading + turn)
            y += chord * math.sin(heading + turn / 2) + t * math.cos(heading + turn)
            poses.append((x, y, heading + turn))
        return np.array(poses)


def sections_of(
    check: Checker, road: Element, left_out: Counter[str]
) -> tuple[Line, list[Section]]:
    """Return what the function of this name in drive_env/scenes/xodr_lines.py returns."""
    plan = Plan(road.findall("planView/geometry"))
    line = Line(plan, _heights(check, road))
    elements = sorted(road.findall("lanes/laneSection"), key=lambda item: float(item.get("s", "")))
    begins = [float(item.get("s", "")) for item in elements]
    sections = []
    for element, begin, end in zip(elements, begins, [*begins[1:], plan.length], strict=True):
        s = np.linspace(begin, end, math.ceil(end - begin) + 1)

        def bound(t: float, s: Floats = s) -> Floats:
            places = plan.interpolate_se2_batch(s, np.full(len(s), t), None)
            return np.column_stack([places[:, :2], line.heights(s)])

        lanes = []
        for side, sign in (("left", 1.0), ("right", -1.0)):
            t = 0.0
            for item in sorted(
                element.findall(f"{side}/lane"), key=lambda item: abs(int(item.get("id", "")))
            ):
                width = item.find("width")
                inner = bound(t)
                t += sign * float(width.get("a", "")) if width is not None else 0.0
                ends = [item.find(f"link/{name}") for name in ("predecessor", "successor")]
                before, after = (None if one is None else int(one.get("id", "")) for one in ends)
                own_id, kind = int(item.get("id", "")), item.get("type", "")
                lanes.append(LaneBounds(own_id, kind, item, inner, bound(t), before, after))
        sections.append(Section(begin, s, tuple(lanes), element.find("center/lane")))
    return line, sections
