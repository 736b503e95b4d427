# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Settings of a vec env (puffervec/vec/settings.py): refusals name the value and what is allowed,
before anything starts.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import psutil
import pytest

import puffervec
from puffervec.errors import ConfigError
from puffervec.vec import settings
from puffervec.workers.process import processes

REFUSED: list[tuple[dict[str, Any], list[str]]] = [
    ({"backend": "cluster"}, ["backend", "'cluster'", "serial", "threading", "multiprocessing"]),
    ({"backend": int}, ["backend", "int", "serial"]),
    ({"num_envs": 0}, ["num_envs", "0", "use 1 to"]),
    ({"num_envs": 1.5}, ["num_envs", "1.5", "whole number"]),
    ({"num_envs": True}, ["num_envs", "True", "whole number"]),
    ({"num_envs": 2**31}, ["num_envs", "2,147,483,648", "2,147,483,647"]),
    ({"num_envs": 2**31 - 1, "num_workers": 1}, ["2,147,483,647 envs", "bytes", "use fewer envs"]),
    ({"num_envs": 2**31 - 1, "num_workers": 2**31 - 1}, ["num_workers", "2,147,483,647"]),
    ({"num_envs": 8, "num_workers": 0}, ["num_workers", "0", "use 1 to"]),
    ({"num_envs": 8, "num_workers": "two"}, ["num_workers", "'two'", "'auto'"]),
    ({"num_envs": 2, "num_workers": 3}, ["num_workers", "3", "2 envs", "at most 2"]),
    (
        {"num_envs": 4, "num_workers": 3, "num_buffers": 2, "split": "envs"},
        ["num_workers", "3", "4 envs", "2 buffer", "at most 2"],
    ),
    (
        {"num_envs": 4, "num_workers": 3, "num_buffers": 2, "split": "workers"},
        ["num_workers", "3", "multiple", "split='envs'"],
    ),
    ({"num_envs": 3, "num_buffers": 2}, ["num_envs", "3", "multiple"]),
    ({"num_buffers": 257}, ["num_buffers", "257", "1 to 256"]),
    (
        {"num_envs": 4, "num_buffers": 2, "split": "rows"},
        ["split", "'rows'", "'auto'", "'workers'", "'envs'"],
    ),
    ({"pin": "yes"}, ["pin", "'yes'", "'auto'", "True"]),
    ({"timeout_s": 0}, ["timeout_s", "0", "greater than 0"]),
    ({"timeout_s": float("nan")}, ["timeout_s", "nan"]),
    ({"timeout_s": "1"}, ["timeout_s", "'1'"]),
    ({"strict": "no"}, ["strict", "'no'", "True or False"]),
    ({"copy": 1}, ["copy", "1", "True or False"]),
    ({"start_method": "thread"}, ["start_method", "'thread'", "spawn", "forkserver", "fork"]),
    ({"seed": -1}, ["seed", "-1", "0 to"]),
    ({"seed": 2**63}, ["seed", "9223372036854775808", "0 to"]),
    ({"num_envs": 2, "seed": [1]}, ["seed", "1 entries", "2 envs"]),
    (
        {"backend": "serial", "num_envs": 4, "num_workers": 2},
        ["num_workers", "2", "serial", "'auto'"],
    ),
]


@pytest.mark.parametrize(("given", "words"), REFUSED, ids=str)
def test_unusable_settings_are_refused_before_anything_starts(
    given: dict[str, Any], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: Any) -> None:
        raise AssertionError("a worker was started")

    monkeypatch.setattr(processes.WorkerProcesses, "__init__", never)
    before = psutil.Process().memory_info().rss
    with pytest.raises(ConfigError) as caught:
        puffervec.make("probe", **given)
    for word in words:
        assert word in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert psutil.Process().memory_info().rss - before < 50 << 20


def test_numpy_numbers_are_whole_numbers() -> None:
    with puffervec.make(
        "probe",
        backend="threading",
        num_envs=np.int64(4),
        num_workers=np.int32(2),
        seed=np.uint8(3),
    ) as vec:
        assert (vec.num_envs, vec.num_workers) == (4, 2)
        assert vec.reset()[0][:, 0].tolist() == [3, 4, 5, 6]


@pytest.mark.parametrize(
    ("cores", "envs", "given", "expected"),
    [
        (1, 100, {}, 1),
        (4, 100, {}, 4),
        (4, 3, {}, 3),
        (4, 100, {"num_buffers": 2, "split": "workers"}, 8),
        (4, 6, {"num_buffers": 2, "split": "workers"}, 6),
        (4, 100, {"num_buffers": 2, "split": "envs"}, 4),
        (4, 6, {"num_buffers": 2, "split": "envs"}, 3),
        (2, 12, {"batch_size": 12}, 2),
        (2, 12, {"batch_size": 6}, 4),  # two batches: one half works while the other waits
        (4, 12, {"batch_size": 6}, 6),  # 3 divides 6, 4 does not
        (1, 12, {"batch_size": 6}, 2),
        (4, 12, {"batch_size": 4}, 3),  # a worker for each of many batches
        (2, 12, {"batch_size": "auto"}, 4),
        (2, 12, {"batch_size": 4, "sync_traj": False, "zero_copy": False}, 3),
        # two for each third, four cores in all
        (4, 12, {"num_buffers": 3, "split": "workers"}, 6),
        (8, 12, {"num_buffers": 3, "split": "workers"}, 9),
        (4, 12, {"in_process": True}, 1),
        (4, 12, {"num_buffers": 2, "in_process": True}, 2),
        (4, 12, {"batch_size": 4, "in_process": True}, 3),
    ],
)
def test_auto_takes_the_usable_cores(
    cores: int, envs: int, given: dict[str, Any], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "usable_cores", lambda: cores)
    assert check(num_envs=envs, **given).num_workers == expected


@pytest.mark.parametrize(
    ("cores", "envs", "given", "workers", "split"),
    [
        (1, 100, {}, 1, "envs"),
        (2, 100, {}, 2, "envs"),  # four workers would take the two cores from each other
        (4, 6, {}, 3, "envs"),
        (6, 6, {}, 6, "workers"),  # each of the six workers has a core
        (2, 2, {}, 2, "workers"),
        (4, 12, {"num_buffers": 3}, 4, "envs"),
        (12, 12, {"num_buffers": 3}, 12, "workers"),
        (2, 100, {"num_workers": 2}, 2, "envs"),
        (2, 100, {"num_workers": 3}, 3, "envs"),  # not a multiple of the halves
        (2, 100, {"num_workers": 4}, 4, "workers"),  # two for each half, as many as cores
        (8, 4, {"num_workers": 4}, 4, "workers"),  # a half has two envs
        (2, 100, {"split": "workers"}, 4, "workers"),
        (6, 6, {"split": "envs"}, 3, "envs"),
        (2, 100, {"num_buffers": 1}, 2, "workers"),
        (2, 100, {"in_process": True}, 2, "workers"),
        (2, 12, {"num_buffers": 1, "batch_size": 6}, 4, "workers"),
    ],
)
def test_auto_splits_by_workers_only_where_these_have_a_core_each(
    cores: int,
    envs: int,
    given: dict[str, Any],
    workers: int,
    split: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings, "usable_cores", lambda: cores)
    found = check(num_envs=envs, **{"num_buffers": 2, **given})
    assert (found.num_workers, found.split) == (workers, split)


def test_a_vec_env_shows_the_split_that_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "usable_cores", lambda: 2)
    for workers, split in (("auto", "envs"), (4, "workers")):
        with puffervec.make(
            "probe", backend="threading", num_envs=8, num_buffers=2, num_workers=workers
        ) as vec:
            assert vec.split == split and f"split={split!r}" in repr(vec)


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="needs a system that ties processes to cores"
)
def test_auto_starts_a_worker_per_core_that_this_process_may_use(no_leaks: None) -> None:
    before = os.sched_getaffinity(0)
    try:
        for usable in ({min(before)}, set(sorted(before)[:2])):
            os.sched_setaffinity(0, usable)
            with puffervec.make("probe", num_envs=5, num_workers="auto") as vec:
                assert [os.sched_getaffinity(worker.pid) for worker in vec.processes] == [
                    {core} for core in sorted(usable)
                ]
                assert vec.num_workers == len(usable)
                assert vec.reset(seed=3)[0][:, 0].tolist() == [3, 4, 5, 6, 7]
    finally:
        os.sched_setaffinity(0, before)


def check(**given: Any) -> settings.VectorSettings:
    defaults = {
        "num_envs": 1, "num_workers": "auto", "num_buffers": 1, "split": "auto", "seed": 0,
        "pin": "auto", "strict": False, "copy": False, "timeout_s": 60.0, "start_method": "spawn",
        "in_process": False,
    }  # fmt: skip
    return settings.check_settings(**{**defaults, **given})


def test_workers_are_pinned_when_they_have_a_core_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "usable_cores", lambda: 2)
    monkeypatch.setattr(settings, "affinity", lambda: [3, 5])
    assert check(num_envs=8, num_workers=2).cores == (3, 5)
    assert check(num_envs=8, num_workers=3).cores == (None, None, None)
    assert check(num_envs=8, num_workers=3, pin=True).cores == (3, 5, 3)
    assert check(num_envs=8, num_workers=2, pin=False).cores == (None, None)
    assert check(num_envs=8, in_process=True).cores == (None,)


def test_a_pinned_worker_runs_on_its_core(no_leaks: None) -> None:
    core = sorted(os.sched_getaffinity(0))[-1]
    with puffervec.make("probe", num_workers=1, pin=True) as vec:
        vec.reset(seed=0)  # a worker pins itself before it opens its envs
        expected = sorted(os.sched_getaffinity(0))[0]
        assert os.sched_getaffinity(vec.workers.group.processes[0].pid) == {expected}
    with puffervec.make("probe", num_workers=1, pin=False) as vec:
        vec.reset(seed=0)
        assert core in os.sched_getaffinity(vec.workers.group.processes[0].pid)


# ---- seeds ---------------------------------------------------------------------------------------


def test_env_seeds() -> None:
    assert settings.env_seeds(10, 3).tolist() == [10, 11, 12]
    assert settings.env_seeds(2**63 - 1, 2).tolist() == [2**63 - 1, 2**63]
    assert settings.env_seeds([5, 5, 0], 3).tolist() == [5, 5, 0]
    assert settings.env_seeds((7,), 1).tolist() == [7]
    assert settings.env_seeds(np.array([1, 2], np.uint64), 2).tolist() == [1, 2]
    assert settings.env_seeds([2**63 - 1], 1).dtype == np.uint64


@pytest.mark.parametrize(
    "seed", [-1, 2**63, 1.0, "x", True, [1], [1, 2, 3], [1, -1], np.zeros((2, 2), int)], ids=str
)
def test_unusable_seeds_leave_the_vec_env_as_it_is(seed: Any) -> None:
    with puffervec.make("probe", backend="serial", num_envs=2) as vec:
        vec.reset(seed=4)
        vec.step([1, 1])
        before = vec.halves[0].block.copy()
        with pytest.raises(ConfigError, match="seed"):
            vec.async_reset(seed)
        assert (vec.halves[0].block == before).all()
        vec.step([1, 1])  # still in order


def test_who_waits_pauses_only_where_it_has_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    for workers, pauses in ((3, 0), (4, 1)):
        monkeypatch.setattr(settings, "usable_cores", lambda: 4)
        with puffervec.make("probe", backend="threading", num_envs=8, num_workers=workers) as vec:
            assert vec.turns.waiter.pauses == vec.settings.pauses == pauses
            assert {worker.waiter.pauses for worker in vec.workers.opened} == {pauses}
