# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads scene files of all formats except our own (sceneset.py), and lists them in folders.

Runs in the learner. The content determines the format: JSON (json_scene.py) begins with a brace;
ScenarioNet's pickles (scenarionet.py) with their first instruction; XML with a tag, and its root
element names the format (opendrive.py, commonroad.py), also in a file of gzip; anything else is one
of PufferDrive's layouts (bin_scene.py). A TFRecord file holds many scenes of WOMD (tfrecord.py,
womd.py). Values are checked while they are read: results are finite and in range, and arrays have
equal lengths.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from drive_env.scenes import packed
from drive_env.scenes.arrow_log import is_log, log_files, log_name, read_log
from drive_env.scenes.bin_scene import parse_bin
from drive_env.scenes.check import MAP_ALONE, unreadable
from drive_env.scenes.commonroad import parse_commonroad
from drive_env.scenes.json_scene import parse_json
from drive_env.scenes.opendrive import parse_opendrive
from drive_env.scenes.plain_pickle import is_pickle
from drive_env.scenes.scenarionet import LISTS, parse_scenarionet
from drive_env.scenes.schema import Scene
from drive_env.scenes.tfrecord import (
    Record,
    begins_with_record,
    has_record_name,
    read_record,
)
from drive_env.scenes.womd import parse_scenario
from drive_env.scenes.womd_example import is_example, parse_example
from drive_env.scenes.xml_parts import GZIP, inflate, is_xml, xml_parts
from puffervec.errors import SceneError
from puffervec.system import extras

# Parsed JSON takes several times the memory of its text; the largest known scenes have 4 MiB.
MAX_FILE_BYTES = 64 << 20
MAX_FILES = 1_000_000
MAX_NAMES = 4 * MAX_FILES  # files and folders of any kind below a folder
SUFFIXES = (".json", ".bin", ".pvs", ".pkl", ".xml", ".xodr", ".xodr.gz")
# By the root element of an XML file.
XML_READERS = {"OpenDRIVE": parse_opendrive, "commonRoad": parse_commonroad}
NO_FILE, NO_ACCESS = "no such scene file", "the folder cannot be read"


class Unusable(SceneError):
    """A valid scene in which nothing can be driven: a single frame, or no objects."""


@dataclass(frozen=True)
class LeftOut:
    """A file of a folder that was left out, and the reason in one line."""

    path: Path
    reason: str


def read_scene(path: Path) -> Scene:
    """Read one scene file of any format.

    Raises:
        SceneError: the file is missing, too large, of no known format, or has a value that is
            missing or wrong. The message reads `path: key or byte: expected ..., got ...`.
    """
    if is_log(path):
        return read_log(path)
    return parse_scene(read_bytes(path), str(path), path.name)


def source_files(path: Path) -> list[Path]:
    """Return the files that a scene is read from: several for a log, else the file itself."""
    return log_files(path) if is_log(path) else [path]


def name_of(path: Path) -> str:
    """Return the name of the scene of a file; a file of a log is named like its folder."""
    return log_name(path) if is_log(path) else path.name


def parse_scene(data: bytes, source: str, name: str) -> Scene:
    """Read one scene from the bytes of a file.

    Args:
        source: starts every error message.
        name: name of the file, without folder.

    Raises:
        SceneError: see `read_scene`.
    """
    if data.startswith(packed.MAGIC_BYTES):
        raise SceneError(
            f"{source}: a .pvs file may hold many scenes; open it with drive_env.scenes.open_scenes"
        )
    if has_record_name(name) or (
        extras.installed("google_crc32c") and begins_with_record(data[:12])
    ):
        raise SceneError(f"{source}: a TFRecord file holds many scenes, so it is not read as one")
    if is_pickle(data[:4]):
        return parse_scenarionet(data, source, name)
    if data.startswith(GZIP):
        return _parse_xml(inflate(data, source), source, name)
    if is_xml(data[:256]):
        return _parse_xml(data, source, name)
    # Other text is refused as bad JSON: it is no .bin file, since these begin with a small count.
    head = data[:256].lstrip()
    looks_like_text = not head or head[:1] in b'{["' or b"\0" not in head
    parse = parse_json if looks_like_text else parse_bin
    return parse(data, source, name)


def _parse_xml(data: bytes, source: str, name: str) -> Scene:
    """Read a scene from XML of any format."""
    parts = xml_parts(data, source)
    root = next(parts)
    read = XML_READERS.get(root.element.tag)
    if read is None:
        raise SceneError(
            f"{source}: line {root.line}: expected an element {' or '.join(XML_READERS)}, got "
            f"{root.element.tag[:40]!r}"
        )
    return read(root, parts, source, name)


def record_name(path: Path, index: int) -> str:
    """Return the name of a scene of a TFRecord file, as converters of WOMD name them.

    >>> record_name(Path("training.tfrecord-00000-of-01000"), 325)
    'tfrecord-00000-of-01000_325'
    >>> record_name(Path("mine.tfrecord"), 0)
    'mine_0'
    """
    stem, dot, rest = path.name.rpartition(".")
    named = rest if dot and rest.startswith("tfrecord-") else stem if dot else path.name
    return f"{named}_{index}"


def read_scenario(path: Path, index: int, record: Record) -> Scene:
    """Read a scene of a TFRecord file.

    Raises:
        SceneError: see `read_scene`; the message begins with the path and the record's number.
    """
    data = read_record(path, record)
    parse = parse_example if is_example(data) else parse_scenario
    return parse(data, f"{path}: record {index}", record_name(path, index))


def check_drivable(scene: Scene, source: str) -> Scene:
    """Return the scene if an env can use it.

    Raises:
        Unusable: the scene has no objects, or a single frame, so nothing can be driven.
    """
    if not scene.objects:
        raise Unusable(f"{source}: the scene has no objects: {MAP_ALONE}")
    if scene.frame_count == 1:
        raise Unusable(
            f"{source}: the scene has a single frame, so nothing can be driven in it; it can be "
            "converted and drawn"
        )
    return scene


def read_bytes(path: Path) -> bytes:
    """Read the bytes of a scene file: a plain file (or a link to one) of at most MAX_FILE_BYTES.

    Raises:
        SceneError: the file is missing, not a plain file, too large, or cannot be read.
    """
    try:
        if not path.is_file():
            no_access = path.is_dir() and not os.access(path, os.R_OK | os.X_OK)
            raise SceneError(f"{path}: {NO_ACCESS if no_access else NO_FILE}")
        size_bytes = path.stat().st_size
        if size_bytes > MAX_FILE_BYTES:
            raise SceneError(f"{path}: expected at most {MAX_FILE_BYTES} bytes, got {size_bytes}")
        return path.read_bytes()
    except SceneError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise unreadable(path, error) from error


def scene_files(folder: Path) -> list[Path]:
    """Return the scene files of a folder and its subfolders, sorted by path.

    Files are recognized by their suffix. Links to folders are not followed, so the search neither
    leaves the folder nor loops. Names that begin with a dot are skipped. A subfolder that cannot be
    read is in the list, so that `read_usable` leaves it out with the reason.

    Raises:
        SceneError: the folder is missing, cannot be read, or has no scenes; or there are more than
            MAX_FILES, or more than MAX_NAMES files and folders of any kind.
    """
    if not folder.is_dir():
        raise SceneError(f"{folder}: no such folder")
    files: list[Path] = []
    denied: list[OSError] = []
    visited = 0
    for parent, folders, names in os.walk(folder, onerror=denied.append):
        visited += len(folders) + len(names)
        if visited > MAX_NAMES:
            raise SceneError(
                f"{folder}: more than {MAX_NAMES:,} files and folders lie below it: name the "
                "folder with the scenes"
            )
        folders[:] = (name for name in folders if not name.startswith("."))
        here = Path(parent)
        files += (
            here / name
            for name in names
            if (name.endswith(SUFFIXES) or has_record_name(name) or is_log(here / name))
            and not name.startswith(".")
            and name not in LISTS
        )
        if len(files) > MAX_FILES:
            raise SceneError(f"{folder}: more than {MAX_FILES:,} scene files: name a subfolder")
    files += (Path(error.filename) for error in denied)
    if files == [folder]:
        raise SceneError(f"{folder}: {NO_ACCESS}")
    if not files:
        raise SceneError(
            f"{folder}: the folder holds no scenes (no file that ends in {', '.join(SUFFIXES)} or "
            ".tfrecord, or is named like tfrecord-00000-of-01000 or sync.arrow)"
        )
    return sorted(files)


def read_drivable(path: Path) -> Scene:
    """Read one scene file that the user named.

    Raises:
        SceneError: see `read_scene` and `check_drivable`.
    """
    return check_drivable(read_scene(path), str(path))


def read_usable(path: Path) -> Scene | LeftOut:
    """Read one scene file of a folder; a file that `read_drivable` refuses is left out."""
    try:
        return read_drivable(path)
    except SceneError as error:
        return LeftOut(path, str(error).removeprefix(f"{path}: "))
