# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The channel (csrc/core/channel.c): lines, turns that wrap, sleeping and waking. Also run on the
build without a futex.
"""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import puffervec
from puffervec._ffi import ffi, lib
from puffervec.vec.vector_env import VectorEnv
from tests.builds import source_folder
from tests.helpers import ManyInOne, eventually

SLICE_NS = 1_000_000


@pytest.fixture
def vec() -> Iterator[VectorEnv]:
    """Two workers in this process that run only when told; all waiting below is the test's own."""
    with puffervec.make(
        "probe", env_kwargs={"episode_length": 10**6}, backend=ManyInOne, num_envs=4, num_workers=2
    ) as made:
        made.reset(seed=0)
        made.serving = False
        yield made


def waiter(**budgets: int) -> Any:
    return ffi.new("pv_waiter*", budgets)


def serve_in_threads(vec: VectorEnv) -> list[threading.Thread]:
    threads = [
        threading.Thread(target=lib.pv_worker_run, args=(vec.workers.opened + worker,), daemon=True)
        for worker in range(vec.num_workers)
    ]
    for thread in threads:
        thread.start()
    return threads


def end(vec: VectorEnv, threads: list[threading.Thread]) -> None:
    for worker, thread in enumerate(threads):
        lib.pv_turn_send_one(
            vec.rows.slab,
            worker,
            lib.pv_control_half(vec.rows.slab, worker),
            lib.PV_CLOSE,
            0,
            0,
            waiter(),
        )
        thread.join()


# ---- promises that no run on one processor can show ----------------------------------------------


def test_a_slice_is_short() -> None:
    """Between two slices the learner looks for dead workers and Python for signals: a longer one is
    a later answer to both.
    """
    assert lib.PV_SLICE_NS <= 20_000_000


@pytest.mark.parametrize(
    ("helper", "access"),
    [
        ("pv_load_acquire", "__atomic_load_n(word, __ATOMIC_ACQUIRE)"),
        ("pv_increment", "__atomic_fetch_add(word, 1, __ATOMIC_RELEASE)"),
        ("pv_load_seq_cst", "__atomic_load_n(word, __ATOMIC_SEQ_CST)"),
        ("pv_store_seq_cst", "__atomic_store_n(word, value, __ATOMIC_SEQ_CST)"),
    ],
)
def test_helpers_order_memory_as_their_names_say(helper: str, access: str) -> None:
    """x86 hides a missing acquire or release, and a compiler may. tests/model shows what each order
    is for.
    """
    header = (source_folder() / "csrc/core/channel.h").read_text()
    assert re.search(rf"\b{helper}\([^)]*\) {{\s+(?:return )?{re.escape(access)};\s+}}", header)


# ---- lines ---------------------------------------------------------------------------------------


def test_each_line_has_two_cache_lines_of_its_own(vec: VectorEnv) -> None:
    assert ffi.sizeof("pv_line") == lib.PV_LINE_BYTES == 128
    addresses = [
        int(ffi.cast("uintptr_t", line(vec.rows.slab, worker, half)))
        for worker in range(vec.num_workers)
        for half in range(vec.rows.slab.lanes)
        for line in (lib.pv_command_line, lib.pv_status_line)
    ]
    assert addresses == sorted(set(addresses))
    assert all(address % 128 == 0 for address in addresses)
    assert min(b - a for a, b in zip(addresses, addresses[1:], strict=False)) == 128


def test_a_futex_word_is_aligned() -> None:
    assert (ffi.offsetof("pv_line", "doorbell") + ffi.offsetof("pv_doorbell", "word")) % 4 == 0


def test_sending_raises_the_turn_of_every_worker_of_the_half(vec: VectorEnv) -> None:
    before = [lib.pv_command_line(vec.rows.slab, worker, 0).turn for worker in range(2)]
    lib.pv_turn_send(vec.rows.slab, 0, lib.PV_STEP, 0, 0, vec.turns.waiter)
    for worker in range(2):
        line = lib.pv_command_line(vec.rows.slab, worker, 0)
        assert (line.turn, line.semaphore, line.seeded) == (before[worker] + 1, lib.PV_STEP, 0)
        assert lib.pv_status_line(vec.rows.slab, worker, 0).turn == before[worker]
    lib.pv_turn_send_one(vec.rows.slab, 1, 0, lib.PV_PEEK, 3, 1, vec.turns.waiter)
    line = lib.pv_command_line(vec.rows.slab, 1, 0)
    assert (line.turn, line.semaphore, line.first, line.count) == (before[1] + 2, lib.PV_PEEK, 3, 1)


# ---- waiting -------------------------------------------------------------------------------------


def test_what_is_done_is_received_at_once(vec: VectorEnv) -> None:
    mine = waiter()
    assert lib.pv_turn_recv(vec.rows.slab, 0, lib.PV_ALL_WORKERS, mine, SLICE_NS, 0) == 0
    assert (mine.waits, mine.sleeps) == (0, 0)


def test_a_worker_that_does_not_answer_is_named_after_a_slice(vec: VectorEnv) -> None:
    mine = waiter()
    lib.pv_turn_send(vec.rows.slab, 0, lib.PV_STEP, 0, 0, mine)
    assert (
        lib.pv_turn_recv(vec.rows.slab, 0, lib.PV_ALL_WORKERS, mine, SLICE_NS, 0) == -2
    )  # the last worker
    assert (mine.waits, mine.sleeps) == (1, 1)
    lib.pv_worker_serve(vec.workers.opened + 1, 0)
    assert (
        lib.pv_turn_recv(vec.rows.slab, 0, lib.PV_ALL_WORKERS, mine, SLICE_NS, 0) == -1
    )  # worker 0 now
    assert (
        lib.pv_turn_recv(vec.rows.slab, 0, 0, mine, SLICE_NS, 1) == -1
    )  # resumed: at the futex, no new wait
    assert (mine.waits, mine.sleeps) == (2, 3)
    # Worker 1 is past: the wait for worker 0 is a new one.
    assert lib.pv_turn_recv(vec.rows.slab, 0, 1, mine, SLICE_NS, 1) == -1
    assert (mine.waits, mine.sleeps) == (3, 4)
    lib.pv_worker_serve(vec.workers.opened, 0)
    assert lib.pv_turn_recv(vec.rows.slab, 0, lib.PV_ALL_WORKERS, mine, SLICE_NS, 0) == 0
    assert lib.pv_status_line(vec.rows.slab, 0, 0).doorbell.sleeping == 0


def test_yields_are_skipped_for_as_many_waits_as_were_set(vec: VectorEnv) -> None:
    mine = waiter(skip_yields=2)
    lib.pv_turn_send_one(vec.rows.slab, 0, 0, lib.PV_STEP, 0, 0, mine)
    for left in (1, 0):
        assert lib.pv_turn_recv_one(vec.rows.slab, 0, 0, mine, SLICE_NS, 0) == -1
        assert mine.skip_yields == left
    lib.pv_worker_serve(vec.workers.opened, 0)
    assert lib.pv_turn_recv_one(vec.rows.slab, 0, 0, mine, SLICE_NS, 0) == 0


def test_who_is_crowded_sleeps_at_once(vec: VectorEnv) -> None:
    """Yields would give the core to another program for a tick of the scheduler. A set penalty
    stays as it is.
    """
    mine = waiter(place=lib.PV_ANYWHERE, skip_yields=5)
    lib.pv_turn_send_one(vec.rows.slab, 0, 0, lib.PV_STEP, 0, 0, mine)
    assert lib.pv_turn_recv_one(vec.rows.slab, 0, 0, mine, SLICE_NS, 0) == -1
    assert (mine.waits, mine.sleeps, mine.skip_yields) == (1, 1, 5)


def test_a_yield_that_lost_the_core_counts_though_the_turn_has_changed(tmp_path: Path) -> None:
    """Beside another program each yield takes a slice of the scheduler, and the peer is done when
    it ends.
    """
    program = tmp_path / "lost"
    sources = [
        source_folder() / "csrc/core" / name for name in ("channel.c", "placement.c", "slab.c")
    ]
    main = Path(__file__).with_name("lost_core_main.c")
    flags = [
        "-std=c11",
        "-D_GNU_SOURCE",
        f"-I{source_folder() / 'csrc'}",
        "-Dsched_yield=lost_yield",
    ]
    subprocess.run(["gcc", *flags, "-o", program, main, *sources], check=True)
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout.split() == [
        "0",
        "16",
        "32",
    ]


def test_commands_say_where_to_run(vec: VectorEnv) -> None:
    for place in (lib.PV_ANYWHERE, lib.PV_HOME):
        lib.pv_turn_send(vec.rows.slab, 0, lib.PV_STEP, 0, 0, waiter(place=place))
        assert {lib.pv_command_line(vec.rows.slab, worker, 0).place for worker in range(2)} == {
            place
        }
        for worker in range(2):
            lib.pv_worker_serve(vec.workers.opened + worker, 0)
            assert vec.workers.opened[worker].waiter.place == place


def test_the_time_to_look_at_the_load_is_a_flag(vec: VectorEnv) -> None:
    for look_ns, flag in ((0, 0), (2**63, 0), (1, lib.PV_TURN_LOOK)):
        mine = waiter(look_ns=look_ns)
        lib.pv_turn_send(vec.rows.slab, 0, lib.PV_STEP, 0, 0, mine)
        for worker in range(2):
            lib.pv_worker_serve(vec.workers.opened + worker, 0)
        assert lib.pv_turn_recv(vec.rows.slab, 0, lib.PV_ALL_WORKERS, mine, SLICE_NS, 0) == flag


def test_a_sleeping_worker_is_woken(vec: VectorEnv) -> None:
    """The worker's doorbell says that it sleeps; then one send must bring it back and count one
    wake-up.
    """
    threads = serve_in_threads(vec)
    mine = waiter()
    for worker in range(2):
        doorbell = lib.pv_command_line(vec.rows.slab, worker, 0).doorbell
        eventually(lambda doorbell=doorbell: doorbell.sleeping, "the worker to go to sleep")
        word, sent = doorbell.word, mine.wakes_sent
        lib.pv_turn_send_one(vec.rows.slab, worker, 0, lib.PV_STEP, 0, 0, mine)
        assert (
            mine.wakes_sent - sent == doorbell.word - word <= 1
        )  # 0 if it woke by itself in that moment
        eventually(
            lambda worker=worker: (
                lib.pv_turn_recv_one(vec.rows.slab, worker, 0, mine, SLICE_NS, 0) == 0
            ),
            "an answer",
        )
    end(vec, threads)


def test_the_doorbell_that_is_rung_is_that_of_the_reader(vec: VectorEnv) -> None:
    """The flags say that both workers sleep, and that the learner sleeps on each of its doorbells:
    only the one meant rings.
    """
    mine = waiter()
    for worker in range(2):
        doorbells = [lib.pv_command_line(vec.rows.slab, w, 0).doorbell for w in range(2)]
        doorbells += [lib.pv_learner_doorbell(vec.rows.slab, w, 0) for w in range(2)]
        for doorbell in doorbells:
            doorbell.sleeping = 1
        before = [doorbell.word for doorbell in doorbells]
        lib.pv_turn_send_one(vec.rows.slab, worker, 0, lib.PV_STEP, 0, 0, mine)
        assert [one.word - word for one, word in zip(doorbells, before, strict=True)] == [
            worker == 0,
            worker == 1,
            0,
            0,
        ]
        lib.pv_worker_serve(vec.workers.opened + worker, 0)
        assert [one.word - word for one, word in zip(doorbells, before, strict=True)] == [
            worker == 0,
            worker == 1,
        ] * 2
        for doorbell in doorbells:
            doorbell.sleeping = 0


@pytest.mark.parametrize(
    "budgets",
    [{}, {"pauses": 1, "yields": 1}, {"pauses": 1, "skip_yields": 2**31}],
    ids=["ladder", "short", "sleep"],
)
def test_no_wake_up_is_lost(vec: VectorEnv, budgets: dict[str, int]) -> None:
    """Thousands of turns with waiters that go to sleep early. A lost wake-up would show as a slice
    that ran out: here it is so long that the test's own deadline would end it.
    """
    turns = 3000
    for worker in range(2):
        for name, value in budgets.items():
            setattr(vec.workers.opened[worker].waiter, name, value)
    threads = serve_in_threads(vec)
    mine = waiter(**budgets)
    for _ in range(turns):
        lib.pv_turn_send(vec.rows.slab, 0, lib.PV_STEP, 0, 0, mine)
        assert lib.pv_turn_recv(vec.rows.slab, 0, lib.PV_ALL_WORKERS, mine, 10**12, 0) == 0
    assert int(vec.rows.counters[:, 0, 0].sum()) == 4 * turns
    end(vec, threads)


def test_turns_are_compared_for_equality_only(vec: VectorEnv) -> None:
    """Through 2^32 and round again: each command runs once."""
    mine = waiter()
    for worker in range(2):
        lib.pv_command_line(vec.rows.slab, worker, 0).turn = 0xFFFFFFF0
        lib.pv_status_line(vec.rows.slab, worker, 0).turn = 0xFFFFFFF0
        vec.workers.opened[worker].seen[0] = 0xFFFFFFF0
    threads = serve_in_threads(vec)
    for _ in range(64):
        lib.pv_turn_send(vec.rows.slab, 0, lib.PV_STEP, 0, 0, mine)
        assert lib.pv_turn_recv(vec.rows.slab, 0, lib.PV_ALL_WORKERS, mine, 10**12, 0) == 0
    assert lib.pv_command_line(vec.rows.slab, 0, 0).turn == 0x30
    assert int(vec.rows.counters[:, 0, 0].sum()) == 64 * 4
    end(vec, threads)


def test_the_clock_is_pythons_monotonic_clock() -> None:
    import time

    before = time.monotonic_ns()
    now = lib.pv_now_ns()
    assert before <= now <= time.monotonic_ns()
