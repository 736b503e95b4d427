# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure how much of the machine other programs took while a benchmark ran.

This works on Linux; other systems do not report their idle time, so that everything counts as
foreign there. The kernel reports for how long the cores were not idle. The time of our own
processes is subtracted, and the rest is foreign: other programs, however short-lived, the kernel's
own threads, and time that a hypervisor gave to other machines.

Our own processes run in a control group, which counts the CPU time of all processes that were ever
in it. If none can be created, the CPU time of this process, its descendants, and those with MARK in
their environment is added up. Then the time of a process that ends after its parent is lost, and
counts as foreign.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

MARK = "PUFFERVEC_BENCHMARK"  # Environment variable with a running benchmark's process id.
GROUP = "puffervec-benchmark-"  # Prefix of the name of a control group; a process id follows.
SHORTEST_S = 0.1  # The kernel counts idle time in ticks of 10 ms, too coarse for shorter times.

T = TypeVar("T")


def foreign_load(run: Callable[[], T]) -> tuple[T, float]:
    """Call `run`; return its result and the share of the machine that others took, 0 to 1."""
    used_s = own_clock()
    busy, own, begin = busy_s(), used_s(), time.monotonic()
    os.environ[MARK] = str(os.getpid())
    try:
        result = run()
        foreign_s = busy_s() - busy - (used_s() - own)
    finally:
        os.environ.pop(MARK, None)
    seconds = time.monotonic() - begin
    return result, min(1.0, max(0.0, foreign_s) / _cores() / max(SHORTEST_S, seconds))


def busy_s() -> float:
    """Return the busy seconds of all cores together; only differences are meaningful.

    Stolen time is busy time. If the kernel does not report it, all time is. Source: proc_stat(5),
    columns idle and iowait; the other columns are samples of the timer tick, which miss programs
    that sleep and wake between two ticks.
    """
    words = _read(Path("/proc/stat")).partition("\n")[0].split()
    idle = sum(map(int, words[4:6])) / os.sysconf("SC_CLK_TCK")
    return _cores() * time.monotonic() - idle


def own_clock() -> Callable[[], float]:
    """Return a clock of the CPU seconds of our own processes, including those that have ended."""
    folder = own_group()
    return tree_s if folder is None else functools.partial(group_s, folder)


# ---- a control group -----------------------------------------------------------------------------


@functools.cache
def own_group() -> Path | None:
    """Move this process and its descendants into a new control group; return its folder.

    None: that failed. Processes that they start belong to the group. It is removed when this
    process ends.
    """
    mounts = (line.split() for line in _read(Path("/proc/self/mounts")).splitlines())
    mount = next((words[1] for words in mounts if words[2] == "cgroup2"), None)
    mine = next(
        (
            line[3:]
            for line in _read(Path("/proc/self/cgroup")).splitlines()
            if line.startswith("0::")
        ),
        None,
    )
    if mount is None or mine is None:
        return None
    parent = Path(mount + mine)
    for group in parent.glob(f"{GROUP}*"):
        # The group of a benchmark that was killed; some of its processes may still run.
        if not Path("/proc", group.name.removeprefix(GROUP)).exists():
            with contextlib.suppress(OSError):
                group.rmdir()
    folder = parent / f"{GROUP}{os.getpid()}"
    try:
        folder.mkdir()
        _move([os.getpid(), *_ours(_parents())], folder)
        group_s(folder)
    except (OSError, ValueError):
        _leave(folder, os.getpid())
        return None
    atexit.register(_leave, folder, os.getpid())
    return folder


def group_s(folder: Path) -> float:
    """Return the CPU seconds of a control group. Raises: ValueError: it does not report them."""
    for line in (folder / "cpu.stat").read_text().splitlines():
        name, _, microseconds = line.partition(" ")
        if name == "usage_usec":
            return int(microseconds) / 1e6
    raise ValueError(f"{folder}/cpu.stat has no usage_usec")


def _move(pids: list[int], folder: Path) -> None:
    """Move processes into a control group, except those that have ended.

    Raises:
        OSError: this process cannot be moved.
    """
    for pid in pids:
        try:
            (folder / "cgroup.procs").write_text(str(pid))
        except OSError:
            if pid == os.getpid():
                raise


def _leave(folder: Path, owner: int) -> None:
    """Move the processes of a control group to the group above it, and remove it.

    A forked copy of the owner does nothing.
    """
    if os.getpid() == owner:
        with contextlib.suppress(OSError):
            _move([int(pid) for pid in _read(folder / "cgroup.procs").split()], folder.parent)
            folder.rmdir()


# ---- the tree of processes -----------------------------------------------------------------------


def tree_s() -> float:
    """Return the CPU seconds of our live processes, and of children that they have waited for.

    Source of the columns: proc_pid_stat(5).
    """
    tick = os.sysconf("SC_CLK_TCK")
    return sum(sum(map(int, _stat(pid)[11:15])) for pid in _ours(_parents())) / tick


def _parents() -> dict[int, int]:
    """Return the parent of each process."""
    stats = {int(folder.name): _stat(int(folder.name)) for folder in Path("/proc").glob("[0-9]*")}
    return {pid: int(words[1]) for pid, words in stats.items() if words}


def _stat(pid: int) -> list[str]:
    """Return the columns of a process in /proc from the third one on, [] if it is gone."""
    return (
        _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    )  # The name in the second column may contain blanks.


def _ours(parents: Mapping[int, int]) -> set[int]:
    """Return the ids of our processes, from the parents of all processes."""
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
    except OSError:  # It belongs to another user, or is gone.
        return []


def _cores() -> int:
    return os.cpu_count() or 1


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
