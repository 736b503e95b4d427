# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Imported by multiprocessing's fork server when it starts: it removes the learner's temporary folder, which holds the server's
socket, where the learner was killed and could not.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
from collections.abc import Iterator

FOLDER_VARIABLE = "PUFFERVEC_SERVER_FOLDER"
PF_EXITING = 0x4  # Source: Linux, include/linux/sched.h


@contextlib.contextmanager
def told() -> Iterator[None]:
    """In the learner: tell a fork server that is started now where the folder is."""
    from multiprocessing import util

    folder = util.get_temp_dir()
    # A child of multiprocessing, or of a fork, has its parent's folder, which is not for its server to remove.
    finalizers = list(util._finalizer_registry.values())  # type: ignore[attr-defined]
    if any(one._callback is util._remove_temp_dir and one._pid == os.getpid() for one in finalizers):  # type: ignore[attr-defined]
        os.environ[FOLDER_VARIABLE] = folder
    try:
        yield
    finally:
        os.environ.pop(FOLDER_VARIABLE, None)


def _remove(folder: str, server: int, learner: int) -> None:
    if os.getpid() == server and _ends(learner):  # the server itself, and the learner has not stopped it
        shutil.rmtree(folder, ignore_errors=True)


def _ends(learner: int) -> bool:
    """Return whether the parent is gone or dying. A killed process closes its files, which ends the server, and gives its
    children to another parent later: releasing the memory and devices behind other files may take seconds."""
    if os.getppid() != learner:
        return True
    try:
        with open(f"/proc/{learner}/stat", "rb") as stat:
            return bool(int(stat.read().rpartition(b")")[2].split()[6]) & PF_EXITING)  # column flags of proc_pid_stat(5)
    except OSError:
        return False


_folder = os.environ.pop(FOLDER_VARIABLE, None)
if _folder is not None:
    atexit.register(_remove, _folder, os.getpid(), os.getppid())
