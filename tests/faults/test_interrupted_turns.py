# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Exceptions out of signal handlers, anywhere in a call: the turn can be completed, or every call
raises until a reset.
"""

from __future__ import annotations

import contextlib
import random
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium
import numpy as np
import pytest

import puffervec
import puffervec.gym
from puffervec.core.actions import Native
from puffervec.errors import CallOrderError, ConfigError
from puffervec.vec.vector_env import VectorEnv
from puffervec.workers.python import global_random
from tests.gym.envs import Count
from tests.helpers import ManyInOne, thinned
from tests.python_envs import Counting

pytestmark = pytest.mark.usefixtures("no_leaks")
PACKAGE = str(Path(puffervec.__file__).parent)
ENVS, LENGTH = 4, 3
SEED, LATER_SEED = 10, 50


class Raised(KeyboardInterrupt):
    """What the handler raises."""


class RaisedError(Exception):
    """A handler may raise any exception."""


class Injector:
    """Runs a call and raises at its n-th event: a function of the package begins, a line begins, a
    call into C returns.

    CPython runs signal handlers at the first and the last of these, and at lines to which a loop
    goes back; so all lines are more than there have to be.
    """

    def __init__(self, kind: type[BaseException], lines: bool = True) -> None:
        self.kind, self.left, self.events = kind, 0, ("call", "line") if lines else ("call",)

    def _count(self, frame: FrameType) -> None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            self.left -= 1
            if self.left == 0:
                raise self.kind

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event in self.events:
            self._count(frame)
        return self._trace

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_return":
            self._count(frame)

    def run(self, at: int, call: Callable[[], Any]) -> bool:
        """Run `call`, raising at its event number `at`, from 1. Returns whether it was raised."""
        self.left = at
        sys.setprofile(self._profile)
        sys.settrace(self._trace)
        try:
            call()
        except self.kind:
            return True
        finally:
            sys.settrace(None)
            sys.setprofile(None)
        return False


class Learner:
    """A learner with books: what each env must show, given what was sent to it and received from
    it.
    """

    def __init__(self, vec: VectorEnv) -> None:
        self.vec, self.python = vec, vec.workers.mail is not None
        self.seed, self.stride = -1, 1
        self.turns = np.zeros(ENVS, int)  # since the reset, received
        self.actions = np.zeros(ENVS, int)  # the last one that was received
        self.sent = np.zeros(ENVS, int)
        self.held: list[np.ndarray] = []  # env ids of batches received and not sent

    def reset(self, seed: int) -> None:
        self.vec.async_reset(seed)
        self.seed = seed
        self.turns[:], self.actions[:] = -1, 0
        self.held.clear()

    def recv(self) -> None:
        rows, infos = (result := self.vec.recv())[0], result[4]
        ids = self.vec.env_ids
        self.turns[ids] += 1
        self.actions[ids] = np.where(self.turns[ids] > 0, self.sent[ids], 0)
        expected = [self.row(env) for env in ids]
        assert rows.reshape(len(ids), -1)[:, self.columns].tolist() == expected
        assert len(infos) == sum(step == LENGTH for _, step, _ in expected)
        assert not self.python or all("why" in info for info in infos)
        self.held.append(ids)

    @property
    def columns(self) -> list[int]:
        """Of the seed, the step of the episode, and the last action."""
        return [0, 2, 3] if self.python else [0, 2, 4]

    def row(self, env: int) -> list[int]:
        """Return what an env shows: each episode takes LENGTH steps and a turn in which it is
        reset.
        """
        turn = int(self.turns[env]) % (LENGTH + 1)
        return [self.seed + env, turn, int(self.actions[env]) if turn else 0]

    def send(self, action: int) -> None:
        ids = self.held[0]
        self.sent[ids] = action
        self.vec.send(np.full(len(ids), action))
        self.held.pop(0)

    def turn(self, action: int) -> None:
        """Send to all, receive from all."""
        for _ in range(len(self.held)):
            self.send(action)
            self.recv()

    def starts(self, seed: int) -> None:
        """Reset and take some turns."""
        self.reset(seed)
        for _ in range(self.vec.num_buffers // self.vec.settings.batch_halves):
            self.recv()
        self.turn(1)


def recovers(learner: Learner, again: Callable[[], Any]) -> str:
    """Do what a program may do that has caught the exception, and look whether the books are right.
    Returns what was needed.
    """
    try:
        again()
    except CallOrderError as error:
        said = str(error)
        if "call recv first" not in said:
            assert "call reset" in said, said
            for call in (
                learner.vec.recv,
                lambda: learner.vec.send([0]),
                lambda: learner.vec.async_reset(mask=[True] * ENVS),
            ):
                with pytest.raises(CallOrderError, match="call reset"):
                    call()
            return "reset"
        return "recv"
    return "nothing"


BACKENDS: dict[str, dict[str, Any]] = {
    "serial": {"backend": "serial"},
    "many in one": {"backend": ManyInOne, "num_workers": 2},
    "threading": {"backend": "threading", "num_workers": 2},
    "processes": {"backend": "multiprocessing", "num_workers": 2},
    "two halves": {"backend": "serial", "num_buffers": 2},
    "two halves of threads": {
        "backend": "threading",
        "num_buffers": 2,
        "num_workers": 2,
        "split": "envs",
    },
    "ready": {"backend": "threading", "num_workers": 4, "batch_size": 2, "sync_traj": False},
    "first come": {
        "backend": "threading",
        "num_workers": 4,
        "batch_size": 2,
        "sync_traj": False,
        "zero_copy": False,
    },
}
ENV = {"probe": ("probe", {"episode_length": LENGTH}), "python": (Counting, {"length": LENGTH})}
QUICK = [("probe", "serial"), ("probe", "two halves of threads"), ("probe", "first come")]
CASES = [
    (env, name)
    for env in ENV
    for name in BACKENDS
    if env == "probe" or name in ("serial", "processes")
]
PARAMS = [
    (case, 1) if case in QUICK else pytest.param((case, 1), marks=pytest.mark.slow)
    for case in CASES
]
PARAMS += [(("python", name), 3) for name in ("serial", "processes")]


@pytest.fixture(
    params=PARAMS,
    ids=lambda given: ", ".join(given[0]) + (f", one of {given[1]} places" if given[1] > 1 else ""),
)
def learner(request: pytest.FixtureRequest) -> Any:
    (env, name), stride = request.param
    creator, kwargs = ENV[env]
    with puffervec.make(
        creator, env_kwargs=kwargs, num_envs=ENVS, start_method="forkserver", **BACKENDS[name]
    ) as vec:
        learner = Learner(vec)
        learner.stride = stride
        yield learner
        del learner.vec


def all_places(
    learner: Learner, before: Callable[[], Any], call: Callable[[], Any], after: Callable[[], Any]
) -> int:
    """Interrupt `call` at each place, or each `stride`th; `after` must find everything right; then
    a reset must, too.

    Returns how many places.
    """
    at = 0
    while True:
        at += learner.stride
        learner.starts(SEED + at % 2)
        before()
        if not Injector(Raised if learner.python or at % 2 else RaisedError).run(at, call):
            return at
        assert global_random.now.generators is None, "no env is at work"
        after()


@pytest.mark.parametrize("kind", [np.asarray, list])
def test_send(learner: Learner, kind: Callable[[np.ndarray], Any]) -> None:
    """C takes an array as it is; a list is converted first."""

    def after() -> None:
        ids = learner.held[0]
        needed = recovers(learner, lambda: learner.vec.send(np.full(len(ids), 4)))
        if needed == "nothing":
            learner.sent[ids] = 4
        elif needed == "reset":
            return
        learner.held.pop(0)
        learner.recv()
        learner.turn(2)

    def call() -> None:
        learner.vec.send(kind(np.full(len(learner.held[0]), 3)))

    def before() -> None:
        learner.sent[learner.held[0]] = 3

    assert all_places(learner, before, call, after) > (10 if kind is list else 5)


def test_recv(learner: Learner) -> None:
    def after() -> None:
        if recovers(learner, learner.recv) != "reset":
            learner.turn(2)

    def before() -> None:
        learner.turn(2)
        learner.send(3)  # the episodes end, and infos tell

    assert all_places(learner, before, lambda: learner.vec.recv(), after) > 10


@pytest.mark.slow
def test_step(learner: Learner) -> None:
    if learner.vec.num_buffers > 1:
        pytest.skip("step is for one batch")

    def after() -> None:
        needed = recovers(learner, lambda: learner.vec.send(np.full(ENVS, 4)))
        if needed == "nothing":
            learner.sent[:] = 4
        if needed != "reset":
            learner.held.clear()
            learner.recv()
            learner.turn(2)

    def before() -> None:
        learner.sent[:] = 3

    assert all_places(learner, before, lambda: learner.vec.step(np.full(ENVS, 3)), after) > 20


@pytest.mark.slow
@pytest.mark.parametrize("under_way", [False, True])
def test_async_reset(learner: Learner, under_way: bool) -> None:
    """Whatever was asked by it, the next reset is a reset of its own."""
    options = {"a": "b"} if learner.python else None

    def before() -> None:
        if under_way:
            learner.send(3)

    def after() -> None:
        learner.starts(SEED)

    assert (
        all_places(
            learner, before, lambda: learner.vec.async_reset(LATER_SEED, options=options), after
        )
        > 20
    )


@pytest.mark.slow
def test_calls_beside_the_loop(learner: Learner) -> None:
    """They leave the envs as they are, or say that a reset is needed; load says so, or that it was
    not begun.
    """
    vec = learner.vec
    calls: list[Callable[[], Any]] = [lambda: vec.call("told"), lambda: vec.set_attr("label", "x")]
    if not learner.python:
        learner.starts(SEED)
        states = vec.save()
        calls = [vec.save, lambda: vec.peek(1), lambda: vec.load(states)]

    def after() -> None:
        if vec.turns.state[0] == "loaded":
            return
        try:
            learner.turn(3)
        except CallOrderError as error:
            assert "call reset" in str(error)

    for call in calls:
        assert all_places(learner, lambda: None, call, after) > 5


def test_a_load_that_was_broken_off() -> None:
    """All envs are as they were, or all as they were saved, or a reset is needed."""
    with puffervec.make(
        "probe", {}, {"episode_length": 100}, ManyInOne, ENVS, num_workers=2
    ) as vec:
        vec.reset(SEED)
        states, at = vec.save(), 0
        while True:
            at += 1
            vec.reset(LATER_SEED)
            vec.step(np.zeros(ENVS, int))
            if not Injector(Raised).run(at, lambda: vec.load(states)):
                break
            try:
                rows = (
                    vec.recv()[0]
                    if vec.turns.state[0] == "loaded"
                    else vec.step(np.zeros(ENVS, int))[0]
                )
            except CallOrderError as error:
                assert "call reset" in str(error)
                continue
            assert rows[:, [0, 2]].tolist() in (
                [[s + e, t] for e in range(ENVS)] for s, t in ((SEED, 0), (LATER_SEED, 2))
            )
    assert at > 20


def test_the_first_reset_that_was_broken_off_did_not_take_the_seed() -> None:
    """Else the next one would go on with envs that have none."""
    with puffervec.make("probe", backend="serial", num_envs=ENVS, seed=SEED) as vec:
        injector, at = Injector(Raised), 0
        while True:
            at += 1
            with puffervec.make("probe", backend="serial", num_envs=ENVS, seed=SEED) as vec:
                if not injector.run(at, vec.async_reset):
                    break
                rows, _ = vec.reset()
                assert rows[:, 0].tolist() == [SEED + env for env in range(ENVS)], at
    assert at > 20


@pytest.mark.slow
def test_options_that_were_posted_and_not_taken_are_gone() -> None:
    with puffervec.make(Counting, num_envs=2, num_workers=1) as vec:
        injector, at = Injector(Raised), 0
        while injector.run(at := at + 1, lambda: vec.async_reset(0, options={"a": "b"})):
            assert not vec.reset(seed=0)[1], at
        vec.recv()
        with pytest.raises(ConfigError, match="cannot be sent"):
            vec.async_reset(0, options={"a": threading.Lock()})
        vec.step([0, 0])  # as if nothing had been asked


def single(env: Any, verb: str, given: int) -> Any:
    """Step or reset an env of another API; returns the clock of its first row."""
    rows = {"reset": lambda: env.reset(seed=given)[0], "step": lambda: env.step(given)[0]}[verb]()
    return (next(iter(rows.values())) if isinstance(rows, dict) else rows)[7]


def several(env: Any, verb: str, given: int) -> Any:
    """The same of a vector env."""
    if verb == "reset":
        rows = (
            env.reset(seed=given)[0] if isinstance(env, gymnasium.vector.VectorEnv) else env.reset()
        )
    else:
        rows = env.step(np.full(2, given))[0]
    return rows[0][2]


def agents(env: Any, verb: str, given: int) -> Any:
    """The same of a parallel env."""
    result = (
        env.reset(seed=given) if verb == "reset" else env.step(dict.fromkeys(env.agents, given))
    )
    return next(iter(result[0].values()))[7]


def make_counting() -> Counting:
    return Counting(length=100)


def make_sb3() -> Any:
    return pytest.importorskip("puffervec.sb3").make_vec_env(make_counting, 2)


def make_parallel() -> Any:
    return pytest.importorskip("puffervec.pettingzoo").parallel_env("probe", episode_length=100)


SEATS = {
    "gymnasium vector": (lambda: puffervec.gym.AsyncVectorEnv([make_counting] * 2), several),
    "gymnasium sync": (lambda: puffervec.gym.SyncVectorEnv([make_counting] * 2), several),
    "gymnasium env": (lambda: puffervec.gym.NativeEnvView("probe", episode_length=100), single),
    "sb3": (make_sb3, several),
    "pettingzoo": (make_parallel, agents),
}


@pytest.mark.slow
@pytest.mark.parametrize("seat", thinned(2, SEATS))
def test_steps_of_other_apis(seat: str) -> None:
    """None of them skips a step: either the next one is the one that was asked for, or it raises,
    and a reset helps.
    """
    make, do = SEATS[seat]
    env = make()
    at = places = 0
    while places == at:
        at += 1
        do(env, "reset", SEED)
        clock = do(env, "step", 1)
        places += Injector(Raised, lines=False).run(at, lambda: do(env, "step", 2))
        try:
            after = do(env, "step", 3)
        except (CallOrderError, gymnasium.error.ResetNeeded):
            continue
        except gymnasium.error.AlreadyPendingCallError:
            env.step_wait()
            after = do(env, "step", 3) - 1
        assert after == clock + (1 if places == at else 2), at
    assert places > 20
    env.close()


def handle(number: int, frame: FrameType | None) -> None:
    raise Raised


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
def test_signals_at_random_times(backend: str) -> None:
    """Caught outside of the loop, which then goes on; the books lack at most the turn under way."""
    before = signal.signal(signal.SIGVTALRM, handle)
    try:
        with puffervec.make(
            "probe", {}, {"episode_length": LENGTH}, backend, ENVS, num_workers=1
        ) as vec:
            learner = Learner(vec)
            learner.starts(SEED)
            for _ in range(60):
                interrupt_steps(learner, random.uniform(1e-5, 1e-3))
                needed = recovers(learner, lambda: vec.send(np.full(ENVS, 4)))
                if needed == "reset":
                    learner.starts(SEED)
                    continue
                learner.sent[:] = 4 if needed == "nothing" else 3
                learner.recv()
    finally:
        signal.signal(signal.SIGVTALRM, before)


def interrupt_steps(learner: Learner, after_s: float) -> None:
    """Step until a timer's signal raises."""
    learner.sent[:] = 3
    actions = learner.sent.copy()
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, after_s)
        while True:
            rows = learner.vec.step(actions)[0]
            learner.turns[:] = rows[:, 1] * (LENGTH + 1) + rows[:, 2]
    except Raised:
        learner.held.clear()


class Keeping(Count):
    """Keeps whatever actions it gets."""

    def __init__(self) -> None:
        super().__init__(length=1000)
        self.kept: list[Any] = []

    def step(self, action: Any) -> Any:
        self.kept.append(action)
        return super().step(0)


@pytest.mark.slow
@pytest.mark.parametrize("goes_on", [True, False], ids=["with another send", "with a reset"])
def test_native_actions_of_an_interrupted_send_are_never_taken_later(goes_on: bool) -> None:
    at, sent = 0, False
    while not sent:  # what is raised later is raised in the envs, which are in this process
        at += 1
        with puffervec.make(Keeping, num_envs=2, backend="serial") as vec:
            vec.reset(seed=0)
            stepped = len(vec.envs[0].kept)
            if not Injector(Raised).run(at, lambda vec=vec: vec.send(Native(["a", "b"]))):  # type: ignore[misc]
                break
            sent = len(vec.envs[0].kept) > stepped
            if goes_on and not sent:
                with contextlib.suppress(CallOrderError):  # a reset is due
                    vec.send([3, 4])
                    assert vec.get_attr("kept") == ([3], [4])
            vec.reset(seed=1, options={"at": at})
            assert vec.get_attr("options") == ({"at": at},) * 2
            vec.step([1, 2])
            assert [env.kept[-1] for env in vec.envs] == [1, 2]
    assert at > 20
