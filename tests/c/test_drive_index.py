# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The cell index (csrc/drive/compile/index.c): for any point of a cell, its candidates hold the k
nearest within the range.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drive_env.scenes.cells import Grid, build_index
from drive_env.scenes.packed import CELL, CELL_EMPTY
from drive_env.scenes.segments import Segments
from puffervec._ffi import ffi, lib


def random_segments(
    rng: np.random.Generator, counts: tuple[int, int, int], spread_m: float, copies: int = 1
) -> Segments:
    """Segments of random place, direction and length; copies > 1: many distances are equal."""
    n = sum(counts)
    angle = rng.uniform(-np.pi, np.pi, n)
    values = {
        "x": rng.uniform(-spread_m, spread_m, n), "y": rng.uniform(-spread_m, spread_m, n),
        "ux": np.cos(angle), "uy": np.sin(angle), "half": rng.uniform(0, 7.5, n), "z": np.zeros(n),
        "slope": np.zeros(n),
    }  # fmt: skip
    for name, value in values.items():
        values[name] = np.ascontiguousarray(value[np.arange(n) // copies * copies % n], np.float32)
    return Segments(
        **values, kind=np.zeros(n, np.uint8), polyline=np.zeros(n, np.uint16), count=counts
    )


def distances(segments: Segments, x: float, y: float) -> np.ndarray:
    """From a point to all segments, float64."""
    dx, dy = segments.x.astype(float) - x, segments.y.astype(float) - y
    along = np.maximum(np.abs(dx * segments.ux + dy * segments.uy) - segments.half, 0)
    return np.hypot(along, dx * segments.uy - dy * segments.ux)


@pytest.mark.parametrize("cell_m", [3.0, 8.0, 25.0])
@pytest.mark.parametrize("copies", [1, 4])
def test_lists_are_complete(cell_m: float, copies: int) -> None:
    rng = np.random.default_rng(int(cell_m) + copies)
    segments = random_segments(rng, (160, 12, 300), 60.0, copies)
    nx, ny = 9, 7
    wanted = (rng.random(nx * ny) < 0.8).astype(np.uint8)
    grid = Grid(-25.0, -20.0, cell_m, nx, ny, wanted)
    k, range_m = (16, 8, 12), 30.0
    cells, candidates = build_index(segments, grid, k, range_m)
    assert ((cells["first"] == CELL_EMPTY) == (wanted == 0)).all()
    ends = np.cumsum([0, *segments.count])
    checked = 0
    for cell in np.flatnonzero(wanted):
        corner = np.array([grid.x0_m + cell % nx * cell_m, grid.y0_m + cell // nx * cell_m])
        first = int(cells["first"][cell])
        lists = np.split(
            candidates[first : first + int(cells["count"][cell].sum())],
            np.cumsum(cells["count"][cell])[:-1],
        )
        inside = [
            corner + cell_m * np.array(p)
            for p in ((0, 0), (1, 1), (0, 1), (1, 0), (0.5, 0.5), *rng.random((6, 2)))
        ]
        for point in inside:
            found = distances(segments, *point)
            for kind in range(3):
                of = found[ends[kind] : ends[kind + 1]]
                need = [i for i in np.argsort(of, kind="stable")[: k[kind]] if of[i] <= range_m]
                assert set(ends[kind] + np.array(need, int)) <= set(lists[kind].tolist())
                checked += len(need)
        for kind, items in enumerate(lists):
            assert (np.diff(items.astype(int)) > 0).all() and (
                (items >= ends[kind]) & (items < ends[kind + 1])
            ).all()
    assert checked > 2000


def test_lists_are_short() -> None:
    rng = np.random.default_rng(3)
    segments = random_segments(rng, (400, 400, 400), 100.0)
    grid = Grid(-40.0, -40.0, 5.0, 16, 16, np.ones(256, np.uint8))
    cells, _ = build_index(segments, grid, (16, 8, 16), 50.0)
    assert (cells["count"].mean(0) < (28, 17, 28)).all()  # not much more than k


def test_few_segments_and_none() -> None:
    rng = np.random.default_rng(4)
    grid = Grid(0.0, 0.0, 10.0, 2, 2, np.ones(4, np.uint8))
    cells, candidates = build_index(random_segments(rng, (0, 3, 0), 5.0), grid, (16, 8, 16), 50.0)
    assert (cells["count"] == (0, 3, 0)).all() and len(candidates) == 12
    cells, candidates = build_index(random_segments(rng, (5, 3, 4), 5.0), grid, (0, 0, 0), 50.0)
    assert not cells["count"].any() and len(candidates) == 0


def call(**changes: Any) -> int:
    """Call the C function with small arguments, some of them changed."""
    floats = [np.ones(2, np.float32) for _ in range(5)]
    cells, candidates = np.zeros(1, CELL), np.full(9, 7, np.uint16)
    wanted = np.ones(1, np.uint8)
    given = {
        "segment_count": (2, 0, 0),
        "k": (2, 2, 2),
        "range_m": 50.0,
        "cell_m": 5.0,
        "nx": 1,
        "ny": 1,
        "capacity": 8,
        **changes,
    }
    build = ffi.new("pv_index_build*", given)
    for name, item in zip(("x", "y", "ux", "uy", "half"), floats, strict=True):
        setattr(build, name, ffi.cast("float*", ffi.from_buffer(item)))
    build.wanted = ffi.cast("uint8_t*", ffi.from_buffer(wanted))
    build.cells = ffi.cast("pv_cell*", ffi.from_buffer(cells))
    build.candidates = ffi.cast("uint16_t*", ffi.from_buffer(candidates))
    code = lib.pv_drive_index_build(build)
    assert (candidates[given["capacity"] :] == 7).all()  # nothing is written behind the capacity
    return int(code)


def test_bad_arguments_are_refused() -> None:
    assert call() == 2
    assert call(capacity=1) == 2  # how many there would be
    assert call(k=(64, 64, 64)) == 2
    for change in (
        {"nx": 0},
        {"ny": 0},
        {"cell_m": 0.0},
        {"cell_m": float("nan")},
        {"cell_m": float("inf")},
        {"range_m": 0.0},
        {"range_m": float("nan")},
        {"range_m": float("inf")},
        {"k": (65, 0, 0)},
        {"k": (0, 65, 0)},
        {"k": (0, 0, 65)},
    ):
        assert call(**change) == -1
    for count in ((65536, 0, 0), (0, 65535, 1), (1, 0, 65535)):
        assert call(segment_count=count) == -1
