# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The models of motion in plain Python and float64, from their formulas (docs/drive.md). Runs in
the tests only.
"""

from __future__ import annotations

import dataclasses
from math import atan, atan2, copysign, cos, hypot, inf, pi, sin, sqrt, tan, tanh

from drive_env.config import DriveConfig
from drive_env.motion import Body

Action = tuple[float, ...]


def wrapped(angle: float) -> float:
    """The angle in [-pi, pi)."""
    return (angle + pi) % (2 * pi) - pi


def clip(value: float, low: float, high: float) -> float:
    """The nearest value within the bounds."""
    return min(max(value, low), high)


def off(limit: float) -> float:
    """A limit; 0 is none."""
    return limit or inf


def step(
    config: DriveConfig, body: Body, action: Action, kind: str = "vehicle", dt: float = 0.1
) -> Body:
    """The body after one step."""
    poses = config.dynamics in ("delta_local", "state")
    if kind in ("pedestrian", "cyclist") and not poses:
        moved = walked(config, body, action, kind, dt)
    else:
        moved = MODELS[config.dynamics](config, body, action, dt)
    return dataclasses.replace(moved, heading=wrapped(moved.heading))


def accelerated(config: DriveConfig, body: Body, wanted: float, dt: float) -> float:
    """The acceleration within the limits."""
    change = off(config.max_jerk_mps3) * dt
    wanted = clip(wanted, -off(config.max_acceleration_mps2), off(config.max_acceleration_mps2))
    return clip(wanted, body.acceleration - change, body.acceleration + change)


def steered(config: DriveConfig, body: Body, wanted: float, dt: float) -> float:
    """The steering angle within the limit on its rate."""
    change = off(config.max_steering_rate_radps) * dt
    return clip(wanted, body.steering - change, body.steering + change)


def held(config: DriveConfig, speed: float, curvature: float) -> float:
    """The curvature that the tyres hold."""
    most = off(config.max_lateral_mps2) / max(speed * speed, 1e-6)
    return clip(curvature, -most, most)


def turned(body: Body, speed: float, way: float, slip: float, curvature: float) -> dict[str, float]:
    """Where a step of length `way` leads whose direction is heading + slip."""
    return {
        "x": body.x + way * cos(body.heading + slip),
        "y": body.y + way * sin(body.heading + slip),
        "heading": body.heading + way * curvature,
        "lateral": speed * speed * curvature,
    }


def bicycle(config: DriveConfig, body: Body, action: Action, dt: float) -> Body:
    """Kinematic bicycle about the centre."""
    a, steering = accelerated(config, body, action[0], dt), steered(config, body, action[1], dt)
    v = clip(body.speed + a * dt, -config.max_reverse_mps, config.max_speed_mps)
    wheelbase, slip = config.wheelbase_factor * body.length, atan(0.5 * tan(steering))
    curvature = cos(slip) * tan(steering) / wheelbase
    if (kept := held(config, v, curvature)) != curvature:
        slip, curvature = atan2(kept * wheelbase / 2, sqrt(1 - (kept * wheelbase / 2) ** 2)), kept
    moved = turned(body, v, v * dt, slip, curvature)
    return Body(
        **moved, speed=v, acceleration=(v - body.speed) / dt, steering=steering, length=body.length
    )


def classic_gpudrive(config: DriveConfig, body: Body, action: Action, dt: float) -> Body:
    """GPUDrive's forwardKinematics."""
    a, steering = accelerated(config, body, action[0], dt), steered(config, body, action[1], dt)
    speed = abs(body.speed)
    v, slip = speed + 0.5 * a * dt, atan(0.5 * tan(steering))
    curvature = cos(slip) * tan(steering) / body.length
    if (kept := held(config, v, curvature)) != curvature:
        slip, curvature = (
            atan2(kept * body.length / 2, sqrt(1 - (kept * body.length / 2) ** 2)),
            kept,
        )
    moved = turned(body, v, v * dt, slip, curvature)
    return Body(
        **moved, speed=speed + a * dt, acceleration=a, steering=steering, length=body.length
    )


def classic_pufferdrive(config: DriveConfig, body: Body, action: Action, dt: float) -> Body:
    """PufferDrive's CLASSIC of November 2025."""
    a, steering = accelerated(config, body, action[0], dt), steered(config, body, action[1], dt)
    speed = abs(body.speed)
    v, slip, wheelbase = (
        clip(speed + a * dt, -100, 100),
        tanh(0.5 * tan(steering)),
        0.7 * body.length,
    )
    moved = turned(body, v, v * dt, slip, held(config, v, cos(slip) * tan(steering) / wheelbase))
    return Body(
        **moved, speed=v, acceleration=(v - speed) / dt, steering=steering, length=body.length
    )


def invertible_bicycle(config: DriveConfig, body: Body, action: Action, dt: float) -> Body:
    """Waymax's InvertibleBicycleModel, with a signed speed and its limits."""
    a, curvature = accelerated(config, body, clip(action[0], -6, 6), dt), clip(action[1], -3, 3)
    v, wheelbase = (
        clip(body.speed + a * dt, -config.max_reverse_mps, config.max_speed_mps),
        config.wheelbase_factor * body.length,
    )
    a = (v - body.speed) / dt
    wanted = atan(curvature * wheelbase)
    steering = steered(config, body, wanted, dt)
    curvature = held(config, v, curvature if steering == wanted else tan(steering) / wheelbase)
    moved = turned(body, v, body.speed * dt + 0.5 * a * dt * dt, 0.0, curvature)
    return Body(**moved, speed=v, acceleration=a, steering=steering, length=body.length)


def delta_local(config: DriveConfig, body: Body, action: Action, dt: float) -> Body:
    """Waymax's DeltaLocal."""
    dx, dy, dyaw = action
    c, s = cos(body.heading), sin(body.heading)
    speed = copysign(hypot(dx, dy), dx) / dt
    return dataclasses.replace(
        body, x=body.x + dx * c - dy * s, y=body.y + dx * s + dy * c, heading=body.heading + dyaw,
        speed=speed, acceleration=(speed - body.speed) / dt,
    )  # fmt: skip


def state(config: DriveConfig, body: Body, action: Action, dt: float) -> Body:
    """The pose is set."""
    x, y, heading, speed = action if any(action) else (body.x, body.y, body.heading, 0.0)
    return dataclasses.replace(
        body, x=x, y=y, heading=heading, speed=speed, acceleration=(speed - body.speed) / dt
    )


def jerk(config: DriveConfig, body: Body, action: Action, dt: float) -> Body:
    """PufferDrive's JERK of November 2025."""
    most = off(config.max_jerk_mps3)
    brake, throttle = (min(bound, off(config.max_acceleration_mps2)) for bound in (5.0, 2.5))
    side = min(4.0, off(config.max_lateral_mps2))
    a, lateral = (
        old + clip(j, -most, most) * dt
        for old, j in zip((body.acceleration, body.lateral), action, strict=True)
    )
    a = 0.0 if body.acceleration * a < 0 else clip(a, -brake, throttle)
    lateral = 0.0 if body.lateral * lateral < 0 else clip(lateral, -side, side)
    v = body.speed + 0.5 * (a + body.acceleration) * dt
    v = (
        0.0
        if body.speed * v < 0
        else clip(v, -min(2.0, config.max_reverse_mps), min(20.0, config.max_speed_mps))
    )
    wheelbase, change = (
        config.wheelbase_factor * 0.7 * body.length,
        min(0.6, off(config.max_steering_rate_radps)) * dt,
    )
    curvature = lateral / max(v * v, 1e-5)
    wanted = atan(copysign(max(abs(curvature), 1e-5), curvature) * wheelbase)
    steering = clip(body.steering + clip(wanted - body.steering, -change, change), -0.55, 0.55)
    curvature = held(config, v, tan(steering) / wheelbase)
    way = 0.5 * (v + body.speed) * dt
    angle = way * curvature
    straight = abs(curvature) < 1e-5 or abs(angle) < 1e-5
    ahead, aside = (
        (way, 0.0) if straight else (sin(angle) / curvature, (1 - cos(angle)) / curvature)
    )
    c, s = cos(body.heading), sin(body.heading)
    return Body(
        x=body.x + ahead * c - aside * s, y=body.y + ahead * s + aside * c,
        heading=body.heading + angle, speed=v, acceleration=a, lateral=v * v * curvature,
        steering=steering, length=body.length,
    )  # fmt: skip


MODELS = {
    "bicycle": bicycle,
    "classic_gpudrive": classic_gpudrive,
    "classic_pufferdrive": classic_pufferdrive,
    "invertible_bicycle": invertible_bicycle,
    "delta_local": delta_local,
    "state": state,
    "jerk": jerk,
    "car": bicycle,
}


def walked(config: DriveConfig, body: Body, action: Action, kind: str, dt: float) -> Body:
    """Unicycles with limits: pedestrians and cyclists."""
    a, wish = action
    wheelbase = config.wheelbase_factor * body.length
    if config.dynamics == "jerk":
        a, wish = 0.5 * a, 0.25 * wish
    if kind == "pedestrian":
        v = clip(body.speed + clip(a, -2.7, 2.7) * dt, 0, 3)
        turn, steering = clip(wish, -pi, pi) * dt / 0.5, body.steering
        lateral = v * turn / dt
    else:
        v = clip(body.speed + clip(a, -3, 1.5) * dt, 0, 12)
        steering = clip(
            atan(wish * wheelbase) if config.dynamics == "invertible_bicycle" else wish, -0.6, 0.6
        )
        most = 3.4 / max(v * v, 1e-6)
        curvature = clip(tan(steering) / wheelbase, -most, most)
        turn, lateral = v * dt * curvature, v * v * curvature
    return Body(
        x=body.x + v * dt * cos(body.heading), y=body.y + v * dt * sin(body.heading),
        heading=body.heading + turn, speed=v, acceleration=(v - body.speed) / dt, lateral=lateral,
        steering=steering, length=body.length,
    )  # fmt: skip
