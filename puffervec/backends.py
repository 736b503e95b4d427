# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Who runs the envs: this process (Serial), threads of it (Threading), or processes (Multiprocessing). Same C loop in each."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from puffervec import envs as registry
from puffervec._ffi import ffi, lib
from puffervec.errors import ConfigError
from puffervec.native import NativeEnv, env_type
from puffervec.processes import WorkerProcesses
from puffervec.settings import check_settings
from puffervec.vector import VectorEnv
from puffervec.worker_main import SharedFile, WorkerTask

START_TIMEOUT_S = 120.0
CLOSE_TIMEOUT_S = 1.0


class _InProcess(VectorEnv):
    """Shared by Serial and Threading: the workers live in this process."""

    def _open_workers(self) -> None:
        data = ffi.from_buffer("uint8_t[]", self._data) if self._data is not None else ffi.NULL
        size = len(self._data) if self._data is not None else 0
        self._opened = ffi.new("pv_worker[]", self.num_workers)
        # The finalizer must not hold self: it keeps the memory alive by holding the workers' buffers.
        keep = (self._buffer, self._data, data)
        weakref.finalize(self, _close_workers, self._opened, self.num_workers, keep)
        for index in range(self.num_workers):
            if lib.pv_worker_open(self._opened + index, self._slab, index, env_type(self.env.name), data, size):
                self._raise_failure(lib.pv_worker_home(self._slab, index))


class Serial(_InProcess):
    """Steps all envs in this process, during `send`. The oracle that the other backends are compared with."""

    def _start(self) -> None:
        self._open_workers()

    def _sent_one(self, worker: int, half: int) -> None:
        lib.pv_worker_serve(self._opened + worker, half)

    def _sent(self, half: int) -> None:
        for worker in self._workers[half]:
            lib.pv_worker_serve(self._opened + worker, half)

    def _stop(self) -> None:
        _close_workers(self._opened, self.num_workers, None)


class Threading(_InProcess):
    """Runs the C loop in threads of this process, over the same slab and channel.

    A thread cannot be killed, so the promises about hung and dead workers do not cover this backend.
    """

    def _start(self) -> None:
        self._open_workers()
        self._threads = [
            threading.Thread(target=lib.pv_worker_run, args=(self._opened + index,), daemon=True, name=f"puffervec-{index}")
            for index in range(self.num_workers)
        ]
        for thread in self._threads:
            thread.start()
        keep = (self._buffer, self._data, self._waiter)
        weakref.finalize(self, _end_threads, self._slab, self._threads, keep)

    def _stop(self) -> None:
        _end_threads(self._slab, self._threads, (self._waiter,) * 3)
        _close_workers(self._opened, self.num_workers, None)


class Multiprocessing(VectorEnv):
    """Runs the C loop in worker processes."""

    def _start(self) -> None:
        data = SharedFile(self._data_fd) if self._data_fd >= 0 else None
        cores = self.settings.cores
        tasks = [WorkerTask(self._memory, index, self.env.name, data, cores[index]) for index in range(self.num_workers)]
        homes = [lib.pv_worker_home(self._slab, index) for index in range(self.num_workers)]
        for index, home in enumerate(homes):  # answered when the worker is ready
            lib.pv_turn_send_one(self._slab, index, home, lib.PV_IDLE, 0, 0, self._waiter)
        self._processes = WorkerProcesses(tasks, self.settings.start_method)
        self._reaper = weakref.finalize(self, self._processes.kill)
        try:
            for index, home in enumerate(homes):
                self._await_one(index, home, START_TIMEOUT_S)
        except BaseException:
            self._processes.kill()
            raise

    def _check_workers(self, workers: Sequence[int]) -> None:
        self._processes.check(workers)

    def _stop(self) -> None:
        for worker in range(self.num_workers):
            _send_close(self._slab, worker, self._waiter)
        self._processes.end(0.0 if self._broken is not None else CLOSE_TIMEOUT_S)
        self._reaper.detach()


def _send_close(slab: Any, worker: int, waiter: Any) -> None:
    """Tell a worker to end, whatever it is doing: its home line is read after any turn."""
    lib.pv_turn_send_one(slab, worker, lib.pv_worker_home(slab, worker), lib.PV_CLOSE, 0, 0, waiter)


def _close_workers(opened: Any, count: int, keep: Any) -> None:
    for index in range(count):
        lib.pv_worker_close(opened + index)


def _end_threads(slab: Any, threads: list[threading.Thread], keep: tuple[Any, Any, Any]) -> None:
    for worker, thread in enumerate(threads):
        if thread.is_alive():
            _send_close(slab, worker, keep[2])
    for thread in threads:
        thread.join()


BACKENDS: dict[str, type[VectorEnv]] = {"serial": Serial, "threading": Threading, "multiprocessing": Multiprocessing}


def make(
    env: str | NativeEnv,
    env_kwargs: Mapping[str, Any] | Any | None = None,
    *,
    backend: str | type[VectorEnv] = "multiprocessing",
    num_envs: int = 1,
    num_workers: int | str = "auto",
    num_buffers: int = 1,
    split: str = "workers",
    seed: int | Sequence[int] | None = 0,
    pin: bool | str = "auto",
    strict: bool = False,
    copy: bool = False,
    timeout_s: float = 60.0,
    start_method: str = "spawn",
) -> VectorEnv:
    """Make a vector env.

    Args:
        env: a name from `puffervec.envs`, or an env type.
        env_kwargs: settings of the env (a mapping, or its config dataclass).
        backend: "multiprocessing", "threading" or "serial", or the class.
        num_envs: copies of the env, over all halves.
        num_workers: "auto" takes the usable cores (affinity and CPU quota), twice as many with two buffers split by workers.
        num_buffers: 2 for double buffering: one half simulates while the policy looks at the other.
        split: with two buffers, "workers": half of the workers serve each half; "envs": every worker serves a part of both.
        seed: for the first reset (env i gets seed + i, or the i-th entry), None for a random one.
        pin: tie worker i to a core; "auto" does it when the workers are at most as many as the usable cores.
        strict: raise for action values out of range, instead of replacing them by the no-op and counting them.
        copy: return copies from `recv` instead of views on shared memory.
        timeout_s: longest wait for a worker.
        start_method: "spawn", "forkserver" or "fork". With any of them scripts need no `if __name__ == "__main__"`.
    Returns:
        a VectorEnv, to be closed by `close` or a with statement.
    Raises:
        ConfigError: an unusable setting, before anything is started. WorkerError: an env could not be made.
    """
    kind = BACKENDS.get(backend) if isinstance(backend, str) else backend
    if kind is None or not (isinstance(kind, type) and issubclass(kind, VectorEnv)):
        raise ConfigError(f"backend is {backend!r}: use one of {', '.join(BACKENDS)}")
    native_env = registry.get(env) if isinstance(env, str) else env
    if not isinstance(native_env, NativeEnv):
        raise ConfigError(f"env is {env!r}: give one of {', '.join(registry.BUILT_IN)}, or a NativeEnv")
    settings = check_settings(
        num_envs=num_envs, num_workers=num_workers, num_buffers=num_buffers, split=split, seed=seed, pin=pin, strict=strict,
        copy=copy, timeout_s=timeout_s, start_method=start_method, in_process=kind is Serial,
    )  # fmt: skip
    return kind(native_env, native_env.configure(env_kwargs), settings)
