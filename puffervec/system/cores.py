# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The number of cores that this process may use: its affinity mask and the CPU quota of its cgroup.

The number of cores of the host is irrelevant.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")  # mount point of cgroups
PROC = Path("/proc")

_sharers = 1  # number of processes that share the quota, including this one


def share_quota(processes: int) -> None:
    """Set how many processes like this one share the CPU quota; each uses an equal part."""
    global _sharers
    _sharers = processes


def quota_sharers() -> int:
    """Return the number of processes like this one that share the machine, set by `share_quota`.

    It is 1 if there is only this process.
    """
    return _sharers


def affinity() -> list[int]:
    """Return the numbers of the cores that this process may run on, ascending."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def read_text(path: Path) -> str:
    """Return the stripped text of a file, or "" if it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def group_folders(controller: str) -> list[Path]:
    """Return the cgroup folder of this process for a controller, and its parents, innermost first.

    The controller "" is version 2.
    """
    base = CGROUP / controller if controller else CGROUP
    for line in read_text(PROC / "self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            inner = base / path.lstrip("/")
            return [
                inner,
                *(parent for parent in inner.parents if parent == base or base in parent.parents),
            ]
    return [base]


def cpu_quota() -> float | None:
    """Return the CPU quota of this process's cgroup in cores, or None if there is no limit.

    It is the tightest one of the cgroup and its parents.

    Source:
        Linux, Documentation/admin-guide/cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst
        (cfs_quota_us).
    """
    quotas = []
    for folder in group_folders(""):
        fields = read_text(folder / "cpu.max").split()
        if len(fields) == 2 and fields[0].isdigit() and fields[1].isdigit() and int(fields[1]) > 0:
            quotas.append(int(fields[0]) / int(fields[1]))
    for folder in group_folders("cpu"):
        quota, period = (
            read_text(folder / "cpu.cfs_quota_us"),
            read_text(folder / "cpu.cfs_period_us"),
        )
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            quotas.append(int(quota) / int(period))
    return min(quotas) if quotas else None


def usable_cores() -> int:
    """Return the number of cores worth starting workers for, at least 1.

    It is the number of cores in the affinity mask, but at most the quota (rounded up).
    """
    cores = len(affinity())
    quota = cpu_quota()
    return max(1, cores if quota is None else min(cores, math.ceil(quota / _sharers)))
