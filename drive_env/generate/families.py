# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Families of generated streets: their roads, and the traffic on them.

Runs in the learner (drive_env.generate.streets). A family draws a `Plan` from ranges; `difficulty`,
from 0 to 1, moves the draw towards more cars, walkers and speed. Around the main place of a family
lie further streets, so that maps have the size of real ones. To add a family, add a function and a
line in TOWN or FAST.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from drive_env.generate import exact, ramps
from drive_env.generate.layouts import Profile
from drive_env.generate.network import FREE, SIGNAL, STOP, Link, Node
from drive_env.scenes.schema import Floats

Range = tuple[float, float]
MPH_MPS = 0.44704
SIDE_LIMIT_MPS = 25 * MPH_MPS  # of streets that meet a fast road
FASTEST_MPS = 29.0  # just below what the env's cars can drive by default


@dataclass
class Plan:
    """Plan of streets and traffic."""

    nodes: list[Node] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    focus_m: Floats = field(default_factory=lambda: np.zeros(2))
    spread_m: float = 45.0
    cars: Range = (4.0, 10.0)
    cyclists: Range = (0.0, 1.2)
    walkers: Range = (0.0, 6.0)
    crossing: float = 0.3  # share of the walkers who cross a road
    speed_mps: Range = (5.0, 13.0)
    turning: float = 0.7
    left: float = 0.5
    changes: float = 0.1
    parked: Range = (0.15, 0.6)  # share of the places along kerbs that are occupied
    # Distance from the middle up to which objects other than moving cars are recorded
    sight_m: Range = (45.0, 85.0)
    hidden: bool = False  # a pedestrian steps out from behind a parked van
    over: float = 0.0  # height of the roads of level 1 above the others
    flows: bool = False  # fast traffic that keeps its distances; see `Demand`

    def node(self, x: float, y: float, **more: Any) -> int:
        """Add a node and return its index."""
        self.nodes.append(Node(np.array([x, y]), **more))
        return len(self.nodes) - 1

    def link(self, first: int, last: int, profile: Profile, **more: Any) -> int:
        """Add a link and return its index."""
        self.links.append(Link(first, last, profile, **more))
        return len(self.links) - 1


@dataclass(frozen=True)
class Draw:
    """Random draws of families: the generator, the difficulty, and whether ranges are wide.

    Held-out scenes have the wider ranges.
    """

    rng: np.random.Generator
    difficulty: float
    wide: bool

    def within(self, low: float, high: float) -> float:
        """Draw from a range; a wide range extends a fifth farther at both ends."""
        more = 0.2 * (high - low) * self.wide
        return float(self.rng.uniform(low - more, high + more))

    def chance(self, share: float) -> bool:
        """Return True with this probability."""
        return bool(self.rng.random() < share)

    def limit(self, low_mph: float, high_mph: float) -> float:
        """Draw a speed limit, a multiple of 5 mph, in m/s."""
        return 5 * MPH_MPS * round(self.within(low_mph, high_mph) / 5)

    def street(self, lanes: int | None = None, parking: float = 0.4) -> Profile:
        """Draw the cross-section of a street."""
        count = lanes if lanes is not None else 1 if self.chance(0.55) else 2
        strip = 2.4 if count == 1 and self.chance(parking) else 0.0
        median = self.within(1.6, 2.6) if count > 1 and self.chance(0.2) else 0.0
        return Profile(count, self.within(2.85, 3.45), median, self.within(0.5, 1.4), strip)

    def side(self) -> Profile:
        """Draw the cross-section of a side street."""
        return Profile(
            1, self.within(2.8, 3.4), 0.0, self.within(0.5, 1.2), 2.3 if self.chance(0.35) else 0.0
        )


YARDS = 0.028  # cars behind the kerb per metre of road, on average


def yards(draw: Draw) -> float:
    """Draw the number of cars that stand behind the kerbs of a road, per metre."""
    return 0.0 if draw.chance(0.25) else float(draw.rng.exponential(YARDS))


def surround(
    draw: Draw,
    plan: Plan,
    ends: list[int],
    reach_m: float = 75.0,
    share: float = 0.95,
    again: float = 0.5,
    sides: bool = True,
) -> None:
    """Put crossings with side streets at the ends of roads.

    Args:
        share: share of the ends that get a crossing.
        again: share of the new roads' ends that get another crossing.
        sides: whether the ends of side streets can get one too.
    """
    farther: list[int] = []
    for end in ends:
        if not draw.chance(share):
            continue
        (number,) = (n for n, link in enumerate(plan.links) if end in (link.first, link.last))
        link = plan.links[number]
        here = plan.nodes[end].place_m
        step = here - plan.nodes[link.first if end == link.last else link.last].place_m
        ahead = float(exact.arctan2(step[1], step[0])) + (
            link.lean[1] if end == link.last else link.lean[0]
        )
        profile = link.narrow if link.narrow and end == link.last else link.profile
        kind = str(draw.rng.choice(["cross", "left", "right", "end"], p=[0.5, 0.2, 0.2, 0.1]))
        turns = {"cross": (-1, 0, 1), "left": (1, 0), "right": (-1, 0), "end": (-1, 1)}[kind]
        control = str(draw.rng.choice([FREE, STOP, SIGNAL], p=[0.4, 0.46, 0.14]))
        plan.nodes[end].crosswalks = 0.2
        plan.nodes[end].control, plan.nodes[end].corner_m = control, draw.within(5.0, 8.5)
        majors = [number]
        side = draw.side()
        for turn in turns:
            angle = ahead + turn * (np.pi / 2 + draw.rng.uniform(-0.15, 0.15))
            length = draw.within(0.6, 1.0) * reach_m * (1.0 if turn else 0.8)
            other = plan.node(*(here + length * exact.ahead_of(angle)))
            road = plan.link(end, other, side if turn else profile, yards=yards(draw))
            plan.links[road].limit_mps = 0.0 if turn else link.limit_mps
            if not turn:
                majors.append(road)
            if not turn or sides:
                farther.append(other)
        plan.nodes[end].major = tuple(majors) if len(majors) > 1 and control == STOP else ()
    if again > 0.0 and farther:
        surround(draw, plan, farther, 0.8 * reach_m, again, 0.0, False)


def star(
    draw: Draw,
    plan: Plan,
    profiles: list[Profile],
    skew: float = 0.12,
    arm_m: Range = (85.0, 120.0),
    **node: Any,
) -> list[int]:
    """Put a crossing with one arm per cross-section into the middle; return the arms' end nodes."""
    middle = plan.node(0.0, 0.0, corner_m=draw.within(5.0, 9.0), **node)
    ends = []
    for number, profile in enumerate(profiles):
        angle = number * (np.pi / 2) + draw.rng.uniform(-skew, skew)
        length = draw.within(*arm_m)
        ends.append(plan.node(*(length * exact.ahead_of(angle))))
        plan.link(
            middle,
            ends[-1],
            profile,
            yards=yards(draw),
            lean=(0.0, float(draw.rng.uniform(-0.2, 0.2))),
        )
    return ends


def road(draw: Draw, plan: Plan, profile: Profile, length_m: float, **link: Any) -> list[int]:
    """Put a straight road into the middle and return its end nodes."""
    ends = [plan.node(-length_m / 2, 0.0), plan.node(length_m / 2, 0.0)]
    plan.link(ends[0], ends[1], profile, yards=yards(draw), **link)
    return ends


def put_crossing(draw: Draw, plan: Plan, profiles: list[Profile], **more: Any) -> None:
    """Put a crossing into the middle (see `star`), with further streets at the ends of its arms."""
    surround(draw, plan, star(draw, plan, profiles, **more), sides=False)


def put_road(draw: Draw, plan: Plan, profile: Profile, length_m: float, **link: Any) -> None:
    """Put a straight road into the middle, with crossings at its ends."""
    surround(draw, plan, road(draw, plan, profile, length_m, **link))


# ---- families ------------------------------------------------------------------------------------


def straight(draw: Draw) -> Plan:
    """Plan a road between two crossings, now and then with a jam."""
    plan = Plan(spread_m=60.0)
    if draw.chance(0.15):
        street = draw.street(lanes=3 if draw.chance(0.5) else 2)
        put_road(draw, plan, street, draw.within(150.0, 200.0))
        return replace(
            plan,
            cars=(25.0, 60.0),
            speed_mps=(2.0, 6.0),
            parked=(0.0, 0.2),
            walkers=(0.0, 3.0),
            spread_m=50.0,
        )
    put_road(draw, plan, draw.street(), draw.within(140.0, 190.0))
    return plan


def curve(draw: Draw) -> Plan:
    """Plan a road with one bend, or two opposite ones."""
    plan = Plan(spread_m=60.0)
    bend = draw.within(0.45, 0.85) * draw.rng.choice([-1.0, 1.0])
    lean = (bend, -bend) if draw.chance(0.65) else (bend * 0.8, bend * 0.8)
    put_road(draw, plan, draw.street(), draw.within(120.0, 170.0), lean=lean)
    return plan


def tee(draw: Draw) -> Plan:
    """Plan a side road that ends at another road, with or without a stop sign."""
    plan = Plan()
    main = draw.street()
    arms = [main, draw.side(), main]
    control = STOP if draw.chance(0.8) else FREE
    put_crossing(draw, plan, arms, control=control, major=(0, 2))
    return plan


def cross(draw: Draw) -> Plan:
    """Plan a road that crosses another; the side roads give way."""
    plan = Plan()
    main, side = draw.street(), draw.side()
    control = STOP if draw.chance(0.7) else FREE
    put_crossing(draw, plan, [main, side, main, side], control=control, major=(0, 2))
    return plan


def roundabout(draw: Draw) -> Plan:
    """Plan a roundabout with three or four arms."""
    plan = Plan(turning=0.6, speed_mps=(6.0, 11.0), spread_m=35.0)
    arms = [
        draw.side() if draw.chance(0.6) else draw.street(lanes=1)
        for _ in range(4 if draw.chance(0.7) else 3)
    ]
    put_crossing(draw, plan, arms, skew=0.08, ring_m=draw.within(13.0, 19.0))
    return plan


def merge(draw: Draw) -> Plan:
    """Plan a ramp that joins a fast road."""
    plan = Plan(
        spread_m=70.0, speed_mps=(11.0, 19.0), walkers=(0.0, 0.4), cyclists=(0.0, 0.0), changes=0.1
    )
    profile = replace(
        draw.street(lanes=2), median_m=0.0, parking_m=0.0, width_m=draw.within(3.2, 3.7)
    )
    ends = road(draw, plan, profile, draw.within(250.0, 300.0), shape=ramps.on_ramp)
    surround(draw, plan, ends[1:])
    return plan


def lane_drop(draw: Draw) -> Plan:
    """Plan a road that loses a lane."""
    plan = Plan(spread_m=60.0, cars=(6.0, 16.0))
    wide = replace(draw.street(lanes=3 if draw.chance(0.3) else 2), median_m=0.0, parking_m=0.0)
    narrow = replace(wide, lanes=wide.lanes - 1)
    length_m = draw.within(170.0, 210.0)
    put_road(draw, plan, wide, length_m, narrow=narrow, shape=ramps.lane_drop)
    return plan


def driveways(draw: Draw) -> Plan:
    """Plan a street in front of houses, with cars that turn into drives and come out of them."""
    plan = Plan(spread_m=55.0, speed_mps=(5.0, 10.0), turning=0.45)
    profile, drive = draw.side(), Profile(1, draw.within(2.3, 2.6), 0.0, 0.4, 0.0)
    at = -100.0 + draw.within(0.0, 20.0)
    before = plan.node(at - 20.0, 0.0)
    ends = [before]
    for _ in range(5):
        node = plan.node(at, 0.0, corner_m=3.0, crosswalks=0.0)
        plan.link(before, node, profile, yards=2 * YARDS)
        side = 1.0 if draw.chance(0.5) else -1.0
        end = plan.node(at + draw.within(-2.0, 2.0), side * draw.within(26.0, 34.0))
        plan.link(node, end, drive, slow=0.4)
        plan.nodes[node].major = (len(plan.links) - 2, len(plan.links))
        before, at = node, at + draw.within(36.0, 46.0)
    ends.append(plan.node(at, 0.0))
    plan.link(before, ends[1], profile, yards=2 * YARDS)
    surround(draw, plan, ends)
    return plan


def lot(draw: Draw) -> Plan:
    """Plan a parking lot next to a street."""
    plan = Plan(
        speed_mps=(6.0, 11.0),
        walkers=(2.0, 22.0),
        turning=0.6,
        crossing=0.15,
        parked=(0.2, 0.8),
        spread_m=40.0,
    )
    street = draw.street()
    aisle = Profile(1, draw.within(2.6, 3.1), 0.0, 0.4, 0.0)
    entry = plan.node(0.0, 0.0, control=STOP, corner_m=4.5)
    ends = [plan.node(draw.within(-100.0, -80.0), 0.0), plan.node(draw.within(90.0, 110.0), 0.0)]
    roads = [plan.link(end, entry, street, yards=yards(draw)) for end in ends]
    plan.nodes[entry].major = (roads[0], roads[1])
    rows, across = int(draw.rng.integers(1, 4)), draw.within(45.0, 80.0)
    above = [entry, -1]
    for row in range(rows):
        y = -street.edge_m - 24.0 - 29.0 * row
        here = [plan.node(x, y, corner_m=3.2, crosswalks=0.0) for x in (0.0, across)]
        plan.link(here[0], here[1], aisle, stalls=True, slow=0.45)
        for up, node in zip(above, here, strict=True):
            if up >= 0:
                plan.link(up, node, aisle, slow=0.45)
        above = here
    plan.focus_m = np.array([across / 3, -30.0])
    surround(draw, plan, ends)
    return plan


def signal(draw: Draw) -> Plan:
    """Plan a crossing with traffic lights, whose phases change."""
    plan = Plan(cars=(7.0, 20.0), walkers=(0.0, 10.0), crossing=0.5)
    main, side = draw.street(lanes=2 if draw.chance(0.7) else 1), draw.street(parking=0.2)
    put_crossing(draw, plan, [main, side, main, side], control=SIGNAL, crosswalks=0.9)
    return plan


def stop_signs(draw: Draw) -> Plan:
    """Plan a crossing at which all traffic has to stop."""
    plan = Plan(crossing=0.5)
    profiles = [draw.side() for _ in range(4 if draw.chance(0.7) else 3)]
    put_crossing(draw, plan, profiles, control=STOP, crosswalks=0.7)
    return plan


def unprotected_left(draw: Draw) -> Plan:
    """Plan cars that turn left across oncoming traffic."""
    plan = Plan(cars=(7.0, 16.0), turning=0.5, left=0.85, spread_m=35.0)
    main, side = draw.street(lanes=2 if draw.chance(0.5) else 1), draw.side()
    control = SIGNAL if draw.chance(0.5) else FREE
    arms = [main, side, main, side] if draw.chance(0.7) else [main, side, main]
    major = () if control == SIGNAL else (0, 2)
    put_crossing(draw, plan, arms, control=control, major=major)
    return plan


def cut_in(draw: Draw) -> Plan:
    """Plan a road of several lanes on which many cars change lanes, close to others."""
    plan = Plan(
        cars=(10.0, 26.0), changes=0.6, walkers=(0.0, 3.0), spread_m=50.0, speed_mps=(5.0, 14.0)
    )
    street = draw.street(lanes=3 if draw.chance(0.4) else 2)
    put_road(draw, plan, street, draw.within(160.0, 210.0))
    return plan


def occluded(draw: Draw) -> Plan:
    """Plan a pedestrian who steps out from behind a parked van."""
    plan = Plan(
        hidden=True, spread_m=40.0, walkers=(1.0, 6.0), parked=(0.4, 0.9), speed_mps=(5.0, 10.0)
    )
    profile = replace(draw.street(lanes=1), parking_m=2.4)
    put_road(draw, plan, profile, draw.within(130.0, 170.0))
    return plan


def crosswalk(draw: Draw) -> Plan:
    """Plan pedestrians who cross between two crossings."""
    plan = Plan(crossing=0.8, spread_m=45.0, walkers=(2.0, 9.0))
    street, length_m = draw.street(), draw.within(140.0, 180.0)
    put_road(draw, plan, street, length_m, crossing_at=draw.within(0.35, 0.65))
    return plan


def narrow(draw: Draw) -> Plan:
    """Plan a narrow street between parked cars."""
    plan = Plan(spread_m=50.0, parked=(0.5, 0.95), speed_mps=(4.0, 8.0))
    profile = Profile(1, draw.within(2.6, 2.85), 0.0, 0.3, 2.3)
    put_road(draw, plan, profile, draw.within(120.0, 170.0))
    return plan


def dead_end(draw: Draw) -> Plan:
    """Plan a street that ends at a turning place."""
    plan = Plan(speed_mps=(5.0, 9.0), spread_m=35.0)
    profile = replace(draw.side(), parking_m=0.0)
    ends = road(draw, plan, profile, draw.within(100.0, 130.0))
    plan.nodes[ends[1]].bulb_m = draw.within(9.5, 12.0)
    plan.focus_m = plan.nodes[ends[1]].place_m * 0.7
    surround(draw, plan, ends[:1], reach_m=80.0, share=1.0)
    return plan


def levels(draw: Draw) -> Plan:
    """Plan a road on a bridge over another."""
    plan = Plan(spread_m=60.0, over=draw.within(5.5, 7.5), walkers=(0.0, 4.0))
    surround(draw, plan, road(draw, plan, draw.street(), draw.within(150.0, 190.0)), reach_m=45.0)
    angle, length = np.pi / 2 + draw.rng.uniform(-0.3, 0.3), draw.within(110.0, 140.0)
    far = length * exact.ahead_of(angle)
    plan.link(
        plan.node(*far),
        plan.node(*-far),
        replace(draw.street(), parking_m=0.0, median_m=0.0),
        level=1,
    )
    return plan


# ---- fast roads ----------------------------------------------------------------------------------


def flowing(limit_mps: float, **more: Any) -> Plan:
    """Return a plan of cars at roughly the speed limit, with few cyclists and pedestrians."""
    plan = Plan(
        speed_mps=(0.8 * limit_mps, min(1.05 * limit_mps, FASTEST_MPS)),
        walkers=(0.0, 0.4),
        cyclists=(0.0, 0.3),
        flows=True,
    )
    return replace(plan, **more)


def limit_sides(plan: Plan) -> None:
    """Give the speed limit of side streets to roads that have none."""
    for link in plan.links:
        if not link.limit_mps:
            link.limit_mps, link.slow = SIDE_LIMIT_MPS, SIDE_LIMIT_MPS / plan.speed_mps[1]


def motorway(draw: Draw) -> Plan:
    """Plan a motorway with some ramps, now and then with a jam."""
    limit = draw.limit(55.0, 65.0)
    plan = flowing(
        limit, cars=(8.0, 30.0), walkers=(0.0, 0.0), cyclists=(0.0, 0.0), changes=0.3,
        spread_m=110.0,
    )  # fmt: skip
    if draw.chance(0.12):
        plan = replace(plan, cars=(25.0, 60.0), speed_mps=(2.0, 9.0), flows=False)
    lanes = int(draw.rng.integers(2, 5))
    entries, exits = ((draw.chance(0.5), draw.chance(0.5)) for _ in range(2))
    add_motorway(draw, plan, lanes, limit, entries, exits)
    return plan


def ramps_of_motorway(draw: Draw) -> Plan:
    """Plan the place where ramps join a motorway of two or three lanes, and leave it."""
    limit = draw.limit(45.0, 60.0)
    plan = flowing(
        limit, cars=(8.0, 26.0), walkers=(0.0, 0.0), cyclists=(0.0, 0.0), changes=0.2,
        spread_m=80.0,
    )  # fmt: skip
    lanes = 2 if draw.chance(0.6) else 3
    add_motorway(draw, plan, lanes, limit, (True, True), (True, draw.chance(0.5)))
    plan.focus_m = np.array([draw.rng.choice([-1.0, 1.0]) * draw.within(80.0, 160.0), 0.0])
    return plan


def add_motorway(
    draw: Draw, plan: Plan, lanes: int, limit_mps: float,
    entries: tuple[bool, bool], exits: tuple[bool, bool],
) -> None:  # fmt: skip
    """Put a motorway into the middle, straight or with one bend."""
    profile = Profile(
        lanes, draw.within(3.5, 3.8), draw.within(3.0, 9.0), draw.within(1.8, 3.0), 0.0
    )
    bend = draw.within(-0.12, 0.12) if draw.chance(0.6) else 0.0
    shape = partial(ramps.motorway, entries=entries, exits=exits)
    road(
        draw, plan, profile, draw.within(580.0, 660.0), shape=shape, limit_mps=limit_mps,
        lean=(bend, -bend),
    )  # fmt: skip


def arterial(draw: Draw) -> Plan:
    """Plan a fast road of several lanes, and a crossing on it, mostly with lights."""
    limit = draw.limit(35.0, 50.0)
    plan = flowing(
        limit, cars=(8.0, 26.0), walkers=(0.0, 3.0), turning=0.25, changes=0.25, spread_m=80.0
    )
    main = Profile(
        2 if draw.chance(0.6) else 3, draw.within(3.2, 3.6),
        draw.within(1.6, 4.2) if draw.chance(0.7) else 0.0, draw.within(0.6, 1.8), 0.0,
    )  # fmt: skip
    side = replace(draw.street(), parking_m=0.0)
    control = SIGNAL if draw.chance(0.65) else STOP
    arms = [main, side, main, side] if draw.chance(0.65) else [main, side, main]
    major = () if control == SIGNAL else (0, 2)
    ends = star(
        draw, plan, arms, arm_m=(190.0, 250.0), control=control, major=major, crosswalks=0.35
    )
    add_fast_arms(draw, plan, ends, limit)
    return plan


def rural(draw: Draw) -> Plan:
    """Plan a fast road of one lane each way, with a side road."""
    limit = draw.limit(45.0, 60.0)
    plan = flowing(limit, cars=(4.0, 12.0), turning=0.2, spread_m=110.0)
    main = Profile(1, draw.within(3.4, 3.8), 0.0, draw.within(1.0, 2.6), 0.0)
    ends = star(
        draw, plan, [main, draw.side(), main], arm_m=(240.0, 310.0), control=STOP, major=(0, 2),
        crosswalks=0.0,
    )  # fmt: skip
    add_fast_arms(draw, plan, ends, limit)
    return plan


def add_fast_arms(draw: Draw, plan: Plan, ends: list[int], limit_mps: float) -> None:
    """Make every other arm of a crossing fast, and put crossings at some of their ends."""
    for link in plan.links[::2]:
        link.limit_mps = limit_mps
    plan.focus_m = np.array([draw.within(-90.0, 90.0), 0.0])
    surround(draw, plan, ends, reach_m=100.0, share=0.6, again=0.3, sides=False)
    limit_sides(plan)


# Each family, and the probability with which it is drawn among those of its kind.
TOWN: dict[str, tuple[Callable[[Draw], Plan], float]] = {
    "straight": (straight, 0.07),
    "curve": (curve, 0.06),
    "tee": (tee, 0.08),
    "cross": (cross, 0.08),
    "roundabout": (roundabout, 0.05),
    "merge": (merge, 0.04),
    "lane-drop": (lane_drop, 0.04),
    "driveways": (driveways, 0.06),
    "lot": (lot, 0.08),
    "signal": (signal, 0.10),
    "stop": (stop_signs, 0.07),
    "left": (unprotected_left, 0.07),
    "cut-in": (cut_in, 0.05),
    "occluded": (occluded, 0.03),
    "crosswalk": (crosswalk, 0.04),
    "narrow": (narrow, 0.04),
    "dead-end": (dead_end, 0.02),
    "levels": (levels, 0.02),
}
FAST: dict[str, tuple[Callable[[Draw], Plan], float]] = {
    "motorway": (motorway, 0.32),
    "ramps": (ramps_of_motorway, 0.18),
    "arterial": (arterial, 0.3),
    "rural": (rural, 0.2),
}
FAST_SHARE = 0.25  # of all scenes
FAMILIES = {**TOWN, **FAST}
