# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The slow, obvious twin of conflicts (csrc/drive/search/conflicts.c): where the ways of bodies
meet, and who goes first there.

Written from docs/drive.md, in float64; scenes have no levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tests.twins.drive import Bodies, SceneTwin

PEDESTRIAN, CROSSWALK, LIGHT = 1, 0, 1
RED, YELLOW, GREEN, FLASHING = 1, 2, 3, 16
WAY_M, AREA_M, PIECES, MOST_S, YIELD_S = 80.0, 2.0, 40, 10.0, 3.0
# What controls the traffic on a lane; the last one of a lane's counts.
RULES = ("none", "green", "unknown", "sign", "red")
SCALES = np.array([20, 5, 20, 5, 20, 20, 1, 1, 1, 1, 1, 1, 1], float)
Vector = np.ndarray


@dataclass(frozen=True)
class Piece:
    """A straight piece of a way. segment: -1 on no lane."""

    start: Vector
    direction: Vector
    length: float
    at: float
    segment: int
    rule: str


@dataclass(frozen=True)
class Conflict:
    """Where the way of a body meets that of another one."""

    own: int
    other: int
    own_at: float
    other_at: float
    point: Vector
    joins: bool
    piece: Piece
    other_piece: Piece
    distance: float
    other_distance: float
    time: float
    other_time: float


class Pieces(NamedTuple):
    """The pieces of a way as arrays, (n, 2) or (n,)."""

    start: Vector
    direction: Vector
    length: Vector
    at: Vector


class Conflicts:
    """All conflicts of the bodies at one time.

    Args:
        frame: of the log, for lights.
        goals: {object: (x, y)} of agents.
    """

    def __init__(
        self, twin: SceneTwin, bodies: Bodies, frame: int, goals: dict[int, tuple[float, float]]
    ) -> None:
        self.twin, self.bodies, self.frame, self.goals = twin, bodies, frame, goals
        of = twin.of_type["lanes"]
        self.middle = np.stack([twin.road["x"][of], twin.road["y"][of]], -1).astype(float)
        self.direction = np.stack([twin.road["ux"][of], twin.road["uy"][of]], -1).astype(float)
        self.half = twin.road["half"][of].astype(float)

    # ---- ways ----

    def kind(self, i: int) -> int:
        return int(self.twin.objects[self.bodies.object[i]]["type"])

    def rule(self, lane: int, came_with: str) -> str:
        found = ["none"]
        for control in self.twin.controls:
            if control["lane"] != lane:
                continue
            index = control["states"] + min(self.frame, control["state_count"] - 1)
            state = int(self.twin.states[index])
            flashing = bool(state & FLASHING)
            found.append(
                "sign" if control["kind"] != LIGHT or (state & 7 == RED and flashing)
                else {RED: "red", YELLOW: "green", GREEN: "green"}.get(state & 7, "unknown")
            )  # fmt: skip
        strongest = max(found, key=RULES.index)
        return came_with if strongest == "none" else strongest

    def following(self, s: int, goal: Vector) -> int | None:
        lane = self.twin.lanes[self.twin.polyline[s]]
        if s + 1 < lane["first_segment"] + lane["segment_count"]:
            return s + 1
        exits = self.twin.links[lane["exits"] : lane["exits"] + lane["exit_count"]]
        if not len(exits):
            return None

        def beyond(number: int) -> float:
            record = self.twin.lanes[number]
            last = int(record["first_segment"] + record["segment_count"] - 1)
            end = self.middle[last] + self.half[last] * self.direction[last]
            return float(((goal - end) ** 2).sum())

        return int(self.twin.lanes[min(exits.tolist(), key=beyond)]["first_segment"])

    def way(self, i: int) -> list[Piece]:
        bodies, o = self.bodies, int(self.bodies.object[i])
        heading, speed = float(bodies.heading[i]), float(bodies.speed[i])
        ahead = np.array([np.cos(heading), np.sin(heading)])
        back = float(bodies.length[i]) / 2 + AREA_M
        rear = np.array([bodies.x[i], bodies.y[i]], float) - back * ahead
        acts = o in self.goals
        if self.kind(i) == PEDESTRIAN:
            return [Piece(rear, ahead, back + max(3.0, 5.0 * speed), -back, -1, "none")]
        squares = self.twin.squares("lanes", *rear).astype(float)
        squares[self.direction @ ahead < np.sqrt(0.5)] = np.inf
        squares[squares > (4.0 if acts else 2.0) ** 2] = np.inf
        if not len(squares) or not np.isfinite(squares).any():
            straight = [Piece(rear, ahead, back + WAY_M, -back, -1, "none")]
            return straight if acts or speed >= 0.5 else []
        item = self.twin.objects[o]
        goal = np.array(self.goals.get(o, (item["goal_x_m"], item["goal_y_m"])), float)
        s: int | None = int(squares.argmin())
        pieces: list[Piece] = []
        at, lane, rule = -back, -1, "none"
        while s is not None and len(pieces) < PIECES and at < WAY_M:
            if int(self.twin.polyline[s]) != lane:
                lane = int(self.twin.polyline[s])
                rule = self.rule(lane, rule)
            along = -self.half[s]
            if not pieces:
                along = np.clip(
                    (rear - self.middle[s]) @ self.direction[s], -self.half[s], self.half[s]
                )
            start = self.middle[s] + along * self.direction[s]
            length = float(self.half[s] - along)
            pieces.append(Piece(start, self.direction[s], length, at, s, rule))
            at, s = at + length, self.following(s, goal)
        return pieces

    @cached_property
    def ways(self) -> list[list[Piece]]:
        return [self.way(i) for i in range(len(self.bodies.object))]

    @cached_property
    def arrays(self) -> list[Pieces]:
        return [
            Pieces(*(np.array([getattr(piece, name) for piece in way]) for name in Pieces._fields))
            for way in self.ways
        ]

    # ---- where they meet ----

    def meet(self, own: int, other: int) -> Conflict | None:
        a, b = self.ways[own], self.ways[other]
        mine, its = ([piece.segment for piece in way if piece.segment >= 0] for way in (a, b))
        if not a or not b or a[0].segment in its or b[0].segment in mine:
            return None
        shared = next((n for n, piece in enumerate(a) if piece.segment in its), None)
        before = np.inf if shared is None else a[shared].at - 0.5
        p, q = (self.arrays[i] for i in (own, other))
        sine = cross(p.direction[:, None], q.direction[None])
        sine = np.where(np.abs(sine) < 0.05, np.nan, sine)  # they never cross
        gap = q.start[None] - p.start[:, None]
        t, u = cross(gap, q.direction[None]) / sine, cross(gap, p.direction[:, None]) / sine
        hits = (t >= 0) & (t <= p.length[:, None]) & (u >= 0) & (u <= q.length[None])
        hits &= p.at[:, None] + t < before
        if hits.any():
            n, m = (int(index) for index in np.argwhere(hits)[0])
            point = a[n].start + t[n, m] * a[n].direction
            at = float(a[n].at + t[n, m]), float(b[m].at + u[n, m])
            return self.complete(own, other, *at, point, False, a[n], b[m])
        if shared is None:
            return None
        n = next(n for n, piece in enumerate(b) if piece.segment == a[shared].segment)
        return self.complete(
            own, other, a[shared].at, b[n].at, a[shared].start, True, a[shared - 1], b[n - 1]
        )

    def complete(
        self, own: int, other: int, own_at: float, other_at: float, point: Vector, joins: bool,
        piece: Piece, other_piece: Piece,
    ) -> Conflict:  # fmt: skip
        distances, times = [], []
        for i, at in ((own, own_at), (other, other_at)):
            distance, speed = at - float(self.bodies.length[i]) / 2 - AREA_M, self.bodies.speed[i]
            distances.append(float(distance))
            times.append(
                0.0 if distance <= 0 else min(distance / speed, MOST_S) if speed > 0.1 else MOST_S
            )
        return Conflict(
            own, other, own_at, other_at, point, joins, piece, other_piece, *distances, *times
        )

    def of(self, own: int) -> list[Conflict]:
        """Conflicts of a body, the nearest first."""
        found = [self.meet(own, i) for i in range(len(self.bodies.object)) if i != own]
        return sorted((item for item in found if item), key=lambda item: item.distance)

    # ---- who goes first ----

    def on_crosswalk(self, point: Vector) -> bool:
        arrays = self.twin.arrays
        for area in arrays["areas"]:
            span = slice(int(area["first"]), int(area["first"] + area["count"]))
            corners = np.stack([arrays["points_x"][span], arrays["points_y"][span]], -1)
            if area["kind"] == CROSSWALK and winds_around(corners.astype(float) - point):
                return True
        return False

    def turn(self, segment: int) -> str:
        lane = self.twin.lanes[self.twin.polyline[segment]]
        first = self.direction[int(lane["first_segment"])]
        last = self.direction[int(lane["first_segment"] + lane["segment_count"] - 1)]
        angle = np.degrees(np.arctan2(first[0] * last[1] - first[1] * last[0], first @ last))
        return "straight" if abs(angle) <= 30 else "left" if angle > 0 else "right"

    def shift(self, segment: int, joined: Piece) -> float:
        """How far the lane of a segment is to the side of the one that it joins, 40 m before."""
        lane = self.twin.lanes[self.twin.polyline[segment]]
        first, count = int(lane["first_segment"]), int(lane["segment_count"])
        left = 40.0
        point = self.middle[first] - self.half[first] * self.direction[first]
        for s in range(first + count - 1, first - 1, -1):
            if left <= 2 * self.half[s]:
                point = self.middle[s] + (self.half[s] - left) * self.direction[s]
                break
            left -= 2 * self.half[s]
        gap = point - joined.start
        return float(abs(gap[0] * joined.direction[1] - gap[1] * joined.direction[0]))

    def goes_first(self, item: Conflict, entering: bool = False) -> int:
        """1: the body itself, -1: the other, 0: unknown."""
        inside, other_inside = item.distance <= 0 and not entering, item.other_distance <= 0
        if inside != other_inside:
            return 1 if inside else -1
        walks, other_walks = (self.kind(i) == PEDESTRIAN for i in (item.own, item.other))
        if walks != other_walks:
            return 1 if walks == self.on_crosswalk(item.point) else -1
        a, b = item.piece, item.other_piece
        if a.segment < 0 or b.segment < 0 or "unknown" in (a.rule, b.rule):
            return 0
        for waits in ("red", "sign"):
            if (a.rule == waits) != (b.rule == waits):
                return -1 if a.rule == waits else 1
        nearer = item.other_distance - item.distance
        if a.rule == b.rule == "sign" and abs(nearer) > 5:
            return 1 if nearer > 0 else -1
        turn, other_turn = self.turn(a.segment), self.turn(b.segment)
        if item.joins:
            if (turn == "straight") != (other_turn == "straight"):
                return 1 if turn == "straight" else -1
            if turn != "straight":
                return 0
            joined = self.ways[item.own][self.ways[item.own].index(a) + 1]
            more = self.shift(b.segment, joined) - self.shift(a.segment, joined)
            return 0 if abs(more) <= 1 else int(np.sign(more))
        order = ("left", "right", "straight")
        if turn != other_turn:
            return int(np.sign(order.index(turn) - order.index(other_turn)))
        sine = float(a.direction[0] * b.direction[1] - a.direction[1] * b.direction[0])
        return 0 if abs(sine) <= np.sin(np.radians(15)) else -int(np.sign(sine))

    def fails_to_yield(self, own: int, moved: float) -> bool:
        """Whether a body has just entered the way of one that goes first."""
        if self.bodies.speed[own] <= 0:
            return False
        return any(
            item.distance <= 0 < item.distance + moved
            and item.other_time < YIELD_S
            and item.other_at >= (0.0 if item.joins else -self.bodies.length[item.other] / 2)
            and self.goes_first(item, entering=True) < 0
            for item in self.of(own)
        )

    # ---- observations ----

    def block(self, own: int, k: int, bound: float) -> Any:
        """The k nearest conflicts, (k, 13), scaled and clipped."""
        out = np.zeros((k, len(SCALES)))
        heading = float(self.bodies.heading[own])
        to_car = np.array([[np.cos(heading), np.sin(heading)], [-np.sin(heading), np.cos(heading)]])
        here = np.array([self.bodies.x[own], self.bodies.y[own]], float)
        for row, item in zip(out, self.of(own), strict=False):
            first = self.goes_first(item)
            row[:] = (
                item.distance, item.time, item.other_distance, item.other_time,
                *(to_car @ (item.point - here)), *(to_car @ item.other_piece.direction),
                item.joins, self.kind(item.other) == PEDESTRIAN, first > 0, first < 0, first == 0,
            )  # fmt: skip
        return np.clip(out / SCALES, -bound, bound)


def cross(a: Vector, b: Vector) -> Vector:
    """The z component of the cross product of plane vectors, (..., 2)."""
    return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])


def winds_around(corners: Vector) -> bool:
    """Whether a polygon (n, 2) contains the origin."""
    angles = np.arctan2(corners[:, 1], corners[:, 0])
    steps = (np.diff(np.append(angles, angles[0])) + np.pi) % (2 * np.pi) - np.pi
    return abs(steps.sum()) > np.pi
