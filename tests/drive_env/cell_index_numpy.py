# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The slow, obvious cell index: segments that can be among the k nearest of a point of a cell. Twin
of csrc/drive/compile/index.c.
"""

from __future__ import annotations

import numpy as np

from drive_env.scenes.cells import Grid
from drive_env.scenes.packed import CELL, CELL_EMPTY
from drive_env.scenes.segments import Segments


def build_index(
    segments: Segments, grid: Grid, index_k: tuple[int, int, int], range_m: float, most: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Cells (ny * nx,) CELL and candidates (n,) uint16, all of them, as
    drive_env.scenes.cells.build_index.
    """
    cells = np.zeros(grid.nx * grid.ny, dtype=CELL)
    cells["first"] = CELL_EMPTY
    candidates: list[int] = []
    bounds = np.concatenate([[0], np.cumsum(segments.count)])
    dx, dy = segments.ux * segments.half, segments.uy * segments.half
    start = np.stack([segments.x - dx, segments.y - dy], axis=-1).astype(np.float64)
    end = np.stack([segments.x + dx, segments.y + dy], axis=-1).astype(np.float64)
    for cell in np.flatnonzero(grid.wanted):
        low = np.array(
            [
                grid.x0_m + (cell % grid.nx) * grid.cell_m,
                grid.y0_m + (cell // grid.nx) * grid.cell_m,
            ]
        )
        high = low + grid.cell_m
        nearest, farthest = box_distances(start, end, low, high)
        cells["first"][cell] = len(candidates)
        for kind in range(3):
            span = slice(bounds[kind], bounds[kind + 1])
            within = np.flatnonzero(
                nearest[span] <= min(range_m, kth(farthest[span], index_k[kind])) + 1e-3
            )
            within = within if index_k[kind] else within[:0]
            cells["count"][cell][kind] = len(within)
            candidates.extend((within + bounds[kind]).tolist())
    return cells, np.array(candidates, dtype=np.uint16)


def kth(values: np.ndarray, k: int) -> float:
    """The k-th smallest value; infinite where there are fewer."""
    return float(np.partition(values, k - 1)[k - 1]) if 0 < k <= len(values) else float("inf")


def box_distances(
    start: np.ndarray, end: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest distance of each segment (n, 2) from the points of a box."""
    corners = np.array([[low[0], low[1]], [high[0], low[1]], [high[0], high[1]], [low[0], high[1]]])
    to_corner = np.stack([point_distance(corner, start, end) for corner in corners])
    to_end = np.stack([np.hypot(*(point - np.clip(point, low, high)).T) for point in (start, end)])
    crosses = np.any(
        [crossing(start, end, corners[i], corners[(i + 1) % 4]) for i in range(4)], axis=0
    )
    nearest = np.minimum(to_corner.min(axis=0), to_end.min(axis=0))
    return np.where(crosses, 0.0, nearest), to_corner.max(
        axis=0
    )  # distance is convex, so its maximum is at a corner


def point_distance(point: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Distance of one point from each segment."""
    direction = end - start
    share = np.clip(((point - start) * direction).sum(-1) / (direction**2).sum(-1), 0, 1)
    return np.hypot(*(point - start - share[:, None] * direction).T)


def crossing(start: np.ndarray, end: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Which segments properly cross the segment a-b."""

    def side(p: np.ndarray, q: np.ndarray, r: np.ndarray) -> np.ndarray:
        return (q - p)[..., 0] * (r - p)[..., 1] - (q - p)[..., 1] * (r - p)[..., 0]

    return (side(a, b, start) * side(a, b, end) < 0) & (
        side(start, end, a) * side(start, end, b) < 0
    )
