# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Shapes of the parts of a scene that never move, and of its lights, in the scene's coordinates.

The parts are roads, paint, edges, areas and signs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.render.tracks import Roads
from drive_env.scenes.packed import STATE_COLOUR
from drive_env.scenes.schema import CONTROL_KINDS, GREEN, RED, YELLOW, Floats
from puffervec.contract.drawing import Circle, Line, Polygon, Shape

YELLOW_KINDS = frozenset((9, 10, 11, 12, 13))  # by map_element_id
BROKEN_KINDS = frozenset((6, 9, 10))
ROAD_M, SIGN_M = 4.6, 0.8  # width of the surface under a lane, radius of a light or sign
# Widths of lane centres, paint, kerbs and stop lines
LANE_M, LINE_M, EDGE_M, STOP_M = 0.12, 0.25, 0.35, 0.45
DASH_M = 2.0, 2.0
# Number of a sign's corners, and its rotation
CORNERS = {"stop sign": (8, math.pi / 8), "yield sign": (3, math.pi / 6)}
_SHOWS = {RED: "red light", YELLOW: "yellow light", GREEN: "green light"}
_LIGHT = CONTROL_KINDS.index("traffic_light")

Arrays = dict[str, NDArray[Any]]
Point = tuple[float, float]


def ground_of(roads: Roads, dashed: bool = False) -> list[Shape]:
    """Return surface, areas, lane centres, paint and edges, from back to front.

    Args:
        dashed: draw broken lines as dashes, which takes many shapes.
    """
    shapes: list[Shape] = [Line(_points(points), ROAD_M, role="road") for points in roads.lanes]
    shapes += [Polygon(_points(points), role=name) for name, points in roads.areas]
    shapes += [Line(_points(points), LANE_M, role="lane") for points in roads.lanes]
    for kind, points in roads.lines:
        parts = dashes(points, *DASH_M) if dashed and kind in BROKEN_KINDS else [_points(points)]
        shapes += [
            Line(part, LINE_M, role="yellow line" if kind in YELLOW_KINDS else "white line")
            for part in parts
        ]
    return [*shapes, *(Line(_points(points), EDGE_M, role="kerb") for _, points in roads.edges)]


def dashes(points: Floats, on_m: float, off_m: float) -> list[list[Point]]:
    """Return the painted pieces of a broken line along points (n, 2)."""
    points = (
        points[np.concatenate([[True], (np.diff(points, axis=0) != 0).any(axis=1)])]
        if len(points)
        else points
    )
    if len(points) < 2:
        return []
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])
    pieces = []
    for start in np.arange(0.0, along[-1], on_m + off_m).tolist():
        end = min(start + on_m, float(along[-1]))
        at = np.concatenate([[start], along[(along > start) & (along < end)], [end]])
        pieces.append(
            _points(np.stack([np.interp(at, along, points[:, axis]) for axis in (0, 1)], axis=-1))
        )
    return pieces


def sign_of(role: str, place: Point, radius: float, name: str = "") -> list[Shape]:
    """Return a light as a circle, a stop sign as an octagon, a yield sign as a triangle.

    The triangle stands on its tip.
    """
    if role not in CORNERS:
        return [Circle(*place, radius, role=role, name=name)]
    count, turn = CORNERS[role]
    angles = (turn + 2 * math.pi * corner / count for corner in range(count))
    return [
        Polygon(
            [(place[0] + radius * math.cos(a), place[1] + radius * math.sin(a)) for a in angles],
            role=role,
            name=name,
        )
    ]


def signs_of(arrays: Arrays) -> Iterator[Shape]:
    """Yield the stop and yield signs of a compiled scene, each with its stop line."""
    for control in arrays["controls"]:
        if int(control["kind"]) != _LIGHT:
            yield from _control(control, role_in(control, arrays, 0), "")


def lights_of(arrays: Arrays, frame: int) -> Iterator[Shape]:
    """Yield the traffic lights of a compiled scene, each with its stop line.

    Their colours are those of a frame.
    """
    for number, control in enumerate(arrays["controls"]):
        if int(control["kind"]) == _LIGHT:
            yield from _control(control, role_in(control, arrays, frame), f"light {number}")


def _control(control: Any, role: str, name: str) -> Iterator[Shape]:
    ends = [(float(control[f"line_x{end}_m"]), float(control[f"line_y{end}_m"])) for end in (0, 1)]
    if ends[0] != ends[1]:
        yield Line(ends, STOP_M, role=role, name=name and f"stop line of {name}")
    yield from sign_of(role, (float(control["x_m"]), float(control["y_m"])), SIGN_M, name)


def role_in(control: Any, arrays: Arrays, frame: int) -> str:
    """Return the role of a control of a compiled scene in a frame.

    A control keeps its last recorded state.
    """
    at = int(control["states"]) + min(frame, int(control["state_count"]) - 1)
    return signal_of(int(control["kind"]), int(arrays["states"][at]))


def signal_of(kind: int, state: int) -> str:
    """Return the name in LIGHTS or SIGNS of a control.

    Args:
        kind: index into CONTROL_KINDS.
        state: the state that it shows.
    """
    if kind == _LIGHT:
        return _SHOWS.get(state & STATE_COLOUR, "light that is off")
    return CONTROL_KINDS[kind].replace("_", " ")


def _points(points: Floats | Sequence[Point]) -> list[Point]:
    return [(float(x), float(y)) for x, y in points]
