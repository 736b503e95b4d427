# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Turns dense polylines into few straight segments, within a tolerance; and tests oriented boxes for overlap.

Runs in the learner, not per step. Data sets sample lanes and edges every 0.5 m; the env needs segments, and its cost grows with
their number. Source of the method: Douglas and Peucker 1973, written as a loop.

Bound: no input point is farther than `tolerance_m` from the segment that replaces its part of the polyline. The converse holds
as well: that part runs from one end of the segment to the other within the tolerance, so every point of the segment is as near
to it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.schema import Floats
from puffervec.errors import SceneError

HEIGHT_M = 0.2  # largest deviation of the height of a simplified polyline
JOIN_M = 1e-3  # a point closer to its predecessor counts as the same; all segments are longer
MOST_LOOKS, MOST_LOOKS_PER_POINT = 20_000_000, 200  # distances computed per polyline, in all; roads need about 15 per point


def simplify(points_m: Floats, tolerance_m: float) -> Floats:
    """Drop points of a polyline so that none lies farther than the tolerance from what remains.

    Args:
        points_m: (n, 2) or, with heights, (n, 3) float64, metres. Distances are in the plane; heights stay within HEIGHT_M.
        tolerance_m: bound on the distance, 0 or more; 0 keeps all but points exactly on a straight stretch.

    Returns:
        (m, 2) or (m, 3) with m <= n, a subset of the points, in order, with the first and (up to 1 mm) the last; m is 0 or 1 if
        the polyline has no extent.

    Raises:
        SceneError: thousands of points split off one at a time, which would take time by the square of their number.
    """
    points = _distinct(points_m)
    return _distinct(points[_corners(points, tolerance_m)]) if len(points) > 2 else points


def _corners(points: Floats, tolerance_m: float) -> NDArray[np.bool_]:
    """Return which of at least two points a simplified polyline keeps, (n,)."""
    keep = np.zeros(len(points), dtype=bool)
    keep[[0, -1]] = True
    pending = [(0, len(points) - 1)]
    looks = 0
    while pending:
        first, last = pending.pop()
        if last - first < 2:
            continue
        looks += last - first
        if looks > MOST_LOOKS + MOST_LOOKS_PER_POINT * len(points):
            raise SceneError(f"a polyline of {len(points)} points is too crooked to be simplified: thin it out, or cut it")
        distance = _deviation(points[first : last + 1], tolerance_m)
        worst = int(distance.argmax())
        if distance[worst] > tolerance_m:
            middle = first + 1 + worst
            keep[middle] = True
            pending += [(first, middle), (middle, last)]
    return keep


def fit(points_m: Floats, tolerance_m: float) -> Floats:
    """Simplify a polyline, and move the points that are left to where the line is nearest to all of them (least squares).

    A simplified line cuts every bend on its inside; the fitted one lies on both sides of it, at about half the distance. So an
    edge that is fitted changes fewer contacts than one of as many segments that is not.

    Args, Returns, Raises: as `simplify`; the first and the last point stay, and the tolerance holds.
    """
    points = _distinct(points_m)
    if len(points) < 3:
        return points
    at = np.flatnonzero(_corners(points, tolerance_m))
    kept = points[at]
    if len(kept) < 3 or len(_distinct(kept)) < len(kept):
        return _distinct(kept)
    piece = np.minimum(np.searchsorted(at, np.arange(len(points)), "right") - 1, len(kept) - 2)
    fitted = _least_squares(points, kept, piece)
    moved = float(np.hypot(*(fitted - kept)[:, :2].T).max())
    return fitted if moved <= tolerance_m and _most(points, fitted[piece], fitted[piece + 1]) <= tolerance_m else kept


def _least_squares(points: Floats, kept: Floats, piece: NDArray[np.int64]) -> Floats:
    """Return the kept points, moved so that the points are nearest to the line. piece: (n,) on which piece of it each is."""
    step, offset = kept[piece + 1] - kept[piece], points - kept[piece]
    share = (offset[:, :2] * step[:, :2]).sum(axis=1) / np.maximum((step[:, :2] ** 2).sum(axis=1), JOIN_M**2)
    after = np.clip(share, 0.0, 1.0)
    before, count = 1.0 - after, len(kept)
    # the normal equations, whose matrix has three diagonals
    diagonal = np.bincount(piece, before * before, count) + np.bincount(piece + 1, after * after, count)
    beside = np.bincount(piece, before * after, count)[:-1]
    matrix = np.diag(diagonal + JOIN_M**2) + np.diag(beside, 1) + np.diag(beside, -1)
    right = np.stack(
        [np.bincount(piece, before * axis, count) + np.bincount(piece + 1, after * axis, count) for axis in points.T], axis=-1
    )
    right += JOIN_M**2 * kept
    matrix[[0, -1]] = 0.0
    matrix[[0, -1], [0, -1]] = 1.0
    right[[0, -1]] = kept[[0, -1]]
    fitted = np.asarray(np.linalg.solve(matrix, right))
    fitted[[0, -1]] = kept[[0, -1]]
    return fitted


def _most(points_m: Floats, start_m: Floats, end_m: Floats) -> float:
    """Return the largest distance of points (n, 2 or 3) from their own segments in the plane."""
    step, offset = (end_m - start_m)[:, :2], (points_m - start_m)[:, :2]
    share = np.clip((offset * step).sum(axis=1) / np.maximum((step**2).sum(axis=1), JOIN_M**2), 0.0, 1.0)
    return float(np.hypot(*(offset - share[:, None] * step).T).max())


def _deviation(points_m: Floats, tolerance_m: float) -> Floats:
    """Return the distances of the inner points (n - 2,) from the straight line between the first and the last.

    Heights count too, scaled so that HEIGHT_M is as much as the tolerance.
    """
    offset = (points_m[1:-1] - points_m[0]).T
    dx, dy, *dz = (points_m[-1] - points_m[0]).tolist()
    length2 = dx * dx + dy * dy
    share = (offset[0] * dx + offset[1] * dy) / length2 if length2 > 0 else np.zeros(offset.shape[1])
    np.maximum(np.minimum(share, 1.0, out=share), 0.0, out=share)  # three times as fast as np.clip, and there are thousands
    distance = np.hypot(offset[0] - share * dx, offset[1] - share * dy)
    if not dz:
        return np.asarray(distance)
    rise = np.abs(offset[2] - share * dz[0])
    return np.asarray(np.maximum(distance, rise * (max(tolerance_m, JOIN_M) / HEIGHT_M)))


def split(points_m: Floats, longest_m: float) -> Floats:
    """Insert points on the line: no segment stays longer than `longest_m`. (n, 2 or 3) -> (m, 2 or 3), m >= n."""
    if len(points_m) < 2:
        return points_m
    pieces = _pieces(points_m, longest_m)
    if pieces.max(initial=1) == 1:
        return points_m
    start = np.repeat(np.arange(len(pieces)), pieces)
    share = (np.arange(len(start)) - np.repeat(np.cumsum(pieces) - pieces, pieces)) / pieces[start]
    inner = points_m[start] + share[:, None] * (points_m[start + 1] - points_m[start])
    return np.concatenate([inner, points_m[-1:]])


def split_count(points_m: Floats, longest_m: float) -> int:
    """Return the number of segments that `split` would make of at least two points (n, 2 or 3)."""
    return int(_pieces(points_m, longest_m).sum())


def _pieces(points_m: Floats, longest_m: float) -> NDArray[np.int64]:
    lengths = np.hypot(*np.diff(points_m[:, :2], axis=0).T)
    return np.asarray(np.maximum(1, np.ceil(lengths / longest_m - 1e-9)).astype(np.int64))


def segment_distance(points_m: Floats, start_m: Floats, end_m: Floats) -> Floats:
    """Return the distances of points (n, 2) from the segment between two points (2,), (n,) metres; it may have no length."""
    direction = end_m - start_m
    length2 = float(direction @ direction)
    offset = points_m - start_m
    share = np.clip(offset @ direction / length2, 0.0, 1.0) if length2 > 0 else np.zeros(len(points_m))
    return np.asarray(np.hypot(*(offset - share[:, None] * direction).T))


def _distinct(points_m: Floats) -> Floats:
    """Drop points that coincide with the one kept before them."""
    if len(points_m) < 2:
        return points_m
    plane = points_m[:, :2]
    if float(np.hypot(*np.diff(plane, axis=0).T).min()) > JOIN_M:
        return points_m
    kept = [0]
    for index in range(1, len(points_m)):
        if np.hypot(*(plane[index] - plane[kept[-1]])) > JOIN_M:
            kept.append(index)
    return points_m[kept]


def boxes_overlap(
    offset_m: Floats, heading: Floats, other_heading: Floats, half: tuple[Floats, Floats], other_half: tuple[Floats, Floats]
) -> NDArray[np.bool_]:
    """Return whether boxes overlap; arrays broadcast. Source: separating axes, Ericson, Real-Time Collision Detection, 4.4.

    Args:
        offset_m: (..., 2) centre of the other box minus centre of this one.
        heading, other_heading: (...) radians.
        half, other_half: half length and half width of each, (...) metres.
    """
    dx, dy = offset_m[..., 0], offset_m[..., 1]
    cos, sin = np.cos(heading), np.sin(heading)
    other_cos, other_sin = np.cos(other_heading), np.sin(other_heading)
    along, across = np.abs(cos * other_cos + sin * other_sin), np.abs(cos * other_sin - sin * other_cos)
    (length, width), (other_length, other_width) = half, other_half
    apart = np.abs(dx * cos + dy * sin) > length + other_length * along + other_width * across
    apart |= np.abs(-dx * sin + dy * cos) > width + other_length * across + other_width * along
    apart |= np.abs(dx * other_cos + dy * other_sin) > other_length + length * along + width * across
    apart |= np.abs(-dx * other_sin + dy * other_cos) > other_width + length * across + width * along
    return np.asarray(~apart)


def box_crosses_segment(
    centre_m: Floats, heading: Floats, half_length_m: float, half_width_m: float, start_m: Floats, end_m: Floats
) -> NDArray[np.bool_]:
    """Return (P, S) bool: whether segments with ends (S, 2) touch boxes with centres (P, 2) and headings (P,).

    The segment is clipped against the box in the box's own frame (Liang and Barsky 1984).
    """
    cos, sin = np.cos(heading)[:, None], np.sin(heading)[:, None]

    def local(points: Floats) -> tuple[Floats, Floats]:
        dx, dy = points[None, :, 0] - centre_m[:, None, 0], points[None, :, 1] - centre_m[:, None, 1]
        return dx * cos + dy * sin, -dx * sin + dy * cos

    (x0, y0), (x1, y1) = local(start_m), local(end_m)
    enter, leave = np.zeros_like(x0), np.ones_like(x0)
    with np.errstate(divide="ignore", invalid="ignore"):
        for first, last, half in ((x0, x1, half_length_m), (y0, y1, half_width_m)):
            step = last - first
            near, far = (-half - first) / step, (half - first) / step
            flat = step == 0  # parallel to this pair of sides: always between them, or never
            inside = np.abs(first) <= half
            enter = np.maximum(enter, np.where(flat, np.where(inside, -np.inf, np.inf), np.minimum(near, far)))
            leave = np.minimum(leave, np.where(flat, np.where(inside, np.inf, -np.inf), np.maximum(near, far)))
    return np.asarray(enter <= leave)
