# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The slow, obvious twins of the observation blocks beside the compact ones: presets of PufferDrive
and GPUDrive, segments spread over the range, lidar, and rows of fewer bytes. Written from
docs/drive.md. Runs in the tests only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drive_env.evaluate.observation import Column
from tests.twins.drive import Bodies, SceneTwin, nearest, turned

F = np.float32
SHRUNK = 0.7
KINDS = {0: "vehicle", 1: "pedestrian", 2: "cyclist", 3: "vehicle"}


def wrapped(angle: Any) -> Any:
    """The angle in [-pi, pi)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


# ---- presets -------------------------------------------------------------------------------------


def chosen_roads(
    arrays: dict[str, np.ndarray], x: float, y: float, k: int, range_m: float
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest segments of all types: indices and types in the order of the scene's groups,
    which also decides ties.
    """
    groups = arrays["groups"]
    used = groups["type"].reshape(-1) != 255
    sx, sy, ux, uy, half = (
        groups[name].reshape(-1)[used] for name in ("x", "y", "ux", "uy", "half")
    )
    dx, dy = sx - F(x), sy - F(y)
    over = np.maximum(np.abs(dx * ux + dy * uy) - half, F(0))
    across = dx * uy - dy * ux
    places = np.sort(nearest(over * over + across * across, k, range_m))
    return groups["segment"].reshape(-1)[used][places].astype(int), groups["type"].reshape(-1)[
        used
    ][places].astype(int)


def pufferdrive_roads(
    twin: SceneTwin,
    arrays: dict[str, np.ndarray],
    pose: tuple[float, float, float],
    k: int,
    range_m: float,
) -> np.ndarray:
    """(k, 7), zeros where there are fewer."""
    out = np.zeros((k, 7))
    for row, s, kind in zip(out, *chosen_roads(arrays, *pose[:2], k, range_m), strict=False):
        x, y, ux, uy, half = (float(twin.road[name][s]) for name in ("x", "y", "ux", "uy", "half"))
        ahead, left = turned(x - pose[0], y - pose[1], pose[2])
        row[:] = ahead * 0.02, left * 0.02, half / 100, 0.1 / 100, *turned(ux, uy, pose[2]), kind
    return out


def gpudrive_roads(
    twin: SceneTwin,
    arrays: dict[str, np.ndarray],
    pose: tuple[float, float, float],
    k: int,
    range_m: float,
) -> np.ndarray:
    """(k, 13), zeros where there are fewer."""
    out = np.zeros((k, 13))
    for row, s, kind in zip(out, *chosen_roads(arrays, *pose[:2], k, range_m), strict=False):
        x, y, ux, uy, half = (float(twin.road[name][s]) for name in ("x", "y", "ux", "uy", "half"))
        ahead, left = turned(x - pose[0], y - pose[1], pose[2])
        heading = wrapped(np.arctan2(uy, ux) - pose[2]) / (2 * np.pi)
        row[:6] = ahead / 1000, left / 1000, half / 100, 0.1 / 100, 0.1 / 100, heading
        row[6 + {2: 1, 1: 2, 0: 3}[int(kind)]] = 1  # none, edge, line, lane, ...
    return out


def others(bodies: Bodies, own: int, k: int, range_m: float) -> np.ndarray:
    """Positions in `bodies` of the k nearest others, sorted."""
    dx, dy = bodies.x - bodies.x[own], bodies.y - bodies.y[own]
    squares = dx * dx + dy * dy
    squares[own] = np.inf
    return nearest(squares, k, range_m)


def pufferdrive_partners(bodies: Bodies, own: int, k: int, range_m: float) -> np.ndarray:
    """(k, 7), zeros where there are fewer."""
    out = np.zeros((k, 7))
    for row, j in zip(out, others(bodies, own, k, range_m), strict=False):
        ahead, left = turned(
            float(bodies.x[j] - bodies.x[own]),
            float(bodies.y[j] - bodies.y[own]),
            bodies.heading[own],
        )
        turn = bodies.heading[j] - bodies.heading[own]
        size = SHRUNK * bodies.width[j] / 15, SHRUNK * bodies.length[j] / 30
        row[:] = (
            ahead * 0.02,
            left * 0.02,
            *size,
            np.cos(turn),
            np.sin(turn),
            abs(bodies.speed[j]) / 100,
        )
    return out


def gpudrive_partners(bodies: Bodies, own: int, k: int, range_m: float) -> np.ndarray:
    """(k, 6), zeros where there are fewer."""
    out = np.zeros((k, 6))
    for row, j in zip(out, others(bodies, own, k, range_m), strict=False):
        ahead, left = turned(
            float(bodies.x[j] - bodies.x[own]),
            float(bodies.y[j] - bodies.y[own]),
            bodies.heading[own],
        )
        turn = wrapped(bodies.heading[j] - bodies.heading[own]) / (2 * np.pi)
        size = SHRUNK * bodies.length[j] / 30, SHRUNK * bodies.width[j] / 15
        row[:] = abs(bodies.speed[j]) / 100, ahead / 1000, left / 1000, turn, *size
    return out


def pufferdrive_ego(
    bodies: Bodies, own: int, goal: tuple[float, float], collided: bool
) -> np.ndarray:
    """(7,)."""
    ahead, left = turned(
        goal[0] - float(bodies.x[own]), goal[1] - float(bodies.y[own]), bodies.heading[own]
    )
    size = SHRUNK * bodies.width[own] / 15, SHRUNK * bodies.length[own] / 30
    return np.array([ahead * 0.005, left * 0.005, abs(bodies.speed[own]) / 100, *size, collided, 0])


def pufferdrive_jerk_ego(
    ego: np.ndarray, steering: float, acceleration: float, lateral: float
) -> np.ndarray:
    """(10,), from the (7,) of the other models."""
    size = 15 if acceleration < 0 else 4
    return np.array([*ego[:6], steering / np.pi, acceleration / size, lateral / 4, ego[6]])


def gpudrive_ego(bodies: Bodies, own: int, goal: tuple[float, float], collided: bool) -> np.ndarray:
    """(6,)."""
    ahead, left = turned(
        goal[0] - float(bodies.x[own]), goal[1] - float(bodies.y[own]), bodies.heading[own]
    )
    size = SHRUNK * bodies.length[own] / 30, SHRUNK * bodies.width[own] / 15
    return np.array([abs(bodies.speed[own]) / 100, *size, ahead / 1000, left / 1000, collided])


# ---- spread over the range -----------------------------------------------------------------------


def spread(squares: np.ndarray, k: int, range_m: float) -> np.ndarray:
    """Indices of the segments that are shown of those with these squared distances, nearest first.

    Rings end at 1/8, 1/4, 1/2 and all of the range. Each gives a quarter of k, if it has so many;
    what is left goes to the nearest rings that have more. A ring gives those whose 16-bit index,
    read backwards, is least.
    """
    ends = [F(range_m) * F(share) for share in (0.125, 0.25, 0.5, 1)]
    rings: list[list[int]] = [[], [], [], []]
    for s in np.flatnonzero(squares <= F(range_m) * F(range_m)):
        rings[next(r for r, end in enumerate(ends) if squares[s] <= end * end)].append(int(s))
    shares = [min(len(ring), k // 4) for ring in rings]
    for r, ring in enumerate(rings):
        shares[r] += min(len(ring) - shares[r], k - sum(shares))
    shown = [
        s
        for ring, share in zip(rings, shares, strict=True)
        for s in sorted(ring, key=lambda s: f"{s:016b}"[::-1])[:share]
    ]
    return np.array(sorted(shown, key=lambda s: (squares[s], s)), int)


# ---- the way to the goal, lights and signs -------------------------------------------------------


def route(
    arrays: dict[str, np.ndarray],
    pose: tuple[float, float, float],
    goal: tuple[float, float],
    k: int,
    step_m: float,
) -> np.ndarray:
    """(k, 4): points of the way to the goal, a step apart, and the direction there; zeros behind
    its end.
    """
    lanes, links = arrays["lanes"], arrays["links"]
    middle = np.stack([arrays["x"], arrays["y"]], -1).astype(float)
    unit, half = (
        np.stack([arrays["ux"], arrays["uy"]], -1).astype(float),
        arrays["half"].astype(float),
    )
    here, ahead = np.array(pose[:2]), np.array([np.cos(pose[2]), np.sin(pose[2])])
    on, best = -1, 10.0
    for s in range(int(lanes["segment_count"].sum())):
        along, across = (
            unit[s] @ (here - middle[s]),
            np.array([-unit[s][1], unit[s][0]]) @ (here - middle[s]),
        )
        distance = float(np.hypot(max(abs(along) - half[s], 0), across))
        if distance < best and unit[s] @ ahead >= np.sqrt(0.5):
            on, best = s, distance
    out = np.zeros((k, 4))
    at = np.clip(unit[on] @ (here - middle[on]), -half[on], half[on]) if on >= 0 else 0.0
    left, count = step_m, 0
    while on >= 0 and count < k:
        if at + left > half[on]:
            left -= half[on] - at
            on = _segment_after(arrays, lanes, links, on, goal)
            at = -half[on]
            continue
        at, left = at + left, step_m
        point = middle[on] + at * unit[on]
        arrives = float(np.hypot(*(point - goal))) < step_m
        place = turned(*((np.array(goal) if arrives else point) - here), pose[2])
        out[count] = place[0] / 50, place[1] / 50, *turned(*unit[on], pose[2])
        count += 1
        if arrives:
            break
    return np.clip(out, -20, 20)


def _segment_after(arrays: Any, lanes: Any, links: Any, s: int, goal: tuple[float, float]) -> int:
    lane = lanes[arrays["polyline"][s]]
    if s + 1 < lane["first_segment"] + lane["segment_count"]:
        return s + 1
    exits = [lanes[i] for i in links[lane["exits"] : lane["exits"] + lane["exit_count"]]]
    lasts = [int(exit["first_segment"] + exit["segment_count"]) - 1 for exit in exits]
    ends = [
        [float(arrays[c][i] + arrays["half"][i] * arrays["u" + c][i]) for c in "xy"] for i in lasts
    ]
    distances = [np.hypot(x - goal[0], y - goal[1]) for x, y in ends]
    return int(exits[int(np.argmin(distances))]["first_segment"]) if exits else -1


def controls(
    arrays: dict[str, np.ndarray], pose: tuple[float, float, float], k: int, range_m: float, t: int
) -> np.ndarray:
    """(k, 12): the nearest lights and signs, sorted; zeros where there are fewer."""
    items = arrays["controls"]
    dx, dy = items["x_m"] - F(pose[0]), items["y_m"] - F(pose[1])
    out = np.zeros((k, 12))
    for row, i in zip(out, nearest(dx * dx + dy * dy, k, range_m), strict=False):
        item = items[i]
        line = [(item["line_x0_m"], item["line_y0_m"]), (item["line_x1_m"], item["line_y1_m"])]
        if line[0] == line[1]:
            line = [(item["x_m"], item["y_m"])] * 2
        places = [
            turned(float(x) - pose[0], float(y) - pose[1], pose[2])
            for x, y in ((item["x_m"], item["y_m"]), *line)
        ]
        turn = float(item["heading"]) - pose[2]
        shown = (
            int(arrays["states"][int(item["states"]) + min(t, int(item["state_count"]) - 1)]) & 7
        )
        sign = item["kind"] != 1
        lamps = [not sign and shown == colour for colour in (1, 2, 3)]
        row[:] = (
            *np.array(places[0]) / 20,
            np.cos(turn),
            np.sin(turn),
            *np.array(places[1:]).ravel() / 20,
            sign,
            *lamps,
        )
    return out


# ---- lidar ---------------------------------------------------------------------------------------


def sincos(angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sines and cosines, float32, by the polynomials of csrc/envs/kernels.h: the last bits decide
    what a ray meets.
    """
    quarter = np.rint(angle * F(0.636619772367581))
    r = ((angle - quarter * F(1.5703125)) - quarter * F(4.837512969970703125e-4)) - quarter * F(
        7.549789948768648e-8
    )
    z = r * r
    s = ((F(-1.9515295891e-4) * z + F(8.3321608736e-3)) * z - F(1.6666654611e-1)) * z * r + r
    c = (
        ((F(2.443315711809948e-5) * z - F(1.388731625493765e-3)) * z + F(4.166664568298827e-2))
        * z
        * z
        - F(0.5) * z
        + F(1)
    )
    quadrant = quarter.astype(int)
    a, b = np.where(quadrant & 1, c, s), np.where(quadrant & 1, s, c)
    return np.where(quadrant & 2, -a, a), np.where((quadrant + 1) & 2, -b, b)


def lidar(
    arrays: dict[str, np.ndarray],
    bodies: Bodies,
    own: int,
    rays: int,
    fov_deg: float,
    range_m: float,
) -> np.ndarray:
    """(rays, 5): distance / 50 m and whether that is an edge, vehicle, pedestrian or cyclist; zeros
    where nothing is met.
    """
    fov = F(fov_deg) * F(np.float32(np.pi) / F(180))
    step = fov / F(rays - 1 if fov_deg < 360 else rays) if rays > 1 else F(0)
    first = F(-0.5) * fov if rays > 1 else F(0)
    heading = F(bodies.heading[own])
    sine, cosine = sincos(first + np.arange(rays, dtype=F) * step)
    s0, c0 = sincos(heading)
    x, y = cosine * c0 - sine * s0, sine * c0 + cosine * s0
    distance, kind = np.full(rays, F(range_m)), np.full(rays, -1)
    for dx, dy, ux, uy, half, column in _sides(arrays, bodies, own):
        with np.errstate(all="ignore"):
            inverse = F(1) / (x * uy - y * ux)
            t = (dx * uy - dy * ux) * inverse
            along = (dx * y - dy * x) * inverse
            hit = (t >= 0) & (t < distance) & (np.abs(along) <= half)
        distance, kind = np.where(hit, t, distance), np.where(hit, column, kind)
    out = np.zeros((rays, 5), F)
    out[:, 0] = np.where(kind >= 0, distance * F(1 / F(50)), 0)
    out[np.flatnonzero(kind >= 0), kind[kind >= 0]] = 1
    return out


def _sides(arrays: dict[str, np.ndarray], bodies: Bodies, own: int) -> Any:
    """(dx, dy, ux, uy, half length, column) of all that a ray can meet, float32, as seen from body
    `own`.
    """
    groups = arrays["groups"]
    edge = groups["type"].reshape(-1) == 2
    px, py = bodies.x[own], bodies.y[own]
    for segment in zip(
        *(groups[name].reshape(-1)[edge] for name in ("x", "y", "ux", "uy", "half")), strict=True
    ):
        yield segment[0] - px, segment[1] - py, *segment[2:], 1
    columns = {name: 2 + i for i, name in enumerate(("vehicle", "pedestrian", "cyclist"))}
    for j, o in enumerate(bodies.object):
        if j == own:
            continue
        s, c = sincos(F(bodies.heading[j]))
        dx, dy, length, width = (
            bodies.x[j] - px,
            bodies.y[j] - py,
            F(0.5) * F(bodies.length[j]),
            F(0.5) * F(bodies.width[j]),
        )
        column = columns[KINDS[int(arrays["objects"]["type"][o])]]
        yield dx + c * length, dy + s * length, -s, c, width, column
        yield dx - c * length, dy - s * length, -s, c, width, column
        yield dx - s * width, dy + c * width, c, s, length, column
        yield dx + s * width, dy - c * width, c, s, length, column


# ---- rows of fewer bytes -------------------------------------------------------------------------


def as_bytes(values: np.ndarray, listed: tuple[Column, ...], range_m: float) -> np.ndarray:
    """A float32 block as uint8; entries of a table that are all zeros stay so."""
    gains = np.array([F(c.scale) * F(126) / F(c.most or range_m) for c in listed], F)
    there = (values != 0).any(axis=-1, keepdims=True) | (values.ndim < 3)
    return (np.rint(np.clip(values * gains, F(-126), F(126))) + np.where(there, 128, 0)).astype(
        np.uint8
    )
