# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Adapts waiting and core placement to the load that other programs put on the machine.

Runs in the learner. On an otherwise idle machine, a process waits fastest by polling and yielding
its core in between. Next to another program that is the slowest way: a process that yields, or uses
up its slice, gets the core back at the scheduler's next tick, 4 ms later. So ten times a second the
learner compares how busy the kernel reports the cores to be with what its own processes used. Where
other programs leave too few cores, learner and workers wait without keeping a core busy, and the
workers leave their own cores:

    about one core is left     all workers go to the learner's core. No process has to be woken
                               on another core, and the scheduler leaves the other program alone.
    more cores are left        workers sleep as soon as they wait, and may run anywhere: the
                               scheduler finds the free cores.

When the other programs have ended, the workers return to their cores and wait as before.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Collection
from typing import Any

from puffervec._ffi import ffi, lib
from puffervec.system import load
from puffervec.system.cores import affinity, quota_sharers

LOOK_EVERY_NS = 100_000_000
# Looks may take a thousandth of the time: /proc/stat is long on large machines.
LOOK_SHARE = 1000
# Cores used by other programs: the machine counts as shared once they reach FULL, and until they
# fall below FREE.
FULL, FREE = 0.3, 0.15
ONE_CORE = 1.5  # fewer cores left than this count as about one

_open: weakref.WeakSet[Crowd] = weakref.WeakSet()  # of all vector envs of this process


def crowded(foreign: float, cores: int, runners: int, before: bool) -> bool:
    """Return whether other programs leave too few cores.

    Args:
        foreign: number of cores that they use.
        cores: number of cores that the machine lets us use.
        runners: number of our processes that want to run at the same time.
        before: the previous answer.
    """
    return foreign >= (FREE if before else FULL) and cores - foreign < min(runners, cores)


def _close(file: int | None) -> None:
    if file is not None:
        os.close(file)


class Crowd:
    """The load watcher of one vector env.

    Attributes:
        pids: process ids of the workers, if they are processes.
        foreign: number of cores that other programs used at the last look.
    """

    def __init__(self, waiter: Any, num_workers: int, pids: Collection[int] = ()) -> None:
        """Start watching.

        Args:
            waiter: the learner's `pv_waiter`, whose `place` goes to the workers with their
                commands.
            num_workers: number of workers.
            pids: process ids of the workers, if they are processes.
        """
        self.waiter, self.runners, self.pids = waiter, num_workers + 1, frozenset(pids)
        self.cores = frozenset(affinity())
        self._placement = ffi.new("pv_placement*")
        self.waiter.joins = self._placement
        self.foreign = 0.0
        _open.add(self)
        self._stat = load.open_stat()
        self._close_stat = weakref.finalize(self, _close, self._stat)
        self._last = load.read(self.cores, self.own_pids(), self._stat)
        # With several learners on a machine, each would count the others' processes as foreign.
        if self._last is not None and quota_sharers() == 1:
            self._look_again(self._last.at_s)

    def look(self) -> None:
        """Measure the load since the last look and choose how to wait for the next turns."""
        reading = load.read(self.cores, self.own_pids(), self._stat)
        if reading is None or self._last is None:
            self.waiter.look_ns = 0
            return
        self.foreign = load.foreign_cores(self._last, reading)
        self._last = reading
        before = self.waiter.place != lib.PV_HOME
        if not crowded(self.foreign, len(self.cores), self.runners, before):
            self.waiter.place = lib.PV_HOME
        elif len(self.cores) - self.foreign >= ONE_CORE:
            self.waiter.place = lib.PV_ANYWHERE
        elif self.waiter.place < lib.PV_ON_CORE:
            lib.pv_placement_open(self._placement)
            self.waiter.place = lib.PV_ON_CORE + max(0, lib.pv_current_core())
        self._look_again(reading.at_s)

    def close(self) -> None:
        """Stop watching, and no longer count the workers as ours."""
        _open.discard(self)
        self.waiter.look_ns, self.waiter.joins = 0, ffi.NULL
        self._close_stat()

    def own_pids(self) -> set[int]:
        """Return the ids of our processes: this one and the workers of all its vector envs."""
        return {os.getpid(), *(pid for crowd in _open for pid in crowd.pids)}

    def _look_again(self, began_s: float) -> None:
        took_ns = lib.pv_now_ns() - int(began_s * 1e9)
        self.waiter.look_ns = lib.pv_now_ns() + max(LOOK_EVERY_NS, LOOK_SHARE * took_ns)
