# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Packs one checked scene into the bytes that the C env reads (csrc/drive/scene.h).

Runs in the learner, once per scene and settings; `sceneset` puts the results into one file. Coordinates become float32
relative to the mean of the scene's points; lanes, lines and edges become short straight segments with a cell index; logs keep
only the frames from the first to the last in which the object is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes import packed
from drive_env.scenes.geometry import JOIN_M, simplify, split, split_count
from drive_env.scenes.grid import CELLS_M, MIN_INDEX_BYTES, MOST_LOOKS, SCENE_BYTES, Grid, Segments, build_index, choose_grid
from drive_env.scenes.schema import FRAME_S, SEGMENT_TYPES, VEHICLE, Floats, Scene, SceneObject
from puffervec.errors import SceneError

SPLIT_M = 15.0
PLACE_STEP_M = 3.0  # spacing of the points along lanes around which cells are indexed
IndexBuilder = Callable[[Segments, Grid, tuple[int, int, int], float], tuple[NDArray[Any], NDArray[np.uint16]]]


@dataclass(frozen=True)
class CompileSettings:
    """What the bytes of a compiled scene depend on, besides the scene."""

    index_k: tuple[int, int, int]  # nearest segments per type that the cell index must hold
    range_m: float  # ... within this range
    simplify_m: float = 0.1  # bound on the deviation of a simplified polyline
    split_m: float = SPLIT_M  # longest segment


@dataclass(frozen=True)
class CompiledScene:
    """One packed scene and what the table of the set says of it."""

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
    """Lay the arrays out behind the head, each on a multiple of 64 bytes, and pad the end likewise."""
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
    """Mean of all points of roads and of logged positions, (2,)."""
    points = [road.points_m[:, :2] for road in scene.roads]
    points += [item.position_m[item.valid, :2] for item in scene.objects]
    everything = np.concatenate(points)
    return np.asarray(everything.mean(axis=0)) if len(everything) else np.zeros(2)


def _pack_objects(scene: Scene, origin: Floats) -> tuple[NDArray[Any], NDArray[Any]]:
    """Objects that are there in some frame, in file order, and their frames one after another."""
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
    """Frames of one object; speed is the part of the velocity along the heading, so reversing is negative."""
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
    """Simplified and split segments of all lanes, lines and edges, type by type, in file order."""
    starts, ends, kinds, numbers, counts = [], [], [], [], []
    polyline_count = total = 0
    for name in SEGMENT_TYPES:
        count = 0
        for road in scene.roads:
            if road.type != name:
                continue
            points = simplify(road.points_m[:, :2] - origin, settings.simplify_m)
            if len(points) < 2:
                continue  # a single point, or all its points coincide
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
    """Points (n, 2) around which cars are expected: along lanes, and where logged vehicles were."""
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
    """The index with the smallest cells that stays within `room_bytes` and takes at most MOST_LOOKS distances to build; if none
    does, one in which no cell is indexed."""
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
