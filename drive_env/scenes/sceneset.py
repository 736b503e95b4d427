# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""One file of compiled scenes: writes it, verifies it, and shows its contents.

Runs in the learner; workers map the same file read-only (csrc/drive/scene.h shows its layout). A set from the cache is verified
before use: magic, version, sizes, checksum. If that fails, the scenes are compiled again.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes import packed
from drive_env.scenes.compile import CompiledScene, CompileSettings
from drive_env.scenes.schema import VEHICLE
from puffervec.errors import SceneError
from puffervec.host.cache import holding, write_atomically


class SceneSet:
    """A verified set in memory. Returned arrays alias the file's bytes and are read-only.

    Args:
        path: a file written by `write_scene_set`.

    Raises:
        SceneError: the file is missing, not a scene set, of another version, cut off or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data = _read(path)
        self.head, self.entries = _verify(self._data, path)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def names(self) -> list[str]:
        """The file names of the scenes, in task order."""
        return [bytes(name).decode("utf-8", "replace") for name in self.entries["name"]]

    def agents(self, control: str, goal_radius_m: float) -> NDArray[np.int64]:
        """Return the agents per scene, (scenes,), counted as in C (drive_object_controlled in csrc/drive/bundle.c).

        Args: control, goal_radius_m: see DriveConfig. A vehicle that starts within goal_radius_m of its goal is no agent.
        Raises: SceneError: see `scene`.
        """
        try:
            counts = [_agents(self.scene(index)[1], control, goal_radius_m) for index in range(len(self))]
        except IndexError as error:
            raise SceneError(f"{self.path}: an object's frames do not lie in the file ({error})") from error
        return np.array(counts, dtype=np.int64)

    def scene(self, index: int) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
        """Return the head (a record of packed.SCENE) and arrays (by their names in packed.ORDER) of one scene.

        Raises:
            SceneError: its arrays do not lie in the file.
        """
        try:
            return self._scene(index)
        except (ValueError, OverflowError) as error:
            raise SceneError(f"{self.path}: scene {index}: its arrays do not lie in the file ({error})") from error

    def _scene(self, index: int) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
        start = int(self.entries[index]["offset"])
        head = np.frombuffer(self._data, packed.SCENE, 1, start)[0]
        return head, {
            name: np.frombuffer(self._data, packed.SECTIONS[name], int(count), start + int(offset))
            for name, (offset, count) in zip(packed.ORDER, head["sections"].tolist(), strict=True)
        }


def _agents(arrays: dict[str, NDArray[Any]], control: str, goal_radius_m: float) -> int:
    """Return the number of agents in one scene. Distances are float32, as in C."""
    objects = arrays["objects"]
    moving = control == "moving"
    needed = packed.VALID_AT_START | (packed.MOVES if moving else 0)
    refused = packed.EXPERT if moving else 0
    flags = objects["flags"]
    chosen = objects[(objects["type"] == VEHICLE) & (flags & needed == needed) & (flags & refused == 0)]
    start = arrays["frames"][chosen["frames_index"]]  # of frame 0, in which they are present
    radius = np.float32(goal_radius_m)
    with np.errstate(all="ignore"):  # a damaged file may contain any number
        dx, dy = chosen["goal_x_m"] - start["x_m"], chosen["goal_y_m"] - start["y_m"]
        return int(np.count_nonzero(~(dx * dx + dy * dy <= radius * radius)))


def write_scene_set(path: Path, scenes: Sequence[CompiledScene], settings: CompileSettings) -> None:
    """Write compiled scenes to one file, atomically.

    Raises:
        SceneError: no scenes, or the file cannot be written.
    """
    if not scenes:
        raise SceneError(f"{path}: a scene set needs at least one scene")
    entries = np.zeros(len(scenes), dtype=packed.ENTRY)
    offset = packed.align_up(packed.SET.itemsize + entries.nbytes)
    padding = bytes(offset - packed.SET.itemsize - entries.nbytes)
    for entry, scene in zip(entries, scenes, strict=True):
        name = scene.name.encode("utf-8")[: packed.NAME_BYTES - 1].decode("utf-8", "ignore").encode("utf-8")
        entry["offset"], entry["bytes"], entry["crc32"] = offset, len(scene.data), zlib.crc32(scene.data)
        entry["moving_vehicles"], entry["valid_vehicles"] = scene.moving_vehicles, scene.valid_vehicles
        entry["object_count"], entry["name"] = scene.object_count, name
        offset += len(scene.data)
    head = np.zeros((), dtype=packed.SET)
    head["magic"], head["version"], head["bytes"] = packed.MAGIC, packed.VERSION, offset
    head["scene_count"], head["index_k"], head["index_range_m"] = len(scenes), settings.index_k, settings.range_m
    head["simplify_m"], _, head["simplify_edges_m"] = settings.tolerances_m
    head["split_m"] = settings.split_m
    head["crc32"] = zlib.crc32(entries.tobytes(), zlib.crc32(head.tobytes()))
    write_atomically(path, [head.tobytes(), entries.tobytes(), padding, *(scene.data for scene in scenes)])


def _read(path: Path) -> bytes:
    """Return the bytes of a plain file whose head gives its size. Other kinds are not read: they may be endless."""
    try:
        with holding(path) as folder, os.fdopen(folder.open(path.name), "rb") as file:
            head, size = file.read(packed.SET.itemsize), os.fstat(file.fileno()).st_size
            if len(head) == packed.SET.itemsize:
                _check_head(np.frombuffer(head, packed.SET)[0], size, path)
            return head + file.read(size - len(head))
    except SceneError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise SceneError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _check_head(head: Any, size: int, path: Path) -> None:
    for name, expected in (("magic", packed.MAGIC), ("version", packed.VERSION), ("bytes", size)):
        if head[name] != expected:
            at = packed.SET.fields[name][1] if packed.SET.fields else 0
            raise SceneError(f"{path}: {name} at byte {at}: expected {expected}, found {int(head[name])}")


def _verify(data: bytes, path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Check head, table and checksum; C also checks the contents of the scenes."""
    if len(data) < packed.SET.itemsize:
        raise SceneError(f"{path}: expected at least {packed.SET.itemsize} bytes of head, found {len(data)}")
    head = np.frombuffer(data, packed.SET, 1)[0]
    _check_head(head, len(data), path)
    count = int(head["scene_count"])
    table_end = packed.SET.itemsize + count * packed.ENTRY.itemsize
    if count == 0 or table_end > len(data):
        raise SceneError(f"{path}: scene_count: expected 1 to what fits in {len(data)} bytes, found {count}")
    blank = head.copy()
    blank["crc32"] = 0
    checksum = zlib.crc32(data[packed.SET.itemsize : table_end], zlib.crc32(blank.tobytes()))
    if checksum != head["crc32"]:
        raise SceneError(f"{path}: crc32: expected {int(head['crc32']):#010x}, found {checksum:#010x}; the file is damaged")
    entries = np.frombuffer(data, packed.ENTRY, count, packed.SET.itemsize)
    for index, entry in enumerate(entries):
        start, size = int(entry["offset"]), int(entry["bytes"])
        if start % packed.ALIGNMENT or start < table_end or size < packed.SCENE.itemsize or start + size > len(data):
            raise SceneError(f"{path}: scene {index}: its {size} bytes at {start} do not lie in the file")
        checksum = zlib.crc32(memoryview(data)[start : start + size])
        if checksum != entry["crc32"]:
            expected = f"expected {entry['crc32']:#010x}, found {checksum:#010x}"
            raise SceneError(f"{path}: scene {index}: crc32: {expected}; the file is damaged")
    return head, entries
