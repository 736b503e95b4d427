# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Generates any number of driving scenes from a seed, among them the env's 200 default scenes.

The 100 held-out scenes have another seed and wider ranges, and are not trained on by default. Runs
in the learner or in its helper processes on first use (the compiled result is cached), or as
`python -m drive_env.generate.generate --out DIR --count N --seed S`, which writes JSON of the
current schema. Scene i depends only on (seed, i, wide), not on how many are generated.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from drive_env.generate import exact
from drive_env.generate.layouts import Layout, Ranges, draw_layout
from drive_env.generate.traffic import PARKED, Car, plan_cars
from drive_env.scenes.json_scene import scene_from_tree
from drive_env.scenes.schema import INVALID, Floats, Scene
from puffervec.errors import PuffervecError, SceneError
from puffervec.system.cache import write_atomically

GENERATOR_VERSION = 3  # raise it when seeds give different scenes; part of the cache key
SEED_VERSION = 2  # part of the seed: scenes of version 3 differ in their last bits only
DEFAULT_COUNT, DEFAULT_SEED = 200, 1
HELD_OUT_COUNT, HELD_OUT_SEED = 100, 1_000_003
MIN_CARS = 4
ATTEMPTS = 100
FAMILIES = {"straight": 0.12, "curve": 0.20, "tee": 0.32, "cross": 0.36}  # with probabilities
NARROW = Ranges()
WIDE = Ranges(
    lane_width_m=(3.2, 4.0),
    shoulder_m=(0.8, 2.4),
    median_m=(1.4, 4.0),
    max_lanes=3,
    radius_m=(22.0, 140.0),
    skew_rad=0.3,
    corner_m=(5.0, 11.0),
    arm_m=(65.0, 110.0),
    road_m=(130.0, 230.0),
    speed_mps=(5.5, 15.0),
    cars=(5, 16),
)


def generate_scene(seed: int, index: int, wide: bool = False) -> Scene:
    """Generate one scene and check it like one read from a file."""
    return checked(generate_tree(seed, index, wide))


def generate_tree(seed: int, index: int, wide: bool = False) -> dict[str, Any]:
    """Generate one scene as JSON-like data of the current schema (generation C).

    Args:
        seed: 0 or more.
        index: number of the scene under this seed.
        wide: draw from the wider ranges.

    Raises:
        SceneError: seed or index is negative.
    """
    key, ranges = key_of(seed, index, wide), WIDE if wide else NARROW
    family = draw_family(np.random.Generator(np.random.PCG64(key)))
    name = f"{'held' if wide else 'gen'}-{family}-{seed}-{index:04d}.json"
    return plan_tree(
        key, functools.partial(draw_layout, family=family, ranges=ranges), ranges, name
    )


def key_of(seed: int, index: int, wide: bool) -> list[int]:
    """Return the seed of a scene's draws. Raises: SceneError: seed or index is negative."""
    if seed < 0 or index < 0:
        raise SceneError(f"seed {seed} and index {index} must be 0 or more")
    return [SEED_VERSION, seed, index, int(wide)]


def plan_tree(
    key: list[int], draw: Callable[[np.random.Generator], Layout], ranges: Ranges, name: str
) -> dict[str, Any]:
    """Draw layouts until one has room for enough cars, and return it with its traffic."""
    for attempt in range(ATTEMPTS):
        rng = np.random.Generator(np.random.PCG64([*key, attempt]))
        layout = draw(rng)
        cars = plan_cars(rng, layout, ranges)
        if (
            sum(car.turn != PARKED and car.first == 0 and not car.expert for car in cars)
            >= MIN_CARS
        ):
            return scene_tree(rng, layout, cars, name)
    raise AssertionError(f"{name}: no scene with {MIN_CARS} cars in {ATTEMPTS} attempts")


def checked(tree: dict[str, Any]) -> Scene:
    """Return a generated scene, checked like one read from a file."""
    return dataclasses.replace(scene_from_tree(tree, tree["name"], tree["name"]), generated=True)


def draw_family(rng: np.random.Generator) -> str:
    """Draw the kind of road, once per scene.

    If retries drew it again, kinds with little room for cars would become rare.
    """
    names = tuple(FAMILIES)
    return names[int(rng.choice(len(names), p=tuple(FAMILIES.values())))]


def scene_tree(
    rng: np.random.Generator, layout: Layout, cars: list[Car], name: str
) -> dict[str, Any]:
    """Return layout and cars in a world frame as data of the format.

    Values are rounded to a tenth of a millimetre.
    """
    turn_rad, shift = float(rng.uniform(-np.pi, np.pi)), rng.uniform(-4000.0, 4000.0, 2)

    def world(points: Floats) -> Floats:
        return np.asarray(np.round(exact.rotate(points, turn_rad) + shift, 4))

    order = rng.permutation(len(cars))
    objects = [
        object_tree(cars[index], int(number), world, turn_rad) for number, index in enumerate(order)
    ]
    roads = [
        {
            "geometry": [{"x": x, "y": y, "z": 0.0} for x, y in world(piece.points_m).tolist()],
            "type": piece.type,
            "map_element_id": piece.map_element_id,
            "id": number,
        }
        for number, piece in enumerate(layout.pieces)
    ]
    movers = [index for index, item in enumerate(objects) if cars[order[index]].turn != PARKED]
    return {
        "name": name,
        "scenario_id": f"{int(rng.integers(2**63)):016x}",
        "objects": objects,
        "roads": roads,
        "tl_states": {},
        "metadata": {
            "sdc_track_index": movers[0] if movers else 0,
            "tracks_to_predict": [],
            "objects_of_interest": [],
        },
    }


def object_tree(car: Car, number: int, world: Any, turn_rad: float) -> dict[str, Any]:
    """Return one car as data of the format; absent frames hold the format's -10000."""
    frames = len(car.x_m)
    valid = (np.arange(frames) >= car.first) & (np.arange(frames) <= car.last)
    position = np.where(valid[:, None], world(np.stack([car.x_m, car.y_m], axis=-1)), INVALID)
    velocity = exact.rotate(np.stack([car.vx_mps, car.vy_mps], axis=-1), turn_rad)
    velocity = np.where(valid[:, None], np.round(velocity, 4), INVALID)
    heading = (car.heading_rad + turn_rad + np.pi) % (2 * np.pi) - np.pi
    heading = np.where(valid, np.round(heading, 5), INVALID)
    height_m = round(car.height_m, 3)
    height = np.where(
        valid, height_m / 2, INVALID
    ).tolist()  # of the centre; the road is at height 0
    return {
        "position": [
            {"x": x, "y": y, "z": z} for (x, y), z in zip(position.tolist(), height, strict=True)
        ],
        "velocity": [{"x": x, "y": y} for x, y in velocity.tolist()],
        "heading": heading.tolist(),
        "valid": valid.tolist(),
        "width": round(car.width_m, 3),
        "length": round(car.length_m, 3),
        "height": height_m,
        "goalPosition": dict(zip("xyz", (*position[car.last].tolist(), height_m / 2), strict=True)),
        "type": "vehicle",
        "id": number,
        "mark_as_expert": car.expert,
    }


def main(arguments: list[str] | None = None) -> int:
    """Write generated scenes as JSON files and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m drive_env.generate.generate", description=__doc__
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for the JSON files; created if missing"
    )
    parser.add_argument("--count", type=int, default=DEFAULT_COUNT, help="number of scenes")
    parser.add_argument(
        "--seed", type=int, default=DEFAULT_SEED, help="0 or more; same seed, same scenes"
    )
    parser.add_argument(
        "--wide", action="store_true", help="draw from the wider ranges of the held-out scenes"
    )
    options = parser.parse_args(arguments)
    try:
        if options.count < 1:
            raise SceneError(f"--count is {options.count}; it must be at least 1")
        for index in range(options.count):
            tree = generate_tree(options.seed, index, options.wide)
            write_atomically(
                options.out / tree["name"], [json.dumps(tree, separators=(",", ":")).encode()]
            )
    except PuffervecError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{options.count} scenes written to {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
