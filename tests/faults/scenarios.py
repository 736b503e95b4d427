# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What the fault tests share: how envs are spread, how they fail, what the learner must be told;
scripts in their own group.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from bench.fault_table import end_session, in_session
from puffervec.envs.probe import FAULTS, MOMENTS
from puffervec.errors import WorkerDied, WorkerError, WorkerTimeout
from puffervec.vec.vector_env import VectorEnv
from tests.helpers import eventually
from tests.python_envs import Counting, Faulty

ROOT = Path(puffervec.__file__).resolve().parents[1]
FAULT_STEP = 2
TIMEOUT_S = 1.0  # for workers that hang
SCRIPT_S = 60.0


# ---- how envs are spread -------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Workers and halves. The env that fails is always the last one, which the last worker has."""

    workers: int
    buffers: int = 1
    split: str = "workers"

    @property
    def num_envs(self) -> int:
        """Two per worker."""
        return 2 * self.workers

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of `make`."""
        own = {"num_workers": self.workers, "num_buffers": self.buffers, "split": self.split}
        return {"num_envs": self.num_envs, **own}

    def __str__(self) -> str:
        return f"{self.workers} workers" + (
            f", 2 halves by {self.split}" if self.buffers == 2 else ""
        )


LAYOUTS = [
    Layout(1), Layout(2), Layout(4), Layout(2, 2), Layout(4, 2), Layout(1, 2, "envs"),
    Layout(2, 2, "envs"), Layout(4, 2, "envs"),
]  # fmt: skip


# ---- how envs fail -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """What the exception must be. words: in its first line; trace: in what was kept of the worker's
    last moments.
    """

    kind: type[WorkerError]
    words: str
    signal: str | None = None
    exit_code: int | None = None
    trace: str = ""


C_KINDS = {
    "segv": Told(
        WorkerDied,
        "SIGSEGV (memory fault",
        "SIGSEGV",
        trace="Fatal Python error: Segmentation fault",
    ),
    "abort": Told(WorkerDied, "SIGABRT (abort", "SIGABRT", trace="Fatal Python error: Aborted"),
    "exit": Told(WorkerDied, "exit status 3", exit_code=3),
    "kill": Told(WorkerDied, "SIGKILL", "SIGKILL"),
    "error": Told(WorkerError, "the probe was told to fail"),
    "hang": Told(WorkerTimeout, "", trace="worker_main.py"),
    "spin": Told(WorkerTimeout, "", trace="worker_main.py"),
}
PYTHON_KINDS = {
    "segv": Told(WorkerDied, "SIGSEGV", "SIGSEGV", trace="python_envs.py"),
    "abort": Told(WorkerDied, "SIGABRT", "SIGABRT", trace="python_envs.py"),
    "exit at once": Told(WorkerDied, "exit status 3", exit_code=3),
    "kill": Told(WorkerDied, "SIGKILL", "SIGKILL"),
    "value": Told(WorkerError, "ValueError: told to fail"),
    "hang": Told(WorkerTimeout, "", trace="python_envs.py"),
}
C_PLACES = ("init", "reset", "step", "save", "load", "peek", "poke", "close")
PYTHON_PLACES = ("init", "reset", "step", "call", "close")
DOING = {"init": "start"}


def probe(layout: Layout, kind: str, place: str, **settings: Any) -> VectorEnv:
    """Make C envs of which the last one fails."""
    fault = {
        "fault": FAULTS.index(kind),
        "fault_env": layout.num_envs - 1,
        "fault_step": MOMENTS.get(place, FAULT_STEP),
        "episode_length": 100,
    }
    return puffervec.make(
        "probe", env_kwargs=fault, **{**layout.settings, "timeout_s": TIMEOUT_S, **settings}
    )


def python(layout: Layout, kind: str, place: str, **settings: Any) -> VectorEnv:
    """Make Python envs of which the last one fails."""
    creators: list[Any] = [functools.partial(Counting, length=100)] * (layout.num_envs - 1)
    creators.append(functools.partial(Faulty, place, kind))
    return puffervec.make(creators, **{**layout.settings, "timeout_s": TIMEOUT_S, **settings})


def patience_s(kind: str) -> float:
    """Return a time limit that only a worker which really hangs exceeds, short where one does."""
    return TIMEOUT_S if kind in ("hang", "spin") else 60.0


def reset(vec: VectorEnv) -> None:
    """Reset and receive every half."""
    vec.async_reset(0)
    for _ in range(vec.num_buffers):
        vec.recv()


def step(vec: VectorEnv) -> None:
    """Step every half, all of which are received."""
    for _ in range(vec.num_buffers):
        vec.send(np.zeros(vec.agents_per_batch, np.int32))
    for _ in range(vec.num_buffers):
        vec.recv()


def drive(vec: VectorEnv, place: str) -> None:
    """Do everything up to `place`, where an env fails."""
    reset(vec)
    if place == "step":
        for _ in range(FAULT_STEP):
            step(vec)
    elif place == "save":
        vec.save()
    elif place == "load":
        vec.load(vec.save())
    elif place == "peek":
        vec.peek(vec.num_envs - 1)
    elif place == "poke":
        vec.poke(vec.num_envs - 1, {"step": 1})
    elif place == "call":
        vec.call("told")


def check_told(error: WorkerError, told: Told, layout: Layout, place: str) -> None:
    """Assert that the exception names worker, env, step, what was being done, and what is left of
    the worker's last words.
    """
    worker, env = layout.workers - 1, layout.num_envs - 1
    assert type(error) is told.kind
    first_line = str(error).splitlines()[0]
    assert first_line.startswith(f"worker {worker}") and told.words in first_line
    assert error.worker == worker
    assert error.doing == DOING.get(place, place)
    assert error.env == env
    assert error.step == (FAULT_STEP if place == "step" else None)
    if isinstance(error, WorkerDied):
        assert (error.signal, error.exit_code) == (told.signal, told.exit_code)
        assert told.trace in error.trace
    elif isinstance(error, WorkerTimeout):
        assert told.trace in error.trace


MAKERS = pytest.mark.parametrize(
    "make",
    [
        pytest.param(probe, id="C envs"),
        pytest.param(python, id="Python envs", marks=pytest.mark.slow),
    ],
)


# ---- processes -----------------------------------------------------------------------------------


class Script:
    """A Python script in a session of its own; leaving the with statement kills all processes of
    that session.
    """

    def __init__(self, text: str, *arguments: str, **environ: str) -> None:
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(text), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True, env={**os.environ, "PYTHONPATH": path, **environ},
        )  # fmt: skip
        self.session = self.process.pid

    def line(self) -> str:
        """Return the next line that it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def signal_group(self, number: int) -> None:
        """Send a signal as a terminal does: to the whole group."""
        os.killpg(self.session, number)

    def end(self, given: str = "") -> tuple[int, str, str]:
        """Wait for its end and return (exit status, the rest of its output, its messages)."""
        out, messages = self.process.communicate(given, timeout=SCRIPT_S)
        return self.process.returncode, out, messages

    def nothing_left(self) -> None:
        """Assert that all processes of the session end by themselves; multiprocessing's helpers
        take a moment.
        """
        eventually(lambda: in_session(self.session) == [], "the script's processes to end")

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        end_session(self.session)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


def run_script(text: str, *arguments: str, **environ: str) -> tuple[int, str, str]:
    """Run a script and return (exit status, output, messages); nothing of its session may be left
    after it.
    """
    with Script(text, *arguments, **environ) as script:
        result = script.end()
        script.nothing_left()
        return result
