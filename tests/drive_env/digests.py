# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Digests of generated scenes, of placed vehicles and of windows, kept in digests.json: the same
version of the code makes the same bytes on every CPU. A last digest of each name holds many more
scenes, and what is drawn for yet more of them before any car is planned: plans, layouts, maps,
walkers and wishes. A new version renews the file:

    python -m tests.drive_env.digests
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from drive_env.generate import generate, lots
from drive_env.generate.families import FAMILIES, Draw
from drive_env.generate.flow import Demand, draw_wishes
from drive_env.generate.generate import generate_scene
from drive_env.generate.layouts import Ranges, draw_layout
from drive_env.generate.links import build
from drive_env.generate.lots import draw_lot, lot_scene
from drive_env.generate.place import place
from drive_env.generate.streets import draw_lights, populate, street_scene
from drive_env.scenes.json_scene import tree_of
from drive_env.scenes.schema import Scene
from drive_env.scenes.windows import windows_of

KEPT = Path(__file__).with_name("digests.json")
# Scenes of drive_env/generate/generate.py; vehicles that drive_env/generate/place.py places on
# their maps; windows of them (drive_env/scenes/windows.py); parking lots (generate/lots.py). The
# other names are families of streets.
GENERATED, PLACED, WINDOWS, LOTS = "generated", "placed", "windows", "lots"
NAMES = (*FAMILIES, GENERATED, PLACED, WINDOWS, LOTS)
SCENES, MORE = 2, 3  # per name, each with its own digest, or together; every other one is wide
PER_KM, FRAMES = 25.0, 30  # vehicles, and frames of a window
DRAWS = 100  # plans per family, or layouts
MAPS = 4  # plans per family that become streets


def digest_of(scene: Scene) -> str:
    """Return the first digits of the SHA-256 of a scene as JSON."""
    text = json.dumps(tree_of(scene), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def rounded(value: Any) -> Any:
    """Return a value of dataclasses, arrays and functions as JSON, with floats to a millionth."""
    if isinstance(value, np.ndarray):
        digits = np.round(value.astype(np.float64), 6) + 0.0  # no -0.0
        return [value.shape, hashlib.sha256(digits.tobytes()).hexdigest()[:16]]
    if isinstance(value, np.generic):
        return rounded(value.item())
    if isinstance(value, float):
        return round(value, 6) + 0.0
    if isinstance(value, dict):
        return {str(name): rounded(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(one) for one in value]
    if dataclasses.is_dataclass(value):
        return [rounded(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, partial):
        return [rounded(value.func), rounded(value.keywords)]
    return value.__name__ if callable(value) else value


def drawn_of(name: str) -> list[Any]:
    """Return digests of many scenes of a name, and what is drawn for more of them."""
    if name in (PLACED, WINDOWS):
        return [digest_of(scene) for scene in scenes_of(name, SCENES, MORE)]
    rngs = [np.random.Generator(np.random.PCG64([9, number])) for number in range(DRAWS)]
    ranges: tuple[Ranges, ...]
    if name == LOTS:
        ranges = (lots.NARROW, lots.WIDE)
        layouts = [draw_lot(rng, ranges[number % 2]) for number, rng in enumerate(rngs)]
        return [*layouts, *map(digest_of, scenes_of(name, SCENES, 4 * MORE))]
    if name == GENERATED:
        ranges = (generate.NARROW, generate.WIDE)
        kinds = tuple(generate.FAMILIES)
        layouts = [
            draw_layout(rng, kinds[number // 2 % len(kinds)], ranges[number % 2])
            for number, rng in enumerate(rngs)
        ]
        return [*layouts, *map(digest_of, scenes_of(name, SCENES, 4 * MORE))]
    plans = [
        FAMILIES[name][0](Draw(rng, number % 5 / 4, number % 2 == 1))
        for number, rng in enumerate(rngs)
    ]
    found: list[Any] = [plans]
    for number, (rng, plan) in enumerate(zip(rngs[:MAPS], plans, strict=False)):
        streets = build(rng, plan.nodes, plan.links)
        found.append(streets)
        if streets is None:
            continue
        empty = dataclasses.replace(plan, cars=(0.0, 0.0), cyclists=(0.0, 0.0), walkers=(9.0, 9.0))
        lights = draw_lights(rng, streets.groups)
        found += [lights, populate(rng, empty, streets, lights, number / MAPS)]
        ask = Demand(20, (5.0, 15.0), plan.focus_m, plan.spread_m, changes=0.5, flows=plan.flows)
        found.append(draw_wishes(rng, streets, ask, 20))
    return [*found, *map(digest_of, scenes_of(name, SCENES, MORE))]


def scenes_of(name: str, first: int, count: int) -> list[Scene]:
    """Return some scenes of a name."""
    numbered = [(number, number % 2 == 1) for number in range(first, first + count)]
    if name in FAMILIES:
        return [street_scene(2, number, wide=wide, family=name) for number, wide in numbered]
    if name == LOTS:
        return [lot_scene(3, number, wide=wide) for number, wide in numbered]
    scenes = [generate_scene(3, number, wide=wide) for number, wide in numbered]
    if name == PLACED:
        return [place(scene, 5, first + number, PER_KM) for number, scene in enumerate(scenes)]
    if name == WINDOWS:
        return [window for scene in scenes for window in windows_of(scene, FRAMES)]
    return scenes


def digests_of(name: str) -> list[str]:
    """Return the digests of the first scenes of a name, and that of many more."""
    digests = [digest_of(scene) for scene in scenes_of(name, 0, SCENES)]
    text = json.dumps(rounded(drawn_of(name)))
    return [*digests, hashlib.sha256(text.encode()).hexdigest()[:16]]


def kept() -> dict[str, list[str]]:
    """Return the digests that were kept, by name."""
    digests: dict[str, list[str]] = json.loads(KEPT.read_text())
    return digests


if __name__ == "__main__":
    lines = [f"  {json.dumps(name)}: {json.dumps(digests_of(name))}" for name in NAMES]
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
