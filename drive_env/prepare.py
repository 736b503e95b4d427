# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Turns `config.scenes` into a compiled scene set in the cache, or finds it there.

Runs in the learner before workers start. A set is named by a hash of the scenes' contents and of the settings that it depends
on. It is verified before use; a damaged one is compiled again. A small JSON file beside it lists the files that were left out
and the scenes with roads above each other.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drive_env.config import DEFAULT_SCENES, HELD_OUT_SCENES, SCENES_ALLOWED, DriveConfig
from drive_env.generate import generate
from drive_env.scenes import packed
from drive_env.scenes.agents import check_agents
from drive_env.scenes.compile import CompiledScene, CompileSettings, compile_scene
from drive_env.scenes.levels import height_conflicts
from drive_env.scenes.reader import MAX_FILE_BYTES, LeftOut, read_bytes, read_drivable, read_usable, scene_files
from drive_env.scenes.sceneset import SceneSet, write_scene_set
from drive_env.scenes.schema import Scene
from puffervec.errors import SceneError
from puffervec.host.cache import SCENES, cache_folder, holding, key_of, write_atomically
from puffervec.process.parallel import on_all_cores

COMPILE_VERSION = 4  # raised when the same scene and settings would give other bytes
OFFROAD_EDGES = 16
CHECKED_BYTES = 1 << 28  # cached sets up to this size are checked whole before use; workers check scenes of larger ones
REASONS_SHOWN = 3  # files named in an error about a folder
REMARKS_SHOWN = 5  # files or scenes named in remarks on a folder
MANY = 100  # compiling as many scenes takes seconds, so a line on stderr says so
_COUNTED = re.compile(r"generated:([1-9][0-9]{0,4})")

Load = Callable[[], Scene | LeftOut]


@dataclass(frozen=True)
class Prepared:
    """A compiled set that is ready to be mapped."""

    path: Path
    scenes: SceneSet
    left_out: tuple[LeftOut, ...]  # files of a folder that cannot be used, and why
    levels: tuple[tuple[str, str], ...] = ()  # scenes in which height matters, by name, and where (drive_env.scenes.levels)


def prepare_scenes(config: DriveConfig) -> Prepared:
    """Find, read, check, compile and cache the scenes of a config.

    Raises:
        SceneError: no such folder or file, no scene that can be used, nothing to drive, or a cache that cannot be written.
        ConfigError: a scene has more agents than one env has rows.
    """
    lanes, lines, edges = config.segment_k
    # The env looks for off-road contacts among the indexed edges too, however few of them an agent observes.
    settings = CompileSettings((lanes, lines, max(edges, OFFROAD_EDGES)), config.range_m, config.simplify_m)
    parts, loads = scene_source(config.scenes)
    name = key_of(COMPILE_VERSION, packed.VERSION, settings.index_k, settings.range_m, settings.simplify_m, *parts)
    path = cache_folder() / SCENES / f"{name}.pvset"
    prepared = load_cached(path)
    if prepared is None:
        left_out, levels = compile_into(path, config.scenes, loads, settings)
        prepared = Prepared(path, SceneSet(path), left_out, levels)
    check_agents(config, [prepared.scenes.scene(index) for index in range(len(prepared.scenes))], prepared.scenes.names)
    return prepared


def scene_source(scenes: str) -> tuple[list[Any], list[Load]]:
    """What identifies the scenes (for the cache key), and a function for each scene that loads it."""
    counted = _COUNTED.fullmatch(scenes)
    if scenes == DEFAULT_SCENES or counted:
        return generated(DEFAULT_SCENES, int(counted[1]) if counted else generate.DEFAULT_COUNT, generate.DEFAULT_SEED)
    if scenes == HELD_OUT_SCENES:
        return generated(HELD_OUT_SCENES, generate.HELD_OUT_COUNT, generate.HELD_OUT_SEED, wide=True)
    try:
        given = Path(scenes).expanduser()
        if given.is_dir():
            files = scene_files(given)
            parts = [[path.name, digest_or_refusal(path)] for path in files]
            return ["folder", *parts], [functools.partial(read_usable, path) for path in files]
        if given.is_file():
            return ["file", given.name, digest_of(given)], [functools.partial(read_drivable, given)]
    except (OSError, RuntimeError) as error:  # a name that is too long, no right to look, ~somebody who has no home
        raise SceneError(f"{scenes}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    raise SceneError(f"{scenes}: no such folder or file; it must be {SCENES_ALLOWED}")


def generated(name: str, count: int, seed: int, wide: bool = False) -> tuple[list[Any], list[Load]]:
    """What `scene_source` returns for generated scenes."""
    loads: list[Load] = [functools.partial(generate.generate_scene, seed, index, wide) for index in range(count)]
    return [name, generate.GENERATOR_VERSION, count, seed], loads


def digest_of(path: Path) -> str:
    """SHA-256 of a scene file's content, hexadecimal. Raises SceneError as `reader.read_bytes`."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def digest_or_refusal(path: Path) -> str:
    """`digest_of`, or the reason why the file cannot be read."""
    try:
        return digest_of(path)
    except SceneError as error:
        return str(error)


def load_cached(path: Path) -> Prepared | None:
    """A set from the cache, or None if it is not there or does not verify."""
    try:
        with holding(path) as folder:
            notes = json.loads(folder.read(notes_path(path).name, MAX_FILE_BYTES))
        left_out = tuple(LeftOut(Path(name), reason) for name, reason in notes["left_out"])
        levels = tuple((str(name), str(text)) for name, text in notes["levels"])
        scenes = SceneSet(path)
        if path.stat().st_size <= CHECKED_BYTES:
            scenes.check_all()
        return Prepared(path, scenes, left_out, levels)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SceneError):
        return None


def compile_into(
    path: Path, source: str, loads: Sequence[Load], settings: CompileSettings
) -> tuple[tuple[LeftOut, ...], tuple[tuple[str, str], ...]]:
    """Compile all scenes into one file; returns what was left out, and the scenes with levels (see Prepared).

    Raises:
        SceneError: none of the scenes can be used.
    """
    if len(loads) >= MANY:
        print(f"drive: compiling {len(loads)} scenes, once; they are kept in {path.parent}", file=sys.stderr, flush=True)
    items = on_all_cores(functools.partial(compile_one, settings=settings), loads)
    left_out = tuple(item for item in items if isinstance(item, LeftOut))
    usable = [item for item in items if not isinstance(item, LeftOut)]
    compiled = [item[0] for item in usable]
    if not compiled:
        reasons = "; ".join(f"{item.path.name}: {item.reason}" for item in left_out[:REASONS_SHOWN])
        more = f"; and {len(left_out) - REASONS_SHOWN} more" if len(left_out) > REASONS_SHOWN else ""
        raise SceneError(f"{source}: none of its {len(left_out)} scenes can be used ({reasons}{more})")
    levels = tuple((scene.name, text) for scene, text in usable if text)
    notes = {"left_out": [[str(item.path), item.reason] for item in left_out], "levels": levels}
    write_atomically(notes_path(path), [json.dumps(notes).encode()])
    write_scene_set(path, compiled, settings)
    return left_out, levels


def compile_one(load: Load, settings: CompileSettings) -> tuple[CompiledScene, str] | LeftOut:
    """Load and pack one scene, in any process, and say where height matters in it. Raises SceneError as the loader does."""
    item = load()
    if isinstance(item, LeftOut):
        return item
    try:
        return compile_scene(item, settings), height_conflicts(item)
    except SceneError as error:
        return LeftOut(Path(item.name), str(error).removeprefix(f"{item.name}: "))


def notes_path(path: Path) -> Path:
    """The JSON file beside a set."""
    return path.with_suffix(".json")


def remarks_on(left_out: Sequence[LeftOut], levels: Sequence[tuple[str, str]]) -> list[str]:
    """Lines on the files that were left out and the scenes with levels, the first few of each by name."""
    lines = [f"left out {item.path.name}: {item.reason}" for item in left_out[:REMARKS_SHOWN]]
    if len(left_out) > REMARKS_SHOWN:
        lines.append(f"left out {len(left_out) - REMARKS_SHOWN} more files")
    lines += [f"{name}: {text}" for name, text in levels[:REMARKS_SHOWN]]
    if len(levels) > REMARKS_SHOWN:
        lines.append(f"{len(levels) - REMARKS_SHOWN} more scenes in which height matters")
    return lines
