# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Plans pedestrians of generated scenes: on pavements, on crosswalks, and in standing groups.

Runs in the learner. They are planned before the cars, which yield. At lights they walk while the
traffic that they cross has red.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from drive_env.generate import exact
from drive_env.generate.flow import Actor, standing_actor
from drive_env.generate.layouts import arc_length
from drive_env.generate.network import Crossing, Streets
from drive_env.generate.traffic import FRAMES
from drive_env.scenes.schema import FRAME_S, PEDESTRIAN, Floats

WALK, ACROSS = "walk", "across"  # Car.turn of pedestrians on a pavement, and crossing a road
CLEAR_FRAMES = 6  # frames between a pedestrian leaving the road and green for cars


def draw_walkers(
    rng: np.random.Generator,
    streets: Streets,
    count: int,
    red: NDArray[np.bool_],
    centre_m: Floats,
    crossing: float,
) -> list[Actor]:
    """Draw pedestrians near a place.

    Args:
        crossing: share of them who cross a road.
    """
    walkers: list[Actor] = []
    for _ in range(count):
        if streets.crossings and rng.random() < crossing:
            near = [
                float(exact.hypot(*(item.ends_m.mean(axis=0) - centre_m)))
                for item in streets.crossings
            ]
            weights = exact.exp(-np.array(near) / 30.0) + 1e-6
            choice = streets.crossings[int(rng.choice(len(near), p=weights / weights.sum()))]
            walker = walk_across(rng, choice, red)
        elif walkers and rng.random() < 0.35:
            walker = walk_beside(rng, walkers[int(rng.integers(len(walkers)))])
        else:
            walker = walk_along(rng, streets, centre_m)
        if walker is not None:
            walkers.append(walker)
    return walkers


def size(rng: np.random.Generator) -> tuple[float, float, float]:
    """Draw length, width and height of a pedestrian."""
    return (
        float(rng.uniform(0.5, 0.9)),
        float(rng.uniform(0.5, 0.9)),
        float(rng.uniform(1.55, 1.9)),
    )


def walker_on(line: Floats, at_m: Floats, size_m: tuple[float, float, float]) -> Actor:
    """Return a pedestrian at arc length at_m[t] of a line in frame t, (FRAMES,)."""
    where = arc_length(line)
    x, y = (np.interp(at_m, where, axis) for axis in line.T)
    ahead = np.minimum(at_m + 0.5, where[-1])
    dx = np.interp(ahead, where, line[:, 0]) - np.interp(ahead - 1.0, where, line[:, 0])
    dy = np.interp(ahead, where, line[:, 1]) - np.interp(ahead - 1.0, where, line[:, 1])
    back = 0.0 if at_m[-1] >= at_m[0] else np.pi
    heading = np.unwrap(exact.arctan2(dy, dx) + back)
    speed = np.gradient(at_m, FRAME_S)
    direction = heading - back
    return Actor(
        *size_m,
        x,
        y,
        heading,
        speed * exact.cos(direction),
        speed * exact.sin(direction),
        0,
        FRAMES - 1,
        False,
        WALK,
        PEDESTRIAN,
    )


def walk_along(rng: np.random.Generator, streets: Streets, centre_m: Floats) -> Actor | None:
    """Return a pedestrian who walks on a pavement, or stands there."""
    lines = [line for line in streets.walks if arc_length(line)[-1] > 6.0]
    if not lines:
        return None
    near = np.array([float(exact.hypot(*(line - centre_m).T).min()) for line in lines])
    weights = exact.exp(-near / 25.0) + 1e-3
    line = lines[int(rng.choice(len(lines), p=weights / weights.sum()))]
    length = float(arc_length(line)[-1])
    at = rng.uniform(1.0, length - 1.0)
    if rng.random() < 0.15:
        point = line[min(len(line) - 1, int(at / length * len(line)))]
        return standing_actor(
            (float(point[0]), float(point[1]), float(rng.uniform(-np.pi, np.pi))),
            size(rng),
            PEDESTRIAN,
        )
    speed = rng.normal(1.25, 0.25) * rng.choice([-1.0, 1.0])
    where = np.clip(at + speed * FRAME_S * np.arange(FRAMES), 0.0, length)
    return walker_on(line, where, size(rng))


def walk_beside(rng: np.random.Generator, other: Actor) -> Actor:
    """Return a pedestrian who walks or stands next to another."""
    far, angle = rng.uniform(0.9, 1.3), other.heading_rad[0] + np.pi / 2 * rng.choice([-1.0, 1.0])
    shift = far * exact.ahead_of(angle)
    length, width, height = size(rng)
    return dataclasses.replace(
        other,
        x_m=other.x_m + shift[0],
        y_m=other.y_m + shift[1],
        length_m=length,
        width_m=width,
        height_m=height,
    )


def walk_across(
    rng: np.random.Generator,
    crossing: Crossing,
    red: NDArray[np.bool_],
    start_s: float | None = None,
) -> Actor | None:
    """Return a pedestrian who crosses a road and first waits at the kerb if necessary.

    Return None if there is not enough time.

    Args:
        start_s: time at which to leave the kerb if no light decides; None: drawn.
    """
    line = crossing.ends_m if rng.random() < 0.5 else crossing.ends_m[::-1]
    length = float(exact.hypot(*(line[1] - line[0])))
    speed = float(rng.uniform(1.1, 1.7))
    needed = int(np.ceil(length / speed / FRAME_S))
    begin = int(
        (rng.uniform(-0.7 * needed * FRAME_S, 6.0) if start_s is None else start_s) / FRAME_S
    )
    if crossing.group >= 0:
        stopped = red[crossing.group]
        after = np.arange(FRAMES)
        fits = [
            t
            for t in after
            if stopped[t : t + needed + CLEAR_FRAMES].all()
            and (t + needed < FRAMES or stopped[t:].all())
        ]
        if not fits:
            begin = FRAMES + 1
        else:
            begin = int(rng.choice(fits[: max(1, len(fits) // 2)]))
    where = np.clip(speed * FRAME_S * (np.arange(FRAMES) - begin), 0.0, length)
    walker = walker_on(np.linspace(line[0], line[1], max(8, int(length))), where, size(rng))
    return dataclasses.replace(walker, turn=ACROSS)
