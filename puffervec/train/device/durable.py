# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Folders that outlive a crash, and words for a disk that refuses. Runs in the learner, when a checkpoint is saved.

A file is safe once it and the folder that names it have been synced; a rename is what makes several of them appear at once.
folder.py has what happens inside of a folder. Source: Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from puffervec.host.folder import Folder

_MIB = 2**20


def make_folder(path: Path) -> None:
    """Make a folder that the user has named, and those above it that are missing; its name is on the disk when this returns.

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
    with Folder(path.parent) as above:
        above.sync()


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
