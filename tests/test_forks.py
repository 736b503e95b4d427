# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A process that forks while it has a vector env: the child is told, the parent goes on (puffervec/vec/vector_env.py)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import puffervec
from puffervec.errors import ForkedError
from tests.helpers import action_table, run, serial

pytestmark = [
    pytest.mark.usefixtures("no_leaks"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


def in_child(run_there: object) -> str:
    """Run a function in a forked child and return what it returned, as text; the child ends without any clean-up."""
    near, far = os.pipe()
    child = os.fork()
    if child == 0:
        text = "it raised"
        try:
            text = str(run_there())  # type: ignore[operator]
        finally:
            os.write(far, text.encode())
            os._exit(0)
    os.close(far)
    with os.fdopen(near) as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


@pytest.mark.parametrize("backend", ["serial", "threading", "multiprocessing"])
def test_a_forked_child_is_told_and_the_parent_goes_on(backend: str) -> None:
    with serial("probe", num_envs=4) as vec:
        table = action_table(vec, 20)
        expected = run(vec, 20, table)
    with puffervec.make("probe", backend=backend, num_envs=4) as vec:

        def use() -> list[str]:
            told = []
            calls = (vec.recv, lambda: vec.send([0] * 4), lambda: vec.async_reset(0), vec.save, lambda: vec.peek(0))
            for call in calls:
                try:
                    call()
                except ForkedError as error:
                    told.append(str(error)[:37])
            vec.close()
            vec.close()
            return told

        assert in_child(use) == str(["this vector env of 'probe' belongs to"] * 5)
        vec.reset(7)
        assert in_child(use) == str(["this vector env of 'probe' belongs to"] * 5)
        assert run(vec, 20, table) == expected


SCRIPT = """
import os, sys, puffervec
vec = puffervec.make(%r, num_envs=2, num_workers=2, start_method=%r)
vec.reset(0)
child = os.fork()
if child == 0:
    sys.exit(0)  # runs what is registered for the end of the interpreter
os.waitpid(child, 0)
for _ in range(3):
    vec.step([0, 0])
vec.close()
print("fine")
"""


@pytest.mark.parametrize(("env", "method"), [("probe", "spawn"), ("probe", "fork"), ("CartPole-v1", "forkserver")])
def test_a_child_that_exits_leaves_the_workers_to_the_parent(env: str, method: str) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT % (env, method)], capture_output=True, text=True, timeout=100)
    assert (done.stderr, done.stdout) == ("", "fine\n")
