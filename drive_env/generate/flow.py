# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Plans traffic for generated streets: cars that follow, queue, stop, yield and wait.

Runs in the learner (drive_env.generate.streets). Cars are planned one after another: on a lane from
front to back, and otherwise by priority. For a new car, `traffic.blocked_cells` returns when and
where on its path it would touch a car planned before; red lights block their stop lines. The car
then drives by the intelligent driver model (Treiber, Hennecke, Helbing 2000) behind whatever blocks
its path next, in several variants: without stopping, or stopping before one of the places that are
blocked at some time, until one of several times. The variant without contact that gets farthest is
chosen. If there is none, the car is left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from drive_env.generate import exact
from drive_env.generate.layouts import STEP_M, Trip, arc_length, headings_of
from drive_env.generate.network import Lane, Streets, Tag
from drive_env.generate.traffic import (
    FRAMES,
    PARKED,
    SAMPLE_FRAMES,
    SAMPLE_M,
    Car,
    Path,
    blocked_cells,
    car_on_path,
    draw_size,
    make_path,
    path_is_clear,
    speed_limit,
    touches,
)
from drive_env.scenes.schema import FRAME_S, VEHICLE, Floats

TIME_S = SAMPLE_FRAMES * FRAME_S  # length of a step of the plan
# Desired acceleration, comfortable braking, and maximum braking
ACCELERATE_MPS2, BRAKE_MPS2, HARDEST_MPS2 = 1.6, 2.0, 5.0
HEADWAY_S, STANDSTILL_M = 1.1, 0.4  # in addition to the margin in `blocked_cells`
# Largest change of the acceleration in a step, downwards and upwards
FIRMER_MPS2, SOFTER_MPS2 = 1.4, 0.6
RELEASES_S = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.5, 99.0)
MOST_HOLDS = 5
PAST_M = 0.3  # distance by which a car may roll past its stopping place
STANDING_SHARE = 0.3  # share of the headway that applies behind a standing car
STOP_S, STANDS_MPS = 1.0, 0.4  # minimum stop at a stop sign, and the speed that counts as standing
LINE_M = 0.7  # from a stop line to the bumper of a car that stops there
SPAWN_M = 9.0  # least distance of two cars on a lane at the start
APART_S = 1.6  # the same in flowing traffic, in seconds at the speed of the slowest driver
CHANGE_S = 3.5  # duration of a lane change in flowing traffic
ELSEWHERE = 0.006  # density of cars far from the middle, relative to the middle
# More cars start before lights and signs, and before other crossings.
QUEUE_M, QUEUE, AT_CROSSING = 22.0, 9.0, 2.5
CLEAR_M = 12.0  # free distance around a car that appears later
LOOK_ROWS = 5  # rows of the plan over which a starting car averages the speed of the car ahead


@dataclass(frozen=True)
class Actor(Car):
    """A car, cyclist or pedestrian, with its log.

    Attributes:
        level: level of its road; objects on different levels do not meet.
    """

    kind: int = VEHICLE
    level: int = 0

    @cached_property
    def bounds_m(self) -> tuple[float, float, float, float]:
        """Return the box around all its places: least x and y, largest x and y."""
        span = slice(self.first, self.last + 1)
        reach = (self.length_m + self.width_m) / 2
        x, y = self.x_m[span], self.y_m[span]
        return (
            float(x.min()) - reach,
            float(y.min()) - reach,
            float(x.max()) + reach,
            float(y.max()) + reach,
        )


@dataclass(frozen=True)
class Demand:
    """Parameters of the traffic to plan."""

    cars: int
    speed_mps: tuple[float, float]
    centre_m: Floats  # where traffic is densest
    spread_m: float = 45.0
    turning: float = 0.3  # share of cars that turn at a crossing
    changes: float = 0.1  # share that change lanes where they can
    late: float = 0.15  # share that are not visible from the start
    left: float = 0.5  # share of the turning cars that turn left
    halts: float = 0.05  # share that stop on the way, as if to let a passenger out
    # Traffic that flows fast: cars start far apart and at the speed that this allows, also behind
    # others, and take their time to change lanes.
    flows: bool = False


@dataclass(frozen=True)
class Route:
    """A route that a car may take.

    Attributes:
        stops: arc length, group of lights, and whether there is a stop sign.
    """

    points_m: Floats
    stops: tuple[tuple[float, int, bool], ...]
    lanes: tuple[int, ...]
    turn: str
    rank: int
    slow: float
    level: int


def starts_of(streets: Streets) -> dict[Tag, list[int]]:
    """Return the lanes that start at each tag."""
    starts: dict[Tag, list[int]] = {}
    for index, lane in enumerate(streets.lanes):
        starts.setdefault(lane.start, []).append(index)
    return starts


def draw_route(
    rng: np.random.Generator,
    streets: Streets,
    starts: dict[Tag, list[int]],
    first: int,
    at_m: float,
    reach_m: float,
    ask: Demand,
    change_m: float = 0.0,
) -> Route:
    """Draw a route from a place on a lane, at least reach_m long unless the streets end before.

    A lane change on it is at least change_m long.
    """
    lane = streets.lanes[first]
    points, lanes, stops = [lane.points_m], [first], []
    length = float(arc_length(lane.points_m)[-1])
    neighbours = [
        index for index in (_neighbour(lane, starts, step) for step in (-1, 1)) if index is not None
    ]
    if neighbours and length - at_m > 45.0 + change_m and rng.random() < ask.changes:
        first = neighbours[int(rng.integers(len(neighbours)))]
        points = [blend(rng, lane.points_m, streets.lanes[first].points_m, at_m, change_m)]
        lanes.append(first)
        lane, length = streets.lanes[first], float(arc_length(points[0])[-1])
    turn, rank = "straight", 5
    while length < at_m + reach_m and lane.end in starts:
        chosen = choose_lane(rng, streets, starts[lane.end], ask)
        lane = streets.lanes[chosen]
        if lane.turn:
            turn = lane.turn if lane.turn != "straight" else turn
            rank = min(rank, lane.rank)
            stops.append((length, lane.group, lane.stop))
        points.append(lane.points_m[1:])
        lanes.append(chosen)
        length += float(arc_length(lane.points_m)[-1])
    start = streets.lanes[lanes[0]]
    return Route(
        np.concatenate(points), tuple(stops), tuple(lanes), turn, rank, start.slow, start.level
    )


def _neighbour(lane: Lane, starts: dict[Tag, list[int]], step: int) -> int | None:
    node, link, way, number = lane.start
    lanes = starts.get((node, link, way, number + step), []) if lane.shifts_m else []
    return lanes[0] if lanes else None


def blend(
    rng: np.random.Generator, here: Floats, there: Floats, at_m: float, change_m: float = 0.0
) -> Floats:
    """Return the line of a lane that changes over to the adjacent one, along at least change_m."""
    where = arc_length(here)
    latest = where[-1] - 36.0 - change_m
    begin = rng.uniform(at_m + 3.0, max(at_m + 4.0, min(at_m + 40.0, latest)))
    share = np.clip((where - begin) / max(change_m, rng.uniform(24.0, 34.0)), 0.0, 1.0)
    share = exact.smooth_step(share)
    other = arc_length(there)
    shifted = np.stack(
        [np.interp(where * other[-1] / where[-1], other, axis) for axis in there.T], axis=-1
    )
    return np.asarray(here + share[:, None] * (shifted - here))


def choose_lane(
    rng: np.random.Generator, streets: Streets, choices: Sequence[int], ask: Demand
) -> int:
    """Draw one of `choices`, the lanes that continue a lane."""
    shares = {
        "straight": 1 - ask.turning,
        "left": ask.turning * ask.left,
        "right": ask.turning * (1 - ask.left),
        "": 1.0,
    }
    weights = np.array([shares[streets.lanes[index].turn] for index in choices])
    return (
        choices[int(rng.choice(len(choices), p=weights / weights.sum()))]
        if weights.sum() > 0
        else choices[0]
    )


# ---- routes --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wish:
    """A car to plan: its start, and its route."""

    lane: int
    at_m: float
    cruise_mps: float
    route: Route
    size_m: tuple[float, float, float]
    late: bool
    halt_m: float = 0.0  # distance after which it stops for a moment; 0: it does not stop
    kind: int = VEHICLE
    flows: bool = False


def draw_wishes(
    rng: np.random.Generator, streets: Streets, ask: Demand, count: int, kind: int = VEHICLE
) -> list[Wish]:
    """Draw cars (or cyclists) and their routes, more of them near the middle.

    No two of them start at the same place.
    """
    starts = starts_of(streets)
    places, weights = [], []
    for index, lane in enumerate(streets.lanes):
        if lane.turn in ("left", "right"):
            continue
        where = arc_length(lane.points_m)
        spots = np.arange(6.0, where[-1] - 3.0, 4.0)
        distance = exact.hypot(*(lane.points_m[np.searchsorted(where, spots)] - ask.centre_m).T)
        following = [streets.lanes[other] for other in starts.get(lane.end, [])]
        has_control = any(other.group >= 0 or other.stop for other in following)
        before = QUEUE if has_control else AT_CROSSING if len(following) > 1 else 1.0
        weight = (exact.exp(-0.5 * (distance / ask.spread_m) ** 2) + ELSEWHERE) * np.where(
            where[-1] - spots < QUEUE_M, before, 1.0
        )
        places += [(index, float(spot)) for spot in spots]
        weights += weight.tolist()
    if not places:
        return []
    total = np.array(weights) / np.sum(weights)
    taken: list[tuple[int, float]] = []
    wishes = []
    for pick in rng.choice(len(places), size=min(len(places), 3 * count), replace=False, p=total):
        index, at = places[int(pick)]
        at += float(rng.uniform(-1.5, 1.5))
        slowest = ask.speed_mps[0] * streets.lanes[index].slow
        apart = max(SPAWN_M, APART_S * slowest) if ask.flows else SPAWN_M
        if any(index == other and abs(at - place) < apart for other, place in taken):
            continue
        taken.append((index, at))
        cruise = rng.uniform(*ask.speed_mps) * streets.lanes[index].slow
        cruise = float(cruise if kind == VEHICLE else rng.uniform(3.0, 5.5))
        reach, change = cruise * FRAMES * FRAME_S + 12.0, CHANGE_S * cruise if ask.flows else 0.0
        route = draw_route(rng, streets, starts, index, at, reach, ask, change)
        size = draw_size(rng) if kind == VEHICLE else (1.8, 0.7, 1.75)
        halt = float(rng.uniform(3.0, 35.0)) if rng.random() < ask.halts else 0.0
        late = bool(rng.random() < ask.late)
        wishes.append(Wish(index, at, cruise, route, size, late, halt, kind, ask.flows))
        if len(wishes) == count:
            break
    return wishes


def sort_wishes(rng: np.random.Generator, wishes: list[Wish]) -> list[Wish]:
    """Sort cars: on each lane from front to back, and among those at the front by priority."""
    queues: dict[int, list[tuple[float, Wish]]] = {}
    for wish in sorted(wishes, key=lambda wish: -wish.at_m):
        queues.setdefault(wish.lane, []).append(
            (wish.route.rank + float(rng.normal(0.0, 0.8)), wish)
        )
    ordered = []
    while queues:
        lane = max(queues, key=lambda lane: queues[lane][0][0])
        ordered.append(queues[lane].pop(0)[1])
        if not queues[lane]:
            del queues[lane]
    return ordered


def plan_traffic(
    rng: np.random.Generator, streets: Streets, wishes: list[Wish],
    red: NDArray[np.bool_], others: list[Actor],
    edges: dict[int, tuple[Floats, Floats]],
) -> list[Actor]:  # fmt: skip
    """Plan cars and return those for which there is a free way.

    Args:
        red: (groups, FRAMES).
        others: actors that are already there.
    """
    planned: list[Actor] = []
    for wish in sort_wishes(rng, wishes):
        near = [item for item in (*others, *planned) if item.level == wish.route.level]
        actor = plan_actor(rng, wish, near, red, edges[wish.route.level])
        if actor is not None:
            planned.append(actor)
    return planned


def plan_actor(
    rng: np.random.Generator,
    wish: Wish,
    others: list[Actor],
    red: NDArray[np.bool_],
    edges: tuple[Floats, Floats],
) -> Actor | None:
    """Plan one car or cyclist; None if each of its variants is blocked."""
    length_m, width_m, _ = wish.size_m
    route = wish.route
    line = route.points_m
    if wish.kind != VEHICLE:  # on the right of the lane
        heading = headings_of(line)
        line = line - 1.0 * exact.left_of(heading)
    path = make_path(
        rng, Trip(line, route.turn, True, (0.0, 0.0), 0.0, (), ()), wish.at_m, wish.cruise_mps
    )
    first = int(rng.integers(2, 45) // 2 * 2) if wish.late else 0
    if path is None:
        return None
    low, high = (
        path.points_m.min(axis=0) - length_m - 3.0,
        path.points_m.max(axis=0) + length_m + 3.0,
    )
    near = ((np.maximum(*edges) >= low) & (np.minimum(*edges) <= high)).all(axis=1)
    reach_m = min(path.length_m, wish.cruise_mps * FRAMES * FRAME_S + 4.0)
    if not path_is_clear(path, length_m, width_m, (edges[0][near], edges[1][near]), reach_m):
        return None
    others = [item for item in others if meets(item.bounds_m, (*low.tolist(), *high.tolist()))]
    taken = blocked_cells(path, length_m, width_m, list(others))
    if taken[first // SAMPLE_FRAMES, 0] or (
        first and min(distances(path.points_m[0], others, first), default=99.0) < CLEAR_M
    ):
        return None
    signs = [wish.halt_m] if wish.halt_m else []
    for at, group, stop in route.stops:
        bumper = at - path.offset_m - length_m / 2
        if bumper < 0.5:
            if group >= 0 and bumper > -length_m and red[group].any():
                return None  # The car would stand on the line.
            continue
        if group >= 0:
            band = slice(max(0, int(bumper / SAMPLE_M)), max(0, int((bumper + 4.0) / SAMPLE_M)))
            rows = red[group, ::SAMPLE_FRAMES][: len(taken)]
            taken[
                np.flatnonzero(rows)[:, None], np.arange(band.start, min(band.stop, taken.shape[1]))
            ] = True
        elif stop:
            signs.append(bumper - LINE_M)
    s_m = drive(path, wish, taken, signs, first, float(rng.uniform(0.75, 1.0)))
    if s_m is None:
        return None
    actor = Actor(
        **vars(car_on_path(path, s_m, wish.size_m, first, False, route.turn)),
        kind=wish.kind,
        level=route.level,
    )
    return (
        None
        if touches(actor, [item for item in others if meets(item.bounds_m, actor.bounds_m)])
        else actor
    )


def meets(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Return whether two boxes (least x and y, largest x and y) overlap."""
    return one[0] <= other[2] and other[0] <= one[2] and one[1] <= other[3] and other[1] <= one[3]


def distances(place_m: Floats, others: list[Actor], frame: int) -> list[float]:
    """Return the distances of others from a place in a frame in which they are present."""
    return [
        float(exact.hypot(item.x_m[frame] - place_m[0], item.y_m[frame] - place_m[1]))
        for item in others
        if item.first <= frame <= item.last and item.turn != PARKED
    ]


# ---- driving -------------------------------------------------------------------------------------


def drive(
    path: Path, wish: Wish, taken: NDArray[np.bool_], signs: list[float], first: int, share: float
) -> Floats | None:
    """Return the arc length of the free variant that gets farthest, in each frame from `first` on.

    Returns None if all variants are blocked.

    Args:
        taken: see `blocked_cells`.
        signs: arc lengths at which the car has to stop.
        share: share of the cruising speed at the start.
    """
    start_row, furthest = first // SAMPLE_FRAMES, path.length_m - 1.0
    road = Road(path, wish.cruise_mps, taken)
    speed = min(
        share * wish.cruise_mps,
        float(road.limit[0]),
        road.start_speed(start_row, wish.flows),
    )
    stop_m, release_s = variants(taken, signs, first)
    s, v, acceleration = np.zeros(len(stop_m)), np.full(len(stop_m), speed), np.zeros(len(stop_m))
    free, hardest = np.ones(len(stop_m), dtype=bool), np.zeros(len(stop_m))
    stood = np.zeros((len(signs), len(stop_m)))
    track, speeds = [s], [v]
    for row in range(start_row, len(taken) - 1):
        cell = road.cell(s)
        free &= ~taken[row, cell]
        gap, leader = road.ahead(row, cell, s)
        holds = [(stop_m, row * TIME_S < release_s)]
        holds += [
            (np.full(len(s), sign), stood[number] * TIME_S <= STOP_S)
            for number, sign in enumerate(signs)
        ]
        for stop, holding in holds:
            nearer = holding & (s < stop + PAST_M) & (stop - s < gap)
            gap, leader = (
                np.where(nearer, stop - s + STANDSTILL_M, gap),
                np.where(nearer, 0.0, leader),
            )
        desired = follow(v, road.wanted(s), np.maximum(gap, 0.05), leader)
        acceleration = np.minimum(
            np.maximum(desired, acceleration - FIRMER_MPS2), acceleration + SOFTER_MPS2
        )
        slower = np.minimum(v, np.maximum(0.0, v + acceleration * TIME_S))
        faster = np.maximum(
            slower, np.minimum(v + acceleration * TIME_S, road.wanted(s + v * TIME_S))
        )
        after = np.where(acceleration < 0, slower, faster)
        s = np.minimum(s + (v + after) / 2 * TIME_S, furthest)
        acceleration, v = (after - v) / TIME_S, after
        hardest = np.maximum(hardest, -acceleration)
        for number, sign in enumerate(signs):
            stood[number] += (s > sign - 4.0) & (s < sign + 1.0) & (v < STANDS_MPS)
        track.append(s)
        speeds.append(v)
    free &= ~taken[-1, road.cell(s)]
    for number, sign in enumerate(signs):
        free &= (s < sign + 1.0) | (stood[number] * TIME_S > STOP_S)
    if not free.any():
        return None
    cost = np.where(
        free, -s + 2.0 * np.maximum(0.0, hardest - 3.0) + 0.01 * (release_s > 0), np.inf
    )
    best = int(cost.argmin())
    smooth = refine(np.array(track)[:, best], np.array(speeds)[:, best])
    arrived = np.flatnonzero(smooth >= furthest - 1e-6)
    # The frame before arrival is part of a step that was cut.
    smooth = smooth[: arrived[0] - 1] if len(arrived) else smooth
    return smooth if len(smooth) >= 8 else None


class Road:
    """A driver's view of its path: the allowed speed, and what blocks it next."""

    def __init__(self, path: Path, cruise_mps: float, taken: NDArray[np.bool_]) -> None:
        self.limit = speed_limit(path, cruise_mps)
        self.fastest_mps = max(25.0, cruise_mps)  # highest speed of what is ahead
        self.samples = STEP_M * np.arange(len(self.limit))
        cells = taken.shape[1]
        self.last = cells - 1
        index = np.where(taken, np.arange(cells), 10 * cells)
        # (rows, cells): the arc length at which the path is next blocked, from each cell on
        self.following = np.minimum.accumulate(index[:, ::-1], axis=1)[:, ::-1] * SAMPLE_M

    def cell(self, s_m: Floats) -> NDArray[np.int64]:
        """Return the cells of arc lengths."""
        return np.asarray(np.minimum((s_m / SAMPLE_M + 0.5).astype(np.int64), self.last))

    def wanted(self, s_m: Floats) -> Floats:
        """Return the highest comfortable speeds at arc lengths."""
        return np.interp(s_m, self.samples, self.limit)

    def start_speed(self, row: int, flows: bool) -> float:
        """Return the highest speed with which a car can begin behind what blocks its path next.

        It can stop there; in flowing traffic it can also follow at a safe distance.
        """
        room = max(0.0, float(self.following[row, 0]) - 2.0)
        stopping = float(np.sqrt(2 * BRAKE_MPS2 * room))
        if not flows:
            return stopping
        later = min(row + LOOK_ROWS, len(self.following) - 1)
        moved = float(self.following[later, 0] - self.following[row, 0])
        leader = min(max(moved, 0.0) / (TIME_S * max(1, later - row)), self.fastest_mps)
        return max(stopping, min(float(exact.hypot(leader, stopping)), room / HEADWAY_S))

    def ahead(self, row: int, cell: NDArray[np.int64], s_m: Floats) -> tuple[Floats, Floats]:
        """Return the gap to what blocks the path next, and the speed of that."""
        blocks = self.following[row, cell]
        moved = (self.following[row + 1, cell] - blocks) / TIME_S
        return blocks - s_m - 0.5 * SAMPLE_M, np.clip(moved, 0.0, self.fastest_mps)


def refine(s_m: Floats, speed_mps: Floats) -> Floats:
    """Interpolate arc lengths that are known in every second frame, by cubic curves.

    The result never decreases.
    """
    frames = np.repeat(s_m, SAMPLE_FRAMES)[: SAMPLE_FRAMES * (len(s_m) - 1) + 1]
    middle = (s_m[1:] + s_m[:-1]) / 2 + TIME_S / 8 * (speed_mps[:-1] - speed_mps[1:])
    frames[1::2] = np.clip(middle, s_m[:-1], s_m[1:])
    return frames


def variants(taken: NDArray[np.bool_], signs: list[float], first: int) -> tuple[Floats, Floats]:
    """Return where each variant stops and until when, (M,) each; the first one does not stop."""
    ever = np.asarray(taken[first // SAMPLE_FRAMES :].any(axis=0))
    begins = np.flatnonzero(ever & ~np.concatenate([[True], ever[:-1]]))
    stops = [*signs, *(SAMPLE_M * begins[:MOST_HOLDS] - 1.0)]
    pairs = [
        (-1.0, 0.0),
        *(
            (float(stop), release + first * FRAME_S)
            for stop in stops
            if stop > 0.5
            for release in RELEASES_S
        ),
    ]
    return np.array([stop for stop, _ in pairs]), np.array([release for _, release in pairs])


def follow(v: Floats, wanted: Floats, gap: Floats, leader: Floats) -> Floats:
    """Return the acceleration of the intelligent driver model, m/s2."""
    closing = v * (v - leader) / (2 * np.sqrt(ACCELERATE_MPS2 * BRAKE_MPS2))
    # Behind a standing car the full headway would make the last metres take seconds.
    headway = HEADWAY_S * (
        STANDING_SHARE + (1 - STANDING_SHARE) * np.minimum(leader / np.maximum(v, 0.1), 1.0)
    )
    distance = STANDSTILL_M + np.maximum(0.0, headway * v + closing)
    free = 1.0 - exact.fourth_power(v / np.maximum(wanted, 0.5))
    wanted_mps2 = ACCELERATE_MPS2 * (free - (distance / gap) ** 2)
    return np.asarray(np.minimum(np.maximum(wanted_mps2, -HARDEST_MPS2), ACCELERATE_MPS2))


def standing_actor(
    place: tuple[float, float, float],
    size_m: tuple[float, float, float],
    kind: int = VEHICLE,
    level: int = 0,
) -> Actor:
    """Return an actor that stands at a place (x, y, heading) all the time."""
    zero = np.zeros(FRAMES)
    x, y, heading = place
    return Actor(
        *size_m,
        zero + x,
        zero + y,
        zero + heading,
        zero,
        zero,
        0,
        FRAMES - 1,
        False,
        PARKED,
        kind,
        level,
    )


def cut_log(actor: Actor, first: int, last: int) -> Actor:
    """Return an actor whose log is cut to the frames from `first` to `last`."""
    return dataclasses.replace(actor, first=max(actor.first, first), last=min(actor.last, last))
