# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Starting, watching and ending worker processes (puffervec/workers/process/processes.py)."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

import puffervec
from puffervec.errors import ConfigError
from puffervec.workers.process import processes
from puffervec.workers.process.processes import WorkerProcesses
from tests.helpers import eventually

pytestmark = pytest.mark.usefixtures("no_leaks")


def sleep(task: Any) -> None:
    """Stands for worker_main.main."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pause()


def sleep_deaf(task: Any) -> None:
    """A worker that does not even end when told."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        signal.pause()


def is_deaf(pid: int | None) -> bool:
    ignored = next(
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("SigIgn")
    )
    return bool(int(ignored.split()[1], 16) & 1 << (signal.SIGTERM - 1))


class Numbered:
    """Stands for WorkerTask."""

    def __init__(self, index: int) -> None:
        self.index = index


def test_a_dead_worker_is_found_by_its_sentinel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "main", sleep)
    workers = WorkerProcesses([Numbered(0), Numbered(1)], "spawn")  # type: ignore[list-item]
    try:
        assert workers.dead([0, 1]) is None
        os.kill(workers.processes[1].pid, signal.SIGKILL)
        workers.processes[1].join()
        assert workers.dead([0]) is None
        assert workers.dead([0, 1]) == (1, -signal.SIGKILL)
    finally:
        workers.kill()
    assert workers.processes == []
    workers.kill()  # twice is no harm
    workers.end(0.0)


def test_end_asks_then_insists(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that ignores SIGTERM is killed after the grace time."""
    monkeypatch.setattr(processes, "main", sleep_deaf)
    workers = WorkerProcesses([Numbered(0)], "spawn")  # type: ignore[list-item]
    process = workers.processes[0]
    eventually(lambda: is_deaf(process.pid), "it to ignore SIGTERM")
    workers.end(0.05)
    assert workers.processes == []
    with pytest.raises(ValueError, match="closed"):
        process.is_alive()


def test_kill_can_be_broken_off_and_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a Ctrl-C while the first worker is waited for, or the second."""
    monkeypatch.setattr(processes, "main", sleep)
    for number in (1, 2):
        workers = WorkerProcesses([Numbered(0), Numbered(1)], "spawn")  # type: ignore[list-item]
        pids, calls = [process.pid for process in workers.processes], []

        def close(group: int | None, number: int = number, calls: list[Any] = calls) -> None:
            calls.append(group)
            if len(calls) == number:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(processes, "_end_group", close)
            with pytest.raises(KeyboardInterrupt):
                workers.kill()
        workers.kill()
        assert workers.processes == []
        assert not any(psutil.pid_exists(pid) for pid in pids)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_status_that_a_ctrl_c_has_taken_hinders_no_end(method: str) -> None:
    """It comes after waitpid has collected the worker, before multiprocessing keeps the result."""
    with puffervec.make("probe", num_envs=2, num_workers=2, start_method=method) as vec:
        os.kill(vec.processes[1].pid, signal.SIGKILL)
        os.waitpid(vec.processes[1].pid, 0)
    assert vec.processes == []


def test_the_main_module_is_hidden_only_for_the_moment() -> None:
    mine = sys.modules["__main__"]
    with processes.hidden_main():
        assert sys.modules["__main__"] is not mine
        assert not hasattr(sys.modules["__main__"], "__file__")
    assert sys.modules["__main__"] is mine
    with pytest.raises(KeyError), processes.hidden_main():
        raise KeyError
    assert sys.modules["__main__"] is mine


def test_fork_with_other_threads_is_refused() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="my-thread")
    thread.start()
    try:
        with pytest.raises(ConfigError) as caught:
            puffervec.make("probe", num_workers=1, start_method="fork")
    finally:
        stop.set()
        thread.join()
    for word in ("fork", "my-thread", "'spawn' or 'forkserver'"):
        assert word in str(caught.value)


def test_workers_can_be_started_from_threads_at_the_same_time() -> None:
    """Each start hides the main module for a moment; two at once must not leave it hidden."""
    mine = sys.modules["__main__"]
    made: list[puffervec.VectorEnv] = []

    def start() -> None:
        made.append(puffervec.make("probe", num_workers=1))

    threads = [threading.Thread(target=start) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 3
    assert sys.modules["__main__"] is mine
    for vec in made:
        vec.reset(0)
        vec.close()
