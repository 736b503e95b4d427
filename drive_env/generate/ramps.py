# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Links of generated streets with special shapes: a lane that ends, ramps, motorways.

Runs in the learner (drive_env.generate.network). The distances of lanes, lines and kerbs from
the middle line vary along it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drive_env.generate import exact
from drive_env.generate.layouts import (
    BOUNDARY,
    BROKEN_WHITE,
    DOUBLE_YELLOW,
    EDGE,
    LINE,
    MEDIAN,
    SOLID_WHITE,
    Profile,
)
from drive_env.generate.network import Link, Middle, Streets
from drive_env.scenes.schema import Floats

FREEWAY = 1  # `Road.map_element_id` of lanes of motorways
TAPER_M, BESIDE_M, GORE_M = 45.0, 45.0, 2.0


def ease(where: Floats, begin_m: float, end_m: float) -> Floats:
    """Return 0 before one arc length, 1 after another, and a smooth curve between."""
    share = np.clip((where - begin_m) / (end_m - begin_m), 0.0, 1.0)
    return np.asarray(exact.smooth_step(share))


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
    away = 26.0 * (1.0 - ease(where, 0.0, beside))
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


# ---- motorways -----------------------------------------------------------------------------------

# From the start of an entry: how long it approaches, runs alongside, and merges
APPROACH_M, ALONGSIDE_M, MERGE_M = 150.0, 60.0, 60.0
ASIDE_M = 26.0  # how far from the road a ramp begins
RAMP_SLOW = 0.75  # speed on a ramp, relative to that on the road


@dataclass(frozen=True)
class Ramp:
    """A ramp to the right of a carriageway.

    Attributes:
        offset_m: (n,) distance of its middle from that of the road.
        aside: (n,) whether it is so far away that there is a kerb between the two.
        on: (n,) whether it exists there.
    """

    offset_m: Floats
    aside: NDArray[np.bool_]
    on: NDArray[np.bool_]


def motorway(
    streets: Streets,
    number: int,
    link: Link,
    middle: Middle,
    entries: tuple[bool, bool] = (False, False),
    exits: tuple[bool, bool] = (False, False),
) -> None:
    """Add a link of two carriageways with a median.

    Args:
        streets, number, link, middle: as for every shape of a link.
        entries: whether a ramp joins the carriageway from the first node, and whether one joins the
            opposite carriageway.
        exits: the same for ramps that leave.
    """
    back = Middle(middle.points_m[::-1])
    ways = ((middle, link.first, link.last), (back, link.last, link.first))
    for (line, from_node, to_node), joins, leaves in zip(ways, entries, exits, strict=True):
        where = line.where_m
        entry = ramp_along(where, link.profile) if joins else None
        leave = ramp_along(where[-1] - where, link.profile) if leaves else None
        add_carriageway(streets, number, link, line, (from_node, to_node), (entry, leave))
        add_carriageway_sides(streets, link.profile, line, (entry, leave))


def ramp_along(where_m: Floats, profile: Profile) -> Ramp:
    """Return an entry ramp; for an exit, `where_m` counts from the end of the road backwards."""
    alongside = APPROACH_M + ALONGSIDE_M
    away = ASIDE_M * (1.0 - ease(where_m, 0.0, APPROACH_M))
    beside = profile.width_m * (1.0 - ease(where_m, alongside, alongside + MERGE_M))
    offset = profile.lane_offset_m(profile.lanes - 1) + beside + away
    return Ramp(offset, away > GORE_M + profile.shoulder_m, where_m <= alongside + MERGE_M)


def add_carriageway(
    streets: Streets, number: int, link: Link, line: Middle,
    nodes: tuple[int, int], ramps: tuple[Ramp | None, Ramp | None],
) -> None:  # fmt: skip
    """Add the lanes of one direction, and those of its ramps.

    All lanes are cut where a ramp joins or leaves, so that neighbours are of equal length.
    """
    profile, (from_node, to_node), (entry, leave) = link.profile, nodes, ramps
    last, limit = profile.lanes - 1, link.limit_mps
    cuts: list[tuple[int, int, str]] = [(0, from_node, "out")]
    if entry is not None:
        joined = int(entry.on.sum())
        cuts.append((joined, to_node, "merge"))
        streets.add_lane(
            line.beside(-entry.offset_m)[: joined + 1], (from_node, number, "ramp", 0),
            (to_node, number, "merge", last), element=FREEWAY, rank=3, slow=RAMP_SLOW,
            limit_mps=RAMP_SLOW * limit,
        )  # fmt: skip
    if leave is not None:
        parts = int(np.argmax(leave.on)) - 1
        cuts.append((parts, to_node, "split"))
        streets.add_lane(
            line.beside(-leave.offset_m)[parts:], (to_node, number, "split", last),
            (to_node, number, "leave", 0), element=FREEWAY, rank=5, limit_mps=RAMP_SLOW * limit,
        )  # fmt: skip
    cuts.append((len(line.points_m) - 1, to_node, "in"))
    for lane in range(profile.lanes):
        points = line.beside(-profile.lane_offset_m(lane))
        shifts = ((profile.width_m,) if lane > 0 else ()) + (
            (-profile.width_m,) if lane < last else ()
        )
        for (begin, node, name), (end, other, after) in itertools.pairwise(cuts):
            streets.add_lane(
                points[begin : end + 1], (node, number, name, lane), (other, number, after, lane),
                element=FREEWAY, shifts_m=shifts, slow=link.slow, limit_mps=limit, rank=5,
            )  # fmt: skip


def add_carriageway_sides(
    streets: Streets, profile: Profile, line: Middle, ramps: tuple[Ramp | None, Ramp | None]
) -> None:
    """Add the kerbs and the painted lines of one direction and its ramps."""
    count, half = len(line.points_m), profile.width_m / 2
    outside = np.full(count, profile.edge_m)
    joint = np.zeros(count, dtype=np.bool_)  # a ramp lies next to the outermost lane
    streets.add(EDGE, MEDIAN, line.beside(-(profile.median_m / 2 - 0.3))[::-1])
    for ramp, begins in zip(ramps, (True, False), strict=True):
        if ramp is None:
            continue
        beyond = np.maximum(profile.edge_m, ramp.offset_m + half + profile.shoulder_m)
        outside = np.where(ramp.on, beyond, outside)
        joint |= ramp.on & ~ramp.aside
        road = line.beside(-profile.edge_m)[ramp.aside]
        island = line.beside(-(ramp.offset_m - half - 0.5))[ramp.aside][::-1]
        # Along the road to the nose of the island and back, or from the ramp round it to the road
        streets.add(EDGE, BOUNDARY, np.concatenate([road, island] if begins else [island, road]))
    streets.add(EDGE, BOUNDARY, line.beside(-outside))
    for lane in range(1, profile.lanes):
        inner = profile.median_m / 2 + lane * profile.width_m
        streets.add(LINE, BROKEN_WHITE, line.beside(-inner))
    border = line.beside(-profile.outer_m)
    ends = np.flatnonzero(np.diff(joint)) + 1
    for begin, end in itertools.pairwise([0, *ends.tolist(), count]):
        kind = BROKEN_WHITE if joint[begin] else SOLID_WHITE
        streets.add(LINE, kind, border[begin : end + 1])
