# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The cache of compiled scenes and libraries, whose files are written completely or not at all.

Runs in the learner. A cache entry is named by a hash of everything its bytes depend on, so entries
are never out of date and never changed, and several processes may write the same one at once (the
last rename wins, with equal bytes). The cache may be a folder that others share: no link below it
is followed (puffervec/system/folder.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from puffervec.errors import ConfigError, SceneError
from puffervec.system.folder import Folder, describe_error

CACHE_VARIABLE = "PUFFERVEC_CACHE"
SCENES, LIBRARIES = "scenes", "ocean"  # the folders in the cache
# The names of the files in each folder. The second kind is left by an interrupted write.
_ENTRIES = {
    folder: re.compile(rf"{name}|\.{name}\.\w+\.tmp")
    for folder, name in (
        (SCENES, r"[0-9a-f]{24}\.(pvset|json)"),
        (LIBRARIES, r"\w+-[0-9a-f]{24}\.so"),
    )
}


def cache_folder() -> Path:
    """Return $PUFFERVEC_CACHE, else $XDG_CACHE_HOME/puffervec, else ~/.cache/puffervec.

    Nothing is created.
    """
    if os.environ.get(CACHE_VARIABLE):
        return Path(os.environ[CACHE_VARIABLE])
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "puffervec"
    try:
        return Path.home() / ".cache" / "puffervec"
    except (RuntimeError, KeyError) as error:
        raise ConfigError(
            f"there is no folder for compiled scenes: HOME is not set, and user {os.getuid()} has "
            f"no home folder; set {CACHE_VARIABLE} to a folder"
        ) from error


def entries() -> list[Path]:
    """Return the files in the cache whose names are puffervec's, sorted.

    Other files there, links and folders are not included.
    """
    return sorted(
        path
        for name, entry in _ENTRIES.items()
        for folder in [cache_folder() / name]
        if folder.is_dir() and not folder.is_symlink()
        for path in folder.iterdir()
        if entry.fullmatch(path.name) and path.is_file() and not path.is_symlink()
    )


def clear() -> int:
    """Remove all entries and return how many bytes that freed.

    A process that has an entry open can still use it.

    Raises:
        SceneError: an entry cannot be removed.
    """
    freed = 0
    for path in entries():
        try:
            size = path.stat().st_size
            path.unlink(missing_ok=True)
        except OSError as error:
            raise SceneError(f"{path}: cannot be removed: {error.strerror}") from error
        freed += size
    return freed


def key_of(*parts: Any) -> str:
    """Return a 24-digit hexadecimal name for JSON-like values.

    Equal values give equal names on every machine.
    """
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def write_atomically(
    path: Path, chunks: Iterable[bytes | memoryview], durable: bool = True
) -> None:
    """Write a file so that `path` holds either all of it or its previous contents.

    The steps are: temporary file, fsync, rename, fsync of the folder.

    Args:
        path: the file to write.
        chunks: its contents.
        durable: False leaves out both fsyncs, for files that are verified before use and may be
            lost with the machine.

    Raises:
        SceneError: the folder cannot be made or written (full, read-only, a file in the way); for a
            path in the cache the message names the environment variable to change.
    """
    try:
        with holding(path, make=True) as folder:
            folder.replace(path.name, chunks, durable)
            if durable:
                folder.sync()
    except OSError as error:
        cached = path.is_relative_to(cache_folder())
        remedy = f"; set {CACHE_VARIABLE} to a writable folder" if cached else ""
        raise SceneError(f"{path}: cannot be written: {describe_error(error)}{remedy}") from error


@contextlib.contextmanager
def holding(path: Path, make: bool = False) -> Iterator[Folder]:
    """Open the folder that a file is in.

    If the file lies in the cache, links below the cache folder are refused.

    Args:
        path: the file.
        make: whether to make missing folders.

    Raises:
        OSError: the folder does not exist or cannot be opened or made.
    """
    root = cache_folder()
    inside = path.parent.relative_to(root).parts if path.is_relative_to(root) else ()
    root = root if inside else path.parent
    if make:
        root.mkdir(parents=True, exist_ok=True)
    folder = Folder(root)
    try:
        for name in inside:
            found = folder.made(name) if make else folder.below(name)
            folder.close()
            folder = found
        yield folder
    finally:
        folder.close()
