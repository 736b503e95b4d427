# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Nodes of generated streets: crossings, roundabouts, turning places.

Runs in the learner (drive_env.generate.links). A node adds its kerbs, the lanes that connect its
arms, signs, lights and crosswalks, and computes how far from its middle the links begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drive_env.generate import exact
from drive_env.generate.layouts import (
    BOUNDARY,
    CROSSWALK,
    EDGE,
    STEP_M,
    STOP_SIGN,
    Profile,
    angle_between,
    bends_of,
    corner_of,
    left_of,
    line,
    turn_curve,
    turn_of,
)
from drive_env.generate.network import SIGNAL, STOP, Arm, Crossing, Link, Node, Streets, Tag, unit
from drive_env.scenes.schema import Floats

CROSSING_M = 3.0  # width of a crosswalk
SWING_RAD = 0.62  # angle between an arm of a roundabout and where its lanes meet the ring
# Priority of turns where nothing else decides: the larger number goes first.
RANK = {"straight": 2, "right": 1, "left": 0}


def arms_of(index: int, nodes: Sequence[Node], links: Sequence[Link]) -> list[Arm]:
    """Return the arms of a node, counter-clockwise."""
    arms = []
    for number, link in enumerate(links):
        if index not in (link.first, link.last):
            continue
        other, lean = (
            (link.last, link.lean[0]) if index == link.first else (link.first, link.lean[1])
        )
        step = nodes[other].place_m - nodes[index].place_m
        angle = exact.arctan2(step[1], step[0]) + lean
        profile = link.narrow if link.narrow and index == link.last else link.profile
        direction = exact.ahead_of(angle)
        arms.append(Arm(number, direction, profile, link.limit_mps))
    return sorted(arms, key=lambda arm: float(exact.arctan2(arm.direction[1], arm.direction[0])))


@dataclass(frozen=True)
class Shape:
    """Sizes of a node, by arm.

    Attributes:
        corners: see `corner_of`.
        mouths_m: distance from its middle at which the links begin.
    """

    corners: list[tuple[float, float, float]]
    mouths_m: list[float]


def shape_of(node: Node, arms: list[Arm]) -> Shape | None:
    """Return the sizes of a node, or None if its arms are too close together."""
    count = len(arms)
    if count == 1:
        return Shape([], [node.bulb_m + 7.0 if node.bulb_m else 0.0])
    pairs = [(arms[i], arms[(i + 1) % count]) for i in range(count)]
    gaps = [angle_between(a.direction, b.direction) % (2 * np.pi) for a, b in pairs]
    if node.ring_m:
        return (
            Shape([], [ring_sizes(node, arms)[1] + 9.0] * count)
            if min(gaps) > 2.3 * SWING_RAD + 0.1
            else None
        )
    if min(gaps) < np.radians(45):
        return None
    corners = [
        corner_of(a.direction, b.direction, a.profile, b.profile, node.corner_m) for a, b in pairs
    ]
    return Shape(corners, [1.0 + max(corners[i][0], corners[i - 1][1], 4.0) for i in range(count)])


def add_node(
    rng: np.random.Generator,
    streets: Streets,
    index: int,
    node: Node,
    arms: list[Arm],
    shape: Shape,
) -> None:
    """Add the map elements of a node."""
    if len(arms) == 1:
        if node.bulb_m:
            add_bulb(streets, index, node, arms[0], shape.mouths_m[0])
        return
    if node.ring_m:
        add_ring(rng, streets, index, node, arms, shape.mouths_m[0])
        return
    corners, mouths, count = shape.corners, shape.mouths_m, len(arms)
    directions = np.stack([arm.direction for arm in arms])
    for i in range(count):
        add_corner(streets, node, arms, corners, mouths, i, (i + 1) % count)
    first_group = streets.groups
    if node.control == SIGNAL:
        streets.groups += 2
    groups = (
        [first_group + group for group in groups_of(directions)]
        if node.control == SIGNAL
        else [-1] * count
    )
    for i, arm in enumerate(arms):
        side = arm.link not in node.major and bool(node.major)
        if rng.random() < node.crosswalks:
            add_crosswalk(
                streets,
                node.place_m + arm.direction * (mouths[i] - 2.0),
                arm.direction,
                arm.profile,
                groups[i],
            )
        if node.control == STOP and (side or not node.major):
            place = arm.direction * (mouths[i] + 1.0) + left_of(arm.direction) * (
                arm.profile.edge_m + 0.5
            )
            streets.add("stop_sign", STOP_SIGN, (node.place_m + place)[None])
        for j in range(count):
            if i != j:
                add_connectors(streets, index, node, arms, corners, mouths, (i, j), groups[i], side)


def groups_of(directions: Floats) -> list[int]:
    """Return 0 or 1 for each arm: arms opposite each other have green at the same time."""
    along = np.abs(exact.dot(directions, directions[0]))
    return [0 if value > 0.7 else 1 for value in along]


def add_corner(
    streets: Streets,
    node: Node,
    arms: list[Arm],
    corners: list[tuple[float, float, float]],
    mouths: list[float],
    i: int,
    j: int,
) -> None:
    """Add the kerb, and the pavement behind it, from the mouth of an arm to the next one."""
    here, there, corner = arms[i].direction, arms[j].direction, corners[i]
    bends = (corner[0], corner[1]) if corner[2] > 0 else (mouths[i] - 0.5, mouths[j] - 0.5)
    for behind_m in (0.0, 1.6):
        side = left_of(here) * (arms[i].profile.edge_m + behind_m)
        other = -left_of(there) * (arms[j].profile.edge_m + behind_m)
        first, last = side + here * bends[0], other + there * bends[1]
        bend = turn_curve(first, -here, last, there)
        points = np.concatenate(
            [
                line(side + here * mouths[i], first),
                bend[1:-1],
                line(last, other + there * mouths[j]),
            ]
        )
        if behind_m:
            streets.walks.append(node.place_m + points)
        else:
            streets.add(EDGE, BOUNDARY, node.place_m + points)


def add_crosswalk(
    streets: Streets, place: Floats, direction: Floats, profile: Profile, group: int = -1
) -> None:
    """Add a crosswalk across a road at a place on its middle line."""
    side, half = left_of(direction) * profile.edge_m, direction * CROSSING_M / 2
    corners = [place + side - half, place - side - half, place - side + half, place + side + half]
    streets.add("crosswalk", CROSSWALK, np.array(corners))
    reach = left_of(direction) * (profile.edge_m + 1.5)
    streets.crossings.append(Crossing(np.stack([place + reach, place - reach]), group))


def add_connectors(
    streets: Streets, index: int, node: Node, arms: list[Arm],
    corners: list[tuple[float, float, float]],
    mouths: list[float], pair: tuple[int, int], group: int, side_road: bool,
) -> None:  # fmt: skip
    """Add the lanes from one arm to another."""
    i, j = pair
    (here, profile), (there, other) = ((arms[n].direction, arms[n].profile) for n in pair)
    turn, pairs = turn_of(here, there, profile, other)
    bends = bends_of(turn, corners[i], (mouths[i], mouths[j]))
    for lane, other_lane in pairs:
        offset_m, other_m = (
            left_of(here) * profile.lane_offset_m(lane),
            -left_of(there) * other.lane_offset_m(other_lane),
        )
        first, last = offset_m + here * bends[0], other_m + there * bends[1]
        points = turn_curve(first, -here, last, there)
        if turn == "right" and corners[i][2] > 0:
            points = np.concatenate(
                [
                    line(offset_m + here * mouths[i], first)[:-1],
                    points,
                    line(last, other_m + there * mouths[j])[1:],
                ]
            )
        streets.add_lane(
            node.place_m + points, (index, arms[i].link, "in", lane),
            (index, arms[j].link, "out", other_lane),
            turn=turn, rank=RANK[turn] - (3 if side_road else 0), group=group,
            stop=node.control == STOP and (side_road or not node.major),
            limit_mps=arms[i].limit_mps,
        )  # fmt: skip


def ring_sizes(node: Node, arms: list[Arm]) -> tuple[float, float]:
    """Return the radii of the kerbs inside and outside a roundabout's lane."""
    width = max(arm.profile.width_m for arm in arms) + 0.8
    return node.ring_m - width / 2 - 0.4, node.ring_m + width / 2 + 0.8


def add_ring(
    rng: np.random.Generator,
    streets: Streets,
    index: int,
    node: Node,
    arms: list[Arm],
    mouth_m: float,
) -> None:
    """Add a roundabout of one lane, driven counter-clockwise; cars in it have priority."""
    angles = [float(exact.arctan2(arm.direction[1], arm.direction[0])) for arm in arms]
    inner, outer = ring_sizes(node, arms)
    streets.add(
        EDGE,
        BOUNDARY,
        node.place_m
        + inner * unit(np.linspace(0.0, -2 * np.pi, max(24, round(2 * np.pi * inner)))),
    )
    for i, arm in enumerate(arms):
        j = (i + 1) % len(arms)
        gap = (angles[j] - angles[i]) % (2 * np.pi)
        span = (angles[i] + SWING_RAD, angles[i] + gap - SWING_RAD)
        add_ring_kerb(streets, node, (arm, arms[j]), span, outer, mouth_m)
        add_ring_lanes(streets, index, node, arms, (i, j), span, mouth_m)
        if rng.random() < node.crosswalks:
            add_crosswalk(
                streets, node.place_m + arm.direction * (mouth_m - 2.0), arm.direction, arm.profile
            )


def add_ring_kerb(
    streets: Streets,
    node: Node,
    arms: tuple[Arm, Arm],
    span: tuple[float, float],
    outer_m: float,
    mouth_m: float,
) -> None:
    """Add the kerb, and the pavement behind it, from an arm of a roundabout to the next one."""
    (here, profile), (there, other) = ((arm.direction, arm.profile) for arm in arms)
    begin, end = span
    for behind_m in (0.0, 1.6):
        side, other_side = (
            left_of(here) * (profile.edge_m + behind_m),
            -left_of(there) * (other.edge_m + behind_m),
        )
        arc = (outer_m + behind_m) * unit(
            np.linspace(begin, end, max(3, round(outer_m * (end - begin) / STEP_M)))
        )
        into = turn_curve(side + here * mouth_m, -here, arc[0], left_of(unit(begin)))
        out = turn_curve(arc[-1], left_of(unit(end)), other_side + there * mouth_m, there)
        points = node.place_m + np.concatenate([into, arc[1:-1], out])
        if behind_m:
            streets.walks.append(points)
        else:
            streets.add(EDGE, BOUNDARY, points)


def add_ring_lanes(
    streets: Streets,
    index: int,
    node: Node,
    arms: list[Arm],
    pair: tuple[int, int],
    span: tuple[float, float],
    mouth_m: float,
) -> None:
    """Add the lanes of a roundabout between an arm and the next one.

    They join from the arm, lead to the next arm, leave there, and pass it.
    """
    (i, j), (begin, end), radius = pair, span, node.ring_m
    (here, profile), (there, other) = ((arms[n].direction, arms[n].profile) for n in pair)
    lane, other_lane = profile.lanes - 1, other.lanes - 1
    entry, leave = radius * unit(begin), radius * unit(end)
    source = left_of(here) * profile.lane_offset_m(lane) + here * mouth_m
    target = -left_of(there) * other.lane_offset_m(other_lane) + there * mouth_m
    ring: Tag = (index, i, "ring", 0)
    out: Tag = (index, j, "leave", 0)

    def arc(first: float, last: float) -> Floats:
        return radius * unit(
            np.linspace(first, last, max(4, round(radius * (last - first) / STEP_M)))
        )

    for points, start, finish, turn, rank in (
        (
            turn_curve(source, -here, entry, left_of(unit(begin))),
            (index, arms[i].link, "in", lane),
            ring,
            "right",
            -1,
        ),
        (arc(begin, end), ring, out, "straight", 4),
        (
            turn_curve(leave, left_of(unit(end)), target, there),
            out,
            (index, arms[j].link, "out", other_lane),
            "right",
            4,
        ),
        (arc(end, end + 2 * SWING_RAD), out, (index, j, "ring", 0), "left", 4),
    ):
        streets.add_lane(node.place_m + points, start, finish, turn=turn, rank=rank)


def add_bulb(streets: Streets, index: int, node: Node, arm: Arm, mouth: float) -> None:
    """Add the turning place at the end of a road, with the lane that turns in it."""
    here, profile, radius = arm.direction, arm.profile, node.bulb_m
    angle = float(exact.arctan2(here[1], here[0]))
    # The kerb comes in on the left of the arm, goes round and leaves on its right.
    opening = float(exact.arcsin(min(0.9, (profile.edge_m + 1.5) / radius)))
    arc = radius * unit(
        np.linspace(angle + opening, angle + 2 * np.pi - opening, round(4 * np.pi * radius))
    )
    side = left_of(here) * profile.edge_m
    into = turn_curve(side + here * mouth, -here, arc[0], left_of(unit(angle + opening)))
    out = turn_curve(arc[-1], left_of(unit(angle - opening)), -side + here * mouth, here)
    streets.add(EDGE, BOUNDARY, node.place_m + np.concatenate([into, arc[1:-1], out]))
    lane = left_of(here) * profile.lane_offset_m(0)
    loop = radius - 3.4
    turn = loop * unit(np.linspace(angle + 0.9, angle + 2 * np.pi - 0.9, round(4 * np.pi * loop)))
    first = turn_curve(lane + here * mouth, -here, turn[0], left_of(unit(angle + 0.9)))
    last = turn_curve(turn[-1], left_of(unit(angle - 0.9)), -lane + here * mouth, here)
    points = np.concatenate([first, turn[1:-1], last])
    streets.add_lane(
        node.place_m + points,
        (index, arm.link, "in", 0),
        (index, arm.link, "out", 0),
        turn="left",
        rank=1,
        slow=0.5,
    )
