# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Draws what an agent observes: other cars, segments, the route, lights, and what rays meet.

Blocks are recognized by their columns (csrc/drive/tables.h). Columns that are not
coordinates, and the raster, are not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.config import DriveConfig
from drive_env.evaluate.observation import Block, columns, in_si
from puffervec.contract.drawing import Box, Circle, Line, Shape

ROLE = "observed"
POINT_M = 0.6  # radius of a point of the route
Pose = tuple[float, float, float]  # x, y, heading


class Sight:
    """Turns observation rows of a config into shapes."""

    def __init__(self, config: DriveConfig) -> None:
        self._config = config
        self._columns = columns()
        self._ray_angles = ray_angles(config)

    def of(
        self, rows: Mapping[str, NDArray[Any]], agents: Mapping[str, tuple[int, Pose]]
    ) -> dict[str, list[Shape]]:
        """Return the shapes that agents observe, by name.

        Args:
            rows: (rows, ...) by block.
            agents: row and pose by name.
        """
        flat = {name: part for name, part in rows.items() if part.ndim < 4}
        blocks = [
            in_si(part, self._columns[name], self._config.range_m) for name, part in flat.items()
        ]
        return {
            agent: [shape for block in blocks for shape in self._shapes(block, row, pose)]
            for agent, (row, pose) in agents.items()
        }

    def _shapes(self, block: Block, row: int, pose: Pose) -> Iterator[Shape]:
        if "goal_x" in block:
            x, y = _to_world(pose, block["goal_x"][row], block["goal_y"][row])
            yield Circle(float(x), float(y), self._config.goal_radius_m, role=ROLE, filled=False)
        if "there" not in block:
            return
        mine = {
            name: values[row][block["there"][row]].astype(np.float64)
            for name, values in block.items()
        }
        if "x" not in mine:
            yield from self._rays(mine, np.flatnonzero(block["there"][row]), pose)
            return
        x, y = _to_world(pose, mine["x"], mine["y"])
        if "half_length" in mine:
            yield from _segments(mine, x, y, pose)
        elif "length" in mine:
            angle = pose[2] + _angle(mine)
            for values in zip(x, y, mine["length"], mine["width"], angle, strict=True):
                yield Box(*map(float, values), role=ROLE, filled=False)
        elif "left_x" in mine:
            left, right = (
                _to_world(pose, mine[f"{side}_x"], mine[f"{side}_y"]) for side in ("left", "right")
            )
            for ends in zip(*left, *right, strict=True):
                yield Line(
                    ((float(ends[0]), float(ends[1])), (float(ends[2]), float(ends[3]))), role=ROLE
                )
        else:
            for at in zip(x, y, strict=True):
                yield Circle(float(at[0]), float(at[1]), POINT_M, role=ROLE)

    def _rays(
        self, mine: Mapping[str, NDArray[Any]], numbers: NDArray[np.int64], pose: Pose
    ) -> Iterator[Shape]:
        """Yield lines from the car to what its rays meet."""
        if "distance" not in mine:
            return
        angles = pose[2] + self._ray_angles[numbers]
        for distance, angle in zip(mine["distance"].tolist(), angles.tolist(), strict=True):
            yield Line(
                (
                    pose[:2],
                    (pose[0] + distance * math.cos(angle), pose[1] + distance * math.sin(angle)),
                ),
                role=ROLE,
            )


def ray_angles(config: DriveConfig) -> NDArray[np.float64]:
    """Return the angles of the rays from the car's heading (csrc/drive/observe/lidar.c)."""
    count, fov = config.lidar_rays, math.radians(config.lidar_fov_deg)
    if count < 2:
        return np.zeros(count)
    gaps = count - 1 if config.lidar_fov_deg < 360 else count
    return -fov / 2 + np.arange(count) * fov / gaps


def _segments(mine: Mapping[str, NDArray[Any]], x: Any, y: Any, pose: Pose) -> Iterator[Shape]:
    angle = pose[2] + _angle(mine)
    dx, dy = mine["half_length"] * np.cos(angle), mine["half_length"] * np.sin(angle)
    for ends in np.stack([x - dx, y - dy, x + dx, y + dy], axis=-1).tolist():
        yield Line(((ends[0], ends[1]), (ends[2], ends[3])), role=ROLE)


def _angle(mine: Mapping[str, NDArray[Any]]) -> Any:
    return mine["heading"] if "heading" in mine else np.arctan2(mine["sin"], mine["cos"])


def _to_world(pose: Pose, ahead: Any, left: Any) -> tuple[Any, Any]:
    """Return the world coordinates of a place given by its distances ahead and to the left."""
    x, y, heading = pose
    cos, sin = math.cos(heading), math.sin(heading)
    return x + cos * ahead - sin * left, y + sin * ahead + cos * left
