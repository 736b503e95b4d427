# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Finds road edges for maps that have surfaces between bounds, but no edges.

The rule: a bound is cut into pieces of at most STEP_M. A piece is an edge if no surface of about
the same height lies PROBE_M beyond it. At bounds of surfaces in a junction, no surface may lie up
to GAP_M beyond, so that gaps between crossing lanes count as road. Of pieces in one place only one
is kept.

Runs in the learner and in helper processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.schema import Floats
from puffervec.errors import SceneError

STEP_M, PROBE_M, GAP_M, LEVEL_M = 0.5, 0.25, 4.0, 3.0
PLACE_M = np.array([0.1, 0.1, 1.0])  # pieces this close lie in one place
MAX_COMPARED = 2_000_000_000  # pairs of probes and corners of surfaces, about half a minute
MAX_BOUNDS_M = 1_000_000  # length of all bounds together, which takes about 250 MB in pieces
AT_A_TIME = 2_000_000
PIECE = 16  # pairs of points of a strip that are compared together


@dataclass(frozen=True)
class Strip:
    """A surface on which cars may drive.

    Attributes:
        left_m, right_m: its bounds in one direction, (n, 3) and (m, 3).
        junction: it lies in a junction.
    """

    left_m: Floats
    right_m: Floats
    junction: bool = False


@dataclass(frozen=True)
class _Bound:
    """A bound in pieces.

    Attributes:
        points_m: (pieces + 1, 3).
        corner: whether each point is one of the bound's original points.
        outward: unit vectors away from the surface, (pieces, 2).
    """

    points_m: Floats
    corner: NDArray[np.bool_]
    outward: Floats
    junction: bool


def edges_of(strips: Sequence[Strip], source: str) -> list[Floats]:
    """Return the edges of a map as polylines, each (n, 3).

    Args:
        source: starts error messages.

    Raises:
        SceneError: the bounds are too long, or so many surfaces lie in one spot that comparing them
            would take too long.
    """
    length_m = sum(_length_m(line) for strip in strips for line in (strip.left_m, strip.right_m))
    if length_m > MAX_BOUNDS_M:
        raise SceneError(
            f"{source}: expected at most {MAX_BOUNDS_M / 1000:,.0f} km of bounds of surfaces, got "
            f"{length_m / 1000:,.0f} km: cut the map"
        )
    bounds = [
        bound
        for strip in strips
        for line, side in ((strip.left_m, 1.0), (strip.right_m, -1.0))
        if (bound := _bound(line, side, strip.junction)) is not None
    ]
    if not bounds:
        return []
    middle = np.concatenate([(b.points_m[:-1] + b.points_m[1:]) / 2 for b in bounds])
    outward = np.concatenate([b.outward for b in bounds])
    junction = np.repeat([b.junction for b in bounds], [len(b.outward) for b in bounds])
    hidden = np.ones(len(middle), dtype=np.bool_)
    hidden[np.unique(np.rint(middle / PLACE_M), axis=0, return_index=True)[1]] = False
    work = 0
    for far in (PROBE_M, *np.arange(1.0, GAP_M + 0.5)):
        asked = np.flatnonzero(~hidden & (junction | (far == PROBE_M)))
        probes = middle[asked].copy()
        probes[:, :2] += far * outward[asked]
        covered, compared = _covered(probes, strips)
        hidden[asked] |= covered
        work += compared
        if work > MAX_COMPARED:
            raise SceneError(f"{source}: more surfaces lie close together than can be compared")
    edges = []
    at = 0
    for bound in bounds:
        edges += _runs(bound, ~hidden[at : at + len(bound.outward)])
        at += len(bound.outward)
    return edges


def _length_m(line: Floats) -> float:
    return float(np.hypot(*np.diff(line[:, :2], axis=0).T).sum())


def _bound(line: Floats, side: float, junction: bool) -> _Bound | None:
    """Cut a bound into pieces; return None if it has no length.

    Args:
        side: 1 if the surface lies to its right, -1 if to its left.
    """
    moved = np.hypot(*np.diff(line[:, :2], axis=0).T) > 1e-6
    line = line[np.concatenate([[True], moved])]
    if len(line) < 2:
        return None
    counts = np.maximum(1, np.ceil(np.hypot(*np.diff(line[:, :2], axis=0).T) / STEP_M))
    knots = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    at = np.arange(knots[-1] + 1)
    points = np.stack([np.interp(at, knots, line[:, axis]) for axis in range(3)], axis=-1)
    corner = np.zeros(len(at), dtype=np.bool_)
    corner[knots] = True
    step = np.diff(points[:, :2], axis=0)
    outward = side * np.stack([-step[:, 1], step[:, 0]], axis=-1)
    outward /= np.maximum(np.hypot(*outward.T), 1e-12)[:, None]
    return _Bound(points, corner, outward, junction)


def _covered(probes: Floats, strips: Sequence[Strip]) -> tuple[NDArray[np.bool_], int]:
    """Return which probes lie on a surface, and the number of pairs that were compared."""
    covered = np.zeros(len(probes), dtype=np.bool_)
    order = np.argsort(probes[:, 0], kind="stable")
    x = probes[order, 0]
    compared = 0
    for ring in (ring for strip in strips for ring in _rings(strip)):
        low, high = ring.min(axis=0), ring.max(axis=0)
        low[2], high[2] = low[2] - LEVEL_M, high[2] + LEVEL_M
        first, end = np.searchsorted(x, low[0], "left"), np.searchsorted(x, high[0], "right")
        near = order[first:end]
        there = probes[near, 1:]
        inside_box = ((there >= low[1:]) & (there <= high[1:])).all(axis=1)
        near = near[inside_box & ~covered[near]]
        compared += len(near) * len(ring)
        if compared > MAX_COMPARED:
            break
        for begin in range(0, len(near), max(1, AT_A_TIME // len(ring))):
            some = near[begin : begin + max(1, AT_A_TIME // len(ring))]
            covered[some] = _inside(probes[some, :2], ring[:, :2])
    return covered, compared


def _rings(strip: Strip) -> list[Floats]:
    """Return the polygon of a strip, (n, 3); a long strip gives several, with smaller boxes."""
    left, right = strip.left_m, strip.right_m
    starts = range(0, len(left) - 1, PIECE) if len(left) == len(right) else [0]
    size = PIECE if len(left) == len(right) else max(len(left), len(right))
    return [
        np.concatenate([left[at : at + size + 1], right[at : at + size + 1][::-1]]) for at in starts
    ]


def _inside(places: Floats, ring: Floats) -> NDArray[np.bool_]:
    """Return which places (p, 2) lie in a polygon (n, 2): those around which it winds."""
    x, y = places[:, :1], places[:, 1:]
    (ax, ay), (bx, by) = ring.T, np.roll(ring, -1, axis=0).T
    left = (bx - ax) * (y - ay) - (x - ax) * (by - ay)
    up, down = (ay <= y) & (by > y) & (left > 0), (ay > y) & (by <= y) & (left < 0)
    return np.asarray(up.sum(axis=1) != down.sum(axis=1))


def _runs(bound: _Bound, free: NDArray[np.bool_]) -> list[Floats]:
    """Return the runs of free pieces as polylines, without points that the bound does not have."""
    changes = np.flatnonzero(np.diff(np.concatenate([[0], free.astype(np.int8), [0]])))
    lines = []
    for first, last in zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True):
        kept = bound.corner[first : last + 1].copy()
        kept[[0, -1]] = True
        lines.append(bound.points_m[first : last + 1][kept])
    return lines
