# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Stop 5 of an observation's path: the vector env as the learner sees it. Backends (backends.py) differ in who runs the envs.

    async_reset -> recv -> send -> recv -> ...            one buffer
    async_reset -> recv A -> send A -> recv B -> send B   two buffers, strictly A B A B: B simulates while A's policy runs

Everything that the hot path needs is looked up once here: `recv` is one C call, and `send` another. What stands beside the loop
(saving, calls, tasks) is in control.py; halves in the order in which they get ready in delivery.py.

A signal handler may raise anywhere in a call. `recv` marks a half only when it has read all, so that it can be called again.
Where an exception comes between steps that belong together, as between publishing a turn and marking it, the state becomes
INTERRUPTED: every call raises until all envs are reset, and that reset waits for whatever was published (`_realign`).
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from puffervec import native
from puffervec._ffi import ffi, lib
from puffervec.core import actions as action_border
from puffervec.core.info_area import InfoArea, InfoReader, gather, info_bytes
from puffervec.core.infos import NO_INFOS, Infos
from puffervec.core.shared_memory import PrivateMemory, SharedMemory
from puffervec.core.slab import RECORD_DTYPE, Half, Request, layout, view_half
from puffervec.core.spec import row_dtype
from puffervec.errors import CallOrderError, ClosedError, ForkedError, WorkerError, WorkerTimeout
from puffervec.host.patience import Patience
from puffervec.process import failures
from puffervec.process.worker_main import SharedFile
from puffervec.python.mailbox import Mailbox
from puffervec.states import CLOSED, FORKED, HELD, IDLE, INTERRUPTED, PENDING, READY
from puffervec.vec import delivery
from puffervec.vec.control import Aside, env_range
from puffervec.vec.settings import VectorSettings

if TYPE_CHECKING:
    import gymnasium

    from puffervec.python.env import PythonEnv

SLICE_NS = lib.PV_SLICE_NS
_alive: weakref.WeakSet[VectorEnv] = weakref.WeakSet()


def _disown_all() -> None:
    for vec in list(_alive):
        vec._disown()


os.register_at_fork(after_in_child=_disown_all)


class VectorEnv(Aside):
    """Many envs, stepped together. Made by `puffervec.make`.

    Attributes:
        num_envs, num_workers, num_buffers: as asked for. num_agents: rows of all envs. agents_per_batch: rows of one half.
        spec: the rows as the env describes them. config: a C env's settings. env: the env type. autoreset_mode: as asked for.
        halves: views on each half's rows. half: index of the half last received.
        driver_env: a Python env that was made here to see its spaces; this object for C envs.
        emulated: False for C envs; else a dict with the dtypes of native rows, as PufferLib has it.
        agent_ids: ids of the rows of the half last received (dict by group where there are several groups).
    """

    has_workers = True  # of which there may be several; a class that has none sets it to False
    memory_kind: type[SharedMemory] | type[PrivateMemory] = SharedMemory

    def __init__(self, env: native.NativeEnv | PythonEnv, config: Any, settings: VectorSettings) -> None:
        self.env, self.config, self.settings = env, config, settings
        self.num_envs, self.num_workers = settings.num_envs, settings.num_workers
        self.num_buffers = settings.num_buffers
        self.autoreset_mode = settings.autoreset
        self._state = [IDLE] * self.num_buffers
        self._interrupted = [INTERRUPTED] * self.num_buffers  # becomes `_state` in one store
        self._allocate()
        self._views()
        self._recv_half = self._send_half = self.half = 0
        self._strict_order = settings.order == "strict"
        self._held: deque[list[int]] = deque()  # batches received and not yet sent, where the order is not strict
        self._last_batch = [0]
        self._notify: set[int] = set()  # halves whose envs are to be notified before their next turn
        self._seeded = False
        self._optioned: set[int] = set()  # halves for which options of a reset may still stand in a mailbox
        self._invalid_actions = 0
        self._broken: WorkerError | None = None
        self._finalizers: list[weakref.finalize[Any, Any]] = []  # what ends the workers of one that is dropped
        self._start()
        _alive.add(self)

    # ---- construction -------------------------------------------------------------------------------------------------

    def _allocate(self) -> None:
        build = self.env.build(self.config)
        config, params = self.env.pack(self.config), native.pack_params(build.params)
        self._data_fd = os.open(build.data, os.O_RDONLY | os.O_CLOEXEC) if build.data is not None else -1
        if self._data_fd >= 0:
            weakref.finalize(self, os.close, self._data_fd)
        self._data = SharedFile(self._data_fd).map() if self._data_fd >= 0 else None
        c_spec, self.spec = self.env.describe(config, params, self._data, self.autoreset_mode)
        head = layout(c_spec, self._request(len(config), len(params)))
        self._memory = self.memory_kind(head.bytes)
        self._buffer = self._memory.buffer
        self._buffer[: ffi.sizeof("pv_slab")] = bytes(ffi.buffer(head))
        self._buffer[head.config_offset : head.config_offset + len(config)] = config
        self._buffer[head.params_offset : head.params_offset + len(params)] = params
        self._slab = ffi.cast("pv_slab*", ffi.from_buffer(self._buffer))
        self._waiter = ffi.new("pv_waiter*", {"pauses": self.settings.learner_pauses, "yields": self.settings.learner_yields})

    def _request(self, config_bytes: int, params_bytes: int) -> Request:
        settings = self.settings
        per_worker = -(-self.num_envs // self.num_buffers)
        if settings.split == "workers":
            per_worker = -(-per_worker // (self.num_workers // self.num_buffers))
        return Request(
            self.num_envs, self.num_workers, self.num_buffers, settings.split, config_bytes, params_bytes, settings.autoreset,
            settings.order != "strict", 0 if isinstance(self.env, native.NativeEnv) else info_bytes(per_worker),
        )  # fmt: skip

    def _views(self) -> None:
        head, buffer, spec = self._slab, self._buffer, self.spec
        self.halves = tuple(view_half(buffer, head, spec, h) for h in range(self.num_buffers))
        self.num_agents = self.num_envs * spec.agents
        self.agents_per_batch = self.num_agents // self.num_buffers * self.settings.batch_halves
        self.num_groups = len(spec.groups)
        self._single = self.num_groups == 1
        self._tasks = np.frombuffer(buffer, np.int64, self.num_envs, head.tasks_offset)
        self._tasks[:] = -1
        self._seeds = np.frombuffer(buffer, np.uint64, self.num_envs, head.seeds_offset)
        self._reset_masks = np.frombuffer(buffer, np.uint8, self.num_envs, head.reset_masks_offset)
        shape = (self.num_workers, head.lanes, lib.PV_COUNTERS)
        self._counters = np.frombuffer(buffer, np.uint64, int(np.prod(shape)), head.counters_offset).reshape(shape)
        self._results = [tuple(self._collect(half, name) for name in _RECV_ARRAYS) for half in self.halves]
        self._workers = [env_range(lib.pv_slab_workers(head, h)) for h in range(self.num_buffers)]
        self._fast_actions = action_border.fast_codes(spec.groups[0], self.halves[0].rows) if self._single else {}
        self._state_dtype = row_dtype(spec.state_fields, spec.state_bytes)
        self._records = [[self._record_area(worker, h) for worker in self._workers[h]] for h in range(self.num_buffers)]
        for worker in range(self.num_workers):
            failures.error_slot(head, worker).env = lib.PV_ALL_ENVS
        self._mailboxes: list[Mailbox] = []
        self._info_readers: list[list[tuple[int, InfoReader]]] = [[] for _ in range(self.num_buffers)]  # as in _workers

    def _open_mail(self, shared: bool) -> None:
        """Make the mailboxes and info readers of Python envs. shared: workers are other processes."""
        served: list[list[int]] = [[] for _ in range(self.num_workers)]
        for half, workers in enumerate(self._workers):
            for worker in workers:
                served[worker].append(half)
                span = env_range(lib.pv_slab_span(self._slab, worker, half))
                area = InfoArea(self._buffer, lib.pv_slab_infos(self._slab, worker, half), len(span))
                self._info_readers[half].append((span.start - int(self.halves[half].env_ids[0]), InfoReader(area)))
        self._mailboxes = [Mailbox(halves, shared) for halves in served]

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

    def _trace_of(self, worker: int) -> str:
        """Return the Python stacks of a worker that hangs, "" if it cannot be asked."""
        return ""

    def _disown(self) -> None:
        """In a forked child: leave everything to the parent."""
        self._state = [FORKED] * self.num_buffers
        for finalizer in self._finalizers:
            finalizer.detach()

    # ---- spaces (one object each, so that sampling and seeding go on) ----------------------------------------------------

    @cached_property
    def single_observation_space(self) -> gymnasium.Space[Any]:
        """Space of one row; a Dict by group where there are several."""
        return self._by_group([group.observation_space for group in self.spec.groups])

    @cached_property
    def single_action_space(self) -> gymnasium.Space[Any]:
        """Space of one row's action; a Dict by group where there are several."""
        return self._by_group([group.action_space for group in self.spec.groups])

    @cached_property
    def observation_space(self) -> gymnasium.Space[Any]:
        """Space of the rows of one batch."""
        return self._by_group([_batched(g.observation_space, self._rows(i)) for i, g in enumerate(self.spec.groups)])

    @cached_property
    def action_space(self) -> gymnasium.Space[Any]:
        """Space of the actions of one batch."""
        return self._by_group([_batched(g.action_space, self._rows(i)) for i, g in enumerate(self.spec.groups)])

    def _rows(self, group: int) -> int:
        return int(self.halves[0].groups[self.spec.groups[group].name].rows * self.settings.batch_halves)

    def _by_group(self, found: list[gymnasium.Space[Any]]) -> gymnasium.Space[Any]:
        from gymnasium import spaces

        return found[0] if self._single else spaces.Dict(dict(zip([g.name for g in self.spec.groups], found, strict=True)))

    @property
    def driver_env(self) -> Any:
        """The Python env that was made to see its spaces; this object for C envs."""
        return self if isinstance(self.env, native.NativeEnv) else self.env.driver

    @property
    def emulated(self) -> Any:
        """False for C envs; else the dtypes of a native row: {"observation_dtype": ..., "emulated_observation_dtype": ...}."""
        plan = self.spec.groups[0].observation_plan
        return {"observation_dtype": plan.row_dtype, "emulated_observation_dtype": plan.dtype} if plan is not None else False

    @property
    def agent_ids(self) -> Any:
        """(rows,) int64 ids of the rows of the batch last received; dict by group where there are several."""
        return delivery.joined([self._results[half][_AGENT_IDS] for half in self._batch])

    @property
    def env_ids(self) -> np.ndarray:
        """(envs,) int64 indices of the envs of the batch last received."""
        return np.concatenate([self.halves[half].env_ids for half in self._batch])

    @property
    def final_observations(self) -> Any:
        """Same-step mode: like the observations, the last ones of rows that are done in the batch last received; else None.

        Views on shared memory as in `recv` (copies where `recv` copies).
        """
        found = [self._collect(self.halves[half], "final_observations") for half in self._batch]
        return None if self.autoreset_mode != "same_step" else delivery.joined(found, self.settings.copy)

    @property
    def _batch(self) -> list[int]:
        """The halves last received."""
        return [self.half] if self._strict_order else self._last_batch

    # ---- the loop -----------------------------------------------------------------------------------------------------

    def async_reset(
        self, seed: int | Sequence[int | None] | None = None, *, mask: Any = None, options: Mapping[str, Any] | None = None
    ) -> None:
        """Start a reset; `recv` each half afterwards. Turns that are under way are waited for and dropped.

        Args:
            seed: env i gets seed + i, or the i-th entry of a sequence (None: as if no seed were given). None: at the first
                reset the seed of `make` (or a random one), later the envs keep their seeds and begin their next episode.
            mask: (num_envs,) bool: only these envs are reset; the others stay as they are, and only halves with a reset env
                are to be received again (first come: all halves of a batch with one; rewards that were seen are then 0).
            options: for the reset of Python envs, the same for each. C envs know {"task": n}: see `set_tasks`.
        Raises:
            ConfigError: an unusable seed, mask or option. ClosedError. WorkerError: an env failed, WorkerDied, WorkerTimeout.
            CallOrderError: a mask that takes in envs which are under way.
        """
        self._require_open(or_interrupted=mask is None)
        chosen = None if mask is None else self._check_mask(mask)
        seeds, which = self._choose_seeds(seed, chosen)
        if options is not None and not self._mailboxes:
            self._take_task(options, chosen)
        halves = [h for h in range(self.num_buffers) if which is None or which[self.halves[h].env_ids].any()]
        questions = self._options_for(options, halves)
        try:
            if self._state[0] is INTERRUPTED:
                self._realign()
            elif chosen is None:
                self._drain()
            self._post(questions)
            self._publish_reset(halves, seeds, which)
            self._optioned = self._optioned.difference(halves) if options is None else self._optioned.union(halves)
        except BaseException:
            self._break_off()
            raise

    def recv(self, timeout_s: float | None = None) -> tuple[Any, Any, Any, Any, Infos, Any, Any]:
        """Wait for the next batch and return its rows.

        Args:
            timeout_s: raise WorkerTimeout after this long, but leave the turn under way: a later `recv` goes on waiting for it.
                None: as long as the vector env's own deadline, after which it is given up.
        Returns:
            (observations, rewards, terminals, truncations, infos, agent_ids, masks): observations (rows, F), rewards (rows,)
            float32, the flags (rows,) bool; dicts by group where there are several. infos: see `puffervec.core.infos.Infos`;
            false where nothing was reported.
        Aliasing: views on shared memory, valid until the next `send` of this half (copy=True: copies).
        Raises:
            CallOrderError: nothing was sent. ClosedError. WorkerError, WorkerDied, WorkerTimeout.
        """
        if not self._strict_order:
            return delivery.recv(self, timeout_s)  # type: ignore[no-any-return]
        half = self._recv_half
        if self._state[half] is not PENDING:
            return self._recv_ready(half)  # type: ignore[no-any-return]
        slice_ns = SLICE_NS if timeout_s is None else _slice_ns(timeout_s)
        flags = lib.pv_turn_recv(self._slab, half, 0, self._waiter, slice_ns, 0)
        if flags < 0:
            flags = self._wait_on(half, flags, timeout_s)
        if flags & 2:  # PV_TURN_FAILED
            self._raise_failure(half)
        obs, rewards, terminals, truncations, ids, masks = self._results[half]
        infos = self._infos([half]) if flags else NO_INFOS
        if self.settings.copy:
            obs, rewards, terminals, truncations, ids, masks = map(_copied, self._results[half])
        try:  # only now, and without a call in between
            self._state[half] = HELD
            self.half = half
            self._recv_half = half + 1 if half + 1 < self.num_buffers else 0
            return obs, rewards, terminals, truncations, infos, ids, masks
        except BaseException:
            self._state = self._interrupted
            raise

    def send(self, actions: Any) -> None:
        """Hand over the actions of the batch received longest ago and let its workers step.

        Args:
            actions: (rows,) for discrete, (rows, D) for several choices or continuous; any integer dtype or a list for discrete
                kinds; dict by group where there are several; None: they stand in `halves[h].groups[...].actions` already.
                Values out of range or not finite become the no-op (0) and are counted in `counters()["invalid_actions"]`;
                Python envs get them as they are, floats in the precision in which they are given; they take
                `puffervec.core.actions.Native`, too.
        Raises:
            ActionError: wrong count, shape or kind; with strict=True also a value out of range. Nothing was sent.
            CallOrderError: no half is received; or, without autoreset, an env is done. ClosedError.
        """
        if not self._strict_order:
            return delivery.send(self, actions)
        half = self._send_half
        if self._state[half] is not HELD:
            self._refuse_send(half)
        if self.autoreset_mode == "disabled":
            self._refuse_done(half)
        self._step_half(half, actions)

    def _step_half(self, half: int, actions: Any) -> None:
        """Write the actions of a half and publish its turn."""
        if half in self._notify:
            self._notify_half(half)
        code = self._fast_actions.get((getattr(actions, "dtype", None), getattr(actions, "shape", None)))
        if code is not None and not self.settings.strict and actions.flags.c_contiguous:
            given = ffi.from_buffer(actions)
        else:
            code = None
            beside = self._native(half, actions) if self._mailboxes else None
            replaced = 0
            if beside is None:
                replaced = action_border.write(self._slab, self.spec, self.halves[half], half, actions, self.settings.strict)
        try:
            self._state[half] = PENDING
            self._send_half = half + 1 if half + 1 < self.num_buffers else 0
            if code is not None:
                replaced = lib.pv_turn_step(self._slab, half, given, code, self._waiter)
            else:
                if beside is not None:
                    self._post_native(half, beside)
                lib.pv_turn_send(self._slab, half, lib.PV_STEP, 0, 0, self._waiter)
            if replaced:
                self._invalid_actions += replaced
            self._sent(half)
        except BaseException:  # who sends again would send to the next half
            self._state = self._interrupted
            raise

    def reset(
        self, seed: int | Sequence[int | None] | None = None, *, mask: Any = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, Infos]:
        """Reset all envs (or those of `mask`) and wait: `async_reset` and `recv` in one. Needs one batch.

        Returns (observations, infos).
        """
        self._require_one_batch("reset", "async_reset and recv")
        self.async_reset(seed, mask=mask, options=options)
        return self.recv()[0:5:4]

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Infos]:
        """Step all envs and wait: `send` and `recv` in one. Needs one batch.

        Returns (observations, rewards, terminals, truncations, infos) as in `recv`.
        """
        self._require_one_batch("step", "send and recv")
        self.send(actions)
        return self.recv()[:5]

    # ---- the slow side of the loop ------------------------------------------------------------------------------------

    def _refuse_done(self, half: int) -> None:
        """Raise where an env of the half is done and nobody has reset it (no autoreset)."""
        over = np.ones(len(self.halves[half].env_ids), np.bool_)
        for rows in self.halves[half].groups.values():
            live = rows.masks & ~rows.terminals & ~rows.truncations
            over &= ~live.reshape(len(over), -1).any(axis=1)
        if over.any():
            ids = self.halves[half].env_ids[over]
            raise CallOrderError(
                f"send: env {ids[0]}" + (f" and {len(ids) - 1} more" if len(ids) > 1 else "") + " is done and "
                "autoreset_mode is 'disabled': call reset(mask=...) first, with True for each env that is done"
            )

    def _recv_ready(self, half: int) -> Any:
        """`recv` of a half that is not under way: hand out loaded rows, or refuse."""
        self._require_open()
        if self._state[half] is not READY:
            expected = "send" if self._state[half] is HELD else "async_reset or reset"
            raise CallOrderError(f"recv: half {half} is {self._state[half]}: call {expected} first")
        obs, rewards, terminals, truncations, ids, masks = self._results[half]
        result: tuple[Any, ...] = (obs, rewards, terminals, truncations, ids, masks)
        if self.settings.copy:
            result = tuple(map(_copied, result))
        try:
            self._state[half] = HELD
            self.half = half
            self._recv_half = (half + 1) % self.num_buffers
            return (*result[:4], NO_INFOS, *result[4:])
        except BaseException:
            self._state = self._interrupted
            raise

    def _refuse_send(self, half: int) -> None:
        self._require_open()
        expected = "async_reset or reset" if self._state[half] is IDLE else "recv"
        raise CallOrderError(f"send: half {half} is {self._state[half]}: call {expected} first")

    def _require_open(self, or_interrupted: bool = False) -> None:
        if self._state[0] is CLOSED:
            raise ClosedError(f"this vector env of {self.env.name!r} is closed: make a new one")
        if self._state[0] is FORKED:
            raise ForkedError(
                f"this vector env of {self.env.name!r} belongs to the process that this one was forked from, which shares its "
                "memory: make one of your own in each process, or fork before making it"
            )
        if self._broken is not None:
            raise self._broken.again()
        if self._state[0] is INTERRUPTED and not or_interrupted:
            raise CallOrderError(
                "an exception, as of Ctrl-C, broke off a call of this vector env, and its envs may be ahead of what was "
                "returned: call reset or async_reset, for all envs, to go on"
            )

    def _require_one_batch(self, name: str, instead: str) -> None:
        if self.num_buffers != 1:
            raise CallOrderError(
                f"{name} needs num_buffers=1 (batch_size=num_envs), this has {self.num_buffers} halves: use {instead}"
            )

    def _wait_on(self, half: int, result: int, timeout_s: float | None = None) -> int:
        """Go on waiting for the workers of a half, with a look around after each slice."""
        patience = Patience()
        while result < 0:
            first = -1 - result
            self._look_around(self._workers[half], first, patience, timeout_s)
            slice_ns = SLICE_NS if timeout_s is None else _slice_ns(timeout_s)
            result = lib.pv_turn_recv(self._slab, half, first, self._waiter, slice_ns, 1)
        return int(result)

    def _look_around(
        self,
        workers: Sequence[int],
        waiting_for: int,
        patience: Patience,
        soft_s: float | None = None,
        start_s: float | None = None,
    ) -> None:
        """Between two slices of a wait: raise if a worker has died or time is up.

        Args: soft_s: give up this wait only. start_s: the limit while workers start.
        """
        waited = patience.waited_s()
        try:
            self._check_workers(workers)
            if start_s is not None and waited > start_s:
                raise failures.hung_start(self._slab, waiting_for, start_s, self._trace_of(waiting_for))
            if start_s is None and waited > self.settings.timeout_s:
                raise failures.hung(self._slab, waiting_for, self.settings.timeout_s, self._trace_of(waiting_for))
        except WorkerError as error:
            self._broken = error
            raise
        if soft_s is not None and waited >= soft_s:
            at = failures.work(self._slab, waiting_for)
            text = f"worker {waiting_for} gave no answer in {soft_s:g} s; its turn goes on"
            raise WorkerTimeout(text, **at.of(waiting_for))

    def _record_area(self, worker: int, half: int) -> tuple[np.ndarray, np.ndarray]:
        """Return views on a lane's (count, dropped), uint32, and on its room for records."""
        offset = lib.pv_slab_records(self._slab, worker, half)
        head = np.frombuffer(self._buffer, np.uint32, 2, offset)
        return head, np.frombuffer(self._buffer, RECORD_DTYPE, self._slab.record_capacity, offset + 64)

    def _infos(self, halves: Sequence[int]) -> Infos:
        """Return what the workers of the halves have reported; positions count from the first half on."""
        if not self._mailboxes:
            records = [room[: head[0]] for half in halves for head, room in self._records[half]]
            return Infos(np.concatenate(records), self.spec.record_names)
        envs = len(self.halves[0].env_ids)
        readers, others = [], []
        for i, half in enumerate(halves):
            for worker, (first, reader) in zip(self._workers[half], self._info_readers[half], strict=True):
                readers.append((i * envs + first, reader))
                if reader.others:
                    found = self._read_infos(worker, half)
                    others += [(i * envs + first + position, info) for position, info in found]
        return Infos(numeric=gather(readers, envs * len(halves)), others=others)

    # ---- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the workers. May be called in any state and any number of times; arrays that were returned stay readable.

        In a forked child it does nothing: the workers are the parent's.
        """
        if self._state[0] in (CLOSED, FORKED):
            return
        self._state = [CLOSED] * self.num_buffers
        self._stop()
        self._mailboxes = []  # their files are closed with them
        self.env.close()

    def notify(self) -> None:
        """Call `notify` of every Python env that has one, at once or before its next turn; C envs have no use for it."""
        self._require_open()
        if self._mailboxes and hasattr(self.driver_env, "notify"):
            self._notify = set(range(self.num_buffers))
            for half, state in enumerate(self._state):
                if state is not PENDING:
                    self._notify_half(half)

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


def _slice_ns(timeout_s: float) -> int:
    """Return how long one sleep may be in a wait that is given up after `timeout_s`."""
    return int(min(SLICE_NS, max(1e3, timeout_s * 1e9)))


def _batched(space: gymnasium.Space[Any], rows: int) -> gymnasium.Space[Any]:
    from gymnasium.vector.utils import batch_space

    return batch_space(space, rows)


def _copied(result: Any) -> Any:
    if isinstance(result, Mapping):
        return {key: _copied(value) for key, value in result.items()}
    return result.copy()
