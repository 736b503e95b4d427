# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A vec env that cannot be made: what is wrong is named, and workers that had started are gone (limits: tests/limits)."""

from __future__ import annotations

import functools
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec.errors import ActionError, ConfigError, WorkerDied, WorkerError
from tests.faults.scenarios import MAKERS, Layout, reset
from tests.python_envs import Counting, Faulty


@pytest.mark.parametrize("kind", ["value", pytest.param("kill", marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", ["forkserver", pytest.param("spawn", marks=pytest.mark.slow)])
def test_the_second_of_three_workers_fails_at_the_start(kind: str, method: str) -> None:
    creators = [Counting, functools.partial(Faulty, "init", kind), Counting]
    with pytest.raises(WorkerError, match="worker 1") as caught:
        puffervec.make(creators, num_envs=3, num_workers=3, start_method=method)
    assert type(caught.value) is (WorkerError if kind == "value" else WorkerDied)
    assert (caught.value.worker, caught.value.env, caught.value.doing) == (1, 1, "start")


def test_a_config_that_the_env_refuses_starts_nothing() -> None:
    with pytest.raises(ConfigError, match="num_agents is 0: use 1 to 1024"):
        puffervec.make("probe", env_kwargs={"num_agents": 0}, num_envs=2, num_workers=2)


@MAKERS
def test_a_bad_batch_of_actions_is_refused_and_nothing_is_sent(make: Any) -> None:
    with make(Layout(2), "none", "", start_method="forkserver", timeout_s=60) as vec:
        reset(vec)
        for actions in (np.zeros(3, np.int32), np.full(4, "a"), [[0], [0]], object(), {"agents": [0] * 4}, np.zeros((4, 2))):
            with pytest.raises(ActionError):
                vec.send(actions)
        assert len(vec.step(np.zeros(4, np.int32))[0]) == 4


# ---- how envs travel ---------------------------------------------------------------------------------------


class Holding:
    """A factory that holds what cannot travel."""

    def __init__(self, what: Any) -> None:
        self.what = what

    def __call__(self) -> Any:
        return Counting()

    def __repr__(self) -> str:
        return f"Holding {type(self.what).__name__}"


@pytest.mark.parametrize("what", [threading.Lock(), (i for i in ())], ids=["a lock", "a generator"])
@pytest.mark.parametrize("place", [0, 2])
def test_a_factory_that_cannot_be_pickled_is_named(what: Any, place: int) -> None:
    creators: list[Any] = [Counting, Counting, Counting]
    creators[place] = Holding(what)
    words = f"Holding {type(what).__name__} .*cannot be sent to worker processes .*{type(what).__name__}.*backend='serial'"
    with pytest.raises(ConfigError, match=words):
        puffervec.make(creators, num_envs=3, num_workers=3)


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


@pytest.mark.slow
def test_a_module_that_only_workers_cannot_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It raises there, as one does that lacks a file or a device."""
    (tmp_path / "only_learners.py").write_text(
        "import multiprocessing\n"
        "if multiprocessing.parent_process() is not None:\n"
        "    raise OSError('no licence file')\n"
        "from tests.python_envs import Counting as make\n"
        "class Env(make): pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(WorkerError, match="worker 0(.|\n)*OSError: no licence file") as caught:
        puffervec.make("only_learners:Env", num_envs=2, num_workers=2)
    assert (caught.value.worker, caught.value.doing) == (0, "start")
