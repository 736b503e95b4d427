# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Files that outlive a crash, and words for a disk that refuses. Runs in the learner, when a checkpoint is saved.

A file is safe once it and the folder that names it have been synced; a rename is what makes several of them appear at once.
Source: Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from pathlib import Path

REMOVED = ".removed-"
_MIB = 2**20


def write_file(path: Path, data: bytes) -> None:
    """Write a new file; its bytes are on the disk when this returns. Raises: OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(fd, left) :]
        os.fsync(fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(fd)
        raise
    os.close(fd)  # Some file systems tell only here that they have no room.


def replace_file(path: Path, data: bytes) -> None:
    """Write a file that others see either as it was or as a whole. Raises: OSError."""
    fresh = path.with_name(f".{path.name}")
    fresh.unlink(missing_ok=True)
    write_file(fresh, data)
    os.replace(fresh, path)


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk. Raises: OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # A file system that has no such call for folders, as some over a network.
            raise
    finally:
        os.close(fd)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing; its name is on the disk when this returns.

    Also where it exists: who made it may have been killed before its name was synced. Raises: OSError.
    """
    if not path.is_dir():
        if not path.parent.is_dir():
            make_folder(path.parent)
        try:
            os.mkdir(path)
        except FileExistsError:
            if not path.is_dir():  # A file, or a link to nothing.
                raise
    sync_folder(path.parent)


def remove(path: Path) -> None:
    """Remove a folder such that nobody sees half of it: it is renamed out of sight first. What fails is left for `sweep`."""
    hidden = path.with_name(f"{REMOVED}{path.name}")
    with contextlib.suppress(OSError):
        os.rename(path, hidden)
        shutil.rmtree(hidden)


def sweep(parent: Path, *prefixes: str) -> None:
    """Remove what earlier writers and removers left in `parent` under these (hidden) prefixes, as far as it can be done."""
    for prefix in prefixes:
        for rest in parent.glob(f"{prefix}*"):
            shutil.rmtree(rest, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.unlink(rest)  # A file or link; a folder that could not be removed stays for the next time.


def reason(error: OSError, folder: Path, wanted: int) -> str:
    """Return why a write of `wanted` bytes in `folder` failed and what to do, without a full stop."""
    words = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"disk full ({words}): free {_missing_mib(folder, wanted)} MiB at {folder}"
    if error.errno == errno.EFBIG:
        return f"{words}: raise the file-size limit (ulimit -f) to {_mib(wanted)} MiB or more"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{words}: make {folder} writable"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{words}: raise the limit of open files (ulimit -n)"
    if error.errno == errno.EIO:
        return f"{words}: the disk below {folder} fails, look at dmesg"
    return f"{words}: look at {error.filename or folder}"


def _mib(size: int) -> int:
    return max(1, -(-size // _MIB))


def _missing_mib(folder: Path, wanted: int) -> int:
    """MiB that must become free for `wanted` bytes to fit, at least 1; all of them where the file system does not tell."""
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    try:
        found = os.statvfs(folder)
    except OSError:
        return _mib(wanted)
    return _mib(wanted - found.f_bavail * found.f_frsize)
