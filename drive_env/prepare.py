# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Turns `config.scenes` into a compiled scene set in the cache, or finds it there.

Runs in the learner before workers start. A set is named by a hash of the scenes' contents and of
the settings that it depends on. It is verified before use; a damaged one is compiled again. A small
JSON file next to it lists the files that were left out.

Large sets are compiled in parts. Each part is kept in the cache as a separate set until the whole
is complete, so that interrupted compiling continues where it stopped, and that processes which
prepare the same set at the same time share the work.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.config import DriveConfig
from drive_env.progress import progress
from drive_env.scenes import packed
from drive_env.scenes.agents import COUNTED, check_agents
from drive_env.scenes.compile import CompiledScene, CompileSettings, compile_scene, reindex
from drive_env.scenes.reader import MAX_FILE_BYTES, LeftOut
from drive_env.scenes.sceneset import SceneSet, join_scene_sets, write_scene_set
from drive_env.scenes.schema import Scene
from drive_env.scenes.stored import StoredScene
from drive_env.scenes.windows import frames_in, windows_of
from drive_env.sources import Item, Loaded, Placing, Source, sources_of
from puffervec.errors import SceneError
from puffervec.system.cache import SCENES, cache_folder, holding, key_of, write_atomically
from puffervec.workers.process.parallel import each_on_all_cores

COUNT_VERSION = 1  # raise it when other objects of the same scene become agents
COUNTS_KEPT = 1000  # the agents of sets with at least this many scenes are cached
COMPILE_VERSION = 8  # raise it when the same scene and settings compile to other bytes
OFFROAD_EDGES = 16
# Sets up to this size are checked completely at each start; workers check the scenes of larger sets
# one by one, before they are driven.
CHECKED_BYTES = 1 << 28
REASONS_SHOWN = 3  # files named in an error about a folder
REMARKS_SHOWN = 5  # files named in remarks on a folder
MANY = 100  # compiling this many scenes takes seconds, so a line on stderr announces it
PART, MOST_PARTS = 16, 1024  # scenes per part, and parts per set; very large sets get larger parts
LEAST_PARTS = 2  # parts per process: with fewer the learner compiles them itself


@dataclass(frozen=True)
class Prepared:
    """A compiled set that is ready to be mapped."""

    path: Path
    scenes: SceneSet
    left_out: tuple[LeftOut, ...]  # files of a folder that cannot be used, and why
    counts: tuple[int, ...] = ()  # scenes of each set that the setting names, in their order
    weights: tuple[float | None, ...] = ()  # of these sets, None if the setting has no weight
    # True: all scenes were checked completely; False: workers check each before its first use.
    checked: bool = False
    kept: tuple[int, ...] = ()  # index of each scene among all items

    @property
    def scene_weights(self) -> NDArray[np.float32] | None:
        """Return the relative frequencies of draws, (scenes,); None if all are equal."""
        if all(weight is None for weight in self.weights):
            return None
        shares = [
            (1.0 if weight is None else weight) / count
            for weight, count in zip(self.weights, self.counts, strict=True)
        ]
        return np.repeat(np.array(shares, dtype=np.float32), self.counts)

    @property
    def set_params(self) -> dict[str, NDArray[Any]]:
        """Return the params for passes through weighted sets.

        They hold, for each set, the index after its last scene, and its share of the draws that
        earlier sets leave over.
        """
        if all(weight is None for weight in self.weights):
            return {}
        weights = np.array([1.0 if weight is None else weight for weight in self.weights])
        left = np.cumsum(weights[::-1])[::-1]
        return {"set_ends": np.cumsum(self.counts).astype(np.uint32), "set_shares": weights / left}


def prepare_scenes(config: DriveConfig) -> Prepared:
    """Find, read, check, compile and cache the scenes of a config.

    Raises:
        SceneError: no such folder or file, no usable scene, no agent, or a cache that cannot be
            written.
        ConfigError: a scene has more agents than one env has rows.
    """
    settings = settings_of(config)
    sources = sources_of(config.scenes, config.split, placing_of(config))
    frames = frames_in(config.window_s)
    prepared = map_in_place(sources, config, settings)
    if prepared is None:
        identities = [[item.identity for item in source.items] for source in sources]
        path = set_path(identities, settings, frames)
        prepared = load_cached(path) or compile_into(path, config.scenes, sources, settings, frames)
        items = [item for source in sources for item in source.items]
        places = [items[number].place for number in prepared.kept]
        if len(set(places)) > 1:
            prepared.scenes.places = places
    prepared = dataclasses.replace(prepared, weights=tuple(source.weight for source in sources))
    if any(source.weight is not None for source in sources):
        for source, count in zip(sources, prepared.counts, strict=True):
            if not count:
                raise SceneError(
                    f"{source.name}: none of its {len(source.items)} scenes can be used, so its "
                    "weight cannot be met; leave it out"
                )
    scenes = prepared.scenes
    counts = agents_in(scenes, config)
    check_agents(
        config,
        counts,
        lambda: [scenes.scene(index, COUNTED) for index in range(len(scenes))],
        scenes.names,
    )
    return prepared


def placing_of(config: DriveConfig) -> Placing | None:
    """Return how vehicles are placed on the maps of the scenes; None if they drive as logged."""
    if not config.placements:
        return None
    return Placing(config.placements, config.vehicles_per_km, config.placement_seed)


def agents_in(scenes: SceneSet, config: DriveConfig) -> list[int]:
    """Return the number of agents of each scene.

    Counts of large sets are cached, because counting reads part of every scene.
    """
    if len(scenes) < COUNTS_KEPT:
        return [int(count) for count in scenes.agents(config)]
    criteria = [
        config.control,
        config.control_ids,
        config.init_step,
        bool(config.max_steps),
        config.goal_radius_m,
    ]
    # The checksum covers the checksums of all scenes.
    whole = [int(scenes.head[name]) for name in ("crc32", "bytes", "scene_count")]
    path = cache_folder() / SCENES / f"{key_of('agents', COUNT_VERSION, whole, criteria)}.json"
    with contextlib.suppress(OSError, ValueError, RecursionError), holding(path) as folder:
        stored: Any = json.loads(folder.read(path.name, MAX_FILE_BYTES))
        if (
            isinstance(stored, list)
            and len(stored) == len(scenes)
            and all(type(count) is int for count in stored)
        ):
            return list(stored)
    counts = [int(count) for count in scenes.agents(config)]
    # A cache that cannot be written is reported when it is needed.
    with contextlib.suppress(SceneError):
        write_atomically(path, [json.dumps(counts).encode()])
    return counts


def settings_of(config: DriveConfig) -> CompileSettings:
    """Return the settings that determine the bytes of compiled scenes."""
    lanes, lines, edges = config.segment_k
    # The env also searches the indexed edges for off-road contacts, however few of them an agent
    # observes.
    return CompileSettings(
        (lanes, lines, max(edges, OFFROAD_EDGES)), config.range_m, config.simplify_m
    )


def map_in_place(
    sources: Sequence[Source], config: DriveConfig, settings: CompileSettings
) -> Prepared | None:
    """Return the one .pvs file that the setting names, to be mapped in place.

    Returns None if there are other sources, if the file's index does not cover the settings, or if
    a scene is to be cut into windows.
    """
    (source, *others) = sources
    if others or source.compiled is None or config.split != "all":
        return None
    scenes, checked = open_checked(source.compiled)
    prepared = Prepared(source.compiled, scenes, (), counts=(len(scenes),), checked=checked)
    frames = frames_in(config.window_s)
    whole = not frames or all(
        int(scenes.scene(index, ())[0]["frame_count"]) <= frames for index in range(len(scenes))
    )
    return prepared if whole and covers(scenes.settings, settings) else None


def covers(one: CompileSettings, other: CompileSettings) -> bool:
    """Return whether an index built with `one` can answer all searches under `other`."""
    return bool(
        (np.array(one.index_k) >= other.index_k).all() and one.range_m >= np.float32(other.range_m)
    )


def same_index(one: CompileSettings, other: CompileSettings) -> bool:
    """Return whether scenes compiled with `one` fit into a set compiled with `other`."""
    return bool(one.index_k == other.index_k and one.range_m == np.float32(other.range_m))


def open_checked(path: Path) -> tuple[SceneSet, bool]:
    """Open a set, and check all of its scenes unless it has more than CHECKED_BYTES.

    The cache does not record that a large set was checked before: whoever can change the set could
    write that record too.

    Returns:
        The set, and whether it was checked completely; if not, workers check each scene.

    Raises:
        SceneError: the set is damaged or cannot be read.
    """
    scenes = SceneSet(path)
    if len(scenes.data) > CHECKED_BYTES:
        return scenes, False
    scenes.check_all()
    return scenes, True


def numbers_of(settings: CompileSettings) -> tuple[float, ...]:
    """Return the settings that are lengths in metres."""
    return (settings.range_m, settings.split_m, *settings.tolerances_m)


def set_path(identities: Any, settings: CompileSettings, frames: int = 0) -> Path:
    """Return the path of a set of these scenes in the cache.

    Args:
        frames: number of frames of the windows into which they are cut; 0: do not cut.
    """
    if frames:
        identities = ["windows", frames, identities]
    key = key_of(
        COMPILE_VERSION, packed.VERSION, settings.index_k, numbers_of(settings), identities
    )
    return cache_folder() / SCENES / f"{key}.pvset"


def load_cached(path: Path) -> Prepared | None:
    """Return a set from the cache, or None if it is missing or does not verify."""
    try:
        with holding(path) as folder:
            notes = json.loads(folder.read(notes_path(path).name, MAX_FILE_BYTES))
        left_out = tuple(LeftOut(Path(name), reason) for name, reason in notes["left_out"])
        counts = tuple(int(count) for count in notes["counts"])
        scenes, checked = open_checked(path)
        kept = tuple(int(number) for number in notes["kept"])
        if not sum(counts) == len(kept) == len(scenes):
            return None
        return Prepared(path, scenes, left_out, counts, checked=checked, kept=kept)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError, SceneError):
        return None


# ---- compiling -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """Some scenes of one source, compiled together.

    Attributes:
        path: where they are kept until the whole set exists.
        whole: this part is the whole set, so its file stays.
    """

    source: int
    items: tuple[Item, ...]
    path: Path
    whole: bool = False


def compile_into(
    path: Path,
    name: str,
    sources: Sequence[Source],
    settings: CompileSettings,
    frames: int = 0,
) -> Prepared:
    """Compile all scenes into one file, with its notes, and return the set.

    Args:
        frames: see `set_path`.

    Raises:
        SceneError: none of the scenes can be used, or a file cannot be written.
    """
    total = sum(len(source.items) for source in sources)
    if total >= MANY:
        print(
            f"drive: compiling {total} scenes, once; they are kept in {path.parent}",
            file=sys.stderr,
            flush=True,
        )
    parts = parts_of(path, sources, settings, frames)
    if len(parts) == 1:
        parts = [dataclasses.replace(parts[0], path=path, whole=True)]
    try:
        missing = [part for part in parts if load_cached(part.path) is None]
        left = sum(len(part.items) for part in missing)
        # In random order, so that concurrent processes seldom compile the same part.
        random.Random().shuffle(missing)
        compiled = each_on_all_cores(
            functools.partial(compile_missing, whole=path, settings=settings, frames=frames),
            missing,
            LEAST_PARTS,
            chunk=1,
        )
        with progress("compiling scenes", total, done=total - left, shown=total >= MANY) as advance:
            for count in compiled:
                advance(count)
        join_parts(path, name, parts, len(sources), settings)
    except (OSError, SceneError):
        # Another process may have made the same set, and removed the parts that both used.
        if load_cached(path) is None:
            raise
    for part in parts:
        if not part.whole:
            part.path.unlink(missing_ok=True)
            notes_path(part.path).unlink(missing_ok=True)
    prepared = load_cached(path)
    if prepared is None:
        raise SceneError(
            f"{path}: the set of scenes was damaged as soon as it was written; is the disk failing?"
        )
    return prepared


def parts_of(
    path: Path, sources: Sequence[Source], settings: CompileSettings, frames: int = 0
) -> list[Part]:
    """Cut the scenes of each source into parts of PART scenes.

    Parts are larger where there would be more than MOST_PARTS. Parts are not shared between sets,
    even if these have the same scenes: the process that completes the set at `path` removes them.
    """
    size = max(PART, -(-sum(len(source.items) for source in sources) // MOST_PARTS))
    pieces = [
        (n, source.items[at : at + size])
        for n, source in enumerate(sources)
        for at in range(0, len(source.items), size)
    ]
    return [
        Part(n, items, set_path([path.stem, [item.identity for item in items]], settings, frames))
        for n, items in pieces
    ]


def compile_missing(part: Part, whole: Path, settings: CompileSettings, frames: int = 0) -> int:
    """Compile a part unless another process has compiled it or the whole set.

    Args:
        part, settings, frames: as for `compile_part`.
        whole: path of the set that the part belongs to.

    Returns:
        The number of scenes, as `compile_part` does.
    """
    if load_cached(part.path) is not None or load_cached(whole) is not None:
        return len(part.items)
    return compile_part(part, settings, frames)


def compile_part(part: Part, settings: CompileSettings, frames: int = 0) -> int:
    """Load, compile and write the scenes of a part, in any process, and return their number.

    Windows of a scene do not count.

    The notes are written before the set, and no set is written if there are no scenes. Only a whole
    set is synced to the disk: a part is verified before it is used.

    Raises:
        SceneError: a loader fails, or a file cannot be written.
    """
    outcomes = [
        (number, outcome)
        for number, item in enumerate(part.items)
        for outcome in compile_loaded(item.load(), settings, frames)
    ]
    kept = [(number, item) for number, item in outcomes if not isinstance(item, LeftOut)]
    notes = {
        "left_out": [
            [str(item.path), item.reason] for _, item in outcomes if isinstance(item, LeftOut)
        ],
        "counts": [len(kept)],
        "kept": [number for number, _ in kept],
    }
    write_atomically(notes_path(part.path), [json.dumps(notes).encode()], part.whole)
    if kept:
        write_scene_set(part.path, [item for _, item in kept], settings, part.whole)
    return len(part.items)


def compile_loaded(
    item: Loaded, settings: CompileSettings, frames: int = 0
) -> list[CompiledScene | LeftOut]:
    """Compile a scene that a loader returned, or its windows; one that fails is left out.

    Scenes of a .pvs file keep their segments, and get a new index if the settings need another.

    Args:
        frames: see `set_path`.
    """
    if isinstance(item, LeftOut):
        return [item]
    scene, its_settings = item if isinstance(item, tuple) else (item, None)
    try:
        if isinstance(scene, StoredScene) and not (frames and scene.frame_count > frames):
            if its_settings is not None and same_index(its_settings, settings):
                counts = (scene.moving_vehicles, scene.valid_vehicles, scene.object_count)
                return [CompiledScene(scene.name, bytes(scene.data), *counts)]
            return [reindex(scene, settings)]
        return list(compile_windows(scene, settings, frames))
    except SceneError as error:
        return [LeftOut(Path(scene.name), str(error).removeprefix(f"{scene.name}: "))]


def compile_windows(
    scene: Scene | StoredScene, settings: CompileSettings, frames: int
) -> list[CompiledScene]:
    """Compile the windows of a scene; those of a compiled scene keep its segments.

    Raises:
        SceneError: see `compile_scene`.
    """
    if isinstance(scene, StoredScene):
        scene, settings = scene.scene(), dataclasses.replace(settings, simplify_m=0.0)
    return [compile_scene(window, settings) for window in windows_of(scene, frames)]


def join_parts(
    path: Path, name: str, parts: Sequence[Part], sources: int, settings: CompileSettings
) -> None:
    """Write the set of all parts, with the notes on all of it.

    Raises:
        SceneError: no part has a scene.
    """
    left_out: list[list[str]] = []
    counts = [0] * sources
    kept: list[int] = []
    filled: list[Path] = []
    before = 0
    for part in parts:
        with holding(part.path) as folder:
            part_notes = json.loads(folder.read(notes_path(part.path).name, MAX_FILE_BYTES))
        left_out += part_notes["left_out"]
        kept += [before + number for number in part_notes["kept"]]
        before += len(part.items)
        counts[part.source] += part_notes["counts"][0]
        if part_notes["counts"][0]:
            filled.append(part.path)
    if not any(counts):
        reasons = "; ".join(
            f"{Path(file).name}: {reason}" for file, reason in left_out[:REASONS_SHOWN]
        )
        more = (
            f"; and {len(left_out) - REASONS_SHOWN} more" if len(left_out) > REASONS_SHOWN else ""
        )
        raise SceneError(
            f"{name}: none of its {len(left_out)} scenes can be used ({reasons}{more})"
        )
    if filled == [path]:
        return
    notes: dict[str, Any] = {"left_out": left_out, "counts": counts, "kept": kept}
    write_atomically(notes_path(path), [json.dumps(notes).encode()])
    join_scene_sets(path, filled, settings)


def notes_path(path: Path) -> Path:
    """Return the JSON file next to a set."""
    return path.with_suffix(".json")


def remarks_on(left_out: Sequence[LeftOut]) -> list[str]:
    """Return lines on the files that were left out, the first few by name."""
    lines = [f"left out {item.path.name}: {item.reason}" for item in left_out[:REMARKS_SHOWN]]
    if len(left_out) > REMARKS_SHOWN:
        more = len(left_out) - REMARKS_SHOWN
        lines.append(
            f"left out {more} more file{'s' if more > 1 else ''}; `puffer-scenes check --json` "
            "names all"
        )
    return lines
