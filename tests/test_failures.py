# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What is said of a worker that failed, died or hung (puffervec/workers/process/failures.py). What
really happens: tests/faults.
"""

from __future__ import annotations

import pytest

import puffervec
from puffervec._ffi import lib
from puffervec.envs.probe import FAULTS
from puffervec.errors import WorkerDied
from puffervec.vec.vector_env import VectorEnv
from puffervec.workers.process import failures
from puffervec.workers.process.failures import Work


@pytest.mark.parametrize(
    ("exitcode", "words"),
    [
        (0, "ended with exit status 0"),
        (70, "ended with exit status 70"),
        (-11, "SIGSEGV (memory fault in the env's C code)"),
        (-6, "SIGABRT"),
        (-7, "SIGBUS"),
        (-9, "was ended by SIGKILL (lack of memory)"),
        (-8, "SIGFPE (arithmetic error"),
        (-15, "was ended by SIGTERM"),
        (-99, "was ended by signal 99"),
    ],
)
def test_exit_codes_in_words(exitcode: int, words: str) -> None:
    assert words in failures.describe_exit(exitcode, "lack of memory")


def threads(**settings: object) -> VectorEnv:
    return puffervec.make("probe", backend="serial", num_envs=8, **settings)


def begin(vec: VectorEnv, half: int, semaphore: int, env: int | None = None) -> None:
    """Put the lines of worker 0 into the state of a turn that was begun and not answered."""
    command, status = (
        lib.pv_command_line(vec.rows.slab, 0, half),
        lib.pv_status_line(vec.rows.slab, 0, half),
    )
    command.semaphore, command.turn = semaphore, status.turn + 1
    if env is not None:
        status.begun, failures.error_slot(vec.rows.slab, 0).env = command.turn, env


def test_a_worker_between_turns_is_idle() -> None:
    with threads() as vec:
        vec.reset(0)
        vec.step([0] * 8)
        assert failures.work(vec.rows.slab, 0) == Work()
        begin(vec, 0, lib.PV_STEP)  # it died before it looked
        assert failures.work(vec.rows.slab, 0) == Work()
        assert str(failures.died(vec.rows.slab, 0, -9, "", "by whom")) == (
            "worker 0 was ended by SIGKILL (by whom) while it was idle"
        )
        assert "it has not begun its turn" in str(failures.hung(vec.rows.slab, 0, 1.5, ""))


@pytest.mark.parametrize(
    ("semaphore", "doing", "words"),
    [
        (lib.PV_STEP, "step", "in step 2 of env 5"),
        (lib.PV_RESET, "reset", "in reset of env 5"),
        (lib.PV_SAVE, "save", "in save of env 5"),
        (lib.PV_LOAD, "load", "in load of env 5"),
        (lib.PV_PEEK, "peek", "in peek of env 5"),
        (lib.PV_POKE, "poke", "in poke of env 5"),
        (lib.PV_CALL, "call", "in call of env 5"),
        (lib.PV_CLOSE, "close", "in close of env 5"),
        (lib.PV_IDLE, "start", "while it made its envs, at env 5"),
    ],
)
def test_what_a_worker_was_doing(semaphore: int, doing: str, words: str) -> None:
    with threads() as vec:
        vec.reset(0)
        vec.step([0] * 8)
        vec.step([0] * 8)
        begin(vec, 0, semaphore, env=5)
        step = 2 if doing == "step" else None
        assert failures.work(vec.rows.slab, 0) == Work(doing, 5, step, 0)
        error = failures.died(vec.rows.slab, 0, -11, "Fatal Python error", "")
        assert (
            str(error)
            == f"worker 0 was ended by SIGSEGV (memory fault in the env's C code) {words}"
        )
        assert (error.worker, error.env, error.step, error.doing) == (0, 5, step, doing)
        assert (error.signal, error.exit_code, error.trace) == (
            "SIGSEGV",
            None,
            "Fatal Python error",
        )
        assert error.__notes__ == ["worker 0 left this behind:\nFatal Python error"]
        assert (
            failures.died(vec.rows.slab, 0, 3, "", "").exit_code,
            failures.died(vec.rows.slab, 0, 3, "", "").signal,
        ) == (
            3,
            None,
        )


def test_of_two_halves_the_one_with_the_env_at_work_counts() -> None:
    with threads(num_buffers=2, split="envs") as vec:
        vec.async_reset(0)
        vec.recv()
        begin(vec, 0, lib.PV_RESET, env=6)
        begin(vec, 1, lib.PV_STEP, env=6)
        assert failures.work(vec.rows.slab, 0).half == 1


def test_the_count_of_steps_starts_anew_with_a_reset_of_all() -> None:
    with threads() as vec:
        status = lib.pv_status_line(vec.rows.slab, 0, 0)
        for _ in range(2):
            vec.reset(0)
            assert status.steps == 0
            vec.step([0] * 8)
            vec.step([0] * 8)
            assert status.steps == 2


def test_an_error_goes_on_with_its_attributes() -> None:
    with threads() as vec:
        vec.reset(0)
        begin(vec, 0, lib.PV_STEP, env=5)
        vec.turns.broken = failures.hung(vec.rows.slab, 0, 0.5, "stack")
        with pytest.raises(
            puffervec.errors.WorkerTimeout, match=r"close it and make a new one"
        ) as caught:
            vec.recv()
        assert (caught.value.env, caught.value.step, caught.value.trace) == (5, 0, "stack")


def test_a_death_in_a_step_names_worker_env_and_step() -> None:
    """The worker is gone; what it had begun stands in the slab."""
    kwargs = {"fault": FAULTS.index("exit"), "fault_env": 3, "fault_step": 2}
    with puffervec.make("probe", env_kwargs=kwargs, num_envs=4, num_workers=2) as vec:
        vec.reset(0)
        vec.step([0] * 4)
        with pytest.raises(
            WorkerDied, match="worker 1 ended with exit status 3 in step 2 of env 3"
        ) as caught:
            vec.step([0] * 4)
    error = caught.value
    assert (error.worker, error.env, error.step, error.doing, error.exit_code) == (
        1,
        3,
        2,
        "step",
        3,
    )
