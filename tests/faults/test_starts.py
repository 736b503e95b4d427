# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A vec env that cannot be made: what is wrong is named, and workers that had started are gone
(limits: tests/limits).
"""

from __future__ import annotations

import functools

import pytest

import puffervec
from puffervec.errors import ConfigError, WorkerDied, WorkerError
from tests.python_envs import Counting, Faulty


@pytest.mark.parametrize("kind", ["value", pytest.param("kill", marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", ["forkserver", pytest.param("spawn", marks=pytest.mark.slow)])
def test_the_second_of_three_workers_fails_at_the_start(kind: str, method: str) -> None:
    creators = [Counting, functools.partial(Faulty, "init", kind), Counting]
    with pytest.raises(WorkerError, match="worker 1") as caught:
        puffervec.make(creators, num_envs=3, num_workers=3, start_method=method)
    assert type(caught.value) is (WorkerError if kind == "value" else WorkerDied)
    assert (caught.value.worker, caught.value.env, caught.value.doing) == (1, 1, "start")


# ---- how envs travel -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_module:make", "No module named 'no_such_module'.*can be imported from here"),
        ("tests.python_envs:Missing", "'tests.python_envs' has no 'Missing'"),
        ("NoSuchEnv-v0", "no env is called 'NoSuchEnv-v0'"),
        ("no_such_env", "no_such_env"),
        ("tests.python_envs:os", "is module: give a callable"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused_in_the_learner(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        puffervec.make(name, num_envs=2, num_workers=2)
