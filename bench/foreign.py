# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""How much of the machine other programs took while a benchmark ran. Linux; elsewhere the answer is 0.

Every process is either ours or foreign. Ours are this process, its descendants, and those with MARK in their environment (the
workers of a fork server have another parent). The CPU time of the foreign ones is read before and after.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

MARK = "PUFFERVEC_BENCHMARK"  # holds a running benchmark's process id
SHORTEST_S = 0.1  # the kernel counts CPU time in ticks of 10 ms, too coarse for shorter times

T = TypeVar("T")


@dataclass(frozen=True)
class Seen:
    """CPU seconds of a foreign process: its own, and those of children that it has waited for."""

    own_s: float
    children_s: float


def foreign_load(run: Callable[[], T]) -> tuple[T, float]:
    """Call `run` and return its result and the share of the machine that others took meanwhile, 0 to 1.

    Time that a hypervisor gave to other machines counts as foreign.
    """
    before, stolen, begin = foreign_processes(), _stolen_s(), time.monotonic()
    os.environ[MARK] = str(os.getpid())
    try:
        result = run()
    finally:
        os.environ.pop(MARK, None)
    seconds = time.monotonic() - begin
    taken = taken_s(before, foreign_processes()) + _stolen_s() - stolen
    return result, min(1.0, max(0.0, taken) / (os.cpu_count() or 1) / max(SHORTEST_S, seconds))


def taken_s(before: Mapping[str, Seen], after: Mapping[str, Seen]) -> float:
    """Return the CPU seconds that foreign processes used between two looks, including processes that ended meanwhile.

    A process that ends passes its whole CPU time to its parent; what it had used before the first look is subtracted.
    """
    gone = sum(seen.own_s + seen.children_s for name, seen in before.items() if name not in after)
    own = children = 0.0
    for name, seen in after.items():
        earlier = before.get(name, Seen(0.0, 0.0))
        own += seen.own_s - earlier.own_s
        children += seen.children_s - earlier.children_s
    return own + max(0.0, children - gone)


def foreign_processes() -> dict[str, Seen]:
    """Return what each foreign process has used so far, by "pid:start time".

    Source of the columns: proc_pid_stat(5).
    """
    tick = os.sysconf("SC_CLK_TCK")
    found: dict[int, tuple[str, int, Seen]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        words = _read(folder / "stat").rpartition(")")[2].split()  # the name before it may contain blanks
        if len(words) > 19:
            own, children = (sum(map(int, words[i : i + 2])) / tick for i in (11, 13))
            pid = int(folder.name)  # init waits for our orphans too
            found[pid] = (f"{pid}:{words[19]}", int(words[1]), Seen(own, children if pid != 1 else 0.0))
    ours = _ours({pid: parent for pid, (_, parent, _) in found.items()})
    return {name: seen for pid, (name, _, seen) in found.items() if pid not in ours}


def _ours(parents: Mapping[int, int]) -> set[int]:
    """Return the ids of our processes among these, given each one's parent."""
    mark = f"{MARK}={os.getpid()}".encode()
    ours = {os.getpid()} | {pid for pid in parents if mark in _environment(pid)}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in ours and pid not in ours}
        ours |= more
        grown = bool(more)
    return ours


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # another user's, or gone
        return []


def _stolen_s() -> float:
    """Return the CPU seconds since boot in which a hypervisor ran other machines. Source: proc_stat(5), column steal."""
    words = _read(Path("/proc/stat")).partition("\n")[0].split()
    return int(words[8]) / os.sysconf("SC_CLK_TCK") if len(words) > 8 else 0.0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
