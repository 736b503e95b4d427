# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Random sequences of calls of a vec env, right and wrong ones, with faults, compared call by call
with `Serial`.

Each sequence makes the same calls of a vec env with workers and of one without: rows must be equal
byte for byte, and refusals must be of one kind with the same words. PV_FUZZ_SEQUENCES sets how many
of them the slow test makes (`make fuzz`: 10,000).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import puffervec
from puffervec.envs.probe import FAULTS
from puffervec.errors import ClosedError, PuffervecError, WorkerError
from puffervec.vec.vector_env import VectorEnv
from tests.cases import CASES, Case

ENVS = 4
SEQUENCES = int(os.environ.get("PV_FUZZ_SEQUENCES", "300"))
BATCH = 500
SMALL = [case for case in CASES if case.env != "drive"]
SEEDS = st.integers(0, 5)


def plain(value: Any) -> Any:
    """Return a result so that `==` compares bytes: arrays become (dtype, shape, bytes)."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def listed(rows: tuple[Any, ...]) -> list[Any]:
    """What recv or step returns, with the infos as a list of dicts."""
    return [*rows[:4], list(rows[4]), *rows[5:]]


class VectorMachine(RuleBasedStateMachine):
    """Rules are calls; `_both` makes them of both vec envs. Subclasses say how the one with workers
    is made.
    """

    way: ClassVar[dict[str, Any]] = {}

    @initialize(
        case=st.sampled_from(SMALL), buffers=st.sampled_from([1, 1, 2]),
        split=st.sampled_from(["workers", "envs"]),
        mode=st.sampled_from(["next_step", "same_step", "disabled"]), copy=st.booleans(),
        strict=st.booleans(), fault=st.sampled_from([0, 0, 0, FAULTS.index("error")]),
        fault_env=st.integers(0, ENVS - 1), fault_step=st.integers(-1, 6),
    )  # fmt: skip
    def make(
        self, case: Case, buffers: int, split: str, mode: str, copy: bool, strict: bool, fault: int,
        fault_env: int, fault_step: int,
    ) -> None:  # fmt: skip
        kwargs = dict(case.kwargs)
        if case.env == "probe":
            kwargs |= {"fault": fault, "fault_env": fault_env, "fault_step": fault_step}
        shared = {
            "num_envs": ENVS,
            "num_buffers": buffers,
            "autoreset_mode": mode,
            "copy": copy,
            "strict": strict,
            "seed": 3,
        }
        shared |= {"split": split} if buffers > 1 else {}
        self.buffers = buffers
        self.oracle: VectorEnv = puffervec.make(
            case.env, env_kwargs=kwargs, backend="serial", **shared
        )
        self.vec: VectorEnv = puffervec.make(
            case.env, env_kwargs=kwargs, num_workers=2, **self.way, **shared
        )
        self.saved: list[list[bytes]] = []
        self.views: list[Any] = []

    def teardown(self) -> None:
        if hasattr(self, "vec"):
            for vec in (self.oracle, self.vec):
                vec.close()
                vec.close()
            plain(self.views)  # what was returned stays readable

    def _both(self, call: Callable[[VectorEnv], Any]) -> Any:
        """Make a call of both and compare; returns its result, or None where both refused it."""
        found = []
        for vec in (self.oracle, self.vec):
            try:
                result = call(vec)
                found.append((None, "", plain(result), result))
            except PuffervecError as error:
                # which worker it was is not the same; the env is
                words = "" if isinstance(error, WorkerError) else str(error)
                found.append((type(error), words, None, None))
        assert found[0][:3] == found[1][:3]
        return found[1][3]

    @property
    def closed(self) -> bool:
        return self.vec.turns.state[0] == "closed"

    def _actions(self, vec: VectorEnv, draw: int, wild: bool) -> Any:
        """Actions of a half for any number of groups; some out of range where `wild`."""
        rng, given = np.random.default_rng(draw), {}
        for name, rows in vec.halves[vec.turns.send_half].groups.items():
            high = int(min(rows.spec.action_sizes))
            low, high = (-2, high + 2) if wild else (0, high)
            given[name] = rng.integers(low, high, rows.actions.shape).astype(rows.spec.action_dtype)
        return given if len(given) > 1 else next(iter(given.values()))

    # ---- the loop --------------------------------------------------------------------------------

    @precondition(lambda self: self.buffers == 1)
    @rule(seed=st.none() | SEEDS | st.lists(st.none() | SEEDS, min_size=ENVS, max_size=ENVS))
    def reset(self, seed: Any) -> None:
        self._both(lambda vec: vec.reset(seed)[0])

    @rule(seed=st.none() | SEEDS)
    def async_reset(self, seed: Any) -> None:
        self._both(lambda vec: vec.async_reset(seed))

    @rule(mask=st.lists(st.booleans(), min_size=ENVS, max_size=ENVS), seed=st.none() | SEEDS)
    def reset_masked(self, mask: list[bool], seed: Any) -> None:
        self._both(lambda vec: vec.async_reset(seed, mask=np.array(mask)))

    @rule(draw=st.integers(0, 1000), wild=st.booleans())
    def send(self, draw: int, wild: bool) -> None:
        self._both(lambda vec: vec.send(self._actions(vec, draw, wild)))

    @rule()
    def recv(self) -> None:
        result = self._both(lambda vec: listed(vec.recv()))
        self.views += [] if result is None else [result[0]]

    @precondition(lambda self: self.buffers == 1)
    @rule(draw=st.integers(0, 1000), count=st.integers(1, 6))
    def steps(self, draw: int, count: int) -> None:
        for index in range(draw, draw + count):
            self._both(lambda vec, at=index: listed(vec.step(self._actions(vec, at, False))))  # type: ignore[misc]

    # ---- beside the loop -------------------------------------------------------------------------

    @rule(env=st.integers(-1, ENVS))
    def peek(self, env: int) -> None:
        self._both(lambda vec: vec.peek(env))

    @rule(
        env=st.integers(-1, ENVS),
        name=st.sampled_from(["step", "episode", "clock", "left"]),
        value=st.integers(-1, 12),
    )
    def poke(self, env: int, name: str, value: int) -> None:
        self._both(lambda vec: vec.poke(env, {name: value}))

    @rule()
    def save(self) -> None:
        found = self._both(lambda vec: vec.save())
        self.saved += [] if found is None else [found]

    @precondition(lambda self: self.saved)
    @rule(
        which=st.integers(0, 1000),
        change=st.sampled_from(["", "", "", "fewer", "shorter", "turned"]),
    )
    def load(self, which: int, change: str) -> None:
        states = list(self.saved[which % len(self.saved)])
        states = {
            "fewer": states[:-1],
            "shorter": [*states[:-1], states[-1][:-1]],
            "turned": states[::-1],
        }.get(change, states)
        self._both(lambda vec: vec.load(states))

    @precondition(
        lambda self: "sent" not in self.vec.turns.state
    )  # else it is open which turn sees it first
    @rule(ids=st.lists(st.integers(-1, ENVS), max_size=3), task=st.integers(-2, 3))
    def set_tasks(self, ids: list[int], task: int) -> None:
        self._both(lambda vec: vec.set_tasks(ids, task))

    @rule(which=st.integers(0, 9))
    def mistake(self, which: int) -> None:
        """A call that cannot be meant, refused by both in the same words."""
        wrong: list[Callable[[VectorEnv], Any]] = [
            lambda vec: vec.send(np.zeros(3)),
            lambda vec: vec.send(None if vec.rows.single else {}), lambda vec: vec.send("left"),
            lambda vec: vec.send(np.full((ENVS, 3), np.nan)), lambda vec: vec.async_reset(-1),
            lambda vec: vec.async_reset("x"),
            lambda vec: vec.async_reset(mask=np.zeros(ENVS, bool)),
            lambda vec: vec.async_reset(options={"x": 1}), lambda vec: vec.load([]),
            lambda vec: vec.peek("0"),
        ]  # fmt: skip
        self._both(wrong[which])

    @rule()
    def close(self) -> None:
        self._both(lambda vec: vec.close())

    @precondition(lambda self: self.closed)
    @rule()
    def use_after_close(self) -> None:
        for vec in (self.oracle, self.vec):
            with pytest.raises(ClosedError):
                vec.recv()

    @invariant()
    def what_stands_in_the_halves_is_equal(self) -> None:
        if (
            not hasattr(self, "vec")
            or self.closed
            or self.vec.turns.broken
            or self.oracle.turns.broken
        ):
            return
        assert self.vec.turns.state == self.oracle.turns.state
        if "sent" not in self.vec.turns.state:
            assert self.vec.counters() == self.oracle.counters()


class Threads(VectorMachine):
    way = {"backend": "threading"}


class Processes(VectorMachine):
    way = {"backend": "multiprocessing"}


def profile(sequences: int, steps: int, fixed: bool = True) -> settings:
    """Settings of one run: as many sequences, each of at most so many calls; what fails prints how
    to repeat it.
    """
    return settings(
        max_examples=sequences, stateful_step_count=steps, deadline=None, print_blob=True,
        database=None, derandomize=fixed, suppress_health_check=list(HealthCheck),
    )  # fmt: skip


@pytest.mark.slow
def test_threads_behave_as_serial(no_leaks: None) -> None:
    run_state_machine_as_test(Threads, settings=profile(30, 15))


def test_processes_behave_as_serial(no_leaks: None) -> None:
    run_state_machine_as_test(Processes, settings=profile(2, 15))


@pytest.mark.slow
def test_many_sequences_of_threads(no_leaks: None) -> None:
    """In batches: Hypothesis remembers what it has tried, and so grows with the number of
    sequences.
    """
    for first in range(0, SEQUENCES, BATCH):
        run_state_machine_as_test(
            Threads, settings=profile(min(BATCH, SEQUENCES - first), 50, fixed=False)
        )
