# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""An unnamed file in memory that the learner makes and a worker inherits.

It holds a worker's stack traces, or a mailbox. It has no name, so nothing is left behind, and it
can still be read when the worker is gone. Where the system has no such files (macOS), it is a
temporary file whose name was removed. Workers import this module.
"""

from __future__ import annotations

import os
from multiprocessing import reduction
from typing import Any


def unnamed_file(name: str) -> int:
    """Return the descriptor of a new, empty file without a name.

    Args:
        name: label in /proc/PID/fd, which need not be unique.
    """
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, os.MFD_CLOEXEC)
    import tempfile  # imported here because workers never need it

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def reserve(fd: int, size: int) -> None:
    """Reserve space for `size` bytes in a file.

    Raises:
        OSError: there is no space.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
        return
    zeros = bytes(min(size, 1 << 20))
    at = 0
    while at < size:
        at += os.pwrite(fd, zeros[: size - at], at)


class Descriptor:
    """The owner of a file descriptor `fd` (-1: none).

    When the object is sent to a new process, multiprocessing passes the descriptor on. It is closed
    with the object.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __getstate__(self) -> Any:
        return (reduction.DupFd(self.fd) if self.fd >= 0 else None,)

    def __setstate__(self, state: Any) -> None:
        self.fd = state[0].detach() if state[0] is not None else -1

    def __del__(self) -> None:
        if getattr(self, "fd", -1) >= 0:
            os.close(self.fd)
            self.fd = -1
