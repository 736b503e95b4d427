# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Decides whether a scene has more than one level, so that contacts must compare heights.

Runs in the learner when a scene is compiled; csrc/drive/motion/height.c compares the heights. At a
bridge there are two grounds in one place; on a hill there is only one, so boxes that overlap there
touch, however high the hill is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes import packed
from drive_env.scenes.schema import Floats
from drive_env.scenes.segments import Segments

# Grounds in one place that differ by at most this are on one level (csrc/drive/judge/collide.c).
SAME_LEVEL_M = 1.0
PLACE_M = 4.0  # points at most this far apart, along x and along y, are in one place
# Offsets to half of the cells around a cell, so that each pair of cells is compared once.
AHEAD = ((1, -1), (1, 0), (1, 1), (0, 1))


def has_levels(objects: NDArray[Any], frames: NDArray[Any], segments: Segments) -> bool:
    """Return whether the ground differs by more than SAME_LEVEL_M in one place.

    The ground is known at segments and under objects.
    """
    points = np.concatenate([_under(objects, frames), _along(segments)])
    if not len(points) or float(np.ptp(points[:, 2])) <= SAME_LEVEL_M:
        return False
    cells, low, high = _cells(points)
    if (high - low).max() > SAME_LEVEL_M:
        return True
    for step in AHEAD:
        neighbours = cells + step[0] * _stride(points) + step[1]
        at = np.minimum(np.searchsorted(cells, neighbours), len(cells) - 1)
        rise = np.maximum(high, high[at]) - np.minimum(low, low[at])
        if (rise[cells[at] == neighbours] > SAME_LEVEL_M).any():
            return True
    return False


def _under(objects: NDArray[Any], frames: NDArray[Any]) -> Floats:
    """Return the points (n, 3) on which logged objects stand."""
    ground = frames["z_m"] - np.repeat(objects["height_m"] / 2, objects["frame_count"])
    points = np.stack([frames["x_m"], frames["y_m"], ground], axis=1).astype(np.float64)
    return np.asarray(points[frames["speed"] != packed.FRAME_INVALID])


def _along(segments: Segments) -> Floats:
    """Return points (n, 3) on all segments, at most PLACE_M apart.

    Where two segments cross, some points of both are in one place.
    """
    pieces = np.maximum(np.ceil(2.0 * segments.half / PLACE_M), 1.0).astype(np.int64)
    which = np.repeat(np.arange(len(pieces)), pieces + 1)
    number = np.arange(len(which)) - np.repeat(np.cumsum(pieces + 1) - (pieces + 1), pieces + 1)
    along = (2.0 * number / pieces[which] - 1.0) * segments.half[which]
    rises = (segments.ux, segments.uy, segments.slope)
    middles = (segments.x, segments.y, segments.z)
    return np.stack(
        [middle[which] + along * rise[which] for middle, rise in zip(middles, rises, strict=True)],
        axis=1,
    )


def _stride(points: Floats) -> int:
    """Return the difference between the numbers of two cells adjacent along x.

    Two numbers after each column stay free, so neighbours of a cell never wrap into other columns.
    """
    return int(np.ptp(np.floor(points[:, 1] / PLACE_M))) + 3


def _cells(points: Floats) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return the numbers (n,) of cells that have points, and their lowest and highest ground.

    The numbers are ascending; cells are PLACE_M wide.
    """
    column, line = np.floor(points[:, :2] / PLACE_M).astype(np.int64).T
    number = (column - column.min()) * _stride(points) + line - line.min()
    order = np.argsort(number, kind="stable")
    number, heights = number[order], points[order, 2]
    first = np.flatnonzero(np.concatenate([[True], number[1:] != number[:-1]]))
    return number[first], np.minimum.reduceat(heights, first), np.maximum.reduceat(heights, first)
