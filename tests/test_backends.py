# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Who runs the envs (puffervec/vec/backends.py): by name, threads that run the same loop,
constructors that fail half-way.
"""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec._ffi import ffi, lib
from puffervec.errors import ConfigError, WorkerError
from puffervec.vec import backends, workers
from tests.helpers import ManyInOne

pytestmark = pytest.mark.usefixtures("no_leaks")


@pytest.mark.parametrize("name", backends.BACKENDS)
def test_a_backend_is_given_by_name_or_class(name: str) -> None:
    kind = backends.BACKENDS[name]
    for given in (name, kind):
        with puffervec.make("probe", backend=given) as vec:
            assert type(vec) is kind
            assert vec.reset(0)[0].shape == (1, 8)


def test_the_default_is_multiprocessing() -> None:
    with puffervec.make("probe") as vec:
        assert type(vec) is puffervec.Multiprocessing
        assert vec.settings.start_method == "spawn"


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_threads_run_the_loop(workers: int) -> None:
    with puffervec.make("probe", backend="threading", num_envs=10, num_workers=workers) as vec:
        names = sorted(
            thread.name for thread in threading.enumerate() if thread.name.startswith("puffervec-")
        )
        assert names == [f"puffervec-{index}" for index in range(workers)]
        vec.reset(0)
        assert vec.step([1] * 10)[0][:, 4].tolist() == [1] * 10


@pytest.mark.slow
def test_one_process_may_hold_many_vec_envs_of_all_kinds() -> None:
    kinds = ["serial", "threading", "multiprocessing"] * 2
    made = [
        puffervec.make("probe", backend=kind, num_envs=3, seed=i) for i, kind in enumerate(kinds)
    ]
    for vec in made:
        vec.async_reset()
    for i, vec in enumerate(made):
        assert vec.recv()[0][:, 0].tolist() == [i, i + 1, i + 2]
        vec.send([i % 5] * 3)
    for i, vec in reversed(list(enumerate(made))):
        assert vec.recv()[0][:, 4].tolist() == [i % 5] * 3
        vec.close()


@pytest.mark.parametrize("backend", ["serial", "threading"])
def test_a_constructor_that_fails_half_way_leaves_nothing(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worker 1 cannot be opened: worker 0's memory is freed, no thread is left, the error is the
    worker's.
    """
    kind: Any = {"serial": ManyInOne, "threading": puffervec.Threading}[backend]

    class Broken:
        def __init__(self) -> None:
            self.opened = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(lib, name)

        def pv_worker_open(
            self, worker: Any, slab: Any, index: int, kind: Any, data: Any, size: int
        ) -> Any:
            if index == 1:
                other = ffi.new("pv_env_type*", kind[0])
                other.abi = 0
                return lib.pv_worker_open(worker, slab, index, other, data, size)
            return lib.pv_worker_open(worker, slab, index, kind, data, size)

    monkeypatch.setattr(workers, "lib", Broken())
    with pytest.raises(WorkerError, match="worker 1: .*other puffervec headers"):
        puffervec.make("probe", backend=kind, num_envs=2, num_workers=2)


def test_a_vec_env_is_freed_without_the_collector() -> None:
    """No cycles: a slab may be gigabytes, and goes when its last name does."""
    for backend in ("serial", "threading", "multiprocessing"):
        vec = puffervec.make("probe", backend=backend)
        vec.reset(0)
        gone = weakref.ref(vec)
        gc.disable()
        try:
            vec.close()
            del vec
            assert gone() is None, backend
        finally:
            gc.enable()


def test_a_subclass_may_be_a_backend() -> None:
    class Counting(puffervec.Serial):
        sends = 0

        def send(self, actions: object) -> None:
            self.sends += 1
            super().send(actions)

    with puffervec.make("probe", backend=Counting) as vec:
        vec.reset(0)
        vec.step(np.array([0]))
        assert isinstance(vec, Counting) and vec.sends == 1
    with pytest.raises(ConfigError, match="backend"):
        puffervec.make("probe", backend=dict)  # type: ignore[arg-type]


def test_halves_of_unequal_shares() -> None:
    """Seven envs per half on three workers: shares of 2, 2 and 3, and every env is stepped once a
    turn.
    """
    with puffervec.make(
        "probe", backend="threading", num_envs=14, num_workers=3, num_buffers=2, split="envs"
    ) as vec:
        vec.async_reset(0)
        for turn in range(6):
            rows = vec.recv()[0]
            assert rows[:, 7].tolist() == [turn // 2] * 7
            assert rows[:, 0].tolist() == vec.env_ids.tolist()
            vec.send(np.zeros(7, np.int32))
