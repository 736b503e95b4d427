# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Simplifies dense polylines to few straight segments, and tests oriented boxes for overlap.

Runs in the learner, not per step. Data sets sample lanes and edges every 0.5 m; the env needs
segments, and its cost grows with their number. The method is that of Douglas and Peucker (1973); it
is implemented in C (csrc/drive/compile/simplify.c).

Bound: no input point is farther than `tolerance_m` from the segment that replaces its part of the
polyline. The converse holds as well: that part runs from one end of the segment to the other within
the tolerance, so every point of the segment is that close to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.schema import Floats
from puffervec._ffi import ffi, lib
from puffervec.errors import SceneError

JOIN_M = 1e-3  # points closer than this are merged, so all segments are longer
FAR_GOAL_M = 500.0  # a goal this far outside of all roads and logs is unreachable
NO_MEMORY = -(1 << 63)


def simplify(points_m: Floats, tolerance_m: float) -> Floats:
    """Drop points of a polyline so that none lies farther than the tolerance from what remains.

    Args:
        points_m: (n, 2) or, with heights, (n, 3) finite float64, metres. Distances are in the
            plane; heights stay within 0.2 m.
        tolerance_m: bound on the distance, 0 or more; 0 keeps all points except those exactly on a
            straight stretch.

    Returns:
        (m, 2) or (m, 3) with m <= n, a subset of the points, in order, with the first and (up to 1
            mm) the last; m is 0 or 1 if the polyline has no extent.

    Raises:
        SceneError: thousands of points split off one at a time, which would take quadratic time.
    """
    return simplify_all(points_m, [len(points_m)], [tolerance_m], [False])[0]


def fit(points_m: Floats, tolerance_m: float) -> Floats:
    """Simplify a polyline, and move the remaining points to fit the line (least squares).

    A simplified line cuts every bend on its inside; the fitted one lies on both sides of it, at
    about half the distance. So a fitted edge changes fewer contacts than an unfitted one with as
    many segments.

    Arguments, result and errors are those of `simplify`; the first and the last point stay, and the
    tolerance holds.
    """
    return simplify_all(points_m, [len(points_m)], [tolerance_m], [True])[0]


def simplify_all(
    points_m: Floats,
    sizes: Sequence[int],
    tolerances_m: Sequence[float],
    fitted: Sequence[bool],
    names: Sequence[str] = (),
) -> tuple[Floats, NDArray[np.int64]]:
    """Simplify many polylines in C (csrc/drive/compile/simplify.c).

    Args:
        points_m: (n, 2 or 3) of all polylines, one after another.
        sizes: (L,) points of each.
        tolerances_m: (L,) see `simplify`.
        fitted: (L,) which ones are also fitted, see `fit`.
        names: (L,) names of the polylines in errors.

    Returns:
        The remaining points, (m, 2 or 3), and how many of them each polyline has, (L,).

    Raises:
        SceneError: see `simplify`.
    """
    points = np.ascontiguousarray(points_m, np.float64)
    out = np.empty_like(points)
    inputs = [
        np.array(values, kind)
        for values, kind in ((sizes, np.uint64), (tolerances_m, np.float64), (fitted, np.uint8))
    ]
    kept = np.zeros(len(sizes), np.uint64)
    pointers = [
        ffi.from_buffer(kind, item)
        for kind, item in zip(("uint64_t[]", "double[]", "uint8_t[]"), inputs, strict=True)
    ]
    total = lib.pv_drive_simplify(
        ffi.from_buffer("double[]", points), points.shape[1],
        pointers[0], len(sizes), *pointers[1:],
        ffi.from_buffer("double[]", out), ffi.from_buffer("uint64_t[]", kept))  # fmt: skip
    if total == NO_MEMORY:
        raise MemoryError(f"polylines of {len(points)} points cannot be simplified: out of memory")
    if total < 0:
        name = names[-1 - total] if names else "a polyline"
        raise SceneError(
            f"{name} of {sizes[-1 - total]} points is too crooked to be simplified: thin it out, "
            "or cut it"
        )
    return out[:total], kept.astype(np.int64)


def pieces_of(points_m: Floats, sizes: NDArray[np.int64], longest_m: float) -> NDArray[np.int64]:
    """Return the number of pieces of the line from each point to the next, (n,).

    Pieces are at most `longest_m` long.

    Args:
        points_m: (n, 2 or 3) of polylines, one after another.
        sizes: (L,) points of each, at least one; the last point of each gets 1.
    """
    lengths = np.hypot(*np.diff(points_m[:, :2], axis=0).T)
    pieces = np.ones(len(points_m), np.int64)
    pieces[:-1] = np.maximum(1, np.ceil(lengths / longest_m - 1e-9))
    pieces[np.cumsum(sizes) - 1] = 1
    return pieces


def split(points_m: Floats, pieces: NDArray[np.int64]) -> Floats:
    """Insert points, so that the line from each point to the next has that many pieces.

    Args:
        points_m: (n, 2 or 3).
        pieces: (n,).

    Returns:
        (m, 2 or 3).
    """
    if pieces.max(initial=1) == 1:
        return points_m
    start = np.repeat(np.arange(len(pieces)), pieces)
    share = (np.arange(len(start)) - np.repeat(np.cumsum(pieces) - pieces, pieces)) / pieces[start]
    after = np.minimum(start + 1, len(points_m) - 1)
    return np.asarray(points_m[start] + share[:, None] * (points_m[after] - points_m[start]))


def boxes_overlap(
    offset_m: Floats,
    heading: Floats,
    other_heading: Floats,
    half: tuple[Floats, Floats],
    other_half: tuple[Floats, Floats],
) -> NDArray[np.bool_]:
    """Return whether boxes overlap; arrays broadcast.

    Source: separating axes, Ericson, Real-Time Collision Detection, 4.4.

    Args:
        offset_m: (..., 2) centre of the other box minus centre of this one.
        heading, other_heading: (...) radians.
        half, other_half: half length and half width of each, (...) metres.
    """
    dx, dy = offset_m[..., 0], offset_m[..., 1]
    cos, sin = np.cos(heading), np.sin(heading)
    other_cos, other_sin = np.cos(other_heading), np.sin(other_heading)
    along, across = (
        np.abs(cos * other_cos + sin * other_sin),
        np.abs(cos * other_sin - sin * other_cos),
    )
    (length, width), (other_length, other_width) = half, other_half
    apart = np.abs(dx * cos + dy * sin) > length + other_length * along + other_width * across
    apart |= np.abs(-dx * sin + dy * cos) > width + other_length * across + other_width * along
    apart |= (
        np.abs(dx * other_cos + dy * other_sin) > other_length + length * along + width * across
    )
    apart |= (
        np.abs(-dx * other_sin + dy * other_cos) > other_width + length * across + width * along
    )
    return np.asarray(~apart)


def box_crosses_segment(
    centre_m: Floats,
    heading: Floats,
    half_length_m: float,
    half_width_m: float,
    start_m: Floats,
    end_m: Floats,
) -> NDArray[np.bool_]:
    """Return (P, S) bool: whether segments touch boxes.

    The segment is clipped against the box in the box's own frame (Liang and Barsky 1984).

    Args:
        centre_m, heading: (P, 2) and (P,), of the boxes.
        start_m, end_m: (S, 2), ends of the segments.
    """
    cos, sin = np.cos(heading)[:, None], np.sin(heading)[:, None]

    def local(points: Floats) -> tuple[Floats, Floats]:
        dx, dy = (
            points[None, :, 0] - centre_m[:, None, 0],
            points[None, :, 1] - centre_m[:, None, 1],
        )
        return dx * cos + dy * sin, -dx * sin + dy * cos

    (x0, y0), (x1, y1) = local(start_m), local(end_m)
    enter, leave = np.zeros_like(x0), np.ones_like(x0)
    with np.errstate(divide="ignore", invalid="ignore"):
        for first, last, half in ((x0, x1, half_length_m), (y0, y1, half_width_m)):
            step = last - first
            near, far = (-half - first) / step, (half - first) / step
            flat = step == 0  # parallel to this pair of sides: always between them, or never
            inside = np.abs(first) <= half
            enter = np.maximum(
                enter, np.where(flat, np.where(inside, -np.inf, np.inf), np.minimum(near, far))
            )
            leave = np.minimum(
                leave, np.where(flat, np.where(inside, np.inf, -np.inf), np.maximum(near, far))
            )
    return np.asarray(enter <= leave)


def beyond(goals_m: Floats, places_m: Floats) -> NDArray[np.bool_]:
    """Return which goals (n, 2) lie more than FAR_GOAL_M outside of the box around places (m, 2).

    No goal does if there is no place.
    """
    if not len(places_m):
        return np.zeros(len(goals_m), dtype=np.bool_)
    low, high = places_m.min(axis=0) - FAR_GOAL_M, places_m.max(axis=0) + FAR_GOAL_M
    return np.asarray(((goals_m < low) | (goals_m > high)).any(axis=1))
