# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Nodes and links of generated streets, and the map elements made from them.

Runs in the learner (drive_env.generate.streets). Traffic keeps right. A network consists of nodes,
where links meet, and of links with a cross-section (`Profile`). Families (families.py) choose them;
nodes.py and links.py turn them into map elements. The end of one lane and the starts of the next
ones share a tag. The road is to the left of every edge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from drive_env.generate import exact
from drive_env.generate.layouts import LANE, SURFACE_STREET, Piece, Profile, arc_length, headings_of
from drive_env.scenes.schema import Floats

Tag = tuple[int, int, str, int]  # node, its arm, "in" or "out", lane from the middle of the road
FREE, STOP, SIGNAL = "free", "stop", "signal"


@dataclass(frozen=True)
class Lane:
    """A lane that cars can follow.

    Attributes:
        start, end: see Tag.
        rank: priority.
        piece: index of its map element.
    """

    points_m: Floats  # (n, 2)
    start: Tag
    end: Tag
    piece: int
    turn: str = ""  # "straight", "left" or "right" at a node, "" on a link
    rank: int = 5
    group: int = -1  # of the traffic lights, -1: none
    stop: bool = False  # whether there is a stop sign at its start
    level: int = 0
    shifts_m: tuple[float, ...] = ()  # lateral offsets of neighbours, left positive
    slow: float = 1.0  # factor on the speed that drivers aim for
    limit_mps: float = 0.0  # speed limit, 0: none is known


@dataclass(frozen=True)
class Crossing:
    """A crosswalk, from kerb to kerb.

    Attributes:
        group: group of the lights of the traffic that it crosses, -1: none.
    """

    ends_m: Floats  # (2, 2)
    group: int = -1


@dataclass
class Streets:
    """Map elements, lanes, and places for everything other than moving cars."""

    pieces: list[Piece] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)  # of the pieces
    lanes: list[Lane] = field(default_factory=list)
    # x, y, heading of places at the kerb or in a lot, and behind the kerb
    parking: list[tuple[float, float, float]] = field(default_factory=list)
    yards: list[tuple[float, float, float]] = field(default_factory=list)
    walks: list[Floats] = field(default_factory=list)  # (n, 2) lines along the kerbs, outside
    crossings: list[Crossing] = field(default_factory=list)
    groups: int = 0  # number of groups of traffic lights

    def add(self, kind: str, element: int, points_m: Floats, level: int = 0) -> int:
        """Add a map element and return its index."""
        self.pieces.append(Piece(kind, element, points_m))
        self.levels.append(level)
        return len(self.pieces) - 1

    def add_lane(
        self,
        points_m: Floats,
        start: Tag,
        end: Tag,
        level: int = 0,
        element: int = SURFACE_STREET,
        **more: Any,
    ) -> None:
        """Add a lane that cars follow."""
        piece = self.add(LANE, element, points_m, level)
        self.lanes.append(Lane(points_m, start, end, piece, level=level, **more))


@dataclass
class Node:
    """A place where links meet.

    A node of one link is an open end, or a turning place of radius `bulb_m`.
    """

    place_m: Floats
    control: str = FREE
    corner_m: float = 7.0
    ring_m: float = 0.0  # radius of a roundabout's lane, 0: none
    bulb_m: float = 0.0
    crosswalks: float = 0.5  # share of its arms that have one
    major: tuple[int, ...] = ()  # links that have priority; (): all equal


@dataclass
class Link:
    """A road from one node to another."""

    first: int
    last: int
    profile: Profile
    # Angles by which its directions at both ends differ from the straight line, radians
    lean: tuple[float, float] = (0.0, 0.0)
    stalls: bool = False  # cars park across, behind the outer lanes
    crossing_at: float = -1.0  # share of its length at which there is a crosswalk
    yards: float = 0.0  # cars parked behind its kerbs, per metre
    slow: float = 1.0
    limit_mps: float = 0.0  # speed limit of its lanes, 0: none is known
    level: int = 0
    narrow: Profile | None = None  # at its last node, if lanes end on the way
    # Function that adds its lanes, lines and kerbs (ramps.py)
    shape: Callable[[Streets, int, Link, Middle], None] | None = None


@dataclass(frozen=True)
class Arm:
    """A link's end at a node."""

    link: int
    direction: Floats
    profile: Profile
    limit_mps: float = 0.0


def unit(angle: Floats | float) -> Floats:
    """Return the unit vectors of directions, (n, 2) or (2,)."""
    return exact.ahead_of(angle)


@dataclass(frozen=True)
class Middle:
    """The middle line of a link, to which everything else on it refers."""

    points_m: Floats  # (n, 2)

    @cached_property
    def heading(self) -> Floats:
        """Return its directions at the points, (n,) radians."""
        return headings_of(self.points_m)

    @cached_property
    def where_m(self) -> Floats:
        """Return the arc length at each point, (n,)."""
        return arc_length(self.points_m)

    @cached_property
    def left(self) -> Floats:
        """Return the unit vectors to the left, (n, 2)."""
        return exact.left_of(self.heading)

    def beside(self, left_m: Floats | float) -> Floats:
        """Return the parallel line at a distance to the left, a number or (n,) by point."""
        distance = left_m[:, None] if isinstance(left_m, np.ndarray) else left_m
        return np.asarray(self.points_m + distance * self.left)
