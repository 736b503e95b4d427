# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The slow, obvious twin of the driving env: dynamics, contacts, road edges, goals and observations
of one scene.

Written from the rules (csrc/drive/*.h, DESIGN), not from the C code: boxes are polygons whose
corners are projected, segments are clipped, everything is sorted. The one thing taken over is the
order of float32 operations in squared distances, since which of two nearly equal segments is nearer
is decided by their last bit. Runs in the tests only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drive_env.scenes.sceneset import SceneSet

ACCELERATIONS = (-4.0, -2.667, -1.333, 0.0, 1.333, 2.667, 4.0)
STEERINGS = (-1.0, -0.833, -0.667, -0.5, -0.333, -0.167, 0.0, 0.167, 0.333, 0.5, 0.667, 0.833, 1.0)
INVALID = -32768
F = np.float32
Pose = tuple[float, float, float, float]  # x, y, heading, speed


@dataclass
class Bodies:
    """What is there at one time, in object order. Arrays (n,); float32 positions, float64
    otherwise.
    """

    object: np.ndarray
    x: np.ndarray
    y: np.ndarray
    heading: np.ndarray
    speed: np.ndarray
    length: np.ndarray
    width: np.ndarray

    def at(self, o: int) -> int:
        """Position of object `o` in the arrays, -1 if it is not there."""
        found = np.flatnonzero(self.object == o)
        return int(found[0]) if len(found) else -1

    def corners(self, i: int) -> np.ndarray:
        """Corners (4, 2) of body i's box."""
        return corners(self.x[i], self.y[i], self.heading[i], self.length[i], self.width[i])

    def shrunk(self, scale: float) -> Bodies:
        """The same bodies with a share of their length and width, as contacts see them."""
        return replace(self, length=scale * self.length, width=scale * self.width)


class SceneTwin:
    """One compiled scene, read from the set's arrays."""

    def __init__(self, scenes: SceneSet, index: int) -> None:
        head, arrays = scenes.scene(index)
        self.arrays, self.dt_s = arrays, float(head["dt_s"])
        self.steps = int(head["frame_count"]) - 1
        self.objects, self.frames = arrays["objects"], arrays["frames"]
        self.kept: dict[Any, Any] = {}  # what the followers' twin found before
        self.lanes, self.links, self.polyline = arrays["lanes"], arrays["links"], arrays["polyline"]
        self.controls, self.states = arrays["controls"], arrays["states"]
        self.road = {name: arrays[name] for name in ("x", "y", "ux", "uy", "half")}
        ends = np.concatenate([[0], np.cumsum(head["segment_count"])]).astype(int)
        self.of_type = {
            name: slice(ends[i], ends[i + 1]) for i, name in enumerate(("lanes", "lines", "edges"))
        }

    def controlled(self, config: Any) -> list[int]:
        """Objects that are agents."""
        return [o for o in range(len(self.objects)) if self.is_agent(o, config)]

    def is_agent(self, o: int, config: Any) -> bool:
        """The rules of the setting `control`."""
        item, start = self.objects[o], self.frame(o, config.init_step)
        if (
            start is None
            or item["type"] > 2
            or (not config.max_steps and config.init_step >= self.steps)
        ):
            return False
        if config.control in ("predict", "sdc", "ids"):
            flag = {"predict": 8, "sdc": 32, "ids": 0}[config.control]
            return bool(item["flags"] & flag) or int(item["id"]) in config.control_ids
        distance = np.hypot(item["goal_x_m"] - start["x_m"], item["goal_y_m"] - start["y_m"])
        if distance <= config.goal_radius_m or (config.control != "all" and item["type"] != 0):
            return False
        return config.control != "moving" or bool(distance >= 2 and not item["flags"] & 1)

    def next_goal(
        self, pose: tuple[float, ...], config: Any, draw: Callable[[int, int], int]
    ) -> tuple[float, float] | None:
        """The point next_goal_m farther along the lanes; None: no lane, or a dead end. draw(lane,
        n): one of n exits.
        """
        x, y, heading = pose[:3]
        squares = self.squares("lanes", x, y).astype(float)
        ux, uy, half = (
            self.road[name][self.of_type["lanes"]].astype(float) for name in ("ux", "uy", "half")
        )
        mx, my = (self.road[name][self.of_type["lanes"]].astype(float) for name in ("x", "y"))
        squares[
            (ux * np.cos(heading) + uy * np.sin(heading) < np.cos(np.pi / 4)) | (squares > 100)
        ] = np.inf
        if not np.isfinite(squares).any():
            return None
        s, ahead = int(squares.argmin()), float(config.next_goal_m)
        at = float(np.clip((x - mx[s]) * ux[s] + (y - my[s]) * uy[s], -half[s], half[s]))
        while at + ahead > half[s]:
            ahead, at = ahead - (half[s] - at), half[s]
            lane = self.lanes[self.polyline[s]]
            following = s + 1
            if following >= lane["first_segment"] + lane["segment_count"]:
                if not lane["exit_count"]:
                    break
                chosen = (
                    draw(int(self.polyline[s]), int(lane["exit_count"]))
                    if lane["exit_count"] > 1
                    else 0
                )
                following = int(self.lanes[self.links[lane["exits"] + chosen]]["first_segment"])
            s, at = following, -half[following]
        if at >= half[s] and config.next_goal_m - ahead <= 2 * config.goal_radius_m:
            return None
        at = min(at + ahead, half[s])
        return mx[s] + at * ux[s], my[s] + at * uy[s]

    def frame(self, o: int, t: int) -> Any:
        """The logged frame of object o at time t, or None."""
        item = self.objects[o]
        i = t - int(item["frame_first"])
        if not 0 <= i < item["frame_count"]:
            return None
        frame = self.frames[int(item["frames_index"]) + i]
        return None if frame["speed"] == INVALID else frame

    def other(self, o: int, clock: int, config: Any) -> Pose | None:
        """(x, y, heading, speed) of an object that is no agent, or None where it is not there."""
        stands = config.others == "static"
        frame = self.frame(o, config.init_step + (0 if stands else clock))
        if frame is None:
            return None
        return (
            frame["x_m"],
            frame["y_m"],
            frame["heading"] * np.pi / 32768,
            0.0 if stands else frame["speed"] * 0.01,
        )

    def bodies(
        self,
        clock: int,
        agents: dict[int, Pose],
        config: Any,
        followers: dict[int, Pose | None] | None = None,
    ) -> Bodies:
        """All that is there after `clock` steps: agents and followers {object: (x, y, heading,
        speed)}, and the others.
        """
        rows, controlled = [], self.controlled(config)
        for o, item in enumerate(self.objects):
            size = (float(item["length_m"]), float(item["width_m"]))
            if o in agents:
                rows.append((o, *agents[o], *size))
            elif o not in controlled:
                pose = (
                    followers[o] if followers and o in followers else self.other(o, clock, config)
                )
                if pose is not None:
                    rows.append((o, *pose, *size))
        columns = list(zip(*rows, strict=True)) if rows else [()] * 7
        rest = (np.array(column, float) for column in columns[3:])
        return Bodies(
            np.array(columns[0], int), np.array(columns[1], F), np.array(columns[2], F), *rest
        )

    # ---- observations ----------------------------------------------------------------------------

    def squares(self, block: str, x: float, y: float) -> np.ndarray:
        """Squared distances (float32) from a point to all segments of a block, in C's order of
        operations.
        """
        of = self.of_type[block]
        sx, sy, ux, uy, half = (self.road[name][of] for name in ("x", "y", "ux", "uy", "half"))
        dx, dy = sx - F(x), sy - F(y)
        over = np.maximum(np.abs(dx * ux + dy * uy) - half, F(0))
        across = dx * uy - dy * ux
        return np.asarray(over * over + across * across)

    def segment_block(
        self, block: str, x: float, y: float, heading: float, k: int, range_m: float
    ) -> np.ndarray:
        """The k nearest segments (k, 7), scaled, zeros where there are fewer."""
        squares = self.squares(block, x, y)
        out = np.zeros((k, 7))
        for row, s in zip(out, nearest(squares, k, range_m), strict=False):
            sx, sy, ux, uy, half = (
                float(self.road[name][self.of_type[block]][s])
                for name in ("x", "y", "ux", "uy", "half")
            )
            ahead, left = turned(sx - x, sy - y, heading)
            lateral = ux * (y - sy) - uy * (
                x - sx
            )  # z of direction x (car - midpoint): positive left of the line
            row[:] = (
                ahead / 20,
                left / 20,
                half / 10,
                *turned(ux, uy, heading),
                np.sqrt(squares[s]) / 10,
                lateral / 5,
            )
        return out


def turned(dx: float, dy: float, heading: float) -> tuple[float, float]:
    """A world vector in the frame of a car: ahead, left."""
    c, s = np.cos(heading), np.sin(heading)
    return dx * c + dy * s, dy * c - dx * s


def nearest(squares: np.ndarray, k: int, range_m: float) -> np.ndarray:
    """Indices of the k least within the range, ties by index."""
    order = np.argsort(squares, kind="stable")[:k]
    return order[squares[order] <= F(range_m) * F(range_m)]


def partner_block(bodies: Bodies, own: int, k: int, range_m: float) -> np.ndarray:
    """The k nearest other bodies (k, 8), scaled, zeros where there are fewer."""
    dx, dy = bodies.x - bodies.x[own], bodies.y - bodies.y[own]
    squares = dx * dx + dy * dy
    squares[own] = np.inf
    heading = bodies.heading[own]
    out = np.zeros((k, 8))
    for row, j in zip(out, nearest(squares, k, range_m), strict=False):
        ahead, left = turned(float(dx[j]), float(dy[j]), heading)
        turn = bodies.heading[j] - heading
        velocity = (
            (bodies.speed[j] * np.cos(turn) - bodies.speed[own]) / 10,
            bodies.speed[j] * np.sin(turn) / 10,
        )
        row[:] = (
            ahead / 20,
            left / 20,
            np.cos(turn),
            np.sin(turn),
            *velocity,
            bodies.width[j] / 2,
            bodies.length[j] / 5,
        )
    return out


def ego_block(
    bodies: Bodies, own: int, goal: tuple[float, float], left_steps: int, steps: int, dt_s: float
) -> np.ndarray:
    """The agent's own columns (11,), scaled, without the two flags at the end."""
    dx, dy = goal[0] - float(bodies.x[own]), goal[1] - float(bodies.y[own])
    distance = float(np.hypot(dx, dy))
    ahead, left = turned(dx, dy, bodies.heading[own])
    unit = (ahead / distance, left / distance) if distance > 1e-3 else (0.0, 0.0)
    needed = min(distance / (max(left_steps, 1) * dt_s), 30) / 10
    own_size = bodies.speed[own] / 10, bodies.width[own] / 2, bodies.length[own] / 5
    values = (
        *own_size,
        ahead / 50,
        left / 50,
        *unit,
        distance / 50,
        20 / (20 + distance),
        needed,
        left_steps / steps,
    )
    return np.clip(values, -20, 20)


def previous_action_block(action: int) -> tuple[float, float]:
    """What an agent chose in the last step, scaled."""
    return ACCELERATIONS[action // 13] / 4, STEERINGS[action % 13]


# ---- motion and geometry -------------------------------------------------------------------------


def bicycle(
    state: tuple[float, float, float, float], action: int, length: float, dt_s: float, config: Any
) -> tuple[float, ...]:
    """One step of the kinematic bicycle: (x, y, heading, speed) after `action`."""
    x, y, heading, speed = state
    steer = STEERINGS[action % 13]
    speed = min(
        max(speed + ACCELERATIONS[action // 13] * dt_s, -config.max_reverse_mps),
        config.max_speed_mps,
    )
    slip = np.arctan(0.5 * np.tan(steer))
    x += speed * np.cos(heading + slip) * dt_s
    y += speed * np.sin(heading + slip) * dt_s
    heading += speed * np.cos(slip) * np.tan(steer) / (config.wheelbase_factor * length) * dt_s
    return x, y, (heading + np.pi) % (2 * np.pi) - np.pi, speed


def corners(x: float, y: float, heading: float, length: float, width: float) -> np.ndarray:
    """Corners (4, 2) of a box."""
    ahead, left = (
        np.array([np.cos(heading), np.sin(heading)]),
        np.array([-np.sin(heading), np.cos(heading)]),
    )
    return np.array(
        [
            [x, y] + a * length / 2 * ahead + b * width / 2 * left
            for a, b in ((1, 1), (1, -1), (-1, -1), (-1, 1))
        ]
    )


def gap(a: np.ndarray, b: np.ndarray) -> float:
    """How far the corners of two boxes are apart along the best of their sides' normals; negative:
    they overlap.
    """
    best = -np.inf
    for polygon in (a, b):
        for i in range(4):
            side = polygon[(i + 1) % 4] - polygon[i]
            normal = np.array([side[1], -side[0]]) / np.hypot(*side)
            pa, pb = a @ normal, b @ normal
            best = max(best, pb.min() - pa.max(), pa.min() - pb.max())
    return best


def segment_in_box(
    start: np.ndarray,
    end: np.ndarray,
    box: tuple[float, float, float, float, float],
    grow: float = 0.0,
) -> bool:
    """True if a segment has a point in the box (x, y, heading, length, width) grown by `grow` on
    each side (clipping).
    """
    x, y, heading, length, width = box
    (x0, y0), (x1, y1) = (turned(p[0] - x, p[1] - y, heading) for p in (start, end))
    low, high = 0.0, 1.0
    for first, last, half in ((x0, x1, length / 2 + grow), (y0, y1, width / 2 + grow)):
        step = last - first
        if abs(step) < 1e-12:
            if abs(first) > half:
                return False
            continue
        a, b = sorted(((-half - first) / step, (half - first) / step))
        low, high = max(low, a), min(high, b)
    return low <= high


def paths_cross(p: np.ndarray, q: np.ndarray, start: np.ndarray, end: np.ndarray) -> bool:
    """True if the open segments p-q and start-end cross."""
    matrix = np.array([q - p, start - end]).T
    if abs(np.linalg.det(matrix)) < 1e-12:
        return False
    t, u = np.linalg.solve(matrix, start - p)
    return bool(0 <= t <= 1 and 0 <= u <= 1)


def distance_to_path(point: np.ndarray, p: np.ndarray, q: np.ndarray) -> float:
    """Least distance from a point to the segment p-q."""
    step = q - p
    square = float(step @ step)
    t = 0.0 if square == 0 else float(np.clip((point - p) @ step / square, 0, 1))
    return float(np.hypot(*(p + t * step - point)))
