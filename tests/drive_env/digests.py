# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Digests of generated scenes, of placed vehicles and of windows, kept in digests.json: the same
version of the code makes the same bytes on every CPU. A new version renews the file:

    python -m tests.drive_env.digests
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from drive_env.generate.families import FAMILIES
from drive_env.generate.generate import generate_scene
from drive_env.generate.place import place
from drive_env.generate.streets import street_scene
from drive_env.scenes.json_scene import tree_of
from drive_env.scenes.schema import Scene
from drive_env.scenes.windows import windows_of

KEPT = Path(__file__).with_name("digests.json")
# Scenes of drive_env/generate/generate.py; vehicles that drive_env/generate/place.py places on
# their maps; windows of them (drive_env/scenes/windows.py). The other names are families of
# streets.
GENERATED, PLACED, WINDOWS = "generated", "placed", "windows"
NAMES = (*FAMILIES, GENERATED, PLACED, WINDOWS)
SCENES = 2  # per name; the second is wide
PER_KM, FRAMES = 25.0, 30  # vehicles, and frames of a window


def digest_of(scene: Scene) -> str:
    """Return the first digits of the SHA-256 of a scene as JSON."""
    text = json.dumps(tree_of(scene), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def scenes_of(name: str) -> list[Scene]:
    """Return the scenes of a name."""
    numbered = [(number, number % 2 == 1) for number in range(SCENES)]
    if name in FAMILIES:
        return [street_scene(2, number, wide=wide, family=name) for number, wide in numbered]
    scenes = [generate_scene(3, number, wide=wide) for number, wide in numbered]
    if name == PLACED:
        return [place(scene, 5, number, PER_KM) for number, scene in enumerate(scenes)]
    if name == WINDOWS:
        return [window for scene in scenes for window in windows_of(scene, FRAMES)]
    return scenes


def digests_of(name: str) -> list[str]:
    """Return the digests of the scenes of a name."""
    return [digest_of(scene) for scene in scenes_of(name)]


def kept() -> dict[str, list[str]]:
    """Return the digests that were kept, by name."""
    digests: dict[str, list[str]] = json.loads(KEPT.read_text())
    return digests


if __name__ == "__main__":
    lines = [f"  {json.dumps(name)}: {json.dumps(digests_of(name))}" for name in NAMES]
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
