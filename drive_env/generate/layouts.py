# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Road layouts for generated scenes: roads, crossings, and the trips that cars make on them.

Runs in the learner (drive_env.generate.generate). Traffic keeps right. A layout is drawn from a
numpy Generator in a frame whose origin is the middle of the road or crossing; generate.py rotates
and moves it. Headings are counter-clockwise from +x; lengths are in metres. Left of a direction
(dx, dy) is (-dy, dx).

        arm 1 (side road)         D_i: where an arm ends and the crossing begins.
            |  ' |                Incoming lanes lie left of the arm's outward direction,
   ---------+    +---------       outgoing lanes right of it.
    arm 2   '    '    arm 0
   ---------+    +---------       the corner between arm i and the next one counter-clockwise
            |  ' |                is what a car coming in on arm i rounds when it turns right
        arm 3 (side road)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from drive_env.generate import exact
from drive_env.scenes.schema import Floats

STEP_M = 0.5  # spacing of generated polylines, as in the real data
LANE, LINE, EDGE = "lane", "road_line", "road_edge"
SURFACE_STREET, BROKEN_WHITE, SOLID_WHITE, DOUBLE_YELLOW, BROKEN_YELLOW = 2, 6, 7, 12, 9
BOUNDARY, MEDIAN, STOP_SIGN, CROSSWALK = 15, 16, 17, 18
Spans = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Ranges:
    """Ranges from which layouts and traffic are drawn; those of the held-out scenes are wider."""

    lane_width_m: tuple[float, float] = (3.4, 3.9)
    shoulder_m: tuple[float, float] = (1.0, 2.0)
    median_m: tuple[float, float] = (1.6, 3.0)
    max_lanes: int = 2
    radius_m: tuple[float, float] = (28.0, 90.0)  # of curves
    skew_rad: float = 0.17  # of the arms of a crossing
    corner_m: tuple[float, float] = (6.0, 9.0)  # radius of kerbs
    arm_m: tuple[float, float] = (75.0, 100.0)
    road_m: tuple[float, float] = (150.0, 210.0)
    speed_mps: tuple[float, float] = (7.0, 13.0)  # speeds that drivers aim for
    cars: tuple[int, int] = (5, 13)


@dataclass(frozen=True)
class Trip:
    """A path through a layout: the line of a car's centre, and what the car may do on it."""

    path_m: Floats  # (n, 2), about STEP_M apart
    turn: str  # "straight", "left" or "right"
    major: bool  # has priority at the crossing
    start_m: tuple[float, float]  # arc lengths between which a car may start
    pass_m: float  # arc length that the car should pass, so that the log shows its turn
    shift_spans_m: Spans  # arc lengths between which the car may change lanes
    # Lateral offsets of the neighbouring lanes of the same direction, left positive
    shifts_m: tuple[float, ...]
    pace: float = 1.0  # share of the speed that drivers aim for elsewhere


@dataclass(frozen=True)
class Piece:
    """One map element in the layout's own frame."""

    type: str
    map_element_id: int
    points_m: Floats  # (n, 2)


@dataclass
class Layout:
    """Map elements, trips and parking places of one road or crossing."""

    family: str
    pieces: list[Piece] = field(default_factory=list)
    trips: list[Trip] = field(default_factory=list)
    # x, y, heading of places at the kerb
    parking: list[tuple[float, float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Profile:
    """Cross-section of a road with n lanes each way.

    From the middle outwards it has median/2, lanes, parking strip, and shoulder.
    """

    lanes: int
    width_m: float
    median_m: float
    shoulder_m: float
    parking_m: float  # width of the parking strip, 0: none

    def lane_offset_m(self, lane: int) -> float:
        """Return the distance of a lane's centre from the road's middle; lane 0 is innermost."""
        return self.median_m / 2 + (lane + 0.5) * self.width_m

    @property
    def outer_m(self) -> float:
        """Return the distance of the outermost lane's outer boundary from the middle."""
        return self.median_m / 2 + self.lanes * self.width_m

    @property
    def edge_m(self) -> float:
        """Return the distance of the road edge from the middle."""
        return self.outer_m + self.parking_m + self.shoulder_m


def draw_layout(rng: np.random.Generator, family: str, ranges: Ranges) -> Layout:
    """Draw a layout of a family: "straight", "curve", "tee" or "cross"."""
    if family in ("straight", "curve"):
        return draw_road(rng, ranges, curved=family == "curve")
    return draw_crossing(rng, ranges, arms=3 if family == "tee" else 4)


def draw_lanes(rng: np.random.Generator, ranges: Ranges) -> int:
    """Draw the number of lanes each way.

    A third of the roads has one; on the others cars can change lanes.
    """
    return 1 if rng.random() < 1 / 3 else int(rng.integers(2, ranges.max_lanes + 1))


def draw_profile(rng: np.random.Generator, ranges: Ranges, lanes: int) -> Profile:
    """Draw a cross-section with a number of lanes each way."""
    median_m = rng.uniform(*ranges.median_m) if lanes > 1 and rng.random() < 0.25 else 0.0
    parking_m = 2.4 if lanes == 1 and rng.random() < 0.45 else 0.0
    return Profile(
        lanes,
        rng.uniform(*ranges.lane_width_m),
        median_m,
        rng.uniform(*ranges.shoulder_m),
        parking_m,
    )


def draw_road(rng: np.random.Generator, ranges: Ranges, curved: bool) -> Layout:
    """Draw a two-way road without crossings, straight or with one or two bends."""
    layout = Layout("curve" if curved else "straight")
    profile = draw_profile(rng, ranges, draw_lanes(rng, ranges))
    length_m = rng.uniform(*ranges.road_m)
    middle = (
        bent_line(rng, length_m, max(ranges.radius_m[0], profile.edge_m + 8.0), ranges.radius_m[1])
        if curved
        else None
    )
    if middle is None:
        middle = line(np.array([-length_m / 2, 0.0]), np.array([length_m / 2, 0.0]))
    add_cross_section(layout, middle, profile, rng)
    for way in (1.0, -1.0):
        for lane in range(profile.lanes):
            path = offset(middle, -way * profile.lane_offset_m(lane))[:: int(way)]
            shifts = neighbour_shifts(profile, lane)
            span = (10.0, arc_length(path)[-1] - 10.0)
            layout.trips.append(
                Trip(path, "straight", True, (6.0, 0.65 * length_m), 0.0, (span,), shifts)
            )
    return layout


def draw_crossing(rng: np.random.Generator, ranges: Ranges, arms: int) -> Layout:
    """Draw a crossing of a major road (arms 0 and 2) with a side road (arm 1, or arms 1 and 3)."""
    layout = Layout("tee" if arms == 3 else "cross")
    angles = np.arange(arms) * (np.pi / 2) + rng.uniform(-ranges.skew_rad, ranges.skew_rad, arms)
    major = draw_profile(rng, ranges, draw_lanes(rng, ranges))
    side = draw_profile(rng, ranges, 1 if rng.random() < 0.5 else draw_lanes(rng, ranges))
    profiles = [major if index % 2 == 0 else side for index in range(arms)]
    directions = exact.ahead_of(angles)
    lengths = rng.uniform(*ranges.arm_m, arms)
    following = [(i, (i + 1) % arms) for i in range(arms)]
    corners = [
        corner_of(
            directions[i], directions[j], profiles[i], profiles[j], rng.uniform(*ranges.corner_m)
        )
        for i, j in following
    ]
    # An arm begins where both of its kerbs are straight; a side without a corner does not count.
    mouths = [1.0 + max(corners[i][0], corners[i - 1][1], 4.0) for i in range(arms)]
    for i, j in following:
        add_kerb(layout, (i, j), directions, profiles, corners, mouths, lengths)
        add_arm(layout, directions[i], profiles[i], mouths[i], lengths[i], rng)
        if i % 2 == 1:
            sign = directions[i] * (mouths[i] + 1.0) + left_of(directions[i]) * (
                profiles[i].edge_m + 0.5
            )
            layout.pieces.append(Piece("stop_sign", STOP_SIGN, sign[None]))
    for i in range(arms):
        for j in range(arms):
            if i != j:
                add_turns(layout, (i, j), directions, profiles, corners, mouths, lengths)
    return layout


def add_cross_section(
    layout: Layout, middle: Floats, profile: Profile, rng: np.random.Generator
) -> None:
    """Add lanes, lines, edges and parking places of a two-way road along a middle line."""
    add_lanes(layout, middle, profile)
    for side in (-1.0, 1.0):
        layout.pieces.append(Piece(EDGE, BOUNDARY, offset(middle, side * profile.edge_m)))
    add_markings(layout, middle, profile, rng)


def add_lanes(layout: Layout, middle: Floats, profile: Profile) -> None:
    """Add the lanes of both directions."""
    for lane in range(profile.lanes):
        d = profile.lane_offset_m(lane)
        layout.pieces.append(Piece(LANE, SURFACE_STREET, offset(middle, -d)))
        layout.pieces.append(Piece(LANE, SURFACE_STREET, offset(middle, d)[::-1]))


def add_markings(
    layout: Layout, middle: Floats, profile: Profile, rng: np.random.Generator
) -> None:
    """Add painted lines, median and parking places along the middle line of a road.

    The middle line of an arm runs outwards.
    """
    if profile.median_m > 0:
        kerb = profile.median_m / 2 - 0.3
        left, right = offset(middle, kerb), offset(middle, -kerb)[::-1]
        layout.pieces.append(Piece(EDGE, MEDIAN, np.concatenate([left, right, left[:1]])))
    else:
        layout.pieces.append(
            Piece(LINE, DOUBLE_YELLOW if profile.lanes > 1 else BROKEN_YELLOW, middle)
        )
    for side in (-1.0, 1.0):
        for lane in range(1, profile.lanes):
            d = side * (profile.median_m / 2 + lane * profile.width_m)
            layout.pieces.append(Piece(LINE, BROKEN_WHITE, offset(middle, d)))
        layout.pieces.append(Piece(LINE, SOLID_WHITE, offset(middle, side * profile.outer_m)))
        if profile.parking_m > 0:
            strip = offset(middle, side * (profile.outer_m + profile.parking_m / 2 + 0.1))[
                :: -int(side)
            ]
            where, heading = arc_length(strip), headings_of(strip)
            for at in np.arange(12.0 + rng.uniform(0.0, 6.0), where[-1] - 6.0, 7.0):
                index = int(np.searchsorted(where, at))
                layout.parking.append(
                    (float(strip[index, 0]), float(strip[index, 1]), float(heading[index]))
                )


def add_arm(
    layout: Layout,
    direction: Floats,
    profile: Profile,
    mouth_m: float,
    length_m: float,
    rng: np.random.Generator,
) -> None:
    """Add lanes, lines and crosswalk of one arm, from the crossing outwards.

    `add_kerb` adds its edges.
    """
    middle = line(direction * mouth_m, direction * length_m)
    add_lanes(layout, middle, profile)
    add_markings(layout, middle, profile, rng)
    if rng.random() < 0.5:
        side, across = left_of(direction), direction * 3.0
        near = direction * (mouth_m - 3.5)
        corners = [near + side * profile.edge_m, near - side * profile.edge_m]
        layout.pieces.append(
            Piece(
                "crosswalk",
                CROSSWALK,
                np.array([*corners, corners[1] + across, corners[0] + across]),
            )
        )


def corner_of(
    here: Floats, there: Floats, profile: Profile, other: Profile, radius_m: float
) -> tuple[float, float, float]:
    """Return where the kerb between an arm and the next begins to bend.

    Returns:
        Arc lengths along both arms, and the radius; (0, 0, 0) if the arms are roughly opposite, so
            that there is no corner.
    """
    angle = angle_between(here, there) % (2 * np.pi)
    if angle > np.radians(150):
        return (0.0, 0.0, 0.0)
    start, other_start = left_of(here) * profile.edge_m, -left_of(there) * other.edge_m
    gap = other_start - start
    along = cross(gap, there) / cross(here, there)
    other_along = cross(gap, here) / cross(here, there)
    tangent = radius_m / exact.tan(angle / 2)
    return (float(along + tangent), float(other_along + tangent), radius_m)


def add_kerb(
    layout: Layout, arms: tuple[int, int], directions: Floats, profiles: list[Profile],
    corners: list[tuple[float, float, float]], mouths: list[float], lengths: Floats,
) -> None:  # fmt: skip
    """Add the road edge from the end of an arm, round the corner, to the end of the next arm."""
    i, j = arms
    here, there, corner = directions[i], directions[j], corners[i]
    bends = (corner[0], corner[1]) if corner[2] > 0 else (mouths[i], mouths[j])
    side, other_side = left_of(here) * profiles[i].edge_m, -left_of(there) * profiles[j].edge_m
    first, last = side + here * bends[0], other_side + there * bends[1]
    bend = turn_curve(first, -here, last, there)
    outer, far = line(side + here * lengths[i], first), line(last, other_side + there * lengths[j])
    layout.pieces.append(Piece(EDGE, BOUNDARY, np.concatenate([outer, bend[1:-1], far])))


def turn_of(
    here: Floats, there: Floats, profile: Profile, other: Profile
) -> tuple[str, list[tuple[int, int]]]:
    """Return how cars go from one arm to another, and the lanes that they take on both.

    Left turns join the innermost lanes, right turns the outermost ones.
    """
    angle = angle_between(-here, there)
    turn = "straight" if abs(angle) < np.radians(40) else "left" if angle > 0 else "right"
    pairs = {"left": [(0, 0)], "right": [(profile.lanes - 1, other.lanes - 1)]}
    return turn, pairs.get(turn, [(n, n) for n in range(min(profile.lanes, other.lanes))])


def bends_of(
    turn: str, corner: tuple[float, float, float], mouths_m: tuple[float, float]
) -> tuple[float, float]:
    """Return where the curve of a turn begins and ends on both arms."""
    return corner[:2] if turn == "right" and corner[2] > 0 else mouths_m


def add_turns(
    layout: Layout, arms: tuple[int, int], directions: Floats, profiles: list[Profile],
    corners: list[tuple[float, float, float]], mouths: list[float], lengths: Floats,
) -> None:  # fmt: skip
    """Add connecting lanes and trips from one arm to another."""
    i, j = arms
    here, there, profile, other = directions[i], directions[j], profiles[i], profiles[j]
    turn, lanes = turn_of(here, there, profile, other)
    bends = bends_of(turn, corners[i], (mouths[i], mouths[j]))
    for lane, other_lane in lanes:
        side = left_of(here) * profile.lane_offset_m(lane)
        other_side = -left_of(there) * other.lane_offset_m(other_lane)
        first, last = side + here * bends[0], other_side + there * bends[1]
        bend = turn_curve(first, -here, last, there)
        parts = (
            [side + here * mouths[i], *bend, other_side + there * mouths[j]]
            if turn == "right"
            else list(bend)
        )
        layout.pieces.append(Piece(LANE, SURFACE_STREET, np.array(parts)))
        coming, leaving = (
            line(side + here * lengths[i], first),
            line(last, other_side + there * lengths[j]),
        )
        path = np.concatenate([coming, bend[1:-1], leaving])
        entry, leave = arc_length(coming)[-1], arc_length(np.concatenate([coming, bend[1:]]))[-1]
        spans: Spans = (
            ((8.0, entry - 8.0), (leave + 4.0, arc_length(path)[-1] - 8.0))
            if turn == "straight"
            else ()
        )
        trip = Trip(
            path,
            turn,
            i % 2 == 0,
            (4.0, entry - 3.0),
            leave + 3.0,
            spans,
            neighbour_shifts(profile, lane),
        )
        layout.trips.append(trip)


def neighbour_shifts(profile: Profile, lane: int) -> tuple[float, ...]:
    """Return lateral offsets from a lane to its neighbours, left positive.

    The inner neighbour is to the left.
    """
    shifts = [profile.width_m] if lane > 0 else []
    return (*shifts, -profile.width_m) if lane < profile.lanes - 1 else tuple(shifts)


def bent_line(
    rng: np.random.Generator, length_m: float, smallest_m: float, largest_m: float
) -> Floats:
    """Return a line with one bend or two opposite bends, centred on the origin.

    Its curvature is continuous.
    """
    count = round(length_m / STEP_M)
    share = np.linspace(0.0, 1.0, count + 1)
    bends = [(0.5, 1.0)] if rng.random() < 0.6 else [(0.27, 1.0), (0.73, -1.0)]
    side = rng.choice([-1.0, 1.0])
    curvature = np.zeros(count + 1)
    for middle, sign in bends:
        half = 0.36 / len(bends)
        radius_m = rng.uniform(smallest_m, largest_m)
        # No bend turns by more than about 120 degrees, so that the road does not cross itself.
        strength = min(1.0 / radius_m, 2.1 / (1.2 * half * length_m))
        ramp = np.clip((half - np.abs(share - middle)) / (0.6 * half), 0.0, 1.0)
        curvature += side * sign * strength * ramp * ramp * (3 - 2 * ramp)
    heading = np.concatenate([[0.0], np.cumsum((curvature[1:] + curvature[:-1]) / 2 * STEP_M)])
    steps = STEP_M * exact.ahead_of(heading)
    points = np.concatenate([np.zeros((1, 2)), np.cumsum((steps[1:] + steps[:-1]) / 2, axis=0)])
    return np.asarray(points - points[count // 2])


def turn_curve(first: Floats, leaving: Floats, last: Floats, arriving: Floats) -> Floats:
    """Return a cubic curve from one point and direction to another.

    Its control points make a quarter turn nearly circular.
    """
    chord = float(exact.hypot(*(last - first)))
    cosine = float(np.clip(exact.dot(leaving, arriving), -1.0, 1.0))
    # For a circular arc of angle a, handle / chord is 4/3 tan(a/4) / (2 sin(a/2)), which tends to
    # 1/3 for small a.
    angle = float(exact.arccos(cosine))
    handle = chord * (
        4 / 3 * exact.tan(angle / 4) / (2 * exact.sin(angle / 2)) if angle > 1e-3 else 1 / 3
    )
    t = np.linspace(0.0, 1.0, max(4, round(1.1 * chord / STEP_M)))[:, None]
    controls = (first, first + handle * leaving, last - handle * arriving, last)
    u = 1 - t
    weights = (u * u * u, 3 * t * u * u, 3 * t * t * u, t * t * t)
    return np.asarray(
        sum(weight * control for weight, control in zip(weights, controls, strict=True))
    )


def line(first: Floats, last: Floats) -> Floats:
    """Return points from one end to the other, about STEP_M apart, including both ends."""
    return np.linspace(first, last, max(2, round(float(exact.hypot(*(last - first))) / STEP_M) + 1))


def offset(points_m: Floats, left_m: float) -> Floats:
    """Return the parallel line at a distance to the left (negative: right)."""
    heading = headings_of(points_m)
    return np.asarray(points_m + left_m * exact.left_of(heading))


def headings_of(points_m: Floats) -> Floats:
    """Return the directions of a polyline at its points, (n,) radians, unwrapped."""
    steps = np.gradient(points_m, axis=0)
    return np.asarray(np.unwrap(exact.arctan2(steps[:, 1], steps[:, 0])))


def arc_length(points_m: Floats) -> Floats:
    """Return the arc length at each point of a polyline, (n,) metres, from 0."""
    return np.concatenate([[0.0], np.cumsum(exact.hypot(*np.diff(points_m, axis=0).T))])


def left_of(direction: Floats) -> Floats:
    """Return the direction turned left by 90 degrees."""
    return np.array([-direction[1], direction[0]])


def angle_between(here: Floats, there: Floats) -> float:
    """Return the angle from one direction to another, counter-clockwise, -pi to pi."""
    return float(exact.arctan2(cross(here, there), exact.dot(here, there)))


def cross(a: Floats, b: Floats) -> float:
    """Return the z component of the cross product of two plane vectors."""
    return float(a[0] * b[1] - a[1] * b[0])
