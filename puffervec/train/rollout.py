# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Roll-outs: the loop between the vec env and the policy, and the memory it fills. Path stop 6, the only place that copies.

    recv(A) | copy A's rows into storage[t] | policy on A | actions into A's slab | send(A) | recv(B) | ...   A B A B

While the policy works on one half, the workers simulate the other. Observations cross once: on a CPU straight from the slab
into the storage (in the policy's dtype), on CUDA as one copy of the half's block into a fixed buffer and from there inside the
device. Nothing in the step waits for the device but the hand-over of the actions.

Storage is time-major with T + 1 steps; the last step of a roll-out is the first of the next, with the action that was drawn for
it. One storage per policy holds its rows of all halves side by side. Runs in the learner.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from puffervec.errors import ConfigError
from puffervec.memory import refuse_more
from puffervec.spec import EnvSpec, GroupSpec
from puffervec.train.device import ThreadTeam
from puffervec.train.distributions import ActionMap, ActionSpec, draw_noise, sample
from puffervec.train.memory import State
from puffervec.train.policy import Observation
from puffervec.train.returns import EpisodeTracker, NumericInfos, as_records
from puffervec.train.rows import TORCH_DTYPES, stored_dtype, width

PIECE_ROWS = 256  # Rows that a thread takes at once: what the caches hold of a small policy, and some milliseconds of work.


class Storage:
    """What a roll-out leaves for the update: the rows of one policy.

    obs: (T+1, R, F) or a dict of (T+1, R, ...); of a Python env always (T+1, R, width), rows as they stand. actions (T+1, R, D)
    as drawn, before `action_map`; rewards, values, log_probs (T+1, R) float32; terminals, truncations, masks (T+1, R) uint8;
    action_masks (T+1, R, choices) uint8 or None. For policies
    with memory: resets (T+1, R) uint8; first_states and last_states, what they remembered before step 0 and before step T, per
    half.
    """

    def __init__(self, group: GroupSpec, horizon: int, rows: int, device: torch.device, obs_dtype: torch.dtype | None) -> None:
        """Args: rows: R, over all halves; obs_dtype: for float observations of C envs, None keeps the env's."""
        self.spec = ActionSpec.of(group)
        self.action_map = ActionMap(self.spec, device, TORCH_DTYPES[group.action_dtype])
        self.horizon, self.rows, self.device = horizon, rows, device
        steps = (horizon + 1, rows)
        self.obs: Observation
        plan = group.observation_plan
        if plan is not None:
            self.obs = torch.zeros(*steps, width(plan), dtype=stored_dtype(plan), device=device)
        elif group.flat_dtype is not None:
            floats = sum(int(np.prod(field.shape)) for field in group.fields)
            self.obs = torch.zeros(*steps, floats, dtype=_storage_dtype(group.flat_dtype, obs_dtype), device=device)
        else:
            self.obs = {
                field.name: torch.zeros(*steps, *field.shape, dtype=_storage_dtype(field.dtype, obs_dtype), device=device)
                for field in group.fields
            }
        self.actions = torch.zeros(*steps, self.spec.dims, dtype=self.spec.dtype, device=device)
        self.rewards, self.values, self.log_probs = (torch.zeros(steps, device=device) for _ in range(3))
        self.terminals, self.truncations, self.masks, self.resets = (
            torch.zeros(steps, dtype=torch.uint8, device=device) for _ in range(4)
        )
        self.action_masks: Tensor | None = None
        if group.action_mask_size:
            self.action_masks = torch.zeros(*steps, group.action_mask_size, dtype=torch.uint8, device=device)
        self.first_states: dict[int, State] = {}
        self.last_states: dict[int, State] = {}

    def tensors(self) -> dict[str, Tensor]:
        """All arrays by name, T + 1 steps each."""
        named = {
            name: getattr(self, name)
            for name in (
                "actions",
                "rewards",
                "values",
                "log_probs",
                "terminals",
                "truncations",
                "masks",
                "resets",
                "action_masks",
            )
        }
        observations = {f"obs.{k}": v for k, v in self.obs.items()} if isinstance(self.obs, dict) else {"obs": self.obs}
        return {name: tensor for name, tensor in (observations | named).items() if tensor is not None}

    def carry_over(self) -> None:
        """Copy the last step to the first: a roll-out begins where the one before ended."""
        for tensor in self.tensors().values():
            tensor[0].copy_(tensor[-1])
        self.first_states = dict(self.last_states)


def step_bytes(group: GroupSpec, rows: int, obs_dtype: torch.dtype | None) -> int:
    """Return the bytes that one step of a `Storage` takes; allocates nothing. Args: as of `Storage`."""
    one_row = Storage(group, 0, 1, torch.device("meta"), obs_dtype)
    return rows * sum(tensor.nbytes for tensor in one_row.tensors().values())


def refuse_large(spec: EnvSpec, num_envs: int, horizon: int, device: torch.device, obs_dtype: torch.dtype | None) -> None:
    """Raise ConfigError where the storages of a run would not fit into the memory of `device`; allocates nothing."""
    wanted = (horizon + 1) * sum(step_bytes(group, group.agents * num_envs, obs_dtype) for group in spec.groups)
    what, advice = (
        f"for roll-outs of {horizon:,} steps of {num_envs:,} envs",
        "use a shorter train.horizon, or fewer vec.num_envs",
    )
    if device.type == "cpu":
        refuse_more(wanted, "train.horizon needs", what, advice)
    elif device.type == "cuda" and wanted > (free := torch.cuda.mem_get_info(device)[0]):
        raise ConfigError(f"train.horizon needs {wanted:,} bytes {what}; {free:,} are free on {device}: {advice}")


def _storage_dtype(dtype: Any, wanted: torch.dtype | None) -> torch.dtype:
    kept: torch.dtype = TORCH_DTYPES[np.dtype(dtype)]
    return wanted if wanted is not None and kept == torch.float32 else kept


@dataclasses.dataclass
class Slot:
    """Rows of one group that one policy acts for. `rows` are their indices within a half's rows of the group; None: all."""

    name: str
    policy: Any  # an nn.Module with the protocol of policy.py
    group: GroupSpec
    storage: Storage
    rows: Tensor | None = None


@dataclasses.dataclass
class _Rows:
    """A half's rows of one group, as tensors on the block (CPU: the slab itself; CUDA: the fixed buffer it is copied to)."""

    obs: Observation
    rewards: Tensor
    terminals: Tensor
    truncations: Tensor
    masks: Tensor
    action_masks: Tensor | None
    actions: Tensor  # always the slab's


@dataclasses.dataclass
class _Half:
    """One half of the vec env and where it lands."""

    block: Tensor  # uint8, the slab's
    staging: Tensor  # the block itself on a CPU, a fixed buffer on CUDA
    groups: dict[str, _Rows]
    states: dict[str, State]
    reset: dict[str, Tensor]  # (rows,) bool: the row's state starts anew at the next step


@dataclasses.dataclass
class Times:
    """Seconds spent, summed until read; together they are the time of `collect`."""

    env: float = 0.0
    copy: float = 0.0
    forward: float = 0.0


class Rollout:
    """Drives a vec env with policies and fills their storages."""

    def __init__(
        self,
        vec: Any,
        slots: dict[str, Slot],
        device: torch.device,
        bf16: bool,
        generator: torch.Generator,
        team: ThreadTeam,
    ) -> None:
        """Args: vec: from `puffervec.make`; slots: by policy name; bf16: run hidden layers in bf16; generator: of actions;
        team: works on the rows of a half."""
        self.vec, self.slots, self.device, self.bf16, self.generator = vec, slots, device, bf16, generator
        self.team = team
        self.horizon = next(iter(slots.values())).storage.horizon
        self.halves = [self._make_half(index) for index in range(vec.num_buffers)]
        self.times = Times()
        self.episodes: list[np.ndarray] = []  # records of finished episodes, emptied by the caller
        self.numeric: list[NumericInfos] = []  # numbers in the infos of Python envs, emptied by the caller
        # Python envs keep no records: they are made from the rows of whole roll-outs.
        self.trackers = {n: EpisodeTracker(s.storage.rows) for n, s in slots.items() if s.group.observation_plan is not None}
        self.full = False  # the storages hold a whole roll-out, whose last step the next one begins with

    def _make_half(self, index: int) -> _Half:
        half = self.vec.halves[index]
        block = torch.from_numpy(half.block)
        staging = block if self.device.type == "cpu" else torch.empty_like(block, device=self.device)
        groups = {group.name: _rows_of(staging, half, group) for group in self.vec.spec.groups}
        states = {
            n: tuple(s.to(self.device) for s in slot.policy.initial_state(self._count(slot))) for n, slot in self.slots.items()
        }
        reset = {n: torch.ones(self._count(slot), dtype=torch.bool, device=self.device) for n, slot in self.slots.items()}
        return _Half(block, staging, groups, states, reset)

    def _count(self, slot: Slot) -> int:
        """Rows of a slot in one half."""
        return slot.storage.rows // len(self.vec.halves)

    def collect(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Fill steps 0 to T of all storages; from the second call on, step 0 is the last step of the call before.

        Blocks until the workers have simulated T steps. Returns: False where `stop()` became true on the way.
        """
        if self.full:
            for slot in self.slots.values():
                slot.storage.carry_over()
            for index, half in enumerate(self.halves):
                for slot in self.slots.values():
                    self._write_actions(slot, half, slot.storage.actions[0, self._columns(slot, index)])
                self._send()
        first, self.full = (1 if self.full else 0), False
        for step in range(first, self.horizon + 1):
            for _ in self.halves:
                if stop():
                    for tracker in self.trackers.values():
                        tracker.forget()
                    return False
                self._advance(step)
        self.full = True
        self._track(first)
        return True

    def _track(self, first: int) -> None:
        """Make records of the episodes that ended in steps `first` to T."""
        for name, tracker in self.trackers.items():
            storage, agents = self.slots[name].storage, self.slots[name].group.agents
            arrays = (storage.rewards, storage.terminals, storage.truncations, storage.masks)
            for rows in zip(*(array[first:].cpu().numpy() for array in arrays), strict=True):
                ended = tracker.step(*rows)
                if len(ended[0]):
                    self.episodes.append(as_records(ended, agents))

    def begin(self, seed: int) -> None:
        """Start new episodes in all envs; the next `collect` begins with them."""
        self.full = False
        for tracker in self.trackers.values():
            tracker.forget()
        self.vec.async_reset(seed)

    def _send(self) -> None:
        begin = time.perf_counter()
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()  # The actions are in the slab now.
        self.vec.send(None)
        self.times.env += time.perf_counter() - begin

    @torch.no_grad()
    def _advance(self, step: int) -> None:
        """Receive the next half, act on it and hand the actions over; those of the last step wait for the next roll-out, so
        that no turn is under way while the policies are updated or saved."""
        begin = time.perf_counter()
        *_, infos, _, _ = self.vec.recv()
        if infos:
            self.episodes.append(infos.episodes)
            if infos.numeric:
                self.numeric.append(infos.numeric)
        index = self.vec.half
        half = self.halves[index]
        received = time.perf_counter()
        if half.staging is not half.block:
            half.staging.copy_(half.block, non_blocking=True)
        for slot in self.slots.values():
            self._write(slot, half, index, step)
        copied = time.perf_counter()
        for slot in self.slots.values():
            self._act(slot, half, index, step)
        self.times.env += received - begin
        self.times.copy += copied - received
        self.times.forward += time.perf_counter() - copied
        if step < self.horizon:
            self._send()

    def _columns(self, slot: Slot, index: int) -> slice:
        """The storage columns of a half."""
        count = self._count(slot)
        return slice(index * count, (index + 1) * count)

    def _write(self, slot: Slot, half: _Half, index: int, step: int) -> None:
        """Copy a half's rows into step `step`: the only copy of an observation on a CPU; dtypes are cast on the way."""
        storage, rows, columns = slot.storage, half.groups[slot.group.name], self._columns(slot, index)
        for target, source in _pairs(storage.obs, rows.obs):
            target[step, columns].copy_(_pick(source, slot.rows))
        for name in ("rewards", "terminals", "truncations", "masks", "action_masks"):
            source = getattr(rows, name)
            if source is not None:
                getattr(storage, name)[step, columns].copy_(_pick(source, slot.rows))

    def _act(self, slot: Slot, half: _Half, index: int, step: int) -> None:
        """Run the policy on a half's rows of step `step`, store what it did and write the actions into the slab."""
        storage, columns, name = slot.storage, self._columns(slot, index), slot.name
        state = half.states[name]
        if state:
            storage.resets[step, columns].copy_(half.reset[name])
            if step == 0:
                storage.first_states[index] = tuple(part.clone() for part in state)
            elif step == self.horizon:
                storage.last_states[index] = tuple(part.clone() for part in state)
        noise = draw_noise(storage.spec, columns.stop - columns.start, self.device, self.generator)
        pieces = [columns] if self.device.type != "cpu" else _pieces(columns)

        @torch.no_grad()
        def act(piece: slice) -> State:
            """Runs in a thread of the team."""
            obs: Observation
            if isinstance(storage.obs, dict):
                obs = {key: value[step, piece] for key, value in storage.obs.items()}
            else:
                obs = storage.obs[step, piece]
            allowed = None if storage.action_masks is None else storage.action_masks[step, piece]
            here = slice(piece.start - columns.start, piece.stop - columns.start)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
                before = tuple(part[here] for part in state)
                heads, value, new_state = slot.policy(obs, before, half.reset[name][here], allowed)
            actions, log_prob = sample(storage.spec, heads, noise[here])
            storage.values[step, piece].copy_(value)
            storage.log_probs[step, piece].copy_(log_prob)
            storage.actions[step, piece].copy_(actions)
            return cast(State, new_state)

        new_states = self.team.map(act, pieces)
        if state:
            half.states[name] = tuple(torch.cat(parts) for parts in zip(*new_states, strict=True))
            half.reset[name] = _starts_anew(storage, step, columns)
        if step < self.horizon:
            self._write_actions(slot, half, storage.actions[step, columns])

    def _write_actions(self, slot: Slot, half: _Half, actions: Tensor) -> None:
        """Put a half's drawn actions (rows, D) into the slab, as the env takes them."""
        target = half.groups[slot.group.name].actions
        actions = slot.storage.action_map(actions)
        if slot.rows is None:
            target.copy_(actions, non_blocking=True)
        else:
            target[slot.rows.cpu()] = actions.to(target.device)


def _pieces(columns: slice) -> list[slice]:
    """Cut columns into pieces of at most PIECE_ROWS; the cut does not depend on the number of threads."""
    return [slice(begin, min(begin + PIECE_ROWS, columns.stop)) for begin in range(columns.start, columns.stop, PIECE_ROWS)]


def _starts_anew(storage: Storage, step: int, columns: slice) -> Tensor:
    """Rows whose next observation is not this episode's: done or absent at `step`."""
    done = storage.terminals[step, columns] | storage.truncations[step, columns]
    return (storage.masks[step, columns] == 0) | (done != 0)


def _pairs(targets: Observation, sources: Observation) -> list[tuple[Tensor, Tensor]]:
    if isinstance(targets, dict):
        assert isinstance(sources, dict)
        return [(targets[name], sources[name]) for name in targets]
    assert isinstance(sources, Tensor)
    return [(targets, sources)]


def _pick(source: Tensor, rows: Tensor | None) -> Tensor:
    return source if rows is None else source[rows]


def _rows_of(block: Tensor, half: Any, group: GroupSpec) -> _Rows:
    """Return a half's rows of a group as tensors on `block`; the actions always on the slab itself."""
    slab = half.groups[group.name]
    count = len(slab.rewards)

    def view(field: str, dtype: torch.dtype, *shape: int) -> Tensor:
        begin = half.offsets[group.name, field]
        size = int(np.prod(shape)) * torch.empty((), dtype=dtype).element_size()
        return block[begin : begin + size].view(dtype).view(shape)

    obs: Observation
    plan = group.observation_plan
    if plan is not None:
        obs = view("observations", TORCH_DTYPES[plan.row_dtype], count, width(plan))
    elif group.flat_dtype is not None:
        dtype = TORCH_DTYPES[np.dtype(group.flat_dtype)]
        obs = view("observations", dtype, count, group.observation_bytes // np.dtype(group.flat_dtype).itemsize)
    else:
        raw = view("observations", torch.uint8, count, group.observation_bytes)
        obs = {}
        for field in group.fields:
            size = int(np.prod(field.shape)) * np.dtype(field.dtype).itemsize
            part = raw[:, field.offset : field.offset + size].view(TORCH_DTYPES[np.dtype(field.dtype)])
            obs[field.name] = part.view(count, *field.shape)
    choices = group.action_mask_size
    return _Rows(
        obs=obs,
        rewards=view("rewards", torch.float32, count),
        terminals=view("terminals", torch.uint8, count),
        truncations=view("truncations", torch.uint8, count),
        masks=view("masks", torch.uint8, count),
        action_masks=view("action_masks", torch.uint8, count, choices) if choices else None,
        actions=torch.from_numpy(slab.actions).view(count, -1),
    )
