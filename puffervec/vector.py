# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Stop 5 of an observation's path: the vector env as the learner sees it. Backends (backends.py) differ in who runs the envs.

    async_reset -> recv -> send -> recv -> ...            one buffer
    async_reset -> recv A -> send A -> recv B -> send B   two buffers, strictly A B A B: B simulates while A's policy runs

Everything that the hot path needs is looked up once here: `recv` is one C call, and `send` another.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from puffervec import actions as action_border
from puffervec import native
from puffervec._ffi import ffi, lib
from puffervec.errors import CallOrderError, ClosedError, ConfigError, WorkerError, WorkerTimeout
from puffervec.settings import VectorSettings, env_seeds, whole
from puffervec.shared_memory import SharedMemory
from puffervec.slab import RECORD_DTYPE, Half, Request, layout, view_half
from puffervec.spec import row_dtype
from puffervec.worker_main import SharedFile

if TYPE_CHECKING:
    import gymnasium

SLICE_NS = lib.PV_SLICE_NS
_OFFSET_LINE_TIMES = (ffi.offsetof("pv_line", "begin_ns"), ffi.offsetof("pv_line", "end_ns"))

# What may happen next with a half.
IDLE, PENDING, HELD, READY, CLOSED = "not reset", "sent", "received", "loaded", "closed"


class VectorEnv:
    """Many copies of a C env, stepped together. Made by `puffervec.make`.

    Attributes:
        num_envs, num_workers, num_buffers: as asked for. num_agents: rows of all envs. agents_per_batch: rows of one half.
        spec: the rows as the env describes them. config: the env's settings. env: the env type.
        halves: views on each half's rows. half: index of the half last received.
        agent_ids: ids of the rows of the half last received (dict by group where there are several groups).
    """

    emulated = False

    def __init__(self, env: native.NativeEnv, config: Any, settings: VectorSettings) -> None:
        self.env, self.config, self.settings = env, config, settings
        self.num_envs, self.num_workers = settings.num_envs, settings.num_workers
        self.num_buffers = settings.num_buffers
        self._state = [IDLE] * self.num_buffers
        self._allocate()
        self._views()
        self._recv_half = self._send_half = self.half = 0
        self._seeded = False
        self._invalid_actions = 0
        self._broken: WorkerError | None = None
        self._start()

    # ---- construction -------------------------------------------------------------------------------------------------

    def _allocate(self) -> None:
        build = self.env.build(self.config)
        config, params = native.pack_config(self.config), native.pack_params(build.params)
        self._data_fd = os.open(build.data, os.O_RDONLY | os.O_CLOEXEC) if build.data is not None else -1
        if self._data_fd >= 0:
            weakref.finalize(self, os.close, self._data_fd)
        self._data = SharedFile(self._data_fd).map() if self._data_fd >= 0 else None
        c_spec, self.spec = native.describe(self.env.name, config, params, self._data)
        request = Request(self.num_envs, self.num_workers, self.num_buffers, self.settings.split, len(config), len(params))
        head = layout(c_spec, request)
        self._memory = SharedMemory(head.bytes)
        self._buffer = self._memory.buffer
        self._buffer[: ffi.sizeof("pv_slab")] = bytes(ffi.buffer(head))
        self._buffer[head.config_offset : head.config_offset + len(config)] = config
        self._buffer[head.params_offset : head.params_offset + len(params)] = params
        self._slab = ffi.cast("pv_slab*", ffi.from_buffer(self._buffer))
        self._waiter = ffi.new("pv_waiter*", {"pauses": self.settings.learner_pauses})

    def _views(self) -> None:
        head, buffer, spec = self._slab, self._buffer, self.spec
        self.halves = tuple(view_half(buffer, head, spec, h) for h in range(self.num_buffers))
        self.num_agents = self.num_envs * spec.agents
        self.agents_per_batch = self.num_agents // self.num_buffers
        self.num_groups = len(spec.groups)
        self._single = self.num_groups == 1
        self._tasks = np.frombuffer(buffer, np.int64, self.num_envs, head.tasks_offset)
        self._tasks[:] = -1
        self._seeds = np.frombuffer(buffer, np.uint64, self.num_envs, head.seeds_offset)
        self._reset_masks = np.frombuffer(buffer, np.uint8, self.num_envs, head.reset_masks_offset)
        shape = (self.num_workers, lib.PV_MAX_BUFFERS, lib.PV_COUNTERS)
        self._counters = np.frombuffer(buffer, np.uint64, int(np.prod(shape)), head.counters_offset).reshape(shape)
        self._results = [tuple(self._collect(half, name) for name in _RECV_ARRAYS) for half in self.halves]
        self._workers = [_span(lib.pv_slab_workers(head, h)) for h in range(self.num_buffers)]
        self._fast_actions = action_border.fast_codes(spec.groups[0], self.halves[0].rows) if self._single else {}
        self._state_dtype = row_dtype(spec.state_fields, spec.state_bytes)

    def _collect(self, half: Half, name: str) -> Any:
        arrays = {group: getattr(rows, name) for group, rows in half.groups.items()}
        return next(iter(arrays.values())) if self._single else arrays

    # ---- what a backend does ------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Open the envs of all workers."""
        raise NotImplementedError

    def _stop(self) -> None:
        """End the workers; the state is closed already."""
        raise NotImplementedError

    def _sent(self, half: int) -> None:
        """Called after a command was published to the workers of `half`."""

    def _sent_one(self, worker: int, half: int) -> None:
        """Called after a command was published to one worker of `half`."""

    def _check_workers(self, workers: Sequence[int]) -> None:
        """Raise if one of the workers has died."""

    # ---- spaces -------------------------------------------------------------------------------------------------------

    @property
    def single_observation_space(self) -> gymnasium.Space[Any]:
        """Space of one row; a Dict by group where there are several."""
        return self._by_group([group.observation_space for group in self.spec.groups])

    @property
    def single_action_space(self) -> gymnasium.Space[Any]:
        """Space of one row's action; a Dict by group where there are several."""
        return self._by_group([group.action_space for group in self.spec.groups])

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """Space of the rows of one half."""
        return self._by_group([_batched(g.observation_space, self._rows(i)) for i, g in enumerate(self.spec.groups)])

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """Space of the actions of one half."""
        return self._by_group([_batched(g.action_space, self._rows(i)) for i, g in enumerate(self.spec.groups)])

    def _rows(self, group: int) -> int:
        return self.halves[0].groups[self.spec.groups[group].name].rows

    def _by_group(self, found: list[gymnasium.Space[Any]]) -> gymnasium.Space[Any]:
        from gymnasium import spaces

        return found[0] if self._single else spaces.Dict(dict(zip([g.name for g in self.spec.groups], found, strict=True)))

    @property
    def agent_ids(self) -> Any:
        """(rows,) int64 ids of the rows of the half last received; dict by group where there are several."""
        return self._results[self.half][_AGENT_IDS]

    @property
    def env_ids(self) -> np.ndarray:
        """(envs,) int64 indices of the envs of the half last received."""
        return self.halves[self.half].env_ids

    # ---- the loop -----------------------------------------------------------------------------------------------------

    def async_reset(self, seed: int | Sequence[int] | None = None) -> None:
        """Start a reset of all envs; `recv` each half afterwards. Turns that are under way are waited for and dropped.

        Args:
            seed: env i gets seed + i, or the i-th entry of a sequence. None: at the first reset the seed of `make` (or a random
                one), later the envs keep their seeds and begin their next episode.
        Raises:
            ConfigError: an unusable seed. ClosedError. WorkerError: an env failed, WorkerDied, WorkerTimeout.
        """
        self._require_open()
        seeds = self._choose_seeds(seed)
        self._drain()
        if seeds is not None:
            self._seeds[:] = seeds
            self._seeded = True
        for half in range(self.num_buffers):
            lib.pv_turn_send(self._slab, half, lib.PV_RESET, seeds is not None, 0, self._waiter)
            self._sent(half)
            self._state[half] = PENDING
        self._recv_half = self._send_half = 0

    def recv(self) -> tuple[Any, Any, Any, Any, dict[str, Any], Any, Any]:
        """Wait for the next half and return its rows.

        Returns:
            (observations, rewards, terminals, truncations, infos, agent_ids, masks): observations (rows, F), rewards (rows,)
            float32, the flags (rows,) bool; dicts by group where there are several. infos is {} or {"episodes": (n,) records
            of the episodes that ended, a copy}.
        Aliasing: views on shared memory, valid until the next `send` of this half (copy=True: copies).
        Raises:
            CallOrderError: nothing was sent. ClosedError. WorkerError, WorkerDied, WorkerTimeout.
        """
        half = self._recv_half
        if self._state[half] is not PENDING:
            return self._recv_ready(half)  # type: ignore[no-any-return]
        flags = lib.pv_turn_recv(self._slab, half, 0, self._waiter, SLICE_NS, 0)
        if flags < 0:
            flags = self._wait_on(half, flags)
        if flags & 2:  # PV_TURN_FAILED
            self._raise_failure(half)
        self._state[half] = HELD
        self.half = half
        self._recv_half = self.num_buffers - 1 - half
        obs, rewards, terminals, truncations, ids, masks = self._results[half]
        infos = {"episodes": self._episodes(half)} if flags else {}
        if self.settings.copy:
            return tuple(_copied(entry) for entry in (obs, rewards, terminals, truncations, infos, ids, masks))
        return obs, rewards, terminals, truncations, infos, ids, masks

    def send(self, actions: Any) -> None:
        """Hand over the actions of the half received longest ago and let its workers step.

        Args:
            actions: (rows,) for discrete, (rows, D) for several choices or continuous; any integer dtype or a list for discrete
                kinds; dict by group where there are several; None: they stand in `halves[h].groups[...].actions` already.
                Values out of range or not finite become the no-op (0) and are counted in `counters()["invalid_actions"]`.
        Raises:
            ActionError: wrong count, shape or kind; with strict=True also a value out of range. Nothing was sent.
            CallOrderError: no half is received. ClosedError.
        """
        half = self._send_half
        if self._state[half] is not HELD:
            self._refuse_send(half)
        code = self._fast_actions.get((getattr(actions, "dtype", None), getattr(actions, "shape", None)))
        if code is not None and not self.settings.strict and actions.flags.c_contiguous:
            replaced = lib.pv_turn_step(self._slab, half, ffi.from_buffer(actions), code, self._waiter)
        else:
            replaced = action_border.write(self._slab, self.spec, self.halves[half], half, actions, self.settings.strict)
            lib.pv_turn_send(self._slab, half, lib.PV_STEP, 0, 0, self._waiter)
        if replaced:
            self._invalid_actions += replaced
        self._state[half] = PENDING
        self._send_half = self.num_buffers - 1 - half
        self._sent(half)

    def reset(self, seed: int | Sequence[int] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all envs and wait: `async_reset` and `recv` in one. Needs num_buffers=1. Returns (observations, infos)."""
        self._require_one_buffer("reset", "async_reset and recv")
        self.async_reset(seed)
        result = self.recv()
        return result[0], result[4]

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all envs and wait: `send` and `recv` in one. Needs num_buffers=1.

        Returns (observations, rewards, terminals, truncations, infos) as in `recv`.
        """
        self._require_one_buffer("step", "send and recv")
        self.send(actions)
        return self.recv()[:5]

    # ---- the slow side of the loop ------------------------------------------------------------------------------------

    def _choose_seeds(self, seed: Any) -> np.ndarray | None:
        if seed is None and not self._seeded:
            seed = self.settings.seed
            if seed is None:
                seed = int.from_bytes(os.urandom(7), "little")
        return None if seed is None else env_seeds(seed, self.num_envs)

    def _recv_ready(self, half: int) -> Any:
        """`recv` of a half that is not under way: hand out loaded rows, or refuse."""
        self._require_open()
        if self._state[half] is not READY:
            expected = "send" if self._state[half] is HELD else "async_reset or reset"
            raise CallOrderError(f"recv: half {half} is {self._state[half]}: call {expected} first")
        self._state[half] = HELD
        self.half = half
        self._recv_half = self.num_buffers - 1 - half
        obs, rewards, terminals, truncations, ids, masks = self._results[half]
        result: tuple[Any, ...] = (obs, rewards, terminals, truncations, {}, ids, masks)
        return tuple(_copied(entry) for entry in result) if self.settings.copy else result

    def _refuse_send(self, half: int) -> None:
        self._require_open()
        expected = "async_reset or reset" if self._state[half] is IDLE else "recv"
        raise CallOrderError(f"send: half {half} is {self._state[half]}: call {expected} first")

    def _require_open(self) -> None:
        if self._state[0] is CLOSED:
            raise ClosedError(f"this vector env of {self.env.name!r} is closed: make a new one")
        if self._broken is not None:
            raise type(self._broken)(f"{self._broken} (the vector env cannot go on: close it and make a new one)")

    def _require_one_buffer(self, name: str, instead: str) -> None:
        if self.num_buffers != 1:
            raise CallOrderError(f"{name} needs num_buffers=1, this vector env has {self.num_buffers}: use {instead}")

    def _wait_on(self, half: int, result: int) -> int:
        """Go on waiting for the workers of a half, with a look around after each slice."""
        deadline = time.monotonic() + self.settings.timeout_s
        while result < 0:
            first = -1 - result
            self._look_around(self._workers[half], first, deadline)
            result = lib.pv_turn_recv(self._slab, half, first, self._waiter, SLICE_NS, 1)
        return int(result)

    def _look_around(self, workers: Sequence[int], waiting_for: int, deadline: float) -> None:
        try:
            self._check_workers(workers)
            if time.monotonic() > deadline:
                limit = f"{self.settings.timeout_s:g} s"
                raise WorkerTimeout(f"worker {waiting_for} gave no answer in {limit}: an env hangs, or timeout_s is too short")
        except WorkerError as error:
            self._broken = error
            raise

    def _raise_failure(self, half: int) -> None:
        slots = ffi.cast("pv_error_slot*", ffi.addressof(self._slab_bytes(), self._slab.errors_offset))
        for worker in self._workers[half]:
            if slots[worker].code:
                env = slots[worker].env
                where = f"worker {worker}" + (f", env {env}" if env != lib.PV_ALL_ENVS else "")
                text = ffi.string(slots[worker].text).decode(errors="replace") or f"error code {slots[worker].code}"
                self._broken = WorkerError(f"{where}: {text}")
                raise self._broken
        raise WorkerError(f"a worker of half {half} failed without a message")

    def _slab_bytes(self) -> Any:
        return ffi.from_buffer("uint8_t[]", self._buffer)

    def _record_area(self, worker: int, half: int) -> tuple[np.ndarray, int]:
        offset = self._slab.records_offset + (worker * lib.PV_MAX_BUFFERS + half) * self._slab.record_area_bytes
        count, dropped = np.frombuffer(self._buffer, np.uint32, 2, offset)
        return np.frombuffer(self._buffer, RECORD_DTYPE, count, offset + 64), int(dropped)

    def _episodes(self, half: int) -> np.ndarray:
        return np.concatenate([self._record_area(worker, half)[0] for worker in self._workers[half]])

    def _drain(self) -> None:
        """Wait for the turns that are under way."""
        for half in range(self.num_buffers):
            if self._state[half] is PENDING:
                flags = lib.pv_turn_recv(self._slab, half, 0, self._waiter, SLICE_NS, 0)
                if self._wait_on(half, flags) & lib.PV_TURN_FAILED:
                    self._raise_failure(half)
                self._state[half] = HELD

    # ---- beside the loop ----------------------------------------------------------------------------------------------

    def set_tasks(self, env_ids: Sequence[int] | np.ndarray, tasks: Sequence[int] | np.ndarray | int) -> None:
        """Say which task (scene index, start layout) each env runs from its next reset on; -1: the env draws its own.

        Raises:
            ConfigError: an env or a task that is not there.
        """
        self._require_open()
        ids, wanted = _whole_numbers("env ids", env_ids), _whole_numbers("tasks", tasks)
        if ids.size and (ids.min() < 0 or ids.max() >= self.num_envs):
            raise ConfigError(f"set_tasks: env ids {ids.min()} to {ids.max()}: the envs are 0 to {self.num_envs - 1}")
        if wanted.ndim and wanted.shape != ids.shape:
            raise ConfigError(f"set_tasks: {wanted.size} tasks for {ids.size} envs: give one per env, or one number")
        if wanted.size and wanted.min() < -1:
            raise ConfigError(f"set_tasks: task {wanted.min()}: tasks are 0 and up, or -1 for the env's own choice")
        self._tasks[ids] = wanted

    def counters(self) -> dict[str, int]:
        """Return the running sums that the env keeps, over all envs, and `invalid_actions`. Exact between `recv` and `send`."""
        totals = self._counters.sum(axis=(0, 1))
        named = {name: int(totals[i]) for i, name in enumerate(self.spec.counter_names)}
        return {**named, "invalid_actions": self._invalid_actions}

    def timing(self, half: int) -> np.ndarray:
        """Return (workers of the half, 2) int64: begin and end of each worker's last turn, in the ns of time.monotonic_ns."""
        times = np.empty((len(self._workers[half]), 2), np.int64)
        for i, worker in enumerate(self._workers[half]):
            line = lib.pv_status_line(self._slab, worker, half)
            times[i] = line.begin_ns, line.end_ns
        return times

    def peek(self, env: int) -> dict[str, np.ndarray]:
        """Return a copy of the readable state of one env, by field name. Its half must not be under way."""
        worker, half = self._worker_of(env, "peek")
        self._command_one(worker, half, lib.PV_PEEK, env, 1)
        row = np.frombuffer(self._transfer(worker), self._state_dtype, 1)[0]
        return {field.name: np.array(row[field.name]) for field in self.spec.state_fields}

    def save(self) -> list[bytes]:
        """Return the state of every env with its task and rows, as flat bytes, one piece each. No turn may be under way."""
        self._require_open()
        saved: list[bytes] = []
        size = self._saved_bytes
        for worker, half, first, count in self._transfers("save"):
            self._command_one(worker, half, lib.PV_SAVE, first, count)
            region = self._transfer(worker)
            for i in range(count):
                saved.append(self._tasks[first + i].tobytes() + bytes(region[i * size : (i + 1) * size]))
        return saved

    def load(self, states: Sequence[bytes]) -> None:
        """Put every env into a saved state. The next call is `recv`, which returns the saved rows.

        Raises:
            ConfigError: another number of envs, or states of another size.
        """
        self._require_open()
        size = self._saved_bytes
        if len(states) != self.num_envs:
            raise ConfigError(f"load: {len(states)} states for {self.num_envs} envs: give one per env")
        wrong = {len(state) for state in states} - {size + 8}
        if wrong:
            found = wrong.pop()
            raise ConfigError(f"load: a state has {found} bytes, this env's have {size + 8}: it was saved with other settings")
        for worker, half, first, count in self._transfers("load"):
            region = self._transfer(worker)
            for i in range(count):
                self._tasks[first + i] = np.frombuffer(states[first + i], np.int64, 1)[0]
                region[i * size : (i + 1) * size] = states[first + i][8:]
            self._command_one(worker, half, lib.PV_LOAD, first, count)
        self._state = [READY] * self.num_buffers
        self._recv_half = self._send_half = 0
        self._seeded = True

    @property
    def _saved_bytes(self) -> int:
        return int(self.spec.save_bytes + self._slab.env_row_bytes)

    def _worker_of(self, env: int, verb: str) -> tuple[int, int]:
        """Return the worker and the half of an env whose half is not under way."""
        self._require_open()
        index = whole(f"{verb}: env", env, 0, self.num_envs - 1)
        for half in range(self.num_buffers):
            for worker in self._workers[half]:
                if index in _span(lib.pv_slab_span(self._slab, worker, half)):
                    self._require_rows(half, verb)
                    return worker, half
        raise AssertionError("every env has a worker")

    def _require_rows(self, half: int, verb: str) -> None:
        if self._state[half] in (PENDING, IDLE):
            expected = "recv" if self._state[half] is PENDING else "async_reset and recv"
            raise CallOrderError(f"{verb}: half {half} is {self._state[half]}: call {expected} first")

    def _transfers(self, verb: str) -> list[tuple[int, int, int, int]]:
        """Return (worker, half, first env, count) in env order, cut so that each fits the transfer region."""
        for half, state in enumerate(self._state):
            if verb != "load" or state is PENDING:  # a vec env that was never reset may be loaded into
                self._require_rows(half, verb)
        cut = []
        for half in range(self.num_buffers):
            for worker in self._workers[half]:
                envs = _span(lib.pv_slab_span(self._slab, worker, half))
                for first in range(envs.start, envs.stop, self._slab.transfer_envs):
                    cut.append((worker, half, first, min(self._slab.transfer_envs, envs.stop - first)))
        return cut

    def _transfer(self, worker: int) -> memoryview:
        offset = self._slab.transfers_offset + worker * self._slab.transfer_bytes
        return self._buffer[offset : offset + self._slab.transfer_bytes]

    def _command_one(self, worker: int, half: int, semaphore: int, first: int, count: int) -> None:
        """Send a command to one worker on the line of `half`, which must have no turn under way, and wait for it."""
        lib.pv_turn_send_one(self._slab, worker, half, semaphore, first, count, self._waiter)
        self._sent_one(worker, half)
        self._await_one(worker, half, self.settings.timeout_s)

    def _await_one(self, worker: int, half: int, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        result, resume = -1, 0
        while result < 0:
            result = lib.pv_turn_recv_one(self._slab, worker, half, self._waiter, SLICE_NS, resume)
            if result < 0:
                self._look_around([worker], worker, deadline)
            resume = 1
        if result & lib.PV_TURN_FAILED:
            self._raise_failure(half)

    # ---- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the workers. May be called in any state and any number of times; arrays that were returned stay readable."""
        if self._state[0] is CLOSED:
            return
        self._state = [CLOSED] * self.num_buffers
        self._stop()

    def notify(self) -> None:
        """Do nothing: C envs have no use for it. Kept for scripts that call it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.env.name!r}, num_envs={self.num_envs}, num_workers={self.num_workers}, "
            f"num_buffers={self.num_buffers})"
        )


_RECV_ARRAYS = ("observations", "rewards", "terminals", "truncations", "agent_ids", "masks")
_AGENT_IDS = _RECV_ARRAYS.index("agent_ids")


def _whole_numbers(name: str, given: Any) -> np.ndarray:
    """Return `given` as an int64 array, or raise ConfigError."""
    try:
        array = np.asarray(given)
        if array.size and array.dtype.kind in "iu" and array.max() <= np.iinfo(np.int64).max:
            return array.astype(np.int64)
        if array.size == 0:
            return np.zeros(array.shape, np.int64)
    except (ValueError, OverflowError):
        pass
    raise ConfigError(f"set_tasks: {name} are {given!r}: give whole numbers below 2**63")


def _span(span: Any) -> range:
    return range(span.first_env, span.first_env + span.env_count)


def _batched(space: gymnasium.Space[Any], rows: int) -> gymnasium.Space[Any]:
    from gymnasium.vector.utils import batch_space

    return batch_space(space, rows)


def _copied(result: Any) -> Any:
    if isinstance(result, Mapping):
        return {key: _copied(value) for key, value in result.items()}
    return result.copy()
