# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The kernel's out-of-memory killer: makes it prefer workers, and counts its kills.

It should kill workers before the learner, which can then report the error.
"""

from __future__ import annotations

import contextlib

# Added to a worker's score (maximum 1000), so that it is killed before a process as large as the
# learner.
SCORE = 500


def raise_own_score() -> None:
    """Make the kernel kill this process, a worker, before the learner if memory runs out.

    Raising one's own score needs no privilege.
    """
    with (
        contextlib.suppress(OSError, ValueError),
        open("/proc/self/oom_score_adj", "r+", encoding="ascii") as file,
    ):
        score = min(1000, int(file.read()) + SCORE)
        file.seek(0)
        file.write(str(score))


def kills() -> int:
    """Return a counter of the out-of-memory killer's kills on this machine or in this cgroup.

    It grows whenever the killer ends a process.

    Source:
        Linux, Documentation/admin-guide/cgroup-v2.rst (memory.events) and cgroup-v1/memory.rst
        (memory.oom_control); the oom_kill line of /proc/vmstat.
    """
    from puffervec.system import cores  # its imports would slow down the start of workers

    files = [cores.PROC / "vmstat"]
    files += [folder / "memory.events" for folder in cores.group_folders("")]
    files += [folder / "memory.oom_control" for folder in cores.group_folders("memory")]
    return sum(_count(cores.read_text(path)) for path in files)


def _count(text: str) -> int:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isdigit():
            return int(value)
    return 0


def hint(kills_before: int) -> str:
    """Return the likely explanation of why a worker was killed by SIGKILL.

    Args:
        kills_before: the value of `kills()` when the workers started.
    """
    if kills() > kills_before:
        return (
            "the kernel's out-of-memory killer has struck since the workers started: use fewer "
            "envs or workers, or give the machine more memory"
        )
    return "killed from outside, or by the kernel for lack of memory: see dmesg"
