# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compares two sets of scenes: `puffer-scenes compare A B`. docs/scenes.md shows its table.

Runs in the command and its helper processes. Each measure gives one number per scene, so that a
scene with many cars weighs no more than any other. Scenes in which a measure is undefined (no
agent, no adjacent lanes) are left out of its row. To add a measure, add a line to MEASURES and its
value to `measure`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.config import DriveConfig
from drive_env.prepare import settings_of
from drive_env.scenes.controls import controls_of
from drive_env.scenes.reader import LeftOut
from drive_env.scenes.schema import (
    CONTROL_KINDS,
    CYCLIST,
    FRAME_S,
    MOVE_M,
    PEDESTRIAN,
    VEHICLE,
    Floats,
    Scene,
    SceneObject,
)
from drive_env.scenes.segments import polylines_of
from drive_env.sources import Item, sources_of
from puffervec.errors import SceneError
from puffervec.system.output import printable

STANDS_M, STANDS_MPS, STANDS_S = 1.0, 0.5, 1.0
ON_LANE_M, ON_LANE_RAD = 1.5, 0.5
TURNS_RAD = np.radians(30)
GOAL_M = 2.0
WINDOW = 5  # frames over which accelerations are averaged, because positions in real logs jitter
SPACING_M, PARALLEL = (1.5, 5.5), float(np.cos(0.3))
SAMPLE_M = 2.0  # distance between samples of a lane
LONGEST = 60  # characters of a set's name in the table
QUANTILES = (0.1, 0.5, 0.9)
NEAR = 0.25  # medians that differ by at most this share of B's count as near

# name: meaning, with the unit
MEASURES = {
    "objects": "objects that are present in some frame",
    "vehicles": "vehicles among them",
    "walkers": "pedestrians and cyclists among them",
    "at start": "share of the objects that are present in the first frame",
    "agents": "vehicles that the env controls by default",
    "parked": "share of the vehicles that stand off the lanes all the time",
    "waiting": "share of the vehicles that stand on a lane for a second or more",
    "speed": "median speed of agents, m/s",
    "top speed": "speed that agents exceed in a tenth of the time, m/s",
    "speeding up": "acceleration that agents exceed in a twentieth of the time, m/s2",
    "braking": "the same for braking, m/s2",
    "sideways": "the same for speed times turning rate, m/s2",
    "steps to goal": "median over agents of the frame in which the log is within 2 m of the goal",
    "way to goal": "median over agents of the distance driven until then, m",
    "turning": "share of the vehicles that move 2 m or more whose heading changes by more than 30 "
    "degrees",
    "lane spacing": "median distance between adjacent lanes of the same direction, m",
    "curvature": "curvature exceeded along a tenth of the lanes' length, 1/m",
    "lanes": "length of all lanes, m",
    "segments": "segments of lanes, lines and edges when compiled",
    "lights and signs": "traffic lights, stop signs, yield signs",
    "crosswalks": "crosswalks",
    "extent": "diagonal of the box around all roads, m",
    "rise": "height difference between the lowest and the highest lane, m",
}


def measure(scene: Scene) -> dict[str, float]:
    """Return all measures of a scene; NaN for those that are undefined."""
    present = [item for item in scene.objects if item.valid.any()]
    vehicles = [item for item in present if item.type == VEHICLE]
    agents = [item for item in vehicles if item.controllable]
    lanes = sample_lanes(scene)
    standing = [standing_kind(item, lanes) for item in vehicles]
    motion = [motion_of(item) for item in agents]
    ways = [way_to_goal(item) for item in agents]
    settings = settings_of(DriveConfig())
    polylines = polylines_of(scene, np.zeros(3), settings.tolerances_m, settings.split_m)
    corners = np.concatenate([np.zeros((0, 3)), *(road.points_m for road in scene.roads)])
    controls = [CONTROL_KINDS[item.kind] for item in controls_of(scene)]
    return {
        "objects": len(present),
        "vehicles": len(vehicles),
        "walkers": sum(item.type in (PEDESTRIAN, CYCLIST) for item in present),
        "at start": share([item.valid_at_start for item in present]),
        "agents": len(agents),
        "parked": share([kind == "parked" for kind in standing]),
        "waiting": share([kind == "waiting" for kind in standing]),
        "speed": quantile([row[0] for row in motion], 0.5),
        "top speed": quantile([row[0] for row in motion], 0.9),
        "speeding up": quantile([row[1] for row in motion], 0.95),
        "braking": quantile([-row[1] for row in motion], 0.95),
        "sideways": quantile([row[2] for row in motion], 0.95),
        "steps to goal": quantile([np.array([steps for steps, _ in ways])], 0.5),
        "way to goal": quantile([np.array([metres for _, metres in ways])], 0.5),
        "turning": share(
            [abs(heading_change(item)) > TURNS_RAD for item in vehicles if reach_m(item) >= MOVE_M]
        ),
        "lane spacing": lane_spacing(lanes),
        "curvature": quantile([np.abs(lanes.curvature)], 0.9),
        "lanes": SAMPLE_M * len(lanes.place_m),
        "segments": sum(len(item.points_m) - 1 for group in polylines for item in group),
        "lights and signs": len(controls),
        "crosswalks": sum(road.type == "crosswalk" for road in scene.roads),
        "extent": float(np.hypot(*np.ptp(corners[:, :2], axis=0)))
        if len(corners)
        else float("nan"),
        "rise": float(np.ptp(lanes.height_m)) if len(lanes.place_m) else float("nan"),
    }


def share(values: Sequence[bool]) -> float:
    """Return the share of true values; NaN if there are none."""
    return sum(values) / len(values) if values else float("nan")


def quantile(parts: Sequence[Floats], at: float) -> float:
    """Return a quantile of all values taken together; NaN if there are none."""
    values = np.concatenate([np.zeros(0), *parts])
    return float(np.quantile(values, at)) if len(values) else float("nan")


# ---- objects -------------------------------------------------------------------------------------


def standing_kind(item: SceneObject, lanes: Lanes) -> str:
    """Return "parked" or "waiting" for a vehicle that stands; "" for one that drives all the time.

    A vehicle is on a lane if it is at most 1.5 m from the lane's line and turned by at most 0.5
    rad. It waits if it stands there all the time, or if it stands for a second and drives at other
    times. It is parked if it stands elsewhere all the time.
    """
    first = int(np.argmax(item.valid))
    if reach_m(item) < STANDS_M:
        return (
            "waiting"
            if on_lane(item.position_m[first, :2], float(item.heading_rad[first]), lanes)
            else "parked"
        )
    slow = np.hypot(*item.velocity_mps.T) < STANDS_MPS
    frames = round(STANDS_S / FRAME_S)
    run = (
        np.convolve(slow & item.valid, np.ones(frames), "valid")
        if len(slow) >= frames
        else np.zeros(1)
    )
    return "waiting" if run.max() >= frames - 0.5 else ""


def reach_m(item: SceneObject) -> float:
    """Return the largest distance of an object from its first logged position, in m."""
    place = item.position_m[item.valid, :2]
    return float(np.hypot(*(place - place[0]).T).max())


def motion_of(item: SceneObject) -> Floats:
    """Return (3, n): speed, and acceleration along and across the path of an object, by frame.

    Each is taken over WINDOW frames.
    """
    speed = np.where(item.valid, np.hypot(*item.velocity_mps.T), np.nan)
    gain = (speed[WINDOW:] - speed[:-WINDOW]) / (WINDOW * FRAME_S)
    bend = item.heading_rad[WINDOW:] - item.heading_rad[:-WINDOW]
    turning = np.abs((bend + np.pi) % (2 * np.pi) - np.pi) / (WINDOW * FRAME_S)
    middle = (speed[WINDOW:] + speed[:-WINDOW]) / 2
    return np.stack([middle, gain, middle * turning])[:, ~np.isnan(gain)]


def way_to_goal(item: SceneObject) -> tuple[float, float]:
    """Return when an agent's log comes within GOAL_M of its goal, and how far it drives until then.

    Returns:
        The first such frame, and a length in m.
    """
    there = np.flatnonzero(item.valid)
    place = item.position_m[there, :2]
    at = int(np.argmax(np.hypot(*(place - item.goal_m[:2]).T) <= GOAL_M))
    return float(there[at]), float(np.hypot(*np.diff(place[: at + 1], axis=0).T).sum())


def heading_change(item: SceneObject) -> float:
    """Return the change of an object's heading from first to last frame, rad in [-pi, pi)."""
    first, *_, last = item.heading_rad[item.valid] if item.valid.sum() > 1 else np.zeros(2)
    return float((last - first + np.pi) % (2 * np.pi) - np.pi)


# ---- lanes ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lanes:
    """The n sample points on all lanes, SAMPLE_M apart."""

    place_m: Floats  # (n, 2)
    height_m: Floats  # (n,)
    heading: Floats  # (n, 2) unit vector
    curvature: Floats  # (m,) 1/m, between adjacent points of a lane
    lane: NDArray[np.int64]  # (n,)


def sample_lanes(scene: Scene) -> Lanes:
    """Return points along the lanes of a scene. A lane shorter than SAMPLE_M has a single point."""
    points, heading, curvature, lane = (
        [np.zeros((0, 3))],
        [np.zeros((0, 2))],
        [np.zeros(0)],
        [np.zeros(0, dtype=np.int64)],
    )
    for number, road in enumerate(scene.roads):
        steps = np.hypot(*np.diff(road.points_m[:, :2], axis=0).T)
        if road.type != "lane" or steps.sum() < 1e-3:
            continue
        where = np.concatenate([[0.0], np.cumsum(steps)])
        # A sample is the midpoint of its stretch of lane, with the direction of its chord.
        ends = np.linspace(0.0, where[-1], max(1, round(where[-1] / SAMPLE_M)) + 1)
        line = np.stack([np.interp(ends, where, axis) for axis in road.points_m.T], axis=-1)
        step = np.diff(line[:, :2], axis=0)
        length = np.maximum(np.hypot(*step.T), 1e-6)
        points.append((line[1:] + line[:-1]) / 2)
        heading.append(step / length[:, None])
        bend = (np.diff(np.arctan2(step[:, 1], step[:, 0])) + np.pi) % (2 * np.pi) - np.pi
        curvature.append(bend / ((length[1:] + length[:-1]) / 2))
        lane.append(np.full(len(step), number))
    place = np.concatenate(points)
    return Lanes(
        place[:, :2],
        place[:, 2],
        np.concatenate(heading),
        np.concatenate(curvature),
        np.concatenate(lane),
    )


def on_lane(place_m: Floats, heading_rad: float, lanes: Lanes) -> bool:
    """Return whether a place lies on a lane that runs in about the direction `heading_rad`."""
    along, across = _project(lanes.place_m - place_m, lanes.heading)
    same = lanes.heading @ np.array([np.cos(heading_rad), np.sin(heading_rad)]) >= np.cos(
        ON_LANE_RAD
    )
    return bool((same & (np.abs(along) <= SAMPLE_M) & (np.abs(across) <= ON_LANE_M)).any())


def lane_spacing(lanes: Lanes) -> float:
    """Return the median distance between adjacent lanes of one direction; NaN if there are none."""
    gaps = []
    for index in range(0, len(lanes.place_m), 2):
        along, across = _project(lanes.place_m - lanes.place_m[index], lanes.heading[index])
        adjacent = (np.abs(along) <= SAMPLE_M / 2) & (
            lanes.heading @ lanes.heading[index] >= PARALLEL
        )
        adjacent &= (
            (np.abs(across) >= SPACING_M[0])
            & (np.abs(across) <= SPACING_M[1])
            & (lanes.lane != lanes.lane[index])
        )
        if adjacent.any():
            gaps.append(float(np.abs(across[adjacent]).min()))
    return float(np.median(gaps)) if gaps else float("nan")


def _project(offset_m: Floats, heading: Floats) -> tuple[Floats, Floats]:
    """Return the components of offsets (n, 2) along and across unit vectors, (2,) or (n, 2)."""
    x, y = offset_m.T
    ux, uy = heading.T
    return x * ux + y * uy, y * ux - x * uy


# ---- two sets ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MeasuredSet:
    """The measures of a set of scenes."""

    name: str
    scenes: dict[str, dict[str, float]]  # measures by scene
    left_out: tuple[LeftOut, ...]

    def values(self, name: str) -> Floats:
        """Return the values of a measure over the scenes that have one, (n,) sorted."""
        values = np.array([row[name] for row in self.scenes.values()], dtype=np.float64)
        return np.sort(values[~np.isnan(values)])


def items_of(scenes: str) -> list[Item]:
    """Return the scenes that a setting such as `generated:50` or a folder names.

    Raises:
        SceneError, ConfigError: see `sources_of`.
    """
    return [item for source in sources_of(scenes) for item in source.items]


def measure_item(item: Item) -> tuple[str, dict[str, float]] | LeftOut:
    """Load and measure one scene, in any process.

    Raises:
        SceneError: see the loader (`Item.load`).
    """
    loaded = item.load()
    if isinstance(loaded, LeftOut):
        return loaded
    scene = loaded[0].scene() if isinstance(loaded, tuple) else loaded
    return item.id, measure(scene)


def collect_measures(
    name: str, outcomes: Sequence[tuple[str, dict[str, float]] | LeftOut]
) -> MeasuredSet:
    """Collect the results of `measure_item` into a set.

    Raises:
        SceneError: no scene could be measured.
    """
    scenes: dict[str, dict[str, float]] = {}
    for number, outcome in enumerate(outcomes):
        if not isinstance(outcome, LeftOut):
            scenes[outcome[0] if outcome[0] not in scenes else f"{outcome[0]} ({number})"] = (
                outcome[1]
            )
    left_out = tuple(item for item in outcomes if isinstance(item, LeftOut))
    if not scenes:
        raise SceneError(
            f"{name}: none of its {len(left_out)} scenes can be compared ({left_out[0].reason})"
        )
    return MeasuredSet(name, scenes, left_out)


def kolmogorov(a: Floats, b: Floats) -> float:
    """Return the Kolmogorov-Smirnov distance of two samples: max |F_a(x) - F_b(x)| over all x.

    F(x) is the share of a sample's values that are at most x. The distance is 0 for equal
    distributions, 1 for samples that do not overlap, and NaN if a sample is empty.

    Args:
        a, b: (n,) and (m,), sorted.

    >>> kolmogorov(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    0.5
    """
    if not len(a) or not len(b):
        return float("nan")
    at = np.concatenate([a, b])
    return float(
        np.abs(
            np.searchsorted(a, at, "right") / len(a) - np.searchsorted(b, at, "right") / len(b)
        ).max()
    )


def chance(a: int, b: int) -> float:
    """Return the 95 % quantile of the distance between two samples of one distribution.

    Uses Smirnov's formula for the Kolmogorov-Smirnov distance of samples of sizes a and b.
    """
    return min(1.0, 1.358 * float(np.sqrt((a + b) / (a * b))))


def ratio(a: float, b: float) -> float:
    """Return a / b; 1 if both are 0."""
    return 1.0 if a == b else a / b if b else float("nan")


def rows_of(a: MeasuredSet, b: MeasuredSet) -> list[dict[str, Any]]:
    """Return a row per measure.

    A row has the quantiles of both sets, the ratio of their medians, whether that is near 1, and
    the Kolmogorov-Smirnov distance.
    """
    rows = []
    for name, meaning in MEASURES.items():
        row: dict[str, Any] = {"measure": name, "meaning": meaning}
        for key, side in (("a", a), ("b", b)):
            values = side.values(name)
            quantiles = (
                np.quantile(values, QUANTILES).tolist()
                if len(values)
                else [float("nan")] * len(QUANTILES)
            )
            row[key] = {
                "scenes": len(values),
                **{f"{at:.0%}": number for at, number in zip(QUANTILES, quantiles, strict=True)},
            }
        row["ratio"] = ratio(row["a"]["50%"], row["b"]["50%"])
        row["near"] = bool(abs(row["ratio"] - 1) <= NEAR)
        row["distance"] = kolmogorov(a.values(name), b.values(name))
        rows.append(row)
    return rows


def table(a: MeasuredSet, b: MeasuredSet, rows: Sequence[dict[str, Any]]) -> str:
    """Return the comparison as text.

    Args:
        rows: see `rows_of`.
    """
    names = [f"{at:.0%}" for at in QUANTILES]
    cells = [["", *(f"{side} {name}" for side in "AB" for name in names), "A/B", "", "distance"]]
    for row in rows:
        numbers = [short(row[side][name]) for side in "ab" for name in names]
        mark = "" if row["near"] else "*"
        cells.append([row["measure"], *numbers, short(row["ratio"]), mark, short(row["distance"])])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip()
        for line in cells
    ]
    within = chance(len(a.scenes), len(b.scenes))
    names = [f"{side.name[:LONGEST]}{'...' if len(side.name) > LONGEST else ''}" for side in (a, b)]
    foot = [
        f"A: {printable(names[0])}, {len(a.scenes)} scenes; B: {printable(names[1])}, "
        f"{len(b.scenes)} scenes.",
        "Quantiles over scenes, one value per scene.",
        f"* the medians differ by more than {NEAR:.0%} of B's. distance: Kolmogorov-Smirnov, 0 to "
        "1; two samples",
        f"of these sizes from one distribution stay below {within:.2f} in 95 % of cases.",
    ]
    return "\n".join([*lines, "", *foot])


def short(value: float) -> str:
    """Return a number for the table: three digits, "-" for NaN."""
    return "-" if np.isnan(value) else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
