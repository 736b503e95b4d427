# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""One half's turn on a device, from the bytes that the workers wrote to the actions: fixed buffers
and no waiting, so that a CUDA graph holds all of it.

    slab  --copy-->  staging  --[ storage[t] | policy | sample | storage[t] | actions | t += 1 ]-->  actions  --copy-->  slab

What is in brackets is `DeviceTurn.compute`: on CUDA it is captured once per half and replayed,
since t is a number on the device; elsewhere (tests, other devices) the same code runs as it stands.
Nothing in it reads a number back; an event tells when the actions have arrived. Runs in the
learner.
"""

from __future__ import annotations

import os
import time
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from puffervec.train.collect.storage import FLAGS, Rows, Slot, pick
from puffervec.train.collect.turn import Turn
from puffervec.train.device.graphs import WARM_UPS, alone, recording
from puffervec.train.device.streams import CudaStream, Stream, pin, stream_of
from puffervec.train.policies.distributions import draw_noise, sample
from puffervec.train.policies.leaves import Observations, as_signed
from puffervec.train.policies.protocol import forward

# How the actions are waited for, as the slab's own waits do: a look costs about a microsecond and
# most turns are over after some tens, so looking again at once pays first; then the core is offered
# to workers that want it; a sleep comes last, since the kernel's timer slack (50 us) makes any
# sleep at least so long.
LOOKS, YIELDS = 100, 200
PAUSE_S = 20e-6


class DeviceTurn(Turn):
    """The turn on a device."""

    PHASES = {
        "host-to-device": "_copy_in",
        "graph": "_run",
        "device-to-host": "_copy_out",
        "wait": "wait",
    }

    def __init__(self, *half: Any, block: Tensor, staging: Tensor) -> None:
        """Args: half: as of `Turn`, rows in staging; block: the half's bytes in the slab; staging:
        as many on the device.
        """
        super().__init__(*half)
        self.block, self.staging = block, staging
        self.step = torch.zeros(1, dtype=torch.int64, device=self.device)
        # Of all groups in one piece, as they stand at the end of the block: one copy out.
        begin = min(rows.actions_at for rows in self.groups.values())
        end = max(rows.actions_at + rows.actions.nbytes for rows in self.groups.values())
        self.actions_out = torch.zeros(end - begin, dtype=torch.uint8, device=self.device)
        self._actions_in = block.narrow(0, begin, end - begin)
        self.actions = {
            name: _actions_view(self.actions_out, begin, rows) for name, rows in self.groups.items()
        }
        self.graph: torch.cuda.CUDAGraph | None = None
        self._turns = 0

    @cached_property
    def stream(self) -> Stream:
        """The half's own; the slab's half is page-locked when it is first asked for."""
        found = stream_of(self.device)
        if isinstance(found, CudaStream):
            pin(self.block, self)
        return found

    def acting(self, slot: Slot) -> Any:
        """See Turn: halves overlap, so each has one of its own."""
        return slot.wrap(slot.policy)

    # ---- what a graph can hold -------------------------------------------------------------------

    @torch.no_grad()
    def compute(self) -> None:
        """Take the rows in `staging` into the storages at `step`, act on them, and leave the
        actions in `actions`.
        """
        for name, slot in self.slots.items():
            self._act(slot, self.groups[slot.group.name], self.columns[name])
        self.step.add_(1)

    def _act(self, slot: Slot, rows: Rows, columns: slice) -> None:
        storage, name, picked = slot.storage, slot.name, self.picked[slot.name]
        obs = self._take_in(slot, rows, columns)
        state, reset = self.remembered(slot), self.reset[name]
        allowed = None if rows.action_masks is None else pick(rows.action_masks, picked)
        noise = draw_noise(storage.spec, columns.stop - columns.start, self.device, self.generator)
        heads, value, after = forward(
            self.policies[name], obs, state, reset, allowed, self.bf16, cache=False
        )
        drawn, log_prob = sample(storage.spec, heads, noise)
        if state:
            self._put(storage.resets, columns, reset)
            for kept, new in zip(self.states[name], after, strict=True):
                kept.copy_(new)
        for target, source in (
            (storage.values, value),
            (storage.log_probs, log_prob),
            (storage.actions, drawn),
        ):
            self._put(target, columns, source)
        done = (pick(rows.terminals, picked) | pick(rows.truncations, picked)) != 0
        reset.copy_(done | (pick(rows.masks, picked) == 0))
        self._leave(slot, drawn)

    def _take_in(self, slot: Slot, rows: Rows, columns: slice) -> Observations:
        """Write a policy's rows into its storage and return its observations, as the storage has
        them.
        """
        storage, picked = slot.storage, self.picked[slot.name]
        kept = {}
        for key, target in storage.obs.items():
            kept[key] = pick(rows.obs[key], picked).to(target.dtype)
            self._put(target, columns, kept[key])
        for name in FLAGS:
            source = getattr(rows, name)
            if source is not None:
                self._put(getattr(storage, name), columns, pick(source, picked))
        return kept

    def _put(self, target: Tensor, columns: slice, source: Tensor) -> None:
        """target[step, columns] = source, with the step on the device."""
        part = as_signed(target).narrow(1, columns.start, columns.stop - columns.start)
        part.index_copy_(0, self.step, as_signed(source.to(target.dtype)).unsqueeze(0))

    def _leave(self, slot: Slot, drawn: Tensor) -> None:
        """Put actions (rows, D), as the env takes them, where they are copied from."""
        out, taken = self.actions[slot.group.name], slot.storage.action_map(drawn)
        if (picked := self.picked[slot.name]) is None:
            out.copy_(taken)
        else:
            out.index_copy_(0, picked, taken.to(out.dtype))

    # ---- around it -------------------------------------------------------------------------------

    def begin(self, step: int) -> None:
        """See Turn; what the thread's stream has been asked for is waited for on the device."""
        self.step.fill_(step)
        self.stream.follow()

    def keep_states(self, step: int, horizon: int) -> None:
        with self.stream.active():
            super().keep_states(step, horizon)

    def launch(self) -> None:
        """See Turn: copy the rows in, compute, copy the actions out. Returns at once on CUDA."""
        with self.stream.active():
            self._copy_in()
            self._run()
            self._copy_out()
        self._turns += 1
        if isinstance(self.stream, CudaStream) and self._turns == WARM_UPS:
            self._capture(self.stream)

    def _copy_in(self) -> None:
        self.staging.copy_(self.block, non_blocking=True)

    def _run(self) -> None:
        if self.graph is not None:
            self.graph.replay()
        else:
            with alone:
                self.compute()

    def _copy_out(self) -> None:
        self._actions_in.copy_(self.actions_out, non_blocking=True)
        self.stream.mark()

    def wait(self) -> None:
        looks = 0
        while not self.stream.done():
            looks += 1
            if looks > LOOKS + YIELDS:
                time.sleep(PAUSE_S)
            elif looks > LOOKS:
                os.sched_yield()

    def _capture(self, stream: CudaStream) -> None:
        """Record `compute` as a graph. Nothing runs meanwhile, so the step, the states and the
        generator stay as they are.
        """
        # Each half has memory of its own, for they overlap.
        with recording(stream, self.generator) as graph:
            self.compute()
        self.graph = graph

    def resend(self) -> None:
        for name, slot in self.slots.items():
            self._leave(slot, slot.storage.actions[0, self.columns[name]])
        self.stream.follow()
        with self.stream.active():
            self._copy_out()
        self.wait()

    def join(self) -> None:
        """See Turn: the thread's stream waits for this half on the device."""
        self.stream.precede()


def _actions_view(out: Tensor, begin: int, rows: Rows) -> Tensor:
    """Return a group's actions as a view on the bytes of all, which begin at `begin` of the block."""
    part = out.narrow(0, rows.actions_at - begin, rows.actions.nbytes)
    return part.view(rows.actions.dtype).view(rows.actions.shape)
