# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Digests of generated scenes, kept in digests.json: a version of a generator makes the same bytes
on every CPU. A new version renews the file:

    python -m tests.drive_env.digests
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from drive_env.generate.families import FAMILIES
from drive_env.generate.generate import generate_scene
from drive_env.generate.streets import street_scene
from drive_env.scenes.json_scene import tree_of
from drive_env.scenes.schema import Scene

KEPT = Path(__file__).with_name("digests.json")
# The name of the scenes of drive_env/generate/generate.py; others are families of streets
GENERATED = "generated"
NAMES = (*FAMILIES, GENERATED)
SCENES = 2  # per name; the second is wide


def digest_of(scene: Scene) -> str:
    """Return the first digits of the SHA-256 of a scene as JSON."""
    text = json.dumps(tree_of(scene), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digests_of(name: str) -> list[str]:
    """Return the digests of the scenes of a name."""
    wide = [number % 2 == 1 for number in range(SCENES)]
    return [
        digest_of(
            generate_scene(3, number, wide=each)
            if name == GENERATED
            else street_scene(2, number, wide=each, family=name)
        )
        for number, each in enumerate(wide)
    ]


def kept() -> dict[str, list[str]]:
    """Return the digests that were kept, by name."""
    digests: dict[str, list[str]] = json.loads(KEPT.read_text())
    return digests


if __name__ == "__main__":
    lines = [f"  {json.dumps(name)}: {json.dumps(digests_of(name))}" for name in NAMES]
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
