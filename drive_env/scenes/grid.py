# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Chooses the grid of a scene and has C build the cell index: for each cell the segments that can be among the k nearest.

Runs in the learner while a scene is compiled. Cells where no car is expected are left out; the env scans all segments there,
which is slower and gives the same answer. So the choice of cells trades bytes for speed and never changes what an agent sees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.packed import CELL
from drive_env.scenes.schema import Floats
from puffervec._ffi import ffi, lib
from puffervec.errors import SceneError

CELLS_M = (5.0, 6.0, 8.0, 10.0, 14.0, 20.0, 28.0)  # sizes to choose from; 5 m gave the shortest lists of candidates
MARGIN_M = 10.0  # cells within this of a lane or of a logged vehicle are indexed: young policies leave the road
MAX_CELLS = 1 << 14
SCENE_BYTES = 290_000  # a compiled scene should stay within this: cells grow until it does
MOST_LOOKS = 60_000_000  # distances taken while an index is built, over all sizes tried: a fraction of a second
MIN_INDEX_BYTES = 60_000  # ... but not below an index of this size, where objects and segments alone are too large


@dataclass(frozen=True)
class Segments:
    """The segments of a scene: lanes, then lines, then edges. Arrays (S,) float32, metres; u is the unit direction."""

    x: NDArray[np.float32]
    y: NDArray[np.float32]
    ux: NDArray[np.float32]
    uy: NDArray[np.float32]
    half: NDArray[np.float32]
    kind: NDArray[np.uint8]
    polyline: NDArray[np.uint16]
    count: tuple[int, int, int]  # per type


@dataclass(frozen=True)
class Grid:
    """A uniform grid; cell (ix, iy) is number iy * nx + ix and covers cell_m metres from x0_m + ix * cell_m on."""

    x0_m: float
    y0_m: float
    cell_m: float
    nx: int
    ny: int
    wanted: NDArray[np.uint8]  # (ny * nx,) 1: cars are expected here


def choose_grid(places_m: Floats, cell_m: float) -> Grid:
    """The grid around the places (n, 2) where cars are expected, with cells near them wanted.

    Cells grow where the area is so large that there would be more than MAX_CELLS. Without places: one cell that is not wanted.
    """
    if len(places_m) == 0:
        return Grid(0.0, 0.0, cell_m, 1, 1, np.zeros(1, dtype=np.uint8))
    low = places_m.min(axis=0) - MARGIN_M
    extent = places_m.max(axis=0) + MARGIN_M - low
    while math.ceil(extent[0] / cell_m) * math.ceil(extent[1] / cell_m) > MAX_CELLS:
        cell_m *= 1.25
    # float32, as the file stores it, so that C and Python agree on which cell a point is in.
    x0_m, y0_m, cell_m = float(np.float32(low[0])), float(np.float32(low[1])), float(np.float32(cell_m))
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
    segments: Segments, grid: Grid, index_k: tuple[int, int, int], range_m: float
) -> tuple[NDArray[Any], NDArray[np.uint16]]:
    """Build the cell index in C (csrc/drive/index.c).

    Returns:
        cells (ny * nx,) of dtype CELL, candidates (n,) uint16: indices of segments, ascending within each type.

    Raises:
        SceneError: more segments than 16 bits can number.
    """

    def pointer(kind: str, array: NDArray[Any]) -> Any:
        return ffi.cast(kind, ffi.from_buffer(array))

    arrays = [pointer("float*", item) for item in (segments.x, segments.y, segments.ux, segments.uy, segments.half)]
    counts = np.array(segments.count, dtype=np.uint32)
    wanted_k = np.array(index_k, dtype=np.uint32)
    cells = np.zeros(grid.nx * grid.ny, dtype=CELL)
    capacity = 64 * int(grid.wanted.sum()) + 64
    while True:
        candidates = np.empty(capacity, dtype=np.uint16)
        needed = lib.pv_drive_index_build(
            *arrays, pointer("uint32_t*", counts), pointer("uint32_t*", wanted_k), range_m,
            grid.x0_m, grid.y0_m, grid.cell_m, grid.nx, grid.ny, pointer("uint8_t*", grid.wanted),
            pointer("pv_cell*", cells), pointer("uint16_t*", candidates), capacity)  # fmt: skip
        if needed < 0:
            raise SceneError(f"a scene of {sum(segments.count)} segments cannot be indexed")
        if needed <= capacity:
            return cells, candidates[:needed].copy()
        capacity = int(needed)
