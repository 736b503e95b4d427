# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Starting, watching and ending worker processes. Runs in the learner.

Workers are started by multiprocessing, with the user's main module hidden for the moment of the
start: multiprocessing would otherwise import it in each worker, which is why libraries ask for `if
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
STATUS_LOST = 255  # what multiprocessing takes for an exit code that its fork server does not tell
SLICE_S = 0.02
_main_lock = (
    threading.RLock()
)  # a forked worker is made while it is held, and may make workers of its own


@contextlib.contextmanager
def hidden_main() -> Iterator[None]:
    """Replace `__main__` by an empty module, so that multiprocessing finds no main script to import
    in the child.
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
    """Tell math libraries in processes that are started now to use one thread: the cores are for
        the envs.

    Said before they start, because a fork server imports NumPy before any worker runs.
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

    multiprocessing forbids it because daemonic processes are ended without a word, which leaves
    their children behind. Workers watch their learner, whatever its end, and go with it.
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
    """Keep a forked worker from collecting garbage of this process before it has set it aside
    (worker_main.py).

    What is collected there is destroyed there, and a destructor of C code may wait for threads that
    only this process has.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _leave_fork_server() -> None:
    """Forget a fork server that belongs to the process which this one was forked from: it cannot be
    waited for here.
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
    """Hold Ctrl-C and SIGTERM back while a process is started: here, so that none comes between its
    start and its being noted; and in the worker, which inherits the mask, until it has its own
    handling (worker_main.py): they would end it, with a traceback, when the learner's whole group
    is meant. A fork server that is started here holds them back for good; it ends with the learner.

    Here the mask is not enough: another thread (of a math library) may take a signal, and Python
    then runs its handler in the main thread all the same.
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
            preload: modules that a fork server imports before it forks, if it is not running yet.
                Its workers share their memory, so that more workers than cores do not fill the
                caches with copies of them (eight workers with eight CartPoles each on two cores:
                1.5 to 2 times the steps/s of spawned ones), and start at once.
        Raises:
            ConfigError: an unusable start method.
        """
        context = _context(start_method)
        if start_method == "forkserver":
            _leave_fork_server()
            multiprocessing.set_forkserver_preload(list(preload))
        if start_method != "fork":
            # Here, because it lets go of the signals that are held below.
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
        """Return (worker, exit code) of one in `where` that has ended, None if all live; the code
        is None where it is lost.

        What the worker has left of its process group is ended.
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
        """Return which of `where` have ended. Looks at pidfds, or at sentinels, but never at pids."""
        files: dict[Any, int] = {}
        for index in where:
            files[
                self._pidfds[index] if self._pidfds[index] >= 0 else self.processes[index].sentinel
            ] = index
        return [files[ended] for ended in connection.wait(list(files), timeout=timeout_s)]

    def disown(self) -> None:
        """In a forked child: forget the workers, which are the parent's, so that nothing here ends
        them.
        """
        for process in self.processes:
            # multiprocessing ends what it takes for the children of this process when the process
            # exits.
            multiprocessing.process._children.discard(process)  # type: ignore[attr-defined]
        for fd in self._pidfds:
            if fd >= 0:
                os.close(fd)
        self.processes, self._pidfds = [], []

    def end(self, timeout_s: float) -> None:
        """Wait for all to end by themselves; then SIGTERM, a second, SIGKILL."""
        left = self._wait(range(len(self.processes)), timeout_s)
        for index in left:
            self._signal(index, signal.SIGTERM)
        self._wait(left, 1.0)
        self.kill()

    def kill(self) -> None:
        """End all at once, with what their envs have started."""
        for index in self._wait(range(len(self.processes)), 0.0):
            self._signal(index, signal.SIGKILL)
        while (
            self.processes
        ):  # one at a time, so that a Ctrl-C leaves a list that can be gone on with
            process, pidfd = self.processes[-1], self._pidfds[-1]
            process.join()
            if (
                process.exitcode is None
            ):  # a Ctrl-C took it from waitpid, which tells it once; it would seem to run for ever
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
        """End a worker that has not ended by itself; first what it has started, while the system
        knows whose that is.
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
    """End what a worker that is dead and gone has left in its process group.

    Its number cannot be another process's as long as the group has members. If it is, the group is
    another, too.
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
    """Return whether a child of this process runs, without waiting for it. Raises:
    ChildProcessError: it is no child of it.
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
    raise ChildProcessError(f"process {pid} is no child of process {os.getpid()}")
