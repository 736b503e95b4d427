# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""close() in every state, once, twice, never, and from finalizers: it ends, and nothing is left."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec.errors import ActionError, ClosedError, UnclosedWarning, WorkerError
from puffervec.vec.vector_env import VectorEnv
from tests.faults.scenarios import MAKERS, Layout, drive, probe, python, reset, step
from tests.helpers import eventually
from tests.python_envs import Counting

# Far above the 3 s that are promised: this is no measurement (bench/faults.py close is one)
HUNG_S = 10.0
LAYOUT = Layout(2, 2)
Make = Callable[..., VectorEnv]


def never_reset(vec: VectorEnv) -> None:
    """Nothing was ever asked of it."""


def reset_pending(vec: VectorEnv) -> None:
    vec.async_reset(0)


def half_received(vec: VectorEnv) -> None:
    vec.async_reset(0)
    vec.recv()


def step_pending(vec: VectorEnv) -> None:
    reset(vec)
    vec.send(np.zeros(vec.agents_per_batch, np.int32))


def saved_and_loaded(vec: VectorEnv) -> None:
    reset(vec)
    if vec.spec.save_bytes:
        vec.load(vec.save())


def refused(vec: VectorEnv) -> None:
    reset(vec)
    with pytest.raises(ActionError):
        vec.send(np.zeros(vec.agents_per_batch + 1, np.int32))


def dead_unseen(vec: VectorEnv) -> None:
    reset(vec)
    os.kill(vec.processes[-1].pid, signal.SIGKILL)


def dead_pending(vec: VectorEnv) -> None:
    step_pending(vec)
    for process in vec.processes:
        os.kill(process.pid, signal.SIGKILL)


def dead_seen(vec: VectorEnv) -> None:
    dead_unseen(vec)
    with pytest.raises(WorkerError):
        step(vec)


STATES = [
    never_reset, reset_pending, half_received, reset, step_pending, saved_and_loaded, refused,
    dead_unseen, dead_pending, dead_seen,
]  # fmt: skip
OFTEN = (step_pending, dead_seen)  # the others are slow, all of them together


def states() -> list[Any]:
    return [
        pytest.param(state, id=state.__name__, marks=[] if state in OFTEN else [pytest.mark.slow])
        for state in STATES
    ]


@pytest.mark.slow
@MAKERS
@pytest.mark.parametrize("state", states())
def test_close_in_any_state_and_twice(make: Make, state: Callable[[VectorEnv], Any]) -> None:
    vec = make(LAYOUT, "none", "", start_method="forkserver", timeout_s=60)
    state(vec)
    vec.close()
    vec.close()
    actions = np.zeros(vec.agents_per_batch, np.int32)
    calls = [
        vec.recv,
        lambda: vec.send(actions),
        lambda: vec.async_reset(0),
        lambda: vec.set_tasks([0], [0]),
        vec.notify,
    ]
    calls += (
        [lambda: vec.call("told")]
        if make is python
        else [lambda: vec.peek(0), vec.save, lambda: vec.load([])]
    )
    for call in calls:
        with pytest.raises(ClosedError, match="is closed: make a new one"):
            call()


@pytest.mark.slow
@MAKERS
@pytest.mark.parametrize("state", states())
def test_never_closed_in_any_state(make: Make, state: Callable[[VectorEnv], Any]) -> None:
    vec = make(LAYOUT, "none", "", start_method="forkserver", timeout_s=60)
    state(vec)
    pids = [process.pid for process in vec.processes]
    cycle: list[Any] = [vec]
    cycle.append(cycle)
    with pytest.warns(UnclosedWarning, match="never closed"):
        del vec, cycle
        gc.collect()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


class Owner:
    """Closes its vec env when it goes, as wrappers do."""

    def __init__(self, vec: VectorEnv) -> None:
        self.vec = vec

    def __del__(self) -> None:
        self.vec.close()


@pytest.mark.slow
def test_close_from_a_finalizer() -> None:
    owner = Owner(python(LAYOUT, "none", "", start_method="forkserver"))
    reset(owner.vec)
    pids = [process.pid for process in owner.vec.processes]
    del owner
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


# ---- workers that do not want to end -------------------------------------------------------------


class Deaf(Counting):
    """Hangs in its second step, says so by making a file, and SIGTERM does not end it."""

    def __init__(self, hangs: str) -> None:
        super().__init__()
        self.hangs = Path(hangs)

    def step(self, action: Any) -> Any:
        if self.t == 1:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self.hangs.touch()
            while True:
                time.sleep(10)
        return super().step(action)


def close_takes(vec: VectorEnv) -> float:
    begin = time.monotonic()
    vec.close()
    return time.monotonic() - begin


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hang", "spin"])
@pytest.mark.parametrize("seen", [False, True], ids=["pending", "after the time-out"])
def test_close_with_a_worker_that_hangs(kind: str, seen: bool) -> None:
    vec = probe(LAYOUT, kind, "step", timeout_s=0.5 if seen else 60)
    reset(vec)
    if seen:
        with pytest.raises(WorkerError):
            drive(vec, "step")
    else:
        step(vec)
        for _ in range(2):
            vec.send(np.zeros(vec.agents_per_batch, np.int32))
    assert close_takes(vec) < HUNG_S


@pytest.mark.slow
def test_close_with_a_worker_that_ignores_sigterm(tmp_path: Path) -> None:
    hangs = tmp_path / "hangs"
    vec = puffervec.make(Deaf, [str(hangs)], num_envs=2, num_workers=2)
    vec.reset(seed=0)
    vec.step([0, 0])
    vec.send([0, 0])
    eventually(hangs.exists, "an env to hang")
    assert close_takes(vec) < HUNG_S


@pytest.mark.slow
@MAKERS
def test_close_with_a_worker_that_is_stopped(make: Make) -> None:
    vec = make(LAYOUT, "none", "")
    reset(vec)
    os.kill(vec.processes[0].pid, signal.SIGSTOP)
    assert close_takes(vec) < HUNG_S


@pytest.mark.slow
def test_a_close_that_is_interrupted_is_gone_on_with(tmp_path: Path) -> None:
    """Ctrl-C while close() waits for a worker that hangs, and then close() again."""
    hangs = tmp_path / "hangs"
    vec = puffervec.make(Deaf, [str(hangs)], num_workers=1)
    vec.reset(seed=0)
    vec.step([0])
    vec.send([0])
    eventually(hangs.exists, "the env to hang")
    pid = vec.processes[0].pid

    def interrupt(*given: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    timer = signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            vec.close()
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *timer)
    vec.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


# ---- with statements -----------------------------------------------------------------------------


ERRORS = [
    KeyboardInterrupt,
    *[pytest.param(e, marks=pytest.mark.slow) for e in (ValueError, SystemExit, GeneratorExit)],
]


@pytest.mark.parametrize("error", ERRORS)
def test_user_code_that_raises_between_send_and_recv(error: type[BaseException]) -> None:
    with pytest.raises(error), probe(LAYOUT, "none", "", start_method="forkserver") as vec:
        step_pending(vec)
        raise error


@pytest.mark.slow
def test_an_error_in_user_code_leaves_a_vec_env_that_goes_on() -> None:
    with probe(LAYOUT, "none", "", start_method="forkserver") as vec:
        reset(vec)
        try:
            vec.send(np.ones(vec.agents_per_batch, np.int32))
            raise ValueError("mine")
        except ValueError:
            vec.send(np.ones(vec.agents_per_batch, np.int32))
        shown = [vec.recv()[0][:, 4].tolist() for _ in range(2)]
    assert shown == [[1.0] * vec.agents_per_batch] * 2


@pytest.mark.slow
def test_workers_end_before_close_returns() -> None:
    with probe(Layout(4), "none", "", start_method="forkserver") as vec:
        pids = [process.pid for process in vec.processes]
    assert [pid for pid in pids if os.path.exists(f"/proc/{pid}")] == []
