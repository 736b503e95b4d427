# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Beside other programs, learner and workers sleep where they have to wait, and the workers leave
their own cores.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec._ffi import lib
from puffervec.system import load
from puffervec.system.cores import affinity
from puffervec.vec import crowd
from puffervec.vec.vector_env import VectorEnv
from tests.helpers import eventually

CORES = affinity()
two_cores = pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")


@pytest.mark.parametrize(
    ("foreign", "cores", "runners", "before", "answer"),
    [
        (0.0, 2, 3, False, False),
        (0.2, 2, 3, False, False),  # below FULL ...
        (0.2, 2, 3, True, True),  # ... but not yet free
        (0.1, 2, 3, True, False),
        (1.0, 2, 3, False, True),
        (1.0, 2, 2, False, True),  # one worker and a learner that looks again and again
        (20.0, 64, 3, False, False),  # there is room
        (1.0, 64, 65, False, True),
        (1.0, 1, 2, False, True),
    ],
)
def test_crowded_is_too_few_cores_left(
    foreign: float, cores: int, runners: int, before: bool, answer: bool
) -> None:
    assert crowd.crowded(foreign, cores, runners, before) is answer


@pytest.fixture
def vec() -> Iterator[VectorEnv]:
    with puffervec.make("probe", num_envs=4, num_workers=2) as made:
        made.reset(seed=0)
        made.turns.waiter.look_ns = 0  # only the test looks
        yield made


def pretend(vec: VectorEnv, monkeypatch: pytest.MonkeyPatch, foreign: float, cores: int = 2) -> int:
    """Look at a machine on which others use `foreign` of `cores` cores; return where the workers
    are to run then.
    """
    assert vec.turns.crowd is not None
    monkeypatch.setattr(load, "foreign_cores", lambda before, after: foreign)
    vec.turns.crowd.cores = frozenset(range(cores))
    vec.turns.crowd.look()
    vec.turns.waiter.look_ns = 0
    return int(vec.turns.waiter.place)


def places(vec: VectorEnv) -> list[set[int]]:
    vec.step([0] * vec.num_agents)
    return [os.sched_getaffinity(process.pid) for process in vec.processes]


@two_cores
def test_workers_go_to_the_core_that_is_left_and_home_again(
    vec: VectorEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = places(vec)
    place = pretend(vec, monkeypatch, 1.0)
    assert place >= lib.PV_ON_CORE
    assert places(vec) == [{place - lib.PV_ON_CORE}] * 2
    assert pretend(vec, monkeypatch, 1.0) == place, "once there, they stay"
    assert pretend(vec, monkeypatch, 2.0, cores=4) == lib.PV_ANYWHERE
    assert places(vec) == [set(CORES)] * 2
    assert pretend(vec, monkeypatch, 0.0) == lib.PV_HOME
    assert places(vec) == home


def test_the_learner_keeps_its_cores(vec: VectorEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that it starts would inherit a core that it was tied to."""
    pretend(vec, monkeypatch, 2.0)
    places(vec)
    assert sorted(os.sched_getaffinity(0)) == CORES


def test_bytes_do_not_depend_on_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def rollout(loads: list[float]) -> bytes:
        with puffervec.make("tag_grid", num_envs=8, num_workers=2) as made:
            made.reset(seed=3)
            rng, found = np.random.default_rng(0), []
            for turn in range(60):
                if loads:
                    pretend(made, monkeypatch, loads[turn % len(loads)], cores=2 + turn % 2)
                found += [
                    np.asarray(part).tobytes()
                    for part in made.step(rng.integers(0, 5, made.num_agents))[:4]
                ]
            return b"".join(found)

    assert rollout([0.0, 2.0, 1.0, 0.0, 3.0]) == rollout([])


def test_looks_are_rare_and_cost_a_thousandth(
    vec: VectorEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert vec.turns.crowd is not None
    real = lib.pv_now_ns()
    vec.turns.crowd.look()
    assert vec.turns.waiter.look_ns >= real + crowd.LOOK_EVERY_NS
    began = load.Reading(time.monotonic(), 0.0, {})
    slow = load.Reading(began.at_s - 1.0, began.busy_s, {})  # a look that took a second
    monkeypatch.setattr(load, "read", lambda cores, pids, stat: slow)
    vec.turns.crowd.look()
    assert vec.turns.waiter.look_ns >= real + 900 * 10**9


def test_a_look_opens_nothing_and_the_end_closes_what_was_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check that a signal whose handler raises within a look cannot leave a file open."""
    made = puffervec.make("probe", num_envs=4, num_workers=2)
    turns = made.turns
    assert turns.crowd is not None

    def opened(*args: Any, **settings: Any) -> Any:
        raise AssertionError("a look opened a file")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", opened)
        patched.setattr(io, "open", opened)
        turns.crowd.look()
    links = [f"/proc/self/fd/{file}" for file in os.listdir("/proc/self/fd")]
    files = [
        link for link in links if os.path.exists(link) and os.path.realpath(link) == "/proc/stat"
    ]
    made.close()
    assert len(files) >= 1 and sum(os.path.exists(link) for link in files) == len(files) - 1


def test_serial_has_nobody_to_wait_for() -> None:
    with puffervec.make("probe", num_envs=4, backend="serial") as made:
        made.reset(seed=0)
        assert made.turns.crowd is None and made.turns.waiter.look_ns == 0


def test_several_learners_on_a_machine_do_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would take each other's workers for other programs."""
    monkeypatch.setattr(crowd, "quota_sharers", lambda: 2)
    with puffervec.make("probe", num_envs=4, num_workers=2) as made:
        assert made.turns.waiter.look_ns == 0


def test_workers_of_other_vector_envs_are_ours() -> None:
    with (
        puffervec.make("probe", num_envs=2, num_workers=2) as one,
        puffervec.make("probe", num_envs=2, num_workers=2) as two,
    ):
        assert one.turns.crowd is not None and two.turns.crowd is not None
        pids = {process.pid for made in (one, two) for process in made.processes}
        assert pids < one.turns.crowd.own_pids() == two.turns.crowd.own_pids()
    assert not pids & one.turns.crowd.own_pids()


@pytest.mark.slow
@two_cores
def test_a_busy_machine_is_noticed_and_left_again(vec: VectorEnv) -> None:
    """Real neighbours: one busy process for each core. Beside them, waits end in sleep."""
    turns: Any = vec.turns

    def step_until(what: str, done: Any) -> None:
        turns.waiter.look_ns = turns.waiter.look_ns or 1

        def stepped() -> bool:
            for _ in range(100):
                vec.step([0] * vec.num_agents)
            return bool(done())

        eventually(stepped, what)

    with ExitStack() as stack:
        for _ in CORES:
            busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(busy.wait)
            stack.callback(busy.kill)
        step_until("the load to be noticed", lambda: turns.waiter.place != lib.PV_HOME)
        assert turns.crowd.foreign >= crowd.FULL
    if sum(os.getloadavg()[:1]) < 0.5:  # nothing else runs here
        step_until("the workers to go home", lambda: turns.waiter.place == lib.PV_HOME)
