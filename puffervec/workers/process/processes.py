# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Worker processes, which the learner starts, watches and ends.

Workers are started by multiprocessing, with the user's main module hidden during the start:
multiprocessing would otherwise import it in each worker, which is why libraries ask for `if
__name__ == "__main__"` and fail at the prompt.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import multiprocessing.process
import os
import signal
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from multiprocessing import connection, forkserver, resource_tracker
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

from puffervec._ffi import lib
from puffervec.errors import ConfigError
from puffervec.system.patience import Patience
from puffervec.workers.process import fork_server
from puffervec.workers.process.worker_main import (
    HELD_AT_START,
    MATH_THREADS,
    WorkerTask,
    main,
    open_pidfd,
)

START_METHODS = ("spawn", "forkserver", "fork")
AUTO = "auto"  # forkserver for Python envs, spawn for C envs, which need next to nothing of Python
STATUS_LOST = 255  # multiprocessing's exit code if its fork server does not report one
SLICE_S = 0.02
# Reentrant: a worker is forked while the lock is held, and may make workers of its own.
_main_lock = threading.RLock()


@contextlib.contextmanager
def hidden_main() -> Iterator[None]:
    """Replace `__main__` by an empty module within the block.

    multiprocessing then finds no main script to import in the child.
    """
    with _main_lock:
        user_main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = user_main


@contextlib.contextmanager
def one_math_thread() -> Iterator[None]:
    """Make math libraries in processes started in the block use one thread.

    The cores are for the envs. The limit is set before the processes start, because a fork server
    imports NumPy before any worker runs.
    """
    unset = [name for name in MATH_THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(unset, "1"))
    try:
        yield
    finally:
        for name in unset:
            os.environ.pop(name, None)


@contextlib.contextmanager
def _may_have_children() -> Iterator[None]:
    """Let a daemonic process, such as one of a multiprocessing pool, start workers.

    multiprocessing forbids it because daemonic processes are killed without warning, which leaves
    their children behind. Workers, however, watch their learner and end when it ends.
    """
    process = multiprocessing.current_process()
    daemonic = process.daemon
    process.daemon = False
    try:
        yield
    finally:
        process.daemon = daemonic


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Disable garbage collection while a worker is forked.

    The worker must not collect objects that it inherits from this process before it has frozen them
    (worker_main.py): their C destructors may wait for threads that exist only in this process.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _leave_fork_server() -> None:
    """Drop a fork server that belongs to the process from which this one was forked.

    This process cannot wait for it.
    """
    server: Any = forkserver._forkserver
    if server._forkserver_pid is None:
        return
    try:
        _runs_as_child(server._forkserver_pid)
    except ChildProcessError:
        os.close(server._forkserver_alive_fd)  # else the server would live as long as this process
        server.__init__()


def _context(start_method: str) -> BaseContext:
    if start_method not in START_METHODS:
        raise ConfigError(
            f"start_method is {start_method!r}: use one of {', '.join(START_METHODS)}"
        )
    if start_method == "fork" and threading.active_count() > 1:
        names = ", ".join(
            thread.name for thread in threading.enumerate() if thread is not threading.main_thread()
        )
        raise ConfigError(
            f"start_method='fork' with other threads running ({names}) can deadlock in the child: "
            "use 'spawn' or 'forkserver', or make the vector env before starting threads"
        )
    return multiprocessing.get_context(start_method)


@contextlib.contextmanager
def stop_signals_held() -> Iterator[None]:
    """Hold back Ctrl-C and SIGTERM while a process is started.

    In this process, no signal can then come between the start of the new process and its being
    recorded. The worker inherits the mask and keeps it until it has its own handling
    (worker_main.py): a signal to the learner's whole process group would otherwise end it with a
    traceback. A fork server that is started here holds the signals back for good; it ends with the
    learner.

    In this process the mask is not enough: another thread (of a math library) may receive a signal,
    and Python then runs its handler in the main thread anyway.
    """
    held: list[tuple[int, FrameType | None]] = []
    handlers: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {n: handler for n in HELD_AT_START if callable(handler := signal.getsignal(n))}
    for number in handlers:
        signal.signal(number, lambda n, frame: held.append((n, frame)))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_AT_START)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in held:
            handlers[number](number, frame)


class WorkerProcesses:
    """The worker processes of one vector env."""

    def __init__(
        self, tasks: Sequence[WorkerTask], start_method: str, preload: Sequence[str] = ()
    ) -> None:
        """Start one process per task.

        Args:
            tasks: the parameters of each worker.
            start_method: "spawn", "forkserver" or "fork".
            preload: modules that a fork server imports before it forks, if it is not running yet.
                Its workers share the memory of these modules and start at once. So more workers
                than cores do not fill the CPU caches with copies of them (eight workers with eight
                CartPoles each on two cores: 1.5 to 2 times the steps/s of spawned ones).

        Raises:
            ConfigError: the start method cannot be used.
        """
        context = _context(start_method)
        if start_method == "forkserver":
            _leave_fork_server()
            multiprocessing.set_forkserver_preload(list(preload))
        if start_method != "fork":
            # Called here, because it unblocks the signals that are held back below.
            resource_tracker.ensure_running()
        unnamed_socket = (
            fork_server.unnamed_socket if start_method == "forkserver" else contextlib.nullcontext
        )
        self.processes: list[BaseProcess] = []
        self._pidfds: list[int] = []  # -1: none
        try:
            for task in tasks:
                name = f"puffervec-{task.index}"
                make: Any = context.Process  # type: ignore[attr-defined]
                process = make(target=main, args=(task,), daemon=True, name=name)
                with (
                    hidden_main(),
                    one_math_thread(),
                    unnamed_socket(),
                    _may_have_children(),
                    _no_collection(),
                    stop_signals_held(),
                ):
                    process.start()
                    self.processes.append(process)
                    self._pidfds.append(open_pidfd(process.pid))
        except BaseException:
            self.kill()
            raise

    def dead(self, where: Sequence[int]) -> tuple[int, int | None] | None:
        """Return (worker, exit code) of one worker in `where` that has ended, or None.

        The exit code is None if it is lost. Processes left in the worker's group are killed.
        """
        for index in self._ended(where):
            process = self.processes[index]
            process.join(timeout=0.2)  # its status comes a moment later
            if process.exitcode is None:
                continue
            _end_group(process.pid)
            lost = process.exitcode == STATUS_LOST and not _fork_server_lives()
            return index, None if lost else process.exitcode
        return None

    def _ended(self, where: Sequence[int], timeout_s: float = 0.0) -> list[int]:
        """Return which of `where` have ended, from pidfds or sentinels, but never from pids."""
        files: dict[Any, int] = {}
        for index in where:
            files[
                self._pidfds[index] if self._pidfds[index] >= 0 else self.processes[index].sentinel
            ] = index
        return [files[ended] for ended in connection.wait(list(files), timeout=timeout_s)]

    def disown(self) -> None:
        """Forget the workers, which belong to the parent process; called in a forked child.

        Nothing in this process ends them afterwards.
        """
        for process in self.processes:
            # multiprocessing ends what it considers children of this process when this one exits.
            multiprocessing.process._children.discard(process)  # type: ignore[attr-defined]
        for fd in self._pidfds:
            if fd >= 0:
                os.close(fd)
        self.processes, self._pidfds = [], []

    def end(self, timeout_s: float) -> None:
        """Wait for all workers to end; then send SIGTERM, wait a second, and send SIGKILL."""
        left = self._wait(range(len(self.processes)), timeout_s)
        for index in left:
            self._signal(index, signal.SIGTERM)
        self._wait(left, 1.0)
        self.kill()

    def kill(self) -> None:
        """Kill all workers immediately, and the processes that their envs have started."""
        for index in self._wait(range(len(self.processes)), 0.0):
            self._signal(index, signal.SIGKILL)
        # One at a time, so that after a Ctrl-C the rest of the list can still be ended.
        while self.processes:
            process, pidfd = self.processes[-1], self._pidfds[-1]
            process.join()
            # waitpid reports an exit code only once, and here a Ctrl-C has lost it. Without this
            # line the process would seem to run for ever.
            if process.exitcode is None:
                process._popen.returncode = STATUS_LOST  # type: ignore[attr-defined]
            _end_group(process.pid)
            self.processes, self._pidfds = self.processes[:-1], self._pidfds[:-1]
            process.close()
            if pidfd >= 0:
                os.close(pidfd)

    def _wait(self, where: Sequence[int], timeout_s: float) -> list[int]:
        """Wait for workers to end; return those that have not."""
        patience, left = Patience(), list(where)
        while left:
            ended = self._ended(left, min(timeout_s, SLICE_S))
            left = [index for index in left if index not in ended]
            if patience.waited_s() >= timeout_s:
                break
        return left

    def _signal(self, index: int, number: signal.Signals) -> None:
        """Send a signal to a worker that has not ended by itself.

        The processes that it started are killed first, while the system still knows whose they are.
        """
        lib.pv_end_descendants(self.processes[index].pid)
        if self._pidfds[index] < 0:
            self.processes[index].terminate() if number == signal.SIGTERM else self.processes[
                index
            ].kill()
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfds[index], number)


def _end_group(group: int | None) -> None:
    """Kill the processes that a dead worker has left in its process group.

    As long as the group has members, no new process gets its number. So if a process with that
    number exists, the group is a different one.
    """
    assert group is not None
    with contextlib.suppress(PermissionError):
        try:
            os.kill(group, 0)
        except ProcessLookupError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


def _fork_server_lives() -> bool:
    server: Any = forkserver._forkserver
    try:
        return _runs_as_child(server._forkserver_pid or 0)
    except OSError:
        return False


def _runs_as_child(pid: int) -> bool:
    """Return whether a child of this process runs, without waiting for it.

    Raises:
        ChildProcessError: the process is not a child of this one.
    """
    if hasattr(os, "waitid"):
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    import psutil  # macOS before Python 3.13

    try:
        process = psutil.Process(pid)
        if process.ppid() == os.getpid():
            return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        pass
    raise ChildProcessError(f"process {pid} is not a child of process {os.getpid()}")
