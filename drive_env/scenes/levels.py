# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Finds cars that drive above or below something that they would touch in the plane, since the env does not simulate height.

Runs in the learner, once per compiled scene. Two logged boxes, or a box and a road edge, are in conflict if they overlap in the
plane at any two steps of the log (agents need not keep to their log's timing) and differ in height by more than LEVEL_M.
Bridges leave at least 4.5 m for traffic below; slopes, curbs and the noise of recorded heights stay below 1 m within a car's
length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.geometry import box_crosses_segment, boxes_overlap
from drive_env.scenes.schema import VEHICLE, Floats, Scene

LEVEL_M = 2.0
STEP_M = 1.0  # spacing of the poses and road edge points that are compared
MOST_LOOKS = 20_000_000  # pairs of points compared at most; scenes with levels need a tenth

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class _Poses:
    """Logged poses of all objects; those of one object are at least STEP_M apart. xy_m: (n, 2); the others (n,)."""

    object: NDArray[np.int64]
    xy_m: Floats
    ground_m: Floats  # height of the box's underside
    heading_rad: Floats
    half: tuple[Floats, Floats]  # half length, half width

    def of(self, chosen: Bools) -> _Poses:
        """Return some of the poses."""
        half = (self.half[0][chosen], self.half[1][chosen])
        return _Poses(self.object[chosen], self.xy_m[chosen], self.ground_m[chosen], self.heading_rad[chosen], half)


def height_conflicts(scene: Scene) -> str:
    """Return one line about objects of a scene that meet others, or road edges, at another height; "" if none do.

    Only moving vehicles are looked at: nothing else can be an agent.
    """
    poses, starts, ends = _poses(scene), *_edges(scene)
    heights = np.concatenate([poses.ground_m, starts[:, 2], ends[:, 2]])
    if not len(poses.object) or np.ptp(heights) <= LEVEL_M:
        return ""
    cell_m = 2.0 * float(np.hypot(*poses.half).max()) + STEP_M
    places = np.concatenate([poses.xy_m, (starts[:, :2] + ends[:, :2]) / 2])
    near = _near_levels(places, np.concatenate([poses.ground_m, (starts[:, 2] + ends[:, 2]) / 2]), cell_m)
    poses, near_edges = poses.of(near[: len(poses.object)]), near[len(poses.object) :]
    drivers = [i for i in np.unique(poses.object).tolist() if scene.objects[i].type == VEHICLE and scene.objects[i].moves]
    paths = _crossings(scene, poses, drivers)
    edges = _edge_crossings(poses, drivers, starts[near_edges], ends[near_edges])
    parts = [
        _worst(what, found)
        for what, found in (("pairs of paths that cross", paths), ("paths that cross a road edge", edges))
        if found
    ]
    return f"height is not simulated, and these count as contacts: {' and '.join(parts)}" if parts else ""


def _worst(what: str, found: dict[tuple[int, ...], float]) -> str:
    """Return how many there are, and which are farthest apart in height."""
    worst = max(found, key=lambda key: found[key])
    numbers = " and ".join(f"objects[{index}]" for index in worst)
    return f"{len(found)} {what} at another height ({numbers}: {found[worst]:.1f} m)"


def _poses(scene: Scene) -> _Poses:
    index, xy, ground, heading, halves = [], [], [], [], []
    for number, item in enumerate(scene.objects):
        points = item.position_m[item.valid]
        if not len(points):
            continue
        way = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points[:, :2], axis=0).T))])
        kept = np.flatnonzero(np.diff(np.floor(way / STEP_M), prepend=-1.0))
        index.append(np.full(len(kept), number))
        xy.append(points[kept, :2])
        ground.append(points[kept, 2] - item.height_m / 2)
        heading.append(item.heading_rad[item.valid][kept])
        halves.append(np.tile([item.length_m / 2, item.width_m / 2], (len(kept), 1)))
    if not index:
        nothing = np.zeros(0)
        return _Poses(np.zeros(0, np.int64), np.zeros((0, 2)), nothing, nothing, (nothing, nothing))
    half = np.concatenate(halves)
    return _Poses(
        np.concatenate(index), np.concatenate(xy), np.concatenate(ground), np.concatenate(heading), (half[:, 0], half[:, 1])
    )


def _edges(scene: Scene) -> tuple[Floats, Floats]:
    """Return starts and ends (n, 3) of pieces of all road edges, of about STEP_M at most."""
    starts, ends = [np.zeros((0, 3))], [np.zeros((0, 3))]
    for road in scene.roads:
        if road.type == "road_edge" and len(road.points_m) > 1:
            way = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(road.points_m[:, :2], axis=0).T))])
            wanted = np.linspace(0.0, way[-1], 1 + min(10_000, int(np.ceil(way[-1] / STEP_M))))
            points = np.stack([np.interp(wanted, way, road.points_m[:, axis]) for axis in range(3)], axis=-1)
            starts.append(points[:-1])
            ends.append(points[1:])
    return np.concatenate(starts), np.concatenate(ends)


def _near_levels(xy_m: Floats, height_m: Floats, cell_m: float) -> Bools:
    """Return which points (n,) have heights more than LEVEL_M apart in their cell and its eight neighbours."""
    cells = np.floor(xy_m / cell_m).astype(np.int64)
    cells -= cells.min(axis=0) - 1
    stride = int(cells[:, 1].max()) + 2
    keys, inverse = np.unique(cells[:, 0] * stride + cells[:, 1], return_inverse=True)
    low, high = np.full(len(keys), np.inf), np.full(len(keys), -np.inf)
    np.minimum.at(low, inverse, height_m)
    np.maximum.at(high, inverse, height_m)
    lowest, highest = low.copy(), high.copy()
    for shift in (a * stride + b for a in (-1, 0, 1) for b in (-1, 0, 1)):
        at = np.minimum(np.searchsorted(keys, keys + shift), len(keys) - 1)
        there = keys[at] == keys + shift
        lowest = np.where(there, np.minimum(lowest, low[at]), lowest)
        highest = np.where(there, np.maximum(highest, high[at]), highest)
    return np.asarray((highest - lowest > LEVEL_M)[inverse])


def _crossings(scene: Scene, poses: _Poses, drivers: list[int]) -> dict[tuple[int, ...], float]:
    """Return pairs of objects whose paths cross at different heights, with the difference in metres."""
    found: dict[tuple[int, ...], float] = {}
    reach = np.hypot(*poses.half)
    tall = np.array([scene.objects[i].height_m for i in poses.object.tolist()])
    looks = 0
    for driver in drivers:
        mine = np.flatnonzero(poses.object == driver)
        others = np.flatnonzero(poses.object != driver)
        looks += len(mine) * len(others)
        if looks > MOST_LOOKS:
            break
        offset = poses.xy_m[others][None] - poses.xy_m[mine][:, None]
        rise = poses.ground_m[others][None] - poses.ground_m[mine][:, None]
        gap = np.where(rise > 0, rise - tall[mine][:, None], -rise - tall[others][None])
        close = np.hypot(offset[..., 0], offset[..., 1]) < reach[mine][:, None] + reach[others][None]
        a, b = np.nonzero(close & (np.abs(rise) > LEVEL_M) & (gap > 0))
        a, b, offset, rise = mine[a], others[b], offset[a, b], rise[a, b]
        halves = [(poses.half[0][at], poses.half[1][at]) for at in (a, b)]
        overlap = boxes_overlap(offset, poses.heading_rad[a], poses.heading_rad[b], halves[0], halves[1])
        for other in np.unique(poses.object[b[overlap]]).tolist():
            pair = (min(driver, other), max(driver, other))
            found[pair] = float(np.abs(rise[overlap & (poses.object[b] == other)]).max())
    return found


def _edge_crossings(poses: _Poses, drivers: list[int], starts: Floats, ends: Floats) -> dict[tuple[int, ...], float]:
    """Return vehicles that pass above or below a road edge, with the difference in metres."""
    found: dict[tuple[int, ...], float] = {}
    height = (starts[:, 2] + ends[:, 2]) / 2
    looks = 0
    for driver in drivers:
        mine = np.flatnonzero(poses.object == driver)
        looks += len(mine) * len(starts)
        if looks > MOST_LOOKS:
            break
        half_length, half_width = float(poses.half[0][mine[0]]), float(poses.half[1][mine[0]])
        apart = np.abs(height[None] - poses.ground_m[mine][:, None])
        crossed = box_crosses_segment(
            poses.xy_m[mine], poses.heading_rad[mine], half_length, half_width, starts[:, :2], ends[:, :2]
        )
        crossed &= apart > LEVEL_M
        if crossed.any():
            found[(driver,)] = float(apart[crossed].max())
    return found
