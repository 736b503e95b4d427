# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Signals during steps, workers that stop and go on, clocks that jump, turn counters that wrap: the
same bytes.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import puffervec
from puffervec._ffi import lib
from puffervec.vec.vector_env import VectorEnv
from tests.faults.scenarios import run_script
from tests.helpers import Recorder, action_table, actions_of, eventually, run, serial, slow_but
from tests.python_envs import Counting

SEED = int(os.environ.get("PV_SEED", "1"))
KWARGS = {"num_agents": 2, "leave": 1, "end_kind": 2, "episode_length": 5}
EVERY_S = 0.001


class Listening(Counting):
    """Has a handler for SIGUSR2, so that the signal breaks off system calls of its process, and
    counts.
    """

    heard = 0

    def __init__(self) -> None:
        super().__init__(length=5)
        signal.signal(signal.SIGUSR2, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        Listening.heard += 1


@contextmanager
def storm(send: Callable[[], Any]) -> Iterator[None]:
    """Call `send` every millisecond from a thread."""
    over = threading.Event()

    def blow() -> None:
        while not over.wait(EVERY_S):
            send()

    thread = threading.Thread(target=blow)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def counted(number: int) -> Iterator[list[int]]:
    """Handle a signal by counting it."""
    seen = [0]

    def count(number: int, frame: FrameType | None) -> None:
        seen[0] += 1

    before = signal.signal(number, count)
    try:
        yield seen
    finally:
        signal.signal(number, before)


def signal_all(number: int, pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, number)


STORMS = [
    ("workers", 500),
    *[pytest.param(split, 100_000, marks=pytest.mark.slow) for split in ("workers", "envs")],
]


@pytest.mark.parametrize(("split", "steps"), STORMS)
def test_a_signal_storm_changes_no_byte_of_c_envs(split: str, steps: int) -> None:
    """The learner gets SIGUSR2 each millisecond, and its workers SIGCONT; every 50th time they are
    stopped first.
    """
    settings = {"num_envs": 4, "num_buffers": 2, "split": split}
    with serial("probe", KWARGS, num_envs=4, num_buffers=2) as vec:
        table = action_table(vec, 100)
        expected = run(vec, steps, table)
    turn = iter(range(10**9))
    with (
        counted(signal.SIGUSR2) as seen,
        puffervec.make("probe", env_kwargs=KWARGS, num_workers=2, **settings) as vec,
    ):
        workers = [process.pid for process in vec.processes]

        def send() -> None:
            os.kill(os.getpid(), signal.SIGUSR2)
            if next(turn) % 50 == 0:
                signal_all(signal.SIGSTOP, workers)
            signal_all(signal.SIGCONT, workers)

        with storm(send):
            assert run(vec, steps, table) == expected
    assert seen[0] > 0


@pytest.mark.slow
@pytest.mark.parametrize("steps", [200, 20_000])
def test_a_signal_storm_changes_no_byte_of_python_envs(steps: int) -> None:
    """All processes get SIGUSR2 each millisecond, and all handle it."""
    before = signal.getsignal(signal.SIGUSR2)
    with puffervec.make(Listening, backend="serial", num_envs=4) as vec:
        table = action_table(vec, 100)
        expected = run(vec, steps, table)
    # The env that is made here has set a handler; `counted` puts its own in place.
    with (
        puffervec.make(Listening, num_envs=4, num_workers=2) as vec,
        counted(signal.SIGUSR2) as seen,
    ):
        pids = [os.getpid(), *[process.pid for process in vec.processes]]
        with storm(lambda: signal_all(signal.SIGUSR2, pids)):
            assert run(vec, steps, table) == expected
        heard = vec.get_attr("heard")
    signal.signal(signal.SIGUSR2, before)
    assert seen[0] > 0 and min(heard) > 0


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_that_stop_and_go_on(workers: int) -> None:
    """At random times, one at a time, so that the others run ahead of it."""
    rng = random.Random(SEED)
    with serial("probe", KWARGS, num_envs=4) as vec:
        table = action_table(vec, 100)
        expected = run(vec, 20_000, table)
    with puffervec.make("probe", env_kwargs=KWARGS, num_envs=4, num_workers=workers) as vec:
        pids = [process.pid for process in vec.processes]

        def stop_one() -> None:
            pid = rng.choice(pids)
            os.kill(pid, signal.SIGSTOP)
            time.sleep(rng.uniform(0, 0.03))
            os.kill(pid, signal.SIGCONT)

        with storm(stop_one):
            assert run(vec, 20_000, table) == expected, f"PV_SEED={SEED}"


# ---- clocks --------------------------------------------------------------------------------------


def test_a_wall_clock_that_jumps_by_years_ends_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    real, year, calls = time.time, 365 * 86400.0, iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: real() + (year if next(calls) % 2 else -year))
    # One env takes 20 ms at step 2, so that the learner sleeps and looks at its clock.
    slow = {"fault": puffervec.envs.probe.FAULTS.index("slow"), "fault_step": 2}
    with puffervec.make("probe", env_kwargs=slow, num_envs=2, num_workers=2, timeout_s=60) as vec:
        vec.reset(0)
        for step in range(1, 5):
            assert vec.step([step % 5, 0])[0][0, 4] in (step, 0)


CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

#define YEAR (365L * 86400L)
static long jump(void) {
    static _Thread_local unsigned calls;
    return calls++ % 2 ? YEAR : -YEAR;
}
int clock_gettime(clockid_t clock, struct timespec *at) {
    int (*real)(clockid_t, struct timespec *) =
        (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, at);
    if (clock == CLOCK_REALTIME) at->tv_sec += jump();
    return result;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    (void)zone;
    return 0;
}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc for a clock of its own")
def test_a_wall_clock_that_jumps_in_all_processes(tmp_path: Path) -> None:
    source, library = tmp_path / "clock.c", tmp_path / "clock.so"
    source.write_text(CLOCK)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    text = """
        import time
        import puffervec
        from tests.helpers import action_table, run, serial
        first, second = time.time(), time.time()
        assert abs(first - second) > 86400, "the clock stands still"
        kwargs = {"num_agents": 2}
        with serial("probe", kwargs, num_envs=4) as vec:
            table = action_table(vec, 100)
            expected = run(vec, 2000, table)
        vec = puffervec.make("probe", env_kwargs=kwargs, num_envs=4, num_workers=2, timeout_s=20)
        with vec:
            print(run(vec, 2000, table) == expected)
    """
    assert run_script(text, LD_PRELOAD=str(library)) == (0, "True\n", "")


# ---- turn counters -------------------------------------------------------------------------------

NEAR_THE_END = 0xFFFFFFF0
WRAPS = 16
STEPS_PER_WRAP = 32


def jump_ahead(vec: VectorEnv) -> None:
    """Set the turns of all lines to NEAR_THE_END, by a command that does nothing; no turn may be
    under way.
    """
    for half in range(vec.num_buffers):
        for worker in vec.rows.workers[half]:
            command, status = (
                lib.pv_command_line(vec.rows.slab, worker, half),
                lib.pv_status_line(vec.rows.slab, worker, half),
            )
            command.semaphore = lib.PV_IDLE
            command.turn = NEAR_THE_END
            if vec.turns.waiter.own:
                lib.pv_worker_serve(vec.turns.waiter.own + worker, half)
            eventually(lambda status=status: status.turn == NEAR_THE_END, "the worker to answer")


@pytest.mark.parametrize(
    "backend", slow_but(["multiprocessing"], ["serial", "threading", "multiprocessing"])
)
@pytest.mark.parametrize("split", ["workers", pytest.param("envs", marks=pytest.mark.slow)])
def test_turns_may_wrap(backend: str, split: str) -> None:
    halves = {"num_envs": 4, "num_buffers": 2, "split": split}
    with serial("probe", KWARGS, **halves) as vec:
        table = action_table(vec, 100)
        expected = run(vec, WRAPS * STEPS_PER_WRAP, table)
    workers = {} if backend == "serial" else {"num_workers": 2}
    with puffervec.make("probe", env_kwargs=KWARGS, backend=backend, **halves, **workers) as vec:
        recorder, wraps = Recorder(vec), 0
        vec.async_reset(0)
        for step in range(WRAPS * STEPS_PER_WRAP):
            for half in range(2):
                recorder.add(vec.recv()[4])
                if step % STEPS_PER_WRAP == 0 and half == 1:
                    wraps += 1
                if step % STEPS_PER_WRAP:
                    vec.send(actions_of(vec, table, step, half))
            if step % STEPS_PER_WRAP == 0:
                jump_ahead(vec)
                for half in range(2):
                    vec.send(actions_of(vec, table, step, half))
        for _ in range(2):
            recorder.add(vec.recv()[4])
        assert recorder.result() == expected
        assert wraps == WRAPS
        assert lib.pv_command_line(vec.rows.slab, 0, 0).turn < NEAR_THE_END
