# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The shared memory of a vector env: allocated, filled for the workers, and viewed as NumPy arrays.

Runs in the learner.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from puffervec._ffi import ffi, lib
from puffervec.contract import native
from puffervec.core.info_area import info_bytes
from puffervec.core.shared_memory import PrivateMemory, SharedMemory
from puffervec.core.slab import RECORD_DTYPE, Half, Request, layout, view_half
from puffervec.core.spec import row_dtype
from puffervec.errors import ConfigError
from puffervec.vec.settings import VectorSettings
from puffervec.workers.process import failures
from puffervec.workers.process.worker_main import SharedFile

if TYPE_CHECKING:
    from puffervec.workers.python.env import PythonEnv

RECV_ARRAYS = ("observations", "rewards", "terminals", "truncations", "agent_ids", "masks")
AGENT_IDS = RECV_ARRAYS.index("agent_ids")

Lane = tuple[int, int]  # (worker, half)


class Rows:
    """The slab of a vector env and the views on it.

    Attributes:
        slab: `pv_slab*`.
        buffer: the bytes of the slab.
        memory: the object that owns the bytes.
        data: this process's mapping of the data file that every worker maps, or None.
        data_file: the descriptor of that file, or None.
        spec: the env's description of its rows.
        single: whether there is only one group.
        state_dtype: structured dtype of the readable state.
        halves: views on each half's rows.
        results: for each half, the arrays that `recv` returns; dicts by group.
        workers: for each half, the workers that serve it.
        tasks: (num_envs,) int64, read by workers at a reset.
        seeds: (num_envs,) uint64, read by workers at a reset.
        reset_masks: (num_envs,) uint8, read by workers at a reset.
        counters: (workers, lanes, counters) uint64.
    """

    def __init__(
        self,
        env: native.NativeEnv | PythonEnv,
        config: Any,
        settings: VectorSettings,
        memory_kind: type[SharedMemory] | type[PrivateMemory],
    ) -> None:
        self.name, self.num_envs, self.num_workers = (
            env.name,
            settings.num_envs,
            settings.num_workers,
        )
        build = env.build(config)
        packed, params = env.pack(config), native.pack_params(build.params)
        self.data_file = (
            SharedFile(os.open(build.data, os.O_RDONLY | os.O_CLOEXEC))
            if build.data is not None
            else None
        )
        self.data = self.data_file.map() if self.data_file is not None else None
        c_spec, self.spec = env.describe(packed, params, self.data, settings.autoreset)
        head = layout(
            c_spec, _request(settings, len(packed), len(params), isinstance(env, native.NativeEnv))
        )
        self.memory = memory_kind(head.bytes)
        self.buffer = self.memory.buffer
        self.buffer[: ffi.sizeof("pv_slab")] = bytes(ffi.buffer(head))
        self.buffer[head.config_offset : head.config_offset + len(packed)] = packed
        self.buffer[head.params_offset : head.params_offset + len(params)] = params
        self.slab = ffi.cast("pv_slab*", ffi.from_buffer(self.buffer))
        self._look(settings.num_buffers)

    def _look(self, num_buffers: int) -> None:
        """Create the views on the slab."""
        head, buffer, spec = self.slab, self.buffer, self.spec
        self.halves = tuple(view_half(buffer, head, spec, h) for h in range(num_buffers))
        self.single = len(spec.groups) == 1
        self.results = [
            tuple(self.by_group(half, name) for name in RECV_ARRAYS) for half in self.halves
        ]
        self.workers = [_env_range(lib.pv_slab_workers(head, h)) for h in range(num_buffers)]
        self.state_dtype = row_dtype(spec.state_fields, spec.state_bytes)
        self.tasks = np.frombuffer(buffer, np.int64, self.num_envs, head.tasks_offset)
        self.tasks[:] = -1
        self.seeds = np.frombuffer(buffer, np.uint64, self.num_envs, head.seeds_offset)
        self.reset_masks = np.frombuffer(buffer, np.uint8, self.num_envs, head.reset_masks_offset)
        shape = (self.num_workers, head.lanes, lib.PV_COUNTERS)
        self.counters = np.frombuffer(
            buffer, np.uint64, int(np.prod(shape)), head.counters_offset
        ).reshape(shape)
        self._records = [
            [self.record_area(worker, h) for worker in self.workers[h]] for h in range(num_buffers)
        ]
        for worker in range(self.num_workers):
            failures.error_slot(head, worker).env = lib.PV_ALL_ENVS

    def by_group(self, half: Half, name: str) -> Any:
        """Return an array of a half by name, or a dict by group if there are several groups."""
        arrays = {group: getattr(rows, name) for group, rows in half.groups.items()}
        return next(iter(arrays.values())) if self.single else arrays

    def span(self, worker: int, half: int) -> range:
        """Return the envs of a half that a worker serves."""
        return _env_range(lib.pv_slab_span(self.slab, worker, half))

    def lanes(self, halves: Sequence[int]) -> list[Lane]:
        """Return the (worker, half) pairs that serve these halves, in env order."""
        return [(worker, half) for half in halves for worker in self.workers[half]]

    def record_area(self, worker: int, half: int) -> tuple[np.ndarray, np.ndarray]:
        """Return two views on a lane's record area: (count, dropped), uint32, and its records."""
        offset = lib.pv_slab_records(self.slab, worker, half)
        head = np.frombuffer(self.buffer, np.uint32, 2, offset)
        return head, np.frombuffer(
            self.buffer, RECORD_DTYPE, self.slab.record_capacity, offset + 64
        )

    def records(self, halves: Sequence[int]) -> np.ndarray:
        """Return a copy of the records that the workers of the halves left in their last turn."""
        return np.concatenate(
            [room[: head[0]] for half in halves for head, room in self._records[half]]
        )

    def forget_records(self, half: int) -> None:
        """Drop the records of the last turn of a half, which must have no turn under way."""
        for head, _ in self._records[half]:
            head[:] = 0

    def transfer(self, worker: int) -> memoryview:
        """Return the region through which states travel to and from a worker."""
        offset = self.slab.transfers_offset + worker * self.slab.transfer_bytes
        return self.buffer[offset : offset + self.slab.transfer_bytes]

    def over(self, half: int) -> np.ndarray:
        """Return which envs of a half have no live row left, (envs,) bool."""
        found = np.ones(len(self.halves[half].env_ids), np.bool_)
        for rows in self.halves[half].groups.values():
            live = rows.masks & ~rows.terminals & ~rows.truncations
            found &= ~live.reshape(len(found), -1).any(axis=1)
        return found

    def put_tasks(self, env_ids: Any, tasks: Any) -> None:
        """Set the tasks of envs, effective from their next reset.

        Raises:
            ConfigError: an env or a task that does not exist.
        """
        ids, wanted = _whole_numbers("env ids", env_ids), _whole_numbers("tasks", tasks)
        if ids.size and (ids.min() < 0 or ids.max() >= self.num_envs):
            raise ConfigError(
                f"set_tasks: env ids are {ids.min()} to {ids.max()}: use 0 to {self.num_envs - 1}"
            )
        if wanted.ndim and wanted.shape != ids.shape:
            raise ConfigError(
                f"set_tasks: {wanted.size} tasks for {ids.size} envs: give one per env, or one "
                "number"
            )
        self.require_tasks("set_tasks", wanted)
        self.tasks[ids] = wanted

    def require_tasks(self, verb: str, wanted: np.ndarray) -> None:
        """Raise ConfigError if one of these tasks does not exist."""
        missing = wanted[(wanted < -1) | (wanted >= self.spec.tasks)]
        if not missing.size:
            return
        if not self.spec.tasks:
            raise ConfigError(
                f"{verb}: {self.name} is a Python env and has no tasks: use reset(options=...)"
            )
        there = (
            "its only task is 0"
            if self.spec.tasks == 1
            else f"its tasks are 0 to {self.spec.tasks - 1}"
        )
        raise ConfigError(
            f"{verb}: {self.name} has no task {missing[0]}: {there}, and -1 lets the env choose"
        )


def _request(settings: VectorSettings, config_bytes: int, params_bytes: int, in_c: bool) -> Request:
    per_worker = -(-settings.num_envs // settings.num_buffers)
    if settings.split == "workers":
        per_worker = -(-per_worker // (settings.num_workers // settings.num_buffers))
    return Request(
        settings.num_envs,
        settings.num_workers,
        settings.num_buffers,
        settings.split,
        config_bytes,
        params_bytes,
        settings.autoreset,
        settings.order != "strict",
        0 if in_c else info_bytes(per_worker),
    )


def _env_range(span: Any) -> range:
    """Return the env indices of a `pv_span`."""
    return range(span.first_env, span.first_env + span.env_count)


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
