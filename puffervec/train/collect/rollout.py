# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Roll-outs: the loop between the vec env and the policy. Path stop 6, the only place that copies.

    recv(A) | copy A's rows into storage[t] | policy on A | actions into A's slab | send(A) | recv(B) | ...   A B A B

While the policy works on one half, the workers simulate the other. Observations cross once: on a CPU straight from the slab
into the storage (storage.py, in the policy's dtype), on CUDA as one copy of the half's block into a fixed buffer and from there
inside the device (device_turn.py). Nothing in the step waits for the device but the hand-over of the actions. Runs in the
learner.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from puffervec.train.collect.device_turn import DeviceTurn
from puffervec.train.collect.episodes import EpisodeTracker, NumericInfos, as_records
from puffervec.train.collect.storage import Rows, Slot, Storage, pairs, pick, rows_of
from puffervec.train.device.device import ThreadTeam
from puffervec.train.policies.distributions import draw_noise, sample
from puffervec.train.policies.leaves import Observation
from puffervec.train.policies.memory import State

# Rows that a thread takes at once: enough that a small policy's kernels are not all overhead (tag_grid on two cores: 0.8 M
# agent-steps/s with 256, 2.0 M with 2,048), few enough that four threads have work in a half of some hundred rows.
LEAST_ROWS, MOST_ROWS, PIECES = 256, 2048, 4


@dataclasses.dataclass
class _Half:
    """One half of the vec env and where it lands."""

    groups: dict[str, Rows]
    states: dict[str, State]
    reset: dict[str, Tensor]  # (rows,) bool: the row's state starts anew at the next step
    turn: DeviceTurn | None = None  # which then has states and reset; None on a CPU


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
        device_turns: bool | None = None,
    ) -> None:
        """Args: vec: from `puffervec.make`; slots: by policy name; bf16: run hidden layers in bf16; generator: of actions;
        team: works on the rows of a half; device_turns: work as on CUDA; None: where the device is no CPU."""
        self.vec, self.slots, self.device, self.bf16, self.generator = vec, slots, device, bf16, generator
        self.team = team
        self.device_turns = device.type != "cpu" if device_turns is None else device_turns
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
        if self.device_turns:
            turn = self._make_turn(index, half, block)
            return _Half(dict(turn.groups), turn.states, turn.reset, turn)
        groups = {group.name: rows_of(block, half, group) for group in self.vec.spec.groups}
        states = {
            n: tuple(s.to(self.device) for s in slot.policy.initial_state(self._count(slot))) for n, slot in self.slots.items()
        }
        reset = {n: torch.ones(self._count(slot), dtype=torch.bool, device=self.device) for n, slot in self.slots.items()}
        return _Half(groups, states, reset)

    def _make_turn(self, index: int, half: Any, block: Tensor) -> DeviceTurn:
        staging = torch.empty_like(block, device=self.device)
        groups = {group.name: rows_of(staging, half, group) for group in self.vec.spec.groups}
        columns = {name: self._columns(slot, index) for name, slot in self.slots.items()}
        return DeviceTurn(index, block, staging, groups, self.slots, columns, self.generator, self.bf16)

    def _count(self, slot: Slot) -> int:
        """Rows of a slot in one half."""
        return slot.storage.rows // len(self.vec.halves)

    def collect(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Fill steps 0 to T of all storages; from the second call on, step 0 is the last step of the call before.

        Blocks until the workers have simulated T steps. Returns: False where `stop()` became true on the way.
        """
        first = 1 if self.full else 0
        if self.full:
            self._go_on()
        for half in self.halves:
            if half.turn is not None:
                half.turn.begin(first)
        self.full = False
        for step in range(first, self.horizon + 1):
            for _ in self.halves:
                if stop():
                    for tracker in self.trackers.values():
                        tracker.forget()
                    return False
                self._advance(step)
        for half in self.halves:
            if half.turn is not None:
                half.turn.join()
        self.full = True
        self._track(first)
        return True

    def _go_on(self) -> None:
        """Make the last step of a roll-out the first of the next, and send the actions that were drawn for it."""
        for slot in self.slots.values():
            slot.storage.carry_over()
        for index, half in enumerate(self.halves):
            if half.turn is not None:
                half.turn.resend()
                half.turn.wait()
            else:
                for slot in self.slots.values():
                    self._write_actions(slot, half, slot.storage.actions[0, self._columns(slot, index)])
            self._send()

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
        for half in self.halves:
            for reset in half.reset.values():
                reset.fill_(True)  # in place: a CUDA graph may know where it stands
        self.vec.async_reset(seed)

    def _send(self) -> None:
        begin = time.perf_counter()
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
        if half.turn is None:
            for slot in self.slots.values():
                self._write(slot, half, index, step)
        else:
            half.turn.keep_states(step, self.horizon)
            half.turn.launch()
        copied = time.perf_counter()
        if half.turn is None:
            for slot in self.slots.values():
                self._act(slot, half, index, step)
        else:
            half.turn.wait()
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
        for target, source in pairs(storage.obs, rows.obs):
            target[step, columns].copy_(pick(source, slot.rows))
        for name in ("rewards", "terminals", "truncations", "masks", "action_masks"):
            source = getattr(rows, name)
            if source is not None:
                getattr(storage, name)[step, columns].copy_(pick(source, slot.rows))

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
        pieces = pieces_of(columns)

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
            target.copy_(actions)
        else:
            target[slot.rows] = actions


def pieces_of(columns: slice) -> list[slice]:
    """Cut columns into equal pieces; the cut does not depend on the number of threads."""
    rows = columns.stop - columns.start
    count = max(-(-rows // MOST_ROWS), min(-(-rows // LEAST_ROWS), PIECES))
    size = -(-rows // count)
    return [slice(begin, min(begin + size, columns.stop)) for begin in range(columns.start, columns.stop, size)]


def _starts_anew(storage: Storage, step: int, columns: slice) -> Tensor:
    """Rows whose next observation is not this episode's: done or absent at `step`."""
    done = storage.terminals[step, columns] | storage.truncations[step, columns]
    return (storage.masks[step, columns] == 0) | (done != 0)
