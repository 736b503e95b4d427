# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Who runs the envs: this process (Serial), threads of it (Threading), or processes (Multiprocessing). Same C loop in each."""

from __future__ import annotations

import dataclasses
import inspect
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from puffervec import envs as registry
from puffervec._ffi import ffi, lib
from puffervec.core.shared_memory import PrivateMemory
from puffervec.errors import ConfigError, UnclosedWarning, WorkerTimeout
from puffervec.host import crashes, limits, oom
from puffervec.host.memory import refuse_more
from puffervec.host.patience import Patience
from puffervec.host.traces import TraceFile
from puffervec.native import NativeEnv, env_type
from puffervec.process import failures
from puffervec.process.processes import AUTO, WorkerProcesses
from puffervec.process.worker_main import Learner, SharedFile, WorkerTask
from puffervec.python.creators import Creator, creators
from puffervec.vec.settings import VectorSettings, check_settings
from puffervec.vec.vector_env import VectorEnv

START_TIMEOUT_S = 120.0
LEAST_ENV, LEAST_PYTHON_ENV = 32, 1024  # bytes; no env of C, or of Python, takes less
CLOSE_TIMEOUT_S = 1.0
PYTHON_CLOSE_TIMEOUT_S = 1.8  # envs may have videos to finish; with the second until SIGKILL it stays below three


class _InProcess(VectorEnv):
    """Shared by Serial and Threading: the workers live in this process."""

    memory_kind = PrivateMemory
    _forget: Callable[[], Any] = staticmethod(lambda: None)  # what Python envs have registered
    _unwatch: Callable[[], Any]

    def _open_workers(self) -> None:
        data = ffi.from_buffer("uint8_t[]", self._data) if self._data is not None else ffi.NULL
        size = len(self._data) if self._data is not None else 0
        self._opened = ffi.new("pv_worker[]", self.num_workers)
        # The finalizer must not hold self: it keeps the memory alive by holding the workers' buffers.
        keep = (self._buffer, self._data, data)
        self._finalizers.append(weakref.finalize(self, _close_workers, self._opened, self.num_workers, keep))
        crashes.watch()
        self._unwatch = weakref.finalize(self, crashes.unwatch)
        kind = self._env_type()
        for index in range(self.num_workers):
            if lib.pv_worker_open(self._opened + index, self._slab, index, kind, data, size):
                try:
                    self._raise_failure(lib.pv_worker_home(self._slab, index))
                finally:
                    _close_workers(self._opened, self.num_workers, None)

    def _env_type(self) -> Any:
        """Return the `const pv_env_type*` of the envs."""
        if isinstance(self.env, NativeEnv):
            return env_type(self.env.name, self.env.shared_library)
        from puffervec.python import block

        self._open_mail(shared=False)
        homes: dict[int, block.Home] = {}
        for index, mailbox in enumerate(self._mailboxes):
            homes |= block.homes_of(self._slab, self._buffer, index, mailbox)
        block.register(self.env.source, homes)
        self._forget = weakref.finalize(self, block.forget, self.env.source)
        self._finalizers.append(self._forget)
        return block.TYPE


class Serial(_InProcess):
    """Steps all envs in this process, during `send`. The oracle that the other backends are compared with."""

    has_workers = False

    def _start(self) -> None:
        self._open_workers()

    @property
    def envs(self) -> list[Any]:
        """The Python envs, in order."""
        from puffervec.python import block

        return block.envs_of(self.env.source) if not isinstance(self.env, NativeEnv) else []

    @property
    def driver_env(self) -> Any:
        """The first Python env (inside its emulation wrapper, where the creator made one); this object for C envs."""
        if isinstance(self.env, NativeEnv) or not self.envs:
            return super().driver_env
        from puffervec.python.env import unwrapped

        driver, first = self.env.driver, self.envs[0]
        if unwrapped(driver) is driver:
            return first
        driver.env = first
        return driver

    def _sent_one(self, worker: int, half: int) -> None:
        lib.pv_worker_serve(self._opened + worker, half)

    def _sent(self, half: int) -> None:
        for worker in self._workers[half]:
            lib.pv_worker_serve(self._opened + worker, half)

    def _stop(self) -> None:
        _close_workers(self._opened, self.num_workers, None)
        self._forget()
        self._unwatch()


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
        keep = (self._buffer, self._data, self._waiter)
        try:
            for thread in self._threads:
                thread.start()
        except BaseException:
            _end_threads(self._slab, self._threads, keep)
            raise
        self._finalizers.append(weakref.finalize(self, _end_threads, self._slab, self._threads, keep))

    def _stop(self) -> None:
        self._unwatch()
        if _end_threads(self._slab, self._threads, (self._waiter,) * 3):
            _close_workers(self._opened, self.num_workers, None)
            return
        for finalizer in self._finalizers:
            finalizer.detach()  # the thread that hangs still uses its envs
        raise WorkerTimeout(
            f"close: a thread did not end within {CLOSE_TIMEOUT_S:g} s: an env hangs, and a thread cannot be ended before the "
            "process is; backend='multiprocessing' can end its workers"
        )


class Multiprocessing(VectorEnv):
    """Runs the C loop in worker processes."""

    def _start(self) -> None:
        data = SharedFile(self._data_fd) if self._data_fd >= 0 else None
        self._traces = [TraceFile() for _ in self.settings.cores]
        self._oom_kills = oom.kills()
        learner = Learner()
        tasks = [
            WorkerTask(self._memory, index, self.env.name, data, core, self._traces[index], learner, **self._of_worker(index))
            for index, core in enumerate(self.settings.cores)
        ]
        homes = [lib.pv_worker_home(self._slab, index) for index in range(self.num_workers)]
        for index, home in enumerate(homes):  # answered when the worker is ready
            lib.pv_turn_send_one(self._slab, index, home, lib.PV_IDLE, 0, 0, self._waiter)
        preload = () if isinstance(self.env, NativeEnv) else self.env.preload
        self._processes = WorkerProcesses(tasks, self.settings.start_method, preload)
        self._finalizers.append(weakref.finalize(self, _reap, self._processes, self.env.name, _made_at()))
        try:
            for index, home in enumerate(homes):
                self._await_one(index, home, max(START_TIMEOUT_S, self.settings.timeout_s))
        except BaseException:
            self._processes.kill()
            raise

    def _of_worker(self, index: int) -> dict[str, Any]:
        """Return what a worker is told about where its env type comes from."""
        if isinstance(self.env, NativeEnv):
            return {"shared_library": self.env.shared_library_path}
        if not self._mailboxes:
            self._open_mail(shared=True)
            from puffervec.python.env import dump_source

            self._source = dump_source(self.env)
        surroundings = {"environ": dict(os.environ), "folder": os.getcwd()}
        return {"python": self._source, "mailbox": self._mailboxes[index], **surroundings}

    @property
    def processes(self) -> list[Any]:
        """The worker processes (multiprocessing.Process), by worker."""
        return self._processes.processes

    def _check_workers(self, workers: Sequence[int]) -> None:
        found = self._processes.dead(workers)
        if found is not None:
            worker, exit_code = found
            raise failures.died(self._slab, worker, exit_code, self._traces[worker].read(), oom.hint(self._oom_kills))

    def _trace_of(self, worker: int) -> str:
        pid = self.processes[worker].pid
        return self._traces[worker].ask(pid)

    def _disown(self) -> None:
        super()._disown()
        self._processes.disown()

    def _stop(self) -> None:
        for worker in range(self.num_workers):
            _send_close(self._slab, worker, self._waiter)
        # After an error workers still answer, and close their envs; one that hangs does not.
        patience_s = PYTHON_CLOSE_TIMEOUT_S if self._mailboxes else CLOSE_TIMEOUT_S
        try:
            self._processes.end(0.0 if isinstance(self._broken, WorkerTimeout) else patience_s)
        finally:
            self._processes.kill()  # a second Ctrl-C


def _send_close(slab: Any, worker: int, waiter: Any) -> None:
    """Tell a worker to end, whatever it is doing: its home line is read after any turn."""
    lib.pv_turn_send_one(slab, worker, lib.pv_worker_home(slab, worker), lib.PV_CLOSE, 0, 0, waiter)


def _close_workers(opened: Any, count: int, keep: Any) -> None:
    for index in range(count):
        lib.pv_worker_close(opened + index)


def _reap(processes: WorkerProcesses, env_name: str, made_at: tuple[str, int]) -> None:
    """End the workers of a vector env that was dropped, or is still there when the interpreter ends."""
    if not processes.processes:
        return
    processes.kill()
    if getattr(sys, "last_value", None) is None:  # else the program has told already what went wrong
        warnings.warn_explicit(
            f"this vector env of {env_name!r} was never closed: its workers were ended without closing their envs; call "
            "close(), or use it in a with statement",
            UnclosedWarning,
            *made_at,
        )


def _made_at() -> tuple[str, int]:
    """Return file and line of the code outside of this package that is making a vector env."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == "puffervec":
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _end_threads(slab: Any, threads: list[threading.Thread], keep: tuple[Any, Any, Any]) -> bool:
    """Tell the threads to end and wait for them; False if one has not ended in time."""
    for worker, thread in enumerate(threads):
        if thread.is_alive():
            _send_close(slab, worker, keep[2])
    patience = Patience()
    while any(thread.is_alive() for thread in threads) and patience.waited_s() < CLOSE_TIMEOUT_S:
        for thread in filter(threading.Thread.is_alive, threads):  # those after a failed start were never started
            thread.join(0.001)
    return not any(thread.is_alive() for thread in threads)


BACKENDS: dict[str, type[VectorEnv]] = {"serial": Serial, "threading": Threading, "multiprocessing": Multiprocessing}


def make(
    env_creator_or_creators: Any,
    env_args: Any = None,
    env_kwargs: Mapping[str, Any] | Any | None = None,
    backend: str | type[VectorEnv] = "multiprocessing",
    num_envs: int = 1,
    seed: int | Sequence[int] | None = 0,
    *,
    num_workers: int | str = "auto",
    batch_size: int | str | None = None,
    zero_copy: bool = True,
    overwork: bool = False,
    sync_traj: bool = True,
    num_buffers: int = 1,
    split: str = "workers",
    autoreset_mode: str = "next_step",
    pin: bool | str = "auto",
    strict: bool = False,
    copy: bool = False,
    timeout_s: float = 60.0,
    start_method: str = "auto",
    **unknown: Any,
) -> VectorEnv:
    """Make a vector env. The first arguments and their order are those of `pufferlib.vector.make`.

    Args:
        env_creator_or_creators: the name of a C env (`puffervec.envs`) or a NativeEnv; a Gymnasium id; "module:factory"; a
            callable that makes a gymnasium.Env, a PettingZoo ParallelEnv or a PufferEnv; or a list of num_envs of these (but
            for C envs).
        env_args, env_kwargs: arguments of the creator (of each: a list of them). C envs: env_kwargs is a mapping of settings,
            or their config dataclass. A creator that names `buf` or `seed` gets them too.
        backend: "multiprocessing", "threading" (C envs only) or "serial", or the class.
        num_envs: envs over all batches.
        seed: for the first reset (env i gets seed + i, or the i-th entry), None for a random one (Python envs: for none).
        num_workers: "auto" takes the usable cores (affinity and CPU quota), twice as many with two buffers split by workers.
        batch_size: envs per `recv`; None: all (or num_envs / num_buffers). "auto": half of them.
        zero_copy: hand out views on shared memory, so batches are aligned blocks of envs.
        sync_traj: batches come in strict round robin. False: in the order in which they get ready; with zero_copy=False they
            are made of whatever workers are ready first.
        overwork: accepted for scripts that pass it; more workers than cores are always allowed here.
        num_buffers: 2 for double buffering: one half simulates while the policy looks at the other.
        split: with several buffers, "workers": each has its own workers; "envs": every worker serves a part of each.
        autoreset_mode: "next_step": the row after a done row is the reset row. "same_step": a done row has the next episode's
            first observation, the last one stands in `final_observations`. "disabled": reset(mask=...) is yours to call.
        pin: tie worker i to a core; "auto" does it when the workers are at most as many as the usable cores.
        strict: raise for action values out of range. Else they are replaced by the no-op and counted (C envs), or passed on
            as they are (Python envs).
        copy: return copies from `recv` instead of views on shared memory.
        timeout_s: longest wait for a worker.
        start_method: "spawn", "forkserver" or "fork"; "auto" is forkserver for Python envs and spawn for C envs. With any of
            them scripts need no `if __name__ == "__main__"`.
    Returns:
        a VectorEnv, to be closed by `close` or a with statement.
    Raises:
        ConfigError: an unusable setting, before anything is started. WorkerError: an env could not be made.
    """
    kind = BACKENDS.get(backend.lower()) if isinstance(backend, str) else backend
    if kind is None or not (isinstance(kind, type) and issubclass(kind, VectorEnv)):
        raise ConfigError(f"backend is {backend!r}: use one of {', '.join(BACKENDS)}")
    if unknown:
        raise ConfigError(f"make has no setting {next(iter(unknown))!r}: the settings are {', '.join(_settings_of_make())}")
    settings = check_settings(
        num_envs=num_envs, num_workers=num_workers, num_buffers=num_buffers, split=split, batch_size=batch_size,
        zero_copy=zero_copy, sync_traj=sync_traj, overwork=overwork, autoreset_mode=autoreset_mode, seed=seed, pin=pin,
        strict=strict, copy=copy, timeout_s=timeout_s, start_method=start_method, in_process=not kind.has_workers,
    )  # fmt: skip
    native_env = _native_env(env_creator_or_creators)
    least = settings.num_envs * (LEAST_ENV if native_env is not None else LEAST_PYTHON_ENV)
    refuse_more(least, f"{settings.num_envs:,} envs need at least", "", "use fewer envs")  # before lists and scenes are made
    if settings.start_method == AUTO:
        settings = dataclasses.replace(settings, start_method="forkserver" if native_env is None else "spawn")
    if native_env is not None:
        if env_args:
            raise ConfigError(
                f"env_args is {env_args!r}: settings of the C env {native_env.name!r} go into env_kwargs, by name"
            )
        with limits.named(f"{native_env.name}, {settings.num_envs:,} envs"):
            return kind(native_env, native_env.configure(env_kwargs), settings)
    return _make_python(kind, creators(env_creator_or_creators, env_args, env_kwargs, settings.num_envs), settings)


def _make_python(kind: type[VectorEnv], made: Sequence[Creator], settings: VectorSettings) -> VectorEnv:
    """Make a vector env of Python envs."""
    from puffervec.python.env import PythonEnv  # brings Gymnasium, which C envs do without

    if issubclass(kind, Threading):
        raise ConfigError("backend is 'threading': it runs C envs only; use 'multiprocessing' or 'serial' for Python envs")
    env = PythonEnv(made, settings.autoreset, settings.seed)
    try:
        with limits.named(f"{settings.num_envs:,} envs"):
            return kind(env, None, settings)
    except BaseException:
        env.close()
        raise


def _settings_of_make() -> list[str]:
    parameters = inspect.signature(make).parameters.values()
    return [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]


def _native_env(given: Any) -> NativeEnv | None:
    """Return the C env that is meant, or None for Python envs.

    Raises:
        ConfigError: a name that is neither a C env's nor anything that makes a Python env.
    """
    if isinstance(given, NativeEnv):
        return given
    if not isinstance(given, str):
        return None
    try:
        return registry.get(given)
    except ConfigError as unknown:
        if ":" in given or _is_gymnasium_id(given):
            return None
        raise ConfigError(f"{unknown}; or give a Gymnasium id, module:factory, or a callable that makes an env") from None


def _is_gymnasium_id(name: str) -> bool:
    import gymnasium

    return name in gymnasium.registry or "-v" in name
