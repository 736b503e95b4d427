# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Workers that die, fail or hang, and a learner that is killed: a named error each time, never a
hang, nothing left behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import puffervec
from puffervec._ffi import lib
from puffervec.envs.probe import FAULTS
from puffervec.errors import ClosedError, WorkerDied, WorkerError, WorkerTimeout
from puffervec.vec.vector_env import VectorEnv
from tests.helpers import eventually, thinned

pytestmark = pytest.mark.usefixtures("no_leaks")

SAID = {
    "segv": "was ended by SIGSEGV (memory fault",
    "abort": "was ended by SIGABRT (abort",
    "exit": "ended with exit status 3",
    "kill": "was ended by SIGKILL (killed from outside",
}


def faulty(kind: str, env: int = 0, step: int = 2, **settings: Any) -> VectorEnv:
    """Make workers of which one will fail; a fork server starts them faster than the default."""
    fault = {"fault": FAULTS.index(kind), "fault_env": env, "fault_step": step}
    return puffervec.make("probe", env_kwargs=fault, **{"start_method": "forkserver", **settings})


def run_until_it_fails(vec: VectorEnv) -> None:
    vec.async_reset(0)
    for _ in range(10):
        vec.recv()
        vec.send([0] * vec.agents_per_batch)


@pytest.mark.parametrize("step", [-1, 2], ids=["in reset", "in step"])
@pytest.mark.parametrize("kind", SAID)
def test_a_worker_that_dies_is_named(
    kind: str, step: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with faulty(kind, env=3, step=step, num_envs=4, num_workers=2) as vec:
        with pytest.raises(WorkerDied) as caught:
            run_until_it_fails(vec)
        assert str(caught.value).startswith("worker 1 ")
        assert SAID[kind] in str(caught.value)
        for call in (vec.recv, lambda: vec.async_reset(0), lambda: vec.peek(0), vec.save):
            with pytest.raises(WorkerDied, match="worker 1 "):
                call()
    with pytest.raises(ClosedError):
        vec.recv()
    assert capfd.readouterr().err == ""  # a worker's own trace is kept with the exception
    assert ("Fatal Python error" in caught.value.trace) == (kind in ("segv", "abort"))


@pytest.mark.parametrize("step", [-1, 2], ids=["in reset", "in step"])
@pytest.mark.parametrize("backend", ["serial", "threading", "multiprocessing"])
def test_an_error_of_an_env_names_worker_env_and_its_words(backend: str, step: int) -> None:
    workers = {} if backend == "serial" else {"num_workers": 2}
    expected = 0 if backend == "serial" else 1
    with faulty("error", env=3, step=step, backend=backend, num_envs=4, **workers) as vec:
        at = f", step {step}" if step > 0 else ""
        words = f"^worker {expected}, env 3{at}: the probe was told to fail at step {max(step, 0)}$"
        with pytest.raises(WorkerError, match=words) as caught:
            run_until_it_fails(vec)
        assert type(caught.value) is WorkerError
        for call in (vec.recv, lambda: vec.async_reset(0)):
            with pytest.raises(WorkerError, match=f"worker {expected}, env 3"):
                call()


@pytest.mark.parametrize("kind", ["hang", "spin"])
def test_a_hang_is_a_timeout_and_close_ends_it(kind: str) -> None:
    with faulty(kind, env=1, num_envs=2, num_workers=2, timeout_s=0.3) as vec:
        with pytest.raises(WorkerTimeout, match=r"worker 1 .*0\.3 s"):
            run_until_it_fails(vec)
        with pytest.raises(WorkerTimeout):
            vec.recv()


def test_a_stopped_worker_is_a_timeout_and_close_ends_it() -> None:
    with faulty("none", num_workers=1, timeout_s=0.3) as vec:
        vec.reset(0)
        process = vec.workers.group.processes[0]
        os.kill(process.pid, signal.SIGSTOP)
        with pytest.raises(WorkerTimeout, match="worker 0"):
            vec.step([0])


@pytest.mark.parametrize("when", ["idle", "pending", "before the first reset"])
def test_a_kill_from_outside_is_noticed(when: str) -> None:
    with faulty("none", num_envs=2, num_workers=2) as vec:
        if when != "before the first reset":
            vec.reset(0)
        if when == "pending":
            # The turn is answered by worker 0 only: worker 1 is stopped first, so that it cannot be
            # faster than the kill.
            os.kill(vec.workers.group.processes[1].pid, signal.SIGSTOP)
            vec.send([0, 0])
        os.kill(vec.workers.group.processes[1].pid, signal.SIGKILL)
        with pytest.raises(WorkerDied, match="worker 1 was ended by SIGKILL"):
            if when == "before the first reset":
                vec.reset(0)
            elif when == "pending":
                vec.recv()
            else:
                vec.step([0, 0])


def test_a_death_during_peek_or_save_is_noticed() -> None:
    for call in (lambda vec: vec.peek(1), lambda vec: vec.save()):
        with faulty("none", num_envs=2, num_workers=2) as vec:
            vec.reset(0)
            os.kill(vec.workers.group.processes[1].pid, signal.SIGKILL)
            with pytest.raises(WorkerDied, match="worker 1 was ended by SIGKILL"):
                call(vec)


def test_a_worker_that_cannot_start_is_an_error_and_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name of the env type is wrong in the worker only, as with another build on its path."""
    from puffervec.vec import workers

    real = workers.WorkerTask
    monkeypatch.setattr(
        workers,
        "WorkerTask",
        lambda *given, **other: real(*given[:2], "no such type", *given[3:], **other),
    )
    with pytest.raises(WorkerError, match="worker 0"):
        puffervec.make("probe", num_envs=2, num_workers=2)


@pytest.mark.parametrize("call", ["recv", "step"])
def test_an_interrupted_wait_can_be_gone_on_with(call: str) -> None:
    """Ctrl-C during the wait leaves the turn pending; the next `recv` takes it."""
    with faulty("none", num_workers=1) as vec:
        vec.reset(0)
        pid = vec.workers.group.processes[0].pid
        os.kill(pid, signal.SIGSTOP)
        if call == "recv":
            vec.send([3])
        line = lib.pv_status_line(vec.rows.slab, 0, 0)

        def interrupt() -> None:
            eventually(lambda: line.doorbell.sleeping, "recv to sleep")
            os.kill(os.getpid(), signal.SIGUSR2)

        before = signal.signal(signal.SIGUSR2, signal.default_int_handler)
        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                _ = vec.recv() if call == "recv" else vec.step(np.array([3]))
        finally:
            thread.join()
            signal.signal(signal.SIGUSR2, before)
            os.kill(pid, signal.SIGCONT)
        assert vec.recv()[0][0, 4] == 3


# ---- the learner goes first ----------------------------------------------------------------------

LEARNER = """
import sys, puffervec
kwargs = {"fault": %(fault)d, "fault_step": 2}
vec = puffervec.make("probe", env_kwargs=kwargs, num_envs=2, num_workers=2, start_method=%(method)r)
vec.reset(0)
vec.step([0, 0])
print(*[process.pid for process in vec.workers.group.processes], flush=True)
if %(fault)d:
    vec.send([0, 0])
sys.stdin.read()
"""


def ended(pid: int) -> bool:
    """Gone, or dead and only not collected by its new parent."""
    try:
        return psutil.Process(pid).status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize(
    ("fault", "method"),
    thinned(
        2,
        [
            ("spin", "forkserver"),
            ("none", "forkserver"),
            ("none", "spawn"),
            ("hang", "spawn"),
            ("none", "fork"),
        ],
    ),
)
def test_a_killed_learner_leaves_no_worker(fault: str, method: str, tmp_path: Path) -> None:
    """Idle workers, and workers in a step that never ends: the watch needs neither the GIL nor the
    env's cooperation.
    """
    script = LEARNER % {"fault": FAULTS.index(fault), "method": method}
    learner = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert learner.stdin is not None and learner.stdout is not None
    pids = [int(pid) for pid in learner.stdout.readline().split()]
    assert len(pids) == 2
    assert not any(ended(pid) for pid in pids)
    learner.kill()
    learner.wait()
    eventually(lambda: all(ended(pid) for pid in pids), "the workers to end")
    learner.stdin.close()
    learner.stdout.close()


@pytest.mark.parametrize(
    "way",
    thinned(2, ["raise ValueError('mine')", "sys.exit(0)", "pass", "os.kill(os.getpid(), 15)"]),
)
def test_a_learner_that_ends_without_close_leaves_no_worker(way: str) -> None:
    script = (
        "import os, sys, puffervec\n"
        "vec = puffervec.make('probe', num_envs=2, num_workers=2)\n"
        "vec.reset(0)\n"
        "vec.send([0, 0])\n"
        "print(*[process.pid for process in vec.workers.group.processes], flush=True)\n"
        f"{way}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=100
    )
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    eventually(lambda: all(ended(pid) for pid in pids), "the workers to end")
    said = done.stderr.strip().splitlines()[-1:]
    unclosed = [
        "<string>:2: UnclosedWarning: this vector env of 'probe' was never closed: its workers "
        "were ended without closing their envs; call close(), or use it in a with statement"
    ]
    assert (done.returncode, said) == {
        "sys.exit(0)": (0, unclosed),
        "raise ValueError('mine')": (1, ["ValueError: mine"]),
        "os.kill(os.getpid(), 15)": (-15, []),
        "pass": (0, unclosed),
    }[way]
