# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Features that measure the realism of rollouts: motion, other objects, and road edges.

Each is a time series per object. Definitions: Montali et al., "The Waymo Open Sim Agents Challenge"
(NeurIPS 2023), section 4 and appendix, without heights. NumPy only, float64; runs in the learner.

Axis letters: N evaluated objects, M all objects, T times; `...` stands for further axes in front
(rollouts).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.schema import Floats

Bools = NDArray[np.bool_]

MOST_TTC_S = 5.0
FOLLOWED_RAD = np.radians(75.0)  # largest angle to an object ahead that is followed
ALIGNED_RAD = np.radians(10.0)  # largest such angle where the overlap is small
SMALL_OVERLAP_M = 0.5
NO_OBJECT_M = 1e10  # distance if there is no other object
# Radius of a box's corners as a share of half its shorter side, as in the challenge's code.
ROUNDING = 0.7
CLOSED_M = 1.0  # a polyline whose ends are closer than this is a ring


@dataclass(frozen=True)
class Boxes:
    """Boxes over time.

    Attributes:
        x, y, heading: (..., M, T), metres and radians.
        length, width: (M,), metres.
        valid: (..., M, T).
    """

    x: Floats
    y: Floats
    heading: Floats
    length: Floats
    width: Floats
    valid: Bools

    def corners(self) -> Floats:
        """Return the corners, (..., M, T, 4, 2), counter-clockwise from the front left one."""
        ahead = np.stack([np.cos(self.heading), np.sin(self.heading)], -1)
        left = np.stack([-ahead[..., 1], ahead[..., 0]], -1)
        half_length, half_width = (
            self.length[:, None, None, None] / 2,
            self.width[:, None, None, None] / 2,
        )
        signs = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)], np.float64)
        middle = np.stack([self.x, self.y], -1)[..., None, :]
        along = signs[:, :1] * half_length * ahead[..., None, :]
        return np.asarray(middle + along + signs[:, 1:] * half_width * left[..., None, :])


# ---- motion --------------------------------------------------------------------------------------


def central(values: Floats) -> Floats:
    """Return half the difference of the next and the last value, (..., T); NaN at both ends."""
    differences = np.full_like(values, np.nan)
    differences[..., 1:-1] = (values[..., 2:] - values[..., :-2]) / 2
    return differences


def central_valid(valid: Bools) -> Bools:
    """Return where `central` has both of its values."""
    both = np.zeros_like(valid)
    both[..., 1:-1] = valid[..., 2:] & valid[..., :-2]
    return both


def wrap_angle(angle: Floats) -> Floats:
    """Return angles in [-pi, pi)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


def motion(x: Floats, y: Floats, heading: Floats, dt_s: float) -> dict[str, Floats]:
    """Return linear and angular speed and acceleration by central differences, (..., T) each.

    SI units. Speeds are NaN at the ends, accelerations at the two values at each end.
    """
    speed = np.hypot(central(x), central(y)) / dt_s
    turn = (
        wrap_angle(2 * central(heading)) / 2
    )  # the difference over two steps is at most half a turn
    return {
        "linear_speed": speed,
        "linear_acceleration": central(speed) / dt_s,
        "angular_speed": turn / dt_s,
        "angular_acceleration": wrap_angle(2 * central(turn)) / 2 / dt_s**2,
    }


# ---- other objects -------------------------------------------------------------------------------


def distance_to_nearest(boxes: Boxes, evaluated: NDArray[np.int64]) -> Floats:
    """Return the signed distance from each evaluated box to the nearest other one, (N, T).

    Where boxes overlap, it is minus the depth of the overlap. Boxes have rounded corners: each is a
    smaller box with a margin of its `rounding` all around.

    Args:
        boxes: (M, T), of one rollout.
        evaluated: (N,) indices.
    """
    radius = np.hypot(boxes.length, boxes.width) / 2
    rounding = ROUNDING * np.minimum(boxes.length, boxes.width) / 2
    cores = dataclasses.replace(
        boxes, length=boxes.length - 2 * rounding, width=boxes.width - 2 * rounding
    )
    corners = cores.corners()
    nearest = np.full((len(evaluated), boxes.x.shape[1]), NO_OBJECT_M)
    for row, i in enumerate(evaluated):
        centre = np.hypot(boxes.x - boxes.x[i], boxes.y - boxes.y[i])
        centre[~boxes.valid] = np.inf
        centre[i] = np.inf
        least = centre.min(axis=0)  # boxes are no farther apart than their centres
        j, t = np.nonzero(
            (centre - radius[:, None] - radius[i] <= least) & boxes.valid[i] & np.isfinite(centre)
        )
        gaps = box_gap(cores, corners, np.full_like(j, i), j, t) - rounding[i] - rounding[j]
        np.minimum.at(nearest[row], t, gaps)
    return nearest


def box_gap(
    boxes: Boxes, corners: Floats, i: NDArray[np.int64], j: NDArray[np.int64], t: NDArray[np.int64]
) -> Floats:
    """Return the signed distance between boxes i and j at times t, (P,) each.

    It is Euclidean or, where boxes overlap, minus the shortest displacement that separates them.
    """
    outside, depth = np.full(len(i), np.inf), np.full(len(i), np.inf)
    for a, b in ((i, j), (j, i)):
        c, s = np.cos(boxes.heading[a, t]), np.sin(boxes.heading[a, t])
        rel = corners[b, t] - np.stack([boxes.x[a, t], boxes.y[a, t]], -1)[:, None]
        along = rel[..., 0] * c[:, None] + rel[..., 1] * s[:, None]
        across = rel[..., 1] * c[:, None] - rel[..., 0] * s[:, None]
        half_length, half_width = boxes.length[a] / 2, boxes.width[a] / 2
        beyond = (
            np.maximum(np.abs(along) - half_length[:, None], 0),
            np.maximum(np.abs(across) - half_width[:, None], 0),
        )
        outside = np.minimum(outside, np.hypot(*beyond).min(axis=1))
        for values, half in ((along, half_length), (across, half_width)):
            depth = np.minimum(
                depth, np.minimum(values.max(axis=1) + half, half - values.min(axis=1))
            )
    return np.where(depth >= 0, -depth, outside)


def time_to_collision(boxes: Boxes, evaluated: NDArray[np.int64], dt_s: float) -> Floats:
    """Return the seconds until each evaluated box hits the one that it follows, (N, T).

    Speeds are taken as constant, and times are at most MOST_TTC_S. A box follows the nearest valid
    box that is wholly ahead of its front, overlaps the strip straight ahead of it, and heads within
    75 degrees of its own heading, or within 10 degrees where the overlap is half a metre or less.
    """
    speed = motion(boxes.x, boxes.y, boxes.heading, dt_s)["linear_speed"]
    times_s = np.full((len(evaluated), boxes.x.shape[1]), MOST_TTC_S)
    for row, i in enumerate(evaluated):
        turn = np.abs(boxes.heading - boxes.heading[i])
        cosine, sine = np.abs(np.cos(turn)), np.abs(np.sin(turn))
        c, s = np.cos(boxes.heading[i]), np.sin(boxes.heading[i])
        dx, dy = boxes.x - boxes.x[i], boxes.y - boxes.y[i]
        half_length, half_width = boxes.length[:, None] / 2, boxes.width[:, None] / 2
        gap = dx * c + dy * s - boxes.length[i] / 2 - (half_length * cosine + half_width * sine)
        aside = (
            np.abs(dy * c - dx * s)
            - boxes.width[i] / 2
            - (half_length * sine + half_width * cosine)
        )
        turn = np.abs(wrap_angle(turn))
        follows = (gap > 0) & (turn <= FOLLOWED_RAD) & (aside < 0) & boxes.valid
        follows &= (aside < -SMALL_OVERLAP_M) | (turn <= ALIGNED_RAD)
        follows[i] = False
        gap = np.where(follows, gap, NO_OBJECT_M)
        ahead = gap.argmin(axis=0)
        times = np.arange(gap.shape[1])
        with np.errstate(invalid="ignore", divide="ignore"):
            closing = speed[i] - speed[ahead, times]
            times_s[row] = np.where(
                closing > 0, np.minimum(gap[ahead, times] / closing, MOST_TTC_S), MOST_TTC_S
            )
    return times_s


# ---- road edges ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Edges:
    """Road edges as segments, with the road to their left. Arrays have shape (S,).

    Attributes:
        before, after: index of the previous and the next segment of the polyline; itself at an open
            end.
    """

    x0: Floats
    y0: Floats
    dx: Floats
    dy: Floats
    before: NDArray[np.int64]
    after: NDArray[np.int64]


def edges_of(start: Floats, end: Floats, polyline: NDArray[np.int64]) -> Edges:
    """Join segments to polylines.

    Args:
        start, end: (S, 2).
        polyline: (S,) numbers, equal ones consecutive and in order.
    """
    count = len(polyline)
    before, after = np.arange(count) - 1, np.arange(count) + 1
    first = np.flatnonzero(np.diff(polyline, prepend=-1))
    last = np.append(first[1:], count) - 1
    rings = np.hypot(*(start[first] - end[last]).T) < CLOSED_M
    before[first], after[last] = np.where(rings, last, first), np.where(rings, first, last)
    step = end - start
    return Edges(start[:, 0], start[:, 1], step[:, 0], step[:, 1], before, after)


def distance_to_road_edge(points: Floats, edges: Edges) -> Floats:
    """Return the signed distance from points (..., 2) to the nearest road edge; positive beyond it.

    At a corner of a polyline both of its segments determine the sign, as in the paper's appendix.
    """
    flat = points.reshape(-1, 2)
    distances = np.empty(len(flat))
    for part in range(0, len(flat), 2048):
        distances[part : part + 2048] = _edge_distances(flat[part : part + 2048], edges)
    return distances.reshape(points.shape[:-1])


def _edge_distances(points: Floats, edges: Edges) -> Floats:
    near = _candidates(points, edges)
    x0, y0, dx, dy = (values[near] for values in (edges.x0, edges.y0, edges.dx, edges.dy))
    px, py = points[:, :1] - x0, points[:, 1:] - y0
    square = np.maximum(dx * dx + dy * dy, 1e-12)
    share = np.clip((px * dx + py * dy) / square, 0.0, 1.0)
    distances = np.hypot(px - share * dx, py - share * dy)
    place = distances.argmin(axis=1)
    each = np.arange(len(points))
    nearest, share = near[place], ((px * dx + py * dy) / square)[each, place]
    sign = _side(points, edges, nearest)
    other = np.where(share < 0, edges.before[nearest], edges.after[nearest])
    turn = _cross(edges, np.where(share < 0, other, nearest), np.where(share < 0, nearest, other))
    theirs = _side(points, edges, other)
    corner = np.where(turn > 0, np.maximum(sign, theirs), np.minimum(sign, theirs))
    return np.asarray(np.where((share >= 0) & (share <= 1), sign, corner) * distances[each, place])


def _candidates(points: Floats, edges: Edges) -> NDArray[np.int64]:
    """Return the segments that may be the nearest one of any of the points."""
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    radius = float(np.hypot(*(points - middle).T).max())
    px, py = middle[0] - edges.x0, middle[1] - edges.y0
    square = np.maximum(edges.dx**2 + edges.dy**2, 1e-12)
    share = np.clip((px * edges.dx + py * edges.dy) / square, 0.0, 1.0)
    distance = np.hypot(px - share * edges.dx, py - share * edges.dy)
    return np.flatnonzero(distance <= distance.min() + 2 * radius)


def _side(points: Floats, edges: Edges, segment: NDArray[np.int64]) -> Floats:
    """Return 1 for points to the right of their segment, -1 to its left."""
    px, py = points[:, 0] - edges.x0[segment], points[:, 1] - edges.y0[segment]
    return np.asarray(np.sign(px * edges.dy[segment] - py * edges.dx[segment]))


def _cross(edges: Edges, first: NDArray[np.int64], second: NDArray[np.int64]) -> Floats:
    return np.asarray(edges.dx[first] * edges.dy[second] - edges.dy[first] * edges.dx[second])
