# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Cuts long scenes into windows, each of which is a scene.

The rule: window k has N frames, from frame k x N on; the last window is shorter where the log ends.
The goal of an object is its last position in the window; in the last window in which it is present,
its goal is the one in the whole scene. Roads, signs and the order of the objects are those of the
scene. A window has at least two frames: a single frame at the end of the log is left out.

Runs in the learner and in helper processes.
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np

from drive_env.scenes.controls import controls_of
from drive_env.scenes.schema import FRAME_S, Control, Scene, SceneObject

# Mark in the names of windows; without it the name is that of the scene.
MARK = re.compile(r"\.window-\d+")


def frames_in(window_s: float) -> int:
    """Return the number of frames of a window; 0 s gives 0 frames, and nothing is cut."""
    return round(window_s / FRAME_S)


def mark(name: str, index: int) -> str:
    """Return the name of a window, or of its file without suffix.

    >>> mark("scene-7", 2), MARK.sub("", "scene-7.window-2.json")
    ('scene-7.window-2', 'scene-7.json')
    """
    return f"{name}.window-{index}"


def windows_of(scene: Scene, frames: int) -> list[Scene]:
    """Return the windows of a scene.

    Args:
        frames: number of frames of a window; 0: the scene is not cut.

    Returns:
        The windows, or the scene itself if it is not longer than one. The first window gets
        `left_out` of the scene.
    """
    if not frames or scene.frame_count <= frames:
        return [scene]
    starts = [
        first for first in range(0, scene.frame_count, frames) if first + 1 < scene.frame_count
    ]
    scene = dataclasses.replace(scene, controls=controls_of(scene), traffic_lights={})
    windows = [
        _window(scene, index, first, min(first + frames, scene.frame_count))
        for index, first in enumerate(starts)
    ]
    left_out = dict(scene.left_out)
    if scene.frame_count % frames == 1:
        left_out["frames after the last window"] = 1
    windows[0] = dataclasses.replace(windows[0], left_out=left_out)
    return windows


def _window(scene: Scene, index: int, first: int, end: int) -> Scene:
    metadata = {**scene.metadata, "window": index, "first_frame": first}
    now = metadata.pop("current_time_index", None)
    if type(now) is int and first <= now < end:
        metadata["current_time_index"] = now - first
    return dataclasses.replace(
        scene,
        name=mark(scene.name, index),
        frame_count=end - first,
        objects=tuple(_object(item, first, end) for item in scene.objects),
        controls=tuple(_control(item, first, end) for item in scene.controls or ()),
        metadata=metadata,
        left_out={},
    )


def _object(item: SceneObject, first: int, end: int) -> SceneObject:
    span = slice(first, end)
    valid, goal_m = item.valid[span].copy(), item.goal_m
    if valid.any() and item.valid[end:].any():
        goal_m = item.position_m[first + int(np.flatnonzero(valid)[-1])].copy()
    return dataclasses.replace(
        item,
        position_m=item.position_m[span].copy(),
        velocity_mps=item.velocity_mps[span].copy(),
        heading_rad=item.heading_rad[span].copy(),
        valid=valid,
        goal_m=goal_m,
    )


def _control(item: Control, first: int, end: int) -> Control:
    if len(item.states) == 1:
        return item
    return dataclasses.replace(item, states=item.states[first:end].copy())
