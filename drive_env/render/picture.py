# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Draws a whole episode of a scene in one picture: roads, paths, goals, and failures.

Runs in the learner, and needs Pillow. The picture consists of shapes of puffervec.contract.drawing,
and is painted by the painter of films (puffervec/viewing/render/painter.py). Sizes in pixels are
those of the result. Places are metres in the scene's local frame, turned so that its longest axis
is horizontal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drive_env.render.colours import AGENTS, AREAS, FAILURES, GROUND, LIGHTS, OBJECTS, SIGNS
from drive_env.render.ground import dashes, ground_of, sign_of
from drive_env.render.tracks import Roads, Tracks, View, rotate, view_of
from drive_env.scenes.schema import FRAME_S, OBJECT_TYPES, VEHICLE, Floats
from puffervec.contract.drawing import (
    INK,
    PAPER,
    Box,
    Circle,
    Drawing,
    Line,
    Polygon,
    Shape,
    Text,
)
from puffervec.viewing.render.episode import Moment, Point
from puffervec.viewing.render.film import png
from puffervec.viewing.render.painter import Sample, add_head, mix, scale_bar, world_of

if TYPE_CHECKING:
    from PIL import Image

Frames = NDArray[np.signedinteger[Any]]
WIDTH_PX, HEAD = 1500, 1.2  # width of the road; text size above it, relative to that of films
PEDESTRIAN, CYCLIST, OTHER = (
    OBJECT_TYPES.index(name) for name in ("pedestrian", "cyclist", "other")
)
KINDS = {VEHICLE: "car", PEDESTRIAN: "pedestrian", CYCLIST: "cyclist", OTHER: "object"}
SHADES = (0.4, 0.55, 0.7, 0.85, 1.0)  # of a path, from its start
PALE, AREA = 0.35, 0.2  # shades of an agent's start and of its goal
COLOURS = {
    **GROUND, **OBJECTS, **FAILURES,
    # Roads are wide here, and paths matter more than lanes.
    "white line": "#ffffff", "shoulder": "#ebecec", "lane": "#cdd1d6",
    "way of others": "#a0a4ab", "edge of others": "#7d828c", "paper": PAPER, "edge": INK,
    **{f"{n} {share}": mix(colour, share)
       for n, colour in enumerate(AGENTS) for share in (*SHADES, PALE, AREA)},
}  # fmt: skip
SHOULDER_M = 7.2  # width of a strip under the lanes that fills crossings and reaches most edges
WAY_M, LEAST_WAY_PX = 0.5, 3.0
DASH_PX, LOG_PX = (9.0, 6.0), 2.3
RING_PX, DOT_M, TICK_PX, MARK_PX = 2.6, 0.35, 3.2, 11.0
PEDESTRIAN_M = 1.4  # minimum diameter of a pedestrian, so that it is visible
LABEL_S, LABEL_GAP_M = 3, 7.0  # seconds between ticks with a number, and their minimum distance
SAMPLE_PX = 26  # width of a sample in the legend


def png_of(title: str, roads: Roads, tracks: Tracks, view: View | None = None) -> bytes:
    """Draw one episode of one scene and return a PNG file.

    Args:
        view: None: the agents' paths and goals.
    """
    return png(picture_of(title, roads, tracks, view))


def picture_of(title: str, roads: Roads, tracks: Tracks, view: View | None = None) -> Image.Image:
    """Draw one episode of one scene, 1500 pixels wide plus a margin.

    Args:
        view: as for `png_of`.
    """
    view = view or view_of(tracks)
    roads, tracks = rotate(roads, tracks, -view.angle_rad)
    (left, bottom), (right, top) = view.low_m.tolist(), view.high_m.tolist()
    px = (right - left) / WIDTH_PX
    still = [
        *(Line(_points(points), SHOULDER_M, role="shoulder") for points in roads.lanes),
        *ground_of(roads, dashed=True),
    ]
    for name, place in roads.signals:
        still += sign_of(name, (float(place[0]), float(place[1])), max(0.8, 5 * px))
    layers = [*objects_of(tracks, px), (9, scale_bar(left, bottom, right - left, px))]
    shapes = [shape for _, found in sorted(layers, key=lambda layer: layer[0]) for shape in found]
    drawing = Drawing((left, bottom, right, top), lambda state, before: (), COLOURS, still)
    world = world_of(
        drawing, Moment(0, tuple(shapes)), (WIDTH_PX, 2 * round((top - bottom) / px / 2))
    )
    return add_head(
        world,
        title,
        [caption_of(tracks)],
        [legend_of_agents(tracks), legend_of_others(roads, tracks)],
        COLOURS,
        HEAD,
    )


Layer = tuple[int, Iterable[Shape]]  # layers with higher numbers are in front


def objects_of(tracks: Tracks, px: float) -> Iterator[Layer]:
    """Yield paths, poses at the start and at the end, goals and marks.

    Args:
        px: metres per pixel.
    """
    for index in np.flatnonzero(~tracks.agent & tracks.there.any(axis=0)).tolist():
        frames = np.flatnonzero(tracks.there[:, index])
        yield 1, [Line(way_of(tracks, frames, index), 1.5 * px, role="way of others")]
        yield (
            2,
            body(tracks, index, int(frames[0]), KINDS[int(tracks.kind[index])], "edge of others"),
        )
    for number, index in enumerate(np.flatnonzero(tracks.agent).tolist()):
        if tracks.there[:, index].any():
            yield from agent_of(tracks, index, str(number % len(AGENTS)), px)
    for events, mark in ((tracks.offroad, triangle), (tracks.collided, cross)):
        for frame, index in np.argwhere(events & tracks.there).tolist():
            yield 8, mark(float(tracks.x_m[frame, index]), float(tracks.y_m[frame, index]), px)


def agent_of(tracks: Tracks, index: int, colour: str, px: float) -> Iterator[Layer]:
    """Yield goal, log and driven path of one agent, and its body at the start and at the end.

    Args:
        colour: the start of its roles.
    """
    frames = np.flatnonzero(tracks.there[:, index])
    way, strong = way_of(tracks, frames, index), f"{colour} {SHADES[-1]}"
    (x, y), radius = tracks.goal_m[index].tolist(), tracks.goal_radius_m
    yield 1, [Circle(x, y, radius, role=f"{colour} {AREA}")]
    yield 5, [*ring(x, y, radius, px, strong), Circle(x, y, DOT_M, role=strong)]
    if not tracks.logged:
        log = np.stack([tracks.log_x_m[:, index], tracks.log_y_m[:, index]], axis=-1)
        log = log[np.isfinite(log).all(axis=1)]
        yield (
            2,
            [
                Line(dash, LOG_PX * px, role=strong)
                for dash in dashes(log, *(length * px for length in DASH_PX))
            ],
        )
    width = max(LEAST_WAY_PX * px, WAY_M)
    ends = np.linspace(0, len(way) - 1, len(SHADES) + 1).round().astype(int).tolist()
    for share, first, last in zip(SHADES, ends, ends[1:], strict=False):
        yield (
            3,
            [Line(way[first : last + 1], width, role=f"{colour} {share}")] if last > first else [],
        )
    yield 4, body(tracks, index, int(frames[0]), f"{colour} {PALE}")
    ticks, words = seconds_of(frames, way, strong, px)
    yield 6, [*ticks, *body(tracks, index, int(frames[-1]), strong, "edge")]
    yield 7, words


def way_of(tracks: Tracks, frames: Frames, index: int) -> list[Point]:
    """Return the places of an object in some frames."""
    return list(
        zip(tracks.x_m[frames, index].tolist(), tracks.y_m[frames, index].tolist(), strict=True)
    )


def seconds_of(
    frames: Frames, way: Sequence[Point], role: str, px: float
) -> tuple[list[Shape], list[Shape]]:
    """Return a tick on the path for each second, and a number for every few.

    Args:
        frames: frames of the points of the path.
    """
    at = np.flatnonzero((np.round(frames * FRAME_S, 6) % 1.0 == 0) & (frames > 0)).tolist()
    ticks: list[Shape] = []
    for tick in at:
        ticks += [
            Circle(*way[tick], TICK_PX * px, role=one, filled=one == "paper")
            for one in ("paper", role)
        ]
    words: list[Shape] = []
    last = way[0]
    for tick in at:
        second = round(float(frames[tick]) * FRAME_S)
        if (
            second % LABEL_S == 0
            and min(math.dist(way[tick], other) for other in (last, way[-1])) >= LABEL_GAP_M
        ):
            last = way[tick]
            words.append(Text(last[0], last[1] + 14 * px, f"{second} s", role=role))
    return ticks, words


def body(tracks: Tracks, index: int, frame: int, role: str, edge: str = "") -> list[Shape]:
    """Return one object as a box with a windscreen near its front; a pedestrian as a circle.

    Args:
        edge: role of its edge.
    """
    x, y, heading = (
        float(part[frame, index]) for part in (tracks.x_m, tracks.y_m, tracks.heading_rad)
    )
    length, width = float(tracks.length_m[index]), float(tracks.width_m[index])
    if tracks.kind[index] == PEDESTRIAN:
        return [Circle(x, y, max(length, width, PEDESTRIAN_M) / 2, role=role)]
    box = Box(x, y, length, width, heading, role=role, front=True)
    return [box, Box(x, y, length, width, heading, role=edge, filled=False)] if edge else [box]


def ring(x: float, y: float, radius: float, px: float, role: str) -> list[Shape]:
    """Return a circle's outline, wide enough to be visible."""
    angles = np.linspace(0, 2 * math.pi, 49).tolist()
    return [
        Line(
            [(x + radius * math.cos(a), y + radius * math.sin(a)) for a in angles],
            RING_PX * px,
            role=role,
        )
    ]


def cross(x: float, y: float, px: float) -> list[Shape]:
    """Return the mark of a collision."""
    arm = 0.8 * MARK_PX * px
    lines = [((x - arm, y - arm), (x + arm, y + arm)), ((x - arm, y + arm), (x + arm, y - arm))]
    halo = [(_longer(line, 1.2), 8.0, "paper") for line in lines]
    return [
        Line(line, width * px, role=role)
        for line, width, role in (*halo, *((line, 5.0, "collision") for line in lines))
    ]


def triangle(x: float, y: float, px: float) -> list[Shape]:
    """Return the mark of leaving the road."""

    def corners(size: float) -> list[Point]:
        return [
            (x + size * dx, y + size * dy) for dx, dy in ((-0.87, -0.6), (0.87, -0.6), (0.0, 0.9))
        ]

    return [
        Polygon(corners(1.25 * MARK_PX * px), role="paper"),
        Polygon(corners(MARK_PX * px), role="off-road"),
    ]


def _longer(line: tuple[Point, Point], by: float) -> tuple[Point, Point]:
    middle = [(a + b) / 2 for a, b in zip(*line, strict=True)]
    first, last = (
        (middle[0] + by * (x - middle[0]), middle[1] + by * (y - middle[1])) for x, y in line
    )
    return first, last


# ---- captions above the picture


def caption_of(tracks: Tracks) -> str:
    """Return the outcome of the agents or, for a log, its length and its objects."""
    agents = int(tracks.agent.sum())
    if tracks.logged:
        others = int((~tracks.agent & tracks.there.any(axis=0)).sum())
        return (
            f"a log of {len(tracks.there)} frames: {agents} vehicles that control=moving would "
            f"drive, {others} other objects"
        )
    clean = tracks.reached & ~(tracks.collided.any(axis=0) | tracks.offroad.any(axis=0))
    touched = int((tracks.collided.any(axis=0) & tracks.agent).sum())
    off = int((tracks.offroad.any(axis=0) & tracks.agent).sum())
    there, flawless = int((tracks.reached & tracks.agent).sum()), int((clean & tracks.agent).sum())
    return (
        f"{agents} agents: {there} at the goal ({flawless} of them without contact), {touched} "
        f"collided, {off} off-road"
    )


def legend_of_agents(tracks: Tracks) -> list[Sample]:
    """Return samples of what is drawn for agents."""
    one, across, middle = f"0 {SHADES[-1]}", [(1.0, 8.0), (25.0, 8.0)], (SAMPLE_PX / 2, 8.0)
    ticks, _ = seconds_of(np.array([round(1 / FRAME_S)]), [middle], one, 1.0)
    way = [
        _sample("path in the log" if tracks.logged else "driven", [Line(across, 5, role=one)]),
        _sample("each second", ticks),
    ]
    goal = _sample("goal", ring(*middle, 7.0, 1.0, one))
    if tracks.logged:
        return [*way, goal]
    logged = [Line(dash, LOG_PX, role=one) for dash in dashes(np.array(across), *DASH_PX)]
    marks = [
        _sample("collision", cross(*middle, 0.75)),
        _sample("off-road", triangle(*middle, 0.75)),
    ]
    return [*way, _sample("logged", logged), goal, *marks]


def legend_of_others(roads: Roads, tracks: Tracks) -> list[Sample]:
    """Return samples of other objects, areas, lights and signs, as far as there are any."""
    visible = ~tracks.agent & tracks.there.any(axis=0)
    names = {
        VEHICLE: "car that follows its log",
        PEDESTRIAN: "pedestrian",
        CYCLIST: "cyclist",
        OTHER: "other",
    }
    samples = []
    for kind, name in names.items():
        if (visible & (tracks.kind == kind)).any():
            look: Shape = Circle(13, 8, 6, role=KINDS[kind])
            samples.append(
                _sample(
                    name,
                    [
                        look
                        if kind == PEDESTRIAN
                        else Box(13, 8, 20, 9, role=KINDS[kind], front=True)
                    ],
                )
            )
    areas, signals = {name for name, _ in roads.areas}, {name for name, _ in roads.signals}
    samples += [_sample(name, [Box(13, 8, 14, 14, role=name)]) for name in AREAS if name in areas]
    at_start = " at the start" if tracks.logged else ""
    for name in (*LIGHTS, *SIGNS):
        if name in signals:
            samples.append(_sample(name + at_start * (name in LIGHTS), sign_of(name, (13, 8), 6)))
    return samples


def _sample(label: str, shapes: Iterable[Shape]) -> Sample:
    return Sample(label, tuple(shapes), SAMPLE_PX)


def _points(points: Floats) -> list[Point]:
    return [(float(x), float(y)) for x, y in points]
