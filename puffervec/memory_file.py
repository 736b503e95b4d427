# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""An unnamed file in memory that the learner makes and a worker inherits: traces and mailboxes stand in one each.

It has no name, so nothing is left behind, and it can be read when the worker is gone. Workers import this file.
"""

from __future__ import annotations

import os
from multiprocessing import reduction
from typing import Any


class MemoryFile:
    """Base of what stands in such a file, by its descriptor `_fd`. Passed on by multiprocessing; closed with the object."""

    def __init__(self, name: str) -> None:
        """Args: name: shown in /proc/PID/fd, where it need not be unique."""
        self._fd = os.memfd_create(name, os.MFD_CLOEXEC)

    def __getstate__(self) -> Any:
        return reduction.DupFd(self._fd)

    def __setstate__(self, duplicate: Any) -> None:
        self._fd = duplicate.detach()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)
            self._fd = -1
