# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Plans cars for generated scenes: each follows a trip and yields to cars planned before it.

Runs in the learner (drive_env.generate.generate). Cars are planned one after another, those with
priority first. For a new car, `blocked_cells` returns at which times and arc lengths of its path it
would touch a planned car. Of some hundred speed profiles (cruise, brake and continue, stop and
wait) the one that loses least time without contact is chosen, which makes cars yield and follow. If
all of them are blocked, the car is left out.

A path has continuous curvature k, and the heading differs from its tangent by the slip angle
asin(k * wheelbase / 2), as with the env's bicycle model (csrc/drive/motion/dynamics.c) when the
car's centre follows the path.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drive_env.generate import exact
from drive_env.generate.layouts import STEP_M, Layout, Ranges, Trip, arc_length, headings_of
from drive_env.scenes.geometry import box_crosses_segment, boxes_overlap, simplify
from drive_env.scenes.schema import FRAME_S, Floats

FRAMES = 91
LAST_FRAMES = (40, 64)  # range of the last frame of a trip to the goal
WHEELBASE_FACTOR = 0.6  # the env's default
LATERAL_MPS2 = 2.4  # comfortable in bends
BRAKE_MPS2 = 2.5  # before bends
PICK_UP_MPS2 = 1.8  # acceleration after braking
SMOOTH_M = 1.5  # standard deviation of the filter that makes curvature continuous
EDGE_MARGIN_M = 0.3  # distance of logs from road edges; above the bound of simplification
CAR_MARGIN_M = 0.15  # distance of logs from other cars
AHEAD_M, BEHIND_M, BESIDE_M = 2.5, 0.8, 0.25  # least gap between planned cars
SAMPLE_M = 1.0  # sampling distance of the path in `blocked_cells`
SAMPLE_FRAMES = 2
PARKED = "parked"  # Car.turn of cars that stand at the kerb


@dataclass(frozen=True)
class Car:
    """One planned car: its size and its log over all frames.

    Poses outside frames [first, last] are meaningless.
    """

    length_m: float
    width_m: float
    height_m: float
    x_m: Floats  # (FRAMES,)
    y_m: Floats
    heading_rad: Floats
    vx_mps: Floats
    vy_mps: Floats
    first: int
    last: int
    expert: bool
    turn: str

    @property
    def displacement_m(self) -> float:
        """Return the distance from the first to the last pose."""
        return float(
            exact.hypot(
                self.x_m[self.last] - self.x_m[self.first],
                self.y_m[self.last] - self.y_m[self.first],
            )
        )


@dataclass(frozen=True)
class Path:
    """A trip's line with smooth curvature, sampled every STEP_M."""

    points_m: Floats  # (n, 2)
    tangent_rad: Floats  # (n,) unwrapped
    curvature: Floats  # (n,) 1/m, left positive
    offset_m: float  # arc length of the trip at which it begins

    @property
    def length_m(self) -> float:
        """Return the arc length from the first to the last sample."""
        return (len(self.points_m) - 1) * STEP_M

    def at(self, s_m: Floats, values: Floats) -> Floats:
        """Interpolate values at the samples to other arc lengths."""
        return np.interp(s_m, np.arange(len(values)) * STEP_M, values)


def plan_cars(rng: np.random.Generator, layout: Layout, ranges: Ranges) -> list[Car]:
    """Plan parked and moving cars of a scene; the moving ones in order of priority."""
    edges = edge_segments(layout)
    cars = parked_cars(rng, layout)
    wanted = int(rng.integers(ranges.cars[0], ranges.cars[1] + 1))
    tries = [draw_trip(rng, layout) for _ in range(3 * wanted + 4)]
    tries.sort(key=lambda trip: (not trip.major, trip.turn == "left"))
    # Dense traffic with priority would leave no room for other cars, so some trips get a random
    # place in the order.
    for index in np.flatnonzero(rng.random(len(tries)) < 0.4):
        tries.insert(int(rng.integers(len(tries))), tries.pop(int(index)))
    moving = 0
    for trip in tries:
        car = plan_car(rng, trip, cars, edges, ranges)
        if car is not None:
            cars.append(car)
            moving += 1
            if moving == wanted:
                break
    return cars


def draw_trip(rng: np.random.Generator, layout: Layout) -> Trip:
    """Pick a trip; turning is as likely as going straight."""
    turns = sorted({trip.turn for trip in layout.trips})
    weights = np.array([{"straight": 0.28, "left": 0.37, "right": 0.35}[turn] for turn in turns])
    turn = turns[int(rng.choice(len(turns), p=weights / weights.sum()))]
    choices = [trip for trip in layout.trips if trip.turn == turn]
    return choices[int(rng.integers(len(choices)))]


def parked_cars(rng: np.random.Generator, layout: Layout) -> list[Car]:
    """Return cars on a share of the parking places."""
    share = rng.uniform(0.1, 0.7)
    cars = []
    for x, y, heading in layout.parking:
        if rng.random() < share:
            length_m, width_m, height_m = (
                rng.uniform(4.2, 5.0),
                rng.uniform(1.75, 1.95),
                rng.uniform(1.4, 1.8),
            )
            zero = np.zeros(FRAMES)
            place = (
                np.full(FRAMES, x),
                np.full(FRAMES, y),
                np.full(FRAMES, heading + rng.normal(0.0, 0.02)),
            )
            cars.append(
                Car(length_m, width_m, height_m, *place, zero, zero, 0, FRAMES - 1, False, PARKED)
            )
    return cars


def plan_car(
    rng: np.random.Generator,
    trip: Trip,
    cars: list[Car],
    edges: tuple[Floats, Floats],
    ranges: Ranges,
) -> Car | None:
    """Plan one moving car; None if every profile is blocked or it would hardly move."""
    length_m, width_m, height_m = draw_size(rng)
    cruise_mps = rng.uniform(*ranges.speed_mps) * (1.0 if trip.major else 0.85) * trip.pace
    # Well before the end, so that a slower driver can still reach the goal.
    last = int(rng.integers(*LAST_FRAMES))
    late = rng.random() < 0.04
    first = int(rng.integers(5, 25)) if late else 0
    low, high = trip.start_m
    if trip.turn != "straight" or trip.pass_m > 0:
        # Close enough to the crossing to pass it within the log.
        low = max(low, high - 0.55 * cruise_mps * (last - first) * FRAME_S)
    start_m = float(rng.uniform(low, max(low + 0.1, high)))
    path = make_path(rng, trip, start_m, cruise_mps)
    if path is None:
        return None
    speed_mps = float(
        np.clip(cruise_mps * rng.uniform(0.35, 1.0), 0.0, speed_limit(path, cruise_mps)[0])
    )
    if not path_is_clear(
        path, length_m, width_m, edges, min(path.length_m, 1.2 * cruise_mps * last * FRAME_S)
    ):
        return None
    stops = blocked_cells(path, length_m, width_m, cars)
    if stops[first // SAMPLE_FRAMES, 0]:
        return None
    s_m = choose_profile(path, speed_mps, cruise_mps, stops, last - first, first)
    if s_m is None:
        return None
    car = car_on_path(
        path, s_m, (length_m, width_m, height_m), first, bool(rng.random() < 0.06), trip.turn
    )
    passed = s_m[-1] + path.offset_m >= trip.pass_m
    if car.displacement_m < 9.0 or (not passed and rng.random() < 0.8) or touches(car, cars):
        return None
    return car


def draw_size(rng: np.random.Generator) -> tuple[float, float, float]:
    """Draw length, width and height of a car, or sometimes of a van."""
    if rng.random() < 0.1:
        return (
            float(rng.uniform(5.4, 6.8)),
            float(rng.uniform(2.0, 2.25)),
            float(rng.uniform(2.0, 2.8)),
        )
    return (
        float(rng.uniform(4.2, 5.1)),
        float(rng.uniform(1.75, 2.05)),
        float(rng.uniform(1.4, 1.8)),
    )


def make_path(
    rng: np.random.Generator, trip: Trip, start_m: float, cruise_mps: float
) -> Path | None:
    """Return the trip from a starting point on, resampled and smoothed; None if it is too short.

    It may contain a lane change.
    """
    points = trip.path_m
    where = arc_length(points)
    if trip.shifts_m and trip.shift_spans_m and rng.random() < 0.7:
        points = change_lane(rng, trip, points, where, start_m, cruise_mps)
        where = arc_length(points)
    # The filter shortens the line by its reach at both ends, so the line is extended at the front
    # first.
    reach_m = 3 * SMOOTH_M
    begin_m = max(0.0, start_m - reach_m)
    even = np.arange(begin_m, where[-1], STEP_M)
    if len(even) < 60:
        return None
    dense = np.stack([np.interp(even, where, points[:, axis]) for axis in (0, 1)], axis=-1)
    half = round(reach_m / STEP_M)
    kernel = exact.exp(-0.5 * (np.arange(-half, half + 1) * STEP_M / SMOOTH_M) ** 2)
    kernel /= kernel.sum()
    smooth = np.stack([exact.filtered(dense[:, axis], kernel) for axis in (0, 1)], axis=-1)
    where = arc_length(smooth)
    even = np.arange(0.0, where[-1], STEP_M)
    smooth = np.stack([np.interp(even, where, smooth[:, axis]) for axis in (0, 1)], axis=-1)
    tangent = headings_of(smooth)
    return Path(smooth, tangent, np.gradient(tangent, STEP_M), begin_m + half * STEP_M)


def change_lane(
    rng: np.random.Generator,
    trip: Trip,
    points: Floats,
    where: Floats,
    start_m: float,
    cruise_mps: float,
) -> Floats:
    """Move the line to a neighbouring lane within one of the spans in which that is allowed.

    The line is unchanged if there is no room.
    """
    length_m = max(22.0, cruise_mps * rng.uniform(2.6, 3.6))
    low, high = trip.shift_spans_m[int(rng.integers(len(trip.shift_spans_m)))]
    low = max(low, start_m + 2.0)
    high = min(high - length_m, start_m + 0.5 * cruise_mps * FRAMES * FRAME_S)
    if high <= low:
        return points
    begin_m = rng.uniform(low, high)
    share = np.clip((where - begin_m) / length_m, 0.0, 1.0)
    shift = trip.shifts_m[int(rng.integers(len(trip.shifts_m)))] * exact.smooth_step(share)
    heading = headings_of(points)
    return np.asarray(points + shift[:, None] * exact.left_of(heading))


def edge_segments(layout: Layout) -> tuple[Floats, Floats]:
    """Return starts and ends of the road edges, (S, 2) each, simplified to 2 cm."""
    edges = [simplify(piece.points_m, 0.02) for piece in layout.pieces if piece.type == "road_edge"]
    return np.concatenate([points[:-1] for points in edges]), np.concatenate(
        [points[1:] for points in edges]
    )


def path_is_clear(
    path: Path, length_m: float, width_m: float, edges: tuple[Floats, Floats], reach_m: float
) -> bool:
    """Return whether a car keeps clear of the road edges along the first reach_m of its path."""
    every = slice(0, min(len(path.points_m), round(reach_m / STEP_M) + 1), round(SAMPLE_M / STEP_M))
    half = (length_m / 2 + EDGE_MARGIN_M, width_m / 2 + EDGE_MARGIN_M)
    heading = body_heading(path, length_m)
    return not box_crosses_segment(path.points_m[every], heading[every], *half, *edges).any()


def body_heading(path: Path, length_m: float) -> Floats:
    """Return the heading of a car whose centre follows the path.

    It is the tangent minus the bicycle model's slip angle.
    """
    slip = exact.arcsin(np.clip(path.curvature * WHEELBASE_FACTOR * length_m / 2, -0.9, 0.9))
    return np.asarray(path.tangent_rad - slip)


def speed_limit(path: Path, cruise_mps: float) -> Floats:
    """Return the highest comfortable speed in bends and before them at each sample, (n,) m/s."""
    limit2 = np.minimum(cruise_mps**2, LATERAL_MPS2 / np.maximum(np.abs(path.curvature), 1e-6))
    # Braking at a constant rate a, v^2 falls by 2 a per metre: from the end backwards, a running
    # minimum of v^2 + 2 a s.
    slope = 2 * BRAKE_MPS2 * STEP_M * np.arange(len(limit2))
    backward = np.minimum.accumulate((limit2 + slope)[::-1])[::-1] - slope
    return np.asarray(np.sqrt(np.maximum(backward, 0.25)))


def blocked_cells(
    path: Path, length_m: float, width_m: float, cars: list[Car]
) -> NDArray[np.bool_]:
    """Return when and where a car on the path would touch one of the cars.

    Returns:
        (frames / SAMPLE_FRAMES, samples) bool.
    """
    stride = round(SAMPLE_M / STEP_M)
    points, heading = path.points_m[::stride], body_heading(path, length_m)[::stride]
    times = np.arange(0, FRAMES, SAMPLE_FRAMES)
    taken = np.zeros((len(times), len(points)), dtype=np.bool_)
    # Its own box reaches farther ahead than behind: shift the centre by half the difference.
    half = (length_m / 2 + (AHEAD_M + BEHIND_M) / 2, width_m / 2 + BESIDE_M)
    ahead = (AHEAD_M - BEHIND_M) / 2 * exact.ahead_of(heading)
    centre = points + ahead
    for group in (cars_of(cars, times, moving=True), cars_of(cars, times[:1], moving=False)):
        x, y, other_heading, there, sizes = group
        reach2 = (exact.hypot(*half) + exact.hypot(*sizes) / 2) ** 2
        near = (x[..., None] - centre[:, 0]) ** 2 + (y[..., None] - centre[:, 1]) ** 2 < reach2[
            :, None
        ]
        car, row, column = np.nonzero(near & there[..., None])
        gap = np.stack([x[car, row] - centre[column, 0], y[car, row] - centre[column, 1]], axis=-1)
        own_half = np.full(1, half[0]), np.full(1, half[1])
        other_half = sizes[0][car, 0] / 2, sizes[1][car, 0] / 2
        overlap = boxes_overlap(gap, heading[column], other_heading[car, row], own_half, other_half)
        if x.shape[1] == 1:
            taken[:, column[overlap]] = True
        else:
            taken[row[overlap], column[overlap]] = True
    return taken


def cars_of(
    cars: list[Car], times: NDArray[np.int64], moving: bool
) -> tuple[Floats, Floats, Floats, NDArray[np.bool_], tuple[Floats, Floats]]:
    """Return x, y, heading, presence (C, times) and sizes (C, 1) of moving or parked cars."""
    chosen = [car for car in cars if (car.turn != PARKED) == moving]
    shape = (len(chosen), len(times))
    x, y, heading = (
        np.array([getattr(car, name)[times] for car in chosen]).reshape(shape)
        for name in ("x_m", "y_m", "heading_rad")
    )
    first, last, length, width = (
        np.array([getattr(car, name) for car in chosen], dtype=np.float64)[:, None]
        for name in ("first", "last", "length_m", "width_m")
    )
    return x, y, heading, (times >= first) & (times <= last), (length, width)


def profiles(cruise_mps: float) -> Floats:
    """Return speed profiles, (M, 6).

    Columns: first speed, time of braking, lower speed, time of accelerating, last speed,
    deceleration.
    """
    rows = [(share * cruise_mps, 99.0, 0.0, 99.0, 0.0, 2.0) for share in (1.0, 0.85, 0.7, 0.55)]
    rows += [
        (cruise_mps, begin, low, begin + hold, cruise_mps, brake)
        for begin in (0.0, 0.6, 1.2, 2.0, 3.0, 4.2)
        for low in (0.0, 2.0, 4.5)
        for hold in (1.5, 2.5, 3.5, 5.0, 9.0)
        for brake in (1.8, 3.2)
    ]
    return np.array(rows)


def choose_profile(
    path: Path,
    speed_mps: float,
    cruise_mps: float,
    taken: NDArray[np.bool_],
    frames: int,
    first: int,
) -> Floats | None:
    """Return the arc length in each frame of the free profile that gets farthest.

    Returns None if all are blocked.

    Args:
        taken: see `blocked_cells`.
        frames: number of steps to plan.
        first: frame in which the car appears.
    """
    table = profiles(cruise_mps)
    before, begin, low, resume, after, brake = table.T
    limit = speed_limit(path, cruise_mps)
    t = FRAME_S * np.arange(frames + 1)[:, None]
    target = np.where(t < begin, before, np.where(t < resume, low, after))
    samples = STEP_M * np.arange(len(limit))
    furthest = path.length_m - 1.0
    s, v = np.zeros(len(table)), np.full(len(table), speed_mps)
    track = np.zeros((frames + 1, len(table)))
    slower, faster = brake * FRAME_S, PICK_UP_MPS2 * FRAME_S
    for frame in range(frames):
        v = np.minimum(np.maximum(target[frame], v - slower), v + faster)
        v = np.minimum(v, np.interp(s + v * FRAME_S, samples, limit))
        s = np.minimum(s + v * FRAME_S, furthest)
        track[frame + 1] = s
    sampled = np.flatnonzero((first + np.arange(frames + 1)) % SAMPLE_FRAMES == 0)
    column = np.minimum(np.rint(track[sampled] / SAMPLE_M).astype(int), taken.shape[1] - 1)
    free = ~taken[((first + sampled) // SAMPLE_FRAMES)[:, None], column].any(axis=0)
    if not free.any():
        return None
    cost = -track[-1] + 0.4 * brake + np.where(free, 0.0, np.inf)
    best = track[:, int(cost.argmin())]
    # A car that reaches the end of its path leaves the scene there.
    arrived = np.flatnonzero(best >= furthest - 1e-6)
    return best[: arrived[0]] if len(arrived) else best


def car_on_path(
    path: Path, s_m: Floats, size_m: tuple[float, float, float], first: int, expert: bool, turn: str
) -> Car:
    """Return the log of a car that is at s_m[i] in frame first + i."""
    last = first + len(s_m) - 1
    all_s = np.interp(np.arange(FRAMES), np.arange(first, last + 1), s_m)
    x, y = path.at(all_s, path.points_m[:, 0]), path.at(all_s, path.points_m[:, 1])
    speed = np.gradient(all_s, FRAME_S)
    # The frame after the last one is not in the log.
    speed[last] = (all_s[last] - all_s[last - 1]) / FRAME_S
    speed[first] = (all_s[first + 1] - all_s[first]) / FRAME_S
    tangent = path.at(all_s, path.tangent_rad)
    heading = path.at(all_s, body_heading(path, size_m[0]))
    return Car(
        *size_m,
        x,
        y,
        heading,
        speed * exact.cos(tangent),
        speed * exact.sin(tangent),
        first,
        last,
        expert,
        turn,
    )


def touches(car: Car, cars: list[Car]) -> bool:
    """Return whether a car's log comes within CAR_MARGIN_M of another's in some common frame."""
    half = (np.array(car.length_m / 2 + CAR_MARGIN_M), np.array(car.width_m / 2 + CAR_MARGIN_M))
    for other in cars:
        span = slice(max(car.first, other.first), min(car.last, other.last) + 1)
        gap = np.stack([other.x_m[span] - car.x_m[span], other.y_m[span] - car.y_m[span]], axis=-1)
        other_half = (np.array(other.length_m / 2), np.array(other.width_m / 2))
        if boxes_overlap(
            gap, car.heading_rad[span], other.heading_rad[span], half, other_half
        ).any():
            return True
    return False
