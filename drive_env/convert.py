# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Scene files of one format from those of another: which there are, what each becomes, and what gets lost on the way.

Runs in the command `puffer-scenes`, and in its helper processes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from drive_env.config import DriveConfig
from drive_env.prepare import settings_of
from drive_env.scenes.bin_scene import OBJECT_CODES, bin_bytes
from drive_env.scenes.compile import CompileSettings, compile_scene
from drive_env.scenes.controls import controls_of
from drive_env.scenes.json_scene import json_bytes
from drive_env.scenes.reader import read_scene, scene_files
from drive_env.scenes.sceneset import SceneSet, write_scene_set
from drive_env.scenes.schema import CONTROL_KINDS, OBJECT_TYPES, SEGMENT_TYPES, Scene
from drive_env.sources import COMPILED
from puffervec.errors import SceneError
from puffervec.host.folder import replace_file, said

FORMATS = ("json", "bin", "pvs")


@dataclass(frozen=True)
class Task:
    """One scene to convert. index: in a .pvs file; None: the file is one scene."""

    path: Path
    out: Path
    index: int | None = None


@dataclass(frozen=True)
class Rules:
    """How scenes are converted. layout: of .bin. settings: of .pvs."""

    format: str
    layout: str = "v2"
    settings: CompileSettings = field(default_factory=lambda: settings_of(DriveConfig()))


@dataclass(frozen=True)
class Converted:
    """What became of one scene. error: why there is none. dropped, simplified: how much of what."""

    task: Task
    error: str = ""
    dropped: Counter[str] = field(default_factory=Counter)
    simplified: Counter[str] = field(default_factory=Counter)


def files_of(paths: Sequence[Path]) -> list[tuple[Path, Path]]:
    """Return (file, its place below the folder that was given) of each scene file; a file that was given is its own name.

    Raises: SceneError: there is no such file or folder, or a folder without scenes.
    """
    found: list[tuple[Path, Path]] = []
    for path in paths:
        if path.is_dir():
            found += ((file, file.relative_to(path)) for file in scene_files(path))
        elif path.exists():
            found.append((path, Path(path.name)))
        else:
            raise SceneError(f"{path}: no such file or folder")
    return found


def scenes_in(path: Path) -> list[tuple[str, int | None]]:
    """Return (name, index) of each scene in a file; index None where the file is one scene. Raises: SceneError."""
    if path.suffix != COMPILED:
        return [(path.name, None)]
    return list(zip(SceneSet(path).names, range(1_000_000_000), strict=False))


def load(path: Path, index: int | None) -> Scene:
    """Read one scene. Raises: SceneError."""
    return read_scene(path) if index is None else SceneSet(path)[index].scene()


def tasks_of(files: Sequence[tuple[Path, Path]], out: Path, format: str) -> tuple[list[Task], list[Converted]]:
    """Return what is to be done, and what cannot be: .pvs files that cannot be opened.

    The folder below `out` has the names and subfolders of the source. Where two files would become one, their old endings stay
    in the names.
    """
    found: list[tuple[Path, int | None, Path]] = []
    refused = []
    for path, place in files:
        try:
            scenes = scenes_in(path)
        except SceneError as error:
            refused.append(Converted(Task(path, out / place), str(error).removeprefix(f"{path}: ")))
            continue
        for name, index in scenes:
            own = Path(name).name if Path(name).name not in ("", "..") else f"scene-{index}"
            found.append((path, index, place if len(scenes) == 1 else place.with_suffix("") / own))
    once = Counter(place.with_suffix(f".{format}") for _, _, place in found)
    tasks = []
    for path, index, place in found:
        target = place.with_suffix(f".{format}")
        alone = once[target] == 1
        tasks.append(Task(path, out / (target if alone else place.with_name(f"{place.name}.{format}")), index))
    return tasks, refused


def is_done(task: Task) -> bool:
    """True if the file is there already, and not older than its source. Files appear whole or not at all."""
    try:
        return task.out.stat().st_mtime_ns >= task.path.stat().st_mtime_ns
    except OSError:
        return False


def convert_one(task: Task, rules: Rules) -> Converted:
    """Convert one scene, in any process. Never raises for a scene that cannot be: the outcome says why."""
    try:
        scene = load(task.path, task.index)
        os.makedirs(task.out.parent, exist_ok=True)
        if rules.format == "pvs":
            compiled = compile_scene(scene, rules.settings)
            write_scene_set(task.out, [compiled], rules.settings)
        elif rules.format == "bin":
            replace_file(task.out, bin_bytes(scene, rules.layout))
        else:
            replace_file(task.out, json_bytes(scene))
        return Converted(task, "", *losses(scene, rules, task))
    except SceneError as error:
        return Converted(task, str(error).removeprefix(f"{task.path}: ").removeprefix(f"{task.path.name}: "))
    except OSError as error:
        return Converted(task, f"{error.filename or task.out}: cannot be written: {said(error)}")


def losses(scene: Scene, rules: Rules, task: Task) -> tuple[Counter[str], Counter[str]]:
    """Return what the format has no place for, and what it keeps with less detail."""
    dropped: Counter[str] = Counter()
    simplified: Counter[str] = Counter()
    controls = Counter(CONTROL_KINDS[item.kind] for item in controls_of(scene))
    linked = sum(road.links is not None for road in scene.roads)
    if rules.format == "bin":
        names = set(OBJECT_CODES.values())
        dropped["objects of other types"] = sum(OBJECT_TYPES[item.type] not in names for item in scene.objects)
        dropped["traffic lights"] = controls["traffic_light"]
        dropped["yield signs"] = controls["yield_sign"]
        dropped["links of lanes"] = linked
        simplified["subtypes of roads"] = sum(road.type in SEGMENT_TYPES for road in scene.roads)
    elif rules.format == "json":
        dropped["yield signs"] = controls["yield_sign"]
        dropped["links of lanes"] = linked
    else:
        (stored,) = SceneSet(task.out)
        before = sum(len(road.points_m) for road in scene.roads if road.type in SEGMENT_TYPES)
        simplified[f"points of roads (within {rules.settings.simplify_m:g} m)"] = before - int(
            stored.head["segment_count"].sum()
        )
        dropped["objects that are never present"] = len(scene.objects) - stored.object_count
    return +dropped, +simplified
