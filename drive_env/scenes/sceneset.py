# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Files of compiled scenes (.pvs): writes, verifies and reads them.

docs/pvs.md describes the format. Runs in the learner; workers map the same file read-only
(csrc/drive/scene/scene.h). Nothing is read before it is needed: a file of gigabytes opens in
milliseconds per thousand scenes. Checks:

- at the start: magic, version, size, the checksum of the table, and the places of each scene's
  sections and objects;
- before a scene is first used, here or in a worker: its own checksum, and all its numbers and
  indices.
"""

from __future__ import annotations

import collections
import functools
import itertools
import mmap
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from drive_env.config import DriveConfig
from drive_env.scenes import packed
from drive_env.scenes.agents import COUNTED, agent_mask
from drive_env.scenes.check import unreadable
from drive_env.scenes.compile import CompiledScene, CompileSettings
from drive_env.scenes.stored import StoredScene, name_in
from puffervec._ffi import ffi, lib
from puffervec.errors import SceneError
from puffervec.system.cache import holding, write_atomically

# A name in the table with at least this many bytes may be cut. Cutting removes a partial letter
# too, so a cut name can be this short.
SHORTEST_CUT = packed.NAME_BYTES - 4


class SceneSet(Sequence[StoredScene]):
    """The scenes of a .pvs file, mapped into memory.

    `scenes[i]` is one of them; arrays alias the file and are read-only. Do not change a file that
    is in use in place; replace it, so that processes that have it open keep the old one.

    Args:
        path: a file written by `write_scenes` or `write_scene_set`.

    Attributes:
        head: a record of packed.SET.
        entries: (scenes,) records of packed.ENTRY.
        places: the folder or file of each scene, absolute, or "" if it was generated; set it before
            `names` is read. None: unknown.

    Raises:
        SceneError: the file is missing, not a scene set, of another version, truncated or damaged.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._data = _map(self.path)
        self._pointer = ffi.from_buffer("uint8_t[]", self._data)
        self.head, self.entries = self._table()
        self._checked: set[int] = set()
        self.places: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> StoredScene: ...

    @overload
    def __getitem__(self, index: slice) -> list[StoredScene]: ...

    def __getitem__(self, index: int | slice) -> StoredScene | list[StoredScene]:
        """Return a scene.

        Raises:
            SceneError: the scene is damaged; the message tells where.
        """
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        self.check(number)
        entry = self.entries[number]
        start, size = int(entry["offset"]), int(entry["bytes"])
        return StoredScene(
            self.names[number],
            *self.scene(number),
            memoryview(self._data)[start : start + size],
            entry,
        )

    def __iter__(self) -> Iterator[StoredScene]:
        return (self[index] for index in range(len(self)))

    @functools.cached_property
    def names(self) -> list[str]:
        """Return the file names of the scenes, in task order.

        Names that occur several times include the folders in which they differ.
        """
        names = [self._name(index, bytes(name)) for index, name in enumerate(self.entries["name"])]
        if self.places is None:
            return names
        uses = collections.Counter(names)
        top = os.path.commonpath([place for place in self.places if place])
        apart = [
            str(Path(place and os.path.relpath(place, top), name))
            for place, name in zip(self.places, names, strict=True)
        ]
        return [
            name if uses[name] == 1 else longer for name, longer in zip(names, apart, strict=True)
        ]

    def _name(self, index: int, listed: bytes) -> str:
        """Return the name of a scene from the table, or the full name if that one may be cut."""
        if len(listed) >= SHORTEST_CUT or b"?" in listed:
            whole = name_in(self.scene(index, ("text",))[1]["text"])
            if whole is not None and name_in_table(whole) == listed:
                return whole
        return listed.decode("utf-8", "replace")

    @property
    def settings(self) -> CompileSettings:
        """Return the settings with which the scenes were compiled."""
        head = self.head
        lanes, lines, edges = (int(k) for k in head["index_k"])
        numbers = (
            float(head[name])
            for name in ("index_range_m", "simplify_m", "split_m", "simplify_edges_m")
        )
        return CompileSettings((lanes, lines, edges), *numbers)

    def check(self, index: int) -> None:
        """Check a scene completely, the first time.

        Raises:
            SceneError: the scene is damaged; the message tells where.
        """
        if index not in self._checked:
            self._raise_if(
                lambda text: lib.pv_drive_scene_check(
                    self._pointer, len(self._data), index, 1, text
                )
            )
            self._checked.add(index)

    def check_all(self) -> None:
        """Check all scenes completely.

        Raises:
            SceneError: see `check`.
        """
        for index in range(len(self)):
            self.check(index)

    def _raise_if(self, question: Any) -> None:
        text = ffi.new("char[]", lib.PV_ERROR_TEXT)
        if question(text):
            raise SceneError(f"{self.path}: {ffi.string(text).decode()}")

    def _table(self) -> tuple[Any, NDArray[Any]]:
        """Check the head and the table, and return them."""
        head = np.frombuffer(self._data, packed.SET, 1)[0]
        _check_head(head, len(self._data), self.path)
        self._raise_if(lambda text: lib.pv_drive_scenes_check(self._pointer, len(self._data), text))
        if head["scene_count"] == 0:
            raise SceneError(f"{self.path}: it has no scenes")
        entries = np.frombuffer(
            self._data, packed.ENTRY, int(head["scene_count"]), packed.SET.itemsize
        )
        actual = _sum_of_table(head, entries)
        if actual != head["crc32"]:
            expected = int(head["crc32"])
            raise SceneError(
                f"{self.path}: crc32 at byte 16: expected {expected:#010x}, got {actual:#010x}; "
                "the file is damaged"
            )
        return head, entries

    def agents(self, config: DriveConfig) -> NDArray[np.int64]:
        """Return the agents per scene under a config, (scenes,); see `drive_env.scenes.agents`.

        Raises:
            SceneError: an object's frames do not lie in the file.
        """
        try:
            counts = [
                int(agent_mask(*self.scene(index, COUNTED), config).sum())
                for index in range(len(self))
            ]
        except IndexError as error:
            raise SceneError(
                f"{self.path}: an object's frames do not lie in the file ({error})"
            ) from error
        return np.array(counts, dtype=np.int64)

    @property
    def contents(self) -> memoryview:
        """Return the bytes of all scenes, consecutive as this module writes them."""
        return memoryview(self._data)[int(self.entries["offset"][0]) :]

    @property
    def data(self) -> Any:
        """Return the set as C reads it."""
        return self._data

    def scene(
        self, index: int, sections: Sequence[str] = packed.ORDER
    ) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
        """Return the head (a record of packed.SCENE) and sections of one scene, unchecked.

        Args:
            sections: names in packed.ORDER.
        """
        start = int(self.entries[index]["offset"])
        head = np.frombuffer(self._data, packed.SCENE, 1, start)[0]
        places = dict(zip(packed.ORDER, head["sections"].tolist(), strict=True))
        arrays = {}
        for name in sections:
            offset, count = places[name]
            arrays[name] = np.frombuffer(self._data, packed.SECTIONS[name], count, start + offset)
        return head, arrays


def name_in_table(name: str) -> bytes:
    """Return as much of a name as fits into the table.

    The section `text` of a scene has the full name.
    """
    return (
        name.encode("utf-8", "replace")[: packed.NAME_BYTES - 1]
        .decode("utf-8", "ignore")
        .encode("utf-8")
    )


def is_scene_set(path: Path) -> bool:
    """Return whether a plain file begins like a .pvs file, whatever its name.

    Returns False if the file cannot be read.
    """
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(packed.MAGIC_BYTES)) == packed.MAGIC_BYTES
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return False


def write_scene_set(
    path: Path,
    scenes: Sequence[CompiledScene | StoredScene],
    settings: CompileSettings,
    durable: bool = True,
) -> None:
    """Write compiled scenes to one file, atomically; they may come from other files.

    All must have been compiled with these settings.

    Args:
        durable: as for `puffervec.system.cache.write_atomically`.

    Raises:
        SceneError: there are no scenes, or the file cannot be written.
    """
    entries = np.zeros(len(scenes), dtype=packed.ENTRY)
    for entry, scene in zip(entries, scenes, strict=True):
        entry["bytes"], entry["crc32"] = len(scene.data), zlib.crc32(scene.data)
        entry["moving_vehicles"], entry["valid_vehicles"] = (
            scene.moving_vehicles,
            scene.valid_vehicles,
        )
        entry["object_count"], entry["name"] = scene.object_count, name_in_table(scene.name)
    _write(path, entries, (memoryview(scene.data) for scene in scenes), settings, durable)


def join_scene_sets(path: Path, parts: Sequence[Path], settings: CompileSettings) -> None:
    """Write the scenes of several sets to one file, atomically, as `write_scene_set` would.

    All sets must have these settings. The parts are opened one after another: there may be more of
    them than a process may have open files.

    Raises:
        SceneError: there are no parts, one cannot be opened, or the file cannot be written.
    """
    entries = [SceneSet(part).entries.copy() for part in parts]
    _write(
        path,
        np.concatenate([np.zeros(0, packed.ENTRY), *entries]),
        (SceneSet(part).contents for part in parts),
        settings,
    )


def _write(
    path: Path,
    entries: NDArray[Any],
    contents: Iterable[memoryview],
    settings: CompileSettings,
    durable: bool = True,
) -> None:
    """Write a set.

    Args:
        entries: records of the table; their offsets are filled in.
        contents: the scenes one after the other, in pieces.
    """
    if not len(entries):
        raise SceneError(f"{path}: a scene set needs at least one scene")
    ends = packed.align_up(packed.SET.itemsize + entries.nbytes) + np.cumsum(
        entries["bytes"], dtype=np.uint64
    )
    entries["offset"] = ends - entries["bytes"]
    padding = bytes(int(entries["offset"][0]) - packed.SET.itemsize - entries.nbytes)
    head = np.zeros((), dtype=packed.SET)
    head["magic"], head["version"], head["bytes"] = packed.MAGIC, packed.VERSION, ends[-1]
    head["scene_count"], head["index_k"], head["index_range_m"] = (
        len(entries),
        settings.index_k,
        settings.range_m,
    )
    head["simplify_m"], _, head["simplify_edges_m"] = settings.tolerances_m
    head["split_m"] = settings.split_m
    head["crc32"] = _sum_of_table(head, entries)
    write_atomically(
        path, itertools.chain([head.tobytes(), entries.tobytes(), padding], contents), durable
    )


def _sum_of_table(head: NDArray[Any], entries: NDArray[Any]) -> int:
    blank = head.copy()
    blank["crc32"] = 0
    return zlib.crc32(entries.tobytes(), zlib.crc32(blank.tobytes()))


def _map(path: Path) -> mmap.mmap:
    """Map a plain file that has at least a header.

    Other kinds of files are not opened: they may block, or be endless.
    """
    try:
        with holding(path) as folder:
            fd = folder.open(path.name)
            try:
                size = os.fstat(fd).st_size
                if size < packed.SET.itemsize:
                    raise SceneError(
                        f"{path}: expected a header of {packed.SET.itemsize} bytes, got {size}"
                    )
                return mmap.mmap(fd, size, access=mmap.ACCESS_READ)
            finally:
                os.close(fd)
    except SceneError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise unreadable(path, error) from error


def _check_head(head: Any, size: int, path: Path) -> None:
    for name, expected in (("magic", packed.MAGIC), ("version", packed.VERSION), ("bytes", size)):
        if head[name] != expected:
            at = packed.SET.fields[name][1] if packed.SET.fields else 0
            raise SceneError(
                f"{path}: {name} at byte {at}: expected {expected}, got {int(head[name])}"
            )
