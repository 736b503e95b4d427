# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The kernel's out-of-memory killer: makes it choose workers before the learner, and tells whether
it has struck.
"""

from __future__ import annotations

import contextlib

SCORE = (
    500  # added to a worker's score, of 1000: it goes before any process of the size of the learner
)


def raise_own_score() -> None:
    """In a worker: have it killed before the learner where memory runs out. Raising one's own score
    needs no privilege.
    """
    with (
        contextlib.suppress(OSError, ValueError),
        open("/proc/self/oom_score_adj", "r+", encoding="ascii") as file,
    ):
        score = min(1000, int(file.read()) + SCORE)
        file.seek(0)
        file.write(str(score))


def kills(root: str = "/sys/fs/cgroup", proc: str = "/proc") -> int:
    """Return a number that grows whenever the out-of-memory killer ends a process, on this machine
    or in this cgroup.

    Args:
        root: where cgroups are mounted. proc: where /proc is. Both are parameters for the tests.
    Source:
        Linux, Documentation/admin-guide/cgroup-v2.rst (memory.events) and cgroup-v1/memory.rst
        (memory.oom_control); the oom_kill line of /proc/vmstat.
    """
    from pathlib import Path  # not in workers, whose start it would slow down

    from puffervec.system.cores import group_folders, read_text

    files = [Path(proc) / "vmstat"]
    files += [folder / "memory.events" for folder in group_folders(Path(root), Path(proc), "")]
    files += [
        folder / "memory.oom_control" for folder in group_folders(Path(root), Path(proc), "memory")
    ]
    return sum(_count(read_text(path)) for path in files)


def _count(text: str) -> int:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isdigit():
            return int(value)
    return 0


def hint(kills_before: int) -> str:
    """Return what to say of a worker that was ended by SIGKILL. kills_before: `kills()` when the
    workers started.
    """
    if kills() > kills_before:
        return (
            "the kernel's out-of-memory killer has struck since the workers started: use fewer "
            "envs or workers, or give the machine more memory"
        )
    return "killed from outside, or by the kernel for lack of memory: see dmesg"
