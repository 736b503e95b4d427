# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Builds streets from a network of nodes and links: the links, and the map as a whole.

Runs in the learner (drive_env.generate.streets).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drive_env.generate import exact
from drive_env.generate.layouts import (
    BOUNDARY,
    BROKEN_WHITE,
    BROKEN_YELLOW,
    DOUBLE_YELLOW,
    EDGE,
    LINE,
    MEDIAN,
    SOLID_WHITE,
    STEP_M,
    Profile,
    arc_length,
    cross,
    headings_of,
    left_of,
    line,
    turn_curve,
)
from drive_env.generate.network import Link, Middle, Node, Streets, unit
from drive_env.generate.nodes import add_crosswalk, add_node, arms_of, shape_of
from drive_env.scenes.schema import Floats

DRIVEWAY = 20
STALL_M, PITCH_M = 5.2, 2.8  # depth and width of places in a lot
APART_M = 1.2  # minimum distance of a lane from the nearest kerb
CHUNK = 24  # points of lanes that are compared with kerbs in one operation


def build(rng: np.random.Generator, nodes: Sequence[Node], links: Sequence[Link]) -> Streets | None:
    """Return the streets of a network, or None.

    None means that its roads are too crooked or too short for their width.
    """
    arms = [arms_of(index, nodes, links) for index in range(len(nodes))]
    shapes = []
    # (node, link): where the link begins, and its direction
    begins: dict[tuple[int, int], tuple[Floats, Floats]] = {}
    for index, (node, own) in enumerate(zip(nodes, arms, strict=True)):
        shape = shape_of(node, own)
        if shape is None:
            return None
        shapes.append(shape)
        for arm, mouth in zip(own, shape.mouths_m, strict=True):
            begins[index, arm.link] = node.place_m + arm.direction * mouth, arm.direction
    middles = []
    for number, link in enumerate(links):
        points = link_line(begins[link.first, number], begins[link.last, number], link.profile)
        if points is None:
            return None
        middles.append(Middle(points))
    streets = Streets()
    for index, (node, own) in enumerate(zip(nodes, arms, strict=True)):
        add_node(rng, streets, index, node, own, shapes[index])
    for number, (link, middle) in enumerate(zip(links, middles, strict=True)):
        add_link(rng, streets, number, link, middle)
    return streets if lanes_clear(streets) else None


def lanes_clear(streets: Streets) -> bool:
    """Return whether no lane comes close to a kerb, as happens where roads meet by chance."""
    lanes = np.concatenate([lane.points_m[::8] for lane in streets.lanes if lane.level == 0])
    edges = [
        piece.points_m
        for piece, level in zip(streets.pieces, streets.levels, strict=True)
        if piece.type == EDGE and not level
    ]
    kerbs = np.concatenate([points[::3] for points in edges])
    for begin in range(0, len(lanes), CHUNK):
        some = lanes[begin : begin + CHUNK]  # mostly points of one lane, so close together
        low, high = some.min(axis=0) - APART_M, some.max(axis=0) + APART_M
        near = kerbs[((kerbs >= low) & (kerbs <= high)).all(axis=1)]
        x, y = near[:, 0] - some[:, :1], near[:, 1] - some[:, 1:]
        if (x * x + y * y < APART_M**2).any():
            return False
    return True


def link_line(
    first: tuple[Floats, Floats], last: tuple[Floats, Floats], profile: Profile
) -> Floats | None:
    """Return the middle of a link from mouth to mouth.

    Returns None if it is too short or its bends are too sharp.
    """
    (start, leaving), (end, coming) = first, last
    chord = end - start
    length = float(exact.hypot(*chord))
    if (
        length < 6.0
        or exact.dot(chord, leaving) < 0.3 * length
        or exact.dot(-chord, coming) < 0.3 * length
    ):
        return None
    if abs(cross(chord, leaving)) < 1e-3 * length and abs(cross(chord, coming)) < 1e-3 * length:
        return line(start, end)
    points = turn_curve(start, leaving, end, -coming)
    where = arc_length(points)
    even = np.linspace(0.0, where[-1], round(where[-1] / STEP_M) + 1)
    middle = np.stack([np.interp(even, where, points[:, axis]) for axis in (0, 1)], axis=-1)
    bend = np.abs(np.gradient(headings_of(middle), STEP_M)).max()
    return middle if bend * (profile.edge_m + 6.0) < 1.0 else None


def add_link(
    rng: np.random.Generator, streets: Streets, number: int, link: Link, middle: Middle
) -> None:
    """Add lanes, lines, kerbs, pavements and parking places of a link."""
    profile = link.profile
    if link.shape is not None:
        link.shape(streets, number, link, middle)
        return
    for lane in range(profile.lanes):
        d = profile.lane_offset_m(lane)
        shifts = ((profile.width_m,) if lane > 0 else ()) + (
            (-profile.width_m,) if lane < profile.lanes - 1 else ()
        )
        for way, from_node, to_node in ((1, link.first, link.last), (-1, link.last, link.first)):
            points = middle.beside(-way * d)[::way]
            start, end = (from_node, number, "out", lane), (to_node, number, "in", lane)
            streets.add_lane(
                points,
                start,
                end,
                link.level,
                shifts_m=shifts,
                slow=link.slow,
                limit_mps=link.limit_mps,
                rank=5,
            )
    add_paint(streets, link, middle)
    where = middle.where_m
    for side in (-1, 1):
        deep = STALL_M * link.stalls * ((where > 4.0) & (where < where[-1] - 4.0))
        streets.add(
            EDGE, BOUNDARY, middle.beside(side * (profile.edge_m + deep))[::-side], link.level
        )
        if not link.level:
            streets.walks.append(
                middle.beside(side * (profile.edge_m + 1.6 + STALL_M * link.stalls))
            )
        add_places(rng, streets, link, middle, side)
    if 0.0 <= link.crossing_at <= 1.0:
        at = int(link.crossing_at * (len(middle.points_m) - 1))
        heading = middle.heading[at]
        add_crosswalk(streets, middle.points_m[at], unit(heading), profile)


def add_paint(streets: Streets, link: Link, middle: Middle) -> None:
    """Add the painted lines of a link, and its median."""
    profile = link.profile
    if profile.median_m > 0:
        kerb = profile.median_m / 2 - 0.3
        left, right = middle.beside(kerb), middle.beside(-kerb)[::-1]
        streets.add(EDGE, MEDIAN, np.concatenate([left, right, left[:1]]), link.level)
    elif not link.stalls:
        streets.add(
            LINE, DOUBLE_YELLOW if profile.lanes > 1 else BROKEN_YELLOW, middle.points_m, link.level
        )
    for side in (-1.0, 1.0):
        for lane in range(1, profile.lanes):
            d = side * (profile.median_m / 2 + lane * profile.width_m)
            streets.add(LINE, BROKEN_WHITE, middle.beside(d), link.level)
        if not link.stalls:
            streets.add(LINE, SOLID_WHITE, middle.beside(side * profile.outer_m), link.level)


def add_places(
    rng: np.random.Generator, streets: Streets, link: Link, middle: Middle, side: int
) -> None:
    """Add parking places on one side of a link.

    They lie along the kerb, across in a lot, and behind the kerb in front of houses.
    """
    profile, where, heading = link.profile, middle.where_m, middle.heading
    length = float(where[-1])
    if link.stalls:
        row = middle.beside(side * (profile.outer_m + profile.shoulder_m + STALL_M / 2 - 0.1))
        for at in np.arange(7.0, length - 7.0, PITCH_M):
            index = int(np.searchsorted(where, at))
            into = np.pi / 2 if rng.random() < 0.8 else -np.pi / 2
            streets.parking.append(
                (float(row[index, 0]), float(row[index, 1]), float(heading[index] + side * into))
            )
    elif profile.parking_m > 0:
        row = middle.beside(side * (profile.outer_m + profile.parking_m / 2 + 0.1))
        for at in np.arange(5.0 + rng.uniform(0.0, 6.0), length - 5.0, 6.8):
            index = int(np.searchsorted(where, at))
            if link.crossing_at >= 0 and abs(at - link.crossing_at * length) < 5.5:
                continue
            turn = 0.0 if side < 0 else np.pi
            streets.parking.append(
                (float(row[index, 0]), float(row[index, 1]), float(heading[index] + turn))
            )
    if link.level or link.stalls:
        return
    for _ in range(int(rng.poisson(link.yards * length))):
        at = rng.uniform(2.0, max(2.1, length - 2.0))
        index = min(len(middle.points_m) - 1, int(np.searchsorted(where, at)))
        row = middle.beside(side * (profile.edge_m + rng.uniform(5.5, 14.0)))
        turn = rng.choice([0.5, -0.5, 0.0, 1.0], p=[0.4, 0.4, 0.1, 0.1]) * np.pi + rng.normal(
            0.0, 0.05
        )
        streets.yards.append(
            (float(row[index, 0]), float(row[index, 1]), float(heading[index] + turn))
        )
        near, far = (
            middle.points_m[index] + side * left_of(unit(heading[index])) * profile.edge_m,
            row[index],
        )
        half = 1.7 * unit(heading[index])
        streets.add(
            "driveway", DRIVEWAY, np.array([near - half, near + half, far + half, far - half])
        )
