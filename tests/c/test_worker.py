# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Both ends of a turn (csrc/core/worker.c, csrc/core/turn.c), called directly: serving, failing,
refusing, masked resets, records that do not fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

import puffervec
from puffervec._ffi import ffi, lib
from puffervec.envs.probe import FAULTS
from puffervec.errors import WorkerError
from puffervec.vec.turns import Turns
from puffervec.vec.vector_env import VectorEnv
from tests.helpers import ManyInOne, SomeWorkers, serial
from tests.mock_envs import make_single


@pytest.fixture
def vec() -> Iterator[VectorEnv]:
    """Four envs, two workers that run only when told."""
    with puffervec.make(
        "probe", env_kwargs={"episode_length": 2}, backend=ManyInOne, num_envs=4, num_workers=2
    ) as made:
        made.reset(seed=50)
        made.serving = False
        yield made


def serve(vec: VectorEnv, semaphore: int, seeded: int = 0, count: int = 0) -> int:
    """Run one command on all workers of half 0 and return the flags that the learner sees."""
    lib.pv_turn_send(vec.rows.slab, 0, semaphore, seeded, count, vec.turns.waiter)
    for worker in range(vec.num_workers):
        lib.pv_worker_serve(vec.workers.opened + worker, 0)
    return int(lib.pv_turn_recv(vec.rows.slab, 0, lib.PV_ALL_WORKERS, vec.turns.waiter, 10**6, 0))


def test_serving_runs_a_command_once(vec: VectorEnv) -> None:
    rows = vec.halves[0].groups["agents"].observations
    for _ in range(3):
        lib.pv_worker_serve(vec.workers.opened, 0)  # nothing new stands in the line
    assert rows[:, 7].tolist() == [0] * 4
    serve(vec, lib.PV_STEP)
    for _ in range(3):
        lib.pv_worker_serve(vec.workers.opened, 0)
    assert rows[:, 7].tolist() == [1] * 4


def test_a_turn_is_published_when_the_env_has_stepped() -> None:
    """An env that looks at its own status line: the answer stands there only after its step."""
    answered = []

    class Watching(gymnasium.Env[Any, Any]):
        observation_space = action_space = gymnasium.spaces.Discrete(2)

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[int, dict[str, Any]]:
            return 0, {}

        def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
            command, status = (
                line(vec.rows.slab, 0, 0) for line in (lib.pv_command_line, lib.pv_status_line)
            )
            answered.append(status.turn == command.turn)
            return 1, 0.0, False, False, {}

    with puffervec.make(Watching, backend="serial") as vec:
        vec.reset(seed=0)
        for _ in range(3):
            vec.step([1])
    assert answered == [False] * 3


def test_a_masked_reset_touches_only_its_envs(vec: VectorEnv) -> None:
    serve(vec, lib.PV_STEP)
    rows = vec.halves[0].groups["agents"].observations
    vec.rows.reset_masks[:] = [0, 1, 0, 1]
    assert serve(vec, lib.PV_RESET, seeded=0, count=1) == 0
    assert rows[:, [0, 1, 2]].tolist() == [[50, 0, 1], [51, 1, 0], [52, 0, 1], [53, 1, 0]]
    vec.rows.seeds[:] = [1, 2, 3, 4]
    vec.rows.reset_masks[:] = [lib.PV_RESET_SEEDED, 0, lib.PV_RESET_KEEP, lib.PV_RESET_SEEDED]
    assert serve(vec, lib.PV_RESET, seeded=1, count=1) == 0
    assert rows[:, [0, 1, 2]].tolist() == [[1, 0, 0], [51, 1, 0], [52, 1, 0], [4, 0, 0]]


def test_without_a_count_masks_are_ignored(vec: VectorEnv) -> None:
    rows = vec.halves[0].groups["agents"].observations
    vec.rows.reset_masks[:] = [0, 1, 2, 0]
    vec.rows.seeds[:] = [1, 2, 3, 4]
    serve(vec, lib.PV_RESET, seeded=0)
    assert rows[:, [0, 1]].tolist() == [[50, 1], [51, 1], [52, 1], [53, 1]]
    serve(vec, lib.PV_RESET, seeded=1)
    assert rows[:, [0, 1]].tolist() == [[1, 0], [2, 0], [3, 0], [4, 0]]


def test_a_masked_reset_keeps_no_records_of_the_turn_before(vec: VectorEnv) -> None:
    serve(vec, lib.PV_STEP)
    assert serve(vec, lib.PV_STEP) == lib.PV_TURN_RECORDS
    vec.rows.reset_masks[:] = [1, 0, 0, 0]  # none of the second worker's
    assert serve(vec, lib.PV_RESET, count=1) == 0


def test_flags_say_that_records_stand_in_the_slab(vec: VectorEnv) -> None:
    assert serve(vec, lib.PV_STEP) == 0
    assert serve(vec, lib.PV_STEP) == lib.PV_TURN_RECORDS
    assert vec.turns.infos([0]).episodes["env"].tolist() == [0, 1, 2, 3]
    assert (
        serve(vec, lib.PV_STEP) == 0
    )  # the reset rows: the records of the turn before are forgotten
    assert not vec.turns.infos([0])


def test_flags_say_that_infos_stand_in_the_slab() -> None:
    """Of Python envs: whatever stands in the first word of one of the half's info areas."""
    with puffervec.make(
        make_single, ("box", "choice"), backend=ManyInOne, num_envs=3, num_workers=2
    ) as vec:
        vec.reset(seed=0)
        assert lib.pv_turn_flags(vec.rows.slab, 0, vec.turns.waiter) == 0
        for worker in range(2):
            first = np.frombuffer(
                vec.rows.buffer, np.uint32, 1, lib.pv_slab_infos(vec.rows.slab, worker, 0)
            )
            first[0] = 1
            assert lib.pv_turn_flags(vec.rows.slab, 0, vec.turns.waiter) == lib.PV_TURN_INFOS
            first[0] = 0


def test_a_call_to_a_c_env_is_refused(vec: VectorEnv) -> None:
    assert serve(vec, lib.PV_CALL) == lib.PV_TURN_FAILED
    slot = ffi.cast(
        "pv_error_slot*",
        ffi.addressof(ffi.from_buffer("uint8_t[]", vec.rows.buffer), vec.rows.slab.errors_offset),
    )
    assert b"answers no calls" in ffi.string(slot.text)


def test_any_half_that_is_done_is_found() -> None:
    """pv_turn_recv_any looks at the pending halves from `first` on, whoever was served first."""
    with puffervec.make(
        "probe", backend=ManyInOne, num_envs=4, batch_size=1, num_workers=4, sync_traj=False
    ) as vec:
        vec.async_reset(0)
        for _ in range(4):
            vec.recv()
        vec.serving = False
        for half in range(4):
            lib.pv_turn_send(vec.rows.slab, half, lib.PV_STEP, 0, 0, vec.turns.waiter)

        def any_of(pending: list[int], first: int) -> int:
            return int(
                lib.pv_turn_recv_any(
                    vec.rows.slab, bytes(pending), first, vec.turns.waiter, 10**6, 0
                )
            )

        assert any_of([1, 1, 1, 1], 0) == -1
        assert any_of([0, 0, 0, 0], 0) == -1
        lib.pv_worker_serve(vec.workers.opened + 2, 2)
        assert [any_of([1, 1, 1, 1], first) for first in range(4)] == [2] * 4
        assert any_of([1, 1, 0, 1], 0) == -1
        lib.pv_worker_serve(vec.workers.opened, 0)
        assert [any_of([1, 1, 1, 1], first) for first in range(4)] == [0, 2, 2, 0]


def test_records_that_do_not_fit_are_counted() -> None:
    class Few(SomeWorkers):
        def start(self, turns: Turns) -> None:
            turns.slab.record_capacity = 2
            super().start(turns)

    class Narrow(ManyInOne):
        kind = Few

    with puffervec.make(
        "tag_grid",
        env_kwargs={"episode_length": 1, "num_taggers": 1},
        backend=Narrow,
        num_envs=3,
        num_workers=1,
    ) as vec:
        vec.reset(seed=0)
        episodes = vec.step([0] * 6)[4].episodes
        assert [(int(r["env"]), int(r["slot"])) for r in episodes] == [(0, 0), (0, 1)]
        assert (
            vec.rows.record_area(0, 0)[0][1] == 2
        )  # one try per env that found the area full; tag stops at the first
        vec.step([0] * 6)
        assert vec.rows.record_area(0, 0)[0][1] == 0


def test_an_error_in_step_is_told_with_worker_env_and_text() -> None:
    fault = {"fault": FAULTS.index("error"), "fault_env": 3, "fault_step": 2}
    with puffervec.make(
        "probe", env_kwargs=fault, backend=ManyInOne, num_envs=4, num_workers=2
    ) as vec:
        vec.reset(seed=0)
        vec.step([0] * 4)
        vec.send([0] * 4)
        with pytest.raises(
            WorkerError, match="^worker 1, env 3, step 2: the probe was told to fail at step 2$"
        ):
            vec.recv()
        slot = ffi.cast(
            "pv_error_slot*",
            ffi.addressof(
                ffi.from_buffer("uint8_t[]", vec.rows.buffer), vec.rows.slab.errors_offset
            ),
        )
        assert (slot[0].code, slot[1].code, slot[1].env) == (0, lib.PV_ERROR_ENV, 3)
        assert slot[1].turn == lib.pv_command_line(vec.rows.slab, 1, 0).turn
        for call in (lambda: vec.async_reset(0), lambda: vec.peek(0), vec.save):
            with pytest.raises(WorkerError, match="cannot go on: close it"):
                call()


def test_an_env_type_built_against_other_headers_is_refused() -> None:
    with serial("probe", {}) as vec:
        other = ffi.new("pv_env_type*", lib.pv_env_find(b"probe")[0])
        worker = ffi.new("pv_worker*")
        for change in ({"abi": lib.PV_ABI + 1}, {"struct_bytes": other.struct_bytes - 8}):
            wrong = ffi.new("pv_env_type*", other[0])
            for name, value in change.items():
                setattr(wrong, name, value)
            assert (
                lib.pv_worker_open(worker, vec.rows.slab, 0, wrong, ffi.NULL, 0) == lib.PV_ERROR_ABI
            )
            slot = ffi.cast(
                "pv_error_slot*",
                ffi.addressof(
                    ffi.from_buffer("uint8_t[]", vec.rows.buffer), vec.rows.slab.errors_offset
                ),
            )
            assert b"other puffervec headers" in ffi.string(slot.text)
            lib.pv_worker_close(worker)
            lib.pv_worker_close(worker)  # twice is no harm


def test_a_worker_that_could_not_open_answers_with_a_failure() -> None:
    with puffervec.make(
        "probe", env_kwargs={}, backend=ManyInOne, num_envs=2, num_workers=2
    ) as vec:
        vec.reset(seed=0)
        vec.serving = False
        lib.pv_turn_send_one(vec.rows.slab, 1, 0, lib.PV_IDLE, 0, 0, vec.turns.waiter)
        lib.pv_worker_refuse(vec.workers.opened + 1)
        assert (
            lib.pv_turn_recv_one(vec.rows.slab, 1, 0, vec.turns.waiter, 10**6, 0)
            == lib.PV_TURN_FAILED
        )


def test_a_transfer_of_another_workers_env_is_refused(vec: VectorEnv) -> None:
    for semaphore in (lib.PV_SAVE, lib.PV_LOAD, lib.PV_PEEK, lib.PV_POKE):
        lib.pv_turn_send_one(vec.rows.slab, 0, 0, semaphore, 3, 1, vec.turns.waiter)
        lib.pv_worker_serve(vec.workers.opened, 0)
        assert (
            lib.pv_turn_recv_one(vec.rows.slab, 0, 0, vec.turns.waiter, 10**6, 0)
            == lib.PV_TURN_FAILED
        )
        slot = ffi.cast(
            "pv_error_slot*",
            ffi.addressof(
                ffi.from_buffer("uint8_t[]", vec.rows.buffer), vec.rows.slab.errors_offset
            ),
        )
        assert slot.code == lib.PV_ERROR_STATE
        assert b"an env that this worker does not have" in ffi.string(slot.text)


def test_bench_steps_equals_the_vec_env() -> None:
    """pv_bench_steps (csrc/core/bench.c) runs the same envs without the channel."""
    actions = np.random.default_rng(0).integers(0, 5, (4, 6), dtype=np.int32)
    with (
        serial("probe", {"num_agents": 2}, num_envs=3) as vec,
        serial("probe", {"num_agents": 2}, num_envs=3) as tight,
    ):
        vec.reset(seed=0)
        tight.reset(seed=0)
        seconds = lib.pv_bench_steps(
            tight.workers.opened, ffi.from_buffer("int32_t[]", actions), 4, 10
        )
        assert seconds >= 0
        for step in range(10):
            vec.step(actions[step % 4])
        assert tight.counters()["steps"] == 30
        for array in ("observations", "rewards", "terminals"):
            mine, its = (getattr(v.halves[0].groups["agents"], array) for v in (vec, tight))
            np.testing.assert_array_equal(mine, its)
    fault = {"fault": FAULTS.index("error"), "fault_step": 3}
    with serial("probe", fault) as vec:
        vec.reset(seed=0)
        assert (
            lib.pv_bench_steps(vec.workers.opened, ffi.from_buffer("int32_t[]", actions), 4, 10)
            == -1.0
        )
