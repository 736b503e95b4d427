# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The number of cores that other programs use: the kernel's busy time minus our own. Linux only.

`/proc/stat` counts in ticks of 10 ms, so a share is accurate to about 10 ms / the time between two
readings.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

BUSY = (0, 1, 2, 5, 6)  # user, nice, system, irq, softirq: columns of /proc/stat; see proc_stat(5)
STAT_BYTES = 1 << 18  # the lines of the cores come first: 100 bytes each


def _tick_s() -> float:
    return 1 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01


TICK_S = _tick_s()


def busy_s(text: str, cores: Collection[int]) -> float:
    """Return the seconds for which some process ran on one of `cores`, summed over them.

    Args:
        text: contents of /proc/stat.
        cores: numbers of the cores.
    """
    ticks = 0
    for line in text.splitlines():
        name, *counts = line.split()
        if not name.startswith("cpu"):
            break  # the rest is long on large machines
        if name[3:].isdigit() and int(name[3:]) in cores:
            ticks += sum(int(counts[column]) for column in BUSY)
    return ticks * TICK_S


def process_s(pid: int) -> float:
    """Return the CPU seconds of a process with all its threads, 0 if it is gone."""
    # The id of another process's CPU clock, computed as clock_getcpuclockid(3) does.
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


@dataclass(frozen=True)
class Reading:
    """The time used up to a moment.

    Attributes:
        at_s: wall time in seconds.
        busy_s: busy seconds of all cores.
        own_s: CPU seconds of each of our processes, by pid.
    """

    at_s: float
    busy_s: float
    own_s: dict[int, float]


def open_stat(path: Path = Path("/proc/stat")) -> int | None:
    """Open the file for repeated reading, or return None if the system has none.

    It stays open because it is read in the middle of a turn, where a signal handler may raise
    between opening a file and closing it.
    """
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def read(cores: Collection[int], pids: Collection[int], stat: int | None) -> Reading | None:
    """Return what the cores and our processes have used so far, or None if it is unknown.

    Args:
        cores: the cores to count.
        pids: our processes.
        stat: the file that `open_stat` opened.
    """
    if stat is None:
        return None
    text = os.pread(stat, STAT_BYTES, 0).decode()
    return Reading(time.monotonic(), busy_s(text, cores), {pid: process_s(pid) for pid in pids})


def foreign_cores(before: Reading, after: Reading) -> float:
    """Return the average number of cores that other programs used between two readings, 0 or more.

    A process that began or ended between the readings counts only as far as both readings have it.
    """
    known = before.own_s.keys() & after.own_s.keys()
    own_s = sum(max(0.0, after.own_s[pid] - before.own_s[pid]) for pid in known)
    busy = after.busy_s - before.busy_s - own_s
    return max(0.0, busy / max(TICK_S, after.at_s - before.at_s))
