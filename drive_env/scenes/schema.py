# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A driving scene in memory, as arrays. Reader and generator make it; compiler and plots use it.

Runs in the learner. Coordinates are metres in the scene's own world frame, headings radians counter-clockwise from +x, times
frames of 0.1 s. Objects own their arrays: none aliases a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FRAME_S = 0.1
INVALID = -10000.0  # the format's value in frames in which an object is absent
MOVE_M = 2.0  # an object whose goal is at least this far from its start counts as moving

# The same numbers as PV_VEHICLE... in csrc/drive/scene.h.
OBJECT_TYPES = ("vehicle", "pedestrian", "cyclist", "other")
VEHICLE = 0
# Types that the env sees, in the order of PV_LANE, PV_LINE, PV_EDGE.
SEGMENT_TYPES = ("lane", "road_line", "road_edge")
ROAD_TYPES = (*SEGMENT_TYPES, "stop_sign", "crosswalk", "speed_bump", "driveway")


@dataclass(frozen=True)
class SceneObject:
    """One car, pedestrian, cyclist or other object, with T frames of log."""

    type: int  # index into OBJECT_TYPES
    id: int  # the data set's track id, -1 if it has none
    width_m: float
    length_m: float
    height_m: float
    expert: bool  # the data set's mark_as_expert: never controlled
    position_m: Floats  # (T, 3) centre; meaningless where not valid
    velocity_mps: Floats  # (T, 2)
    heading_rad: Floats  # (T,)
    valid: NDArray[np.bool_]  # (T,)
    goal_m: Floats  # (3,)

    @property
    def valid_at_start(self) -> bool:
        """True if the object is present in frame 0."""
        return bool(self.valid[0])

    @property
    def moves(self) -> bool:
        """True if it is present in frame 0 and its goal is at least 2 m away."""
        return self.valid_at_start and float(np.hypot(*(self.goal_m[:2] - self.position_m[0, :2]))) >= MOVE_M

    @property
    def controllable(self) -> bool:
        """True if it is an agent under control=moving: a vehicle that moves and is not marked as expert."""
        return self.type == VEHICLE and self.moves and not self.expert


@dataclass(frozen=True)
class Road:
    """One map element: a polyline (lane, line, edge), a polygon or a point."""

    type: str  # one of ROAD_TYPES
    map_element_id: int  # the format's subtype, -1 unknown
    id: int
    points_m: Floats  # (n, 3)


@dataclass(frozen=True)
class Scene:
    """A checked scene. Traffic lights and metadata are kept as in the file; the compiler does not use them."""

    name: str  # file name without folder
    scenario_id: str
    frame_count: int  # T
    objects: tuple[SceneObject, ...]
    roads: tuple[Road, ...]
    traffic_lights: dict[str, Any]
    metadata: dict[str, Any]

    @property
    def agent_counts(self) -> tuple[int, int]:
        """Number of agents under control=moving and control=valid."""
        vehicles = [item for item in self.objects if item.type == VEHICLE and item.valid_at_start]
        return sum(item.controllable for item in vehicles), len(vehicles)
