# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The twin of csrc/drive/motion/follow.c: vehicles that drive by the intelligent driver model
(Treiber, Hennecke, Helbing 2000).

Written from the rules at the head of that file: a path is a list of points, a body in the way is
found by projecting corners. Runs in the tests only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from puffervec.testing.reference.philox import below, bits64, uniform
from tests.twins.drive import Bodies, SceneTwin, corners

WAITS, LOG, LANE, GONE = range(4)
STOP_SIGN, LIGHT = 0, 1
RED, YELLOW = 1, 2
NAMES = ("phase", "to", "served", "from_x", "from_y", "from_heading", "along", "speed")
Pose = tuple[float, float, float, float]

# Ranges of the numbers of each kind of driver, in the order of their draws: factors of speed,
# headway, gap, acceleration and braking; the probability of not seeing a partner; the deceleration
# (m/s^2) from which a late one brakes.
KINDS: dict[str, tuple[tuple[float, float], ...]] = {
    "plain": (*[(1, 1)] * 5, (0, 0), (0, 0)),
    "varied": ((0.85, 1.15), (0.6, 1.4), (0.75, 1.5), (0.6, 1.4), (0.75, 1.5), (0, 0), (0, 0)),
    "hasty": ((1.1, 1.3), (0.4, 0.7), (0.5, 0.8), (1.3, 2), (1.25, 1.75), (0, 0), (0, 0)),
    "timid": ((0.7, 0.9), (1.3, 2), (1.25, 2), (0.5, 0.8), (0.6, 0.9), (0, 0), (0, 0)),
    "inattentive": (*[(1, 1)] * 5, (0.1, 0.5), (0, 0)),
    "late": (*[(1, 1)] * 5, (0, 0), (3.4, 6)),
}


@dataclass(frozen=True)
class Style:
    """How one driver drives in an episode; seed: of whom it does not see."""

    speed: float = 1.0
    headway: float = 1.0
    gap: float = 1.0
    acceleration: float = 1.0
    braking: float = 1.0
    unseen: float = 0.0
    late: float = 0.0
    seed: int = 0

    def sees(self, o: int) -> bool:
        return not self.unseen or uniform(self.seed, 1, 0, o) >= self.unseen


PLAIN = Style()


def style_of(config: Any, seed: int) -> Style:
    """Draw the driver of this seed from the setting traffic_kinds."""
    weights = {}
    for entry in config.traffic_kinds.replace(",", " ").split():
        name, _, weight = entry.partition("=")
        weights[name] = float(weight or 1)
    share, above = uniform(seed, 0, 0, 0) * sum(weights.values()), 0.0
    for name in KINDS:
        above += weights.get(name, 0.0)
        if share < above:
            break
    drawn = (
        low + uniform(seed, 0, 0, 1 + i) * (high - low) for i, (low, high) in enumerate(KINDS[name])
    )
    return Style(*drawn, seed=seed)


def wrap(angle: float) -> float:
    return (angle + np.pi) % (2 * np.pi) - np.pi


@dataclass
class Piece:
    """A straight piece of a path, its end's heading, and what it leads to."""

    start: np.ndarray
    heading: float
    end: np.ndarray
    end_heading: float
    phase: int
    to: int

    @property
    def length(self) -> float:
        return float(np.hypot(*(self.end - self.start)))

    @property
    def unit(self) -> np.ndarray:
        return (self.end - self.start) / self.length if self.length else np.zeros(2)


class Follower:
    """One follower at one time; `state` has its NAMES."""

    def __init__(
        self,
        twin: SceneTwin,
        o: int,
        config: Any,
        draw: Callable[[int, int], int],
        state: dict[str, Any],
        style: Style = PLAIN,
    ) -> None:
        self.twin, self.o, self.config, self.draw, self.state = twin, o, config, draw, state
        self.style, self.item = style, twin.objects[o]

    @property
    def there(self) -> bool:
        return self.state["phase"] in (LOG, LANE)

    # ---- path ------------------------------------------------------------------------------------

    def frames(self) -> list[int]:
        """Frames from init_step on in which it is there."""
        key = (self.o, self.config.init_step)
        if key not in self.twin.kept:
            self.twin.kept[key] = self._frames()
        found: list[int] = self.twin.kept[key]
        return found

    def _frames(self) -> list[int]:
        first, count = int(self.item["frame_first"]), int(self.item["frame_count"])
        start = max(first, self.config.init_step)
        return [t for t in range(start, first + count) if self.twin.frame(self.o, t) is not None]

    def log_point(self, t: int) -> tuple[np.ndarray, float]:
        frame = self.twin.frame(self.o, t)
        return np.array([frame["x_m"], frame["y_m"]], float), float(
            frame["heading"]
        ) * np.pi / 32768

    def point_after(self, t: int, at: np.ndarray) -> int | None:
        """The next frame that is half a metre away or more."""
        key = (self.o, self.config.init_step, t, *at.tolist())
        if key not in self.twin.kept:
            later = (n for n in self.frames() if n > t)
            self.twin.kept[key] = next(
                (n for n in later if np.hypot(*(self.log_point(n)[0] - at)) >= 0.5), None
            )
        found: int | None = self.twin.kept[key]
        return found

    def join(self) -> int | None:
        """The lane segment with which the path goes on."""
        key = (self.o, self.config.init_step, "end")
        if key not in self.twin.kept:
            self.twin.kept[key] = self._join()
        s, goes_on = self.twin.kept[key]
        return s if s is None or goes_on else self.segment_after(s)

    def _join(self) -> tuple[int | None, bool]:
        t, (at, heading) = self.frames()[0], self.log_point(self.frames()[0])
        while (n := self.point_after(t, at)) is not None:
            t, (at, heading) = n, self.log_point(n)
        road, of = self.twin.road, self.twin.of_type["lanes"]
        lanes = {name: road[name][of].astype(float) for name in ("x", "y", "ux", "uy", "half")}
        squares = self.twin.squares("lanes", *at).astype(float)
        ahead = lanes["ux"] * np.cos(heading) + lanes["uy"] * np.sin(heading) >= np.cos(np.pi / 4)
        squares[~ahead | (squares > 9)] = np.inf
        if not np.isfinite(squares).any():
            return None, False
        s = int(squares.argmin())
        along = (at[0] - lanes["x"][s]) * lanes["ux"][s] + (at[1] - lanes["y"][s]) * lanes["uy"][s]
        return s, bool(along <= lanes["half"][s] - 0.5)

    def segment_after(self, s: int) -> int | None:
        number = int(self.twin.polyline[s])
        lane = self.twin.lanes[number]
        if s + 1 < lane["first_segment"] + lane["segment_count"]:
            return s + 1
        if not lane["exit_count"]:
            return None
        chosen = (
            self.draw((self.o << 16) + number, int(lane["exit_count"]))
            if lane["exit_count"] > 1
            else 0
        )
        return int(self.twin.lanes[self.twin.links[lane["exits"] + chosen]]["first_segment"])

    def piece(self, start: np.ndarray, heading: float, phase: int, to: int) -> Piece:
        if phase == LOG:
            end, end_heading = self.log_point(to)
        else:
            x, y, ux, uy, half = (
                float(self.twin.road[name][to]) for name in ("x", "y", "ux", "uy", "half")
            )
            end, end_heading = np.array([x + half * ux, y + half * uy]), float(np.arctan2(uy, ux))
        return Piece(start, heading, end, end_heading, phase, to)

    def now(self) -> Piece:
        state = self.state
        start = np.array([state["from_x"], state["from_y"]], float)
        return self.piece(
            start, float(state["from_heading"]), int(state["phase"]), int(state["to"])
        )

    def following(self, piece: Piece) -> Piece | None:
        if piece.phase == LOG:
            point = self.point_after(piece.to, piece.end)
            if point is not None:
                return self.piece(piece.end, piece.end_heading, LOG, point)
        segment = self.join() if piece.phase == LOG else self.segment_after(piece.to)
        return None if segment is None else self.piece(piece.end, piece.end_heading, LANE, segment)

    def pose(self) -> Pose:
        piece = self.now()
        share = min(float(self.state["along"]) / piece.length, 1.0) if piece.length else 0.0
        x, y = piece.start + share * (piece.end - piece.start)
        heading = wrap(piece.heading + share * wrap(piece.end_heading - piece.heading))
        forward = piece.unit @ (np.cos(heading), np.sin(heading)) >= 0
        return float(x), float(y), heading, float(self.state["speed"]) * (1 if forward else -1)

    # ---- driving ---------------------------------------------------------------------------------

    def ahead(self, bodies: Bodies, t: int) -> tuple[float, float]:
        """(gap, speed along the path) of the nearest thing in the way; the gap is infinite where
        there is none.
        """
        half_length, half_width = float(self.item["length_m"]) / 2, float(self.item["width_m"]) / 2
        v = float(self.state["speed"])
        look, base, best = half_length + 10 + 4 * v, -float(self.state["along"]), (np.inf, 0.0)
        piece: Piece | None = self.now()
        while piece is not None:
            across = np.array([-piece.unit[1], piece.unit[0]])
            for b, other in enumerate(bodies.object):
                if other == self.o or not piece.length or not self.style.sees(int(other)):
                    continue
                around = bodies.corners(b).astype(float) - piece.start
                p, aside = around @ piece.unit, around @ across
                if p.max() < 0 or p.min() > piece.length or base + p.mean() <= 0:
                    continue
                if (
                    aside.min() < half_width
                    and aside.max() > -half_width
                    and base + p.min() - half_length < best[0]
                ):
                    along = float(
                        piece.unit @ (np.cos(bodies.heading[b]), np.sin(bodies.heading[b]))
                    )
                    best = (base + p.min() - half_length, float(bodies.speed[b]) * along)
            best = self.lines(piece, base, half_length, look, t, best)
            base += piece.length
            if base > look or base - half_length > best[0]:
                break
            piece = self.following(piece)
        return best

    def lines(
        self, piece: Piece, base: float, half: float, look: float, t: int, best: tuple[float, float]
    ) -> tuple[float, float]:
        """The same with the lines that it has to stop at."""
        here = np.array(self.pose()[:2])
        for c, control in enumerate(self.twin.controls):
            at, heading = (
                np.array([control["x_m"], control["y_m"]], float),
                float(control["heading"]),
            )
            way = np.array([np.cos(heading), np.sin(heading)])
            if np.hypot(*(at - here)) > look or piece.unit @ way < 0.5:
                continue
            left, right = (
                np.array([control[f"line_x{i}_m"], control[f"line_y{i}_m"]], float) for i in (0, 1)
            )
            normal = np.array([-piece.unit[1], piece.unit[0]])
            a, b = (left - piece.start) @ normal, (right - piece.start) @ normal
            if a < 0 or b > 0 or a == b:
                continue
            p = float((left + a / (a - b) * (right - left) - piece.start) @ piece.unit)
            gap = base + p - half
            if 0 <= p < piece.length and gap < best[0] and self.stops(c, control, gap, t):
                best = (gap, 0.0)
        return best

    def stops(self, c: int, control: Any, gap: float, t: int) -> bool:
        v = float(self.state["speed"])
        if gap < -0.5:
            return False
        state = int(self.twin.states[control["states"] + min(t, int(control["state_count"]) - 1)])
        shown, flashes = state & 7, bool(state & 16)
        if control["kind"] == STOP_SIGN or (control["kind"] == LIGHT and flashes and shown == RED):
            if self.state["served"] == c + 1:
                return False
            if v >= 0.5 or gap > self.config.idm_gap_m * self.style.gap + 1.5:
                return True
            self.state["served"] = c + 1
            return False
        if control["kind"] != LIGHT or flashes:
            return False
        return (
            bool(2 * self.config.idm_braking_mps2 * self.style.braking * gap > v * v)
            if shown == YELLOW
            else shown == RED
        )

    def acceleration(self, gap: float, leader_mps: float) -> float:
        """Treiber, Hennecke, Helbing 2000, equations 2 and 3, as this driver applies them."""
        config, style, v = self.config, self.style, float(self.state["speed"])
        key = (self.o, config.init_step, "speed")
        if key not in self.twin.kept:
            self.twin.kept[key] = max(
                abs(float(self.twin.frame(self.o, t)["speed"])) * 0.01 for t in self.frames()
            )
        logged = self.twin.kept[key]
        wanted = (config.idm_speed_mps or max(1.0, logged)) * style.speed
        if self.state["phase"] == LANE:
            limit = float(self.twin.lanes[self.twin.polyline[self.state["to"]]]["speed_limit_mps"])
            wanted = min(wanted, limit * style.speed or wanted)
        a, b = (
            config.idm_acceleration_mps2 * style.acceleration,
            config.idm_braking_mps2 * style.braking,
        )
        least, free = config.idm_gap_m * style.gap, a * (1 - (v / wanted) ** 4)
        desired = least + max(
            0.0,
            v * config.idm_headway_s * style.headway + v * (v - leader_mps) / (2 * np.sqrt(a * b)),
        )
        chosen = free - a * (desired / max(gap, 0.1)) ** 2
        if style.late and gap > least:
            # A late driver leaves the speed as it is until stopping takes a hard deceleration.
            needed = max(v - leader_mps, 0.0) ** 2 / (2 * (gap - least))
            chosen = min(free, -needed if needed > style.late else max(chosen, 0.0))
        return max(-8.0, chosen)

    def moved(self, acceleration: float) -> dict[str, Any]:
        """Its state after the step."""
        old, dt = float(self.state["speed"]), self.twin.dt_s
        speed = max(0.0, old + acceleration * dt)
        along, piece = float(self.state["along"]) + (old + speed) / 2 * dt, self.now()
        while along >= piece.length:
            along -= piece.length
            following = self.following(piece)
            if following is None:
                return {"phase": GONE, "to": 0, "speed": 0.0, "along": 0.0}
            piece = following
        place = {"from_x": piece.start[0], "from_y": piece.start[1], "from_heading": piece.heading}
        return {"phase": piece.phase, "to": piece.to, "speed": speed, "along": along, **place}

    def entered(self, t: int) -> dict[str, Any] | None:
        """Its state as it appears in frame t of its log; None: it does not."""
        if self.state["phase"] != WAITS or self.frames()[0] != t:
            return None
        at, heading = self.log_point(t)
        piece = self.following(Piece(at, heading, at, heading, LOG, t))
        if piece is None:
            return {"phase": GONE, "to": 0}
        speed = abs(float(self.twin.frame(self.o, t)["speed"])) * 0.01
        place = {"from_x": at[0], "from_y": at[1], "from_heading": heading}
        return {
            "phase": piece.phase,
            "to": piece.to,
            "speed": speed,
            "along": 0.0,
            "served": 0,
            **place,
        }


def is_follower(twin: SceneTwin, o: int, config: Any) -> bool:
    """Vehicles that are no agents and whose log moves two metres or more."""
    key = (o, config.init_step, config.control, "follows")
    if key not in twin.kept:
        twin.kept[key] = _is_follower(twin, o, config)
    return bool(twin.kept[key])


def _is_follower(twin: SceneTwin, o: int, config: Any) -> bool:
    if config.others != "idm" or twin.objects[o]["type"] != 0 or twin.is_agent(o, config):
        return False
    frames = Follower(twin, o, config, lambda draw, count: 0, {}).frames()
    if not frames:
        return False
    first, last = (
        np.array([twin.frame(o, t)[name] for name in ("x_m", "y_m")], float)
        for t in (frames[0], frames[-1])
    )
    return bool(np.hypot(*(last - first)) >= 2)


def followers(
    twins: dict[int, SceneTwin], state: dict[str, Any], slot: int, config: Any, seed: int
) -> list[Follower]:
    """The followers of a slot, from `vec.peek`. twins: by scene."""
    first = 0
    for number, scene in enumerate(state["slot_scene"][: slot + 1]):
        twin = twins[int(scene)]
        found = [o for o in range(len(twin.objects)) if is_follower(twin, o, config)]
        if number < slot:
            first += len(found)
    start = int(state["step"]) - int(state["slot_clock"][slot])
    keys = seed, int(state["episode"]), 2**31 | (slot & 0x7FF) << 20 | start
    # An episode's drivers are drawn in the turn in which it starts, by the follower's number.
    seeds = [bits64(seed, keys[1], start, 0x60000000 + first + k) for k in range(len(found))]

    def draw(number: int, count: int) -> int:
        return below(*keys, number, count)

    return [
        Follower(
            twin,
            o,
            config,
            draw,
            {name: state[f"follower_{name}"][first + k] for name in NAMES},
            style_of(config, seeds[k]) if config.traffic_kinds else PLAIN,
        )
        for k, o in enumerate(found)
    ]


def step(found: list[Follower], bodies: Bodies, frame: int) -> list[dict[str, Any]]:
    """What each follower's state is after a step: only what it sets. frame: of the log, before the
    step.
    """
    result = []
    for follower in found:
        if follower.there:
            moved = follower.moved(follower.acceleration(*follower.ahead(bodies, frame)))
            result.append(moved | {"served": follower.state["served"]})
        else:
            result.append(follower.entered(frame + 1) or {"phase": follower.state["phase"]})
    return result


__all__ = [
    "GONE",
    "LANE",
    "LOG",
    "WAITS",
    "Follower",
    "Style",
    "corners",
    "followers",
    "is_follower",
    "step",
    "style_of",
]
