# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Resolves the setting `scenes`: the scenes, where they come from, and the split of each.

Runs in the learner before workers start. Nothing is parsed here: a scene is an identity and a
function that loads it, which drive_env/prepare.py calls in helper processes if the scene is not in
the cache.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drive_env.config import (
    DEFAULT_SCENES,
    EVALUATED_ON,
    LOT_SCENES,
    SCENES_ALLOWED,
    STREET_SCENES,
    sets_of,
)
from drive_env.generate import generate, lots, place, streets
from drive_env.scenes.arrow_log import is_log, log_digest, read_log
from drive_env.scenes.check import unreadable
from drive_env.scenes.compile import CompileSettings
from drive_env.scenes.reader import (
    SUFFIXES,
    LeftOut,
    check_drivable,
    name_of,
    parse_scene,
    read_bytes,
    read_scenario,
    read_scene,
    record_name,
    scene_files,
    source_files,
)
from drive_env.scenes.sceneset import SceneSet, is_scene_set
from drive_env.scenes.schema import Scene
from drive_env.scenes.stored import StoredScene
from drive_env.scenes.tfrecord import Record, is_record_file, list_records
from drive_env.scenes.windows import MARK
from puffervec.errors import SceneError
from puffervec.system.cache import SCENES, cache_folder, holding, key_of, write_atomically
from puffervec.system.cores import usable_cores

SHARES = {"train": 0.8, "validation": 0.9, "test": 1.0}  # upper end of each split in [0, 1)
# These stand in place of the digest of a .pvs file and of a TFRecord file.
COMPILED, RECORDS = "compiled", "records"
MOST_INDEX_BYTES = 1 << 28
# A file that was changed this shortly before it was read may change again without a new time stamp.
FRESH_NS = 2_000_000_000
MANY_FRESH = 32  # several threads read at least this many files
MANY_UNKNOWN, PROBES = 1000, 256  # if more files are new, a sample of this many must have a scene
LIST = ".txt"  # suffix of lists of scenes
_COUNT = re.compile(r"[1-9][0-9]{0,4}")
# For each kind of generated scenes its version, which is part of the cache key, and its generator.
GENERATORS: dict[str, tuple[int, Callable[[int, int, bool], Scene]]] = {
    DEFAULT_SCENES: (generate.GENERATOR_VERSION, generate.generate_scene),
    STREET_SCENES: (streets.STREETS_VERSION, streets.street_scene),
    LOT_SCENES: (lots.LOTS_VERSION, lots.lot_scene),
}
_DIGEST = re.compile(r"[0-9a-f]{64}")

# A scene, a stored scene with the settings of its .pvs file, or why it is left out
Loaded = Scene | tuple[StoredScene, CompileSettings] | LeftOut


@dataclass(frozen=True)
class Item:
    """One scene.

    Attributes:
        id: what its split depends on.
        identity: JSON-like; equal for equal content.
        load: reads the scene.
        load_map: reads it as a map, which needs no object that can drive; None: `load` reads it.
        place: the folder or .pvs file that contains it, absolute; "" if it is generated.
    """

    id: str
    identity: Any
    load: Callable[[], Loaded]
    place: str = ""
    load_map: Callable[[], Loaded] | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Placing:
    """Settings of the placement of vehicles on maps (drive_env/generate/place.py).

    Attributes:
        count: scenes of each map.
        per_km: vehicles per km of lane.
        seed: seed of the draws.
    """

    count: int
    per_km: float
    seed: int


@dataclass(frozen=True)
class Source:
    """One of the sets that the setting names.

    Attributes:
        weight: relative frequency of draws of all its scenes together; None if the setting
            gives none.
        compiled: its path if it is a .pvs file.
    """

    name: str
    items: tuple[Item, ...]
    weight: float | None = None
    compiled: Path | None = None


def sources_of(scenes: str, split: str = "all", placing: Placing | None = None) -> list[Source]:
    """Return the sets that the setting `scenes` names, each with its scenes of a split.

    Args:
        placing: None: the scenes as they are; else each stands for `placing.count` scenes of placed
            vehicles on its map.

    Raises:
        SceneError: there is no such folder or file, or none of its scenes belongs to the split.
    """
    sources = []
    for name, weight in sets_of(scenes):
        items, compiled = _items_of(name)
        kept = tuple(item for item in items if split in ("all", split_of(item.id)))
        if not kept:
            raise SceneError(
                f"{name}: none of its {len(items)} scenes is in the split {split}: use "
                "--env.split all"
            )
        if placing is not None:
            kept, compiled = tuple(_placed_items(kept, placing)), None
        sources.append(Source(name, kept, weight, compiled))
    return sources


def _placed_items(items: tuple[Item, ...], placing: Placing) -> Iterator[Item]:
    """Yield `placing.count` scenes on the map of each item."""
    draws = [place.PLACE_VERSION, placing.seed, placing.per_km]
    for item in items:
        own_map = Map(json.dumps(item.identity), item.load_map or item.load)
        for number in range(placing.count):
            yield Item(
                item.id,
                [item.identity, "placed", *draws, number],
                functools.partial(load_placed, own_map, placing, number),
                item.place,
            )


@dataclass(frozen=True)
class Map:
    """A map that is read once for all scenes on it; equal identities mean equal maps."""

    identity: str
    load: Callable[[], Loaded] = field(compare=False)


@functools.lru_cache(maxsize=2)
def _read_map(of: Map) -> Loaded:
    return of.load()


def load_placed(of: Map, placing: Placing, number: int) -> Scene | LeftOut:
    """Read a map and place vehicles on it, or return why it cannot be used.

    Raises:
        SceneError: the file was replaced since it was listed.
    """
    loaded = _read_map(of)
    if isinstance(loaded, LeftOut):
        return loaded
    scene = loaded if isinstance(loaded, Scene) else loaded[0].scene()
    try:
        return place.place(scene, placing.seed, number, placing.per_km)
    except SceneError as error:
        return LeftOut(Path(scene.name), str(error).removeprefix(f"{scene.name}: "))


def split_of(scene_id: str) -> str:
    """Return the split of a scene, by a hash of its id.

    It is "train" (80 %), "validation" or "test" (10 % each). The id is the file's name without
    folder and suffix (`id_of`), so a scene stays in its split when it is copied or converted,
    whatever other scenes there are.

    >>> split_of("tfrecord-00000-of-01000_325")
    'train'
    """
    place = (
        int.from_bytes(
            hashlib.sha256(scene_id.encode("utf-8", "surrogateescape")).digest()[:8], "big"
        )
        / 2**64
    )
    return next(name for name, end in SHARES.items() if place < end)


def id_of(name: str) -> str:
    """Return the id of the scene of a file: its name without folder and suffixes of formats.

    The windows of a scene have its id.

    >>> id_of("day.1/scene-7.json.pvs"), id_of("scene-7.json"), id_of("scene-7.window-2.json")
    ('scene-7', 'scene-7', 'scene-7')
    """
    stem = Path(MARK.sub("", name)).stem
    while Path(stem).suffix in SUFFIXES:
        stem = Path(stem).stem
    return stem


def _items_of(name: str) -> tuple[list[Item], Path | None]:
    """Return the scenes of one set, and the path if it is a .pvs file."""
    kind, colon, number = name.partition(":")
    if kind in EVALUATED_ON and (_COUNT.fullmatch(number) or not colon):
        count = int(number) if number else generate.DEFAULT_COUNT
        return generated_items(kind, count, generate.DEFAULT_SEED), None
    for kind, held_out in EVALUATED_ON.items():
        if name == held_out:
            count, seed = generate.HELD_OUT_COUNT, generate.HELD_OUT_SEED
            return generated_items(kind, count, seed, wide=True), None
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            return _folder_items(path), None
        if is_scene_set(path):
            return _compiled_items(path), path
        if path.is_file() and path.suffix == LIST:
            return _listed_items(path), None
        if path.is_file() and is_record_file(path):
            return _record_items(path), None
        if path.is_file():
            digest = digest_of(path)
            load = functools.partial(load_file, path, digest)
            return [
                Item(
                    id_of(name_of(path)),
                    [name_of(path), digest],
                    load,
                    str(path.parent.absolute()),
                    load_map=functools.partial(load, as_map=True),
                )
            ], None
    except (OSError, RuntimeError) as error:  # name too long, no permission, ~user without a home
        raise unreadable(name, error) from error
    raise SceneError(f"{name}: no such folder or file; it must be {SCENES_ALLOWED}")


def _listed_items(path: Path) -> list[Item]:
    """Return the scenes of a list: a text file with a file or folder per line, relative to its own.

    Empty lines and those that begin with # are left out.

    Raises:
        SceneError: a line names no file or folder, or no line names one.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise SceneError(f"{path}: is not a list of scenes: {error}") from error
    items: list[Item] = []
    for number, line in enumerate(map(str.strip, lines), 1):
        if line and not line.startswith("#"):
            named = path.parent / line
            if not named.exists() or named.suffix == LIST:
                raise SceneError(
                    f"{path}, line {number}: {line} is not a scene file or folder next to the list"
                )
            items += _items_of(str(named))[0]
    if not items:
        raise SceneError(f"{path}: it lists no scenes: write one file or folder per line")
    return items


def generated_items(kind: str, count: int, seed: int, wide: bool = False) -> list[Item]:
    """Return the first `count` scenes of a seed by the generator GENERATORS[kind]."""
    version, make = GENERATORS[kind]
    return [
        Item(
            f"{kind}-{seed}-{index}",
            [kind, version, seed, index, wide],
            functools.partial(make, seed, index, wide),
        )
        for index in range(count)
    ]


def _folder_items(folder: Path) -> list[Item]:
    """Return the scenes in a folder and its subfolders, of all formats.

    For an unreadable file, loading its scene gives the reason.
    """
    files = scene_files(folder)
    cached, top = (cache_folder() / SCENES).resolve(), folder.resolve()
    if cached.is_relative_to(top):  # the cache changes while scenes are compiled
        files = [
            path for path in files if not path.is_relative_to(folder / cached.relative_to(top))
        ]
    digests = digests_of(folder, files)
    items: list[Item] = []
    for path in files:
        folder_of = str(path.parent.absolute())
        if digests[path] in (COMPILED, RECORDS):
            list_items = _compiled_items if digests[path] == COMPILED else _record_items
            try:
                items += list_items(path)
            except SceneError as error:
                reason = str(error).removeprefix(f"{path}: ")
                items.append(
                    Item(
                        id_of(path.name),
                        [path.name, reason],
                        functools.partial(LeftOut, path, reason),
                        folder_of,
                    )
                )
        else:
            load = functools.partial(load_file, path, digests[path], leave_out=True)
            load_map = functools.partial(load, as_map=True)
            identity = [name_of(path), digests[path]]
            items.append(Item(id_of(name_of(path)), identity, load, folder_of, load_map=load_map))
    return items


def _compiled_items(path: Path) -> list[Item]:
    """Return the scenes of a .pvs file.

    Raises:
        SceneError: see SceneSet.
    """
    scenes = SceneSet(path)
    # This checksum covers the table, which contains the checksums of the scenes.
    total, file = int(scenes.head["crc32"]), str(path.absolute())
    return [
        Item(
            id_of(name),
            ["compiled", total, index],
            functools.partial(stored_scene, path, total, index),
            file,
        )
        for index, name in enumerate(scenes.names)
    ]


def _record_items(path: Path) -> list[Item]:
    """Return the scenes of a TFRecord file.

    Raises:
        SceneError, MissingExtraError: see `list_records`.
    """
    file, stamp = str(path.absolute()), tuple(stamp_of(path))
    items = []
    for index, record in enumerate(records_of(path)):
        name = record_name(path, index)
        load = functools.partial(load_record, path, index, record, stamp)
        load_map = functools.partial(load, as_map=True)
        identity = [name, record.length, record.checksum]
        items.append(Item(id_of(name), identity, load, file, load_map=load_map))
    return items


def records_of(path: Path) -> list[Record]:
    """Return the records of a TFRecord file; cached until the file changes."""
    return _stamped_records(path, tuple(stamp_of(path)))


@functools.lru_cache(maxsize=4)
def _stamped_records(path: Path, stamp: tuple[int, ...]) -> list[Record]:
    return list_records(path)


def load_record(
    path: Path, index: int, record: Record, stamp: tuple[int, ...], as_map: bool = False
) -> Scene | LeftOut:
    """Read a scene of a TFRecord file, or return why it cannot be used.

    Args:
        stamp: `stamp_of` the file when its records were listed.
        as_map: accept a scene in which nothing can drive.

    Raises:
        SceneError: the file was replaced since.
    """
    try:
        scene = read_scenario(path, index, record)
        return scene if as_map else check_drivable(scene, f"{path}: record {index}")
    except SceneError as error:
        if tuple(stamp_of(path)) != stamp:
            raise _replaced_error(path) from error
        return LeftOut(path, str(error).removeprefix(f"{path}: "))


def stored_scene(
    path: Path, total: int, index: int
) -> tuple[StoredScene, CompileSettings] | LeftOut:
    """Return a scene of a .pvs file and its settings, or why it cannot be used.

    Args:
        total: the checksum of the file's table when its scenes were listed.

    Raises:
        SceneError: the file was replaced since; its new content must not be cached under the key of
            the old one.
    """
    try:
        scenes = open_cached(path)
    except SceneError as error:
        raise _replaced_error(path) from error
    if int(scenes.head["crc32"]) != total:
        raise _replaced_error(path)
    try:
        return scenes[index], scenes.settings
    except SceneError as error:
        return LeftOut(path, str(error).removeprefix(f"{path}: "))


def open_cached(path: Path) -> SceneSet:
    """Open a .pvs file, or return the open one if the file has not changed.

    Opening reads part of every scene.
    """
    return _open_stamped(path, tuple(stamp_of(path)))


@functools.lru_cache(maxsize=4)
def _open_stamped(path: Path, stamp: tuple[int, ...]) -> SceneSet:
    return SceneSet(path)


def load_file(
    path: Path, digest: str, leave_out: bool = False, as_map: bool = False
) -> Scene | LeftOut:
    """Read the scene file with this digest.

    Args:
        leave_out: True returns a LeftOut for a file that cannot be used; `digest` may then be the
            reason why it could not be read.
        as_map: accept a scene in which nothing can drive.

    Raises:
        SceneError: the file cannot be used (see `check_drivable`), or it was replaced since.
    """
    if leave_out and not _DIGEST.fullmatch(digest):
        return LeftOut(path, digest.removeprefix(f"{path}: "))
    try:
        if is_log(path):
            if log_digest(path) != digest:
                raise _replaced_error(path)
            scene = read_log(path)
        else:
            data = read_bytes(path)
            if hashlib.sha256(data).hexdigest() != digest:
                raise _replaced_error(path)
            scene = parse_scene(data, str(path), path.name)
        return scene if as_map else check_drivable(scene, str(path))
    except SceneError as error:
        if not leave_out or isinstance(error, ReplacedError):
            raise
        return LeftOut(path, str(error).removeprefix(f"{path}: "))


class ReplacedError(SceneError):
    """A scene file has changed since its folder was listed."""


def _replaced_error(path: Path) -> ReplacedError:
    return ReplacedError(
        f"{path}: the file was replaced while scenes were being compiled: run the command again"
    )


def stamps_of(scenes: str) -> tuple[tuple[int, ...], ...]:
    """Return the stamps of the files and folders that the setting `scenes` names."""
    return tuple(tuple(stamp_of(Path(name).expanduser())) for name, _ in sets_of(scenes))


# ---- digests of files ----------------------------------------------------------------------------


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a scene file's content, hexadecimal.

    Raises:
        SceneError: as `reader.read_bytes`.
    """
    return log_digest(path) if is_log(path) else hashlib.sha256(read_bytes(path)).hexdigest()


def digest_or_refusal(path: Path) -> str:
    """Return `digest_of`, or the reason why the file cannot be read.

    Files of many scenes may be large, so COMPILED or RECORDS is returned for them.
    """
    try:
        if is_scene_set(path):
            return COMPILED
        return RECORDS if is_record_file(path) else digest_of(path)
    except SceneError as error:
        return str(error)


def digests_of(folder: Path, files: list[Path]) -> dict[Path, str]:
    """Return the digests of a folder's files.

    Digests of unchanged files come from a list in the cache, as in Git. A file counts as unchanged
    if its size, inode and times are those of the list, and it was changed well before the list was
    written.
    """
    listed = cache_folder() / SCENES / f"{key_of(COMPILED, 'digests', str(folder.resolve()))}.json"
    known, written_ns = _known_digests(listed)
    names = {path: str(path.relative_to(folder)) for path in files}
    stamps = {path: stamp_of(path) for path in files}
    unchanged = {
        path: digest
        for path in files
        if (digest := _digest_if_unchanged(known.get(names[path]), stamps[path], written_ns))
        is not None
    }
    fresh = [path for path in files if path not in unchanged]
    if not unchanged and len(fresh) > MANY_UNKNOWN:
        _require_a_scene(folder, fresh)
    # Reading and hashing release the GIL.
    with ThreadPoolExecutor(usable_cores() if len(fresh) >= MANY_FRESH else 1) as pool:
        digests = unchanged | dict(zip(fresh, pool.map(digest_or_refusal, fresh), strict=True))
    entries = {names[path]: [stamps[path], digests[path]] for path in files}
    if entries != known:
        # A cache that cannot be written is reported when it is needed.
        with contextlib.suppress(SceneError, UnicodeEncodeError):
            write_atomically(listed, [json.dumps(entries).encode()])
    return digests


def _require_a_scene(folder: Path, files: list[Path]) -> None:
    """Raise SceneError if no file of an evenly spaced sample is a scene.

    This stops early when a user names, say, `/` by mistake, which would take hours to read.
    """
    probed = files[:: -(-len(files) // PROBES)]
    if not any(is_scene_set(path) or is_record_file(path) or _is_scene(path) for path in probed):
        raise SceneError(
            f"{folder}: none of {len(probed)} files, drawn evenly from the {len(files):,} below "
            f"it that end in {', '.join(SUFFIXES)}, is a scene: name the folder with the scenes"
        )


def _is_scene(path: Path) -> bool:
    """Return whether a file is a scene, which may be a map in which nothing drives."""
    try:
        read_scene(path)
    except SceneError:
        return False
    return True


def stamp_of(path: Path) -> list[int]:
    """Return numbers that change with a scene's files: sizes and inodes, then the newest times.

    The list is empty if a file cannot be examined.
    """
    with contextlib.suppress(OSError, ValueError):
        all_status = [file.stat() for file in source_files(path)]
        return [
            *(status.st_size for status in all_status),
            *(status.st_ino for status in all_status),
            max(status.st_mtime_ns for status in all_status),
            max(status.st_ctime_ns for status in all_status),
        ]
    return []


def _digest_if_unchanged(entry: Any, stamp: list[int], written_ns: int) -> str | None:
    """Return the digest of an entry of the list if the file has not changed since."""
    stable = bool(stamp) and max(stamp[-2:]) < written_ns - FRESH_NS
    if (
        stable
        and isinstance(entry, list)
        and len(entry) == 2
        and entry[0] == stamp
        and isinstance(entry[1], str)
    ):
        return entry[1]
    return None


def _known_digests(listed: Path) -> tuple[Mapping[str, Any], int]:
    """Return the list of digests, and when it was written; ({}, 0) if there is none."""
    try:
        with holding(listed) as place:
            written_ns = place.stat(listed.name).st_mtime_ns
            known = json.loads(place.read(listed.name, MOST_INDEX_BYTES))
            return (known, written_ns) if isinstance(known, dict) else ({}, 0)
    except (OSError, ValueError, RecursionError):
        return {}, 0
