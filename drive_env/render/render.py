# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Draws a scene and how it was driven as a PNG: road, cars, paths, goals, collisions and off-road marks.

Runs in the learner, after an episode was recorded (drive_env.render.recording). matplotlib is imported only here and only
when a picture is wanted. Positions are the env's own, in metres in the compiled scene's local frame.
"""

from __future__ import annotations

import dataclasses
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.packed import STATE_COLOUR
from drive_env.scenes.schema import CONTROL_KINDS, FRAME_S, GREEN, OBJECT_TYPES, RED, VEHICLE, YELLOW, Floats
from puffervec import extras
from puffervec.host.output import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER, ASPHALT, EDGE, WHITE_PAINT, YELLOW_PAINT, LANE = "#f6f5f1", "#dfe1e4", "#5b6068", "#ffffff", "#e0b33c", "#b9bec6"
OTHER_CAR, OTHER_EDGE, CRASH, OFFROAD, INK = "#a9adb5", "#7d828c", "#d81e3a", "#e8750a", "#2b2e33"
PEDESTRIAN_FACE, CYCLIST_FACE = "#6b4a2f", "#b08d57"
AREAS = {"crosswalk": "#c3cbd9", "speed bump": "#d9c9a5"}
SIGNS = {"stop sign": "#b3122b", "yield sign": "#c2569c"}
LIGHTS = {"red light": "#d81e3a", "yellow light": "#e69f00", "green light": "#17936b", "light that is off": "#8d929b"}
_SHOWS = {RED: "red light", YELLOW: "yellow light", GREEN: "green light"}
COLOURS = ("#2f6fd6", "#17936b", "#8a4fc7", "#0f93b0", "#c2569c", "#5c7f1f", "#3b4fb8", "#b0752a", "#1f8f8f", "#7a5ad9")
YELLOW_KINDS = frozenset((9, 10, 11, 12, 13))
BROKEN_KINDS = frozenset((6, 9, 10))
LANE_WIDTH_M = 4.6  # of the road surface drawn under each lane
SHOULDER_WIDTH_M = 7.2  # of a lighter one under that, which fills crossings and reaches to most edges
SHOULDER = "#ebecec"
WIDTH_IN, HEAD_IN, DPI = 10.0, 1.15, 150
PEDESTRIAN, CYCLIST, OTHER = (OBJECT_TYPES.index(name) for name in ("pedestrian", "cyclist", "other"))
FRAME_ASPECT = 1.7  # width over height of the road in pictures that must all have one size
SCALE_BARS_M = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
LABEL_S = 3  # seconds between ticks with a number
LABEL_GAP_M = 7.0  # least distance between two such numbers of a path
PEDESTRIAN_M = 1.4  # across, at least, so that they are seen
MARGIN_M = 14.0  # around what the agents do


@dataclass(frozen=True)
class Roads:
    """What to draw of the road, local metres: lanes; lines and edges with their map_element_id (255: none); areas by their
    names in AREAS; and where lights and signs stand, by their names in LIGHTS and SIGNS."""

    lanes: list[Floats]
    lines: list[tuple[int, Floats]]
    edges: list[tuple[int, Floats]]
    areas: list[tuple[str, Floats]] = field(default_factory=list)
    signals: list[tuple[str, Floats]] = field(default_factory=list)


@dataclass(frozen=True)
class Tracks:
    """A driven episode of one scene, or its log: frame by frame, object by object (K objects, F frames)."""

    x_m: Floats  # (F, K)
    y_m: Floats  # (F, K)
    heading_rad: Floats  # (F, K)
    there: NDArray[np.bool_]  # (F, K) the object is in the scene
    length_m: Floats  # (K,)
    width_m: Floats  # (K,)
    kind: NDArray[np.int64]  # (K,) index into OBJECT_TYPES
    agent: NDArray[np.bool_]  # (K,) driven by the policy; the others follow their log
    log_x_m: Floats  # (T, K) where the log has it, over the whole log; NaN where it is not there
    log_y_m: Floats  # (T, K)
    goal_m: Floats  # (K, 2)
    goal_radius_m: float
    reached: NDArray[np.bool_]  # (K,) the agent reached its goal
    collided: NDArray[np.bool_]  # (F, K) a contact with another object began
    offroad: NDArray[np.bool_]  # (F, K) a contact with a road edge began
    logged: bool = False  # nobody drove: this is the log


def require_matplotlib() -> None:
    """Raise MissingExtraError if matplotlib is not installed, before any work is done for a picture."""
    extras.require("drawing", "matplotlib")


@dataclass(frozen=True)
class View:
    """The part of a scene that a picture shows: turned by -angle_rad about the origin, from corner to corner."""

    angle_rad: float
    low_m: Floats  # (2,)
    high_m: Floats  # (2,)


def png_of(title: str, roads: Roads, tracks: Tracks, view: View | None = None) -> bytes:
    """Draw one episode of one scene; returns a PNG file.

    Args: view: None: what the agents do and aim at.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    view = view or view_of(tracks)
    roads, tracks = turned(roads, tracks, -view.angle_rad)
    low, high = view.low_m, view.high_m
    width, height = high - low
    scale = WIDTH_IN / width  # inches per metre
    figure = Figure(figsize=(WIDTH_IN, height * scale + HEAD_IN), dpi=DPI, facecolor=PAPER)
    FigureCanvasAgg(figure)
    head = HEAD_IN / figure.get_figheight()
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0 - head))
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_aspect("equal")
    axes.axis("off")
    points_per_m = 72 * scale
    draw_roads(axes, roads, points_per_m)
    draw_objects(axes, tracks, points_per_m)
    draw_scale_bar(axes, low, float(width))
    draw_head(figure, title, roads, tracks)
    drawn = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)  # in the name of a scene
        figure.savefig(drawn, format="png", facecolor=PAPER)
    return drawn.getvalue()


def signal_of(kind: int, state: int) -> str:
    """Return the name in LIGHTS or SIGNS of a control: of its kind (index into CONTROL_KINDS) and what it shows."""
    if CONTROL_KINDS[kind] == "traffic_light":
        return _SHOWS.get(state & STATE_COLOUR, "light that is off")
    return CONTROL_KINDS[kind].replace("_", " ")


def interesting_points(tracks: Tracks) -> Floats:
    """Where the agents go and what they aim at, (n, 2); where all objects are if there are no agents."""
    shown = tracks.there & (tracks.agent if tracks.agent.any() else np.ones_like(tracks.agent))
    points = np.stack([tracks.x_m[shown], tracks.y_m[shown]], axis=-1)
    return np.concatenate([points, tracks.goal_m[tracks.agent]]) if len(points) else np.zeros((1, 2))


def view_of(tracks: Tracks) -> View:
    """What the agents do and aim at, with its longest axis across."""
    angle = long_axis_rad(interesting_points(tracks))
    return View(angle, *picture_bounds(turned(Roads([], [], []), tracks, -angle)[1]))


def fixed_view(tracks: Tracks) -> View:
    """What the agents do in the log and aim at, in the shape that all frames have; known before anybody has driven."""
    shown = np.isfinite(tracks.log_x_m) & (tracks.agent if tracks.agent.any() else np.ones_like(tracks.agent))
    points = np.concatenate([np.stack([tracks.log_x_m[shown], tracks.log_y_m[shown]], axis=-1), tracks.goal_m[tracks.agent]])
    points = points if len(points) else np.zeros((1, 2))
    angle = long_axis_rad(points)
    points = points @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    low, high = points.min(axis=0) - MARGIN_M, points.max(axis=0) + MARGIN_M
    width, height = high - low
    grow = np.maximum(0.0, np.array([height * FRAME_ASPECT, width / FRAME_ASPECT]) - (high - low)) / 2
    return View(angle, low - grow, high + grow)


def long_axis_rad(points: Floats) -> float:
    """Direction in which points (n, 2) spread most, in (-pi/2, pi/2]."""
    x, y = (points - points.mean(axis=0)).T
    return float(np.arctan2(2 * np.mean(x * y), np.mean(x * x) - np.mean(y * y)) / 2)


def turned(roads: Roads, tracks: Tracks, angle_rad: float) -> tuple[Roads, Tracks]:
    """Roads and tracks turned about the origin. Copies."""
    cos, sin = np.cos(angle_rad), np.sin(angle_rad)
    turning = np.array([[cos, sin], [-sin, cos]])
    x, y = tracks.x_m * cos - tracks.y_m * sin, tracks.x_m * sin + tracks.y_m * cos
    moved = dataclasses.replace(
        tracks,
        x_m=x,
        y_m=y,
        heading_rad=tracks.heading_rad + angle_rad,
        log_x_m=tracks.log_x_m * cos - tracks.log_y_m * sin,
        log_y_m=tracks.log_x_m * sin + tracks.log_y_m * cos,
        goal_m=tracks.goal_m @ turning,
    )
    lines, edges = ([(kind, points @ turning) for kind, points in group] for group in (roads.lines, roads.edges))
    areas, signals = ([(name, points @ turning) for name, points in group] for group in (roads.areas, roads.signals))
    return Roads([points @ turning for points in roads.lanes], lines, edges, areas, signals), moved


def picture_bounds(tracks: Tracks) -> tuple[Floats, Floats]:
    """Corners of the picture: all that the agents do and aim at, and some room around; from 3:1 to 1:1."""
    points = interesting_points(tracks)
    low, high = points.min(axis=0) - MARGIN_M, points.max(axis=0) + MARGIN_M
    width, height = high - low
    least = np.array([height, width / 3])
    grow = np.maximum(0.0, least - (high - low)) / 2
    return low - grow, high + grow


def draw_roads(axes: Axes, roads: Roads, points_per_m: float) -> None:
    """Road surface under the lanes, areas, lane centre lines, paint, edges, lights and signs."""
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Polygon

    def add(lines: list[Floats], colour: str, width_m: float, order: int, style: Any = "solid", cap: str = "round") -> None:
        width = max(0.5, width_m * points_per_m)
        axes.add_collection(
            LineCollection(lines, colors=colour, linewidths=width, linestyles=style, zorder=order, capstyle=cap)
        )

    add(roads.lanes, SHOULDER, SHOULDER_WIDTH_M, 0, cap="butt")
    add(roads.lanes, ASPHALT, LANE_WIDTH_M, 1, cap="butt")
    add(roads.lanes, LANE, 0.12, 2, (0, (1.2, 3.5)), "butt")
    for kind in sorted({kind for kind, _ in roads.lines}):
        lines = [points for number, points in roads.lines if number == kind]
        dash = 2.0 / 0.25  # dashes of 2 m, in units of the line's width
        colour = YELLOW_PAINT if kind in YELLOW_KINDS else WHITE_PAINT
        add(lines, colour, 0.25, 3, (0, (dash, dash)) if kind in BROKEN_KINDS else "solid", "butt")
    add([points for _, points in roads.edges], EDGE, 0.35, 4)
    for name, points in roads.areas:
        axes.add_patch(Polygon(points, facecolor=AREAS[name], lw=0, zorder=1.5))
    for name, place in roads.signals:
        axes.plot(*place, ls="none", ms=7, mec="white", mew=0.8, zorder=8.5, **mark_of(name))


def mark_of(signal: str) -> dict[str, Any]:
    """Colour and marker of a light (a disc), a stop sign (an octagon) or a yield sign (a triangle that stands on its tip)."""
    marker = {"stop sign": "8", "yield sign": "v"}.get(signal, "o")
    return {"color": {**LIGHTS, **SIGNS}[signal], "marker": marker}


def draw_objects(axes: Axes, tracks: Tracks, points_per_m: float) -> None:
    """Paths, start and end poses, goals and marks. Agents are coloured, others have the colour of their kind."""
    for index in np.flatnonzero(~tracks.agent & tracks.there.any(axis=0)):
        frames = np.flatnonzero(tracks.there[:, index])
        if len(frames) > 1:
            axes.plot(tracks.x_m[frames, index], tracks.y_m[frames, index], color=OTHER_EDGE, lw=0.8, alpha=0.6, zorder=5)
        draw_box(axes, tracks, int(index), int(frames[0]), face_of(int(tracks.kind[index])), OTHER_EDGE, 1.0, 6)
    for number, index in enumerate(np.flatnonzero(tracks.agent)):
        if tracks.there[:, index].any():
            draw_agent(axes, tracks, int(index), COLOURS[number % len(COLOURS)], points_per_m)
    for marks, colour, marker in ((tracks.offroad, OFFROAD, "^"), (tracks.collided, CRASH, "X")):
        marked = marks & tracks.there
        axes.plot(tracks.x_m[marked], tracks.y_m[marked], ls="none", marker=marker, ms=11, color=colour,
                  mec="white", mew=1.2, zorder=12)  # fmt: skip


def draw_agent(axes: Axes, tracks: Tracks, index: int, colour: str, points_per_m: float) -> None:
    """Goal, log and driven path of one agent, and its box at the start and at the end."""
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Circle

    frames = np.flatnonzero(tracks.there[:, index])
    goal, radius = tracks.goal_m[index], tracks.goal_radius_m
    axes.add_patch(Circle((goal[0], goal[1]), radius, facecolor=colour, alpha=0.16, lw=0, zorder=5))
    axes.add_patch(Circle((goal[0], goal[1]), radius, fill=False, edgecolor=colour, lw=1.4, zorder=9))
    axes.plot(goal[0], goal[1], marker="o", ms=max(2.0, 0.7 * points_per_m), color=colour, mec="none", zorder=9)
    if not tracks.logged:
        axes.plot(
            tracks.log_x_m[:, index], tracks.log_y_m[:, index], color=colour, lw=1.1, ls=(0, (4, 2.5)), alpha=0.8, zorder=6
        )
    points = np.stack([tracks.x_m[frames, index], tracks.y_m[frames, index]], axis=-1)
    shade = np.linspace(0.35, 1.0, max(1, len(points) - 1))
    axes.add_collection(
        LineCollection(list(np.stack([points[:-1], points[1:]], axis=1)), colors=colour, alpha=shade,
                       linewidths=max(1.4, 0.5 * points_per_m), capstyle="round", zorder=7)
    )  # fmt: skip
    draw_seconds(axes, frames, points, colour)
    draw_box(axes, tracks, index, int(frames[0]), colour, colour, 0.35, 8)
    draw_box(axes, tracks, index, int(frames[-1]), colour, INK, 1.0, 10)


def draw_seconds(axes: Axes, frames: NDArray[np.int64], points: Floats, colour: str) -> None:
    """A tick on the path for each second, and a number every few. frames: (n,) of the points (n, 2)."""
    from matplotlib.patheffects import withStroke

    at = np.flatnonzero((np.round(frames * FRAME_S, 6) % 1.0 == 0) & (frames > 0))
    axes.plot(*points[at].T, ls="none", marker="o", ms=3.2, color="white", mec=colour, mew=0.9, zorder=9.5)
    last = points[0]
    for tick in at:
        second = round(float(frames[tick]) * FRAME_S)
        if second % LABEL_S or min(np.hypot(*(points[tick] - other)) for other in (last, points[-1])) < LABEL_GAP_M:
            continue
        last = points[tick]
        axes.annotate(f"{second} s", last, (0, 5), textcoords="offset points", color=colour, fontsize=6.5, ha="center",
                      zorder=11, annotation_clip=True, path_effects=[withStroke(linewidth=2, foreground=PAPER)])  # fmt: skip


def draw_scale_bar(axes: Axes, low: Floats, width_m: float) -> None:
    """A bar of a round number of metres in the lower left corner, an eighth of the picture's width at most."""
    from matplotlib.patheffects import withStroke

    length = max([bar for bar in SCALE_BARS_M if bar <= width_m / 8], default=SCALE_BARS_M[0])
    x, y = low[0] + 0.02 * width_m, low[1] + 0.02 * width_m
    halo = [withStroke(linewidth=4, foreground=PAPER)]
    ends = ([x, x, x, x + length, x + length, x + length], [y + 0.004 * width_m, y, y, y, y, y + 0.004 * width_m])
    axes.plot(*ends, color=INK, lw=1.6, zorder=13, path_effects=halo, solid_capstyle="butt")
    axes.text(x + length / 2, y + 0.006 * width_m, f"{length} m", color=INK, fontsize=8, ha="center", va="bottom", zorder=13,
              path_effects=halo)  # fmt: skip


def face_of(kind: int) -> str:
    """The colour of objects that nobody drives, by their type."""
    return {PEDESTRIAN: PEDESTRIAN_FACE, CYCLIST: CYCLIST_FACE}.get(kind, OTHER_CAR)


def draw_box(axes: Axes, tracks: Tracks, index: int, frame: int, face: str, edge: str, alpha: float, order: int) -> None:
    """One object as a box with a lighter windscreen near its front; a pedestrian as a circle."""
    from matplotlib.patches import Circle, Polygon

    length, width = tracks.length_m[index], tracks.width_m[index]
    if tracks.kind[index] == PEDESTRIAN:
        place, radius = (tracks.x_m[frame, index], tracks.y_m[frame, index]), max(length, width, PEDESTRIAN_M) / 2
        axes.add_patch(Circle(place, radius, facecolor=face, edgecolor="white", lw=0.5, alpha=alpha, zorder=order))
        return
    heading = tracks.heading_rad[frame, index]
    turn = np.array([[np.cos(heading), np.sin(heading)], [-np.sin(heading), np.cos(heading)]])
    centre = np.array([tracks.x_m[frame, index], tracks.y_m[frame, index]])
    bevel = 0.22 * width
    a, b = length / 2, width / 2
    body = np.array([[a - bevel, b], [-a, b], [-a, -b], [a - bevel, -b], [a, bevel - b], [a, b - bevel]])
    screen = np.array([[0.55 * a, 0.72 * b], [0.25 * a, 0.72 * b], [0.25 * a, -0.72 * b], [0.55 * a, -0.72 * b]])
    axes.add_patch(Polygon(body @ turn + centre, facecolor=face, edgecolor=edge, lw=0.7, alpha=alpha, zorder=order))
    axes.add_patch(Polygon(screen @ turn + centre, facecolor="white", lw=0, alpha=0.65 * alpha, zorder=order + 0.1))


def draw_head(figure: Any, title: str, roads: Roads, tracks: Tracks) -> None:
    """Title, result and legends above the picture."""
    places = (1 - inches / figure.get_figheight() for inches in (0.21, 0.48, 0.76, 0.98))
    figure.text(0.02, next(places), one_line(title), color=INK, fontsize=12, weight="bold", va="center", parse_math=False)
    figure.text(0.02, next(places), caption_of(tracks), color=EDGE, fontsize=10, va="center")
    for handles in (legend_of_agents(tracks), legend_of_others(roads, tracks)):
        if handles:
            figure.add_artist(
                figure.legend(handles=handles, loc="center left", bbox_to_anchor=(0.012, next(places)), ncols=len(handles),
                              frameon=False, fontsize=8.5, labelcolor=INK, handletextpad=0.4, columnspacing=1.2, borderpad=0)
            )  # fmt: skip


def caption_of(tracks: Tracks) -> str:
    """Return what became of the agents, or, of a log, how long it is and who is in it."""
    agents = int(tracks.agent.sum())
    if tracks.logged:
        others = int((~tracks.agent & tracks.there.any(axis=0)).sum())
        return f"a log of {len(tracks.there)} frames: {agents} vehicles that control=moving would drive, {others} other objects"
    clean = tracks.reached & ~(tracks.collided.any(axis=0) | tracks.offroad.any(axis=0))
    touched = int((tracks.collided.any(axis=0) & tracks.agent).sum())
    off = int((tracks.offroad.any(axis=0) & tracks.agent).sum())
    there, flawless = int((tracks.reached & tracks.agent).sum()), int((clean & tracks.agent).sum())
    return f"{agents} agents: {there} at the goal ({flawless} of them without contact), {touched} collided, {off} off-road"


def legend_of_agents(tracks: Tracks) -> Sequence[Any]:
    """Return handles for what is drawn of agents."""
    from matplotlib.lines import Line2D

    way = [
        Line2D([], [], color=COLOURS[0], lw=3, label="path in the log" if tracks.logged else "driven"),
        Line2D([], [], color=COLOURS[0], marker="o", ms=4, mfc="white", lw=0, label="each second"),
    ]
    goal = Line2D([], [], color=COLOURS[0], marker="o", mfc="none", ms=9, lw=0, label="goal")
    if tracks.logged:
        return [*way, goal]
    return [
        *way,
        Line2D([], [], color=COLOURS[0], lw=1.1, ls=(0, (4, 2.5)), label="logged"),
        goal,
        Line2D([], [], color=CRASH, marker="X", mec="white", ms=10, lw=0, label="collision"),
        Line2D([], [], color=OFFROAD, marker="^", mec="white", ms=10, lw=0, label="off-road"),
    ]


def legend_of_others(roads: Roads, tracks: Tracks) -> Sequence[Any]:
    """Return handles for objects that nobody drives, areas, lights and signs, as far as there are any."""
    from matplotlib.lines import Line2D

    shown = ~tracks.agent & tracks.there.any(axis=0)
    kinds = {VEHICLE: "car that follows its log", PEDESTRIAN: "pedestrian", CYCLIST: "cyclist", OTHER: "other"}
    handles = [
        Line2D([], [], color=face_of(kind), mec=OTHER_EDGE, marker="o" if kind == PEDESTRIAN else "s", ms=8, lw=0, label=name)
        for kind, name in kinds.items()
        if (shown & (tracks.kind == kind)).any()
    ]
    areas, signals = {name for name, _ in roads.areas}, {name for name, _ in roads.signals}
    handles += [Line2D([], [], color=AREAS[name], marker="s", ms=8, lw=0, label=name) for name in AREAS if name in areas]
    at_start = " at the start" if tracks.logged else ""
    handles += [
        Line2D([], [], mec="white", ms=7, lw=0, label=name + at_start * (name in LIGHTS), **mark_of(name))
        for name in (*LIGHTS, *SIGNS)
        if name in signals
    ]
    return handles
