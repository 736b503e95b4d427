# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Prepares a recorded scene for a picture: its roads, and the log of all objects.

Lights and signs are as they are at the start. Runs in the learner.
"""

from __future__ import annotations

import numpy as np

from drive_env.render.colours import AREAS
from drive_env.render.ground import signal_of
from drive_env.render.tracks import Roads, Tracks
from drive_env.scenes.controls import controls_of
from drive_env.scenes.schema import Scene


def middle_of(scene: Scene) -> np.ndarray:
    """Return the mean place (2,) of everything in a scene: the origin of its picture."""
    points = [road.points_m[:, :2] for road in scene.roads] + [
        item.position_m[item.valid, :2] for item in scene.objects
    ]
    return (
        np.concatenate([np.zeros((0, 2)), *points]).mean(axis=0)
        if any(map(len, points))
        else np.zeros(2)
    )


def roads_of(scene: Scene, origin: np.ndarray) -> Roads:
    """Return the roads of a scene, with lights as they are at the start."""
    roads = Roads([], [], [])
    for road in scene.roads:
        line = road.points_m[:, :2] - origin
        if len(line) < 2:
            continue
        if road.type == "lane":
            roads.lanes.append(line)
        elif road.type == "road_line":
            roads.lines.append((road.map_element_id, line))
        elif road.type == "road_edge":
            roads.edges.append((road.map_element_id, line))
        elif (area := road.type.replace("_", " ")) in AREAS and len(line) > 2:
            roads.areas.append((area, line))
    for control in controls_of(scene):
        roads.signals.append(
            (signal_of(control.kind, int(control.states[0])), control.position_m[:2] - origin)
        )
    return roads


def tracks_of(scene: Scene, origin: np.ndarray) -> Tracks:
    """Return the log of a scene as an episode in which all objects follow it."""
    count, frames = len(scene.objects), scene.frame_count
    valid = (
        np.array([item.valid for item in scene.objects], dtype=np.bool_).reshape(count, frames).T
    )
    place = np.array([item.position_m[:, :2] - origin for item in scene.objects]).reshape(
        count, frames, 2
    )
    x, y = place[..., 0].T, place[..., 1].T
    nothing = np.zeros((frames, count), dtype=np.bool_)
    return Tracks(
        x_m=x,
        y_m=y,
        heading_rad=np.array([item.heading_rad for item in scene.objects]).reshape(count, frames).T,
        there=valid,
        length_m=np.array([item.length_m for item in scene.objects]),
        width_m=np.array([item.width_m for item in scene.objects]),
        kind=np.array([item.type for item in scene.objects], dtype=np.int64),
        agent=np.array([item.controllable for item in scene.objects], dtype=np.bool_),
        log_x_m=np.where(valid, x, np.nan),
        log_y_m=np.where(valid, y, np.nan),
        goal_m=np.array([item.goal_m[:2] - origin for item in scene.objects]).reshape(count, 2),
        goal_radius_m=2.0,
        reached=np.zeros(count, dtype=np.bool_),
        collided=nothing,
        offroad=nothing,
        logged=True,
    )
