# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Generates scenes of the size of real ones: streets with traffic, parked cars and pedestrians.

Traffic stops, yields and waits. Runs in the learner or its helper processes. Scene i depends only
on (seed, i, wide, family). The log of each vehicle keeps clear of all others, of walkers and of
kerbs, and its goal is where the log ends, so a car that follows its log scores 1.00.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drive_env.generate import exact
from drive_env.generate.families import FAMILIES, FAST, FAST_SHARE, TOWN, Draw, Plan
from drive_env.generate.flow import (
    Actor,
    Demand,
    cut_log,
    draw_wishes,
    meets,
    plan_traffic,
    standing_actor,
)
from drive_env.generate.layouts import arc_length, headings_of
from drive_env.generate.links import build
from drive_env.generate.network import Crossing, Streets, Tag
from drive_env.generate.ramps import ease
from drive_env.generate.traffic import FRAMES, draw_size, touches
from drive_env.generate.walkers import ACROSS, draw_walkers, walk_across
from drive_env.scenes.controls import WORDS
from drive_env.scenes.geometry import box_crosses_segment, simplify
from drive_env.scenes.schema import (
    CYCLIST,
    FRAME_S,
    GREEN,
    INVALID,
    MOVE_M,
    RED,
    VEHICLE,
    YELLOW,
    Floats,
    LaneLinks,
    Road,
    Scene,
    SceneObject,
)
from puffervec.errors import SceneError

STREETS_VERSION = 3  # raise it when seeds give different scenes; part of the cache key
SEED_VERSION = 2  # part of the seed; version 3 kept it so that many scenes stayed the same
ATTEMPTS = 200
LEAST_AGENTS = 3
YELLOW_S, ALL_RED_S = 3.0, 1.0
SHOULDER_M = 0.5  # distance of walkers from cars while the cars are planned
# Share of parked cars and of walkers on pavements that are in the log for only part of the time.
HIDDEN_SHARE = 0.45


def street_scene(seed: int, index: int, wide: bool = False, family: str | None = None) -> Scene:
    """Generate one scene.

    Args:
        seed, index: 0 or more.
        wide: draw from wider ranges.
        family: one of FAMILIES; None: drawn.

    Raises:
        SceneError: seed or index is negative, or there is no such family.
    """
    if seed < 0 or index < 0:
        raise SceneError(f"seed {seed} and index {index} must be 0 or more")
    if family is not None and family not in FAMILIES:
        raise SceneError(f"family is {family!r}; it must be one of {', '.join(FAMILIES)}")
    key = [SEED_VERSION, seed, index, int(wide)]
    drawn, difficulty = draw_family(np.random.Generator(np.random.PCG64(key)))
    chosen = family if family is not None else drawn
    for attempt in range(ATTEMPTS):
        rng = np.random.Generator(np.random.PCG64([*key, tuple(FAMILIES).index(chosen), attempt]))
        plan = FAMILIES[chosen][0](Draw(rng, difficulty, wide))
        streets = build(rng, plan.nodes, plan.links)
        if streets is None:
            continue
        lights = draw_lights(rng, streets.groups)
        actors = populate(rng, plan, streets, lights, difficulty)
        if sum(is_agent(item) for item in actors) >= LEAST_AGENTS:
            name = f"{'held' if wide else 'street'}-{chosen}-{seed}-{index:04d}.json"
            return scene_of(
                rng,
                name,
                plan,
                streets,
                lights,
                actors,
                {"family": chosen, "difficulty": round(difficulty, 3)},
            )
    raise AssertionError(
        f"no scene with {LEAST_AGENTS} agents in {ATTEMPTS} attempts ({chosen}, seed {seed}, "
        f"index {index})"
    )


def draw_family(rng: np.random.Generator) -> tuple[str, float]:
    """Draw the family and the difficulty of a scene.

    Fast families were added later. They replace some of the others by the last draw, so that all
    other scenes stayed the same.
    """
    family, difficulty = _draw_name(rng, TOWN), float(rng.random())
    return _draw_name(rng, FAST) if rng.random() < FAST_SHARE else family, difficulty


def _draw_name(rng: np.random.Generator, families: Mapping[str, tuple[object, float]]) -> str:
    shares = np.array([share for _, share in families.values()])
    return tuple(families)[int(rng.choice(len(families), p=shares / shares.sum()))]


def is_agent(actor: Actor) -> bool:
    """Return whether the env would control an actor by default."""
    return actor.kind == VEHICLE and actor.first == 0 and actor.displacement_m >= MOVE_M + 0.5


def draw_lights(rng: np.random.Generator, groups: int) -> NDArray[np.uint8]:
    """Return the state of each group of lights in each frame, (groups, FRAMES).

    The two groups of a crossing take turns.
    """
    states = np.full((groups, FRAMES), RED, dtype=np.uint8)
    time_s = FRAME_S * np.arange(FRAMES)
    for first in range(0, groups, 2):
        green = rng.uniform(6.0, 18.0, 2)
        cycle = float(green.sum() + 2 * (YELLOW_S + ALL_RED_S))
        at = (time_s + rng.uniform(0.0, cycle)) % cycle
        for group, begin in ((first, 0.0), (first + 1, float(green[0]) + YELLOW_S + ALL_RED_S)):
            length = float(green[group - first])
            states[group, (at >= begin) & (at < begin + length)] = GREEN
            states[group, (at >= begin + length) & (at < begin + length + YELLOW_S)] = YELLOW
    return states


def populate(
    rng: np.random.Generator,
    plan: Plan,
    streets: Streets,
    lights: NDArray[np.uint8],
    difficulty: float,
) -> list[Actor]:
    """Return all actors: parked cars, walkers, cyclists and cars, planned in this order."""
    red = lights == RED
    edges = edges_of(streets)
    amount = {
        name: _draw_amount(rng, getattr(plan, name), difficulty)
        for name in ("cars", "cyclists", "walkers")
    }
    parked = park(rng, plan, streets, edges[0])
    walkers = draw_walkers(rng, streets, amount["walkers"], red, plan.focus_m, plan.crossing)
    if plan.hidden:
        walkers = [*hide(rng, streets, parked, red), *walkers]
    walkers = keep_clear(walkers, parked)
    low, high = plan.speed_mps
    demand = Demand(
        amount["cars"], (low, low + (0.7 + 0.3 * difficulty) * (high - low)),
        plan.focus_m, plan.spread_m, plan.turning,
        plan.changes, left=plan.left, flows=plan.flows,
        halts=0.0 if plan.flows else Demand.halts,
    )  # fmt: skip
    wishes = draw_wishes(rng, streets, demand, amount["cars"])
    wishes += draw_wishes(rng, streets, demand, amount["cyclists"], CYCLIST)
    wider = [
        dataclasses.replace(
            item, length_m=item.length_m + SHOULDER_M, width_m=item.width_m + SHOULDER_M
        )
        for item in walkers
    ]
    cars = plan_traffic(rng, streets, wishes, red, [*parked, *wider], edges)
    return [*cars, *(_hide_in_part(rng, item) for item in (*parked, *walkers))]


def keep_clear(walkers: list[Actor], parked: list[Actor]) -> list[Actor]:
    """Return the walkers whose logs touch neither a parked car nor an earlier walker."""
    clear: list[Actor] = []
    for walker in walkers:
        near = [item for item in (*parked, *clear) if meets(item.bounds_m, walker.bounds_m)]
        if not touches(walker, list(near)):
            clear.append(walker)
    return clear


def _draw_amount(rng: np.random.Generator, ends: tuple[float, float], difficulty: float) -> int:
    """Draw a number from a range; high difficulty makes high numbers more likely."""
    low, high = ends
    return round(low + (high - low) * float(rng.random() ** (1.5 - difficulty)))


def _hide_in_part(rng: np.random.Generator, actor: Actor) -> Actor:
    """Return an actor that may be in the log for only part of the time, as if others hid it.

    Actors on the road stay in the log.
    """
    if actor.turn == ACROSS or rng.random() > HIDDEN_SHARE:
        return actor
    length = int(rng.integers(8, 80))
    first = int(rng.integers(0, FRAMES - length))
    return cut_log(actor, first, first + length)


def edges_of(streets: Streets) -> dict[int, tuple[Floats, Floats]]:
    """Return starts and ends of the road edges, (S, 2) each, by level."""
    ends = {}
    for level in {0, *streets.levels}:
        edges = [
            simplify(piece.points_m, 0.02)
            for piece, own in zip(streets.pieces, streets.levels, strict=True)
            if piece.type == "road_edge" and own == level
        ]
        none = [np.zeros((0, 2))]
        ends[level] = (
            np.concatenate([*none, *(p[:-1] for p in edges)]),
            np.concatenate([*none, *(p[1:] for p in edges)]),
        )
    return ends


def park(
    rng: np.random.Generator, plan: Plan, streets: Streets, edges: tuple[Floats, Floats]
) -> list[Actor]:
    """Return parked cars: at a share of the kerb places, and in yards that no street crosses."""
    share, sight = rng.uniform(*plan.parked), rng.uniform(*plan.sight_m)
    places = [(*place, False) for place in streets.parking if rng.random() < share]
    places += [(*place, True) for place in streets.yards]
    lanes = np.concatenate([lane.points_m[::4] for lane in streets.lanes if lane.level == 0])
    parked: list[Actor] = []
    for x, y, heading, behind in places:
        if exact.hypot(x - plan.focus_m[0], y - plan.focus_m[1]) > sight:
            continue
        length, width, height = draw_size(rng)
        size = (
            (min(length, 4.9), min(width, 1.9), height) if not behind else (length, width, height)
        )
        place = (x, y, heading + float(rng.normal(0.0, 0.02)))
        car = standing_actor(place, size)
        centre = np.array([place[:2]])
        if behind and exact.hypot(*(lanes - centre).T).min() < 4.5:
            continue
        if (
            box_crosses_segment(centre, np.array([place[2]]), length / 2, width / 2, *edges).any()
            and behind
        ):
            continue
        if not any(
            exact.hypot(car.x_m[0] - other.x_m[0], car.y_m[0] - other.y_m[0]) < 7.5
            and touches(car, [other])
            for other in parked
        ):
            parked.append(car)
    return parked


def hide(
    rng: np.random.Generator, streets: Streets, parked: list[Actor], red: NDArray[np.bool_]
) -> list[Actor]:
    """Return a pedestrian who steps onto the road in front of a parked car, which becomes a van."""
    lane = streets.lanes[
        max(
            range(len(streets.lanes)),
            key=lambda n: float(arc_length(streets.lanes[n].points_m)[-1]),
        )
    ]
    near = [
        (float(exact.hypot(*(lane.points_m - [car.x_m[0], car.y_m[0]]).T).min()), number)
        for number, car in enumerate(parked)
    ]
    close = [number for distance, number in near if distance < 5.0]
    if not close:
        return []
    number = close[int(rng.integers(len(close)))]
    van = dataclasses.replace(parked[number], height_m=2.4, width_m=1.9)
    parked[number] = van
    at = int(exact.hypot(*(lane.points_m - [van.x_m[0], van.y_m[0]]).T).argmin())
    heading = float(headings_of(lane.points_m)[at])
    ahead, left = (
        exact.ahead_of(heading),
        exact.left_of(heading),
    )
    place = np.array([van.x_m[0], van.y_m[0]]) - (van.length_m / 2 + 0.9) * ahead
    walker = walk_across(
        rng,
        Crossing(np.stack([place - 1.6 * left, place + 10.0 * left])),
        red,
        start_s=float(rng.uniform(0.5, 4.5)),
    )
    return [] if walker is None else [walker]


# ---- the scene -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frame:
    """Transform from the streets' own coordinates to the scene's.

    It rotates, shifts, and puts everything on a slope.
    """

    turn_rad: float
    shift_m: Floats
    slope: Floats  # (2,) rise per metre
    over_m: float

    def place(self, points_m: Floats, level: int = 0) -> Floats:
        """Return points (n, 3) for points (n, 2), rounded to a tenth of a millimetre."""
        plane = exact.rotate(points_m, self.turn_rad) + self.shift_m
        height = exact.dot(points_m, self.slope)
        if level:
            height = height + self.over_m * (1.0 - ease(exact.hypot(*points_m.T), 25.0, 100.0))
        return np.asarray(np.round(np.column_stack([plane, height]), 4))

    def direction(self, heading_rad: Floats) -> Floats:
        """Return headings in [-pi, pi)."""
        return np.asarray(np.round((heading_rad + self.turn_rad + np.pi) % (2 * np.pi) - np.pi, 5))


def scene_of(
    rng: np.random.Generator, name: str, plan: Plan, streets: Streets,
    lights: NDArray[np.uint8], actors: list[Actor],
    notes: dict[str, object],
) -> Scene:  # fmt: skip
    """Return streets and actors as a scene."""
    frame = Frame(
        float(rng.uniform(-np.pi, np.pi)),
        rng.uniform(-4000.0, 4000.0, 2),
        rng.normal(0.0, 0.006, 2),
        plan.over,
    )
    order = rng.permutation(len(actors))
    objects = tuple(object_of(actors[index], number, frame) for number, index in enumerate(order))
    pieces, links = zip(streets.pieces, streets.levels, strict=True), links_of(streets)
    roads = tuple(
        Road(
            piece.type,
            piece.map_element_id,
            number,
            frame.place(piece.points_m, level),
            links.get(number),
        )
        for number, (piece, level) in enumerate(pieces)
    )
    agents = [number for number, index in enumerate(order) if is_agent(actors[index])]
    metadata = {
        "sdc_track_index": agents[0],
        "tracks_to_predict": [],
        "objects_of_interest": [],
        **notes,
    }
    return Scene(
        name,
        f"{int(rng.integers(2**63)):016x}",
        FRAMES,
        objects,
        roads,
        light_trees(streets, lights, roads),
        metadata,
    )


def links_of(streets: Streets) -> dict[int, LaneLinks]:
    """Return speed limits and connections of the lanes by map element; empty if none has a limit.

    If any lane of a scene has links, the compiler does not infer connections of the other lanes.
    """
    if not any(lane.limit_mps for lane in streets.lanes):
        return {}
    starts, ends = tags_of(streets, "start"), tags_of(streets, "end")
    return {
        lane.piece: LaneLinks(
            exits=tuple(starts.get(lane.end, ())),
            entries=tuple(ends.get(lane.start, ())),
            speed_limit_mps=round(lane.limit_mps, 4),
        )
        for lane in streets.lanes
    }


def tags_of(streets: Streets, side: str) -> dict[Tag, list[int]]:
    """Return the map elements of the lanes that start or end at each tag."""
    pieces: dict[Tag, list[int]] = {}
    for lane in streets.lanes:
        pieces.setdefault(getattr(lane, side), []).append(lane.piece)
    return pieces


def light_trees(
    streets: Streets, lights: NDArray[np.uint8], roads: tuple[Road, ...]
) -> dict[str, object]:
    """Return the traffic lights by lane, as in the JSON schema.

    Each stands at the start of its lane.
    """
    trees: dict[str, object] = {}
    for lane in streets.lanes:
        if lane.group >= 0:
            x, y, z = roads[lane.piece].points_m[0].tolist()
            words = [WORDS[int(state)] for state in lights[lane.group]]
            axes = {axis: [value] * FRAMES for axis, value in zip("xyz", (x, y, z), strict=True)}
            trees[str(lane.piece)] = {"state": words, **axes, "time_index": list(range(FRAMES))}
    return trees


def object_of(actor: Actor, number: int, frame: Frame) -> SceneObject:
    """Return one actor as an object of a scene."""
    valid = (np.arange(FRAMES) >= actor.first) & (np.arange(FRAMES) <= actor.last)
    height_m = round(actor.height_m, 3)
    place = frame.place(np.stack([actor.x_m, actor.y_m], axis=-1), actor.level)
    place[:, 2] += height_m / 2
    speed = exact.hypot(actor.vx_mps, actor.vy_mps)
    course = exact.arctan2(actor.vy_mps, actor.vx_mps) + frame.turn_rad
    velocity = np.round(
        np.stack([speed * exact.cos(course), speed * exact.sin(course)], axis=-1), 4
    )
    heading = frame.direction(actor.heading_rad)
    return SceneObject(
        type=actor.kind, id=number, width_m=round(actor.width_m, 3),
        length_m=round(actor.length_m, 3), height_m=height_m,
        expert=actor.expert, position_m=np.where(valid[:, None], np.round(place, 4), INVALID),
        velocity_mps=np.where(valid[:, None], velocity, INVALID),
        heading_rad=np.where(valid, heading, INVALID),
        valid=valid, goal_m=np.round(place[actor.last], 4),
    )  # fmt: skip
