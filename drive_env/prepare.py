# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Turns `config.scenes` into a compiled scene set in the cache, or finds it there.

Runs in the learner before workers start. A set is named by a hash of the scenes' contents and of
the settings that it depends on. It is verified before use; a damaged one is compiled again. A small
JSON file beside it lists the files that were left out.

Many scenes are compiled in parts, each of which is kept in the cache as a set of its own until the
whole is there: compiling that was cut off goes on where it was.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
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
from drive_env.scenes.compile import CompiledScene, CompileSettings, compile_scene, reindexed
from drive_env.scenes.reader import MAX_FILE_BYTES, LeftOut
from drive_env.scenes.sceneset import SceneSet, join_scene_sets, write_scene_set
from drive_env.sources import Item, Load, Source, sources_of
from puffervec.errors import SceneError
from puffervec.system.cache import SCENES, cache_folder, holding, key_of, write_atomically
from puffervec.workers.process.parallel import each_on_all_cores

COUNT_VERSION = 1  # raised when other objects of the same scene would be agents
COUNTS_KEPT = 1000  # scenes of a set from which on its counts of agents are kept
COMPILE_VERSION = 7  # raised when the same scene and settings would give other bytes
OFFROAD_EDGES = 16
CHECKED_BYTES = (
    1 << 28
    # Sets up to this size are checked whole at each start; of larger ones each scene before it is
    # driven
)
REASONS_SHOWN = 3  # files named in an error about a folder
REMARKS_SHOWN = 5  # files named in remarks on a folder
MANY = 100  # compiling as many scenes takes seconds, so a line on stderr says so
PART, MOST_PARTS = 16, 1024  # scenes of a part; parts of a set, which may have more scenes instead
LEAST_PARTS = 2  # for each process: with fewer the learner compiles alone


@dataclass(frozen=True)
class Prepared:
    """A compiled set that is ready to be mapped."""

    path: Path
    scenes: SceneSet
    left_out: tuple[LeftOut, ...]  # files of a folder that cannot be used, and why
    counts: tuple[int, ...] = ()  # scenes of each set that the setting names, in their order
    weights: tuple[float | None, ...] = ()  # of these sets, as given
    # All scenes were checked completely; otherwise workers check each before its first use.
    checked: bool = False
    kept: tuple[int, ...] = ()  # which of all items each scene is

    @property
    def scene_weights(self) -> NDArray[np.float32] | None:
        """How often each scene is drawn, relative to the others, (scenes,); None: all equally
        often.
        """
        if all(weight is None for weight in self.weights):
            return None
        shares = [
            (1.0 if weight is None else weight) / count
            for weight, count in zip(self.weights, self.counts, strict=True)
        ]
        return np.repeat(np.array(shares, dtype=np.float32), self.counts)

    @property
    def set_params(self) -> dict[str, NDArray[Any]]:
        """What passes through weighted sets need: where each ends, and its share of the draws that
        those before leave over.
        """
        if all(weight is None for weight in self.weights):
            return {}
        weights = np.array([1.0 if weight is None else weight for weight in self.weights])
        left = np.cumsum(weights[::-1])[::-1]
        return {"set_ends": np.cumsum(self.counts).astype(np.uint32), "set_shares": weights / left}


def prepare_scenes(config: DriveConfig) -> Prepared:
    """Find, read, check, compile and cache the scenes of a config.

    Raises:
        SceneError: no such folder or file, no scene that can be used, nothing to drive, or a cache
        that cannot be written.
        ConfigError: a scene has more agents than one env has rows.
    """
    settings = settings_of(config)
    sources = sources_of(config.scenes, config.split)
    prepared = as_it_is(sources, config, settings) or from_cache(sources, config.scenes, settings)
    prepared = dataclasses.replace(prepared, weights=tuple(source.weight for source in sources))
    if any(source.weight is not None for source in sources):
        for source, count in zip(sources, prepared.counts, strict=True):
            if not count:
                raise SceneError(
                    f"{source.name}: none of its {len(source.items)} scenes can be used, so none "
                    "can be drawn as often as its weight says; leave it out"
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


def agents_in(scenes: SceneSet, config: DriveConfig) -> list[int]:
    """Agents of each scene. Those of large sets are kept in the cache: counting reads something of
    every scene.
    """
    if len(scenes) < COUNTS_KEPT:
        return _counted(scenes, config)
    asked = [
        config.control,
        config.control_ids,
        config.init_step,
        bool(config.max_steps),
        config.goal_radius_m,
    ]
    whole = [
        int(scenes.head[name]) for name in ("crc32", "bytes", "scene_count")
    ]  # the sum is of all scenes' sums
    path = cache_folder() / SCENES / f"{key_of('agents', COUNT_VERSION, whole, asked)}.json"
    with contextlib.suppress(OSError, ValueError, RecursionError), holding(path) as folder:
        found: Any = json.loads(folder.read(path.name, MAX_FILE_BYTES))
        if (
            isinstance(found, list)
            and len(found) == len(scenes)
            and all(type(count) is int for count in found)
        ):
            return list(found)
    counts = _counted(scenes, config)
    with contextlib.suppress(
        SceneError
    ):  # a cache that cannot be written is named when it is needed
        write_atomically(path, [json.dumps(counts).encode()])
    return counts


def _counted(scenes: SceneSet, config: DriveConfig) -> list[int]:
    return [int(count) for count in scenes.agents(config)]


def settings_of(config: DriveConfig) -> CompileSettings:
    """What the bytes of compiled scenes depend on."""
    lanes, lines, edges = config.segment_k
    # The env looks for off-road contacts among the indexed edges too, however few of them an agent
    # observes.
    return CompileSettings(
        (lanes, lines, max(edges, OFFROAD_EDGES)), config.range_m, config.simplify_m
    )


def as_it_is(
    sources: Sequence[Source], config: DriveConfig, settings: CompileSettings
) -> Prepared | None:
    """The one .pvs file that the setting names, where its index answers for these settings: then it
    is mapped where it lies.
    """
    (source, *others) = sources
    if others or source.compiled is None or config.split != "all":
        return None
    scenes, checked = checked_set(source.compiled)
    found = Prepared(source.compiled, scenes, (), counts=(len(scenes),), checked=checked)
    return found if covers(scenes.settings, settings) else None


def covers(one: CompileSettings, other: CompileSettings) -> bool:
    """Whether an index made with one answers all that an index made with the other does."""
    return bool(
        (np.array(one.index_k) >= other.index_k).all() and one.range_m >= np.float32(other.range_m)
    )


def same_index(one: CompileSettings, other: CompileSettings) -> bool:
    """Whether scenes compiled with one need no other index to stand in a set compiled with the
    other.
    """
    return bool(one.index_k == other.index_k and one.range_m == np.float32(other.range_m))


def checked_set(path: Path) -> tuple[SceneSet, bool]:
    """Open a set, and check all of its scenes unless there are gigabytes of them.

    Nothing in the cache says that a large set has been checked before: whoever can change the set
        can write that too.

    Returns: the set, and whether it has been checked whole; if not, workers check each scene.
        Raises: SceneError.
    """
    scenes = SceneSet(path)
    if len(scenes.data) > CHECKED_BYTES:
        return scenes, False
    scenes.check_all()
    return scenes, True


def numbers_of(settings: CompileSettings) -> tuple[float, ...]:
    """Those of the settings that are metres."""
    return (settings.range_m, settings.split_m, *settings.tolerances_m)


def from_cache(sources: Sequence[Source], name: str, settings: CompileSettings) -> Prepared:
    """The set of all these scenes in the cache, compiled now if it is not there. Raises:
    SceneError.
    """
    path = set_path([[item.identity for item in source.items] for source in sources], settings)
    found = load_cached(path)
    if found is None:
        try:
            compile_into(path, name, sources, settings)
        except (
            OSError,
            SceneError,
        ):  # another process may have made the same set, and removed the parts that both used
            if load_cached(path) is None:
                raise
        found = load_cached(path)
        if found is None:
            raise SceneError(
                f"{path}: the set of scenes was damaged as soon as it was written; is the disk "
                "failing?"
            )
    items = [item for source in sources for item in source.items]
    places = [items[number].place for number in found.kept]
    if len(set(places)) > 1:
        found.scenes.places = places
    return found


def set_path(identities: Any, settings: CompileSettings) -> Path:
    """Where a set of these scenes is kept."""
    key = key_of(
        COMPILE_VERSION, packed.VERSION, settings.index_k, numbers_of(settings), identities
    )
    return cache_folder() / SCENES / f"{key}.pvset"


def load_cached(path: Path) -> Prepared | None:
    """A set from the cache, or None if it is not there or does not verify."""
    try:
        with holding(path) as folder:
            notes = json.loads(folder.read(notes_path(path).name, MAX_FILE_BYTES))
        left_out = tuple(LeftOut(Path(name), reason) for name, reason in notes["left_out"])
        counts = tuple(int(count) for count in notes["counts"])
        scenes, checked = checked_set(path)
        kept = tuple(int(number) for number in notes["kept"])
        if not sum(counts) == len(kept) == len(scenes):
            return None
        return Prepared(path, scenes, left_out, counts, checked=checked, kept=kept)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError, SceneError):
        return None


# ---- compiling -----------------------------------------------------------------------------------

Outcome = CompiledScene | LeftOut


@dataclass(frozen=True)
class Part:
    """Some scenes of one source, compiled together.

    path: where they are kept until the whole set is there. whole: this is all of the set, and
        stays.
    """

    source: int
    items: tuple[Item, ...]
    path: Path
    whole: bool = False


def compile_into(
    path: Path, name: str, sources: Sequence[Source], settings: CompileSettings
) -> None:
    """Compile all scenes into one file, with its notes.

    Raises:
        SceneError: none of the scenes can be used.
    """
    total = sum(len(source.items) for source in sources)
    if total >= MANY:
        print(
            f"drive: compiling {total} scenes, once; they are kept in {path.parent}",
            file=sys.stderr,
            flush=True,
        )
    parts = parts_of(sources, settings)
    if len(parts) == 1:
        parts = [dataclasses.replace(parts[0], path=path, whole=True)]
    missing = [part for part in parts if load_cached(part.path) is None]
    left = sum(len(part.items) for part in missing)
    compiled = each_on_all_cores(
        functools.partial(compile_part, settings=settings), missing, LEAST_PARTS, chunk=1
    )
    with progress("compiling scenes", total, done=total - left, shown=total >= MANY) as advance:
        for count in compiled:
            advance(count)
    join(path, name, parts, len(sources), settings)
    for part in parts:
        if not part.whole:
            part.path.unlink(missing_ok=True)
            notes_path(part.path).unlink(missing_ok=True)


def parts_of(sources: Sequence[Source], settings: CompileSettings) -> list[Part]:
    """Cut the scenes of each source into parts of PART scenes, or of more where there would be more
    than MOST_PARTS.
    """
    size = max(PART, -(-sum(len(source.items) for source in sources) // MOST_PARTS))
    cut = [
        (n, source.items[at : at + size])
        for n, source in enumerate(sources)
        for at in range(0, len(source.items), size)
    ]
    return [
        Part(n, items, set_path(["part", [item.identity for item in items]], settings))
        for n, items in cut
    ]


def compile_part(part: Part, settings: CompileSettings) -> int:
    """Compile the scenes of a part and write them, in any process; returns how many there were.
    Raises: as `compile_one`.
    """
    write_part(part, [compile_one(item.load, settings) for item in part.items], settings)
    return len(part.items)


def compile_one(load: Load, settings: CompileSettings) -> Outcome:
    """Load and pack one scene, in any process. Raises SceneError as the loader does.

    Scenes of a .pvs file keep their segments, and get another index where they need one.
    """
    item = load()
    if isinstance(item, LeftOut):
        return item
    name = item[0].name if isinstance(item, tuple) else item.name
    try:
        if isinstance(item, tuple):
            stored, its_settings = item
            if same_index(its_settings, settings):
                counts = (stored.moving_vehicles, stored.valid_vehicles, stored.object_count)
                return CompiledScene(stored.name, bytes(stored.data), *counts)
            return reindexed(stored, settings)
        return compile_scene(item, settings)
    except SceneError as error:
        return LeftOut(Path(name), str(error).removeprefix(f"{name}: "))


def write_part(part: Part, outcomes: Sequence[Outcome], settings: CompileSettings) -> None:
    """Write compiled scenes and their notes; the set last, and none if there are no scenes. Raises:
    SceneError.

    Only a whole set waits for the disk: one that is found later as a part is verified before it is
        used.
    """
    kept = {number: item for number, item in enumerate(outcomes) if not isinstance(item, LeftOut)}
    notes = {
        "left_out": [
            [str(item.path), item.reason] for item in outcomes if isinstance(item, LeftOut)
        ],
        "counts": [len(kept)],
        "kept": list(kept),
    }
    write_atomically(notes_path(part.path), [json.dumps(notes).encode()], part.whole)
    if kept:
        write_scene_set(part.path, list(kept.values()), settings, part.whole)


def join(
    path: Path, name: str, parts: Sequence[Part], sources: int, settings: CompileSettings
) -> None:
    """Write the set of all parts, with notes on all of it. Raises: SceneError: there is no scene in
    any of them.
    """
    left_out: list[list[str]] = []
    counts = [0] * sources
    kept: list[int] = []
    filled: list[Path] = []
    before = 0
    for part in parts:
        with holding(part.path) as folder:
            found = json.loads(folder.read(notes_path(part.path).name, MAX_FILE_BYTES))
        left_out += found["left_out"]
        kept += [before + number for number in found["kept"]]
        before += len(part.items)
        counts[part.source] += found["counts"][0]
        if found["counts"][0]:
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
    """The JSON file beside a set."""
    return path.with_suffix(".json")


def remarks_on(left_out: Sequence[LeftOut]) -> list[str]:
    """Lines on the files that were left out, the first few by name."""
    lines = [f"left out {item.path.name}: {item.reason}" for item in left_out[:REMARKS_SHOWN]]
    if len(left_out) > REMARKS_SHOWN:
        more = len(left_out) - REMARKS_SHOWN
        lines.append(
            f"left out {more} more file{'s' if more > 1 else ''}; `puffer-scenes check --json` "
            "names all"
        )
    return lines
