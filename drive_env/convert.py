# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Converts scene files from one format to another, and reports what was lost.

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
from drive_env.prepare import compile_windows, numbers_of, same_index, settings_of
from drive_env.scenes.arrow_log import is_log
from drive_env.scenes.bin_scene import bin_bytes, has_layout
from drive_env.scenes.compile import CompileSettings, reindex
from drive_env.scenes.json_scene import json_bytes
from drive_env.scenes.reader import (
    name_of,
    read_bytes,
    read_scenario,
    read_scene,
    record_name,
    scene_files,
    source_files,
)
from drive_env.scenes.sceneset import SceneSet, is_scene_set, write_scene_set
from drive_env.scenes.schema import Scene
from drive_env.scenes.stored import StoredScene
from drive_env.scenes.tfrecord import is_record_file
from drive_env.scenes.windows import mark, windows_of
from drive_env.sources import open_cached, records_of
from puffervec.errors import SceneError
from puffervec.system.folder import describe_error, replace_file

FORMATS = ("json", "bin", "pvs")


@dataclass(frozen=True)
class SceneFile:
    """A scene file.

    Attributes:
        place: path below the folder that the user named; for a file that the user named, its name.
        folder: name of that folder.
    """

    path: Path
    place: Path
    folder: str


@dataclass(frozen=True)
class Task:
    """One scene to convert.

    Attributes:
        index: number of the scene in a file of many; None if the file is one scene.
    """

    path: Path
    out: Path
    index: int | None = None

    @property
    def compiled(self) -> bool:
        """Return whether the file is a .pvs file."""
        return self.index is not None and is_scene_set(self.path)


@dataclass(frozen=True)
class Rules:
    """Rules by which scenes are converted.

    Attributes:
        layout: layout of .bin files.
        settings: settings of .pvs files.
        frames: number of frames of the windows into which longer scenes are cut; 0: do not cut.
    """

    format: str
    layout: str = "v2"
    settings: CompileSettings = field(default_factory=lambda: settings_of(DriveConfig()))
    frames: int = 0


@dataclass(frozen=True)
class Conversion:
    """Result of converting one scene.

    Attributes:
        error: why there is no file; "" if there is one.
        windows: number of windows into which the scene was cut; 1: it was not.
        dropped, simplified: what was dropped and simplified, with counts.
    """

    task: Task
    error: str = ""
    windows: int = 1
    dropped: Counter[str] = field(default_factory=Counter)
    simplified: Counter[str] = field(default_factory=Counter)


def files_of(paths: Sequence[Path]) -> list[SceneFile]:
    """Return the scene files that paths name, each once.

    Raises:
        SceneError: a file or folder does not exist, or a folder has no scenes.
    """
    files: dict[str, SceneFile] = {}
    for path in paths:
        if not path.exists():
            raise SceneError(f"{path}: no such file or folder")
        folder = path if path.is_dir() else path.parent
        for file in scene_files(path) if path.is_dir() else [path]:
            place = file.relative_to(folder)
            if is_log(file):  # the log is its folder
                place = (place.parent if place.parent.name else place).with_name(name_of(file))
            item = SceneFile(file, place, Path(os.path.abspath(folder)).name)
            files.setdefault(os.path.abspath(file), item)
    return list(files.values())


def scenes_in(path: Path) -> list[tuple[str, int | None]]:
    """Return (name, index) of each scene in a file; index is None if the file is one scene.

    Raises:
        SceneError: the file cannot be opened.
    """
    if is_scene_set(path):
        return list(zip(open_cached(path).names, range(1_000_000_000), strict=False))
    if path.is_file() and is_record_file(path):
        return [(record_name(path, index), index) for index in range(len(records_of(path)))]
    return [(name_of(path), None)]


def load(path: Path, index: int | None) -> Scene:
    """Read one scene.

    Raises:
        SceneError: the scene cannot be read.
    """
    if index is None:
        return read_scene(path)
    if is_scene_set(path):
        return open_cached(path)[index].scene()
    return read_scenario(path, index, records_of(path)[index])


# ---- where scenes go -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Source:
    """A scene, and the places to which it may be written.

    Attributes:
        folder: name of the folder that the user named.
    """

    path: Path
    index: int | None
    place: Path
    folder: str

    def places(self, format: str) -> tuple[Path, ...]:
        """Return the possible output paths, relative to the output folder, plainest first."""
        short, ending = (
            self.place.with_suffix(f".{format}"),
            self.place.with_name(f"{self.place.name}.{format}"),
        )
        return short, ending, self.folder / short, self.folder / ending

    def __str__(self) -> str:
        return str(self.path) if self.index is None else f"scene {self.index} of {self.path}"


def tasks_of(
    files: Sequence[SceneFile], out: Path, format: str
) -> tuple[list[Task], list[Conversion]]:
    """Return the tasks, and the .pvs files that cannot be opened.

    The folder below `out` has the names and subfolders of the source. Where several scenes would
    become one file, their old suffixes stay in the names, or they go into subfolders named after
    the folders that the user named. A scene file at a path where another scene will be written is
    an earlier result, and is skipped.

    Raises:
        SceneError: two scenes would still become one file, or every file already lies where it
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
                    f"{taken[place]} and {source} would both become {out / place}; convert them "
                    "with different --out folders"
                )
            taken[place] = source
    where = {id(source): place for place, source in taken.items()}
    return [Task(source.path, out / where[id(source)], source.index) for source in kept], refused


def _sources_of(files: Sequence[SceneFile], out: Path) -> tuple[list[_Source], list[Conversion]]:
    """Return the scenes in files, and the files that cannot be opened.

    Scenes that share a name in a .pvs file go to folders named by their numbers.
    """
    sources: list[_Source] = []
    refused = []
    for file in files:
        try:
            scenes = scenes_in(file.path)
        except SceneError as error:
            refused.append(
                Conversion(
                    Task(file.path, out / file.place), str(error).removeprefix(f"{file.path}: ")
                )
            )
            continue
        if len(scenes) == 1:
            sources.append(_Source(file.path, scenes[0][1], file.place, file.folder))
            continue
        names = [_file_name(name, index) for name, index in scenes]
        often = Counter(names)
        for own, (_, index) in zip(names, scenes, strict=True):
            inside = Path(own) if often[own] == 1 else Path(str(index), own)
            sources.append(
                _Source(file.path, index, file.place.with_suffix("") / inside, file.folder)
            )
    return sources, refused


def _file_name(name: str, index: int | None) -> str:
    """Return the name of a scene in a .pvs file, which may be any text, as a file name."""
    own = Path(name).name
    return own if own not in ("", "..") and "\0" not in own else f"scene-{index}"


# ---- converting ----------------------------------------------------------------------------------


def is_done(task: Task, rules: Rules) -> bool:
    """Return whether the output exists, follows these rules, and is not older than its source.

    Outputs appear whole or not at all. The rules by which a file was made are read from the file;
    JSON files follow the same rules always. A file does not tell how a scene was cut into windows,
    so windows are always written again.
    """
    if rules.frames:
        return False
    try:
        newest_ns = max(file.stat().st_mtime_ns for file in [task.path, *source_files(task.path)])
        if task.out.stat().st_mtime_ns < newest_ns:
            return False
        if rules.format == "pvs":
            return _same(SceneSet(task.out).settings, settings_for(task, rules))
        return rules.format != "bin" or has_layout(read_bytes(task.out), rules.layout)
    except (OSError, SceneError):
        return False


def _same(one: CompileSettings, other: CompileSettings) -> bool:
    """Return whether two settings have the same index and the same lengths (as float32)."""
    first, second = (np.array(numbers_of(settings), dtype=np.float32) for settings in (one, other))
    return one.index_k == other.index_k and np.array_equal(first, second)


def settings_for(task: Task, rules: Rules) -> CompileSettings:
    """Return the settings of a scene's .pvs file.

    A scene that was compiled before keeps its segments.

    Raises:
        SceneError: the source cannot be opened.
    """
    if not task.compiled:
        return rules.settings
    stored = open_cached(task.path).settings
    return dataclasses.replace(
        stored, index_k=rules.settings.index_k, range_m=rules.settings.range_m
    )


def convert_one(task: Task, rules: Rules) -> Conversion:
    """Convert one scene, in any process. A scene that cannot be converted yields an error text."""
    source: Scene | StoredScene
    try:
        if rules.format == "pvs" and task.index is not None and task.compiled:
            stored = open_cached(task.path)[task.index]
            if not (rules.frames and stored.frame_count > rules.frames):
                _copy(task, task.index, rules)
                return Conversion(task)
            settings, source = settings_for(task, rules), stored
        else:
            settings, source = rules.settings, load(task.path, task.index)
        return _write_windows(task, rules, settings, source)
    except SceneError as error:
        return Conversion(
            task, str(error).removeprefix(f"{task.path}: ").removeprefix(f"{task.path.name}: ")
        )
    except OSError as error:
        return Conversion(
            task, f"{error.filename or task.out}: cannot be written: {describe_error(error)}"
        )


def _write_windows(
    task: Task, rules: Rules, settings: CompileSettings, source: Scene | StoredScene
) -> Conversion:
    """Write a scene, or the windows into which it is cut, and return what was lost.

    A .pvs file has all windows of a scene; in other formats each window is a file.
    """
    scene = source.scene() if isinstance(source, StoredScene) else source
    windows = windows_of(scene, rules.frames)
    made: list[StoredScene | None] = [None] * len(windows)
    if rules.format == "pvs":
        compiled = compile_windows(source, settings, rules.frames)
        os.makedirs(task.out.parent, exist_ok=True)
        write_scene_set(task.out, compiled, settings)
        made = list(SceneSet(task.out))
    else:
        contents = [
            bin_bytes(window, rules.layout) if rules.format == "bin" else json_bytes(window)
            for window in windows
        ]
        os.makedirs(task.out.parent, exist_ok=True)
        for index, content in enumerate(contents):
            replace_file(window_path(task.out, index, len(windows)), content)
    dropped, simplified = Counter[str](), Counter[str]()
    for window, stored in zip(windows, made, strict=True):
        lost = losses(window, rules.format, rules.layout, stored, settings.simplify_m)
        dropped += lost[0] + Counter(window.left_out)
        simplified += lost[1]
    return Conversion(task, "", len(windows), dropped, simplified)


def window_path(out: Path, index: int, count: int) -> Path:
    """Return the file of a window; the scene's own file if it was not cut."""
    return out if count == 1 else out.with_name(mark(out.stem, index) + out.suffix)


def _copy(task: Task, index: int, rules: Rules) -> None:
    """Write a scene of a .pvs file to its own file: unchanged, or with another index."""
    scenes, settings = open_cached(task.path), settings_for(task, rules)
    stored = scenes[index]
    scene = stored if same_index(scenes.settings, settings) else reindex(stored, settings)
    os.makedirs(task.out.parent, exist_ok=True)
    write_scene_set(task.out, [scene], settings)
