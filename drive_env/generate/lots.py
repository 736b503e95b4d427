# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Generates parking lots beside a street: trips that leave the lanes, tight turns, kerbs all round.

    +-------------------------------+
    |     | row of stalls     |     |
    |cross|___________________|cross|   Aisles run between rows of stalls, from one cross aisle to
    |aisle       aisle         aisle|   the other. Driveways lead from cross aisles to the street.
    |      ___________________      |   Half of the lots have no lanes, as in many real scenes, and
    |     | row of stalls     |     |   no lane leads into a stall.
    +-   -+-------------------+-   -+
     drive                     drive
    ================================= street

Scene i depends only on (seed, i, wide). Cars are planned as in the small scenes (traffic.py), so
logs keep clear of each other and of kerbs. Runs in the learner or in its helper processes.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass

import numpy as np

from drive_env.generate import exact
from drive_env.generate.generate import checked, key_of, plan_tree
from drive_env.generate.layouts import (
    BOUNDARY,
    BROKEN_YELLOW,
    EDGE,
    LANE,
    LINE,
    MEDIAN,
    SURFACE_STREET,
    Layout,
    Piece,
    Ranges,
    Trip,
    arc_length,
    line,
    turn_curve,
)
from drive_env.scenes.schema import Floats, Scene

LOTS_VERSION = 1  # raise it when seeds give different scenes; part of the cache key
STREET_M = 100.0  # half the length of the street
TRIPS = 40  # trips to choose from
KEPT_FREE = 0.25  # share of the stalls that trips may begin or end in
END_M = 1.0  # from where a car stops to the end of its line (see traffic.choose_profile)
NARROW = Ranges(speed_mps=(7.0, 12.0), cars=(5, 12))
WIDE = Ranges(speed_mps=(5.5, 14.0), cars=(5, 16))


def lot_scene(seed: int, index: int, wide: bool = False) -> Scene:
    """Generate one scene.

    Args:
        seed, index: 0 or more.
        wide: draw from wider ranges.

    Raises:
        SceneError: seed or index is negative.
    """
    ranges = WIDE if wide else NARROW
    name = f"{'held' if wide else 'gen'}-lot-{seed}-{index:04d}.json"
    draw = functools.partial(draw_lot, ranges=ranges)
    return checked(plan_tree(key_of(seed, index, wide), draw, ranges, name))


@dataclass(frozen=True)
class Lot:
    """Measures of a parking lot, whose middle is the origin; the street is below it.

    Attributes:
        half_m: Half the length of the rows, and half the depth of all rows and aisles.
        aisle_m, cross_m, stall_m: Widths of aisles and cross aisles; width and depth of a stall.
        aisles_m: y of the middle of each aisle.
        columns_m: x of the middle of the left and of the right cross aisle.
        driveways: Which of these lead to the street.
        kerb_m: y of the near kerb of the street.
        lane_m: Width of the street's two lanes.
    """

    half_m: tuple[float, float]
    aisle_m: float
    cross_m: float
    stall_m: tuple[float, float]
    aisles_m: tuple[float, ...]
    columns_m: tuple[float, float]
    driveways: tuple[int, ...]
    kerb_m: float
    lane_m: float

    @property
    def middle_m(self) -> float:
        """Return the y of the middle line of the street."""
        return self.kerb_m - self.lane_m - 0.5

    @property
    def stalls_m(self) -> list[tuple[float, float, int, int]]:
        """Return x and y of each stall, its aisle, and its side of it (-1: below, 1: above)."""
        width, depth = self.stall_m
        count = int((2 * self.half_m[0] - 5.0) / width)
        return [
            ((number - (count - 1) / 2) * width, y + side * (self.aisle_m + depth) / 2, aisle, side)
            for aisle, y in enumerate(self.aisles_m)
            for side in (-1, 1)
            for number in range(count)
        ]


def draw_lot(rng: np.random.Generator, ranges: Ranges) -> Layout:
    """Draw a parking lot with a street, trips and occupied stalls."""
    lot = _draw_measures(rng, 5 if ranges is WIDE else 4)
    layout = Layout("lot")
    _add_street(layout, lot)
    _add_kerbs(layout, lot, float(rng.uniform(1.5, 4.0)))
    _add_islands(layout, lot, rng)
    if rng.random() < 0.5:
        _add_lanes(layout, lot)
    stalls = lot.stalls_m
    free = [stalls[index] for index in np.flatnonzero(rng.random(len(stalls)) < KEPT_FREE)]
    for stall in stalls:
        if stall not in free:
            layout.parking.append((*stall[:2], float(rng.choice([-0.5, 0.5])) * np.pi))
    layout.trips += [trip for _ in range(TRIPS) if (trip := _draw_trip(rng, lot, free))]
    return layout


def _draw_measures(rng: np.random.Generator, most: int) -> Lot:
    """Draw the measures of a lot with fewer than `most` aisles."""
    aisle_m, cross_m = (float(rng.uniform(6.2, 8.0)) for _ in range(2))
    stall_m = float(rng.uniform(2.5, 2.9)), float(rng.uniform(4.9, 5.7))
    count = int(rng.integers(1, most))
    pitch_m = aisle_m + 2 * stall_m[1]
    half_m = float(rng.uniform(14.0, 38.0)), count * pitch_m / 2
    both = rng.random() < 0.4
    return Lot(
        half_m=half_m,
        aisle_m=aisle_m,
        cross_m=cross_m,
        stall_m=stall_m,
        aisles_m=tuple(-half_m[1] + (number + 0.5) * pitch_m for number in range(count)),
        columns_m=(-half_m[0] - cross_m / 2, half_m[0] + cross_m / 2),
        driveways=(0, 1) if both else (int(rng.integers(2)),),
        kerb_m=-half_m[1] - float(rng.uniform(2.0, 9.0)),
        lane_m=float(rng.uniform(3.3, 3.9)),
    )


# ---- the map -------------------------------------------------------------------------------------


def _add_street(layout: Layout, lot: Lot) -> None:
    """Add the lanes, the middle line and the far kerb of the street."""
    ends = np.array([-STREET_M, 0.0]), np.array([STREET_M, 0.0])

    def along(y: float) -> Floats:
        return line(*(end + [0.0, y] for end in ends))

    layout.pieces += [
        Piece(LANE, SURFACE_STREET, along(lot.middle_m - lot.lane_m / 2)),
        Piece(LANE, SURFACE_STREET, along(lot.middle_m + lot.lane_m / 2)[::-1]),
        Piece(LINE, BROKEN_YELLOW, along(lot.middle_m)),
        Piece(EDGE, BOUNDARY, along(lot.middle_m - lot.lane_m - 0.5)),
    ]


def _add_kerbs(layout: Layout, lot: Lot, corner_m: float) -> None:
    """Add the kerb around the lot, which turns into driveways and the street's near kerb."""
    (half_x, half_y), cross_m, street_y = lot.half_m, lot.cross_m, lot.kerb_m
    right = half_x + cross_m
    mouths = [
        (lot.columns_m[side] - cross_m / 2, lot.columns_m[side] + cross_m / 2)
        for side in lot.driveways
    ]

    def mouth(x: float, way: int) -> list[tuple[float, float]]:
        """Return one side of a driveway, from the lot around the corner to the left or right."""
        y = min(street_y + corner_m, -half_y)
        bend = turn_curve(
            np.array([x, y]),
            np.array([0.0, -1.0]),
            np.array([x + way * (y - street_y), street_y]),
            np.array([float(way), 0.0]),
        )
        return [(x, -half_y), *map(tuple, bend.tolist())]

    around = [
        (-STREET_M, street_y),
        *mouth(mouths[0][0], -1)[::-1],
        (-right, -half_y),
        (-right, half_y),
        (right, half_y),
        (right, -half_y),
        *mouth(mouths[-1][1], 1),
        (STREET_M, street_y),
    ]
    layout.pieces.append(Piece(EDGE, BOUNDARY, _dense(around[::-1])))
    if len(mouths) == 2:
        left, beyond = mouths[0][1], mouths[1][0]
        verge = [*mouth(left, 1), *mouth(beyond, -1)[::-1], (left, -half_y)]
        layout.pieces.append(Piece(EDGE, BOUNDARY, _dense(verge[::-1])))


def _add_islands(layout: Layout, lot: Lot, rng: np.random.Generator) -> None:
    """Add kerbs at the ends of rows, and between some rows that are back to back."""
    half_x, depth = lot.half_m[0], lot.stall_m[1]
    for aisle, y in enumerate(lot.aisles_m):
        for side in (-1, 1):
            near = y + side * (lot.aisle_m / 2 + 0.3)
            far = near + side * (depth - 0.4)
            for end in (-1, 1):
                if rng.random() < 0.6:
                    out = end * half_x
                    layout.pieces.append(_box(out - end * rng.uniform(1.2, 2.2), near, out, far))
        if aisle and rng.random() < 0.3:
            back = y - lot.aisle_m / 2 - depth
            layout.pieces.append(_box(-half_x + 2.5, back - 0.2, half_x - 2.5, back + 0.2))


def _box(x0: float, y0: float, x1: float, y1: float) -> Piece:
    """Return the kerb around a box, clockwise: the road is to the left of every kerb."""
    (left, right), (low, high) = sorted((x0, x1)), sorted((y0, y1))
    corners = [(left, low), (left, high), (right, high), (right, low), (left, low)]
    return Piece(EDGE, MEDIAN, _dense(corners))


def _dense(corners: list[tuple[float, float]]) -> Floats:
    """Return a polyline through corners, with points about half a metre apart."""
    points = [np.array(corner, dtype=np.float64) for corner in corners]
    pieces = [
        line(a, b)[:-1]
        for a, b in zip(points[:-1], points[1:], strict=True)
        if exact.hypot(*(b - a)) > 1e-6
    ]
    return np.concatenate([*pieces, points[-1][None]])


def _add_lanes(layout: Layout, lot: Lot) -> None:
    """Add a lane for each direction of aisles, cross aisles and driveways."""
    shift, (left, right) = lot.aisle_m / 4, lot.columns_m
    runs = [((left, y), (right, y)) for y in lot.aisles_m]
    for side, x in enumerate(lot.columns_m):
        low = lot.kerb_m if side in lot.driveways else -lot.half_m[1]
        runs.append(((x, low), (x, lot.half_m[1])))
    for first, last in runs:
        ends = np.array(first), np.array(last)
        ahead = ends[1] - ends[0]
        aside = shift * np.array([ahead[1], -ahead[0]]) / exact.hypot(*ahead)
        layout.pieces.append(Piece(LANE, SURFACE_STREET, line(ends[0] + aside, ends[1] + aside)))
        layout.pieces.append(Piece(LANE, SURFACE_STREET, line(ends[1] - aside, ends[0] - aside)))


# ---- trips ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leg:
    """A straight part of a trip, along x or y, beside a middle line.

    Attributes:
        axis: 0: along x, 1: along y.
        at_m: The other coordinate of the middle line.
        way: 1 or -1: the direction of travel along the axis.
        right_m: Distance of the leg to the right of the middle line.
    """

    axis: int
    at_m: float
    way: int
    right_m: float

    @property
    def place_m(self) -> float:
        """Return the other coordinate of the line that is driven."""
        right = -self.way if self.axis == 0 else self.way
        return self.at_m + right * self.right_m


def _draw_trip(
    rng: np.random.Generator, lot: Lot, free: list[tuple[float, float, int, int]]
) -> Trip | None:
    """Draw a trip along the street, into or out of the lot, or within it; None if it is short."""
    kind = rng.choice(["street", "enter", "leave", "within"], p=[0.1, 0.3, 0.3, 0.3])
    if kind == "street":
        way = int(rng.choice([-1, 1]))
        leg = Leg(0, lot.middle_m, way, lot.lane_m / 2)
        path, _ = _path([leg], -way * STREET_M, way * STREET_M, 6.0)
        return Trip(path, "straight", False, (4.0, 1.3 * STREET_M), 0.0, (), ())
    keep = float(rng.uniform(0.8, 1.6))  # how far to the right cars keep
    side = int(rng.choice(lot.driveways)) if kind != "within" else int(rng.integers(2))
    legs, begin = _legs_inside(rng, lot, free, side, keep)
    if kind == "within":
        other, end = _legs_inside(rng, lot, free, side, keep)
        if abs(legs[0].at_m - other[0].at_m) < lot.aisle_m:
            return None  # the same aisle
        way = 1 if other[0].at_m > legs[0].at_m else -1
        legs = [*_reversed(legs), Leg(1, lot.columns_m[side], way, keep), *other]
    else:
        way = int(rng.choice([-1, 1]))
        street = Leg(0, lot.middle_m, way, lot.lane_m / 2)
        end, begin = begin, lot.columns_m[side] - way * float(rng.uniform(12.0, 35.0))
        legs = [street, Leg(1, lot.columns_m[side], 1, keep), *legs]
        if kind == "leave":
            legs, begin, end = _reversed(legs), end, begin
    path, turns = _path(legs, begin, end, float(rng.uniform(5.0, 7.0)))
    if arc_length(path)[-1] < 25.0:
        return None
    # A car starts at most a few seconds before a turn, which its log should show.
    turn_m = turns[int(rng.integers(len(turns)))]
    pace = float(rng.uniform(0.45, 0.8))
    return Trip(path, "straight", False, (1.0, turn_m - 2.0), turn_m + 2.0, (), (), pace)


def _legs_inside(
    rng: np.random.Generator,
    lot: Lot,
    free: list[tuple[float, float, int, int]],
    side: int,
    keep_m: float,
) -> tuple[list[Leg], float]:
    """Return the legs from a cross aisle to a place in an aisle, or to a stall, and their end."""
    way = 1 if side == 0 else -1
    if free and rng.random() < 0.6:
        x, y, aisle, above = free[int(rng.integers(len(free)))]
        # A car swings out before it turns into a stall: it keeps to the other side of the aisle.
        far = lot.aisles_m[aisle] - above * (lot.aisle_m / 2 - 1.3)
        return [Leg(0, far, way, 0.0), Leg(1, x, above, 0.0)], y + above * END_M
    aisle = int(rng.integers(len(lot.aisles_m)))
    return [Leg(0, lot.aisles_m[aisle], way, keep_m)], float(rng.uniform(-0.8, 0.8) * lot.half_m[0])


def _reversed(legs: list[Leg]) -> list[Leg]:
    """Return the legs of the way back; cars keep to the right on it, too."""
    return [dataclasses.replace(leg, way=-leg.way) for leg in reversed(legs)]


def _path(
    legs: list[Leg], begin_m: float, end_m: float, radius_m: float
) -> tuple[Floats, list[float]]:
    """Return the line of a trip, with rounded corners, and the arc lengths of their middles."""

    def point(leg: Leg, along_m: float) -> Floats:
        return np.array([along_m, leg.place_m] if leg.axis == 0 else [leg.place_m, along_m])

    corners = [point(legs[0], begin_m)]
    corners += [point(leg, after.place_m) for leg, after in zip(legs[:-1], legs[1:], strict=True)]
    corners.append(point(legs[-1], end_m))
    lengths = [float(exact.hypot(*(b - a))) for a, b in zip(corners[:-1], corners[1:], strict=True)]
    parts, turns, at, driven_m = [], [], corners[0], 0.0
    for number, corner in enumerate(corners[1:-1], 1):
        before, after = lengths[number - 1], lengths[number]
        cut = min(radius_m, before / 2, after / 2)
        arriving = (corner - corners[number - 1]) / max(before, 1e-9)
        leaving = (corners[number + 1] - corner) / max(after, 1e-9)
        first, last = corner - cut * arriving, corner + cut * leaving
        bend = turn_curve(first, arriving, last, leaving)
        parts += [line(at, first)[:-1], bend[:-1]]
        driven_m += float(exact.hypot(*(first - at)))
        turns.append(driven_m + float(arc_length(bend)[-1]) / 2)
        driven_m += float(arc_length(bend)[-1])
        at = last
    return np.concatenate([*parts, line(at, corners[-1])]), turns
