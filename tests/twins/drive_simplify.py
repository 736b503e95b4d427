# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The twin of csrc/drive/compile/simplify.c: polylines with few points, within a tolerance (Douglas
and Peucker 1973).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

HEIGHT_M = 0.2
JOIN_M = 1e-3
MOST_LOOKS, MOST_LOOKS_PER_POINT = 20_000_000, 200
Floats = NDArray[np.float64]


class TooCrooked(Exception):
    """The polyline would take time by the square of its points."""


def simplify(points_m: Floats, tolerance_m: float) -> Floats:
    """`drive_env.scenes.geometry.simplify`; TooCrooked where that is an error."""
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
            raise TooCrooked
        deviation = _deviation(points[first : last + 1], tolerance_m)
        worst = int(deviation.argmax())
        if deviation[worst] > tolerance_m * tolerance_m:
            middle = first + 1 + worst
            keep[middle] = True
            pending += [(first, middle), (middle, last)]
    return keep


def fit(points_m: Floats, tolerance_m: float) -> Floats:
    """`drive_env.scenes.geometry.fit`."""
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
    return (
        fitted
        if moved <= tolerance_m and _most(points, fitted[piece], fitted[piece + 1]) <= tolerance_m
        else kept
    )


def _least_squares(points: Floats, kept: Floats, piece: NDArray[np.int64]) -> Floats:
    """Return the kept points, moved so that the points are nearest to the line. piece: (n,) on
    which piece of it each is.
    """
    step, offset = kept[piece + 1] - kept[piece], points - kept[piece]
    share = (offset[:, :2] * step[:, :2]).sum(axis=1) / np.maximum(
        (step[:, :2] ** 2).sum(axis=1), JOIN_M**2
    )
    after = np.clip(share, 0.0, 1.0)
    before, count = 1.0 - after, len(kept)
    # the normal equations, whose matrix has three diagonals
    diagonal = np.bincount(piece, before * before, count) + np.bincount(
        piece + 1, after * after, count
    )
    beside = np.bincount(piece, before * after, count)[:-1]
    matrix = np.diag(diagonal + JOIN_M**2) + np.diag(beside, 1) + np.diag(beside, -1)
    right = np.stack(
        [
            np.bincount(piece, before * axis, count) + np.bincount(piece + 1, after * axis, count)
            for axis in points.T
        ],
        axis=-1,
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
    share = np.clip(
        (offset * step).sum(axis=1) / np.maximum((step**2).sum(axis=1), JOIN_M**2), 0.0, 1.0
    )
    return float(np.hypot(*(offset - share[:, None] * step).T).max())


def _deviation(points_m: Floats, tolerance_m: float) -> Floats:
    """Return the squared distances of the inner points (n - 2,) from the straight line between the
    first and the last.

    Heights count too, scaled so that HEIGHT_M is as much as the tolerance.
    """
    offset = (points_m[1:-1] - points_m[0]).T
    dx, dy, *dz = (points_m[-1] - points_m[0]).tolist()
    length2 = dx * dx + dy * dy
    share = (
        (offset[0] * dx + offset[1] * dy) / length2 if length2 > 0 else np.zeros(offset.shape[1])
    )
    share = np.clip(share, 0.0, 1.0)
    distance2 = (offset[0] - share * dx) ** 2 + (offset[1] - share * dy) ** 2
    if not dz:
        return np.asarray(distance2)
    rise = (offset[2] - share * dz[0]) * (max(tolerance_m, JOIN_M) / HEIGHT_M)
    return np.asarray(np.maximum(distance2, rise**2))


def _distinct(points_m: Floats) -> Floats:
    """Drop points that coincide with the one kept before them."""
    kept: list[int] = []
    for index, point in enumerate(points_m[:, :2]):
        if not kept or ((point - points_m[kept[-1], :2]) ** 2).sum() > JOIN_M**2:
            kept.append(index)
    return points_m[kept]
