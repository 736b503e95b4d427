# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The channel under stress (channel_stress.c, channel_litmus.c): threads with and without
ThreadSanitizer, processes that are stopped and signalled at random, and the memory accesses that
the protocol stands on. Counters wrap in each run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from puffervec.system.cores import usable_cores
from tests.builds import source_folder
from tests.c import stress
from tests.c.stress import Setup

TIMEOUT_S = 120.0
STORE = "{ __atomic_store_n(word, value, __ATOMIC_SEQ_CST); }"
LOAD = "return __atomic_load_n(word, __ATOMIC_ACQUIRE);"
SEMAPHORE = "line->semaphore = semaphore;"
ORDERED = "// Releases the payload, and is ordered before the look at `sleeping`."
TURN = "pv_store_seq_cst(&line->turn, turn);"
# Edits of the channel that ThreadSanitizer has to find.
SABOTAGES = {
    "the turn is stored without release": (
        "csrc/core/channel.h",
        STORE,
        STORE.replace("SEQ_CST", "RELAXED"),
    ),
    "the turn is stored plainly": ("csrc/core/channel.h", STORE, "{ *word = value; }"),
    "turns are loaded without acquire": (
        "csrc/core/channel.h",
        LOAD,
        LOAD.replace("ACQUIRE", "RELAXED"),
    ),
    "the semaphore is stored behind the turn": (
        "csrc/core/channel.c",
        f"{SEMAPHORE}\n{ORDERED}\n{TURN}",
        f"{TURN}\n{SEMAPHORE}",
    ),
    "a worker publishes before it has noted the time": (
        "csrc/core/worker.c",
        "worker->seen[half] = turn;",
        "pv_publish(status, pv_learner_doorbell(worker->slab, worker->index, half), PV_DONE, turn,"
        " &worker->waiter);\nstatus->end_ns = pv_now_ns();\nworker->seen[half] = turn;",
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source_folder()
    return tmp_path_factory.mktemp("stress")


@pytest.fixture(scope="module")
def plain(folder: Path) -> list[str]:
    return [str(stress.compile_program("channel_stress", folder / "plain", *stress.PLAIN))]


@pytest.fixture(scope="module")
def litmus(folder: Path) -> str:
    return str(stress.compile_program("channel_litmus", folder / "litmus", *stress.PLAIN))


@pytest.fixture(scope="module")
def tsan(folder: Path) -> list[str]:
    """How to run the program under ThreadSanitizer."""
    try:
        return stress.tsan_command(
            stress.compile_program("channel_stress", folder / "tsan", *stress.TSAN)
        )
    except RuntimeError as error:
        if "tsan" not in str(error).split("\n", 1)[1]:
            raise
        pytest.skip(f"the compiler has no ThreadSanitizer: {error}")


def run(command: list[str], kind: str, setup: Setup, turns: int, *more: str) -> str:
    return stress.run_well(
        [*command, kind, *setup.arguments(turns, stress.seed()), *more], TIMEOUT_S
    )


# ---- threads -------------------------------------------------------------------------------------


def test_every_row_of_every_turn_is_right_and_the_same_for_all_setups(plain: list[str]) -> None:
    turns = 300
    hashes = {stress.hash_of(run(plain, "threads", setup, turns)) for setup in stress.THREADS}
    assert len(hashes) == 1
    assert hashes != {stress.hash_of(run(plain, "threads", stress.THREADS[0], turns + 1))}


@pytest.mark.slow
@pytest.mark.parametrize("setup", stress.THREADS[4:5], ids=str)
def test_thread_sanitizer_has_nothing_to_say(tsan: list[str], setup: Setup) -> None:
    run(tsan, "threads", setup, 500)


@pytest.mark.slow
@pytest.mark.parametrize("setup", stress.THREADS, ids=str)
def test_thread_sanitizer_has_nothing_to_say_for_long(tsan: list[str], setup: Setup) -> None:
    run(tsan, "threads", setup, 20_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", SABOTAGES)
def test_thread_sanitizer_finds_a_broken_channel(
    tsan: list[str], tmp_path: Path, name: str
) -> None:
    file, old, new = SABOTAGES[name]
    root = stress.copy_sources(tmp_path / "broken", {file: (old, new)})
    program = stress.compile_program(
        "channel_stress", tmp_path / "program", *stress.TSAN, root=root
    )
    command = [
        *tsan[:-1],
        str(program),
        "threads",
        *stress.THREADS[0].arguments(3000, stress.seed()),
    ]
    done = stress.run(command, TIMEOUT_S)
    assert done.returncode == stress.TSAN_EXIT, done.stdout + done.stderr
    assert "WARNING: ThreadSanitizer: data race" in done.stderr


@pytest.mark.slow
def test_a_row_that_is_wrong_is_named(folder: Path, tmp_path: Path) -> None:
    """The program's own comparison can fail: here the env counts its clock by two."""
    edit = ("state->clock++;", "state->clock += 2;")
    root = stress.copy_sources(tmp_path / "broken", {"csrc/envs/probe.c": edit})
    program = stress.compile_program("channel_stress", tmp_path / "program", "-O0", root=root)
    done = stress.run(
        [str(program), "threads", *stress.THREADS[0].arguments(5, stress.seed())], TIMEOUT_S
    )
    assert (done.returncode, done.stderr) == (1, "env 0 agent 0 turn 1: clock is 2, not 1\n")


# ---- processes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("setup", stress.PROCESSES, ids=str)
def test_processes_that_are_stopped_and_signalled_lose_no_turn(
    plain: list[str], setup: Setup
) -> None:
    """More workers than cores too. The same rows as without the jester."""
    hashes = {
        stress.hash_of(run(plain, "processes", setup, 300, *more)) for more in ((), ("jester",))
    }
    assert len(hashes) == 1


@pytest.mark.slow
@pytest.mark.parametrize("build", [stress.PLAIN, stress.NO_FUTEX], ids=["futex", "no futex"])
@pytest.mark.parametrize("setup", stress.PROCESSES, ids=str)
def test_processes_for_long(folder: Path, build: tuple[str, ...], setup: Setup) -> None:
    program = stress.compile_program("channel_stress", folder / f"processes{len(build)}", *build)
    run([str(program)], "processes", setup, 30_000, "jester")


# ---- what the protocol stands on -----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["message_passing", "store_buffer"])
def test_forbidden_outcomes_never_come(litmus: str, shape: str) -> None:
    assert "; forbidden 0" in stress.run_well(
        [litmus, shape, "100000", str(stress.seed())], TIMEOUT_S
    )


@pytest.mark.slow
@pytest.mark.skipif(usable_cores() < 2, reason="two processes must run at the same time")
def test_without_order_the_forbidden_outcome_comes(litmus: str) -> None:
    """Else the test above could not fail. Processors with store buffers show it in some thousandths
    of the tries.
    """
    for attempt in range(100):
        done = stress.run([litmus, "relaxed", "1000000", str(stress.seed() + attempt)], TIMEOUT_S)
        if done.returncode == 1:
            break
    assert done.returncode == 1, done.stdout
