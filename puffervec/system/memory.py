# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The amount of memory that this process may still allocate.

The machine, the process's cgroup and its address space limit it. Runs in the learner, before
anything large is allocated: if memory that was allocated turns out to be missing later, the kernel
kills the process instead of reporting an error.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from puffervec.errors import ConfigError
from puffervec.system import cores
from puffervec.system.cores import group_folders, read_text


@dataclass(frozen=True, order=True)
class Room:
    """The bytes that may still be allocated, and, in words, what limits them."""

    bytes: int
    bound: str


def available() -> Room:
    """Return the room for more memory.

    It is the smallest of what the machine, the cgroup (and its parents) and the address space
    allow.

    Source:
        Linux, Documentation/filesystems/proc.rst (MemAvailable), admin-guide/cgroup-v2.rst and
        cgroup-v1/memory.rst.
    """
    return min([_of_machine(), *_of_groups(), *_of_address_space()])


def refuse_more(wanted: int | None, who: str, what_for: str, advice: str) -> None:
    """Raise ConfigError if `wanted` bytes are more than there is room for.

    The message is "{who} {wanted} bytes {what_for}; ... are available (...): {advice}".

    Args:
        wanted: number of bytes; None: more than can be counted.
        who: see above.
        what_for: see above.
        advice: see above.
    """
    room = available()
    if wanted is None or wanted > room.bytes:
        said = "more bytes than can be counted" if wanted is None else f"{wanted:,} bytes"
        raise ConfigError(
            f"{' '.join((who, said, what_for)).rstrip()}; {room.bytes:,} are available "
            f"({room.bound}): {advice}"
        )


def _of_machine() -> Room:
    for line in read_text(cores.PROC / "meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return Room(int(value.split()[0]) * 1024, "memory of the machine")
    import psutil  # not on Linux

    return Room(int(psutil.virtual_memory().available), "memory of the machine")


def _of_groups() -> Iterator[Room]:
    """Yield the room that each cgroup leaves.

    A cgroup counts the page cache as used although the kernel can reclaim it, so page cache that
    was not used lately counts as free.
    """
    for folder in group_folders(""):
        yield from _left(folder, "memory.max", "memory.current", "inactive_file")
    for folder in group_folders("memory"):
        yield from _left(
            folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        )


def _left(folder: Path, limit_file: str, used_file: str, reclaimable: str) -> Iterator[Room]:
    limit, used = read_text(folder / limit_file), read_text(folder / used_file)
    if limit.isdigit() and used.isdigit():
        statistics = dict(
            line.split()
            for line in read_text(folder / "memory.stat").splitlines()
            if line.count(" ") == 1
        )
        cache = min(int(statistics.get(reclaimable, 0)), int(used))
        yield Room(
            max(0, int(limit) - int(used) + cache), f"cgroup limit {limit_file} of {int(limit):,}"
        )


def _of_address_space() -> Iterator[Room]:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = read_text(cores.PROC / "self/statm").split()
    if limit != resource.RLIM_INFINITY and pages:
        used = int(pages[0]) * resource.getpagesize()
        yield Room(max(0, limit - used), f"address space limit RLIMIT_AS of {limit:,}, ulimit -v")
