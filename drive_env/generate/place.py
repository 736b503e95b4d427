# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Places vehicles at random on the lanes of a map, each with a speed and a goal along the lanes.

This makes scenes of maps without a log, and more scenes of the map of a log. Runs in the learner or
in its helper processes. All draws come from (seed, number), so equal arguments give the same scene.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drive_env.generate import exact
from drive_env.generate.traffic import draw_size
from drive_env.scenes.geometry import JOIN_M, box_crosses_segment, boxes_overlap
from drive_env.scenes.lanes import connect
from drive_env.scenes.schema import INVALID, VEHICLE, Floats, Scene, SceneObject
from drive_env.scenes.segments import Polyline
from puffervec.errors import SceneError

PLACE_VERSION = 1  # raise it when the same arguments give other scenes; part of the cache key
FRAMES = 91  # of a map that has no log
BIKE_LANE = 3  # `Road.map_element_id` of lanes for bicycles only
ATTEMPTS = 30  # places that are tried for each vehicle
TRIP_M = (30.0, 150.0)  # range of the way to the goal
LEAST_TRIP_M = 10.0  # least way to the goal where the lanes end early
UNKNOWN_LIMIT_MPS = 13.4  # 30 mph, where a lane has no speed limit
LATERAL_MPS2 = 2.4  # comfortable acceleration in bends
BEND_M = 20.0  # length of lane ahead whose bend limits the speed
EDGE_MARGIN_M = 0.3  # distance from road edges; above the bound of simplification
GAP_M, GAP_S = 2.0, 1.0  # distance to the next vehicle ahead: metres, and seconds of own speed
LEVEL_M = 3.0  # vehicles farther apart in height are on different levels


@dataclass(frozen=True)
class Lane:
    """A lane's centre line.

    Attributes:
        points_m: (n, 3), no two in a row at one place.
        arc_m: (n,) distance of each point from the start, in the plane.
        limit_mps: speed limit, 0 if unknown.
        exits: indices of the lanes that continue from its end.
    """

    points_m: Floats
    arc_m: Floats
    limit_mps: float
    exits: list[int]

    @property
    def length_m(self) -> float:
        """Return the length in the plane."""
        return float(self.arc_m[-1])

    def at(self, along_m: float) -> Floats:
        """Return the point (3,) at a distance from the start."""
        return np.array([np.interp(along_m, self.arc_m, axis) for axis in self.points_m.T])

    def heading_at(self, along_m: float) -> float:
        """Return the direction of the lane at a distance from the start, rad."""
        piece = int(np.clip(np.searchsorted(self.arc_m, along_m, "right"), 1, len(self.arc_m) - 1))
        step = self.points_m[piece] - self.points_m[piece - 1]
        return float(exact.arctan2(step[1], step[0]))


@dataclass(frozen=True)
class Vehicle:
    """A placed vehicle; its box has the half length and half width `half_m`."""

    position_m: Floats  # (3,) of the lane's centre line under its centre
    heading_rad: float
    speed_mps: float
    size_m: tuple[float, float, float]  # length, width, height
    goal_m: Floats  # (3,) on a lane's centre line

    @property
    def half_m(self) -> tuple[float, float]:
        """Return half the length and half the width."""
        return self.size_m[0] / 2, self.size_m[1] / 2


def place(scene: Scene, seed: int, number: int, per_km: float) -> Scene:
    """Return a scene with vehicles on the map of another one, in place of its objects.

    Vehicles are spread evenly over the length of all lanes except bicycle lanes. They neither touch
    each other nor road edges, keep a gap to the next one ahead, and their goals can be reached
    along the lanes. They are present in the first frame only, so all of them have to be agents.

    Args:
        scene: a map, with a log or without one.
        seed, number: seed and number of the draws; number is 0 for the first scene on this map.
        per_km: vehicles per km of lane.

    Raises:
        SceneError: the map has no lane, or no room for a vehicle.
    """
    lanes = lanes_of(scene)
    if not lanes:
        raise SceneError(f"{scene.name}: no vehicle can be placed: the map has no lanes for them")
    rng = np.random.Generator(np.random.PCG64([PLACE_VERSION, seed, number]))
    lengths = np.array([lane.length_m for lane in lanes])
    edges = edges_of(scene)
    wanted = max(1, round(per_km * lengths.sum() / 1000))
    placed: list[Vehicle] = []
    for _ in range(wanted):
        for _ in range(ATTEMPTS):
            vehicle = draw_vehicle(rng, lanes, lengths / lengths.sum())
            if vehicle is not None and has_room(vehicle, placed, edges):
                placed.append(vehicle)
                break
    if not placed:
        raise SceneError(
            f"{scene.name}: no vehicle can be placed: in {wanted * ATTEMPTS} attempts none had "
            "room between the road edges and a way of 10 m ahead of it"
        )
    frames = scene.frame_count if scene.frame_count > 1 else FRAMES
    without = {"vehicles without room": wanted - len(placed)} if len(placed) < wanted else {}
    return dataclasses.replace(
        scene,
        name=f"{Path(scene.name).stem}-placed-{seed}-{number:04d}",
        frame_count=frames,
        objects=tuple(object_of(item, index, frames) for index, item in enumerate(placed)),
        metadata={"sdc_track_index": 0, "tracks_to_predict": [], "objects_of_interest": []},
        left_out={**scene.left_out, **without},
    )


def lanes_of(scene: Scene) -> list[Lane]:
    """Return the lanes that vehicles use; exits to other lanes are left out."""
    polylines, arcs = [], []
    for road in scene.roads:
        if road.type != "lane" or road.map_element_id == BIKE_LANE:
            continue
        steps = exact.hypot(*np.diff(road.points_m[:, :2], axis=0).T)
        points = road.points_m[np.concatenate([[True], steps > JOIN_M])]
        if len(points) > 1:
            polylines.append(Polyline(road, points))
            arcs.append(np.cumsum([0.0, *exact.hypot(*np.diff(points[:, :2], axis=0).T)]))
    exits, _ = connect(scene.name, polylines)
    return [
        Lane(line.points_m, arc, line.road.links.speed_limit_mps if line.road.links else 0.0, after)
        for line, arc, after in zip(polylines, arcs, exits, strict=True)
    ]


def edges_of(scene: Scene) -> tuple[Floats, Floats]:
    """Return the ends of all segments of road edges, (S, 3) each."""
    edges = [road.points_m for road in scene.roads if road.type == "road_edge"]
    nothing = np.zeros((0, 3))
    return (
        np.concatenate([nothing, *(points[:-1] for points in edges)]),
        np.concatenate([nothing, *(points[1:] for points in edges)]),
    )


def draw_vehicle(rng: np.random.Generator, lanes: list[Lane], shares: Floats) -> Vehicle | None:
    """Draw a vehicle on a lane; None if the lanes end too soon after its place.

    Args:
        shares: (lanes,) probability of each lane.
    """
    number = int(rng.choice(len(lanes), p=shares))
    lane = lanes[number]
    along_m = float(rng.uniform(0.0, lane.length_m))
    size_m = draw_size(rng)
    speed_mps = float(rng.uniform(0.0, fastest_mps(lane, along_m)))
    goal_m, way_m = follow(rng, lanes, number, along_m, float(rng.uniform(*TRIP_M)))
    if way_m < LEAST_TRIP_M:
        return None
    return Vehicle(lane.at(along_m), lane.heading_at(along_m), speed_mps, size_m, goal_m)


def fastest_mps(lane: Lane, along_m: float) -> float:
    """Return the speed that the limit and the bend of the next metres of a lane allow."""
    limit_mps = lane.limit_mps or UNKNOWN_LIMIT_MPS
    end_m = min(along_m + BEND_M, lane.length_m)
    turn_rad = abs(
        (lane.heading_at(end_m) - lane.heading_at(along_m) + np.pi) % (2 * np.pi) - np.pi
    )
    curvature = turn_rad / max(end_m - along_m, 1.0)
    bend_mps = float(np.sqrt(LATERAL_MPS2 / curvature)) if curvature > 0 else np.inf
    return min(limit_mps, bend_mps)


def follow(
    rng: np.random.Generator, lanes: list[Lane], number: int, along_m: float, way_m: float
) -> tuple[Floats, float]:
    """Return the end of a random way, and the length of the way: less than way_m if lanes end."""
    left_m = way_m
    while left_m > lanes[number].length_m - along_m and lanes[number].exits:
        left_m -= lanes[number].length_m - along_m
        exits = lanes[number].exits
        number, along_m = exits[int(rng.integers(len(exits)))], 0.0
    room_m = min(left_m, lanes[number].length_m - along_m)
    return lanes[number].at(along_m + room_m), way_m - left_m + room_m


def has_room(vehicle: Vehicle, placed: list[Vehicle], edges: tuple[Floats, Floats]) -> bool:
    """Return whether a vehicle touches no road edge, and keeps its gap to all that are placed."""
    starts, ends = edges
    here = vehicle.position_m
    reach_m = sum(vehicle.half_m) + EDGE_MARGIN_M
    low, high = np.minimum(starts, ends) - reach_m, np.maximum(starts, ends) + reach_m
    near = ((low[:, :2] <= here[:2]) & (here[:2] <= high[:, :2])).all(axis=1)
    near &= np.abs(starts[:, 2] - here[2]) < LEVEL_M
    half_length_m, half_width_m = (half + EDGE_MARGIN_M for half in vehicle.half_m)
    if box_crosses_segment(
        here[None, :2], np.array([vehicle.heading_rad]), half_length_m, half_width_m,
        starts[near, :2], ends[near, :2],
    ).any():  # fmt: skip
        return False
    if not placed:
        return True
    others = boxes_of(placed)
    level = np.abs(np.array([item.position_m[2] for item in placed]) - here[2]) < LEVEL_M
    mine = boxes_of([vehicle])
    overlap = overlaps(with_gap(mine, [vehicle]), others) | overlaps(mine, with_gap(others, placed))
    return not bool((overlap & level).any())


Boxes = tuple[Floats, Floats, Floats, Floats]  # centres (n, 2), headings, half lengths and widths


def boxes_of(vehicles: list[Vehicle]) -> Boxes:
    """Return the boxes of vehicles."""
    return (
        np.array([item.position_m[:2] for item in vehicles]),
        np.array([item.heading_rad for item in vehicles]),
        np.array([item.half_m[0] for item in vehicles]),
        np.array([item.half_m[1] for item in vehicles]),
    )


def with_gap(boxes: Boxes, vehicles: list[Vehicle]) -> Boxes:
    """Return boxes that are longer ahead, by the gap of each vehicle."""
    centre_m, heading, half_length_m, half_width_m = boxes
    gap_m = GAP_M + GAP_S * np.array([item.speed_mps for item in vehicles])
    ahead = exact.ahead_of(heading)
    return centre_m + ahead * gap_m[:, None] / 2, heading, half_length_m + gap_m / 2, half_width_m


def overlaps(one: Boxes, others: Boxes) -> NDArray[np.bool_]:
    """Return (n,): whether each pair of boxes overlaps; a single box is compared with all."""
    return boxes_overlap(others[0] - one[0], one[1], others[1], one[2:], others[2:])


def object_of(vehicle: Vehicle, number: int, frames: int) -> SceneObject:
    """Return a vehicle as an object that is present in frame 0 only."""
    length_m, width_m, height_m = vehicle.size_m
    up = np.array([0.0, 0.0, height_m / 2])
    position_m, velocity_mps = np.full((frames, 3), INVALID), np.full((frames, 2), INVALID)
    heading_rad, valid = np.full(frames, INVALID), np.zeros(frames, np.bool_)
    position_m[0], heading_rad[0], valid[0] = vehicle.position_m + up, vehicle.heading_rad, True
    ahead = exact.ahead_of(vehicle.heading_rad)
    velocity_mps[0] = vehicle.speed_mps * ahead
    return SceneObject(
        type=VEHICLE,
        id=number,
        width_m=width_m,
        length_m=length_m,
        height_m=height_m,
        expert=False,
        position_m=position_m,
        velocity_mps=velocity_mps,
        heading_rad=heading_rad,
        valid=valid,
        goal_m=vehicle.goal_m + up,
    )
