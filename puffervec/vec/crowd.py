# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Notices other programs on the machine's cores, and tells learner and workers how to wait and
where to run. Learner side.

On a machine of its own, a process waits fastest by looking again and again and yielding its core in
between. Beside another program that is the slowest way: a process that yields, or uses up its
slice, gets the core back at the scheduler's next tick, 4 ms later. So ten times a second the
learner compares how busy the kernel says the cores were with what its own processes used. Where
other programs leave too few cores, learner and workers wait without keeping a core busy, and the
workers leave their own cores:

    about one core is left     all workers go to the learner's core. Nobody has to be woken on another
                               core, and the scheduler leaves the other program where it is.
    more cores are left        workers sleep as soon as they wait, and may run anywhere: the scheduler
                               finds the free cores.

When the other programs are gone, the workers return to their cores and wait as before.
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
# A look may take a thousandth of the time between two: /proc/stat is long on large machines
LOOK_SHARE = 1000
FULL, FREE = (
    0.3,
    0.15,
)  # cores in use by others: from FULL on the machine counts as shared, below FREE no longer
ONE_CORE = 1.5  # cores left: below this, about one

_open: weakref.WeakSet[Crowd] = weakref.WeakSet()  # of all vector envs of this process


def crowded(foreign: float, cores: int, runners: int, before: bool) -> bool:
    """Return whether other programs leave too few cores.

    Args:
        foreign: cores that they use. cores: that there are. runners: processes of ours that want to
        run at the same time.
        before: what the last answer was.
    """
    return foreign >= (FREE if before else FULL) and cores - foreign < min(runners, cores)


def _close(file: int | None) -> None:
    if file is not None:
        os.close(file)


class Crowd:
    """Looks at the load of the machine for one vector env.

    Attributes:
        pids: of the workers, where they are processes.
        foreign: the number of cores that other programs used at the last look.
    """

    def __init__(self, waiter: Any, num_workers: int, pids: Collection[int] = ()) -> None:
        """Begin to look.

        Args:
            waiter: the learner's `pv_waiter`, whose `place` goes to the workers with their
            commands.
            pids: of the workers, where they are processes.
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
        # One of several learners on a machine takes the others' processes for strangers'.
        if self._last is not None and quota_sharers() == 1:
            self._look_again(self._last.at_s)

    def look(self) -> None:
        """Compare with the last look, and settle how the next turns are waited for."""
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
        """Look no more, and no longer count the workers as ours."""
        _open.discard(self)
        self.waiter.look_ns, self.waiter.joins = 0, ffi.NULL
        self._close_stat()

    def own_pids(self) -> set[int]:
        """Return the processes that are ours: this one, and the workers of all its vector envs."""
        return {os.getpid(), *(pid for crowd in _open for pid in crowd.pids)}

    def _look_again(self, began_s: float) -> None:
        took_ns = lib.pv_now_ns() - int(began_s * 1e9)
        self.waiter.look_ns = lib.pv_now_ns() + max(LOOK_EVERY_NS, LOOK_SHARE * took_ns)
