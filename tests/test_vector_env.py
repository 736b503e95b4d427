# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The vec env (puffervec/vec/vector_env.py, puffervec/vec/turns.py): order of calls, closing,
seeds, tasks, whose memory.
"""

from __future__ import annotations

import gc
import warnings
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec._ffi import lib
from puffervec.envs.probe import FAULTS
from puffervec.errors import CallOrderError, ClosedError, ConfigError, UnclosedWarning
from puffervec.vec import control
from puffervec.vec.turns import Turns
from puffervec.vec.vector_env import VectorEnv
from tests.helpers import ManyInOne, action_table, actions_of, run

BACKENDS = ["serial", "threading", "multiprocessing"]


@pytest.fixture(autouse=True)
def _no_leaks(no_leaks: None) -> None:
    """Every test here leaves nothing behind."""


def make(
    backend: str = "serial", kwargs: dict[str, Any] | None = None, **settings: Any
) -> VectorEnv:
    """Workers are forked from a server, which is faster than the default."""
    return puffervec.make(
        "probe", env_kwargs=kwargs, backend=backend, start_method="forkserver", **settings
    )


# ---- attributes and what is returned -------------------------------------------------------------


def test_a_batch_has_the_documented_shapes_and_dtypes() -> None:
    with make(kwargs={"num_agents": 3}, num_envs=4, num_buffers=2) as vec:
        vec.async_reset(0)
        for half in (0, 1):
            observations, rewards, terminals, truncations, infos, agent_ids, masks = vec.recv()
            assert vec.half == half
            assert (observations.shape, observations.dtype) == ((6, 8), np.float32)
            assert (rewards.shape, rewards.dtype) == ((6,), np.float32)
            assert all(
                (flags.shape, flags.dtype) == ((6,), np.bool_)
                for flags in (terminals, truncations, masks)
            )
            assert not infos
            assert (agent_ids.tolist(), agent_ids.dtype) == (
                list(range(6 * half, 6 * half + 6)),
                np.int64,
            )
            assert vec.env_ids.tolist() == [2 * half, 2 * half + 1]
            assert vec.agent_ids is agent_ids
            vec.send([0] * 6)
        vec.recv()


def test_agent_ids_of_groups_interleave_by_env() -> None:
    with make(kwargs={"mode": 1, "num_agents": 2}, num_envs=2) as vec:
        vec.async_reset(0)
        agent_ids = vec.recv()[5]
        assert {name: ids.tolist() for name, ids in agent_ids.items()} == {
            "scouts": [0, 1, 3, 4],
            "towers": [2, 5],
        }


@pytest.mark.parametrize("kwargs", [{}, {"mode": 1}])
def test_views_follow_the_slab_and_copies_do_not(kwargs: dict[str, Any]) -> None:
    for copy in (False, True):
        with make(kwargs={**kwargs, "episode_length": 1}, num_envs=2, copy=copy) as vec:
            actions = actions_of(vec, action_table(vec, 1), 0, 0)
            vec.async_reset(0)
            before = vec.recv()
            vec.send(actions)
            after = vec.recv()
            rewards = [
                np.concatenate([x for x in _leaves(result[1])]) for result in (before, after)
            ]
            assert (rewards[0] == rewards[1]).all() == (not copy)
            assert rewards[1].all()
            block = vec.halves[0].block
            for result in (before, after):
                for position in (0, 1, 2, 3, 6):
                    assert all(
                        np.shares_memory(leaf, block) != copy for leaf in _leaves(result[position])
                    )


def _leaves(value: Any) -> list[np.ndarray]:
    return (
        [leaf for entry in value.values() for leaf in _leaves(entry)]
        if isinstance(value, dict)
        else [value]
    )


def test_episode_records_are_copies() -> None:
    with make(kwargs={"episode_length": 1}) as vec:
        vec.reset(seed=0)
        episodes = vec.step([1])[4].episodes
        kept = episodes.copy()
        assert episodes.dtype.names == (
            "episode",
            "task",
            "env",
            "slot",
            "agent_type",
            "length",
            "return",
            "values",
        )
        for _ in range(5):
            vec.step([2])
        assert (episodes == kept).all()


# ---- order of calls ------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_out_of_order_say_what_was_expected(backend: str) -> None:
    with make(backend, num_workers=1 if backend != "serial" else "auto") as vec:
        with pytest.raises(CallOrderError, match="recv.*async_reset or reset"):
            vec.recv()
        with pytest.raises(CallOrderError, match="send.*async_reset or reset"):
            vec.send([0])
        with pytest.raises(CallOrderError, match="send.*async_reset or reset"):
            vec.step([0])
        with pytest.raises(CallOrderError, match="peek.*async_reset and recv"):
            vec.peek(0)
        with pytest.raises(CallOrderError, match="poke.*async_reset and recv"):
            vec.poke(0, {"step": 1})
        with pytest.raises(CallOrderError, match="save.*async_reset and recv"):
            vec.save()
        vec.async_reset(0)
        with pytest.raises(CallOrderError, match="send.*recv"):
            vec.send([0])
        for beside in (lambda: vec.peek(0), vec.save, lambda: vec.load([b""])):
            with pytest.raises((CallOrderError, ConfigError)):
                beside()
        vec.recv()
        with pytest.raises(CallOrderError, match="recv.*send"):
            vec.recv()
        vec.send([1])
        with pytest.raises(CallOrderError, match="send.*recv"):
            vec.send([1])
        with pytest.raises(CallOrderError, match="peek.*recv"):
            vec.peek(0)
        with pytest.raises(CallOrderError, match="poke.*recv"):
            vec.poke(0, {"step": 1})
        with pytest.raises(CallOrderError, match="save.*recv"):
            vec.save()
        # None of the refusals did anything.
        assert vec.recv()[0][0, :5].tolist() == [0, 0, 1, 0, 1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_buffers_go_a_b_a_b(backend: str) -> None:
    with make(
        backend, num_envs=2, num_buffers=2, num_workers="auto" if backend == "serial" else 2
    ) as vec:
        for call in (lambda: vec.reset(0), lambda: vec.step([0])):
            with pytest.raises(
                CallOrderError, match="num_buffers=1.*2.*(send and recv|async_reset and recv)"
            ):
                call()
        vec.async_reset(0)
        vec.recv()
        vec.send([1])
        with pytest.raises(CallOrderError, match="send.*recv"):
            vec.send([1])  # B was not received yet
        vec.recv()
        assert vec.half == 1
        vec.recv()  # A again: two halves may be held at once
        assert vec.half == 0
        with pytest.raises(CallOrderError, match="recv.*send"):
            vec.recv()  # B is held
        vec.send([2])  # to B, held longest
        vec.send([3])
        assert (vec.recv()[0][0, 4], vec.half) == (2, 1)
        assert (vec.recv()[0][0, 4], vec.half) == (3, 0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("buffers", [1, 2])
def test_a_reset_while_a_turn_is_under_way_waits_and_drops_it(backend: str, buffers: int) -> None:
    workers = "auto" if backend == "serial" else buffers
    with make(
        backend, {"episode_length": 5}, num_envs=2, num_buffers=buffers, num_workers=workers
    ) as vec:
        for _ in range(3):
            vec.async_reset(40)
        for _ in range(buffers):
            vec.recv()
            vec.send([1] * vec.agents_per_batch)
        vec.async_reset(60)
        for half in range(buffers):
            rows = vec.recv()[0]
            assert vec.half == half
            first = 60 + vec.env_ids[0]
            assert rows[0, [0, 1, 2, 4, 7]].tolist() == [first, 0, 0, 0, 0]


def test_a_reset_is_sent_to_no_worker_that_is_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half 1 is slow: without the wait for it, its command line would be written over while it is
    read.
    """

    class Watching:
        def __getattr__(self, name: str) -> Any:
            return getattr(lib, name)

        def pv_turn_send(self, slab: Any, half: int, semaphore: int, *rest: Any) -> None:
            if semaphore == lib.PV_RESET:
                turns = [
                    line(slab, half, half).turn
                    for line in (lib.pv_command_line, lib.pv_status_line)
                ]
                assert turns[0] == turns[1]
            lib.pv_turn_send(slab, half, semaphore, *rest)

    monkeypatch.setattr(control, "lib", Watching())
    kwargs = {"fault": FAULTS.index("slow"), "fault_env": 1, "fault_step": 1}
    with make("threading", kwargs, num_envs=2, num_buffers=2, num_workers=2) as vec:
        vec.async_reset(0)
        for _ in range(2):
            vec.recv()
        vec.send([1])
        vec.send([1])
        vec.async_reset(5)
        assert [vec.recv()[0][0, 0] for _ in range(2)] == [5, 6]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("copy", [False, True])
def test_a_step_is_two_calls_into_c(backend: str, copy: bool) -> None:
    called = []

    class Watching:
        def __getattr__(self, name: str) -> Any:
            called.append(name)
            return getattr(fast, name)

    with make(backend, {"episode_length": 2}, num_envs=2, copy=copy) as vec:
        vec.reset(0)
        fast, vec.turns.fast = vec.turns.fast, Watching()
        for action, ends in ((1, 0), (9, 2), (3, 0)):
            called.clear()
            rows, _, _, _, infos = vec.step(np.array([action, 2]))
            assert called == ["send", "recv"] and len(infos) == ends
            assert rows[:, 4].tolist() == {1: [1, 2], 9: [0, 2], 3: [0, 0]}[action]  # 3: a reset
        assert vec.counters()["invalid_actions"] == 1
        vec.step(None)  # also without actions
        assert called == ["send", "recv"] * 2


# ---- closing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("state", ["new", "pending", "received", "half pending"])
def test_close_works_in_every_state_and_twice(backend: str, state: str) -> None:
    vec = make(backend, num_envs=4, num_buffers=2, num_workers="auto" if backend == "serial" else 2)
    if state != "new":
        vec.async_reset(3)
    if state in ("received", "half pending"):
        sent, observations = vec.recv()[0], vec.recv()[0]
    if state == "half pending":
        vec.send([1, 1])
    vec.close()
    vec.close()
    if backend != "multiprocessing":
        assert [vec.workers.opened[worker].ready for worker in range(vec.num_workers)] == [
            0,
            0,
        ]  # their memory is freed
    for call in _every_call(vec):
        with pytest.raises(ClosedError, match="'probe' is closed.*make a new one"):
            call()
    if state in ("received", "half pending"):
        assert observations[0, 0] == 5  # views stay readable
        sent[:] = observations[:] = 1.0


def _every_call(vec: VectorEnv) -> list[Any]:
    return [
        vec.recv,
        lambda: vec.send([0, 0]),
        lambda: vec.async_reset(0),
        lambda: vec.set_tasks([0], [0]),
        lambda: vec.peek(0),
        vec.save,
        lambda: vec.load([]),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_forgotten_vec_env_is_ended_by_the_collector(backend: str) -> None:
    vec = make(backend, num_envs=2)
    observations = vec.reset(5)[0]
    vec.send([0, 0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del vec
        gc.collect()
    assert [(entry.category, entry.filename) for entry in caught] == (
        [(UnclosedWarning, __file__)] if backend == "multiprocessing" else []
    )
    assert observations.shape == (2, 8)  # readable still; the fixture looks for what was left


@pytest.mark.parametrize("backend", BACKENDS)
def test_counters_spaces_and_timing_stay_readable_after_close(backend: str) -> None:
    vec = make(backend, num_envs=2)
    vec.reset(0)
    vec.step([0, 9])
    vec.close()
    assert vec.counters() == {"steps": 2, "invalid_actions": 1}
    assert vec.single_action_space.n == 5
    assert vec.timing(0).shape[1] == 2


# ---- seeds ---------------------------------------------------------------------------------------


def test_seeds_come_from_a_number_a_list_or_make() -> None:
    with make(num_envs=3, seed=7) as vec:
        assert vec.reset()[0][:, 0].tolist() == [7, 8, 9]  # the first reset takes the seed of make
        assert vec.reset(seed=[30, 10, 10])[0][:, :2].tolist() == [[30, 0], [10, 0], [10, 0]]
        assert vec.reset()[0][:, :2].tolist() == [
            [30, 1],
            [10, 1],
            [10, 1],
        ]  # kept; the next episode
        assert vec.reset(seed=(1, 2, 3))[0][:, :2].tolist() == [[1, 0], [2, 0], [3, 0]]
    with make(num_envs=2, seed=[5, 9]) as vec:
        assert vec.reset()[0][:, 0].tolist() == [5, 9]


def test_no_seed_is_a_random_one() -> None:
    drawn = set()
    for _ in range(4):
        with make(num_envs=2, seed=None) as vec:
            vec.reset()
            first, second = (int(vec.peek(env)["seed"]) for env in range(2))
            assert second == first + 1
            drawn.add(first)
    assert len(drawn) == 4


# ---- tasks ---------------------------------------------------------------------------------------


def test_tasks_are_read_at_the_next_reset() -> None:
    with make(kwargs={"episode_length": 2}, num_envs=3) as vec:
        vec.reset(seed=0)
        rows = vec.halves[0].groups["agents"].observations
        vec.set_tasks([0, 2], [4, 2**33])
        vec.set_tasks(np.array([1]), 6)
        assert rows[:, 6].tolist() == [-1, -1, -1]
        vec.step([0] * 3)
        assert rows[:, 6].tolist() == [-1, -1, -1]
        assert vec.step([0] * 3)[4].episodes["task"].tolist() == [-1, -1, -1]
        vec.step([0] * 3)
        assert rows[:, 6].tolist() == [4, 6, 2**33]
        vec.set_tasks(range(3), [1, 2, -1])
        vec.reset()
        assert rows[:, 6].tolist() == [1, 2, -1]
        vec.set_tasks([], [])


@pytest.mark.parametrize(
    ("ids", "tasks", "words"),
    [
        ([3], [0], ["3", "0 to 2"]),
        ([-1], [0], ["-1", "0 to 2"]),
        ([0], [-2], ["-2", "-1 lets the env choose"]),
        ([0, 1], [1, 2, 3], ["2", "3"]),
        ([0.5], [1], ["0.5"]),
        ([0], [1.5], ["1.5"]),
        (["a"], [1], ["a"]),
        ([0], [2**63], ["9223372036854775808"]),
    ],
)
def test_unusable_tasks_are_refused(ids: Any, tasks: Any, words: list[str]) -> None:
    with make(num_envs=3) as vec:
        vec.set_tasks([0, 1, 2], [7, 8, 9])
        with pytest.raises(ConfigError, match="set_tasks") as caught:
            vec.set_tasks(ids, tasks)
        for word in words:
            assert word in str(caught.value)
        assert vec.reset(0)[0][:, 6].tolist() == [7, 8, 9]


# ---- peek ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("buffers", "split"), [(1, "workers"), (2, "workers"), (2, "envs")])
def test_peek_reads_any_env_and_changes_nothing(backend: str, buffers: int, split: str) -> None:
    workers = "auto" if backend == "serial" else 2
    with make(
        backend,
        {"num_agents": 2},
        num_envs=4,
        num_buffers=buffers,
        num_workers=workers,
        split=split,
    ) as vec:
        vec.async_reset(20)
        for _ in range(buffers):
            vec.recv()
        before = [half.block.copy() for half in vec.halves]
        for env in (3, 0, 2, 1, 3):
            state = vec.peek(env)
            shown = {name: value.tolist() for name, value in state.items()}
            assert shown == {
                "seed": 20 + env,
                "episode": 0,
                "step": 0,
                "clock": 0,
                "last_action": [0, 0],
            }
            assert (state["seed"].dtype, state["step"].dtype) == (np.uint64, np.uint32)
        assert all(
            (half.block == block).all() for half, block in zip(vec.halves, before, strict=True)
        )
        vec.send([1] * vec.agents_per_batch)
        assert vec.recv()[0][0, 2] == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("split", ["workers", "envs"])
def test_peek_at_one_half_while_the_other_is_under_way(backend: str, split: str) -> None:
    """No turn is lost or run twice, although a worker that serves both halves has one of them
    pending.
    """
    workers = "auto" if backend == "serial" else 2
    with make(
        backend,
        {"episode_length": 1000},
        num_envs=4,
        num_buffers=2,
        num_workers=workers,
        split=split,
    ) as vec:
        vec.async_reset(0)
        vec.recv()
        for turn in range(50):
            vec.send([1, 2])  # A (or B) is under way
            vec.recv()
            held = vec.half
            for env in vec.env_ids:
                assert int(vec.peek(int(env))["step"]) == (turn + 1) // 2
            assert held == (turn + 1) % 2
        assert vec.recv()[0][0, 2] == 25


def test_peek_does_not_overwrite_a_command_that_the_worker_has_not_seen() -> None:
    with puffervec.make(
        "probe",
        env_kwargs={"episode_length": 9},
        backend=ManyInOne,
        num_envs=2,
        num_buffers=2,
        num_workers=1,
        split="envs",
    ) as vec:
        vec.async_reset(0)
        vec.recv()
        vec.recv()
        vec.serving = False
        vec.send([1])
        vec.serving = True
        assert int(vec.peek(1)["step"]) == 0
        lib.pv_worker_serve(vec.workers.opened, 0)
        assert vec.recv()[0][0].tolist()[2:5] == [1, 0, 1]


@pytest.mark.parametrize("env", [-1, 4, 1.0, True, "0", None])
def test_peek_refuses_other_envs(env: Any) -> None:
    with make(num_envs=4) as vec:
        vec.reset(0)
        with pytest.raises(ConfigError, match="peek: env"):
            vec.peek(env)


# ---- counters and timing -------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_timing_brackets_the_last_turn(backend: str) -> None:
    import time

    workers = "auto" if backend == "serial" else 2
    with make(backend, num_envs=4, num_buffers=2, num_workers=workers, split="workers") as vec:
        vec.async_reset(0)
        for _ in range(2):
            vec.recv()
        for half in range(2):
            sent = time.monotonic_ns()
            vec.send([0, 0])
            vec.recv()
            received = time.monotonic_ns()
            times = vec.timing(half)
            assert (times.shape, times.dtype) == ((1, 2), np.int64)
            begin, end = times[0].tolist()
            assert sent <= begin <= end <= received


# ---- turns may wrap ------------------------------------------------------------------------------


def wrapping(backend: str) -> type[VectorEnv]:
    """The backend, with turn words that are about to wrap."""
    kind: Any = {
        "serial": puffervec.Serial,
        "threading": puffervec.Threading,
        "multiprocessing": puffervec.Multiprocessing,
    }[backend]

    class Late(kind.kind):  # type: ignore[misc, name-defined]
        several = True  # also of Serial

        def start(self, turns: Turns) -> None:
            for worker in range(self.rows.num_workers):
                for half in range(turns.num_buffers):
                    for line in (
                        lib.pv_command_line(turns.slab, worker, half),
                        lib.pv_status_line(turns.slab, worker, half),
                    ):
                        line.turn = 0xFFFFFFF0
                        line.doorbell.word = 0xFFFFFFFA
            super().start(turns)

    class Wrapping(kind):  # type: ignore[misc]
        kind = Late

    return Wrapping


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("buffers", "workers", "split"),
    [(1, 1, "workers"), (1, 2, "workers"), (2, 2, "workers"), (2, 2, "envs")],
)
def test_turns_wrap(backend: str, buffers: int, workers: int, split: str) -> None:
    kwargs = {"num_agents": 2, "leave": 1}
    table = None
    shown = []
    for kind in (wrapping(backend), "serial"):
        count = "auto" if kind == "serial" else workers
        with puffervec.make(
            "probe",
            env_kwargs=kwargs,
            backend=kind,
            num_envs=4,
            num_buffers=buffers,
            num_workers=count,
            split=split,
            start_method="forkserver",
        ) as vec:
            table = table or action_table(vec, 64)
            shown.append(run(vec, 64, table, seed=3, every=8))
            if kind != "serial":
                assert lib.pv_command_line(vec.rows.slab, 0, 0).turn < 0x1000  # it wrapped
    assert shown[0] == shown[1]
