# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Links of generated streets whose cross-section changes: a lane that ends, a ramp that joins.

Runs in the learner (drive_env.generate.network). Lanes, lines and kerbs lie at distances from the
middle that vary along it.
"""

from __future__ import annotations

import numpy as np

from drive_env.generate.layouts import BOUNDARY, BROKEN_WHITE, DOUBLE_YELLOW, EDGE, LINE
from drive_env.generate.network import Link, Middle, Streets
from drive_env.scenes.schema import Floats

TAPER_M, BESIDE_M, GORE_M = 45.0, 45.0, 2.0


def ease(where: Floats, begin_m: float, end_m: float) -> Floats:
    """Return 0 before one arc length, 1 after another, and a smooth curve between."""
    share = np.clip((where - begin_m) / (end_m - begin_m), 0.0, 1.0)
    return np.asarray(share**3 * (10 - 15 * share + 6 * share**2))


def lane_drop(streets: Streets, number: int, link: Link, middle: Middle) -> None:
    """Add a link whose outermost lane ends between its first node and its last.

    In the other direction that lane begins. `link.narrow` has one lane less each way.
    """
    wide, narrow = link.profile, link.narrow
    assert narrow is not None and narrow.lanes == wide.lanes - 1
    where = middle.where_m
    begin = float(where[-1]) * 0.5
    change = ease(where, begin, begin + TAPER_M)
    last = wide.lanes - 1
    for way, from_node, to_node in ((1, link.first, link.last), (-1, link.last, link.first)):
        for lane in range(wide.lanes):
            target = min(lane, last - 1)
            d = wide.lane_offset_m(lane) + change * (
                narrow.lane_offset_m(target) - wide.lane_offset_m(lane)
            )
            points = middle.beside(-way * d)[::way]
            start, end = (from_node, number, "out", lane), (to_node, number, "in", lane)
            if way == 1:
                streets.add_lane(
                    points, start, (to_node, number, "in", target), rank=5 - (lane == last)
                )
            else:
                streets.add_lane(points, (from_node, number, "out", target), end, rank=5)
    add_sides(streets, middle, wide.edge_m + change * (narrow.edge_m - wide.edge_m))
    streets.add(LINE, DOUBLE_YELLOW, middle.points_m)
    until = where <= begin + 0.4 * TAPER_M
    for side in (-1, 1):
        for lane in range(1, wide.lanes):
            line = middle.beside(side * lane * wide.width_m)
            streets.add(LINE, BROKEN_WHITE, line[until] if lane == last else line)


def add_sides(streets: Streets, middle: Middle, d: Floats) -> None:
    """Add both kerbs and the pavements behind them."""
    for side in (-1, 1):
        streets.add(EDGE, BOUNDARY, middle.beside(side * d)[::-side])
        streets.walks.append(middle.beside(side * (d + 1.6)))


def on_ramp(streets: Streets, number: int, link: Link, middle: Middle) -> None:
    """Add a link that a ramp joins from the right.

    The ramp runs next to the outermost lane for a while, then merges into it.
    """
    profile = link.profile
    where = middle.where_m
    outer, last = profile.lane_offset_m(profile.lanes - 1), profile.lanes - 1
    beside = 0.35 * float(where[-1])
    joined = beside + BESIDE_M + TAPER_M
    away = 26.0 * (1.0 - ease(where, 0.0, beside)) ** 1.0
    ramp = outer + profile.width_m * (1.0 - ease(where, beside + BESIDE_M, joined)) + away
    cut = int(np.searchsorted(where, joined))
    for way, from_node, to_node in ((1, link.first, link.last), (-1, link.last, link.first)):
        for lane in range(profile.lanes):
            points = middle.beside(-way * profile.lane_offset_m(lane))[::way]
            shifts = ((profile.width_m,) if lane > 0 else ()) + (
                (-profile.width_m,) if lane < last else ()
            )
            start, end = (from_node, number, "out", lane), (to_node, number, "in", lane)
            if way == 1 and lane == last:
                streets.add_lane(points[: cut + 1], start, (link.last, number, "merge", 0), rank=5)
                streets.add_lane(points[cut:], (link.last, number, "merge", 0), end, rank=5)
            else:
                streets.add_lane(points, start, end, shifts_m=shifts if way == -1 else (), rank=5)
    streets.add_lane(
        middle.beside(-ramp)[: cut + 1],
        (link.first, number, "ramp", 0),
        (link.last, number, "merge", 0),
        rank=3,
    )
    streets.add(EDGE, BOUNDARY, middle.beside(profile.edge_m)[::-1])
    half = profile.width_m / 2
    gore = int(np.argmax(away < GORE_M + profile.shoulder_m))
    beginning = middle.beside(-profile.edge_m)[:gore]
    island = middle.beside(-(ramp - half - 0.5))[:gore]
    streets.add(EDGE, BOUNDARY, np.concatenate([beginning, island[::-1]]))
    streets.add(
        EDGE, BOUNDARY, middle.beside(-np.maximum(ramp + half + profile.shoulder_m, profile.edge_m))
    )
    streets.add(LINE, DOUBLE_YELLOW, middle.points_m)
    for side in (-1, 1):
        for lane in range(1, profile.lanes):
            streets.add(LINE, BROKEN_WHITE, middle.beside(side * lane * profile.width_m))
    streets.add(LINE, BROKEN_WHITE, middle.beside(-profile.outer_m)[gore:cut])
