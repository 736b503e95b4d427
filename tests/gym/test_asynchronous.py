# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Rules of Gymnasium's AsyncVectorEnv: pending and closed state, timeouts, errors
(puffervec/gym/asynchronous.py).
"""

from __future__ import annotations

import functools
import multiprocessing
import re
import warnings
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError

import puffervec.gym
from puffervec.errors import ConfigError
from tests.gym.envs import Failing, Raising, Slow, TwoPartError, count, counts
from tests.gym.kinds import ASYNC, NEXT, Kind, kind_fixture, quick_start

kind = kind_fixture(ASYNC)
ours = kind_fixture(("async",), "ours")
ACTIONS = [0, 0, 0]


# ---- calls in two parts --------------------------------------------------------------------------


def test_reset_step_and_call_in_two_parts(kind: Kind) -> None:
    envs = kind(counts())
    envs.reset_async(seed=1)
    observations, infos = envs.reset_wait()
    assert observations.shape == (3, 2) and infos == {}
    envs.step_async([1, 2, 3])
    assert envs.step_wait(timeout=60)[1].tolist() == [1, 2, 3]
    envs.call_async("add", 1, b=2)
    assert envs.call_wait(timeout=60) == (5, 6, 6)


BEGIN = {
    "reset": lambda envs: envs.reset_async(),
    "step": lambda envs: envs.step_async(ACTIONS),
    "call": lambda envs: envs.call_async("length"),
}


@pytest.mark.parametrize("pending", BEGIN)
@pytest.mark.parametrize("begun", BEGIN)
def test_one_call_at_a_time(kind: Kind, pending: str, begun: str) -> None:
    envs = kind(counts())
    envs.reset()
    BEGIN[pending](envs)
    text = f"Calling `{begun}_async` while waiting for a pending call to `{pending}` to complete"
    with pytest.raises(AlreadyPendingCallError, match=text) as caught:
        BEGIN[begun](envs)
    assert caught.value.name == pending
    with pytest.raises(
        AlreadyPendingCallError,
        match=f"Calling `set_attr` while waiting for a pending call to `{pending}`",
    ):
        envs.set_attr("length", 4)
    for other in set(BEGIN) - {pending}:
        with pytest.raises(
            NoAsyncCallError,
            match=f"Calling `{other}_wait` without any prior call to `{other}_async`.",
        ):
            getattr(envs, f"{other}_wait")()
    getattr(envs, f"{pending}_wait")()  # which is still possible
    assert envs.get_attr("length") == (2, 3, 3)


def test_calls_with_a_name_of_their_own_are_refused(ours: Kind) -> None:
    envs = ours(counts())
    for name in ("reset", "step", "close"):
        with pytest.raises(
            ValueError,
            match=f"Trying to call function `{name}` with `call`, use `{name}` directly instead.",
        ):
            envs.call(name)
    envs.reset()


# ---- the end -------------------------------------------------------------------------------------


def test_everything_fails_after_close(kind: Kind) -> None:
    envs = kind(counts())
    envs.reset()
    envs.close()
    assert envs.closed
    name = type(envs).__name__
    for use in (
        *BEGIN.values(), lambda e: e.reset(), lambda e: e.step(ACTIONS),
        lambda e: e.get_attr("length"), lambda e: e.render(), lambda e: e.set_attr("length", 1),
        lambda e: e.reset_wait(), lambda e: e.step_wait(), lambda e: e.call_wait(),
        lambda e: e.np_random_seed,
    ):  # fmt: skip
        with pytest.raises(
            ClosedEnvironmentError,
            match=rf"Trying to operate on `{name}`, after a call to `close\(\)`.",
        ):
            use(envs)
    envs.close()
    envs.close(terminate=True)


@pytest.mark.parametrize("terminate", [True, False])
@pytest.mark.parametrize("verb", BEGIN)
def test_close_warns_of_a_pending_call(kind: Kind, verb: str, terminate: bool) -> None:
    envs = kind(counts())
    envs.reset()
    processes = list(envs.processes)
    pids = [process.pid for process in processes]
    BEGIN[verb](envs)
    with pytest.warns(
        UserWarning,
        match=f"Calling `close` while waiting for a pending call to `{verb}` to complete.",
    ):
        envs.close(terminate=terminate)
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_close_does_not_wait_for_ever(ours: Kind) -> None:
    envs = ours([functools.partial(Slow, step_s=100.0)] * 2)
    envs.reset()
    pids = [process.pid for process in envs.processes]
    envs.step_async([0, 0])
    with pytest.warns(UserWarning, match="pending call to `step`"):
        envs.close(timeout=0.05)
    assert not any(psutil.pid_exists(pid) for pid in pids)


# ---- timeouts ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("late", ["step", "call", "reset"])
def test_after_a_timeout_only_reset_and_close_are_allowed(ours: Kind, late: str) -> None:
    """Gymnasium goes on, and hands out the late results as those of the next call."""
    envs = ours([functools.partial(Slow, step_s=0.4, reset_s=0.4 if late == "reset" else 0.0)] * 2)
    if late != "reset":
        envs.reset(seed=0)
    begin = {
        "step": lambda: envs.step_async([0, 0]),
        "call": lambda: envs.call_async("slowly", 0.4),
        "reset": envs.reset_async,
    }
    begin[late]()
    with pytest.raises(multiprocessing.TimeoutError):
        getattr(envs, f"{late}_wait")(timeout=0.05)
    for use in (
        lambda: envs.step([0, 0]),
        lambda: envs.get_attr("length"),
        lambda: envs.set_attr("length", 4),
    ):
        with pytest.raises(
            AlreadyPendingCallError,
            match=f"`{late}` timed out.*Call `reset`, which waits for it, or `close`",
        ):
            use()
    with pytest.raises(AlreadyPendingCallError, match="all envs.*without a reset_mask"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    observations, _ = envs.reset(seed=0)
    assert observations[:, 0].tolist() == [0, 0]
    assert envs.get_attr("length") == (100, 100)
    assert envs.step([1, 2])[0][:, 0].tolist() == [1, 1]


# ---- envs that fail ------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["reset", "step"])
@pytest.mark.parametrize("error", [ValueError, ZeroDivisionError, gymnasium.error.ResetNeeded])
def test_the_envs_own_exception_is_raised(ours: Kind, where: str, error: type[Exception]) -> None:
    envs = ours([count(), functools.partial(Failing, where, error)])
    with pytest.raises(error, match=f"told to fail in {where}") as caught:
        envs.reset()
        envs.step([0, 0])
    note = "\n".join(caught.value.__notes__)
    assert "env 1" in note and "worker" in note and f'self._fail("{where}")' in note
    envs.close()


def test_what_envs_raise_is_logged(kind: Kind) -> None:
    """As Gymnasium does: two warnings per worker, and one at the end."""
    envs = kind([functools.partial(Failing, "step")] * 2)
    envs.reset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(ValueError, match="told to fail in step"):
            envs.step([0, 0])
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == 5 and "Raising the last exception back to the main process." in texts[4]
    found = [
        re.search(r"Received the following error from Worker-(\d) - Shutting it down", texts[i])
        for i in (0, 2)
    ]
    assert sorted(match[1] for match in found if match) == ["0", "1"]
    for text in (texts[1], texts[3]):
        assert re.search(
            r"ERROR: Traceback \(most recent call last\):(?s:.)*ValueError: told to fail in step\n",
            text,
        )
    envs.close()


def test_a_failing_constructor_is_reported() -> None:
    """Gymnasium shows a broken pipe."""
    fails = functools.partial(Failing, "constructor", ZeroDivisionError)
    with pytest.raises(ZeroDivisionError, match="told to fail in constructor") as caught:
        puffervec.gym.AsyncVectorEnv([count(), fails], context=quick_start())
    assert "env 1" in "\n".join(caught.value.__notes__)


def test_exceptions_with_other_constructors_arrive_whole(ours: Kind) -> None:
    """Gymnasium calls the type with the exception as its only argument; this one refuses that."""
    envs = ours([Raising])
    envs.reset()
    with pytest.raises(TwoPartError) as caught:
        envs.step([0])
    assert caught.value.code == 17


# ---- arguments -----------------------------------------------------------------------------------


def speaks_pipes(
    index: int,
    env_fn: Any,
    pipe: Any,
    parent_pipe: Any,
    memory: Any,
    errors: Any,
    mode: Any,
    permits: Any,
) -> None:
    """The signature of Gymnasium's worker."""


def test_a_worker_function_is_refused() -> None:
    with pytest.raises(ConfigError, match="worker=.*Wrapper"):
        puffervec.gym.AsyncVectorEnv(counts(), worker=speaks_pipes)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "must be a positive or None, got 0"),
        ("2", "must be an integer or None, got <class 'str'>"),
        (1.5, "must be an integer"),
    ],
)
def test_max_concurrency_is_checked(kind: Kind, value: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"`max_concurrency` {text}"):
        kind(counts(), max_concurrency=value)


def test_max_concurrency_is_the_number_of_workers() -> None:
    envs = puffervec.gym.AsyncVectorEnv(counts(), context=quick_start(), max_concurrency=1)
    assert len(envs.processes) == 1
    assert envs.reset()[0].shape == (3, 2)
    envs.close()
    with pytest.raises(ConfigError, match="num_workers is 3, but max_concurrency is 2"):
        puffervec.gym.AsyncVectorEnv(counts(), max_concurrency=2, num_workers=3)


@pytest.mark.slow
def test_arguments_by_position_in_gymnasiums_order() -> None:
    envs = puffervec.gym.AsyncVectorEnv(
        counts(), False, False, "forkserver", False, None, "same", NEXT, 2
    )
    assert (envs.shared_memory, envs.copy, envs.context, envs.daemon) == (
        False,
        False,
        "forkserver",
        False,
    )
    assert (envs.worker, envs.observation_mode, envs.autoreset_mode, envs.max_concurrency) == (
        None,
        "same",
        NEXT,
        2,
    )
    envs.reset()
    assert envs.step(ACTIONS)[0].shape == (3, 2)
    envs.close()


@pytest.mark.slow
@pytest.mark.parametrize("context", [None, "spawn", "forkserver"])
def test_other_ways_to_start_processes(context: str | None) -> None:
    envs = puffervec.gym.AsyncVectorEnv(counts((2, 2)), context=context, num_workers=1)
    assert envs.reset(seed=0)[0].shape == (2, 2)
    assert envs.step([1, 2])[1].tolist() == [1, 2]
    assert np.array_equal(envs.get_attr("resets"), (1, 1))
    envs.close()


class Helped(gymnasium.Env[Any, Any]):
    """Has a child process."""

    observation_space, action_space = gymnasium.spaces.Box(0, 9, (1,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if multiprocessing.parent_process() is None:
            return np.zeros(1, np.float32), {}
        context = multiprocessing.get_context("fork")
        near, far = context.Pipe()
        child = context.Process(target=far.send, args=(5,))
        child.start()
        value = near.recv()
        child.join()
        return np.full(1, value, np.float32), {}


@pytest.mark.slow
@pytest.mark.parametrize("daemon", [True, False])
def test_envs_may_use_multiprocessing_whatever_daemon_is(daemon: bool) -> None:
    envs = puffervec.gym.AsyncVectorEnv([Helped] * 2, daemon=daemon, num_workers=1)
    assert envs.reset()[0].tolist() == [[5], [5]]
    envs.close()
