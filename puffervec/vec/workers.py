# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The workers that run the envs: this process, its threads, or worker processes.

Each runs the same C loop.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from puffervec._ffi import ffi, lib
from puffervec.contract.native import NativeEnv
from puffervec.core.shared_memory import PrivateMemory, SharedMemory
from puffervec.errors import UnclosedWarning, WorkerTimeout
from puffervec.system import crashes, oom
from puffervec.system.callers import caller
from puffervec.system.patience import Patience
from puffervec.system.traces import TraceFile
from puffervec.vec.crowd import Crowd
from puffervec.vec.mail import Mail
from puffervec.vec.rows import Rows
from puffervec.vec.settings import VectorSettings
from puffervec.vec.turns import Turns
from puffervec.workers.process import failures
from puffervec.workers.process.processes import WorkerProcesses
from puffervec.workers.process.worker_main import Learner, WorkerTask

if TYPE_CHECKING:
    from puffervec.workers.python.env import PythonEnv

START_TIMEOUT_S = 120.0
CLOSE_TIMEOUT_S = 1.0
# Envs may have to finish videos. With one second more before SIGKILL, `close` stays below 3 s.
PYTHON_CLOSE_TIMEOUT_S = 1.8


class Workers:
    """The workers of a vector env.

    Attributes:
        mail: messages of Python envs that do not fit their rows; None for C envs.
    """

    several: ClassVar[bool] = True  # there may be any number of workers
    shared: ClassVar[bool] = False  # the workers are other processes
    memory_kind: ClassVar[type[SharedMemory] | type[PrivateMemory]] = PrivateMemory

    def __init__(self, env: NativeEnv | PythonEnv, settings: VectorSettings, rows: Rows) -> None:
        self.env, self.settings, self.rows = env, settings, rows
        self.mail = None if isinstance(env, NativeEnv) else Mail(rows, self.shared)
        # These end the workers of a vector env that is dropped without `close`.
        self._finalizers: list[weakref.finalize[Any, Any]] = []

    def start(self, turns: Turns) -> None:
        """Open the envs of all workers.

        Raises:
            WorkerError: an env could not be opened.
        """
        raise NotImplementedError

    def stop(self, turns: Turns) -> None:
        """End the workers; the halves are already marked as closed."""
        raise NotImplementedError

    def check(self, workers: Sequence[int]) -> None:
        """Raise if one of the workers has died."""

    def trace_of(self, worker: int) -> str:
        """Return the Python stacks of a hanging worker, or "" if it cannot be asked."""
        return ""

    def disown(self) -> None:
        """Leave everything to the parent; called in a forked child."""
        for finalizer in self._finalizers:
            finalizer.detach()


class InProcess(Workers):
    """The C loop in this process, run by each command that is sent."""

    several = False
    _forget: Callable[[], Any] = staticmethod(lambda: None)  # unregisters Python envs
    _unwatch: Callable[[], Any]

    def start(self, turns: Turns) -> None:
        rows = self.rows
        data = ffi.from_buffer("uint8_t[]", rows.data) if rows.data is not None else ffi.NULL
        size = len(rows.data) if rows.data is not None else 0
        self.opened = ffi.new("pv_worker[]", rows.num_workers)
        # The finalizer must not refer to self; it keeps the memory alive by referring to the
        # workers' buffers.
        keep = (rows.buffer, rows.data, data)
        self._finalizers.append(
            weakref.finalize(self, _close_workers, self.opened, rows.num_workers, keep)
        )
        crashes.watch()
        self._unwatch = weakref.finalize(self, crashes.unwatch)
        kind = self._env_type()
        for index in range(rows.num_workers):
            if lib.pv_worker_open(self.opened + index, rows.slab, index, kind, data, size):
                try:
                    turns.raise_failure(lib.pv_control_half(rows.slab, index))
                finally:
                    _close_workers(self.opened, rows.num_workers, None)
        turns.waiter.own = self.opened

    def _env_type(self) -> Any:
        """Return the `const pv_env_type*` of the envs."""
        if isinstance(self.env, NativeEnv):
            return self.env.env_type()
        from puffervec.workers.python import block

        assert self.mail is not None
        contexts: dict[int, block.BlockContext] = {}
        for index, mailbox in enumerate(self.mail.boxes):
            contexts |= block.block_contexts(self.rows.slab, self.rows.buffer, index, mailbox)
        block.register(self.env.source, contexts)
        self._forget = weakref.finalize(self, block.forget, self.env.source)
        self._finalizers.append(self._forget)
        return block.TYPE

    def stop(self, turns: Turns) -> None:
        _close_workers(self.opened, self.rows.num_workers, None)
        self._forget()
        self._unwatch()


class Threads(InProcess):
    """The C loop in threads of this process, over the same slab and channel."""

    several = True

    def start(self, turns: Turns) -> None:
        super().start(turns)
        turns.waiter.own = ffi.NULL
        for index in range(self.rows.num_workers):
            self.opened[index].waiter.pauses = self.settings.pauses
        self._threads = [
            threading.Thread(
                target=lib.pv_worker_run,
                args=(self.opened + index,),
                daemon=True,
                name=f"puffervec-{index}",
            )
            for index in range(self.rows.num_workers)
        ]
        keep = (self.rows.buffer, self.rows.data, turns.waiter)
        try:
            for thread in self._threads:
                thread.start()
        except BaseException:
            _end_threads(self.rows.slab, self._threads, keep)
            raise
        self._finalizers.append(
            weakref.finalize(self, _end_threads, self.rows.slab, self._threads, keep)
        )
        turns.crowd = Crowd(turns.waiter, self.rows.num_workers)

    def stop(self, turns: Turns) -> None:
        self._unwatch()
        if _end_threads(self.rows.slab, self._threads, (turns.waiter,) * 3):
            _close_workers(self.opened, self.rows.num_workers, None)
            return
        for finalizer in self._finalizers:
            finalizer.detach()  # the thread that hangs still uses its envs
        raise WorkerTimeout(
            f"close: a thread did not end within {CLOSE_TIMEOUT_S:g} s: an env hangs, and a "
            "thread cannot be killed; use backend='multiprocessing', which can kill its workers"
        )


class Processes(Workers):
    """The C loop in worker processes."""

    shared = True
    memory_kind = SharedMemory

    def start(self, turns: Turns) -> None:
        rows, slab = self.rows, self.rows.slab
        self.traces = [TraceFile() for _ in self.settings.cores]
        self._oom_kills = oom.kills()
        learner, origin = Learner(), self._origin()
        boxes = [None] * rows.num_workers if self.mail is None else self.mail.boxes
        tasks = [
            WorkerTask(
                rows.memory,
                index,
                self.env.name,
                rows.data_file,
                core,
                self.settings.pauses,
                self.traces[index],
                learner,
                mailbox=boxes[index],
                **origin,
            )
            for index, core in enumerate(self.settings.cores)
        ]
        control_halves = [lib.pv_control_half(slab, index) for index in range(rows.num_workers)]
        for index, half in enumerate(control_halves):  # a worker answers when it is ready
            lib.pv_turn_send_one(slab, index, half, lib.PV_IDLE, 0, 0, turns.waiter)
        preload = () if isinstance(self.env, NativeEnv) else self.env.preload
        self.group = WorkerProcesses(tasks, self.settings.start_method, preload)
        self._finalizers.append(
            weakref.finalize(self, _reap, self.group, self.env.name, caller("puffervec"))
        )
        try:
            for index, half in enumerate(control_halves):
                turns.await_one(index, half, max(START_TIMEOUT_S, self.settings.timeout_s))
        except BaseException:
            self.group.kill()
            raise
        turns.crowd = Crowd(
            turns.waiter,
            rows.num_workers,
            [process.pid for process in self.group.processes if process.pid],
        )

    def _origin(self) -> dict[str, Any]:
        """Return what a worker needs to find its env type."""
        if isinstance(self.env, NativeEnv):
            return {"shared_library": self.env.shared_library_path}
        from puffervec.workers.python.env import dump_source

        return {"python": dump_source(self.env), "environ": dict(os.environ), "folder": os.getcwd()}

    def check(self, workers: Sequence[int]) -> None:
        found = self.group.dead(workers)
        if found is not None:
            worker, exit_code = found
            raise failures.died(
                self.rows.slab,
                worker,
                exit_code,
                self.traces[worker].read(),
                oom.hint(self._oom_kills),
            )

    def trace_of(self, worker: int) -> str:
        pid = self.group.processes[worker].pid
        assert pid is not None
        return self.traces[worker].ask(pid)

    def disown(self) -> None:
        super().disown()
        self.group.disown()

    def stop(self, turns: Turns) -> None:
        for worker in range(self.rows.num_workers):
            _send_close(self.rows.slab, worker, turns.waiter)
        # After an error workers still answer, and close their envs; one that hangs does not.
        patience_s = PYTHON_CLOSE_TIMEOUT_S if self.mail is not None else CLOSE_TIMEOUT_S
        try:
            self.group.end(0.0 if isinstance(turns.broken, WorkerTimeout) else patience_s)
        finally:
            self.group.kill()  # also after a second Ctrl-C


def _send_close(slab: Any, worker: int, waiter: Any) -> None:
    """Tell a worker to end, whatever it is doing.

    After every turn it reads the command of its control half.
    """
    lib.pv_turn_send_one(
        slab, worker, lib.pv_control_half(slab, worker), lib.PV_CLOSE, 0, 0, waiter
    )


def _close_workers(opened: Any, count: int, keep: Any) -> None:
    for index in range(count):
        lib.pv_worker_close(opened + index)


def _reap(processes: WorkerProcesses, env_name: str, made_at: tuple[str, int]) -> None:
    """End the workers of a vector env that was dropped or is still open at interpreter exit."""
    if not processes.processes:
        return
    processes.kill()
    # With an uncaught exception, the program has already reported what went wrong.
    if getattr(sys, "last_value", None) is None:
        warnings.warn_explicit(
            f"this vector env of {env_name!r} was never closed: its workers were ended without "
            "closing their envs; call close(), or use it in a with statement",
            UnclosedWarning,
            *made_at,
        )


def _end_threads(slab: Any, threads: list[threading.Thread], keep: tuple[Any, Any, Any]) -> bool:
    """Tell the threads to end and wait for them; return False if one has not ended in time."""
    for worker, thread in enumerate(threads):
        if thread.is_alive():
            _send_close(slab, worker, keep[2])
    patience = Patience()
    while any(thread.is_alive() for thread in threads) and patience.waited_s() < CLOSE_TIMEOUT_S:
        # If starting a thread failed, the threads after it were never started.
        for thread in filter(threading.Thread.is_alive, threads):
            thread.join(0.001)
    return not any(thread.is_alive() for thread in threads)
