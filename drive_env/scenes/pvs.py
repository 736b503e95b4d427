# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Scene files for users: `open_scenes` and `write_scenes`. docs/pvs.md describes the format.

from drive_env.scenes import open_scenes

for scene in open_scenes("train.pvs"):
    print(scene.name, scene.counts)
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from drive_env.scenes.compile import CompiledScene, CompileSettings, compile_scene
from drive_env.scenes.sceneset import SceneSet, write_scene_set
from drive_env.scenes.schema import Scene
from drive_env.scenes.stored import StoredScene

# The settings of the cell index under the driving env's defaults (drive_env/config.py).
DEFAULT_SETTINGS = CompileSettings((16, 8, 16), 50.0)


def open_scenes(path: Path | str) -> SceneSet:
    """Map a .pvs file; `scenes[i]` is one of its scenes. Takes milliseconds, whatever the size.

    Raises:
        SceneError: the file is missing, not a scene set, of another version, truncated or damaged.
    """
    return SceneSet(path)


def write_scenes(
    path: Path | str,
    scenes: Iterable[Scene | CompiledScene | StoredScene],
    settings: CompileSettings = DEFAULT_SETTINGS,
) -> None:
    """Write scenes to a .pvs file, atomically, and compile those that are not compiled yet.

    Args:
        settings: settings for scenes that are not compiled yet; compiled ones must have been
            compiled with equal settings.

    Raises:
        SceneError: there are no scenes, one cannot be compiled, or the file cannot be written.
    """
    compiled = [
        compile_scene(item, settings) if isinstance(item, Scene) else item for item in scenes
    ]
    write_scene_set(Path(path), compiled, settings)
