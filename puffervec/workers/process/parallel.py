# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Parallel map over all usable cores, for preparation (scenes, levels), not for steps.

Runs in the learner before workers start. The processes leave Ctrl-C to the learner, and end when it
ends, for whatever reason.
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from puffervec.errors import PuffervecError
from puffervec.system.cores import usable_cores
from puffervec.workers.process.processes import hidden_main, one_math_thread, stop_signals_held
from puffervec.workers.process.worker_main import HELD_AT_START, Learner, watch_learner

Item = TypeVar("Item")
Result = TypeVar("Result")
# Items per message: large enough that messages cost nothing, small enough that Ctrl-C acts soon.
CHUNK = 8


def each_on_all_cores(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    least: int = 32,
    most: int | None = None,
    chunk: int = CHUNK,
) -> Iterator[Result]:
    """Yield function(item) for each item in order, computed on all cores if that pays off.

    Args:
        function: picklable, as are its results. Its errors are raised here; the first, in the order
            of the items.
        items: picklable items.
        least: number of items that are worth starting a process for. With fewer than twice as many
            items all work is done in this process. The same holds in a daemonic process, which may
            not have children.
        most: largest number of processes; None: the number of usable cores.
        chunk: items per message; use 1 if an item takes long.

    Raises:
        PuffervecError: a process was killed, for example because memory ran out.
    """
    processes = min(usable_cores() if most is None else most, len(items) // least)
    if processes < 2 or multiprocessing.current_process().daemon:
        yield from map(function, items)
        return
    chunks = [items[start : start + chunk] for start in range(0, len(items), chunk)]
    # Not "fork", which would copy locks that the caller's threads hold.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _begin, (Learner(),)) as pool:
        try:
            # Processes start when the first chunks are submitted.
            with hidden_main(), one_math_thread(), stop_signals_held():
                results = pool.map(functools.partial(_each, function), chunks)
            yield from itertools.chain.from_iterable(results)
        except BrokenProcessPool as error:
            raise PuffervecError(
                f"one of {processes} processes that prepare {len(items)} items was killed, "
                "perhaps because memory ran out: free some and start again"
            ) from error
        # Drop work that has not begun; this also handles a Ctrl-C that was held back, and a caller
        # that stops early.
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _begin(learner: Learner) -> None:
    """Set up a process of the pool: signals and the watch on the learner."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_AT_START)
    watch_learner(learner)


def _each(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    return [function(item) for item in items]
