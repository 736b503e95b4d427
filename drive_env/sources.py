# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What the setting `scenes` means: which scenes there are, where they come from, and to which split
each belongs.

Runs in the learner before workers start. Nothing is parsed here: a scene is an identity and a
function that loads it, which drive_env/prepare.py calls in helper processes where the scene is not
in the cache.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drive_env.config import (
    DEFAULT_SCENES,
    HELD_OUT_SCENES,
    HELD_OUT_STREETS,
    SCENES_ALLOWED,
    STREET_SCENES,
    sets_of,
)
from drive_env.generate import generate, streets
from drive_env.scenes.compile import CompileSettings
from drive_env.scenes.reader import (
    SUFFIXES,
    LeftOut,
    check_drivable,
    parse_scene,
    read_bytes,
    read_usable,
    scene_files,
)
from drive_env.scenes.sceneset import SceneSet, is_scene_set
from drive_env.scenes.schema import Scene
from drive_env.scenes.stored import StoredScene
from puffervec.errors import SceneError
from puffervec.system.cache import SCENES, cache_folder, holding, key_of, write_atomically
from puffervec.system.cores import usable_cores

SHARES = {
    "train": 0.8,
    "validation": 0.9,
    "test": 1.0,
}  # up to which part of [0, 1) each split reaches
COMPILED = "compiled"  # in place of a digest: the file is a .pvs file
MOST_INDEX_BYTES = 1 << 28
# A file that was changed so shortly before it was read may change again without a trace
FRESH_NS = 2_000_000_000
MANY_FRESH = 32  # files from which on several threads read them
MANY_UNKNOWN, PROBES = 1000, 256  # a folder of more new files must have a scene among so many
_COUNTED = re.compile(r"(?:generated|streets):([1-9][0-9]{0,4})")
_DIGEST = re.compile(r"[0-9a-f]{64}")

Load = Callable[[], Scene | tuple[StoredScene, CompileSettings] | LeftOut]


@dataclass(frozen=True)
class Item:
    """One scene.

    Attributes:
        id: what its split depends on. identity: JSON-like; equal where the content is.
        load: reads it. place: the folder or .pvs file that it is in, absolute; "" if it is
            generated.
    """

    id: str
    identity: Any
    load: Load
    place: str = ""


@dataclass(frozen=True)
class Source:
    """One of the sets that the setting names. weight: how often its scenes are drawn, all together;
    None: not given.
    """

    name: str
    items: tuple[Item, ...]
    weight: float | None = None
    compiled: Path | None = None  # it is this .pvs file


def sources_of(scenes: str, split: str = "all") -> list[Source]:
    """Return the sets that the setting `scenes` names, each with its scenes of a split.

    Raises:
        SceneError: there is no such folder or file, or none of its scenes belongs to the split.
    """
    found = []
    for name, weight in sets_of(scenes):
        items, compiled = _items_of(name)
        kept = tuple(item for item in items if split in ("all", split_of(item.id)))
        if not kept:
            found_none = f"none of its {len(items)} scenes is in the split {split}"
            raise SceneError(f"{name}: {found_none}; --env.split all takes every one")
        found.append(Source(name, kept, weight, compiled))
    return found


def split_of(scene_id: str) -> str:
    """Return the split of a scene: "train" (80 %), "validation" or "test" (10 % each), by a hash of
        its id.

    The id is the file's name without folder and ending (`id_of`), so a scene stays in its split
    when it is copied or converted, and whatever other scenes there are.

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
    """Return the id of the scene of a file: its name without folder and endings of formats.

    >>> id_of("day.1/scene-7.json.pvs"), id_of("scene-7.json"), id_of("scene-7")
    ('scene-7', 'scene-7', 'scene-7')
    """
    found = Path(name).stem
    while Path(found).suffix in SUFFIXES:
        found = Path(found).stem
    return found


def _items_of(name: str) -> tuple[list[Item], Path | None]:
    """Return the scenes of one set, and the path if it is a .pvs file."""
    counted = _COUNTED.fullmatch(name)
    if name in (DEFAULT_SCENES, STREET_SCENES) or counted:
        count = int(counted[1]) if counted else generate.DEFAULT_COUNT
        return generated(count, generate.DEFAULT_SEED, name.startswith(STREET_SCENES)), None
    if name in (HELD_OUT_SCENES, HELD_OUT_STREETS):
        return generated(
            generate.HELD_OUT_COUNT, generate.HELD_OUT_SEED, name == HELD_OUT_STREETS, wide=True
        ), None
    try:
        given = Path(name).expanduser()
        if given.is_dir():
            return _of_folder(given), None
        if is_scene_set(given):
            return _of_compiled(given), given
        if given.is_file():
            digest = digest_of(given)
            load = functools.partial(read_listed, given, digest)
            return [
                Item(id_of(given.name), [given.name, digest], load, str(given.parent.absolute()))
            ], None
    except (
        OSError,
        RuntimeError,
    ) as error:  # a name that is too long, no right to look, ~somebody who has no home
        raise SceneError(
            f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from error
    raise SceneError(f"{name}: no such folder or file; it must be {SCENES_ALLOWED}")


def generated(count: int, seed: int, of_streets: bool, wide: bool = False) -> list[Item]:
    """Return scenes of the generator."""
    kind, version, make = DEFAULT_SCENES, generate.GENERATOR_VERSION, generate.generate_scene
    if of_streets:
        kind, version, make = STREET_SCENES, streets.STREETS_VERSION, streets.street_scene
    return [
        Item(
            f"{kind}-{seed}-{index}",
            [kind, version, seed, index, wide],
            functools.partial(make, seed, index, wide),
        )
        for index in range(count)
    ]


def _of_folder(folder: Path) -> list[Item]:
    """Return the scenes in a folder and its subfolders, of all formats; what cannot be read says so
    when it is loaded.
    """
    files = scene_files(folder)
    cached, top = (cache_folder() / SCENES).resolve(), folder.resolve()
    if cached.is_relative_to(top):  # its lists change while scenes are compiled
        files = [
            path for path in files if not path.is_relative_to(folder / cached.relative_to(top))
        ]
    digests = digests_of(folder, files)
    found: list[Item] = []
    for path in files:
        place = str(path.parent.absolute())
        if digests[path] == COMPILED:
            try:
                found += _of_compiled(path)
            except SceneError as error:
                reason = str(error).removeprefix(f"{path}: ")
                found.append(
                    Item(
                        id_of(path.name),
                        [path.name, reason],
                        functools.partial(LeftOut, path, reason),
                        place,
                    )
                )
        else:
            load = functools.partial(_usable, path, digests[path])
            found.append(Item(id_of(path.name), [path.name, digests[path]], load, place))
    return found


def _of_compiled(path: Path) -> list[Item]:
    """Return the scenes of a .pvs file. Raises: SceneError: see SceneSet."""
    scenes = SceneSet(path)
    total, place = (
        int(scenes.head["crc32"]),
        str(path.absolute()),
    )  # the sum is of the table, which has those of the scenes
    return [
        Item(
            id_of(name),
            ["compiled", total, index],
            functools.partial(stored_scene, path, total, index),
            place,
        )
        for index, name in enumerate(scenes.names)
    ]


def stored_scene(
    path: Path, total: int, index: int
) -> tuple[StoredScene, CompileSettings] | LeftOut:
    """Return a scene of a .pvs file and what it was compiled with, or why it cannot be used.

    Args: total: the sum of the file's table when its scenes were listed.

    Raises:
        SceneError: the file was replaced since; what it holds now must not be kept under the key of
            what it held.
    """
    try:
        scenes = opened(path)
    except SceneError as error:
        raise _replaced(path) from error
    if int(scenes.head["crc32"]) != total:
        raise _replaced(path)
    try:
        return scenes[index], scenes.settings
    except SceneError as error:
        return LeftOut(path, str(error).removeprefix(f"{path}: "))


def opened(path: Path) -> SceneSet:
    """Open a .pvs file; the same one again until the file changes, since opening looks at all of
    its scenes.
    """
    return _opened(path, tuple(stamp_of(path)))


@functools.lru_cache(maxsize=4)
def _opened(path: Path, stamp: tuple[int, ...]) -> SceneSet:
    return SceneSet(path)


def read_listed(path: Path, digest: str) -> Scene:
    """Read a scene file with this digest. Raises: SceneError: see `check_drivable`; the file was
    replaced since.
    """
    data = read_bytes(path)
    if hashlib.sha256(data).hexdigest() != digest:
        raise _replaced(path)
    return check_drivable(parse_scene(data, str(path), path.name), str(path))


def _usable(path: Path, digest: str) -> Scene | LeftOut:
    """Read a file of a folder, or return why it is left out. Args: digest: or the reason why it
        could not be read.

    Raises: SceneError: the file was replaced since.
    """
    if not _DIGEST.fullmatch(digest):
        return LeftOut(path, digest.removeprefix(f"{path}: "))
    try:
        return read_listed(path, digest)
    except ReplacedError:
        raise
    except SceneError as error:
        return LeftOut(path, str(error).removeprefix(f"{path}: "))


class ReplacedError(SceneError):
    """A scene file is another one than when its folder was listed."""


def _replaced(path: Path) -> ReplacedError:
    return ReplacedError(
        f"{path}: the file was replaced while scenes were being compiled: start again"
    )


def stamps_of(scenes: str) -> tuple[tuple[int, ...], ...]:
    """Return the stamps of the files and folders that the setting `scenes` names."""
    return tuple(tuple(stamp_of(Path(name).expanduser())) for name, _ in sets_of(scenes))


# ---- what files contain --------------------------------------------------------------------------


def digest_of(path: Path) -> str:
    """SHA-256 of a scene file's content, hexadecimal. Raises SceneError as `reader.read_bytes`."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def digest_or_refusal(path: Path) -> str:
    """`digest_of`, or the reason why the file cannot be read; COMPILED of a .pvs file, which may be
    large.
    """
    try:
        return COMPILED if is_scene_set(path) else digest_of(path)
    except SceneError as error:
        return str(error)


def digests_of(folder: Path, files: list[Path]) -> dict[Path, str]:
    """Return the digests of a folder's files. For those that have not changed they come from a list
    in the cache, as in Git.

    A file counts as unchanged if its size, inode and times are those of the list, and it was
    changed well before the list was written.
    """
    listed = cache_folder() / SCENES / f"{key_of(COMPILED, 'digests', str(folder.resolve()))}.json"
    known, written_ns = _known_digests(listed)
    names = {path: str(path.relative_to(folder)) for path in files}
    stamps = {path: stamp_of(path) for path in files}
    kept = {
        path: digest
        for path in files
        if (digest := _kept(known.get(names[path]), stamps[path], written_ns)) is not None
    }
    fresh = [path for path in files if path not in kept]
    if not kept and len(fresh) > MANY_UNKNOWN:
        _require_a_scene(folder, fresh)
    with ThreadPoolExecutor(
        usable_cores() if len(fresh) >= MANY_FRESH else 1
    ) as pool:  # reading and hashing leave the GIL
        found = kept | dict(zip(fresh, pool.map(digest_or_refusal, fresh), strict=True))
    entries = {names[path]: [stamps[path], found[path]] for path in files}
    if entries != known:
        with contextlib.suppress(
            SceneError, UnicodeEncodeError
        ):  # a cache that cannot be written is named when it is needed
            write_atomically(listed, [json.dumps(entries).encode()])
    return found


def _require_a_scene(folder: Path, files: list[Path]) -> None:
    """Raise SceneError if none of some files, drawn evenly, is a scene: `/` is soon named, and
    takes hours to read.
    """
    probed = files[:: -(-len(files) // PROBES)]
    if not any(is_scene_set(path) or isinstance(read_usable(path), Scene) for path in probed):
        raise SceneError(
            f"{folder}: none of {len(probed)} files, drawn evenly from the {len(files):,} below "
            f"it that end in {', '.join(SUFFIXES)}, is a scene; name the folder that holds the "
            "scenes"
        )


def stamp_of(path: Path) -> list[int]:
    """What changes with a file's content: its size, inode and times; nothing if it cannot be looked
    at.
    """
    with contextlib.suppress(OSError, ValueError):
        seen = path.stat()
        return [seen.st_size, seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns]
    return []


def _kept(entry: Any, stamp: list[int], written_ns: int) -> str | None:
    """Return the digest of an entry of the list if the file has not changed since."""
    settled = bool(stamp) and max(stamp[2:]) < written_ns - FRESH_NS
    if (
        settled
        and isinstance(entry, list)
        and len(entry) == 2
        and entry[0] == stamp
        and isinstance(entry[1], str)
    ):
        return entry[1]
    return None


def _known_digests(listed: Path) -> tuple[Mapping[str, Any], int]:
    """Return the list of digests, and when it was written; nothing if there is none."""
    try:
        with holding(listed) as place:
            written_ns = place.stat(listed.name).st_mtime_ns
            known = json.loads(place.read(listed.name, MOST_INDEX_BYTES))
            return (known, written_ns) if isinstance(known, dict) else ({}, 0)
    except (OSError, ValueError, RecursionError):
        return {}, 0
