# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The slow, obvious twin of what drive measures, pays and sums up: accelerations, lanes, the log,
what is ahead, comfort.

Written from docs/drive.md. Numbers are float64; `clear` is False where a threshold is closer than
rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drive_env.scenes.packed import STATE_FLASHING as FLASHING
from drive_env.scenes.schema import RED
from tests.twins.drive import Bodies, SceneTwin, corners, distance_to_path, gap, paths_cross, turned

STOP_SIGN, LIGHT = 0, 1
NEAR = 2e-3  # how close to a threshold nothing is judged
LANE_REACH_M, LANE_TURN_COST_M, MOST_TTC_S = 4.0, 3.0, 5.0
LIMITS = {"acceleration": 2.40, "braking": 4.05, "lateral": 4.89, "jerk": 4.13, "yaw_rate": 0.95}
Pose = tuple[float, float, float, float]  # x, y, heading, speed


@dataclass
class Lane:
    """The car's lane: cosine of the angle to it, distance from its centre line."""

    there: bool = False
    cosine: float = 0.0
    offset: float = LANE_REACH_M
    clear: bool = True
    limit_mps: float = 0.0  # 0: not known


def motion(before: Pose, after: Pose, dt_s: float) -> dict[str, float]:
    """Acceleration, yaw rate and lateral acceleration of a step."""
    turn = (after[2] - before[2] + np.pi) % (2 * np.pi) - np.pi
    return {
        "acceleration": (after[3] - before[3]) / dt_s,
        "yaw_rate": turn / dt_s,
        "lateral": after[3] * turn / dt_s,
    }


def lane_of(twin: SceneTwin, pose: Pose) -> Lane:
    """The lane of a car: least distance, plus 3 m for those that lead more than 30 degrees away
    from its motion.
    """
    x, y, heading, speed = pose
    way = heading if speed >= 0 else heading + np.pi
    of = twin.of_type["lanes"]
    distance = np.sqrt(twin.squares("lanes", x, y).astype(float))
    cosine = twin.road["ux"][of] * np.cos(way) + twin.road["uy"][of] * np.sin(way)
    clear = not (np.abs(distance - LANE_REACH_M) < NEAR).any()
    near = np.flatnonzero(distance <= LANE_REACH_M)
    if not len(near):
        return Lane(clear=clear)
    away = cosine[near] < np.cos(np.radians(30))
    cost = distance[near] + LANE_TURN_COST_M * away
    order = np.argsort(cost, kind="stable")
    best = near[order[0]]
    same = np.isclose(distance, distance[best], atol=NEAR) & np.isclose(
        cosine, cosine[best], atol=NEAR
    )
    clear &= not any(cost[i] - cost[order[0]] < NEAR and not same[near[i]] for i in order[1:])
    clear &= not (np.abs(cosine[near] - np.cos(np.radians(30))) < NEAR).any()
    limit = float(twin.arrays["lanes"][twin.arrays["polyline"][of][best]]["speed_limit_mps"])
    return Lane(True, float(cosine[best]), float(distance[best]), bool(clear), limit)


def time_to_collision(bodies: Bodies, own: int) -> tuple[float, bool]:
    """Seconds to the collision with the nearest body that `own` follows, and whether no threshold
    is close.
    """
    ahead_of_all, clear = (np.inf, 0.0), True
    heading, speed = float(bodies.heading[own]), float(bodies.speed[own])
    for j in range(len(bodies.object)):
        if j == own:
            continue
        box = corners(
            bodies.x[j], bodies.y[j], bodies.heading[j], bodies.length[j], bodies.width[j]
        )
        seen = np.array(
            [
                turned(px - float(bodies.x[own]), py - float(bodies.y[own]), heading)
                for px, py in box
            ]
        )
        gap = seen[:, 0].min() - bodies.length[own] / 2
        middle = turned(
            float(bodies.x[j] - bodies.x[own]), float(bodies.y[j] - bodies.y[own]), heading
        )
        beside = abs(middle[1]) - bodies.width[own] / 2 - (seen[:, 1].max() - seen[:, 1].min()) / 2
        turn = np.degrees(np.arccos(np.clip(np.cos(bodies.heading[j] - heading), -1, 1)))
        small = beside > -0.5
        near = (
            min(abs(gap), abs(beside), abs(beside + 0.5)) < NEAR
            or min(abs(turn - 75), abs(turn - 10)) < 0.1
        )
        if gap > 0 and beside < NEAR and turn < 75.1 and near:
            clear = False
        if (
            gap > 0
            and beside < 0
            and turn <= 75
            and not (small and turn > 10)
            and gap < ahead_of_all[0]
        ):
            ahead_of_all = gap, speed - float(bodies.speed[j]) * np.cos(bodies.heading[j] - heading)
    gap, closing = ahead_of_all
    clear &= not (np.isfinite(gap) and abs(closing) < 1e-3)
    return (min(gap / closing, MOST_TTC_S) if closing > 0 else MOST_TTC_S), clear


def way_share(
    twin: SceneTwin,
    start: tuple[float, float, float],
    goal: tuple[float, float],
    at: tuple[float, float],
) -> float:
    """How much of the shortest way along the lanes from a start (x, y, heading) to a goal one has
    come; -1: there is none.
    """
    x, y, ux, uy, half = (
        twin.road[name][twin.of_type["lanes"]].astype(float)
        for name in ("x", "y", "ux", "uy", "half")
    )
    squares = twin.squares("lanes", *start[:2]).astype(float)
    squares[(ux * np.cos(start[2]) + uy * np.sin(start[2]) < np.sqrt(0.5)) | (squares > 100)] = (
        np.inf
    )
    to_goal = twin.squares("lanes", *goal)
    near = np.flatnonzero(to_goal <= 16)
    lane_of, first = twin.polyline[: len(x)], twin.lanes["first_segment"]
    ends = np.array(
        [
            min(near[lane_of[near] == lane], key=to_goal.__getitem__)
            for lane in np.unique(lane_of[near])
        ],
        int,
    )
    if not len(ends) or not np.isfinite(squares).any():
        return -1.0

    def along(s: int, px: float, py: float) -> float:
        return float(
            np.clip((px - x[s]) * ux[s] + (py - y[s]) * uy[s], -half[s], half[s]) + half[s]
        )

    before = [2 * half[first[lane_of[s]] : s].sum() for s in range(len(x))]
    s = int(squares.argmin())
    ways = [(-(before[s] + along(s, *start[:2])), [int(lane_of[s])])]
    shortest: dict[int, tuple[float, list[int]]] = {}
    while ways:  # Dijkstra's
        ways.sort()
        metres, path = ways.pop(0)
        if path[-1] in shortest:
            continue
        shortest[path[-1]] = metres, path
        lane = twin.lanes[path[-1]]
        exits = twin.links[lane["exits"] : lane["exits"] + lane["exit_count"]]
        ways += [(metres + float(lane["length_m"]), [*path, int(exit)]) for exit in exits]
    lengths = [
        (shortest[e][0] + before[s] + along(s, *goal), e)
        for s in ends.tolist()
        if (e := int(lane_of[s])) in shortest
    ]
    lengths = [item for item in lengths if item[0] > 0]
    if not lengths:
        return -1.0
    length, last = min(lengths)
    points = []
    for lane in shortest[last][1]:
        for s in np.flatnonzero(lane_of == lane).tolist():
            begin = shortest[lane][0] + before[s]
            if max(0.0, -begin) <= min(2 * half[s], length - begin):
                a = np.clip(along(s, *at), max(0.0, -begin), min(2 * half[s], length - begin))
                gap = np.hypot(
                    x[s] + (a - half[s]) * ux[s] - at[0], y[s] + (a - half[s]) * uy[s] - at[1]
                )
                points.append((gap, begin + a))
    return float(min(min(points)[1] / length, 1.0))


def lines_crossed(
    twin: SceneTwin, frame: int, before: Pose, after: Pose, length: float
) -> tuple[bool, bool, bool]:
    """What the middle of the car's front crosses: a line whose light is steadily red at `frame`;
    one at which every car has to stop; whether none is close.
    """
    p, q = (
        np.array([x, y]) + length / 2 * np.array([np.cos(h), np.sin(h)])
        for x, y, h, _ in (before, after)
    )
    red, stop, clear = False, False, True
    for control in twin.arrays["controls"]:
        left, right = (
            np.array([control[f"line_x{i}_m"], control[f"line_y{i}_m"]], float) for i in (0, 1)
        )
        state = twin.arrays["states"][control["states"] + min(frame, control["state_count"] - 1)]
        light = control["kind"] == LIGHT
        if (
            (light and state & 7 != RED)
            or (not light and control["kind"] != STOP_SIGN)
            or (left == right).all()
        ):
            continue
        ahead = np.array([left[1] - right[1], right[0] - left[0]])  # the direction of the traffic
        sides = [float((point - left) @ ahead) for point in (p, q)]
        clear &= min(map(abs, sides)) > NEAR or distance_to_path(left, p, q) > 9
        clear &= min(distance_to_path(end, p, q) for end in (left, right)) > NEAR
        if sides[0] < 0 < sides[1] and paths_cross(p, q, left, right):
            red, stop = (
                red or (light and not state & FLASHING),
                stop or not light or bool(state & FLASHING),
            )
    return bool(red), bool(stop), bool(clear)


def at_fault(
    twin: SceneTwin, bodies: Bodies, own: int, other: int, dt_s: float
) -> tuple[bool, bool]:
    """Whether the contact of two bodies is the fault of the first, and whether no threshold is
    close.
    """
    speed, its = float(bodies.speed[own]), abs(float(bodies.speed[other]))
    clear = min(abs(abs(speed) - 0.1), abs(its - 0.1)) > NEAR
    if abs(speed) <= 0.1 or its <= 0.1:
        return abs(speed) > 0.1, clear
    way = 1.0 if speed >= 0 else -1.0
    first, last = (
        end_gap(bodies, own, other, side, deep * dt_s + 0.1)
        for side, deep in ((way, abs(speed)), (-way, its))
    )
    clear &= min(abs(first), abs(last)) > NEAR
    if first <= 0 or last <= 0:
        return first <= 0, clear
    pose = tuple(
        float(values[own]) for values in (bodies.x, bodies.y, bodies.heading, bodies.speed)
    )
    lane = lane_of(twin, pose)  # type: ignore[arg-type]
    aligned = np.cos(np.radians(15))
    return not (lane.there and lane.cosine >= aligned), clear and lane.clear and abs(
        lane.cosine - aligned
    ) > NEAR


def end_gap(bodies: Bodies, own: int, other: int, way: float, deep: float) -> float:
    """How far a body is from the front (way 1) or rear of another, `deep` metres of it; below 0:
    they touch.
    """
    deep = min(deep, float(bodies.length[own]))
    heading, ahead = float(bodies.heading[own]), way * (bodies.length[own] - deep) / 2
    x, y = bodies.x[own] + ahead * np.cos(heading), bodies.y[own] + ahead * np.sin(heading)
    return gap(corners(x, y, heading, deep, bodies.width[own]), bodies.corners(other))


def values(
    found: dict[str, Any], lane: Lane, log_m: float | None, unknown_limit_mps: float, speed: float
) -> dict[str, float]:
    """Values of the terms that are measured."""
    limit = lane.limit_mps or unknown_limit_mps
    return {
        "acceleration": abs(found["acceleration"]),
        "jerk": abs(found["jerk"]),
        "lateral": abs(found["lateral"]),
        "lane_align": lane.cosine,
        "lane_center": lane.offset,
        "speed_limit": max(abs(speed) - limit, 0.0) if lane.there and limit else 0.0,
        "log": log_m or 0.0,
    }


def distance_to_goal(frame: Any, trip: Any) -> float:
    """Metres from where a log's frame is to its goal, in a straight line."""
    return float(np.hypot(trip["goal_x_m"] - frame["x_m"], trip["goal_y_m"] - frame["y_m"]))


def haste(pose: tuple[float, ...], trip: Any, left_s: float) -> float:
    """m/s above twice the speed that reaches the goal in the time that is left."""
    distance = distance_to_goal({"x_m": pose[0], "y_m": pose[1]}, trip)
    return max(abs(pose[3]) - 2 * distance / left_s, 0.0)


def comfortable(found: dict[str, Any]) -> tuple[bool, bool]:
    """Whether a span is within all limits, and whether none of them is close."""
    sizes = {
        "acceleration": found["acceleration"],
        "braking": -found["acceleration"],
        **{name: abs(found[name]) for name in ("lateral", "jerk", "yaw_rate")},
    }
    clear = all(abs(sizes[name] - limit) > 1e-2 for name, limit in LIMITS.items())
    return all(sizes[name] <= limit for name, limit in LIMITS.items()), clear


def path_distance(twin: SceneTwin, o: int, x: float, y: float) -> float:
    """Metres from the path of an object's log, which leads straight from frame to frame."""
    frames = [frame for t in range(len(twin.frames)) if (frame := twin.frame(o, t)) is not None]
    points = np.array([(frame["x_m"], frame["y_m"]) for frame in frames], float)
    here = np.array([x, y])
    if len(points) == 1:
        return float(np.hypot(*(points[0] - here)))
    return min(distance_to_path(here, *ends) for ends in zip(points[:-1], points[1:], strict=True))


def log_arrival(twin: SceneTwin, o: int, start: int, radius_m: float) -> int:
    """Steps from frame `start` until an object's log is at most `radius_m` from its goal; 0: it
    never is.
    """
    goal = twin.objects[o]
    for step in range(1, len(twin.frames)):
        frame = twin.frame(o, start + step)
        if (
            frame is not None
            and np.hypot(frame["x_m"] - goal["goal_x_m"], frame["y_m"] - goal["goal_y_m"])
            <= radius_m
        ):
            return step
    return 0
