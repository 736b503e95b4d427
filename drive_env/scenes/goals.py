# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Find goals that nothing in a scene leads to, and replace them when the scene is compiled.

In some published files of WOMD, all positions were made relative to the centre of the scene except
for some goals, which lie kilometres away from everything. Runs in the learner.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.geometry import beyond
from drive_env.scenes.schema import Floats, Scene


def remarks_on_goals(scene: Scene) -> list[str]:
    """Return a line for each goal far from every road and log, which is replaced."""
    far, places = _far_goals(scene)
    away = [np.hypot(*(places - scene.objects[index].goal_m[:2]).T).min() for index in far]
    return [
        f"objects[{index}]: its goal lies {distance:.0f} m from all roads and logs, so its last "
        "logged position is its goal"
        for index, distance in zip(far, away, strict=True)
    ]


def with_near_goals(scene: Scene) -> Scene:
    """Return the scene with the last logged position in place of each goal far from everything.

    Such a goal is a mistake in the file, or in the unit of its numbers.
    """
    far, _ = _far_goals(scene)
    if not far:
        return scene
    objects = list(scene.objects)
    for index in far:
        item = objects[index]
        last_m = item.position_m[np.flatnonzero(item.valid)[-1]].copy()
        objects[index] = dataclasses.replace(item, goal_m=last_m)
    return dataclasses.replace(scene, objects=tuple(objects))


def _far_goals(scene: Scene) -> tuple[list[int], Floats]:
    """Return the objects whose goals are far away, and the points of all roads and logs (n, 2)."""
    logs = [item.position_m[item.valid, :2] for item in scene.objects]
    roads = [road.points_m[:, :2] for road in scene.roads]
    places = np.concatenate([np.zeros((0, 2)), *logs, *roads])
    used: NDArray[np.int64] = np.flatnonzero([item.valid.any() for item in scene.objects])
    goals = np.array([scene.objects[index].goal_m[:2] for index in used]).reshape(-1, 2)
    return used[beyond(goals, places)].tolist(), places
