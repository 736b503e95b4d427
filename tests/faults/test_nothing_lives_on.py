# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Workers end with their learner, whoever else holds its pipes; what envs start ends with their
worker; a job that is stopped as a whole, for longer than any time limit, goes on.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from typing import Any

import psutil
import pytest

import puffervec
from puffervec.errors import WorkerDied
from tests.faults.scenarios import Script
from tests.helpers import TIME_SCALE, eventually
from tests.python_envs import Counting

GONE_S = 0.5 * TIME_SCALE


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# ---- the learner ---------------------------------------------------------------------------------

FORKED_LEARNER = """
    import os, sys, time
    import puffervec
    from puffervec.workers.process import worker_main
    from tests.python_envs import Counting

    env, method, pidfds = sys.argv[1:]
    if not pidfds:
        without = {name: getattr(os, name) for name in dir(os) if name != "pidfd_open"}
        worker_main.os = type("Without", (), without)
    vec = puffervec.make(
        Counting if env == "python" else env, num_envs=2, num_workers=2, start_method=method
    )
    vec.reset(0)
    if os.fork() == 0:
        time.sleep(100)
    vec.step([0, 0])
    print(*(process.pid for process in vec.processes), flush=True)
    time.sleep(100)
"""
CASES = [
    ("probe", "spawn", "yes"),
    ("probe", "fork", "yes"),
    ("python", "forkserver", "yes"),
    ("probe", "forkserver", ""),
]
SLOW = [
    ("python", "spawn", "yes"),
    ("python", "fork", "yes"),
    ("probe", "forkserver", "yes"),
    ("probe", "spawn", ""),
]


def _end_with_their_learner(learner: Script, processes: list[int], what: str) -> None:
    """Kill the learner; the processes must be gone in time."""
    os.kill(learner.process.pid, signal.SIGKILL)
    killed = time.monotonic()
    eventually(lambda: not any(map(alive, processes)), what)
    assert time.monotonic() - killed < GONE_S


@pytest.mark.parametrize(
    ("env", "method", "pidfds"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)],
)
def test_workers_of_a_killed_learner_with_a_forked_child(
    env: str, method: str, pidfds: str
) -> None:
    """The child holds the learner's end of every pipe. Also where the system has no pidfds."""
    with Script(FORKED_LEARNER, env, method, pidfds) as learner:
        workers = [int(pid) for pid in learner.line().split()]
        assert len(workers) == 2 and all(map(alive, workers))
        _end_with_their_learner(learner, workers, "the workers to end")


# ---- what envs start -----------------------------------------------------------------------------


class Parent(Counting):
    """Starts a process that never ends, and shows its number. session: the process is in a session
    of its own.
    """

    def __init__(self, fault: str = "", session: bool = False) -> None:
        super().__init__(length=100)
        self.fault = fault
        if multiprocessing.parent_process() is not None:  # not the one that only shows its spaces
            sleeping = [sys.executable, "-c", "import time; time.sleep(1000)"]
            self.child = subprocess.Popen(sleeping, start_new_session=session)

    def step(self, action: Any) -> Any:
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(1000 if self.fault == "hang" else 0)
        return super().step(action)

    def pid(self) -> int:
        """Return the number of the process."""
        return self.child.pid


ENDS = [("kill", "spawn"), ("close", "forkserver"), ("dropped", "forkserver")]
MORE_ENDS = [
    end
    for end in itertools.product(
        ("close", "kill", "dropped", "hang"), ("spawn", "fork", "forkserver")
    )
    if end not in ENDS
]


@pytest.mark.parametrize(
    ("end", "method"), [*ENDS, *(pytest.param(*end, marks=pytest.mark.slow) for end in MORE_ENDS)]
)
def test_processes_that_an_env_has_started_end_with_the_worker(end: str, method: str) -> None:
    """In sessions of their own they do where the worker ends in order, or by its learner's hand."""
    settings = {"fault": end, "session": end != "kill"}
    vec = puffervec.make(
        Parent, env_kwargs=settings, num_envs=2, num_workers=2, start_method=method, timeout_s=1
    )
    vec.reset(seed=0)
    grandchildren = vec.call("pid")
    assert all(map(alive, grandchildren))
    try:
        if end == "kill":
            with pytest.raises(WorkerDied):
                vec.step([0, 0])
        elif end == "hang":
            vec.send([0, 0])
    finally:
        if end == "dropped":
            vec.workers.group.kill()
        vec.close()
    eventually(lambda: not any(map(alive, grandchildren)), "what the envs have started to end")


@pytest.mark.slow
def test_processes_that_an_env_has_started_end_with_a_killed_learner() -> None:
    text = """
        import time
        import puffervec
        from tests.faults.test_nothing_lives_on import Parent

        vec = puffervec.make(Parent, env_kwargs={"session": True}, num_envs=2, num_workers=2)
        vec.reset(seed=0)
        print(*vec.call("pid"), flush=True)
        time.sleep(100)
    """
    with Script(text) as learner:
        grandchildren = [int(pid) for pid in learner.line().split()]
        assert len(grandchildren) == 2 and all(map(alive, grandchildren))
        _end_with_their_learner(learner, grandchildren, "what the envs have started to end")


# ---- forks that come back ------------------------------------------------------------------------


class Forking(Counting):
    """Its second step forks, and the child comes back with another observation."""

    def step(self, action: Any) -> Any:
        result = super().step(action)
        child = os.fork() if self.t == 2 else 1
        if child == 0:
            time.sleep(0.1)  # the worker is at its next turn by then
            return result[0] + 1000, *result[1:]
        self.child = child if self.t == 2 else None
        return result

    def status(self) -> int:
        """Wait for the child and return its exit status."""
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


@pytest.mark.slow
def test_a_child_that_comes_back_out_of_an_env_writes_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with puffervec.make(
        Forking, env_kwargs={"length": 100}, num_envs=2, num_workers=1, start_method="spawn"
    ) as vec:
        vec.reset(seed=0)
        vec.step([1, 2])
        vec.step([1, 2])
        assert vec.call("status") == (71, 71)
        for step in range(3, 6):
            assert vec.step([1, 2])[0].tolist() == [[0, 0, step, 1], [1, 0, step, 2]]
    messages = capfd.readouterr().err
    assert messages.count("an env forked, and the child came back out of the env") == 2


def test_in_this_process_the_rows_of_a_forked_child_are_its_own() -> None:
    with puffervec.make(Forking, env_kwargs={"length": 100}, num_envs=2, backend="serial") as vec:
        vec.reset(seed=0)
        vec.step([1, 2])
        learner = os.getpid()
        try:
            rows = vec.step([1, 2])[0]
        except BaseException as error:
            assert os.getpid() != learner
            os._exit(3 if type(error).__name__ == "ForkedError" else 4)
        if os.getpid() != learner:
            os._exit(5)
        assert vec.call("status") == (3, 3)
        assert rows.tolist() == [[0, 0, 2, 1], [1, 0, 2, 2]]


@pytest.mark.slow
def test_a_c_env_that_forks_in_a_thread() -> None:
    """The child has this thread alone, in the worker's loop."""
    text = """
        import ctypes, os
        import puffervec
        from puffervec._ffi import ffi, lib

        vec = puffervec.make("probe", num_envs=1, num_workers=1, backend="threading")
        vec.reset(0)
        kind = ffi.cast("pv_env_type*", vec.workers.opened[0].type)
        copy = ffi.new("pv_env_type*", kind[0])
        real, forks = kind.step, []

        @ffi.callback("int(pv_block*)")
        def step(block):
            if len(forks) == 1:
                forks.append(ctypes.PyDLL(None).fork())
            else:
                forks.append(None)
            return real(block)

        copy.step = step
        vec.workers.opened[0].type = copy
        for _ in range(3):
            vec.step([1])
        child = forks[1]
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), vec.step([1])[0][0, 7])
        vec.close()
    """
    with Script(text) as script:
        status, out, messages = script.end()
    assert (status, out) == (0, "71 4.0\n"), messages
    assert "the child came back" in messages


# ---- a job that is stopped -----------------------------------------------------------------------

STOPPED = """
    import sys, time
    import puffervec
    from tests.python_envs import Counting

    class Slow(Counting):
        def step(self, action):
            time.sleep(0.05)
            return super().step(action)

    with puffervec.make(Slow, num_envs=2, num_workers=2, timeout_s=0.4) as vec:
        vec.reset(seed=0)
        print("ready", flush=True)
        for _ in range(int(sys.argv[1])):
            vec.step([0, 0])
    print("fine", flush=True)
"""


def signal_session(session: int, number: int, workers_first: bool) -> None:
    from bench.fault_table import in_session

    pids = sorted(in_session(session), reverse=workers_first)
    for pid in pids:
        os.kill(pid, number)


@pytest.mark.slow
@pytest.mark.parametrize("times", [2, 10])
def test_a_job_that_was_stopped_for_longer_than_the_time_limit_goes_on(times: int) -> None:
    with Script(STOPPED, str(10 * times)) as script:
        assert script.line() == "ready"
        for index in range(times):
            time.sleep(0.07)
            signal_session(script.session, signal.SIGSTOP, workers_first=False)
            time.sleep(0.6)
            signal_session(script.session, signal.SIGCONT, workers_first=index % 2 == 0)
        status, out, messages = script.end()
    assert (status, out) == (0, "fine\n"), messages
