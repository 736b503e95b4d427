# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The cell index built in C holds, for every point of a cell, the k nearest segments of each type;
so does its slow twin.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from drive_env.scenes.cells import MAX_CELLS, Grid, build_index, choose_grid
from drive_env.scenes.packed import CELL_EMPTY
from drive_env.scenes.segments import Segments

K = (6, 3, 4)
RANGE_M = 40.0


def random_segments(seed: int, counts: tuple[int, int, int] = (90, 20, 50)) -> Segments:
    rng = np.random.default_rng(seed)
    total = sum(counts)
    angle = rng.uniform(-np.pi, np.pi, total)

    def single(values: np.ndarray) -> np.ndarray:
        return values.astype(np.float32)

    return Segments(
        x=single(rng.uniform(-60, 60, total)),
        y=single(rng.uniform(-60, 60, total)),
        z=single(np.zeros(total)),
        ux=single(np.cos(angle)),
        uy=single(np.sin(angle)),
        slope=single(np.zeros(total)),
        half=single(rng.uniform(0.05, 7.5, total)),
        kind=np.zeros(total, np.uint8),
        polyline=np.zeros(total, np.uint16),
        count=counts,
    )


def nearest(segments: Segments, point: np.ndarray) -> list[set[int]]:
    """Indices of the k nearest segments within range, per type, by the definition."""
    dx, dy = point[0] - segments.x.astype(float), point[1] - segments.y.astype(float)
    along = np.clip(dx * segments.ux + dy * segments.uy, -segments.half, segments.half)
    distance = np.hypot(dx - along * segments.ux, dy - along * segments.uy)
    found = []
    first = 0
    for count, k in zip(segments.count, K, strict=True):
        order = first + np.argsort(distance[first : first + count], kind="stable")[:k]
        found.append({int(index) for index in order if distance[index] <= RANGE_M})
        first += count
    return found


@pytest.mark.slow
@pytest.mark.parametrize("source", ["c", "twin"])
@pytest.mark.parametrize("seed", range(3))
def test_candidates_hold_the_nearest(seed: int, source: str, index_twin: ModuleType) -> None:
    rng = np.random.default_rng(100 + seed)
    segments = random_segments(seed)
    grid = choose_grid(rng.uniform(-50, 50, (40, 2)), 6.0)
    build = build_index if source == "c" else index_twin.build_index
    cells, candidates = build(segments, grid, K, RANGE_M)
    assert len(cells) == grid.nx * grid.ny
    assert set(np.flatnonzero(cells["first"] != CELL_EMPTY)) == set(np.flatnonzero(grid.wanted))
    for cell in rng.choice(np.flatnonzero(grid.wanted), 30):
        share = rng.uniform(0, 1, 2)
        point = (
            np.array([grid.x0_m, grid.y0_m])
            + (np.array([cell % grid.nx, cell // grid.nx]) + share) * grid.cell_m
        )
        at = int(cells["first"][cell])
        for kind, wanted in enumerate(nearest(segments, point)):
            listed = candidates[at : at + int(cells["count"][cell][kind])]
            at += len(listed)
            assert wanted <= set(listed.tolist())
            assert (np.diff(listed.astype(int)) > 0).all()


def test_an_index_without_segments_or_cells() -> None:
    grid = choose_grid(np.array([[0.0, 0.0]]), 5.0)
    cells, candidates = build_index(random_segments(0, (0, 0, 0)), grid, K, RANGE_M)
    assert len(candidates) == 0 and (cells["count"] == 0).all()
    empty = choose_grid(np.zeros((0, 2)), 5.0)
    assert (empty.nx, empty.ny, empty.wanted.sum()) == (1, 1, 0)
    assert build_index(random_segments(0), empty, K, RANGE_M)[0]["first"][0] == CELL_EMPTY


def test_an_index_that_grows_too_large_is_given_up() -> None:
    segments, grid = (
        random_segments(1),
        choose_grid(np.random.default_rng(1).uniform(-40, 40, (50, 2)), 5.0),
    )
    whole = build_index(segments, grid, K, RANGE_M)[1]
    for most in (0, 1, len(whole) // 2, len(whole) - 1):
        np.testing.assert_array_equal(
            build_index(segments, grid, K, RANGE_M, most)[1], whole[: most + 1]
        )
    np.testing.assert_array_equal(build_index(segments, grid, K, RANGE_M, len(whole))[1], whole)


def test_places_lie_in_wanted_cells() -> None:
    places = np.random.default_rng(5).uniform(-200, 300, (500, 2))
    grid = choose_grid(places, 5.0)
    ix = ((places[:, 0] - grid.x0_m) / grid.cell_m).astype(int)
    iy = ((places[:, 1] - grid.y0_m) / grid.cell_m).astype(int)
    assert ix.min() >= 0 and ix.max() < grid.nx and iy.min() >= 0 and iy.max() < grid.ny
    assert grid.wanted[iy * grid.nx + ix].all()


def test_cells_within_ten_metres_of_a_place_are_wanted() -> None:
    """With cells of 5 m these are the two next to its own, on each side; the grid ends there."""
    places = np.random.default_rng(6).uniform(0, 200, (9, 2))
    grid = choose_grid(places, 5.0)
    assert (grid.x0_m, grid.y0_m) == pytest.approx(tuple(places.min(axis=0) - 10.0), abs=1e-4)
    own = np.floor((places - [grid.x0_m, grid.y0_m]) / 5.0).astype(int)
    wanted = grid.wanted.reshape(grid.ny, grid.nx)
    assert (grid.nx, grid.ny) == tuple(np.ceil((np.ptp(places, axis=0) + 20.0) / 5.0))
    for iy in range(grid.ny):
        for ix in range(grid.nx):
            assert wanted[iy, ix] == (np.abs(own - [ix, iy]).max(axis=1) <= 2).any()


def test_huge_areas_get_larger_cells() -> None:
    grid: Grid = choose_grid(np.array([[-90_000.0, -90_000.0], [90_000.0, 90_000.0]]), 5.0)
    assert grid.nx * grid.ny <= MAX_CELLS
    assert grid.cell_m > 1000
