# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A driving scene in memory, as arrays.

Reader and generator create it; compiler and plots use it. Runs in the learner. Coordinates are
metres in the scene's own world frame, headings radians counter-clockwise from +x, times frames of
0.1 s. Objects own their arrays: none aliases a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FRAME_S = 0.1
INVALID = -10000.0  # the format's value in frames in which an object is absent
MOVE_M = 2.0  # an object whose goal is at least this far from its start counts as moving

# Numbered like PV_VEHICLE... in csrc/drive/scene/scene.h.
OBJECT_TYPES = ("vehicle", "pedestrian", "cyclist", "other")
VEHICLE, PEDESTRIAN, CYCLIST = 0, 1, 2
# Types that the env sees, in the order of PV_LANE, PV_LINE, PV_EDGE.
SEGMENT_TYPES = ("lane", "road_line", "road_edge")
ROAD_TYPES = (*SEGMENT_TYPES, "stop_sign", "crosswalk", "speed_bump", "driveway")
AREA_TYPES = ("crosswalk", "speed_bump", "driveway")  # in the order of PV_CROSSWALK...
CONTROL_KINDS = ("stop_sign", "traffic_light", "yield_sign")  # in the order of PV_STOP_SIGN...
UNKNOWN, RED, YELLOW, GREEN, OFF = range(5)  # states of a control: PV_STATE_UNKNOWN...


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
        """Return whether the object is present in frame 0."""
        return bool(self.valid[0])

    @property
    def moves(self) -> bool:
        """Return whether it is present in frame 0 and its goal is at least 2 m away."""
        return (
            self.valid_at_start
            and float(np.hypot(*(self.goal_m[:2] - self.position_m[0, :2]))) >= MOVE_M
        )

    @property
    def controllable(self) -> bool:
        """Return whether it is an agent under control=moving.

        That is a vehicle that moves and is not marked as expert.
        """
        return self.type == VEHICLE and self.moves and not self.expert


@dataclass(frozen=True)
class LaneLinks:
    """What a file tells about a lane besides its points.

    Lanes are identified by their `Road.id`; ids that belong to no lane are dropped later.
    """

    exits: tuple[int, ...] = ()  # lanes that continue from its end
    entries: tuple[int, ...] = ()  # lanes that end where it starts
    left: int = -1  # the adjacent lane in the same direction, -1: unknown
    right: int = -1
    speed_limit_mps: float = 0.0  # 0: unknown


@dataclass(frozen=True)
class Road:
    """One map element: a polyline (lane, line, edge), a polygon or a point."""

    type: str  # one of ROAD_TYPES
    map_element_id: int  # the format's subtype, -1 unknown
    id: int
    points_m: Floats  # (n, 3)
    links: LaneLinks | None = None  # of a lane; None: the file has none


@dataclass(frozen=True)
class Control:
    """One stop sign, yield sign or traffic light.

    A light for several lanes is one control for each of them.
    """

    kind: int  # index into CONTROL_KINDS
    position_m: Floats  # (3,) for a light: where traffic stops; for a sign: where it stands
    lane_id: int  # `Road.id` of the lane for which it holds, -1: unknown
    # (T,) or (1,): UNKNOWN, RED..., plus packed.STATE_ARROW, STATE_FLASHING
    states: NDArray[np.uint8]
    id: int = -1
    heading_rad: float | None = None  # of the traffic that it stops; None: that of the lane
    stop_line_m: Floats | None = None  # (2, 3) its left and right end; None: unknown


@dataclass(frozen=True)
class Scene:
    """A checked scene.

    Traffic lights (the key `tl_states` of the JSON format) and metadata are stored as in the file.
    """

    name: str  # file name without folder
    scenario_id: str
    frame_count: int  # T
    objects: tuple[SceneObject, ...]
    roads: tuple[Road, ...]
    traffic_lights: dict[str, Any]
    metadata: dict[str, Any]
    has_height: bool = True  # False: the file has no heights, and all z are 0
    generated: bool = False  # True: by drive_env.generate; its road edges are simplified like lanes
    # None: controls are derived from `traffic_lights` and the roads of type stop_sign.
    controls: tuple[Control, ...] | None = None
    # Counts of the things in the file that a Scene cannot store.
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def sdc(self) -> int:
        """Return the index of the self-driving car in `objects`, -1 if there is none.

        It is `sdc_track_index` of the metadata.
        """
        index = self.metadata.get("sdc_track_index")
        return index if type(index) is int and 0 <= index < len(self.objects) else -1

    @property
    def to_predict(self) -> frozenset[int]:
        """Return indices in `objects` of the tracks to predict (metadata `tracks_to_predict`)."""
        items = self.metadata.get("tracks_to_predict")
        indices = (
            [item.get("track_index") for item in items if isinstance(item, dict)]
            if isinstance(items, list)
            else []
        )
        return frozenset(
            index for index in indices if type(index) is int and 0 <= index < len(self.objects)
        )

    @property
    def of_interest(self) -> frozenset[int]:
        """Return track ids (`SceneObject.id`) of the metadata's `objects_of_interest`."""
        ids = self.metadata.get("objects_of_interest")
        return (
            frozenset(item for item in ids if type(item) is int and item != -1)
            if isinstance(ids, list)
            else frozenset()
        )

    @property
    def agent_counts(self) -> tuple[int, int]:
        """Return the numbers of agents under control=moving and control=valid."""
        vehicles = [item for item in self.objects if item.type == VEHICLE and item.valid_at_start]
        return sum(item.controllable for item in vehicles), len(vehicles)
