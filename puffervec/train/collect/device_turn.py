# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""One half's turn on a device, from the bytes that the workers wrote to the actions: fixed buffers and no waiting, so that a
CUDA graph holds all of it.

    slab  --copy-->  staging  --[ storage[t] | policy | sample | storage[t] | actions | t += 1 ]-->  actions  --copy-->  slab

What is in brackets is `DeviceTurn.compute`: on CUDA it is captured once per half and replayed, since t is a number on the
device; elsewhere (tests, other devices) the same code runs as it stands. Nothing in it reads a number back; an event tells
when the actions have arrived. Runs in the learner.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from functools import cached_property

import torch
from torch import Tensor

from puffervec.train.collect.storage import Rows, Slot, pairs, pick
from puffervec.train.device.graphs import WARM_UPS, alone, recording
from puffervec.train.device.pinned import pin
from puffervec.train.policies.distributions import draw_noise, sample
from puffervec.train.policies.leaves import Observation, as_signed
from puffervec.train.policies.memory import State

# How the actions are waited for, as the slab's own waits do: a look costs about a microsecond and most turns are over after
# some tens, so looking again at once pays first; then the core is offered to workers that want it; a sleep comes last, since
# the kernel's timer slack (50 us) makes any sleep at least so long.
LOOKS, YIELDS = 100, 200
PAUSE_S = 20e-6


class DeviceTurn:
    """The turn of one half. Attributes: reset (by policy, (rows,) bool), states (by policy): carried from turn to turn."""

    def __init__(
        self,
        index: int,
        block: Tensor,
        staging: Tensor,
        groups: Mapping[str, Rows],
        slots: Mapping[str, Slot],
        columns: Mapping[str, slice],
        generator: torch.Generator | None,
        bf16: bool,
    ) -> None:
        """Args: index: of the half; block: its bytes in the slab; staging: as many on the device, which groups are views on;
        columns: of the storages; generator: of actions, on the device, None for the device's own."""
        self.index, self.block, self.staging, self.groups = index, block, staging, groups
        self.slots, self.columns, self.generator, self.bf16 = slots, columns, generator, bf16
        self.device = staging.device
        count = {name: part.stop - part.start for name, part in columns.items()}
        self.states: dict[str, State] = {
            name: tuple(part.to(self.device) for part in slot.policy.initial_state(count[name])) for name, slot in slots.items()
        }
        self.reset = {name: torch.ones(count[name], dtype=torch.bool, device=self.device) for name in slots}
        self.step = torch.zeros(1, dtype=torch.int64, device=self.device)
        # Of all groups in one piece, as they stand at the end of the block: one copy out.
        begin = min(rows.actions_at for rows in groups.values())
        end = max(rows.actions_at + rows.actions.nbytes for rows in groups.values())
        self.actions_out = torch.zeros(end - begin, dtype=torch.uint8, device=self.device)
        self._actions_in = block.narrow(0, begin, end - begin)
        self.actions = {name: _actions_view(self.actions_out, begin, rows) for name, rows in groups.items()}
        self.graph: torch.cuda.CUDAGraph | None = None
        self._turns = 0

    @cached_property
    def stream(self) -> torch.cuda.Stream:
        """The half's own; the slab's half is page-locked when it is first asked for."""
        pin(self.block, self)
        return torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]

    @cached_property
    def arrived(self) -> torch.cuda.Event:
        """Happens when the actions of the last launch stand in the slab."""
        return torch.cuda.Event()  # type: ignore[no-untyped-call]

    # ---- what a graph can hold ------------------------------------------------------------------------------------

    @torch.no_grad()
    def compute(self) -> None:
        """Take the rows in `staging` into the storages at `step`, act on them, and leave the actions in `actions`."""
        for name, slot in self.slots.items():
            self._act(slot, self.groups[slot.group.name], self.columns[name])
        self.step.add_(1)

    def _act(self, slot: Slot, rows: Rows, columns: slice) -> None:
        storage, name = slot.storage, slot.name
        obs = self._take_in(slot, rows, columns)
        state, reset = self.states[name], self.reset[name]
        allowed = None if rows.action_masks is None else pick(rows.action_masks, slot.rows)
        noise = draw_noise(storage.spec, columns.stop - columns.start, self.device, self.generator)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16, cache_enabled=False):
            heads, value, after = slot.policy(obs, state, reset, allowed)
        drawn, log_prob = sample(storage.spec, heads, noise)
        if state:
            self._put(storage.resets, columns, reset)
            for kept, new in zip(state, after, strict=True):
                kept.copy_(new)
        for target, source in ((storage.values, value), (storage.log_probs, log_prob), (storage.actions, drawn)):
            self._put(target, columns, source)
        done = (pick(rows.terminals, slot.rows) | pick(rows.truncations, slot.rows)) != 0
        reset.copy_(done | (pick(rows.masks, slot.rows) == 0))
        self._leave(slot, drawn)

    def _take_in(self, slot: Slot, rows: Rows, columns: slice) -> Observation:
        """Write a policy's rows into its storage and return its observations, as the storage has them."""
        storage = slot.storage
        kept = {}
        for key, (target, source) in zip(_keys(storage.obs), pairs(storage.obs, rows.obs), strict=True):
            kept[key] = pick(source, slot.rows).to(target.dtype)
            self._put(target, columns, kept[key])
        for name in ("rewards", "terminals", "truncations", "masks", "action_masks"):
            source = getattr(rows, name)
            if source is not None:
                self._put(getattr(storage, name), columns, pick(source, slot.rows))
        return kept if isinstance(storage.obs, dict) else kept[""]

    def _put(self, target: Tensor, columns: slice, source: Tensor) -> None:
        """target[step, columns] = source, with the step on the device."""
        part = as_signed(target).narrow(1, columns.start, columns.stop - columns.start)
        part.index_copy_(0, self.step, as_signed(source.to(target.dtype)).unsqueeze(0))

    def _leave(self, slot: Slot, drawn: Tensor) -> None:
        """Put actions (rows, D), as the env takes them, where they are copied from."""
        out, taken = self.actions[slot.group.name], slot.storage.action_map(drawn)
        if slot.rows is None:
            out.copy_(taken)
        else:
            out.index_copy_(0, slot.rows, taken.to(out.dtype))

    # ---- around it ------------------------------------------------------------------------------------------------

    def keep_states(self, step: int, horizon: int) -> None:
        """Keep what the policies remember before the first and the last step of a roll-out, for its update and the next."""
        if step not in (0, horizon):
            return
        with torch.cuda.stream(self.stream) if self.device.type == "cuda" else contextlib.nullcontext():
            for name, slot in self.slots.items():
                kept = tuple(part.clone() for part in self.states[name])
                (slot.storage.first_states if step == 0 else slot.storage.last_states)[self.index] = kept

    def launch(self) -> None:
        """Start the turn: copy the rows in, compute, copy the actions out. Returns at once on CUDA."""
        if self.device.type != "cuda":
            self.staging.copy_(self.block)
            self.compute()
            self._copy_out()
            return
        with torch.cuda.stream(self.stream):
            self.staging.copy_(self.block, non_blocking=True)
            if self.graph is not None:
                self.graph.replay()
            else:
                with alone:
                    self.compute()
            self._copy_out()
        self._turns += 1
        if self.graph is None and self._turns == WARM_UPS:
            self.capture()

    def _copy_out(self) -> None:
        self._actions_in.copy_(self.actions_out, non_blocking=True)
        if self.device.type == "cuda":
            self.arrived.record(self.stream)

    def wait(self) -> None:
        """Return when the actions stand in the slab."""
        looks = 0
        while self.device.type == "cuda" and not self.arrived.query():  # type: ignore[no-untyped-call]
            looks += 1
            if looks > LOOKS + YIELDS:
                time.sleep(PAUSE_S)
            elif looks > LOOKS:
                os.sched_yield()

    def capture(self) -> None:
        """Record `compute` as a graph. Nothing runs meanwhile, so the step, the states and the generator stay as they are."""
        # Each half has memory of its own, for they overlap.
        with recording(self.stream, self.generator) as graph:
            self.compute()
        self.graph = graph

    def resend(self) -> None:
        """Copy the actions of the storages' step 0 out: a roll-out begins with those that the one before drew."""
        for name, slot in self.slots.items():
            self._leave(slot, slot.storage.actions[0, self.columns[name]])
        if self.device.type == "cuda":
            self.stream.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(self.stream):
                self._copy_out()
        else:
            self._copy_out()

    def begin(self, step: int) -> None:
        """Say at which step of the storages the next turn is; what the default stream has done is waited for on the device."""
        self.step.fill_(step)
        if self.device.type == "cuda":
            self.stream.wait_stream(torch.cuda.current_stream(self.device))

    def join(self) -> None:
        """Let the default stream wait for this half, on the device: the update reads what it wrote."""
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).wait_stream(self.stream)


def _keys(obs: Observation) -> list[str]:
    return list(obs) if isinstance(obs, dict) else [""]


def _actions_view(out: Tensor, begin: int, rows: Rows) -> Tensor:
    """Return a group's actions as a view on the bytes of all, which begin at `begin` of the block."""
    part = out.narrow(0, rows.actions_at - begin, rows.actions.nbytes)
    return part.view(rows.actions.dtype).view(rows.actions.shape)
