# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The cell index of a scene: the segments that may be among the k nearest to a point.

Runs in the learner; csrc/drive/compile/index.c builds it. Cells where no car is expected are left
out; there the env scans all segments, which is slower but gives the same result. So the choice of
cells trades bytes for speed and does not change observations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.packed import CELL
from drive_env.scenes.schema import Floats
from drive_env.scenes.segments import SPLIT_M, Segments
from puffervec._ffi import ffi, lib
from puffervec.errors import SceneError

# Sizes to choose from; 5 m gave the shortest lists of candidates.
CELLS_M = (5.0, 6.0, 8.0, 10.0, 14.0, 20.0, 28.0)
# Cells within this distance of a lane or a logged vehicle are indexed, because untrained policies
# leave the road.
MARGIN_M = 10.0
MAX_CELLS = 1 << 14
MOST_CANDIDATES, CANDIDATE_BYTES = 1 << 30, 2
# Most distances computed to build an index, over all cell sizes; takes a fraction of a second
MOST_LOOKS = 60_000_000
PLACE_STEP_M = 3.0  # spacing of the points along lanes around which cells are indexed


@dataclass(frozen=True)
class Grid:
    """A uniform grid. Cell (ix, iy) is number iy * nx + ix.

    This cell covers cell_m metres from x0_m + ix * cell_m and from y0_m + iy * cell_m.
    """

    x0_m: float
    y0_m: float
    cell_m: float
    nx: int
    ny: int
    wanted: NDArray[np.uint8]  # (ny * nx,) 1: index this cell, since cars are expected


def choose_grid(places_m: Floats, cell_m: float) -> Grid:
    """Return the grid around the places (n, 2) where cars are expected; cells near them are wanted.

    Cells grow if there would be more than MAX_CELLS. Without places the grid is one cell that is
    not wanted.
    """
    if len(places_m) == 0:
        return Grid(0.0, 0.0, cell_m, 1, 1, np.zeros(1, dtype=np.uint8))
    low = places_m.min(axis=0) - MARGIN_M
    extent = places_m.max(axis=0) + MARGIN_M - low
    while math.ceil(extent[0] / cell_m) * math.ceil(extent[1] / cell_m) > MAX_CELLS:
        cell_m *= 1.25
    # float32 as in the file: C and Python have to agree on the cell of a point.
    x0_m, y0_m, cell_m = (
        float(np.float32(low[0])),
        float(np.float32(low[1])),
        float(np.float32(cell_m)),
    )
    nx, ny = (max(1, math.ceil(length / cell_m)) for length in extent)
    wanted = np.zeros((ny, nx), dtype=np.uint8)
    ix = np.clip(((places_m[:, 0] - x0_m) / cell_m).astype(int), 0, nx - 1)
    iy = np.clip(((places_m[:, 1] - y0_m) / cell_m).astype(int), 0, ny - 1)
    wanted[iy, ix] = 1
    for _ in range(math.ceil(MARGIN_M / cell_m)):
        wanted = spread(wanted)
    return Grid(x0_m, y0_m, cell_m, nx, ny, wanted.reshape(-1))


def spread(marked: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Mark the eight neighbours of marked cells as well, (ny, nx) uint8."""
    padded = np.pad(marked, 1)
    rows = padded[:-2] | padded[1:-1] | padded[2:]
    return np.asarray(rows[:, :-2] | rows[:, 1:-1] | rows[:, 2:])


def build_index(
    segments: Segments,
    grid: Grid,
    index_k: tuple[int, int, int],
    range_m: float,
    most: int = MOST_CANDIDATES,
) -> tuple[NDArray[Any], NDArray[np.uint16]]:
    """Build the cell index in C (csrc/drive/compile/index.c).

    Returns:
        cells (ny * nx,) of dtype CELL, candidates (n,) uint16: indices of segments, ascending
            within each type. n is most + 1 if there are more than `most`; the index is then
            incomplete.

    Raises:
        SceneError: more segments than 16 bits can number.
    """

    def pointer(kind: str, array: NDArray[Any]) -> Any:
        return ffi.cast(kind, ffi.from_buffer(array))

    cells = np.zeros(grid.nx * grid.ny, dtype=CELL)
    build = ffi.new("pv_index_build*")
    for name in ("x", "y", "ux", "uy", "half"):
        setattr(build, name, pointer("float*", getattr(segments, name)))
    build.segment_count, build.k = list(segments.count), list(index_k)
    build.range_m = range_m
    for name in ("x0_m", "y0_m", "cell_m", "nx", "ny"):
        setattr(build, name, getattr(grid, name))
    build.wanted = pointer("uint8_t*", grid.wanted)
    build.cells = pointer("pv_cell*", cells)
    capacity = min(most + 1, 64 * int(grid.wanted.sum()) + 64)
    while True:
        candidates = np.empty(capacity, dtype=np.uint16)
        build.candidates = pointer("uint16_t*", candidates)
        build.capacity = capacity
        needed = lib.pv_drive_index_build(build)
        if needed < 0:
            raise SceneError(f"a scene of {sum(segments.count)} segments cannot be indexed")
        if needed <= capacity or capacity > most:
            return cells, candidates[:needed].copy()
        capacity = min(most + 1, 4 * capacity)


IndexBuilder = Callable[
    [Segments, Grid, tuple[int, int, int], float, int], tuple[NDArray[Any], NDArray[np.uint16]]
]


def fitting_index(
    segments: Segments, cars_m: Floats, index_k: tuple[int, int, int], range_m: float, room_bytes:
    int, build: IndexBuilder = build_index,
) -> tuple[Grid, NDArray[Any], NDArray[np.uint16]]:  # fmt: skip
    """Return the index with the smallest cells that fits into `room_bytes`.

    Sizes that would exceed MOST_LOOKS distances are skipped. If no size fits, the result is an
    index without cells.

    Args:
        cars_m: (n, 2) places of logged vehicles.
        build: builds the index; tests pass a slow twin of the C function.
    """
    places = np.concatenate([_along_lanes(segments), cars_m])
    looks = 0
    for cell_m in CELLS_M:
        grid = choose_grid(places, cell_m)
        wanted = int(grid.wanted.sum()) * sum(segments.count)
        if looks + wanted > MOST_LOOKS:
            continue
        looks += wanted
        room = max(0, (room_bytes - grid.nx * grid.ny * CELL.itemsize) // CANDIDATE_BYTES)
        cells, candidates = build(segments, grid, index_k, range_m, room)
        if cells.nbytes + candidates.nbytes <= room_bytes:
            return grid, cells, candidates
    grid = choose_grid(np.zeros((0, 2)), CELLS_M[0])
    return grid, *build(segments, grid, index_k, range_m, MOST_CANDIDATES)


def _along_lanes(segments: Segments) -> Floats:
    """Return points (n, 2) along the lanes, about PLACE_STEP_M apart."""
    lanes = slice(0, segments.count[0])
    steps = np.linspace(-1.0, 1.0, 2 + int(SPLIT_M / PLACE_STEP_M))
    along = steps * segments.half[lanes, None]
    x = segments.x[lanes, None] + along * segments.ux[lanes, None]
    y = segments.y[lanes, None] + along * segments.uy[lanes, None]
    return np.stack([x.ravel(), y.ravel()], axis=-1).astype(np.float64)
