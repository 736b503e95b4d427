# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Packs one checked scene into the bytes that the C env reads (csrc/drive/scene/scene.h).

Runs in the learner, once per scene and settings; `sceneset` puts the results into one file.
Coordinates become float32 relative to the mean of the scene's points; lanes, lines and edges become
short straight segments with a cell index; logs keep only the frames from the first to the last in
which the object is present.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes import packed
from drive_env.scenes.cells import IndexBuilder, build_index, fitting_index
from drive_env.scenes.controls import pack_areas, pack_controls
from drive_env.scenes.goals import with_near_goals
from drive_env.scenes.groups import build_groups
from drive_env.scenes.lanes import pack_lanes
from drive_env.scenes.levels import has_levels
from drive_env.scenes.schema import FRAME_S, SEGMENT_TYPES, VEHICLE, Floats, Scene, SceneObject
from drive_env.scenes.segments import SPLIT_M, Polyline, Segments, polylines_of, segments_of
from drive_env.scenes.stored import StoredScene
from puffervec.errors import SceneError

SCENE_BYTES = 330_000  # target size of a compiled scene: cells grow until the scene fits
# The index may always have this size, even if objects and segments alone are too large.
MIN_INDEX_BYTES = 60_000
# Of 160,000 poses along real roads, this simplification changes the off-road result of 0.03 %.
EDGES_M = 0.02
MAX_METADATA_BYTES = 1 << 16


@dataclass(frozen=True)
class CompileSettings:
    """Settings that determine the bytes of a compiled scene."""

    index_k: tuple[int, int, int]  # nearest segments per type that a cell lists
    range_m: float  # range of those segments
    simplify_m: float = 0.1  # largest deviation of a simplified lane or line
    split_m: float = SPLIT_M  # longest segment
    # Largest deviation of a road edge, which is also fitted; simplify_m applies if it is smaller.
    simplify_edges_m: float = EDGES_M

    @property
    def tolerances_m(self) -> tuple[float, float, float]:
        """Return the largest deviation of lanes, lines and edges."""
        return (self.simplify_m, self.simplify_m, min(self.simplify_m, self.simplify_edges_m))


@dataclass(frozen=True)
class CompiledScene:
    """One packed scene and its entry in the table of the set."""

    name: str
    data: bytes
    moving_vehicles: int
    valid_vehicles: int
    object_count: int


def compile_scene(
    scene: Scene, settings: CompileSettings, build: IndexBuilder = build_index
) -> CompiledScene:
    """Pack one scene.

    A goal far from all roads and logs becomes the last logged position (goals.py).

    Args:
        scene: a checked scene.
        settings: see CompileSettings.
        build: builds the cell index; tests pass a slow twin of the C function.

    Raises:
        SceneError: more segments or polylines than 16 bits can number, or more lanes or signs in
            one spot than can be compared; the message names the scene and the remedy.
    """
    scene = with_near_goals(scene)
    origin = _origin(scene)
    objects, frames = _pack_objects(scene, origin)
    polylines = polylines_of(scene, origin, settings.tolerances_m, settings.split_m)
    segments = segments_of(polylines)
    lanes, links, inferred = pack_lanes(scene.name, polylines[0], segments)
    controls, states = pack_controls(scene, polylines[0], origin)
    areas, points = pack_areas(scene, origin)
    sections = {
        "objects": objects, "frames": frames, "lanes": lanes, "links": links,
        "controls": controls, "states": states, "areas": areas, "text": _text(scene, polylines),
        **dict(zip(("points_x", "points_y", "points_z"), points.T, strict=True)),
        **{name: getattr(segments, name)
           for name in ("x", "y", "z", "ux", "uy", "slope", "half", "kind", "polyline")},
        **build_groups(
            {name: getattr(segments, name) for name in ("x", "y", "ux", "uy", "half")},
            segments.count),
    }  # fmt: skip
    head = np.zeros((), dtype=packed.SCENE)
    head["origin_x"], head["origin_y"], head["origin_z"] = origin
    head["dt_s"] = FRAME_S
    head["frame_count"], head["object_count"] = scene.frame_count, len(objects)
    head["flags"] = packed.HAS_HEIGHT * scene.has_height + packed.LANES_INFERRED * inferred
    head["flags"] |= packed.LEVELS * (scene.has_height and has_levels(objects, frames, segments))
    head["sdc"] = next(iter(np.flatnonzero(objects["flags"] & packed.SDC)), -1)
    head["segment_count"] = segments.count
    _add_index(head, sections, segments, settings, build)
    moving, valid = scene.agent_counts
    return CompiledScene(scene.name, _assemble(head, sections), moving, valid, len(objects))


def reindex(
    stored: StoredScene, settings: CompileSettings, build: IndexBuilder = build_index
) -> CompiledScene:
    """Return a stored scene with an index for these settings; the rest stays unchanged.

    Raises:
        SceneError: see `compile_scene`.
    """
    sections, head = dict(stored.sections), np.zeros((), dtype=packed.SCENE)
    head[()] = stored.head
    lanes, lines, edges = head["segment_count"].tolist()
    names = ("x", "y", "z", "ux", "uy", "slope", "half", "kind", "polyline")
    segments = Segments(**{name: sections[name] for name in names}, count=(lanes, lines, edges))
    _add_index(head, sections, segments, settings, build)
    return CompiledScene(
        stored.name,
        _assemble(head, sections),
        stored.moving_vehicles,
        stored.valid_vehicles,
        stored.object_count,
    )


def _add_index(
    head: NDArray[Any],
    sections: dict[str, NDArray[Any]],
    segments: Segments,
    settings: CompileSettings,
    build: IndexBuilder,
) -> None:
    """Add the cells and candidates of an index, and store its grid in the head."""
    objects, frames = sections["objects"], sections["frames"]
    room_bytes = max(
        MIN_INDEX_BYTES, SCENE_BYTES - objects.nbytes - frames.nbytes - 31 * sum(segments.count)
    )
    grid, sections["cells"], sections["candidates"] = fitting_index(
        segments, _cars(objects, frames), settings.index_k, settings.range_m, room_bytes, build
    )
    head["grid_x0_m"], head["grid_y0_m"], head["cell_m"] = grid.x0_m, grid.y0_m, grid.cell_m
    head["grid_nx"], head["grid_ny"] = grid.nx, grid.ny


def _assemble(head: NDArray[Any], sections: dict[str, NDArray[Any]]) -> bytes:
    """Place the sections after the head, each aligned to 64 bytes, and pad the end."""
    offset = packed.align_up(packed.SCENE.itemsize)
    parts: list[tuple[int, bytes]] = []
    for index, name in enumerate(packed.ORDER):
        content = sections[name].astype(packed.SECTIONS[name], copy=False).tobytes()
        head["sections"][index] = offset, len(sections[name])
        parts.append((offset, content))
        offset = packed.align_up(offset + len(content))
    if offset > packed.MOST_SCENE_BYTES:
        raise SceneError(
            f"the compiled scene has {offset:,} bytes; at most {packed.MOST_SCENE_BYTES:,} are "
            "allowed: cut the scene"
        )
    data = bytearray(offset)
    data[: packed.SCENE.itemsize] = head.tobytes()
    for start, content in parts:
        data[start : start + len(content)] = content
    return bytes(data)


def _origin(scene: Scene) -> Floats:
    """Return the mean of all road points and logged positions, (3,)."""
    points = [road.points_m for road in scene.roads]
    points += [item.position_m[item.valid] for item in scene.objects]
    everything = np.concatenate(points)
    return np.asarray(everything.mean(axis=0)) if len(everything) else np.zeros(3)


def _pack_objects(scene: Scene, origin: Floats) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the objects that are present in some frame, in file order, and their frames."""
    present = [(index, item) for index, item in enumerate(scene.objects) if item.valid.any()]
    objects = np.zeros(len(present), dtype=packed.OBJECT)
    frames = []
    total = 0
    for row, (index, item) in zip(objects, present, strict=True):
        span = np.flatnonzero(item.valid)
        first, count = int(span[0]), int(span[-1] - span[0] + 1)
        frames.append(_pack_frames(item, origin, slice(first, first + count)))
        row["width_m"], row["length_m"], row["height_m"] = (
            item.width_m,
            item.length_m,
            item.height_m,
        )
        row["goal_x_m"], row["goal_y_m"], row["goal_z_m"] = item.goal_m - origin
        row["frames_index"], row["frame_first"], row["frame_count"] = total, first, count
        row["type"], row["id"] = item.type, item.id
        row["flags"] = (
            packed.EXPERT * item.expert
            + packed.VALID_AT_START * item.valid_at_start
            + packed.MOVES * item.moves
        )
        row["flags"] |= packed.SDC * (index == scene.sdc) | packed.TO_PREDICT * (
            index in scene.to_predict
        )
        row["flags"] |= packed.OF_INTEREST * (item.id in scene.of_interest)
        total += count
    return objects, np.concatenate(frames) if frames else np.zeros(0, dtype=packed.FRAME)


def _pack_frames(item: SceneObject, origin: Floats, span: slice) -> NDArray[Any]:
    """Return the frames of one object.

    Speed is the velocity along the heading, negative when reversing.
    """
    valid = item.valid[span]
    heading = item.heading_rad[span]
    along = item.velocity_mps[span, 0] * np.cos(heading) + item.velocity_mps[span, 1] * np.sin(
        heading
    )
    frames = np.zeros(len(valid), dtype=packed.FRAME)
    frames["x_m"], frames["y_m"], frames["z_m"] = np.where(
        valid[:, None], item.position_m[span] - origin, 0.0
    ).T
    turns = np.rint(heading * packed.HEADING_SCALE).astype(np.int64)
    # pi and -pi are stored as one value.
    frames["heading"] = ((turns + 32768) % 65536 - 32768).astype(np.int16)
    frames["speed"] = np.clip(np.rint(along * packed.SPEED_SCALE), -32767, 32767).astype(np.int16)
    frames["speed"][~valid] = packed.FRAME_INVALID
    return frames


def _cars(objects: NDArray[Any], frames: NDArray[Any]) -> Floats:
    """Return the places of logged vehicles in all frames, (n, 2)."""
    of_cars = np.repeat(objects["type"] == VEHICLE, objects["frame_count"]) & (
        frames["speed"] != packed.FRAME_INVALID
    )
    return np.stack([frames["x_m"][of_cars], frames["y_m"][of_cars]], axis=-1).astype(np.float64)


def _text(scene: Scene, polylines: list[list[Polyline]]) -> NDArray[np.uint8]:
    """Return names, metadata and what was left out, as JSON (docs/pvs.md describes it)."""
    roads = {}
    for name, group in zip(SEGMENT_TYPES, polylines, strict=True):
        points = [len(road.points_m) for road in scene.roads if road.type == name]
        roads[name] = {
            "roads": len(points), "points": sum(points), "kept": len(group),
            "segments": sum(len(item.points_m) - 1 for item in group),
        }  # fmt: skip
    content = {
        "name": scene.name,
        "scenario_id": scene.scenario_id,
        "metadata": _storable(scene.metadata),
        "objects": {
            "all": len(scene.objects),
            "dropped": [index for index, item in enumerate(scene.objects) if not item.valid.any()],
        },
        "roads": roads,
    }
    return np.frombuffer(json.dumps(content).encode(), dtype=np.uint8)


def _storable(metadata: dict[str, Any]) -> dict[str, Any] | None:
    """Return the metadata; None if they are too large or not JSON (NaN, nested too deeply)."""
    try:
        return (
            metadata if len(json.dumps(metadata, allow_nan=False)) <= MAX_METADATA_BYTES else None
        )
    except (ValueError, RecursionError):
        return None
