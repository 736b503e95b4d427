# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Logs with another frame time (drive_env/scenes/frames.py)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from drive_env.scenes.check import Checker
from drive_env.scenes.controls import controls_of
from drive_env.scenes.frames import resample, step_of
from drive_env.scenes.womd import parse_scenario
from puffervec.errors import SceneError
from tests.drive_env import womd_files as wire

CHECK = Checker("here")


def log(step_s: float, frames: int) -> bytes:
    """A car at 10 m/s that turns by 1 rad/s past pi and is away for a while, and a light."""
    states = [
        wire.ABSENT
        if 0.35 < frame * step_s < 0.55
        else wire.state(10.0 * frame * step_s, 0.0, 0.0, 3.0 + frame * step_s, 10.0, 0.0)
        for frame in range(frames)
    ]
    lights = [
        [wire.light(1, 4 if frame * step_s < 0.7 else 6, (9.0, 0.0, 0.0))]
        for frame in range(frames)
    ]
    rest = wire.integer(10, 2)
    tracks = [wire.track(1, 1, states)]
    return wire.scenario(tracks, (), lights, frames=frames, step_s=step_s, rest=rest)


@pytest.mark.parametrize("step_s, frames", [(0.2, 6), (0.05, 21), (0.04, 26)])
def test_a_log_is_the_same_motion_at_ten_frames_a_second(step_s: float, frames: int) -> None:
    scene = parse_scenario(log(step_s, frames), "here", "one")
    (car,) = scene.objects
    assert scene.frame_count == 11
    at = np.arange(11) * 0.1
    there = car.valid
    np.testing.assert_allclose(car.position_m[there, 0], 10 * at[there], atol=1e-6)
    turned = (car.heading_rad[there] - 3.0 - at[there] + math.pi) % (2 * math.pi) - math.pi
    np.testing.assert_allclose(turned, 0.0, atol=1e-6)
    assert (np.abs(car.heading_rad) <= math.pi).all() and (car.velocity_mps[there, 0] == 10).all()
    # Present where the frames before and after it are.
    if step_s == 0.2:
        assert np.flatnonzero(~there).tolist() == [3, 4, 5]
    else:
        assert np.flatnonzero(~there).tolist() == [4, 5]
    (light,) = controls_of(scene)
    assert len(light.states) == 11
    changed = int(np.flatnonzero(np.diff(light.states))[0]) + 1
    assert changed == (8 if step_s == 0.2 else 7) or changed == 8
    assert scene.metadata["current_time_index"] == round(2 * step_s / 0.1)


def test_frames_of_a_tenth_stay_as_they_are() -> None:
    scene = parse_scenario(log(0.1, 11), "here", "one")
    assert resample(scene, 0.1, CHECK) is scene
    jitter = np.arange(11) * 0.1 + np.tile([0.0, 0.004], 6)[:11]
    assert step_of(CHECK, jitter, "ts") == 0.1


@pytest.mark.parametrize(
    "times_s, message",
    [
        ([0.0, 0.1, 0.2, 0.9, 1.0, 1.1], r"ts\[3\]: expected a step of 0.1 s"),
        ([0.0, 0.1, 0.1, 0.2, 0.3], r"ts\[2\]"),
        ([0.0, math.nan, 0.2, 0.3, 0.4], "ts"),
        ([0.0, 0.001], "steps of 0.02 to 0.5 s"),
        ([0.3, 0.2, 0.1], "steps of 0.02 to 0.5 s"),
    ],
)
def test_times_that_jump_are_refused(times_s: list[float], message: str) -> None:
    with pytest.raises(SceneError, match=message):
        step_of(CHECK, np.array(times_s), "ts")


def steps(*steps_s: float) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(steps_s)])


@pytest.mark.parametrize(
    ("steps_s", "step_s"),
    [
        ([0.0205] * 3, 0.0205), ([0.495] * 3, 0.495), ([0.0195] * 3, None), ([0.505] * 3, None),
        ([0.1095] * 3, 0.1), ([0.0905] * 3, 0.1), ([0.111] * 3, 0.111), ([0.089] * 3, 0.089),
        ([0.2, 0.29, 0.2], 0.2), ([0.2, 0.11, 0.2], 0.2), ([0.2, 0.31, 0.2], None),
        ([0.2, 0.09, 0.2], None), ([], 0.1),
    ],
)  # fmt: skip
def test_steps_at_their_limits(steps_s: list[float], step_s: float | None) -> None:
    """From 0.02 to 0.5 s; within 0.01 s of a tenth they are one; a single one may be half as long
    again, or half as long.
    """
    if step_s is None:
        with pytest.raises(SceneError):
            step_of(CHECK, steps(*steps_s), "ts")
    else:
        assert step_of(CHECK, steps(*steps_s), "ts") == pytest.approx(step_s)
