# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Parts of scenes that the readers of logged data sets share. Runs in the learner and in helpers.

These data sets have no mark for experts and no goals: no object counts as an expert, and the goal
of an object is its last valid position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.check import (
    COORDINATE_LIMIT_M,
    HEADING_LIMIT_RAD,
    SPEED_LIMIT_MPS,
    wrap_angle,
)
from drive_env.scenes.controls import STOP_SIGN, TRAFFIC_LIGHT
from drive_env.scenes.schema import OBJECT_TYPES, RED, Control, Floats, SceneObject

MPH_MPS, KMH_MPS = 0.44704, 1 / 3.6
# Limits of the columns of an object's rows: x, y, z, heading, velocity in x and y.
ROW_LIMITS = np.array([COORDINATE_LIMIT_M] * 3 + [HEADING_LIMIT_RAD] + [SPEED_LIMIT_MPS] * 2)


def logged_object(
    kind: str, own_id: int, size_m: Sequence[float], rows: Floats, valid: NDArray[np.bool_]
) -> SceneObject:
    """Return an object of a log.

    Args:
        kind: one of OBJECT_TYPES.
        size_m: width, length and height.
        rows: (T, 6) with the columns of ROW_LIMITS; 0 where not valid.
        valid: (T,).
    """
    used = np.flatnonzero(valid)
    width, length, height = size_m
    return SceneObject(
        type=OBJECT_TYPES.index(kind),
        id=own_id,
        width_m=width,
        length_m=length,
        height_m=height,
        expert=False,
        position_m=rows[:, :3].copy(),
        velocity_mps=rows[:, 4:].copy(),
        heading_rad=wrap_angle(rows[:, 3]),
        valid=valid.copy(),
        goal_m=rows[used[-1], :3].copy() if len(used) else np.zeros(3),
    )


def signs_of(
    position_m: Floats, lanes: Sequence[int], own_id: int, kind: int = STOP_SIGN
) -> list[Control]:
    """Return one control for each lane of a sign, or one without a lane."""
    red = np.array([RED], dtype=np.uint8)
    return [Control(kind, position_m, lane, red, own_id) for lane in lanes or (-1,)]


def motion_of(position_m: Floats, times_s: NDArray[np.floating[Any]]) -> Floats:
    """Return the velocities that follow from places, (n, 2); 0 for a single place."""
    if len(position_m) < 2:
        return np.zeros((len(position_m), 2))
    return np.asarray(np.gradient(position_m[:, :2], times_s, axis=0))


def lights_of(
    places: Mapping[int, Floats], states: Mapping[int, NDArray[np.uint8]]
) -> list[Control]:
    """Return a traffic light for each lane. Args: places, states: by lane."""
    return [
        Control(TRAFFIC_LIGHT, places[lane], lane, own, number)
        for number, (lane, own) in enumerate(states.items())
    ]
