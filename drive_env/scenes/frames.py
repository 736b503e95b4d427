# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Brings logs with another frame time to frames of 0.1 s.

The rule: frame k of the result is the time k x 0.1 s after the first frame of the log. Positions
and velocities are interpolated linearly between the frames of the log before and after it, headings
along the shorter arc; an object is present if it is present in both. A light keeps the state of the
frame before. Nothing is extrapolated: the result ends with the last multiple of 0.1 s in the log.

Runs in the learner and in helper processes.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from drive_env.scenes.check import MAX_FRAMES, Checker, wrap_angle
from drive_env.scenes.schema import FRAME_S, Control, Floats, Scene, SceneObject

LEAST_STEP_S, MOST_STEP_S = 0.02, 0.5
# A median step this close to FRAME_S counts as FRAME_S, because logs of 10 Hz are not exact; single
# steps may differ from the median by the share JITTER of it.
STEP_TOLERANCE_S, JITTER = 0.01, 0.5
EXACT = 1e-6  # of a frame: a time this close to a frame of the log is that frame


def step_of(check: Checker, times_s: Floats, key: str) -> float:
    """Return the time between the frames of a log; FRAME_S if the time is close to that.

    Args:
        times_s: times of the frames, (T,).
        key: names the times in errors.

    Raises:
        SceneError: the times are not finite, do not increase, jump, or have another step than
            LEAST_STEP_S to MOST_STEP_S.
    """
    if len(times_s) < 2:
        return FRAME_S
    steps_s = np.diff(times_s)
    step_s = float(np.median(steps_s))
    if not LEAST_STEP_S <= step_s <= MOST_STEP_S:
        check.fail(key, f"steps of {LEAST_STEP_S:g} to {MOST_STEP_S:g} s", step_s)
    odd = np.flatnonzero(~(np.abs(steps_s - step_s) <= JITTER * step_s))
    if len(odd):
        index = int(odd[0])
        check.fail(f"{key}[{index + 1}]", f"a step of {step_s:g} s", float(steps_s[index]))
    return FRAME_S if abs(step_s - FRAME_S) <= STEP_TOLERANCE_S else step_s


def resample(scene: Scene, step_s: float, check: Checker) -> Scene:
    """Return the scene with frames of FRAME_S; the scene itself if it has them already.

    Args:
        step_s: time between the frames of the scene.

    Raises:
        SceneError: the result would have more than MAX_FRAMES frames.
    """
    if step_s == FRAME_S or scene.frame_count == 1:
        return scene
    frames = int(np.floor((scene.frame_count - 1) * step_s / FRAME_S + EXACT)) + 1
    if frames > MAX_FRAMES:
        check.fail("frames", f"at most {MAX_FRAMES} frames of {FRAME_S:g} s", frames)
    at = np.arange(frames) * FRAME_S / step_s
    before = np.floor(at + EXACT).astype(np.int64)
    share = at - before
    share[np.abs(share) < EXACT] = 0.0
    after = np.where(share == 0.0, before, before + 1)
    metadata = scene.metadata
    if type(now := metadata.get("current_time_index")) is int:
        metadata = metadata | {"current_time_index": round(now * step_s / FRAME_S)}
    controls = scene.controls and tuple(_control(item, before) for item in scene.controls)
    return dataclasses.replace(
        scene,
        frame_count=frames,
        objects=tuple(_object(item, before, after, share) for item in scene.objects),
        controls=controls,
        metadata=metadata,
    )


def _object(item: SceneObject, before: Floats, after: Floats, share: Floats) -> SceneObject:
    valid = item.valid[before] & item.valid[after]
    weight = np.where(valid, share, 0.0)[:, None]

    def between(values: Floats) -> Floats:
        mixed = (1 - weight) * values[before] + weight * values[after]
        return np.where(valid[:, None], mixed, 0.0)

    turn = wrap_angle(item.heading_rad[after] - item.heading_rad[before])
    heading = wrap_angle(item.heading_rad[before] + weight[:, 0] * turn)
    return dataclasses.replace(
        item,
        position_m=between(item.position_m),
        velocity_mps=between(item.velocity_mps),
        heading_rad=np.where(valid, heading, 0.0),
        valid=valid,
    )


def _control(item: Control, before: Floats) -> Control:
    if len(item.states) == 1:
        return item
    return dataclasses.replace(item, states=item.states[before])
