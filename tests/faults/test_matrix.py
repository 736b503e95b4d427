# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Every way of failing, in every call, however envs are spread over workers and halves: one
exception that names it.

The whole grid is slow; a row of it runs every time.
"""

from __future__ import annotations

import functools
import itertools
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

import puffervec
from puffervec.errors import ClosedError, WorkerDied, WorkerError, WorkerTimeout
from puffervec.vec.vector_env import VectorEnv
from tests.faults.scenarios import (
    C_KINDS,
    C_PLACES,
    LAYOUTS,
    MAKERS,
    PYTHON_KINDS,
    PYTHON_PLACES,
    Layout,
    check_told,
    drive,
    patience_s,
    probe,
    python,
    reset,
    step,
)
from tests.python_envs import Faulty

Make = Callable[..., VectorEnv]
ALWAYS = {  # what runs without being asked for: (kind, place, layout), or (signal, layout)
    ("segv", "save", Layout(2)), ("kill", "load", Layout(2)), ("exit", "peek", Layout(2)),
    ("segv", "close", Layout(2)), ("kill", "poke", Layout(2)),
    ("kill", "step", Layout(4, 2, "envs")), ("kill", "call", Layout(2, 2)),
    ("abort", "step", Layout(2)), ("SIGKILL", Layout(4, 2, "envs")),
}  # fmt: skip
SIGNALS = ("SIGKILL", "SIGSEGV", "SIGTERM", "SIGBUS", "SIGFPE")


def grid(*axes: Any) -> list[Any]:
    return [
        pytest.param(
            *cell, id="-".join(map(str, cell)), marks=[] if cell in ALWAYS else [pytest.mark.slow]
        )
        for cell in itertools.product(*axes, LAYOUTS)
    ]


def fail_in(make: Make, told: Any, kind: str, place: str, layout: Layout) -> None:
    settings = {"start_method": "forkserver", "timeout_s": patience_s(kind)}
    if place == "init":
        with pytest.raises(WorkerError) as caught:
            make(layout, kind, place, **settings)
        check_told(caught.value, told, layout, place)
        return
    with make(layout, kind, place, **settings) as vec:
        if place == "close":
            reset(vec)
        else:
            with pytest.raises(WorkerError) as caught:
                drive(vec, place)
            check_told(caught.value, told, layout, place)
            if (
                place != "call" or told.kind is not WorkerError
            ):  # an error in a call is the end of that call only
                with pytest.raises(told.kind, match="cannot go on: close it"):
                    vec.async_reset(0)
    with pytest.raises(ClosedError):
        vec.recv()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "place", "layout"), grid(C_KINDS, C_PLACES))
def test_c_envs(kind: str, place: str, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    short_start(monkeypatch, kind)
    fail_in(probe, C_KINDS[kind], kind, place, layout)


@pytest.mark.parametrize(("kind", "place", "layout"), grid(PYTHON_KINDS, PYTHON_PLACES))
def test_python_envs(
    kind: str, place: str, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_start(monkeypatch, kind)
    fail_in(python, PYTHON_KINDS[kind], kind, place, layout)


def short_start(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Workers may take long to start, since envs may load much; here not."""
    from puffervec.vec import workers

    if patience_s(kind) < workers.START_TIMEOUT_S:
        monkeypatch.setattr(workers, "START_TIMEOUT_S", 3 * patience_s(kind))


# ---- from outside --------------------------------------------------------------------------------


@pytest.mark.slow
@MAKERS
@pytest.mark.parametrize(("name", "layout"), grid(SIGNALS))
def test_a_signal_from_outside_while_idle(make: Make, name: str, layout: Layout) -> None:
    with make(layout, "none", "", start_method="forkserver", timeout_s=60) as vec:
        reset(vec)
        step(vec)
        process = vec.processes[-1]
        os.kill(process.pid, signal.Signals[name])
        process.join()
        with pytest.raises(
            WorkerDied, match=f"worker {layout.workers - 1} was ended by {name}"
        ) as caught:
            step(vec)
        assert (caught.value.worker, caught.value.signal, caught.value.exit_code) == (
            layout.workers - 1,
            name,
            None,
        )
        assert caught.value.doing in (
            "idle",
            "step",
        )  # the command is there, though nobody has taken it


@pytest.mark.slow
@MAKERS
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_stopped_worker_is_a_timeout(make: Make, layout: Layout) -> None:
    with make(layout, "none", "", start_method="forkserver", timeout_s=0.5) as vec:
        reset(vec)
        os.kill(vec.processes[-1].pid, signal.SIGSTOP)
        with pytest.raises(WorkerTimeout, match=rf"worker {layout.workers - 1} .*0\.5 s") as caught:
            step(vec)
        assert caught.value.worker == layout.workers - 1


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [("value", "kill"), ("kill", "value")], ids=str)
def test_two_failures_at_once_are_one_exception(kinds: tuple[str, str]) -> None:
    """Whichever is told of: it names its own worker, and no second one follows when closing."""
    creators = [functools.partial(Faulty, "step", kind) for kind in kinds]
    with puffervec.make(creators, num_envs=2, num_workers=2) as vec:
        with pytest.raises(WorkerError) as caught:
            drive(vec, "step")
        assert caught.value.worker in (0, 1)
        expected = {"value": "ValueError: told to fail", "kill": "SIGKILL"}[
            kinds[caught.value.worker]
        ]
        assert expected in str(caught.value)
