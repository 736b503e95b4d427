# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Red lights that objects run, by the rule of the Waymo Open Sim Agents Challenge of 2025.

An object runs a light from one frame to the next if its centre passes the light's stop point, along
the direction of the light's lane there; if the light is steadily red in the second frame, as a disc
or an arrow; and if, in the second frame, the lane nearest to the centre is the light's. Only lanes
of surface streets count. How far the centre is from the lane does not matter. NumPy only, float64;
runs in the learner.

Axis letters: N objects, T times, L lights, S segments of lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes import packed
from drive_env.scenes.controls import TRAFFIC_LIGHT
from drive_env.scenes.schema import RED, Floats

Bools = NDArray[np.bool_]

# The kind of a lane in the data set, and that of lanes whose file has no kinds.
STREETS = (2, packed.KIND_NONE)
CHUNK = 1024  # points whose nearest lane is searched together


@dataclass(frozen=True)
class Lights:
    """Traffic lights of a scene, and its lanes of surface streets.

    Attributes:
        start, step: (S, 2) segments, from `start` to `start + step`, in the order of their lanes.
        segment_lane: (S,) the lane of each.
        lane: (L,) the lane of each light.
        stop, ahead: (L, 2) stop point, and the direction of its lane there.
        red: (L, T) whether a light is steadily red.
    """

    start: Floats
    step: Floats
    segment_lane: NDArray[np.int64]
    lane: NDArray[np.int64]
    stop: Floats
    ahead: Floats
    red: Bools


def lights_of(head: Any, arrays: dict[str, NDArray[Any]], times: int) -> Lights | None:
    """Return the lights of a compiled scene in its first frames; None if it has none.

    Lights whose lane is unknown, or not one of a surface street, are left out.
    """
    count, kinds = int(head["segment_count"][0]), arrays["lanes"]["kind"]
    lane = arrays["polyline"][:count].astype(np.int64)
    used = np.isin(kinds[lane], STREETS)
    x, y, ux, uy, half = (
        arrays[name][:count][used].astype(np.float64) for name in ("x", "y", "ux", "uy", "half")
    )
    middle, along = np.stack([x, y], -1), np.stack([ux * half, uy * half], -1)
    controls = arrays["controls"]
    controls = controls[(controls["kind"] == TRAFFIC_LIGHT) & np.isin(controls["lane"], lane[used])]
    if not len(controls):
        return None
    start, step, lane = middle - along, 2 * along, lane[used]
    stop = np.stack([controls["x_m"], controls["y_m"]], -1).astype(np.float64)
    ahead = np.empty_like(stop)
    for number, item in enumerate(controls):
        own = np.flatnonzero(lane == item["lane"])
        near = own[_distances(stop[number : number + 1], start[own], step[own])[0].argmin()]
        ahead[number] = step[near]
    last = controls["state_count"][:, None].astype(np.int64) - 1
    states = arrays["states"][controls["states"][:, None] + np.minimum(np.arange(times), last)]
    red = (states & packed.STATE_COLOUR == RED) & (states & packed.STATE_FLASHING == 0)
    return Lights(start, step, lane, controls["lane"].astype(np.int64), stop, ahead, red)


def violations(x: Floats, y: Floats, lights: Lights | None) -> Bools:
    """Return in which frames objects have just run a red light, (N, T); False in the first one.

    Args:
        x, y: (N, T) centres; an object passes no light into or out of frames where it is NaN.
        lights: lights of T frames; None for a scene without lights.
    """
    runs = np.zeros(x.shape, np.bool_)
    if lights is None:
        return runs
    place = np.stack([x, y], -1)
    passed = ((place[:, :, None] - lights.stop) * lights.ahead).sum(axis=-1)  # (N, T, L)
    crossed = (passed[:, :-1] < 0) & (passed[:, 1:] > 0) & lights.red.T[1:]
    item, before, light = np.nonzero(crossed)
    time = before + 1
    on = nearest_lane(place[item, time], lights) == lights.lane[light]
    runs[item[on], time[on]] = True
    return runs


def nearest_lane(points: Floats, lights: Lights) -> NDArray[np.int64]:
    """Return the lane nearest to each of (P, 2) points, (P,); of equally near ones the first."""
    nearest = np.empty(len(points), np.int64)
    for part in range(0, len(points), CHUNK):
        distances = _distances(points[part : part + CHUNK], lights.start, lights.step)
        nearest[part : part + CHUNK] = lights.segment_lane[distances.argmin(axis=1)]
    return nearest


def _distances(points: Floats, start: Floats, step: Floats) -> Floats:
    """Return the distance from each point (P, 2) to each segment (S, 2), (P, S)."""
    rel = points[:, None] - start
    square = np.maximum((step**2).sum(axis=-1), 1e-12)
    share = np.clip((rel * step).sum(axis=-1) / square, 0.0, 1.0)
    gap = rel - share[..., None] * step
    return np.asarray(np.hypot(gap[..., 0], gap[..., 1]))
