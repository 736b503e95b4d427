# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Contents of a picture of a scene: its roads, the objects' places, and the visible part.

Runs in the learner.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.geometry import beyond
from drive_env.scenes.schema import Floats

FRAME_ASPECT = 1.7  # aspect ratio of the road in pictures that must all have one size
MARGIN_M = 14.0  # around the agents' paths and goals


@dataclass(frozen=True)
class Roads:
    """The drawn parts of the road, in local metres.

    Attributes:
        lanes: polylines.
        lines, edges: polylines with their map_element_id (255: none).
        areas: outlines by their names in AREAS.
        signals: places of lights and signs, by their names in LIGHTS and SIGNS.
    """

    lanes: list[Floats]
    lines: list[tuple[int, Floats]]
    edges: list[tuple[int, Floats]]
    areas: list[tuple[str, Floats]] = field(default_factory=list)
    signals: list[tuple[str, Floats]] = field(default_factory=list)


@dataclass(frozen=True)
class Tracks:
    """A driven episode of one scene, or its log: K objects in F frames."""

    x_m: Floats  # (F, K)
    y_m: Floats  # (F, K)
    heading_rad: Floats  # (F, K)
    there: NDArray[np.bool_]  # (F, K) the object is in the scene
    length_m: Floats  # (K,)
    width_m: Floats  # (K,)
    kind: NDArray[np.int64]  # (K,) index into OBJECT_TYPES
    agent: NDArray[np.bool_]  # (K,) driven by the policy; the others follow their log
    log_x_m: Floats  # (T, K) logged place, over the whole log; NaN where the object is absent
    log_y_m: Floats  # (T, K)
    goal_m: Floats  # (K, 2)
    goal_radius_m: float
    reached: NDArray[np.bool_]  # (K,) the agent reached its goal
    collided: NDArray[np.bool_]  # (F, K) a contact with another object began
    offroad: NDArray[np.bool_]  # (F, K) a contact with a road edge began
    logged: bool = False  # True: this is the log, not a driven episode


@dataclass(frozen=True)
class View:
    """The part of a scene that a picture shows, from corner to corner.

    The scene is turned by -angle_rad about the origin.
    """

    angle_rad: float
    low_m: Floats  # (2,)
    high_m: Floats  # (2,)


def interesting_points(tracks: Tracks) -> Floats:
    """Return the agents' places and goals, (n, 2); those of all objects if there are no agents."""
    shown = tracks.there & (tracks.agent if tracks.agent.any() else np.ones_like(tracks.agent))
    points = np.stack([tracks.x_m[shown], tracks.y_m[shown]], axis=-1)
    return np.concatenate([points, goals_of(tracks)]) if len(points) else np.zeros((1, 2))


def goals_of(tracks: Tracks) -> Floats:
    """Return the goals of the agents, (n, 2).

    Goals far beyond the log are left out, because they would leave a picture empty.
    """
    logged = np.isfinite(tracks.log_x_m)
    goals = tracks.goal_m[tracks.agent]
    return goals[
        ~beyond(goals, np.stack([tracks.log_x_m[logged], tracks.log_y_m[logged]], axis=-1))
    ]


def view_of(tracks: Tracks) -> View:
    """Return the view of the agents' paths and goals, with its longest axis horizontal."""
    angle = long_axis_rad(interesting_points(tracks))
    return View(angle, *picture_bounds(rotate(Roads([], [], []), tracks, -angle)[1]))


def fixed_view(tracks: Tracks) -> View:
    """Return the view of the agents' logs and goals, in the shape that all frames have.

    It is known before anything is driven.
    """
    shown = np.isfinite(tracks.log_x_m) & (
        tracks.agent if tracks.agent.any() else np.ones_like(tracks.agent)
    )
    points = np.concatenate(
        [np.stack([tracks.log_x_m[shown], tracks.log_y_m[shown]], axis=-1), goals_of(tracks)]
    )
    points = points if len(points) else np.zeros((1, 2))
    angle = long_axis_rad(points)
    points = points @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    low, high = points.min(axis=0) - MARGIN_M, points.max(axis=0) + MARGIN_M
    width, height = high - low
    grow = (
        np.maximum(0.0, np.array([height * FRAME_ASPECT, width / FRAME_ASPECT]) - (high - low)) / 2
    )
    return View(angle, low - grow, high + grow)


def long_axis_rad(points: Floats) -> float:
    """Return the direction in which points (n, 2) spread most, in (-pi/2, pi/2]."""
    x, y = (points - points.mean(axis=0)).T
    return float(np.arctan2(2 * np.mean(x * y), np.mean(x * x) - np.mean(y * y)) / 2)


def rotate(roads: Roads, tracks: Tracks, angle_rad: float) -> tuple[Roads, Tracks]:
    """Return copies of roads and tracks, turned about the origin."""
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
    lines, edges = (
        [(kind, points @ turning) for kind, points in group] for group in (roads.lines, roads.edges)
    )
    areas, signals = (
        [(name, points @ turning) for name, points in group]
        for group in (roads.areas, roads.signals)
    )
    return Roads([points @ turning for points in roads.lanes], lines, edges, areas, signals), moved


def picture_bounds(tracks: Tracks) -> tuple[Floats, Floats]:
    """Return the corners of the picture: the agents' paths and goals with a margin.

    The aspect ratio is from 3:1 to 1:1.
    """
    points = interesting_points(tracks)
    low, high = points.min(axis=0) - MARGIN_M, points.max(axis=0) + MARGIN_M
    width, height = high - low
    least = np.array([height, width / 3])
    grow = np.maximum(0.0, least - (high - low)) / 2
    return low - grow, high + grow
