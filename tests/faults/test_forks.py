# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Vec envs and forks: one that is used in a forked child says so and the parent goes on; one inside
a worker.
"""

from __future__ import annotations

import functools
import gc
import multiprocessing
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import puffervec
from puffervec.vec.vector_env import VectorEnv
from tests.faults.scenarios import LAYOUTS, MAKERS, Layout, python, reset, run_script, step
from tests.python_envs import Counting

Make = Callable[..., VectorEnv]
CALLS: dict[str, Callable[[VectorEnv], Any]] = {
    "recv": lambda vec: vec.recv(),
    "send": lambda vec: vec.send([0] * vec.agents_per_batch),
    "step": lambda vec: vec.step([0] * vec.agents_per_batch),
    "reset": lambda vec: vec.async_reset(0),
    "save": lambda vec: vec.save(),
    "peek": lambda vec: vec.peek(0),
    "poke": lambda vec: vec.poke(0, {}),
    "call": lambda vec: vec.call("told"),
}


def in_fork(work: Callable[[], Any]) -> str:
    """Fork, run `work` in the child and return what it raised, "Name: text", or ""."""
    near, far = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = ""
            try:
                work()
                gc.collect()
            except BaseException as error:
                said = "".join(traceback.format_exception_only(error))
            os.write(far, said.encode())
        finally:
            os._exit(0)
    os.close(far)
    with open(near, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(pid, 0)
    return said


@MAKERS
@pytest.mark.parametrize(
    "layout",
    [
        layout if layout == Layout(2) else pytest.param(layout, marks=pytest.mark.slow)
        for layout in LAYOUTS
    ],
    ids=str,
)
def test_calls_in_a_forked_child_are_refused_and_the_parent_goes_on(
    make: Make, layout: Layout
) -> None:
    with make(layout, "none", "", start_method="forkserver", timeout_s=60) as vec:
        reset(vec)
        for name, call in CALLS.items():
            if name in ({"save", "peek", "poke"} if make is python else {"call"}) or (
                name == "step" and layout.buffers > 1
            ):
                continue
            said = in_fork(lambda call=call: call(vec))
            assert "ForkedError" in said, name
            assert "make" in said, name
            step(vec)
        assert in_fork(vec.close) == ""
        step(vec)


@pytest.mark.slow
@MAKERS
def test_a_forked_child_that_ends_takes_no_worker_along(make: Make) -> None:
    """By an ordinary end, with finalizers and exit handlers, of a process that multiprocessing
    forked.
    """

    def child(vec: VectorEnv) -> None:
        vec.close()

    with make(Layout(2), "none", "", start_method="forkserver", timeout_s=60) as vec:
        reset(vec)
        for target in (child, print):
            process = multiprocessing.get_context("fork").Process(
                target=target, args=(vec,) if target is child else ()
            )
            process.start()
            process.join()
            assert process.exitcode == 0
            process.close()
            step(vec)


@pytest.mark.parametrize(("env", "method"), [("probe", "spawn"), ("CartPole-v1", "forkserver")])
def test_a_child_that_exits_leaves_the_workers_to_the_parent(env: str, method: str) -> None:
    text = """
        import os, sys
        import puffervec

        vec = puffervec.make(sys.argv[1], num_envs=2, num_workers=2, start_method=sys.argv[2])
        vec.reset(0)
        child = os.fork()
        if child == 0:
            sys.exit(0)  # runs what is registered for the end of the interpreter
        os.waitpid(child, 0)
        vec.step([0, 0])
        vec.close()
        print("fine")
    """
    assert run_script(text, env, method) == (0, "fine\n", "")


@pytest.mark.slow
def test_a_child_makes_its_own() -> None:
    text = """
        import os, sys
        import puffervec

        vec = puffervec.make("probe", num_envs=2, num_workers=2, start_method=sys.argv[1])
        vec.reset(0)
        pid = os.fork()
        with puffervec.make("probe", num_envs=2, num_workers=2, start_method=sys.argv[1]) as own:
            own.reset(5)
            shown = own.step([1, 2])[0][:, [0, 4]].tolist()
            assert shown == [[5, 1], [6, 2]], shown
        if pid:
            assert os.waitpid(pid, 0)[1] == 0
            print(vec.step([3, 4])[0][:, 4].tolist())
            vec.close()
    """
    for method in ("spawn", "fork"):
        assert run_script(text, method) == (0, "[3.0, 4.0]\n", ""), method


# ---- vec envs inside of workers ------------------------------------------------------------------


class Nested(Counting):
    """Has a vec env of its own inside."""

    def __init__(self, backend: str, **settings: Any) -> None:
        super().__init__()
        self.inner: Any = None
        if multiprocessing.parent_process() is not None:  # the one in the learner is only looked at
            self.inner = puffervec.make("probe", backend=backend, **settings)
            self.inner.reset(0)

    def step(self, action: Any) -> Any:
        self.inner.step([action])
        return super().step(action)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
def test_a_vec_env_inside_of_a_worker_works(backend: str) -> None:
    with puffervec.make(Nested, [backend], num_envs=2, num_workers=2) as vec:
        vec.reset(seed=0)
        assert vec.step([1, 2])[0][:, 3].tolist() == [1, 2]


def test_a_forked_worker_can_fork_workers() -> None:
    settings = {"num_envs": 1, "start_method": "fork", "timeout_s": 20}
    with puffervec.make(
        Nested, ["multiprocessing"], env_kwargs={"start_method": "fork"}, **settings
    ) as vec:
        vec.reset(seed=0)
        assert vec.step([1])[0][:, 3].tolist() == [1]


class Garbage:
    """Is in a circle, so that only the garbage collector destroys it; notes where that was."""

    def __init__(self, log: Path) -> None:
        self.circle, self.log = self, log

    def __del__(self) -> None:
        with self.log.open("a") as file:
            file.write(f"{os.getpid()}\n")


class Collecting(Counting):
    """In a worker, collects the garbage that it finds, then some of its own."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        if multiprocessing.parent_process() is not None:
            gc.collect()
            Garbage(log.with_suffix(".own"))
            gc.collect()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_destroys_its_own_garbage_and_none_of_the_learners(
    tmp_path: Path, method: str
) -> None:
    """What the learner holds may wait for threads when it is destroyed, and in a forked worker
    those would never answer.
    """
    log = tmp_path / "destroyed"
    threshold = gc.get_threshold()
    envs = [functools.partial(Collecting, log)] * 2
    gc.collect()
    try:
        gc.set_threshold(
            100_000, 10, 10
        )  # so that the garbage is still there when the workers start
        Garbage(log)
        with puffervec.make(
            envs, num_envs=2, num_workers=2, start_method=method, timeout_s=60
        ) as vec:
            vec.reset(seed=0)
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert log.read_text().split() == [str(os.getpid())]
    assert len(set(log.with_suffix(".own").read_text().split())) == 2
