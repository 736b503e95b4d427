# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Packs one checked scene into the bytes that the C env reads (csrc/drive/scene.h).

Runs in the learner, once per scene and settings; `sceneset` puts the results into one file. Coordinates become float32
relative to the mean of the scene's points; lanes, lines and edges become short straight segments with a cell index; logs keep
only the frames from the first to the last in which the object is present.

C builds the cell index: for each cell the segments that can be among the k nearest. It leaves out cells where no car is
expected; there the env scans all segments, which is slower but gives the same result. So the choice of cells trades bytes for
speed and does not change observations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes import packed
from drive_env.scenes.geometry import JOIN_M, simplify, split, split_count
from drive_env.scenes.packed import CELL
from drive_env.scenes.schema import FRAME_S, SEGMENT_TYPES, VEHICLE, Floats, Scene, SceneObject
from puffervec._ffi import ffi, lib
from puffervec.errors import SceneError

CELLS_M = (5.0, 6.0, 8.0, 10.0, 14.0, 20.0, 28.0)  # sizes to choose from; 5 m gave the shortest lists of candidates
MARGIN_M = 10.0  # cells within this distance of a lane or a logged vehicle are indexed: untrained policies leave the road
MAX_CELLS = 1 << 14
SCENE_BYTES = 290_000  # target size of a compiled scene: cells grow until it is met
MOST_LOOKS = 60_000_000  # distances computed while an index is built, over all cell sizes: a fraction of a second
MIN_INDEX_BYTES = 60_000  # an index may always have this size, even if objects and segments alone are too large


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
    wanted: NDArray[np.uint8]  # (ny * nx,) 1: index this cell, since cars are expected


def choose_grid(places_m: Floats, cell_m: float) -> Grid:
    """Return the grid around the places (n, 2) where cars are expected; cells near them are wanted.

    Cells grow if there would be more than MAX_CELLS. Without places the grid is one cell that is not wanted.
    """
    if len(places_m) == 0:
        return Grid(0.0, 0.0, cell_m, 1, 1, np.zeros(1, dtype=np.uint8))
    low = places_m.min(axis=0) - MARGIN_M
    extent = places_m.max(axis=0) + MARGIN_M - low
    while math.ceil(extent[0] / cell_m) * math.ceil(extent[1] / cell_m) > MAX_CELLS:
        cell_m *= 1.25
    # float32 as in the file: C and Python have to agree on the cell of a point.
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


SPLIT_M = 15.0
PLACE_STEP_M = 3.0  # spacing of the points along lanes around which cells are indexed
IndexBuilder = Callable[[Segments, Grid, tuple[int, int, int], float], tuple[NDArray[Any], NDArray[np.uint16]]]


@dataclass(frozen=True)
class CompileSettings:
    """The settings that a compiled scene's bytes depend on."""

    index_k: tuple[int, int, int]  # nearest segments per type that a cell lists
    range_m: float  # range of those segments
    simplify_m: float = 0.1  # largest deviation of a simplified polyline
    split_m: float = SPLIT_M  # longest segment


@dataclass(frozen=True)
class CompiledScene:
    """One packed scene and its entry in the table of the set."""

    name: str
    data: bytes
    moving_vehicles: int
    valid_vehicles: int
    object_count: int


def compile_scene(scene: Scene, settings: CompileSettings, build: IndexBuilder = build_index) -> CompiledScene:
    """Pack one scene.

    Args:
        scene: a checked scene.
        settings: see CompileSettings.
        build: makes the cell index; tests pass a slow twin of the C function.

    Raises:
        SceneError: more segments or polylines than 16 bits can number; the message names the scene and the remedy.
    """
    origin = _origin(scene)
    objects, frames = _pack_objects(scene, origin)
    segments = _pack_segments(scene, origin, settings)
    room_bytes = max(MIN_INDEX_BYTES, SCENE_BYTES - objects.nbytes - frames.nbytes - 23 * sum(segments.count))
    places = _places(scene, origin, segments)
    grid, cells, candidates = _fitting_index(places, segments, settings, build, room_bytes)
    arrays = {
        "objects": objects,
        "frames": frames,
        **{name: getattr(segments, name) for name in ("x", "y", "ux", "uy", "half", "kind", "polyline")},
        "cells": cells,
        "candidates": candidates,
    }
    head = np.zeros((), dtype=packed.SCENE)
    head["origin_x"], head["origin_y"] = origin
    head["dt_s"] = FRAME_S
    head["frame_count"], head["object_count"] = scene.frame_count, len(objects)
    head["segment_count"] = segments.count
    head["grid_x0_m"], head["grid_y0_m"], head["cell_m"] = grid.x0_m, grid.y0_m, grid.cell_m
    head["grid_nx"], head["grid_ny"] = grid.nx, grid.ny
    head["candidate_count"] = len(candidates)
    moving, valid = scene.agent_counts
    return CompiledScene(scene.name, _assemble(head, arrays), moving, valid, len(objects))


def _assemble(head: NDArray[Any], arrays: dict[str, NDArray[Any]]) -> bytes:
    """Place the arrays behind the head, each on a multiple of 64 bytes, and pad the end to one."""
    offset = packed.align_up(packed.SCENE.itemsize)
    parts: list[tuple[int, bytes]] = []
    for name in packed.OFFSETS:
        content = arrays[name].astype(packed.ARRAYS[name], copy=False).tobytes()
        head[f"{name}_offset"] = offset
        parts.append((offset, content))
        offset = packed.align_up(offset + len(content))
    data = bytearray(offset)
    data[: packed.SCENE.itemsize] = head.tobytes()
    for start, content in parts:
        data[start : start + len(content)] = content
    return bytes(data)


def _origin(scene: Scene) -> Floats:
    """Return the mean of all road points and logged positions, (2,)."""
    points = [road.points_m[:, :2] for road in scene.roads]
    points += [item.position_m[item.valid, :2] for item in scene.objects]
    everything = np.concatenate(points)
    return np.asarray(everything.mean(axis=0)) if len(everything) else np.zeros(2)


def _pack_objects(scene: Scene, origin: Floats) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the objects that are present in some frame, in file order, and their frames one after another."""
    present = [item for item in scene.objects if item.valid.any()]
    objects = np.zeros(len(present), dtype=packed.OBJECT)
    frames = []
    total = 0
    for row, item in zip(objects, present, strict=True):
        span = np.flatnonzero(item.valid)
        first, count = int(span[0]), int(span[-1] - span[0] + 1)
        frames.append(_pack_frames(item, origin, slice(first, first + count)))
        row["width_m"], row["length_m"], row["height_m"] = item.width_m, item.length_m, item.height_m
        row["goal_x_m"], row["goal_y_m"] = item.goal_m[:2] - origin
        row["frames_index"], row["frame_first"], row["frame_count"] = total, first, count
        row["type"], row["id"] = item.type, item.id
        row["flags"] = packed.EXPERT * item.expert + packed.VALID_AT_START * item.valid_at_start + packed.MOVES * item.moves
        total += count
    return objects, np.concatenate(frames) if frames else np.zeros(0, dtype=packed.FRAME)


def _pack_frames(item: SceneObject, origin: Floats, span: slice) -> NDArray[Any]:
    """Return the frames of one object; speed is the velocity along the heading, negative when reversing."""
    valid = item.valid[span]
    heading = item.heading_rad[span]
    along = item.velocity_mps[span, 0] * np.cos(heading) + item.velocity_mps[span, 1] * np.sin(heading)
    frames = np.zeros(len(valid), dtype=packed.FRAME)
    local = item.position_m[span, :2] - origin
    frames["x_m"], frames["y_m"] = np.where(valid[:, None], local, 0.0).T
    turns = np.rint(heading * packed.HEADING_SCALE).astype(np.int64)
    frames["heading"] = ((turns + 32768) % 65536 - 32768).astype(np.int16)  # pi and -pi are the same
    frames["speed"] = np.clip(np.rint(along * packed.SPEED_SCALE), -32767, 32767).astype(np.int16)
    frames["speed"][~valid] = packed.FRAME_INVALID
    return frames


def _pack_segments(scene: Scene, origin: Floats, settings: CompileSettings) -> Segments:
    """Return simplified and split segments of all lanes, lines and edges, by type and in file order."""
    starts, ends, kinds, numbers, counts = [], [], [], [], []
    polyline_count = total = 0
    for name in SEGMENT_TYPES:
        count = 0
        for road in scene.roads:
            if road.type != name:
                continue
            points = simplify(road.points_m[:, :2] - origin, settings.simplify_m)
            if len(points) < 2:
                continue  # it has a single point, or all its points coincide
            total += split_count(points, settings.split_m)
            if total > packed.MAX_SEGMENTS:
                _refuse_segments(scene, settings)
            points = split(points, settings.split_m)
            starts.append(points[:-1])
            ends.append(points[1:])
            element = road.map_element_id if 0 <= road.map_element_id < packed.KIND_NONE else packed.KIND_NONE
            kinds.append(np.full(len(points) - 1, element, dtype=np.uint8))
            numbers.append(np.full(len(points) - 1, polyline_count, dtype=np.int64))
            count += len(points) - 1
            polyline_count += 1
        counts.append(count)
    start = np.concatenate(starts) if starts else np.zeros((0, 2))
    end = np.concatenate(ends) if ends else np.zeros((0, 2))
    length = np.maximum(np.hypot(*(end - start).T), JOIN_M)
    direction = (end - start) / length[:, None]
    middle = (start + end) / 2
    return Segments(
        x=_float32(middle[:, 0]),
        y=_float32(middle[:, 1]),
        ux=_float32(direction[:, 0]),
        uy=_float32(direction[:, 1]),
        half=_float32(length / 2),
        kind=np.concatenate(kinds) if kinds else np.zeros(0, dtype=np.uint8),
        polyline=(np.concatenate(numbers) if numbers else np.zeros(0)).astype(np.uint16),
        count=(counts[0], counts[1], counts[2]),
    )


def _refuse_segments(scene: Scene, settings: CompileSettings) -> NoReturn:
    raise SceneError(
        f"{scene.name}: more than {packed.MAX_SEGMENTS} road segments of at most {settings.split_m:g} m after simplification; "
        f"raise simplify_m (now {settings.simplify_m:g}), or cut the scene"
    )


def _float32(values: Floats) -> NDArray[np.float32]:
    return np.ascontiguousarray(values, dtype=np.float32)


def _places(scene: Scene, origin: Floats, segments: Segments) -> Floats:
    """Return points (n, 2) around which cars are expected: along lanes and at logged vehicles."""
    lanes = slice(0, segments.count[0])
    steps = np.linspace(-1.0, 1.0, 2 + int(SPLIT_M / PLACE_STEP_M))
    along = steps * segments.half[lanes, None]
    x = segments.x[lanes, None] + along * segments.ux[lanes, None]
    y = segments.y[lanes, None] + along * segments.uy[lanes, None]
    logged = [item.position_m[item.valid, :2] - origin for item in scene.objects if item.type == VEHICLE]
    return np.concatenate([np.stack([x.ravel(), y.ravel()], axis=-1).astype(np.float64), *logged])


def _fitting_index(
    places: Floats, segments: Segments, settings: CompileSettings, build: IndexBuilder, room_bytes: int
) -> tuple[Grid, NDArray[Any], NDArray[np.uint16]]:
    """Return the index with the smallest cells that fits into `room_bytes` and needs at most MOST_LOOKS distances; if none
    does, an index without cells."""
    looks = 0
    for cell_m in CELLS_M:
        grid = choose_grid(places, cell_m)
        wanted = int(grid.wanted.sum()) * sum(segments.count)
        if looks + wanted > MOST_LOOKS:
            continue
        looks += wanted
        cells, candidates = build(segments, grid, settings.index_k, settings.range_m)
        if cells.nbytes + candidates.nbytes <= room_bytes:
            return grid, cells, candidates
    grid = choose_grid(np.zeros((0, 2)), CELLS_M[0])
    return grid, *build(segments, grid, settings.index_k, settings.range_m)
