# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Whether a scene has more than one level, so that contacts have to look at heights
(csrc/drive/motion/height.c).

Runs in the learner when a scene is compiled. A bridge has two grounds in one place, a hill has one
everywhere: boxes that overlap on a hill touch, however high it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes import packed
from drive_env.scenes.schema import Floats
from drive_env.scenes.segments import Segments

# Grounds of one place that differ by no more than this are on one level
# (csrc/drive/judge/collide.c)
SAME_LEVEL_M = 1.0
PLACE_M = 4.0  # points that are no farther apart, along x and along y, are in one place
AHEAD = (
    (1, -1),
    (1, 0),
    (1, 1),
    (0, 1),
)  # half of the cells around one: the others have this one ahead


def has_levels(objects: NDArray[Any], frames: NDArray[Any], segments: Segments) -> bool:
    """Return whether the ground, at segments and under objects, differs by more than SAME_LEVEL_M
    in one place.
    """
    points = np.concatenate([_under(objects, frames), _along(segments)])
    if not len(points) or float(np.ptp(points[:, 2])) <= SAME_LEVEL_M:
        return False
    cells, low, high = _cells(points)
    if (high - low).max() > SAME_LEVEL_M:
        return True
    for step in AHEAD:
        beside = cells + step[0] * _stride(points) + step[1]
        found = np.minimum(np.searchsorted(cells, beside), len(cells) - 1)
        rise = np.maximum(high, high[found]) - np.minimum(low, low[found])
        if (rise[cells[found] == beside] > SAME_LEVEL_M).any():
            return True
    return False


def _under(objects: NDArray[Any], frames: NDArray[Any]) -> Floats:
    """Return the points (n, 3) that logged objects stand on."""
    ground = frames["z_m"] - np.repeat(objects["height_m"] / 2, objects["frame_count"])
    points = np.stack([frames["x_m"], frames["y_m"], ground], axis=1).astype(np.float64)
    return np.asarray(points[frames["speed"] != packed.FRAME_INVALID])


def _along(segments: Segments) -> Floats:
    """Return points (n, 3) of all segments, at most PLACE_M apart: where two cross, some of both
    are in one place.
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
    """Return how far the numbers of two cells beside each other along x are apart; there is a free
    cell between two columns.
    """
    return int(np.ptp(np.floor(points[:, 1] / PLACE_M))) + 3


def _cells(points: Floats) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return the numbers (n,) of the cells of PLACE_M that have points, ascending, and their lowest
    and highest ground.
    """
    column, line = np.floor(points[:, :2] / PLACE_M).astype(np.int64).T
    number = (column - column.min()) * _stride(points) + line - line.min()
    order = np.argsort(number, kind="stable")
    number, heights = number[order], points[order, 2]
    first = np.flatnonzero(np.concatenate([[True], number[1:] != number[:-1]]))
    return number[first], np.minimum.reduceat(heights, first), np.maximum.reduceat(heights, first)
