# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The slab seen from Python: the layout that csrc/core/slab.c defines, and views on the rows.

Runs in the learner.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from puffervec._ffi import ffi, lib
from puffervec.core.spec import AUTORESET_MODES, EnvSpec, GroupSpec
from puffervec.system.memory import refuse_more

SPLITS = {"workers": lib.PV_SPLIT_WORKERS, "envs": lib.PV_SPLIT_ENVS}

RECORD_DTYPE = np.dtype(
    {
        "names": ["episode", "task", "env", "slot", "agent_type", "length", "return", "values"],
        "formats": ["u8", "i8", "u4", "u4", "u4", "u4", "f4", ("f4", (lib.PV_RECORD_VALUES,))],
        "offsets": [
            ffi.offsetof("pv_record", c_name)
            for c_name in (
                "episode",
                "task",
                "env",
                "slot",
                "agent_type",
                "length",
                "episode_return",
                "values",
            )
        ],
        "itemsize": ffi.sizeof("pv_record"),
    }
)


@dataclass(frozen=True)
class Request:
    """The parameters that determine the layout of a slab (`pv_slab_request`)."""

    num_envs: int
    num_workers: int
    num_buffers: int
    split: str
    config_bytes: int
    params_bytes: int
    autoreset: str = "next_step"
    any_order: bool = False
    info_bytes: int = 0

    def to_c(self) -> Any:
        """Return a filled `pv_slab_request*`."""
        values = dataclasses.asdict(self)
        values["split"] = SPLITS[self.split]
        values["autoreset"] = AUTORESET_MODES[self.autoreset]
        return ffi.new("pv_slab_request*", values)


def layout(c_spec: Any, request: Request) -> Any:
    """Return a `pv_slab*` header with all offsets (csrc/core/slab.c).

    Raises:
        ConfigError: the sizes overflow, or there is no room for them (puffervec/system/memory.py).
    """
    head = ffi.new("pv_slab*")
    size = lib.pv_slab_layout(c_spec, request.to_c(), head)
    states = request.num_envs * c_spec.save_bytes  # approximates the workers' private memory
    refuse_more(
        size + states if size else None,
        f"{request.num_envs:,} envs need",
        "of shared memory and env states",
        "use fewer envs, or smaller observations",
    )
    return head


@dataclass(frozen=True)
class GroupRows:
    """The rows of one group in one half: NumPy views on the slab, in env order.

    All arrays alias shared memory; workers write it from `send` until `recv` of this half.

    Attributes:
        observations: (rows, F) of the flat dtype, (rows, *shape) of a picture, or a dict of (rows,
            *shape) arrays by field.
        rewards: (rows,) float32.
        terminals: (rows,) bool.
        truncations: (rows,) bool.
        masks: (rows,) bool.
        agent_types: (rows,) uint8.
        action_masks: (rows, choices) bool, or None.
        actions: (rows,) or (rows, D) of uint8 if every index has at most 255 choices, else of
            int32; or (rows, D) float32; for Python envs as the action plan defines.
        agent_ids: (rows,) int64, index of the row's agent over the whole vector env: env * (agents
            per env over all groups) + slot.
        final_observations: like observations, in same-step mode: the last observation of rows that
            are done; else None.
    """

    spec: GroupSpec
    rows: int
    observations: Any
    rewards: np.ndarray
    terminals: np.ndarray
    truncations: np.ndarray
    masks: np.ndarray
    agent_types: np.ndarray
    action_masks: np.ndarray | None
    actions: np.ndarray
    agent_ids: np.ndarray
    final_observations: Any = None


@dataclass(frozen=True)
class Half:
    """The envs of one buffer; they are called a half whatever the number of buffers.

    Attributes:
        env_ids: (envs,) int64 global env indices.
        rows: number of rows of all groups.
        block: (bytes,) uint8, the half's whole contiguous block, for transfers in one copy.
        offsets: byte offset in the block of each (group, array).
        groups: the rows by group name.
    """

    index: int
    env_ids: np.ndarray
    rows: int
    block: np.ndarray
    offsets: dict[tuple[str, str], int]
    groups: dict[str, GroupRows]


_ARRAYS = (
    "observations",
    "rewards",
    "terminals",
    "truncations",
    "masks",
    "agent_types",
    "action_masks",
    "actions",
)


def _observations(memory: memoryview, offset: int, rows: int, group: GroupSpec) -> Any:
    size = rows * group.observation_bytes
    raw = np.frombuffer(memory, np.uint8, size, offset)
    if group.observation_plan is not None:
        return raw.view(group.observation_plan.row_dtype).reshape(
            rows, *group.observation_plan.row_shape
        )
    if group.flat_dtype is not None:
        return raw.view(group.flat_dtype).reshape(rows, *group.flat_shape)
    table = raw.view(group.row_dtype)
    return {field.name: table[field.name] for field in group.fields}


def _agent_ids(env_ids: np.ndarray, spec: EnvSpec, g: int) -> np.ndarray:
    first_slot = sum(group.agents for group in spec.groups[:g])
    slots = np.arange(first_slot, first_slot + spec.groups[g].agents)
    return (env_ids[:, None] * spec.agents + slots).reshape(-1)


def _group_rows(memory: memoryview, at: Any, group: GroupSpec, agent_ids: np.ndarray) -> GroupRows:
    rows = int(at.rows)

    def view(dtype: Any, offset: int, *columns: int) -> np.ndarray:
        count = rows * int(np.prod(columns, dtype=np.int64))
        return np.frombuffer(memory, dtype, count, offset).reshape(rows, *columns)

    columns = group.action_shape
    return GroupRows(
        spec=group,
        rows=rows,
        observations=_observations(memory, at.observations, rows, group),
        rewards=view(np.float32, at.rewards),
        terminals=view(np.bool_, at.terminals),
        truncations=view(np.bool_, at.truncations),
        masks=view(np.bool_, at.masks),
        agent_types=view(np.uint8, at.agent_types),
        action_masks=view(np.bool_, at.action_masks, group.action_mask_size)
        if group.action_mask_size
        else None,
        actions=view(group.action_row_dtype, at.actions, *columns),
        agent_ids=agent_ids,
        final_observations=_observations(memory, at.final_observations, rows, group)
        if at.final_observations
        else None,
    )


def view_half(memory: memoryview, head: Any, spec: EnvSpec, index: int) -> Half:
    """Return the views on one half; `head` is the slab's `pv_slab*`."""
    at = head.halves[index]
    env_ids = np.arange(at.first_env, at.first_env + at.env_count)
    ids = [_agent_ids(env_ids, spec, g) for g in range(len(spec.groups))]
    groups = {
        group.name: _group_rows(memory, at.groups[g], group, ids[g])
        for g, group in enumerate(spec.groups)
    }
    offsets = {
        (group.name, array): getattr(at.groups[g], array) - at.offset
        for g, group in enumerate(spec.groups)
        for array in _ARRAYS
        if array != "action_masks" or group.action_mask_size
    }
    return Half(
        index=index,
        env_ids=env_ids,
        rows=at.env_count * spec.agents,
        block=np.frombuffer(memory, np.uint8, at.bytes, at.offset),
        offsets=offsets,
        groups=groups,
    )
