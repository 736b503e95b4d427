# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Counts and means of all that generated scenes hold, kept in figures.json: a generator of one
version goes on making the same.

Last bits differ from CPU to CPU, so numbers are compared to a thousandth. A new version renews the
file:

    python -m tests.drive_env.figures
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.generate.families import FAMILIES
from drive_env.generate.generate import generate_scene
from drive_env.generate.streets import street_scene
from drive_env.scenes.schema import ROAD_TYPES, Scene

KEPT = Path(__file__).with_name("figures.json")
# The name of the scenes of drive_env/generate/generate.py; others are families of streets
GENERATED = "generated"
GENERATED_SCENES = 8  # every other one wide


def kept(name: str) -> list[dict[str, list[float]]]:
    """Return the figures of a family's scenes."""
    found: list[dict[str, list[float]]] = json.loads(KEPT.read_text())[name]
    return found


def check(scene: Scene, wanted: dict[str, list[float]]) -> None:
    """Compare a scene with figures that were kept."""
    found = figures_of(scene)
    assert found.keys() == wanted.keys()
    for part in wanted:
        assert found[part] == (
            wanted[part] if part == "counts" else pytest.approx(wanted[part], rel=1e-3, abs=1e-4)
        ), part


def figures_of(scene: Scene) -> dict[str, list[float]]:
    """Return counts and means of roads, traffic and what controls it."""
    points = np.concatenate([road.points_m for road in scene.roads])
    middle = points.mean(axis=0)
    lights = list(scene.traffic_lights.values())
    frames = [(item, item.valid) for item in scene.objects]
    places = np.concatenate([item.position_m[valid] for item, valid in frames]) - middle
    moves = np.concatenate([item.velocity_mps[valid] for item, valid in frames])
    headings = np.concatenate([item.heading_rad[valid] for item, valid in frames])
    counts = [
        *(sum(road.type == kind for road in scene.roads) for kind in ROAD_TYPES),
        *(sum(item.type == kind for item in scene.objects) for kind in range(4)),
        sum(int(road.map_element_id) for road in scene.roads),
        sum(item.expert for item in scene.objects),
        *(
            sum(light["state"].count(colour) for light in lights)
            for colour in ("go", "caution", "stop", "unknown")
        ),
        scene.sdc,
        len(scene.to_predict),
        len(scene.of_interest),
        *scene.agent_counts,
    ]
    stops = np.array([[light[axis][0] for axis in "xyz"] for light in lights] or [middle]) - middle
    return {
        "counts": [int(one) for one in counts],
        "roads": [len(points), *np.abs(points - middle).mean(axis=0), *np.abs(np.diff(points, axis=0)).mean(axis=0)],
        "places": [len(places), *np.abs(places).mean(axis=0), float(np.hypot(*places.T[:2]).mean())],
        "moves": [*np.abs(moves).mean(axis=0), np.hypot(*moves.T).mean(), np.abs(np.diff(moves, axis=0)).mean()],
        "headings": [np.cos(headings).mean(), np.sin(headings).mean()],
        "sizes": [float(np.mean([getattr(item, side) for item in scene.objects]))
                  for side in ("length_m", "width_m", "height_m")],
        "goals": [float(np.mean([np.hypot(*(item.goal_m - middle)[:2]) for item in scene.objects]))],
        "lights": [*np.abs(stops).mean(axis=0)],
    }  # fmt: skip


def generated(number: int) -> Scene:
    """Return the scene of a number that is compared."""
    return generate_scene(3, number, wide=number % 2 == 1)


def _rounded(scene: Scene) -> dict[str, Any]:
    return {
        part: of if part == "counts" else [float(f"{one:.6g}") for one in of]
        for part, of in figures_of(scene).items()
    }


if __name__ == "__main__":
    made = {
        name: [_rounded(street_scene(2, seed, wide=seed == 1, family=name)) for seed in range(2)]
        for name in FAMILIES
    }
    made[GENERATED] = [_rounded(generated(number)) for number in range(GENERATED_SCENES)]
    lines = [
        f"{json.dumps(name)}: [\n  " + ",\n  ".join(map(json.dumps, both)) + "]"
        for name, both in made.items()
    ]
    KEPT.write_text("{" + ",\n".join(lines) + "}\n")
