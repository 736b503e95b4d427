# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The models of motion (csrc/drive/motion/models.c, walkers.c): equal to their formulas, with the
limits, and to closed forms.
"""

from __future__ import annotations

import dataclasses
from math import atan, cos, hypot, pi, sin, sqrt, tan
from typing import Any

import numpy as np
import pytest

from drive_env.actions import axes_of
from drive_env.config import CHOICES, LIMITS, UNLIMITED, DriveConfig
from drive_env.motion import Body, move
from tests.twins import drive_models as twin

STEPS = 90
TIGHT = {
    "max_acceleration_mps2": 2.0,
    "max_lateral_mps2": 3.0,
    "max_jerk_mps3": 8.0,
    "max_steering_rate_radps": 0.5,
}
LOOSE = {name: 0.0 for name in TIGHT}
STEERED = [name for name in CHOICES["dynamics"] if name not in UNLIMITED]


def config_of(dynamics: str, **settings: Any) -> DriveConfig:
    return DriveConfig(**{"dynamics": dynamics, "actions": "continuous", **settings})


def drawn(dynamics: str, seed: int, steps: int = STEPS) -> list[tuple[float, ...]]:
    """Random actions that change every third step, as float32 holds them."""
    rng = np.random.default_rng(seed)
    axes = axes_of(dynamics)
    low, high = (np.array([getattr(axis, side) for axis in axes]) for side in ("low", "high"))
    share = (
        0.02
        if dynamics == "state"
        else 0.1
        if dynamics in ("delta_local", "invertible_bicycle")
        else 1.0
    )
    values = np.repeat(rng.uniform(low, high, (steps // 3, len(axes))) * share, 3, axis=0).astype(
        np.float32
    )
    return [tuple(float(v) for v in row) for row in values]


def differs(found: Body, expected: Body) -> float:
    """Return the largest difference of two bodies; of positions per metre from the origin."""
    scale = 1 + hypot(expected.x, expected.y)
    parts = [
        (found.x - expected.x) / scale, (found.y - expected.y) / scale,
        twin.wrapped(found.heading - expected.heading),
        (found.speed - expected.speed) / (1 + abs(expected.speed)),
    ]  # fmt: skip
    return max(abs(part) for part in parts)


@pytest.mark.parametrize("limits", [LOOSE, TIGHT], ids=["no limits", "all limits"])
@pytest.mark.parametrize("dynamics", CHOICES["dynamics"])
def test_models_equal_their_formulas_over_9_s(dynamics: str, limits: dict[str, float]) -> None:
    config = config_of(dynamics, **(LOOSE if dynamics in UNLIMITED else limits))
    for seed in range(5):
        found = expected = Body(speed=float(seed), heading=1.3 * seed - 3, length=3.5 + seed)
        for action in drawn(dynamics, seed):
            # jerk step by step: an acceleration of 1e-8 stops at 0 where one of 0 changes its sign
            before = found if dynamics == "jerk" else expected
            found, expected = move(config, found, action), twin.step(config, before, action)
            assert differs(found, expected) < 1e-5


@pytest.mark.parametrize("kind", ["pedestrian", "cyclist"])
@pytest.mark.parametrize("dynamics", CHOICES["dynamics"])
def test_pedestrians_and_cyclists_equal_their_formulas(dynamics: str, kind: str) -> None:
    config = config_of(dynamics)
    found = expected = Body(speed=1.0, heading=0.5, length=1.8)
    for action in drawn(dynamics, 3):
        found, expected = (
            move(config, found, action, kind),
            twin.step(config, expected, action, kind),
        )
        assert differs(found, expected) < 1e-5
        limit = 3.0 if kind == "pedestrian" else 12.0
        assert dynamics in UNLIMITED or 0 <= found.speed <= limit


@pytest.mark.parametrize(
    "dynamics", ["bicycle", "classic_gpudrive", "classic_pufferdrive", "invertible_bicycle"]
)
def test_a_constant_steering_drives_a_circle(dynamics: str) -> None:
    """Yaw rate per speed is the curvature; positions lie on the circle that the chords of the steps
    make.
    """
    steering, length = 0.3, 4.5
    wheelbase = {"classic_gpudrive": length, "classic_pufferdrive": 0.7 * length}.get(
        dynamics, 0.6 * length
    )
    slip = (
        np.tanh(0.5 * tan(steering))
        if dynamics == "classic_pufferdrive"
        else atan(0.5 * tan(steering))
    )
    curvature = 0.05 if dynamics == "invertible_bicycle" else cos(slip) * tan(steering) / wheelbase
    config, body, points = config_of(dynamics), Body(speed=5.0, length=length), []
    for _ in range(STEPS):
        body = move(config, body, (0.0, 0.05 if dynamics == "invertible_bicycle" else steering))
        points.append((body.x, body.y))
    assert twin.wrapped(body.heading - STEPS * 0.5 * curvature) == pytest.approx(0, abs=1e-4)
    x, y = np.array(points).T
    ones = np.linalg.lstsq(np.c_[x, y, np.ones(STEPS)], x * x + y * y, rcond=None)[0]
    radius = sqrt(ones[2] + (ones[0] ** 2 + ones[1] ** 2) / 4)
    assert radius == pytest.approx(0.5 / (2 * sin(0.5 * curvature / 2)), rel=1e-4)


@pytest.mark.parametrize(
    ("dynamics", "way"), [("bicycle", 0.5), ("invertible_bicycle", 0.0), ("classic_gpudrive", 0.0)]
)
def test_braking_distance(dynamics: str, way: float) -> None:
    """v^2 / 2a; a model that moves with the speed after the step falls short of it by v dt / 2."""
    body = Body(speed=8.0)
    for _ in range(20):
        body = move(config_of(dynamics, max_reverse_mps=0.0), body, (-4.0, 0.0))
    assert body.speed == pytest.approx(0, abs=1e-5)
    assert body.x == pytest.approx(8.0**2 / (2 * 4.0) - way * 8.0 * 0.1, abs=1e-4)


def test_a_constant_jerk_gives_the_parabola_of_its_integrals() -> None:
    """a = j t, v = v0 + j t^2 / 2 and, as the step is exact in v, x within the error of the
    trapezoid.
    """
    body, config = Body(speed=3.0), config_of("jerk")
    for n in range(1, 7):
        body = move(config, body, (4.0, 0.0))
        t = 0.1 * n
        assert body.acceleration == pytest.approx(4.0 * t, rel=1e-5)
        assert body.speed == pytest.approx(3.0 + 2.0 * t * t, rel=1e-5)
        assert body.x == pytest.approx(3.0 * t + 4.0 * t**3 / 6, abs=0.5 * 4.0 * t * 0.1**2)


def test_a_constant_lateral_acceleration_is_an_exact_arc() -> None:
    config, body = config_of("jerk"), Body(speed=10.0, lateral=2.0, steering=atan(0.02 * 0.6 * 4.5))
    for n in range(1, 60):
        body = move(config, body, (0.0, 0.0))
        assert (body.x, body.y) == pytest.approx(
            (sin(0.02 * n) / 0.02, (1 - cos(0.02 * n)) / 0.02), abs=1e-3
        )


def test_jerk_at_the_limit_of_its_wheels_turns_as_pufferdrive_does() -> None:
    """A car of 5 m has a wheelbase of 0.6 * 0.7 * 5 = 2.1 m: wheels at 0.55 rad and 2 m/s turn it
    by 0.0584 rad in 0.1 s.
    """
    body = Body(speed=2.0, steering=0.55, lateral=4.0, length=5.0)
    found = move(config_of("jerk"), body, (0.0, 4.0))
    assert found.steering == pytest.approx(0.55) and found.heading == pytest.approx(
        0.2 * tan(0.55) / 2.1, rel=1e-5
    )


def test_the_quirks_of_the_classic_models_are_theirs_alone() -> None:
    """Reversing, they forget the sign of the speed: the next step goes forward. The bicycle keeps
    on.
    """
    for dynamics, sign in (
        ("bicycle", -1),
        ("invertible_bicycle", -1),
        ("classic_gpudrive", 1),
        ("classic_pufferdrive", 1),
    ):
        body = move(config_of(dynamics), Body(speed=-2.0), (0.0, 0.0))
        assert np.sign(body.x) == sign, dynamics


@pytest.mark.parametrize("dynamics", STEERED)
def test_limits_hold(dynamics: str) -> None:
    config = config_of(dynamics, **TIGHT)
    for seed in range(3):
        before = Body(speed=9.0)
        for action in drawn(dynamics, seed):
            body = move(config, before, action)
            assert abs(body.acceleration) <= 2.0 + 1e-4 and abs(body.lateral) <= 3.0 + 1e-4
            assert abs(body.acceleration - before.acceleration) <= 0.8 + 1e-3 or body.speed in (
                0.0,
                -5.0,
                30.0,
            )
            assert abs(body.steering - before.steering) <= 0.05 + 1e-5
            before = body


@pytest.mark.parametrize("name", LIMITS)
def test_each_limit_alone_changes_the_way(name: str) -> None:
    free, limited = Body(speed=9.0), Body(speed=9.0)
    for _ in range(10):
        free = move(config_of("bicycle"), free, (4.0, 0.8))
        limited = move(config_of("bicycle", **{name: TIGHT[name]}), limited, (4.0, 0.8))
    assert hypot(free.x - limited.x, free.y - limited.y) > 0.1


@pytest.mark.parametrize("dynamics", CHOICES["dynamics"])
def test_wild_actions_leave_finite_numbers(dynamics: str) -> None:
    config = config_of(dynamics)
    for value in (1e4, -1e4, pi / 2, -pi / 2, 1e-30):
        body = Body(speed=7.0)
        for _ in range(5):
            body = move(config, body, (value,) * len(axes_of(dynamics)))
        assert (
            np.isfinite(dataclasses.astuple(body)).all() and -pi - 1e-6 <= body.heading <= pi + 1e-6
        )


def test_grip_below_that_of_the_jerk_model_stops_the_lateral_acceleration() -> None:
    """Ten steps of 4 m/s^3 to the left: it stays at 1 m/s^2, and the wheels are where that turns
    the car, not further.
    """
    config, body = config_of("jerk", max_lateral_mps2=1.0), Body(speed=10.0, length=5.0)
    for _ in range(10):
        body = move(config, body, (0.0, 4.0))
    assert body.lateral == pytest.approx(1.0, rel=1e-5) and body.steering == pytest.approx(
        atan(1.0 / 10.0**2 * 2.1), rel=1e-5
    )
    for _ in range(20):
        loose = move(config_of("jerk"), body, (0.0, 4.0))
        body = dataclasses.replace(loose, speed=10.0)
    assert body.lateral == pytest.approx(4.0, rel=1e-5) and body.steering == pytest.approx(
        atan(4.0 / 10.0**2 * 2.1), rel=1e-5
    )
