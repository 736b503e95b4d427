# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The slow, obvious twin of drive's raster (csrc/drive/observe/raster.c), equal byte for byte. Runs
in the tests only.

Everything is drawn, wherever it lies, and each shape looks at every row of pixels. Taken over from
C: the order of the float32 operations that lead from the scene to the picture, since they decide in
which 1/64 of a pixel a point lies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.twins.drive import SceneTwin

CHANNELS = (
    "edges",
    "lines",
    "lanes",
    "goal",
    "own",
    "vehicles",
    "pedestrians",
    "cyclists",
    "others",
)
TRAFFIC = ("crosswalks", "red", "yellow", "green", "stops")  # of raster_channels=traffic
OF_TYPE = ("vehicles", "pedestrians", "cyclists", "others")
UNIT = 64
F = np.float32

Point = tuple[int, int]  # to the right and down, in units


def sincos(angle: np.float32) -> tuple[np.float32, np.float32]:
    """Sine and cosine as csrc/envs/kernels.h has them."""
    quarter = (angle * F(0.636619772367581) + F(12582912)) - F(12582912)
    r = ((angle - quarter * F(1.5703125)) - quarter * F(4.837512969970703125e-4)) - quarter * F(
        7.549789948768648e-8
    )
    z = r * r
    s = ((F(-1.9515295891e-4) * z + F(8.3321608736e-3)) * z - F(1.6666654611e-1)) * z * r + r
    c = (
        ((F(2.443315711809948e-5) * z - F(1.388731625493765e-3)) * z + F(4.166664568298827e-2))
        * z
        * z
        - F(0.5) * z
        + F(1)
    )
    sine, cosine = ((s, c), (c, -s), (-s, -c), (-c, s))[int(quarter) % 4]
    return sine, cosine


@dataclass(frozen=True)
class Box:
    """An object at one time. cosine, sine: of its heading."""

    kind: int
    x: np.float32
    y: np.float32
    cosine: np.float32
    sine: np.float32
    speed: np.float32
    half_length: np.float32
    half_width: np.float32


def boxes(
    twin: SceneTwin,
    clock: int,
    state: Mapping[str, Any],
    rows: Mapping[int, int],
    controlled: list[int],
) -> dict[int, Box]:
    """All that is there at a time, by object. rows: of the agents that are."""
    found = {}
    for o, item in enumerate(twin.objects):
        if o in rows:
            x, y, heading, speed = (
                F(state[name][rows[o]]) for name in ("x", "y", "heading", "speed")
            )
        else:
            frame = None if o in controlled else twin.frame(o, clock)
            if frame is None:
                continue
            x, y = F(frame["x_m"]), F(frame["y_m"])
            heading, speed = (
                F(frame["heading"]) * (F(3.14159265358979) / F(32768)),
                F(frame["speed"]) * F(0.01),
            )
        sine, cosine = sincos(heading)
        size = F(0.5) * F(item["length_m"]), F(0.5) * F(item["width_m"])
        found[o] = Box(int(item["type"]), x, y, cosine, sine, speed, *size)
    return found


class Raster:
    """The picture of one agent, drawn shape by shape. picture: (channels, size, size) uint8."""

    def __init__(self, config: Any, own: Box) -> None:
        self.size, self.own = config.raster, own
        self.units_per_m = F(UNIT) / F(config.raster_pixel_m)
        self.u0 = F(0.5) * F(self.size) * F(UNIT)
        self.v0 = F(config.raster_ahead) * F(self.size) * F(UNIT)
        self.channels = CHANNELS + (TRAFFIC if config.raster_channels == "traffic" else ())
        self.picture = np.zeros((len(self.channels), self.size, self.size), np.uint8)

    def turned(self, dx: Any, dy: Any) -> tuple[Any, Any]:
        """A vector of the scene as (ahead, left)."""
        return dx * self.own.cosine + dy * self.own.sine, dy * self.own.cosine - dx * self.own.sine

    def point(self, ahead: Any, left: Any) -> Point:
        """Units of a place in the car's frame."""
        return int(np.floor(self.u0 - left * self.units_per_m)), int(
            np.floor(self.v0 - ahead * self.units_per_m)
        )

    def shape(self, corners: list[Point], channel: str, value: int) -> None:
        """Set the pixels between a polygon's or line's leftmost and rightmost points by row."""
        rows = np.arange(self.size)
        low, high = np.full(self.size, 1 << 40), np.full(self.size, -(1 << 40))
        for (ua, va), (ub, vb) in zip(corners, corners[1:] + corners[:1], strict=True):
            (va, ua), (vb, ub) = sorted([(va, ua), (vb, ub)])
            reached = (rows >= va // UNIT) & (rows <= vb // UNIT)
            ends = np.clip(rows * UNIT, va, vb), np.clip((rows + 1) * UNIT, va, vb)
            at = [np.full(self.size, u) for u in (ua, ub)]
            if vb > va:
                at = [ua + (v - va) * (ub - ua) // (vb - va) for v in ends]
            low = np.where(reached, np.minimum(low, np.minimum(*at)), low)
            high = np.where(reached, np.maximum(high, np.maximum(*at)), high)
        columns = np.arange(self.size)
        touched = (columns >= (low // UNIT)[:, None]) & (columns <= (high // UNIT)[:, None])
        self.picture[self.channels.index(channel)][touched] = value

    def disc(self, centre: Point, radius: int, channel: str) -> None:
        """Set the pixels that a disc touches."""
        for row in range(
            max(0, (centre[1] - radius) // UNIT),
            min(self.size - 1, (centre[1] + radius) // UNIT) + 1,
        ):
            off = max(row * UNIT - centre[1], centre[1] - (row + 1) * UNIT, 0)
            half = math.isqrt(radius * radius - off * off)
            first, last = (centre[0] - half) // UNIT, (centre[0] + half) // UNIT
            self.picture[self.channels.index(channel), row, max(0, first) : max(0, last + 1)] = 255

    def roads(self, road: Mapping[str, np.ndarray], of: slice, channel: str) -> None:
        """Draw the segments of a type."""
        x, y, ux, uy, half = (road[name][of] for name in ("x", "y", "ux", "uy", "half"))
        ahead, left = self.turned(x - self.own.x, y - self.own.y)
        along, aside = (part * half for part in self.turned(ux, uy))
        for a, b, c, d in zip(
            ahead - along, left - aside, ahead + along, left + aside, strict=True
        ):
            self.shape([self.point(a, b), self.point(c, d)], channel, 255)

    def traffic(self, twin: SceneTwin, frame: int) -> None:
        """Draw crosswalks and stop lines."""

        def at(x: Any, y: Any) -> Point:
            return self.point(*self.turned(F(x) - self.own.x, F(y) - self.own.y))

        for area in twin.arrays["areas"]:
            of = slice(area["first"], area["first"] + area["count"])
            if area["kind"] == 0 and area["count"]:
                points = zip(twin.arrays["points_x"][of], twin.arrays["points_y"][of], strict=True)
                self.shape([at(x, y) for x, y in points], "crosswalks", 255)
        for control in twin.controls:
            ends = [
                at(control["line_x0_m"], control["line_y0_m"]),
                at(control["line_x1_m"], control["line_y1_m"]),
            ]
            state = twin.states[control["states"] + min(frame, control["state_count"] - 1)] & 7
            if control["kind"] != 1:
                self.shape(ends, "stops", 128 if control["kind"] == 2 else 255)
            elif 1 <= state <= 3:
                self.shape(ends, TRAFFIC[state], 255)

    def goal(self, x: np.float32, y: np.float32, radius_m: float, pixel_m: float) -> None:
        """Draw the line to the goal and its disc."""
        ahead, left = self.turned(x - self.own.x, y - self.own.y)
        distance, reach = np.sqrt(ahead * ahead + left * left), F(2) * F(self.size) * F(pixel_m)
        share = reach / distance if distance > reach else F(1)
        self.shape([self.point(F(0), F(0)), self.point(ahead * share, left * share)], "goal", 128)
        self.disc(self.point(ahead, left), int(np.floor(F(radius_m) * self.units_per_m)), "goal")

    def box(self, box: Box) -> None:
        """Draw an object, as bright as it is fast."""
        ahead, left = self.turned(box.x - self.own.x, box.y - self.own.y)
        cosine, sine = self.turned(box.cosine, box.sine)
        along, aside = box.half_length * cosine, box.half_length * sine
        back, side = box.half_width * sine, box.half_width * cosine
        corners = [
            self.point(ahead + along - back, left + aside + side),
            self.point(ahead + along + back, left + aside - side),
            self.point(ahead - along + back, left - aside - side),
            self.point(ahead - along - back, left - aside + side),
        ]  # fmt: skip
        bright = int(np.clip(F(128) + F(4) * box.speed, F(1), F(255)) + F(0.5))
        self.shape(corners, "own" if box is self.own else OF_TYPE[box.kind], bright)


def raster(
    twin: SceneTwin,
    frame: int,
    found: Mapping[int, Box],
    own: int,
    goal: tuple[np.float32, np.float32],
    config: Any,
) -> np.ndarray:
    """Return the picture of agent `own` in a frame of the log, (channels, size, size) uint8."""
    drawn = Raster(config, found[own])
    if config.raster_channels == "traffic":
        drawn.traffic(twin, frame)
    for channel in ("edges", "lines", "lanes"):
        drawn.roads(twin.road, twin.of_type[channel], channel)
    drawn.goal(*goal, config.goal_radius_m, config.raster_pixel_m)
    for box in found.values():
        drawn.box(box)
    return drawn.picture
