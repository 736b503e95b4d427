# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Take a half's turn on a device, from the workers' bytes to the actions.

    slab  --copy-->  staging
          --[ storage[t] | policy | sample | storage[t] | actions | t += 1 ]-->
    actions  --copy-->  slab

Buffers are fixed and nothing waits, so that a CUDA graph can hold the part in brackets, which is
`DeviceTurn.compute`. On CUDA it is captured once per half and replayed, since t is a number on the
device; elsewhere (tests, other devices) the same code runs directly. It reads no number back; an
event reports that the actions have arrived. Runs in the learner.
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

# How to wait for the actions, as the slab's own waits do. A look costs about a microsecond and most
# turns end within some tens of looks, so polling without a pause comes first; then the core is
# offered to workers that want it; a sleep comes last, since the kernel's timer slack makes any
# sleep at least 50 us long.
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
        """Prepare the buffers.

        Args:
            half: See `Turn`; the rows are in staging.
            block: The half's bytes in the slab.
            staging: A buffer of the same size on the device.
        """
        super().__init__(*half)
        self.block, self.staging = block, staging
        self.step = torch.zeros(1, dtype=torch.int64, device=self.device)
        # The actions of all groups lie together at the end of the block: one copy takes them out.
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
        """Return the half's own stream; the first call page-locks the slab's half."""
        stream = stream_of(self.device)
        if isinstance(stream, CudaStream):
            pin(self.block, self)
        return stream

    def acting(self, slot: Slot) -> Any:
        """See Turn. Halves overlap, so each wraps the policy separately."""
        return slot.wrap(slot.policy)

    # ---- recorded by a graph ---------------------------------------------------------------------

    @torch.no_grad()
    def compute(self) -> None:
        """Write the rows in `staging` into the storages at `step`, act, and write `actions`."""
        for name, slot in self.slots.items():
            self._act(slot, self.groups[slot.group.name], self.columns[name])
        self.step.add_(1)

    def _act(self, slot: Slot, rows: Rows, columns: slice) -> None:
        storage, name, indices = slot.storage, slot.name, self.row_indices[slot.name]
        obs = self._store(slot, rows, columns)
        state, reset = self.state_of(slot), self.reset[name]
        allowed = None if rows.action_masks is None else pick(rows.action_masks, indices)
        noise = draw_noise(storage.spec, columns.stop - columns.start, self.device, self.generator)
        heads, value, after = forward(
            self.policies[name], obs, state, reset, allowed, self.bf16, cache=False
        )
        actions, log_prob = sample(storage.spec, heads, noise)
        if state:
            self._put(storage.resets, columns, reset)
            for buffer, new in zip(self.states[name], after, strict=True):
                buffer.copy_(new)
        for target, source in (
            (storage.values, value),
            (storage.log_probs, log_prob),
            (storage.actions, actions),
        ):
            self._put(target, columns, source)
        done = (pick(rows.terminals, indices) | pick(rows.truncations, indices)) != 0
        reset.copy_(done | (pick(rows.masks, indices) == 0))
        self._write_actions(slot, actions)

    def _store(self, slot: Slot, rows: Rows, columns: slice) -> Observations:
        """Write a policy's rows into its storage and return the observations in its dtype."""
        storage, indices = slot.storage, self.row_indices[slot.name]
        obs = {}
        for key, target in storage.obs.items():
            obs[key] = pick(rows.obs[key], indices).to(target.dtype)
            self._put(target, columns, obs[key])
        for name in FLAGS:
            source = getattr(rows, name)
            if source is not None:
                self._put(getattr(storage, name), columns, pick(source, indices))
        return obs

    def _put(self, target: Tensor, columns: slice, source: Tensor) -> None:
        """Set target[step, columns] = source, with the step on the device."""
        part = as_signed(target).narrow(1, columns.start, columns.stop - columns.start)
        part.index_copy_(0, self.step, as_signed(source.to(target.dtype)).unsqueeze(0))

    def _write_actions(self, slot: Slot, actions: Tensor) -> None:
        """Convert actions (rows, D) to the env's and put them into the buffer for the copy out."""
        out, env_actions = self.actions[slot.group.name], slot.storage.action_map(actions)
        if (indices := self.row_indices[slot.name]) is None:
            out.copy_(env_actions)
        else:
            out.index_copy_(0, indices, env_actions.to(out.dtype))

    # ---- outside the graph -----------------------------------------------------------------------

    def begin(self, step: int) -> None:
        """See Turn. The half's stream waits for the thread's stream, on the device."""
        self.step.fill_(step)
        self.stream.follow()

    def save_states(self, step: int, horizon: int) -> None:
        with self.stream.active():
            super().save_states(step, horizon)

    def put_played(self, step: int, actions: Tensor, known: Tensor) -> None:
        with self.stream.active():
            super().put_played(step, actions, known)

    def launch(self) -> None:
        """See Turn: copy the rows in, compute, copy the actions out. Does not block on CUDA."""
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
        """Record `compute` as a graph.

        Nothing runs meanwhile, so the step, the states and the generator stay unchanged.
        """
        # Each half has separate graph memory, because the halves overlap.
        with recording(stream, self.generator) as graph:
            self.compute()
        self.graph = graph

    def resend(self) -> None:
        for name, slot in self.slots.items():
            self._write_actions(slot, slot.storage.actions[0, self.columns[name]])
        self.stream.follow()
        with self.stream.active():
            self._copy_out()
        self.wait()

    def join(self) -> None:
        """See Turn. The thread's stream waits for this half on the device."""
        self.stream.precede()


def _actions_view(out: Tensor, begin: int, rows: Rows) -> Tensor:
    """Return a group's actions as a view on the bytes of all, which start at `begin`."""
    part = out.narrow(0, rows.actions_at - begin, rows.actions.nbytes)
    return part.view(rows.actions.dtype).view(rows.actions.shape)
