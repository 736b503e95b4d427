# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Classifies an agent's first contact: the parties, the angle, and the rule.

docs/drive.md has the thresholds. Runs in the learner, on the env's record of the contact
(csrc/drive/judge/collide.c) and on the map of the compiled scene. A body that drives backward has
the direction of its motion.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from drive_env.scenes import packed
from drive_env.scenes.schema import OBJECT_TYPES, PEDESTRIAN, VEHICLE
from puffervec._ffi import lib

State = Mapping[str, Any]
DRIVERS = {
    int(lib.PV_DRIVE_BY_LOG): "log",
    int(lib.PV_DRIVE_BY_POLICY): "policy",
    int(lib.PV_DRIVE_BY_IDM): "idm",
}
STANDS_MPS = 0.1  # a slower body stands, as in C
SAME_RAD, OPPOSITE_RAD = math.radians(45), math.radians(135)  # between them the two bodies cross
# How the lane of a body is chosen, as in csrc/drive/judge/measure.c
REACH_M, TURNED_COSINE, TURNED_COST_M = 4.0, math.cos(math.radians(30)), 3.0
AGAINST_COSINE = -0.5  # below: the body drives against its lane
STANDS_IN_LANE_M = 2.0  # a body that stands farther from a lane's centre line is in no lane
TURNS_RAD = math.radians(30)  # a lane that turns by more from start to end is a turn
FOLLOWED_LINKS = 2  # a lane this many links ahead is still the same route
CROSSWALK_M = 2.0  # a body this close to a crosswalk is on it
PARKED_M = 1.0  # a vehicle whose log stays within this distance is parked


@dataclass(frozen=True)
class Body:
    """One of the two bodies.

    Attributes:
        x, y: centre in the scene's frame, m.
        heading: direction of its motion, rad.
        speed: m/s, at least 0.
    """

    x: float
    y: float
    heading: float
    speed: float
    length: float
    width: float


@dataclass(frozen=True)
class Lane:
    """The lane that a body is in.

    Attributes:
        number: its number in the scene.
        cosine: cosine of the angle between the body's motion and the lane.
    """

    number: int
    cosine: float


def id_of(objects: np.ndarray, number: int) -> int | str:
    """Return an object's id in its file or, if the file has no ids, its index there as "#7".

    >>> id_of(np.array([(5,), (-1,)], [("id", "i8")]), 1)
    '#1'
    """
    number_in_file = int(objects[number]["id"])
    return number_in_file if number_in_file >= 0 else f"#{number}"


def contact_of(
    state: State,
    row: int,
    arrays: Mapping[str, np.ndarray],
    lane_segments: int,
    box_scale: float = 1.0,
) -> dict[str, Any]:
    """Return the columns of an agent's first contact; all are None if it had none.

    Args:
        state: as from `vec.peek`.
        row: row of the agent.
        arrays, lane_segments: arrays and lane segments of its compiled scene.
        box_scale: scale of the boxes that are tested for contact.
    """
    number = int(state["contact_object"][row]) - 1
    if not 0 <= number < len(arrays["objects"]):
        return dict.fromkeys(
            (
                "other",
                "other_id",
                "driver",
                "angle",
                "rule",
                "at_fault",
                "speed_mps",
                "other_speed_mps",
            )
        )
    item = arrays["objects"][number]
    driver = int(state["contact_driver"][row])
    own, other = (
        _body(state, row, "contact", arrays["objects"][state["object"][row]], box_scale),
        _body(state, row, "other", item, box_scale),
    )
    kind = OBJECT_TYPES[item["type"]]
    parked = (
        driver == lib.PV_DRIVE_BY_LOG
        and item["type"] == VEHICLE
        and _reach_m(item, arrays["frames"]) < PARKED_M
    )
    return {
        "other": "parked vehicle" if parked else kind,
        "other_id": id_of(arrays["objects"], number),
        "driver": None if parked else DRIVERS[driver],
        "angle": angle_of(own, other),
        "rule": _rule(
            state, row, number, own, other, int(item["type"]), Roads(arrays, lane_segments)
        ),
        "at_fault": int(state["contact_fault"][row]),
        "speed_mps": float(state["contact_speed"][row]),
        "other_speed_mps": float(state["other_speed"][row]),
    }


def _body(state: State, row: int, name: str, item: Any, box_scale: float = 1.0) -> Body:
    x, y, heading, speed = (
        float(state[f"{name}_{part}"][row]) for part in ("x", "y", "heading", "speed")
    )
    backward = speed < -STANDS_MPS
    return Body(
        x,
        y,
        heading + math.pi * backward,
        abs(speed),
        box_scale * float(item["length_m"]),
        box_scale * float(item["width_m"]),
    )


def _reach_m(item: Any, frames: np.ndarray) -> float:
    """Return the largest distance of an object's log from its first position, m."""
    own = frames[item["frames_index"] : item["frames_index"] + item["frame_count"]]
    own = own[own["speed"] != packed.FRAME_INVALID]
    return float(np.hypot(own["x_m"] - own["x_m"][0], own["y_m"] - own["y_m"][0]).max())


# ---- the angle -----------------------------------------------------------------------------------


def angle_between(own: Body, other: Body) -> float:
    """Return the angle between two directions, rad from 0 to pi.

    >>> round(angle_between(Body(0, 0, 3, 0, 4, 2), Body(0, 0, -3, 0, 4, 2)), 3)
    0.283
    """
    return abs((other.heading - own.heading + math.pi) % (2 * math.pi) - math.pi)


def contact_side(own: Body, other: Body) -> str:
    """Return which part of its own box meets the other: "front", "rear" or "side".

    Before the contact there is a gap between the boxes along or across the own heading; the gap
    that closes last decides. If both are closed, it is the one with the smaller overlap.
    """
    c, s = math.cos(own.heading), math.sin(own.heading)
    dx, dy = other.x - own.x, other.y - own.y
    ahead, left, turn = dx * c + dy * s, dy * c - dx * s, other.heading - own.heading
    reach = (other.length * abs(math.cos(turn)) + other.width * abs(math.sin(turn))) / 2
    aside = (other.length * abs(math.sin(turn)) + other.width * abs(math.cos(turn))) / 2
    closing_ahead = (own.speed - other.speed * math.cos(turn)) * math.copysign(1, ahead)
    closing_aside = -other.speed * math.sin(turn) * math.copysign(1, left)
    along = _time_to_close(abs(ahead) - own.length / 2 - reach, closing_ahead)
    across = _time_to_close(abs(left) - own.width / 2 - aside, closing_aside)
    return "side" if along < across else "front" if ahead > 0 else "rear"


def _time_to_close(gap_m: float, closing_mps: float) -> float:
    """Return the seconds until a gap closes, or minus the overlap in m if it is closed."""
    return gap_m if gap_m <= 0 else gap_m / max(closing_mps, 1e-3)


def angle_of(own: Body, other: Body) -> str:
    """Return the class of a contact: "rear-end", "rear-ended", "head-on" or "side".

    "rear-end": the agent drove into the other's rear.
    """
    turn, part = angle_between(own, other), contact_side(own, other)
    if turn <= SAME_RAD and part != "side":
        return "rear-end" if part == "front" else "rear-ended"
    return "head-on" if turn >= OPPOSITE_RAD and part != "side" else "side"


# ---- the rule ------------------------------------------------------------------------------------


class Roads:
    """Lanes and crosswalks of a compiled scene."""

    def __init__(self, arrays: Mapping[str, np.ndarray], lane_segments: int) -> None:
        """Set up the roads.

        Args:
            lane_segments: number of segments that are lanes; they come first.
        """
        self.arrays, self.count = arrays, lane_segments
        self.lanes, self.links = arrays["lanes"], arrays["links"]

    def lane_at(self, body: Body) -> Lane | None:
        """Return the lane that a body is in: the nearest one within 4 m.

        Lanes more than 30 degrees off count as 3 m farther away.
        """
        x, y, ux, uy, half = (
            self.arrays[name][: self.count].astype(float) for name in ("x", "y", "ux", "uy", "half")
        )
        dx, dy = body.x - x, body.y - y
        along = np.clip(dx * ux + dy * uy, -half, half)
        distance = np.hypot(dx - along * ux, dy - along * uy)
        cosine = ux * math.cos(body.heading) + uy * math.sin(body.heading)
        cost = distance + TURNED_COST_M * (cosine < TURNED_COSINE)
        cost[distance > (REACH_M if body.speed > STANDS_MPS else STANDS_IN_LANE_M)] = np.inf
        if not np.isfinite(cost).any():
            return None
        nearest = int(cost.argmin())
        return Lane(int(self.arrays["polyline"][nearest]), float(cosine[nearest]))

    def exits(self, lane: int) -> set[int]:
        """Return the lanes that continue from the end of a lane."""
        first, count = int(self.lanes[lane]["exits"]), int(self.lanes[lane]["exit_count"])
        return set(self.links[first : first + count].tolist())

    def leads_to(self, lane: int, other: int) -> bool:
        """Return whether a lane equals another one, or leads into it in FOLLOWED_LINKS links."""
        reachable = {lane}
        for _ in range(FOLLOWED_LINKS):
            reachable |= {after for one in reachable for after in self.exits(one)}
        return other in reachable

    def directions(self, lane: int) -> tuple[float, float]:
        """Return the headings of a lane's first and last segment, rad."""
        first = int(self.lanes[lane]["first_segment"])
        last = first + int(self.lanes[lane]["segment_count"]) - 1
        start, end = (
            math.atan2(self.arrays["uy"][at], self.arrays["ux"][at]) for at in (first, last)
        )
        return start, end

    def turns_left(self, lane: int) -> bool:
        """Return whether a lane ends more than 30 degrees to the left of its start."""
        start, end = self.directions(lane)
        return (end - start + math.pi) % (2 * math.pi) - math.pi > TURNS_RAD

    def on_crosswalk(self, body: Body) -> bool:
        """Return whether the centre of a body is on a crosswalk, or within 2 m of one."""
        for area in self.arrays["areas"][self.arrays["areas"]["kind"] == lib.PV_CROSSWALK]:
            at = slice(int(area["first"]), int(area["first"]) + int(area["count"]))
            if _within(
                body.x,
                body.y,
                self.arrays["points_x"][at].astype(float),
                self.arrays["points_y"][at].astype(float),
            ):
                return True
        return False


def _within(x: float, y: float, px: np.ndarray, py: np.ndarray) -> bool:
    """Return whether a point is in a polygon, or within CROSSWALK_M of its border."""
    qx, qy = np.roll(px, -1), np.roll(py, -1)
    dx, dy = qx - px, qy - py
    share = np.clip(((x - px) * dx + (y - py) * dy) / np.maximum(dx * dx + dy * dy, 1e-9), 0, 1)
    if np.hypot(x - px - share * dx, y - py - share * dy).min(initial=np.inf) <= CROSSWALK_M:
        return True
    spans = (py > y) != (qy > y)
    return bool(((x < px + (y - py) / np.where(dy == 0, 1, dy) * dx) & spans).sum() % 2)


def _rule(
    state: State, row: int, other_number: int, own: Body, other: Body, kind: int, roads: Roads
) -> str | None:
    """Return the rule that applies where the two met; None if no rule is known."""
    now = int(state["contact_step"][row])
    rows = [
        row,
        *np.flatnonzero(
            (state["slot"] == state["slot"][row]) & (state["object"] == other_number)
        ).tolist(),
    ]
    for rule, name in (("red light", "red_light_step"), ("stop sign", "stop_sign_step")):
        if any(0 < int(state[name][at]) <= now for at in rows):
            return rule
    if kind == PEDESTRIAN:
        return "crosswalk" if roads.on_crosswalk(other) else None
    return rule_of_lanes(own, other, roads)


def rule_of_lanes(own: Body, other: Body, roads: Roads) -> str | None:
    """Return the rule between the lanes of two bodies; None if one of them is in no lane."""
    first, second = roads.lane_at(own), roads.lane_at(other)
    if any(lane is not None and lane.cosine <= AGAINST_COSINE and body.speed > STANDS_MPS
           for lane, body in ((first, own), (second, other))):  # fmt: skip
        return "on-coming lane"
    if first is None or second is None:
        return None
    a, b = first.number, second.number
    same_way = angle_between(own, other) <= SAME_RAD
    if roads.leads_to(a, b) or roads.leads_to(b, a):
        return "following" if same_way else None
    if roads.exits(a) & roads.exits(b):
        return "merge"
    if same_way:
        return "lane change"
    starts = [roads.directions(lane)[0] for lane in (a, b)]
    opposite = abs((starts[0] - starts[1] + math.pi) % (2 * math.pi) - math.pi) >= OPPOSITE_RAD
    return (
        "left turn"
        if opposite and (roads.turns_left(a) or roads.turns_left(b))
        else "crossing lanes"
    )
