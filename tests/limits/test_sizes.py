# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Absurd sizes are refused by name, within little CPU time and without memory: no allocation, no
worker, no scene compiled.

What each setting refuses is tested in tests/test_settings.py; here it is what the refusal costs,
for all that has a size.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

import puffervec
from puffervec.core import shared_memory
from puffervec.envs import BUILT_IN
from puffervec.errors import ConfigError
from puffervec.system import memory
from puffervec.workers.process import processes
from tests.helpers import TIME_SCALE
from tests.mock_envs import SINGLE

MOST_CPU_S, MOST_RSS = 0.1 * TIME_SCALE, 10 << 20
ABSURD = [0, -1, 1.5, True, "8", 2**31, 2**40]


def refused(call: Callable[[], Any]) -> str:
    """Call, expect a ConfigError within the bounds and return its text. CPU time is this process's,
    whatever else runs.
    """
    process = psutil.Process()
    before, begin = process.memory_info().rss, time.process_time()
    with pytest.raises(ConfigError) as caught:
        call()
    took, grown = time.process_time() - begin, process.memory_info().rss - before
    assert took < MOST_CPU_S, f"the refusal took {took:.3f} s of CPU time: {caught.value}"
    assert grown < MOST_RSS, f"memory grew by {grown:,} bytes: {caught.value}"
    return str(caught.value)


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where shared memory or a process is made after all; and load once what the first call
    loads.
    """
    puffervec.make("probe", backend="serial").close()

    def never(*args: Any) -> None:
        raise AssertionError("it went on")

    monkeypatch.setattr(processes.WorkerProcesses, "__init__", never)
    monkeypatch.setattr(shared_memory.SharedMemory, "__init__", never)


@pytest.mark.parametrize("value", ABSURD, ids=repr)
@pytest.mark.parametrize("name", ["num_envs", "num_workers"])
def test_of_the_vec_env(name: str, value: Any) -> None:
    given = {"num_envs": 8, "num_workers": 1, name: value}
    said = refused(lambda: puffervec.make("probe", **given))
    assert name in said or f"{value:,} envs" in said


@pytest.mark.parametrize("env", [*BUILT_IN, SINGLE["mixed-dict"]])
def test_the_most_that_is_a_number_does_not_fit(env: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the scenes of the driving env are looked at."""
    monkeypatch.setattr(memory, "available", lambda: memory.Room(32 << 30, "memory of the machine"))
    kwargs = {"num_taggers": 4} if env == "tag_grid" else {}
    if isinstance(env, str):
        puffervec.envs.get(env)  # its import is not part of the refusal
    said = refused(lambda: puffervec.make(env, env_kwargs=kwargs, num_envs=2**31 - 1))
    for word in ("2,147,483,647", "bytes", "are available", "use fewer envs"):
        assert word in said


@pytest.mark.parametrize("size", [0, -1, 7, 2**31, 2**40, True, 1.5, "8"], ids=repr)
def test_of_an_observation(size: Any) -> None:
    assert "obs_size" in refused(lambda: puffervec.make("probe", env_kwargs={"obs_size": size}))


def test_large_observations_of_many_envs() -> None:
    said = refused(
        lambda: puffervec.make(
            "probe", env_kwargs={"obs_size": 65536, "num_agents": 1024}, num_envs=10**5
        )
    )
    assert "100,000 envs need 2" in said and "smaller observations" in said


def test_the_bound_is_the_cgroups_where_that_is_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        memory, "available", lambda: memory.Room(100_000, "cgroup limit memory.max of 1,000,000")
    )
    said = refused(lambda: puffervec.make("probe", num_envs=1000))
    assert "100,000 are available (cgroup limit memory.max of 1,000,000)" in said


# ---- the trainer ---------------------------------------------------------------------------------


def trainer(**train: Any) -> Any:
    """Make a trainer of the probe."""
    from puffervec.train import TrainConfig
    from puffervec.train.run.trainer import Trainer

    config = TrainConfig.of("probe")
    config = dataclasses.replace(
        config, train=dataclasses.replace(config.train, device="cpu", **train)
    )
    return Trainer(config)


@pytest.mark.parametrize("horizon", [0, -1, 1.5, True, "8", 2**31, 2**40, 2**62], ids=repr)
def test_of_a_roll_out(horizon: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import puffervec.train.run.trainer  # noqa: F401  (loading torch is not what is measured)

    monkeypatch.chdir(tmp_path)
    assert "train.horizon" in refused(lambda: trainer(horizon=horizon))
    assert os.listdir(tmp_path) == []


def test_a_minibatch_that_does_not_divide_is_refused_at_once(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next smaller one that does is found without trying all."""
    import puffervec.train.run.trainer  # noqa: F401

    monkeypatch.chdir(tmp_path)
    assert "train.minibatch_size" in refused(
        lambda: trainer(horizon=65536, minibatch_size=2**31 - 1)
    )
