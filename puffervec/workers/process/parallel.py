# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Applies a function to many items on all usable cores: for what an env prepares once (scenes,
levels), not for steps.

Runs in the learner before workers start. The processes leave Ctrl-C to the learner and end with it,
however it ends.
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
# Items per message: large enough that messages cost nothing, small enough that Ctrl-C is obeyed
# soon
CHUNK = 8


def each_on_all_cores(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    least: int = 32,
    most: int | None = None,
    chunk: int = CHUNK,
) -> Iterator[Result]:
    """Yield function(item) of each item in order, computed by as many processes as there are cores,
    if that is worth it.

    Args:
        function, items: both picklable, as are the results. An error of the function is raised
            here; the first, in the order of the items.
        least: items per process that are worth starting one. With fewer than two processes' worth
            all is done here, and also in a daemonic process, which may not have children.
        most: processes at most; None: as many as there are cores.
        chunk: items per message; 1 where one of them takes long.

    Raises:
        PuffervecError: a process was killed, as by a machine that ran out of memory.
    """
    processes = min(usable_cores() if most is None else most, len(items) // least)
    if processes < 2 or multiprocessing.current_process().daemon:
        yield from map(function, items)
        return
    chunks = [items[start : start + chunk] for start in range(0, len(items), chunk)]
    context = multiprocessing.get_context(
        "spawn"
    )  # a fork would copy locks that the caller's threads hold
    with ProcessPoolExecutor(processes, context, _begin, (Learner(),)) as pool:
        try:
            with (
                hidden_main(),
                one_math_thread(),
                stop_signals_held(),
            ):  # processes start when the first chunks are handed in
                results = pool.map(functools.partial(_each, function), chunks)
            yield from itertools.chain.from_iterable(results)
        except BrokenProcessPool as error:
            raise PuffervecError(
                f"one of {processes} processes that prepare {len(items)} items was killed, as "
                "when memory runs out; free some and start again"
            ) from error
        # Also a Ctrl-C that was held back, or a caller that stops early: drop what has not begun
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _begin(learner: Learner) -> None:
    """First thing in a process of the pool."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_AT_START)
    watch_learner(learner)


def _each(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    return [function(item) for item in items]
