# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The slow, plain twin of drive_env.evaluate.features and .likelihood: one box, one time, one
segment after the other.

Written from Montali et al. 2023, not from the fast code. Runs in the tests only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.twins.drive import corners, gap, turned

Box = tuple[float, float, float, float, float]  # x, y, heading, length, width


def difference(angle: float) -> float:
    """An angle in [-pi, pi)."""
    return (angle + math.pi) % (2 * math.pi) - math.pi


def motion(x: np.ndarray, y: np.ndarray, heading: np.ndarray, dt_s: float) -> dict[str, np.ndarray]:
    """Of one object, (T,) each."""
    steps = len(x)
    speed, turn = np.full(steps, np.nan), np.full(steps, np.nan)
    acceleration, turn_change = np.full(steps, np.nan), np.full(steps, np.nan)
    for t in range(1, steps - 1):
        speed[t] = math.hypot(x[t + 1] - x[t - 1], y[t + 1] - y[t - 1]) / (2 * dt_s)
        turn[t] = difference(heading[t + 1] - heading[t - 1]) / 2
    for t in range(2, steps - 2):
        acceleration[t] = (speed[t + 1] - speed[t - 1]) / (2 * dt_s)
        turn_change[t] = difference(turn[t + 1] - turn[t - 1]) / 2
    return {
        "linear_speed": speed,
        "linear_acceleration": acceleration,
        "angular_speed": turn / dt_s,
        "angular_acceleration": turn_change / dt_s**2,
    }


def to_segment(point: np.ndarray, start: np.ndarray, end: np.ndarray) -> tuple[float, float]:
    """(distance to a segment, unclipped share of the way along it)."""
    step = end - start
    share = float((point - start) @ step / max(float(step @ step), 1e-12))
    return float(np.hypot(*(point - start - min(max(share, 0.0), 1.0) * step))), share


def box_gap(a: Box, b: Box) -> float:
    """Signed distance of two boxes: of their outlines, or minus the depth of their overlap."""
    one, two = corners(*a), corners(*b)
    apart = gap(one, two)
    if apart <= 0:
        return apart
    pairs = [(p, q) for p, q in ((one, two), (two, one))]
    return min(
        to_segment(point, q[k], q[(k + 1) % 4])[0]
        for p, q in pairs
        for point in p
        for k in range(4)
    )


def rounded_gap(a: Box, b: Box) -> float:
    """Signed distance of two boxes whose corners are arcs: that of their cores, less both radii."""
    radii = [0.7 * min(box[3:]) / 2 for box in (a, b)]
    cores = [
        (*box[:3], box[3] - 2 * radius, box[4] - 2 * radius)
        for box, radius in zip((a, b), radii, strict=True)
    ]
    return box_gap(*cores) - sum(radii)


def nearest_box(boxes: list[Box | None], own: int) -> float:
    """Signed distance to the nearest other box; 1e10 where there is none."""
    mine = boxes[own]
    others = [box for k, box in enumerate(boxes) if k != own and box is not None]
    return (
        min([rounded_gap(mine, box) for box in others], default=1e10) if mine is not None else 1e10
    )


def time_to_collision(boxes: list[Box | None], speeds: np.ndarray, own: int) -> float:
    """Of one box at one time."""
    mine, found, closing = boxes[own], math.inf, 0.0
    assert mine is not None
    for k, box in enumerate(boxes):
        if k == own or box is None:
            continue
        seen = np.array([turned(px - mine[0], py - mine[1], mine[2]) for px, py in corners(*box)])
        middle = turned(box[0] - mine[0], box[1] - mine[1], mine[2])
        ahead = seen[:, 0].min() - mine[3] / 2
        beside = abs(middle[1]) - mine[4] / 2 - np.ptp(seen[:, 1]) / 2
        turn = math.degrees(abs(difference(box[2] - mine[2])))
        slight = beside >= -0.5 and turn > 10
        if ahead <= 0 or beside >= 0 or turn > 75 or slight or ahead >= found:
            continue
        found, closing = ahead, speeds[own] - speeds[k]
    return min(found / closing, 5.0) if closing > 0 else 5.0


def to_road_edge(point: np.ndarray, polylines: list[np.ndarray]) -> float:
    """Signed distance of a point to the nearest polyline (n, 2); the road is to their left."""
    best, sign = math.inf, 0.0
    for line in polylines:
        ring = np.hypot(*(line[0] - line[-1])) < 1.0
        last = len(line) - 2
        for k in range(len(line) - 1):
            distance, share = to_segment(point, line[k], line[k + 1])
            if distance >= best:
                continue
            other = k if 0 <= share <= 1 else (k - 1 if share < 0 else k + 1)
            if not 0 <= other <= last:
                other = other % (last + 1) if ring else k
            first, second = (other, k) if share < 0 else (k, other)
            sides = [side(point, line[s], line[s + 1]) for s in (k, other)]
            steps = [line[s + 1] - line[s] for s in (first, second)]
            convex = steps[0][0] * steps[1][1] - steps[0][1] * steps[1][0] > 0
            best, sign = distance, max(sides) if convex else min(sides)
    return best * sign


def side(point: np.ndarray, start: np.ndarray, end: np.ndarray) -> float:
    """1 to the right of a segment, -1 to its left."""
    step, rel = end - start, point - start
    return float(np.sign(rel[0] * step[1] - rel[1] * step[0]))


def likelihood(log: np.ndarray, rollouts: np.ndarray, valid: np.ndarray, estimator: Any) -> float:
    """exp of the mean log-probability. log, valid: (N, T); rollouts: (R, N, T)."""
    edges = np.linspace(estimator.low, estimator.high, estimator.bins + 1)
    scores = []
    for n in range(len(log)):
        values = np.where(
            np.isnan(rollouts[:, n]), np.inf, rollouts[:, n]
        )  # what has no value is in the last bin
        counts = (
            np.histogram(np.clip(values, estimator.low, estimator.high), edges)[0]
            + estimator.pseudocount
        )
        for t in np.flatnonzero(valid[n]):
            of = np.histogram(np.clip(log[n, t], estimator.low, estimator.high), edges)[0]
            scores.append(math.log(float(counts[of == 1][0] / counts.sum())))
    return math.exp(sum(scores) / len(scores))


def direction_at(lane: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The direction of a lane (n, 2) where it is nearest to a place."""
    distances = [to_segment(place, lane[k], lane[k + 1])[0] for k in range(len(lane) - 1)]
    nearest = distances.index(min(distances))
    return lane[nearest + 1] - lane[nearest]


def runs_red_light(
    track: np.ndarray,
    lanes: list[np.ndarray],
    lights: list[tuple[int, np.ndarray, np.ndarray]],
) -> list[bool]:
    """Whether an object (T, 2) has just run a light (lane, stop point, red by time), by time."""
    found = [False] * len(track)
    for t in range(1, len(track)):
        if np.isnan(track[t - 1 : t + 1]).any():
            continue
        distances = [
            min(to_segment(track[t], lane[k], lane[k + 1])[0] for k in range(len(lane) - 1))
            for lane in lanes
        ]
        for number, stop, red in lights:
            ahead = direction_at(lanes[number], stop)
            before, after = (float((track[at] - stop) @ ahead) for at in (t - 1, t))
            on = distances.index(min(distances)) == number
            found[t] |= bool(red[t]) and before < 0 < after and on
    return found


def runs_red_light_there(
    track: np.ndarray,
    lanes: dict[int, np.ndarray],
    lights: list[tuple[int, np.ndarray, np.ndarray]],
) -> list[bool]:
    """The same as the challenge's code computes it: the distance to a segment is that of the point
    to the start, plus (in place of minus) the share of the way along the segment.
    """
    found = [False] * len(track)
    starts = np.concatenate([lane[:-1] for lane in lanes.values()])
    steps = np.concatenate([np.diff(lane, axis=0) for lane in lanes.values()])
    of = np.repeat(list(lanes), [len(lane) - 1 for lane in lanes.values()])

    def nearest(place: np.ndarray, own: np.ndarray) -> int:
        rel = place - starts[own]
        square = np.maximum((steps[own] ** 2).sum(-1), 1e-12)
        share = np.clip((rel * steps[own]).sum(-1) / square, 0, 1)[:, None]
        return int(own[np.hypot(*(rel + share * steps[own]).T).argmin()])

    every = np.arange(len(of))
    for number, stop, red in lights:
        ahead = steps[nearest(stop, np.flatnonzero(of == number))]
        for t in range(1, len(track)):
            before, after = (float((track[at] - stop) @ ahead) for at in (t - 1, t))
            if red[min(t, len(red) - 1)] and before < 0 < after:
                found[t] |= int(of[nearest(track[t], every)]) == number
    return found
