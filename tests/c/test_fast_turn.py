# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`send` and `recv` as C functions (csrc/python/fast_turn.c)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec.core.spec import DTYPE_CODE
from puffervec.envs.probe import FAULTS
from puffervec.errors import ActionError
from puffervec.vec.turns import HELD, IDLE, PENDING, SLICE_NS, FastTurn
from puffervec.vec.vector_env import VectorEnv

pytestmark = pytest.mark.usefixtures("no_leaks")
ENVS = 3


def serial(env: str = "probe", **arguments: Any) -> VectorEnv:
    return puffervec.make(env, **{"num_envs": ENVS, "backend": "serial", "seed": 0, **arguments})


@pytest.fixture
def vec() -> Iterator[VectorEnv]:
    with serial() as vec:
        vec.reset()
        yield vec


def taken(vec: VectorEnv, actions: Any) -> bool:
    """Send to the only half without the detour that `VectorEnv.send` takes for other actions."""
    return vec.turns.fast.send(vec.turns, 0, actions) is not NotImplemented


CASES: list[tuple[str, dict[str, Any], Any, str]] = [
    ("probe", {}, [1, 9, -4], "iu"),
    ("tag_continuous", {}, None, "iu"),
    ("drive", {"actions": "continuous", "scenes": "generated:1", "num_agents": 8}, None, "f"),
]


@pytest.mark.parametrize(
    ("env", "kwargs", "actions", "kinds"), CASES, ids=[case[0] for case in CASES]
)
def test_numbers_of_any_width_do_what_a_list_does(
    env: str, kwargs: dict[str, Any], actions: Any, kinds: str
) -> None:
    with serial(env, env_kwargs=kwargs) as vec:
        shape = next(iter(vec.halves[0].groups.values())).actions.shape
        if actions is None:
            actions = np.random.default_rng(0).integers(0, 3, shape).tolist()

        def after(send: Callable[[], Any]) -> tuple[Any, int]:
            vec.reset(0)
            before = vec.counters()["invalid_actions"]
            assert send()
            rows = [array.tolist() for array in vec.recv()[:4]]
            return rows, vec.counters()["invalid_actions"] - before

        expected = after(lambda: not vec._step_half(0, actions))
        for dtype in DTYPE_CODE:
            if dtype.kind not in kinds or dtype.name == "float16":
                assert not taken(vec, np.zeros(shape, dtype))
            elif dtype.kind != "u" or env != "probe":  # -4 cannot be written in those
                given = np.array(actions).astype(dtype)
                assert after(lambda given=given: taken(vec, given)) == expected


@pytest.mark.parametrize(
    "actions",
    [
        np.zeros(ENVS + 1, int),
        np.zeros((ENVS, 1), int),
        np.array(0),
        np.zeros(2 * ENVS, int)[::2],
        np.zeros(ENVS, ">i4"),
        np.zeros(ENVS, np.float32),
        np.zeros(ENVS, bool),
        np.zeros(ENVS, "V4"),
        np.zeros(ENVS, "O"),
        [0] * ENVS,
        bytes(ENVS),
        memoryview(np.zeros(ENVS, np.int32)),
        7,
    ],
    ids=lambda actions: f"{type(actions).__name__}-{getattr(actions, 'dtype', '')}",
)
def test_what_has_to_be_converted_or_refused_is_left(vec: VectorEnv, actions: Any) -> None:
    assert not taken(vec, actions)
    assert vec.turns.state == [HELD] and vec.turns.send_half == 0


def test_a_half_that_is_not_held_is_left(vec: VectorEnv) -> None:
    actions = np.zeros(ENVS, np.int32)
    for state in (IDLE, PENDING, "closed"):
        vec.turns.state = [state]
        assert not taken(vec, actions)
        assert vec.turns.state == [state]
    vec.turns.state = [HELD]
    assert taken(vec, actions) and vec.turns.state == [PENDING]
    assert vec.turns.fast.recv(0, SLICE_NS) == 0


def test_halves_are_sent_in_turn() -> None:
    with serial(num_buffers=3, env_kwargs={"episode_length": 9}) as vec:
        vec.async_reset()
        for half in range(3):
            vec.recv()
            assert vec.turns.fast.send(vec.turns, half, np.array([2])) is None
            assert vec.turns.state[half] is PENDING
            assert vec.turns.send_half == (half + 1) % 3
        assert [vec.recv()[0][0, 4] for _ in range(3)] == [2, 2, 2]


def test_none_stands_for_what_the_rows_hold(vec: VectorEnv) -> None:
    next(iter(vec.halves[0].groups.values())).actions[:] = [3, 1, 2]
    assert taken(vec, None)
    assert vec.recv()[0][:, 4].tolist() == [3, 1, 2]


@pytest.mark.parametrize("arguments", [{"strict": True}, {"env_kwargs": {"mode": 1}}])
def test_strict_envs_and_several_groups_take_nothing(arguments: dict[str, Any]) -> None:
    with serial(**arguments) as vec:
        vec.reset()
        for actions in (np.zeros(ENVS, np.int32), np.array(0), None):
            assert not taken(vec, actions)
        with pytest.raises(ActionError):
            vec.send(np.full(ENVS, 99))


def test_wrong_calls_are_errors(vec: VectorEnv) -> None:
    fast, actions = vec.turns.fast, np.zeros(ENVS, np.int32)
    for half in (-1, 1, 2**70):
        with pytest.raises((IndexError, OverflowError)):
            fast.send(vec.turns, half, actions)
        with pytest.raises((IndexError, OverflowError)):
            fast.recv(half, SLICE_NS)
    for call in (fast.send, fast.recv, FastTurn):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(AttributeError, match="state"):
        fast.send(object(), 0, actions)
    assert vec.turns.state == [HELD]


def test_nothing_is_kept(vec: VectorEnv) -> None:
    """Neither actions nor what a FastTurn was made of outlive it."""
    actions, wrong = np.zeros(ENVS, np.int32), np.zeros(ENVS, np.float32)
    counted = [actions, wrong, HELD, PENDING, np.ndarray, *vec.halves[0].groups.values()]
    before = [sys.getrefcount(one) for one in counted]
    for _ in range(50):
        assert taken(vec, actions)
        vec.recv()
        assert not taken(vec, wrong)
        vec.turns._make_fast()
    assert [sys.getrefcount(one) for one in counted] == before
    actions.resize(ENVS + 1, refcheck=False)  # no view on its memory is left


def test_other_threads_run_while_it_waits() -> None:
    slow = {"fault": FAULTS.index("slow"), "fault_step": 1}  # 20 ms
    with puffervec.make("probe", env_kwargs=slow, num_envs=1, num_workers=1) as vec:
        vec.reset(0)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(60)  # a thread runs only if this one releases the GIL
        try:
            ran = threading.Event()
            lock = threading.Lock()
            lock.acquire()
            thread = threading.Thread(target=lambda: (lock.acquire(), ran.set()))
            thread.start()
            lock.release()
            vec.send(np.array([1]))
            vec.recv()
            assert ran.is_set()
        finally:
            sys.setswitchinterval(interval)
        thread.join()
