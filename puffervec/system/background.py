# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Run commands next to a training run, at a given niceness (scheduling priority)."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

IDLE_NICE = 19  # A process of this niceness gets only the time that others leave.
IDLE_DISK = ("ionice", "-c", "3")  # runs a command that uses disks only while nothing else does
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def background_command(nice: int) -> list[str]:
    """Return the words to put before a command so that it runs at a niceness.

    At the highest niceness it also uses disks only when they are idle.
    """
    words = [("nice", "-n", str(nice)), *([IDLE_DISK] if nice == IDLE_NICE else [])]
    return [word for command in words if shutil.which(command[0]) for word in command]


def set_session_nice(pid: int, nice: int) -> None:
    """Set the niceness of a process's session.

    Linux shares cores among sessions first, and applies the niceness of processes only within a
    session.
    """
    with contextlib.suppress(OSError):  # Some systems and containers do not support it.
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))
