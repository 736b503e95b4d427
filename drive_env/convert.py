# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Scene files of one format from those of another: which there are, what each becomes, and what
gets lost on the way.

Runs in the command `puffer-scenes`, and in its helper processes.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from drive_env.config import DriveConfig
from drive_env.losses import losses
from drive_env.prepare import numbers_of, same_index, settings_of
from drive_env.scenes.bin_scene import bin_bytes, has_layout
from drive_env.scenes.compile import CompileSettings, compile_scene, reindexed
from drive_env.scenes.json_scene import json_bytes
from drive_env.scenes.reader import read_bytes, read_scene, scene_files
from drive_env.scenes.sceneset import SceneSet, is_scene_set, write_scene_set
from drive_env.scenes.schema import Scene
from drive_env.sources import opened
from puffervec.errors import SceneError
from puffervec.system.folder import replace_file, said

FORMATS = ("json", "bin", "pvs")


@dataclass(frozen=True)
class Given:
    """A scene file. place: below the folder that was given; of a file that was given, its name.
    folder: name of that folder.
    """

    path: Path
    place: Path
    folder: str


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


def files_of(paths: Sequence[Path]) -> list[Given]:
    """Return the scene files that are meant, each once.

    Raises: SceneError: there is no such file or folder, or a folder without scenes.
    """
    found: dict[str, Given] = {}
    for path in paths:
        if not path.exists():
            raise SceneError(f"{path}: no such file or folder")
        folder = path if path.is_dir() else path.parent
        for file in scene_files(path) if path.is_dir() else [path]:
            given = Given(file, file.relative_to(folder), Path(os.path.abspath(folder)).name)
            found.setdefault(os.path.abspath(file), given)
    return list(found.values())


def scenes_in(path: Path) -> list[tuple[str, int | None]]:
    """Return (name, index) of each scene in a file; index None where the file is one scene. Raises:
    SceneError.
    """
    if not is_scene_set(path):
        return [(path.name, None)]
    return list(zip(opened(path).names, range(1_000_000_000), strict=False))


def load(path: Path, index: int | None) -> Scene:
    """Read one scene. Raises: SceneError."""
    return read_scene(path) if index is None else opened(path)[index].scene()


# ---- where scenes go -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Source:
    """A scene, and where it goes as long as no other goes there too. folder: name of the folder
    that was given.
    """

    path: Path
    index: int | None
    place: Path
    folder: str

    def places(self, format: str) -> tuple[Path, ...]:
        """Where it may go below the folder of results: the first places are the plainer ones."""
        plain, ending = (
            self.place.with_suffix(f".{format}"),
            self.place.with_name(f"{self.place.name}.{format}"),
        )
        return plain, ending, self.folder / plain, self.folder / ending

    def __str__(self) -> str:
        return str(self.path) if self.index is None else f"scene {self.index} of {self.path}"


def tasks_of(files: Sequence[Given], out: Path, format: str) -> tuple[list[Task], list[Converted]]:
    """Return what is to be done, and what cannot be: .pvs files that cannot be opened.

    The folder below `out` has the names and subfolders of the source. Where several scenes would
    become one file, their old endings stay in the names, or they go below the names of the folders
    that were given. A file that lies where another one goes was made of it earlier, and is passed
    over.

    Raises: SceneError: two scenes would become one file all the same, or every file lies where it
        would be written.
    """
    sources, refused = _sources_of(files, out)
    first = {os.path.abspath(out / source.places(format)[0]) for source in sources}
    kept = [source for source in sources if os.path.abspath(source.path) not in first]
    if sources and not kept:
        raise SceneError(
            f"{out}: the scenes lie where they would be written; give --out another folder"
        )
    groups: dict[Path, list[_Source]] = {}
    for source in kept:
        groups.setdefault(source.places(format)[0], []).append(source)
    taken: dict[Path, _Source] = {}
    for group in groups.values():
        choices = list(zip(*(source.places(format) for source in group), strict=True))
        places = next((some for some in choices if len(set(some)) == len(some)), choices[0])
        for source, place in zip(group, places, strict=True):
            if place in taken:
                raise SceneError(
                    f"{taken[place]} and {source} would both become {out / place}; give each an "
                    "--out of its own"
                )
            taken[place] = source
    where = {id(source): place for place, source in taken.items()}
    return [Task(source.path, out / where[id(source)], source.index) for source in kept], refused


def _sources_of(files: Sequence[Given], out: Path) -> tuple[list[_Source], list[Converted]]:
    """Return the scenes in files. Several of one name in a .pvs file lie in folders that are
    numbered as they are.
    """
    found: list[_Source] = []
    refused = []
    for file in files:
        try:
            scenes = scenes_in(file.path)
        except SceneError as error:
            refused.append(
                Converted(
                    Task(file.path, out / file.place), str(error).removeprefix(f"{file.path}: ")
                )
            )
            continue
        if len(scenes) == 1:
            found.append(_Source(file.path, scenes[0][1], file.place, file.folder))
            continue
        names = [_file_name(name, index) for name, index in scenes]
        often = Counter(names)
        for own, (_, index) in zip(names, scenes, strict=True):
            inside = Path(own) if often[own] == 1 else Path(str(index), own)
            found.append(
                _Source(file.path, index, file.place.with_suffix("") / inside, file.folder)
            )
    return found, refused


def _file_name(name: str, index: int | None) -> str:
    """Return what a scene of a .pvs file is called, which may be anything, as a name for a file."""
    own = Path(name).name
    return own if own not in ("", "..") and "\0" not in own else f"scene-{index}"


# ---- converting ----------------------------------------------------------------------------------


def is_done(task: Task, rules: Rules) -> bool:
    """True if the file is there already, made by these rules, and not older than its source.

    Files appear whole or not at all. What they were made by is read from them: JSON is always
        written alike.
    """
    try:
        if task.out.stat().st_mtime_ns < task.path.stat().st_mtime_ns:
            return False
        if rules.format == "pvs":
            return _same(SceneSet(task.out).settings, settings_for(task, rules))
        return rules.format != "bin" or has_layout(read_bytes(task.out), rules.layout)
    except (OSError, SceneError):
        return False


def _same(one: CompileSettings, other: CompileSettings) -> bool:
    first, second = (np.array(numbers_of(settings), dtype=np.float32) for settings in (one, other))
    return one.index_k == other.index_k and np.array_equal(first, second)


def settings_for(task: Task, rules: Rules) -> CompileSettings:
    """What the .pvs file of a scene is made with. A scene that was compiled keeps its segments.
    Raises: SceneError.
    """
    if task.index is None:
        return rules.settings
    given = opened(task.path).settings
    return dataclasses.replace(
        given, index_k=rules.settings.index_k, range_m=rules.settings.range_m
    )


def convert_one(task: Task, rules: Rules) -> Converted:
    """Convert one scene, in any process. Never raises for a scene that cannot be: the outcome says
    why.
    """
    try:
        if rules.format == "pvs" and task.index is not None:
            _copy(task, task.index, rules)
            return Converted(task)
        scene, made = load(task.path, task.index), None
        if rules.format == "pvs":
            compiled = compile_scene(scene, rules.settings)
            os.makedirs(task.out.parent, exist_ok=True)
            write_scene_set(task.out, [compiled], rules.settings)
            made = SceneSet(task.out)
        else:
            data = bin_bytes(scene, rules.layout) if rules.format == "bin" else json_bytes(scene)
            os.makedirs(task.out.parent, exist_ok=True)
            replace_file(task.out, data)
        return Converted(task, "", *losses(scene, rules.format, rules.layout, made))
    except SceneError as error:
        return Converted(
            task, str(error).removeprefix(f"{task.path}: ").removeprefix(f"{task.path.name}: ")
        )
    except OSError as error:
        return Converted(task, f"{error.filename or task.out}: cannot be written: {said(error)}")


def _copy(task: Task, index: int, rules: Rules) -> None:
    """Write a scene of a .pvs file to a file of its own: as it is, or with another index."""
    scenes, settings = opened(task.path), settings_for(task, rules)
    stored = scenes[index]
    scene = stored if same_index(scenes.settings, settings) else reindexed(stored, settings)
    os.makedirs(task.out.parent, exist_ok=True)
    write_scene_set(task.out, [scene], settings)
