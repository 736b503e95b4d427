# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What of a scene never moves, as shapes: roads, paint, edges, areas, signs; and its lights. Places are those of the scene."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from drive_env.render.recording import roads_of, shown_in
from drive_env.render.render import AREAS, LANE_WIDTH_M, SIGNS, YELLOW_KINDS
from drive_env.scenes.schema import CONTROL_KINDS
from puffervec.drawing import Circle, Line, Polygon, Shape

# Roles, with the colours of the page's legend.
GROUND = {
    "road": "#dfe1e4", **AREAS, "lane": "#b9bec6", "white line": "#9aa1ab", "yellow line": "#e0b33c", "kerb": "#5b6068",
    **SIGNS,
}  # fmt: skip
SIGN_M = 0.8  # radius of a light or sign
LINE_M, EDGE_M, STOP_M = 0.2, 0.35, 0.45  # widths of paint, kerbs and stop lines
_LIGHT = CONTROL_KINDS.index("traffic_light")

Arrays = dict[str, NDArray[Any]]


def ground_of(head: Any, arrays: Arrays) -> list[Shape]:
    """All that never moves, from back to front."""
    roads = roads_of(arrays, head["segment_count"])
    shapes: list[Shape] = [Line(_points(points), LANE_WIDTH_M, role="road") for points in roads.lanes]
    shapes += [Polygon(_points(points), role=name) for name, points in roads.areas]
    shapes += [Line(_points(points), 0.12, role="lane") for points in roads.lanes]
    for kind, points in roads.lines:
        shapes.append(Line(_points(points), LINE_M, role="yellow line" if kind in YELLOW_KINDS else "white line"))
    shapes += [Line(_points(points), EDGE_M, role="kerb") for _, points in roads.edges]
    return [*shapes, *signs_of(arrays)]


def signs_of(arrays: Arrays) -> Iterator[Shape]:
    """Stop and yield signs, each with its stop line."""
    for control in arrays["controls"]:
        if int(control["kind"]) != _LIGHT:
            yield from _control(control, shown_in(control, arrays, 0), "")


def lights_of(arrays: Arrays, frame: int) -> Iterator[Shape]:
    """Traffic lights in the colours of a frame, each with its stop line."""
    for number, control in enumerate(arrays["controls"]):
        if int(control["kind"]) == _LIGHT:
            yield from _control(control, shown_in(control, arrays, frame), f"light {number}")


def _control(control: Any, role: str, name: str) -> Iterator[Shape]:
    ends = [(float(control[f"line_x{end}_m"]), float(control[f"line_y{end}_m"])) for end in (0, 1)]
    if ends[0] != ends[1]:
        yield Line(ends, STOP_M, role=role, name=name and f"stop line of {name}")
    yield Circle(float(control["x_m"]), float(control["y_m"]), SIGN_M, role=role, name=name)


def _points(points: NDArray[Any]) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in points]
