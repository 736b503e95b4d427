# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Turns the lanes, lines and edges of a scene into short straight segments. Runs in the learner."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes import packed
from drive_env.scenes.geometry import JOIN_M, pieces_of, simplify_all, split
from drive_env.scenes.schema import SEGMENT_TYPES, Floats, Road, Scene
from puffervec.errors import SceneError

SPLIT_M = 15.0


@dataclass(frozen=True)
class Segments:
    """The segments of a scene: lanes, then lines, then edges.

    Arrays are (S,) float32, metres; u is the unit direction.
    """

    x: NDArray[np.float32]
    y: NDArray[np.float32]
    z: NDArray[np.float32]
    ux: NDArray[np.float32]
    uy: NDArray[np.float32]
    slope: NDArray[np.float32]  # rise per metre in the plane
    half: NDArray[np.float32]
    kind: NDArray[np.uint8]
    polyline: NDArray[np.uint16]
    count: tuple[int, int, int]  # per type


@dataclass(frozen=True)
class Polyline:
    """The points of one road's segments, local metres (n, 3)."""

    road: Road
    points_m: Floats


def polylines_of(
    scene: Scene, origin: Floats, tolerances_m: tuple[float, float, float], split_m: float
) -> list[list[Polyline]]:
    """Return the simplified and split polylines of all lanes, lines and edges, by type.

    They are in file order. Roads that have a single point, or whose points all coincide, are left
    out.

    Args:
        origin: (3,).
        split_m: longest segment.
        tolerances_m: by type, see `simplify`. Edges are also fitted (`fit`), since contacts with
            them count. Edges of generated scenes are simplified like lanes instead, because
            policies have been trained and compared on them.

    Raises:
        SceneError: more segments than 16 bits can number, or a road is too crooked; the message
            names scene and remedy.
    """
    roads = [road for name in SEGMENT_TYPES for road in scene.roads if road.type == name]
    exact = [road.type == "road_edge" and not scene.generated for road in roads]
    tolerance_m = [tolerances_m[2] if fitted else tolerances_m[0] for fitted in exact]
    points = np.concatenate([np.zeros((0, 3)), *(road.points_m for road in roads)]) - origin
    names = [f"{scene.name}: {road.type} with id {road.id}" for road in roads]
    points, sizes = simplify_all(
        points, [len(road.points_m) for road in roads], tolerance_m, exact, names
    )
    some = sizes >= 2
    points, sizes = points[np.repeat(some, sizes)], sizes[some]
    pieces = pieces_of(points, sizes, split_m)
    if pieces.sum() - len(sizes) > packed.MAX_SEGMENTS:
        _refuse(scene, split_m, tolerances_m)
    ends = np.cumsum(pieces)[np.cumsum(sizes) - 1]
    groups: list[list[Polyline]] = [[] for _ in SEGMENT_TYPES]
    points, first = split(points, pieces), 0
    for road, end in zip(itertools.compress(roads, some), ends.tolist(), strict=True):
        groups[SEGMENT_TYPES.index(road.type)].append(Polyline(road, points[first:end]))
        first = end
    return groups


def _refuse(scene: Scene, split_m: float, tolerances_m: tuple[float, float, float]) -> NoReturn:
    raise SceneError(
        f"{scene.name}: more than {packed.MAX_SEGMENTS} road segments of at most {split_m:g} m "
        f"after simplification: raise simplify_m (now {tolerances_m[0]:g}), or cut the scene"
    )


def segments_of(polylines: list[list[Polyline]]) -> Segments:
    """Return the segments of polylines by type.

    Polylines are numbered consecutively: lanes from 0, then lines, then edges.
    """
    every = [item for group in polylines for item in group]
    start = np.concatenate([np.zeros((0, 3)), *(item.points_m[:-1] for item in every)])
    end = np.concatenate([np.zeros((0, 3)), *(item.points_m[1:] for item in every)])
    sizes = [len(item.points_m) - 1 for item in every]
    length = np.maximum(np.hypot(*(end - start)[:, :2].T), JOIN_M)
    direction = (end - start) / length[:, None]
    middle = (start + end) / 2
    counts = [sum(len(item.points_m) - 1 for item in group) for group in polylines]
    return Segments(
        x=_float32(middle[:, 0]),
        y=_float32(middle[:, 1]),
        z=_float32(middle[:, 2]),
        ux=_float32(direction[:, 0]),
        uy=_float32(direction[:, 1]),
        slope=_float32(direction[:, 2]),
        half=_float32(length / 2),
        kind=np.repeat(np.array([kind_of(item.road) for item in every], dtype=np.uint8), sizes),
        polyline=np.repeat(np.arange(len(every)), sizes).astype(np.uint16),
        count=(counts[0], counts[1], counts[2]),
    )


def kind_of(road: Road) -> int:
    """Return the subtype of a road as it is stored."""
    return road.map_element_id if 0 <= road.map_element_id < packed.KIND_NONE else packed.KIND_NONE


def _float32(values: Floats) -> NDArray[np.float32]:
    return np.ascontiguousarray(values, dtype=np.float32)
