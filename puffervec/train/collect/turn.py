# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""One half's turn, from the rows that the workers wrote to the actions; `HostTurn` on a CPU,
device_turn.py on a device.

    begin(step)  |  launch: rows into storage[step]; wait: policy, actions into the slab; step += 1  |  launch ...  |  join

On a CPU observations are copied once, straight from the slab into the storage, in the policy's
dtype. Runs in the learner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from puffervec.train.collect.storage import FLAGS, Rows, Slot, Storage, pick
from puffervec.train.device.device import ThreadPool
from puffervec.train.policies.distributions import draw_noise, sample
from puffervec.train.policies.mapping import places
from puffervec.train.policies.memory import State
from puffervec.train.policies.pool import Pool
from puffervec.train.policies.protocol import forward

# Rows that a thread takes at once: enough that a small policy's kernels are not all overhead
# (tag_grid on two cores: 0.8 M agent-steps/s with 256, 2.0 M with 2,048), few enough that four
# threads have work in a half of some hundred rows.
LEAST_ROWS, MOST_ROWS, PIECES = 256, 2048, 4


class Turn:
    """The turns of one half.

    Attributes: reset (by policy, (rows,) bool), states (by policy): carried from turn to turn.
    PHASES: for a profiler, the methods that do each, by name.
    """

    PHASES: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self,
        index: int,
        groups: Mapping[str, Rows],
        slots: Mapping[str, Slot],
        columns: Mapping[str, slice],
        generator: torch.Generator | None,
        bf16: bool,
    ) -> None:
        """Args: index: of the half; groups: its rows; slots: by policy; columns: of their storages;
        generator: of actions, None for the device's own; bf16: run hidden layers in bf16.
        """
        self.index, self.groups, self.slots, self.columns = index, groups, slots, columns
        self.generator, self.bf16 = generator, bf16
        self.device = device = next(iter(slots.values())).storage.device
        count = {name: part.stop - part.start for name, part in columns.items()}
        self.states: dict[str, State] = {
            name: tuple(part.to(device) for part in slot.policy.initial_state(count[name]))
            for name, slot in slots.items()
        }
        self.reset = {
            name: torch.ones(count[name], dtype=torch.bool, device=device) for name in slots
        }
        self.picked = {name: self._places(slot, count[name]) for name, slot in slots.items()}
        self.policies = {name: self.acting(slot) for name, slot in slots.items()}

    def acting(self, slot: Slot) -> Any:
        """Return what acts for a slot's policy: halves that take turns share its plans."""
        return slot.acting

    def _places(self, slot: Slot, count: int) -> Tensor | None:
        """Where a policy's rows stand among the half's of their group; None: all."""
        if slot.agents is None:
            return None
        rows = len(self.groups[slot.group.name].rewards)
        return torch.from_numpy(places(slot.agents, rows * len(slot.agents) // count, rows)).to(
            self.device
        )

    def remembered(self, slot: Slot) -> State:
        """Return what a policy remembers at this step. A pool draws first who plays the episodes
        that begin.
        """
        state, policy = self.states[slot.name], slot.policy
        if not isinstance(policy, Pool):
            return state
        return policy.draw_members(
            state, self.reset[slot.name], self.columns[slot.name].start // slot.group.agents
        )

    def begin(self, step: int) -> None:
        """Say at which step of the storages the next turn is."""
        raise NotImplementedError

    def keep_states(self, step: int, horizon: int) -> None:
        """Keep what the policies remember before the first and the last step of a roll-out, for its
        update and the next.
        """
        for name, slot in self.slots.items() if step in (0, horizon) else ():
            kept = tuple(part.clone() for part in self.states[name])
            (slot.storage.first_states if step == 0 else slot.storage.last_states)[self.index] = (
                kept
            )

    def launch(self) -> None:
        """Start the turn: take the half's rows."""
        raise NotImplementedError

    def wait(self) -> None:
        """Return when the rows and what the policies did are in the storages, and their actions in
        the slab.
        """
        raise NotImplementedError

    def resend(self) -> None:
        """Put the actions of the storages' step 0 into the slab: a roll-out begins with those that
        the one before drew.
        """
        raise NotImplementedError

    def join(self) -> None:
        """End a roll-out: the update may read the storages."""


class HostTurn(Turn):
    """The turn on a CPU."""

    PHASES = {"host-to-device": "launch", "policy": "_act", "device-to-host": "_leave"}

    def __init__(self, *half: Any, pool: ThreadPool) -> None:
        """Args: half: as of `Turn`, the rows in the slab itself; pool: works on pieces of the rows."""
        super().__init__(*half)
        self.pool, self.step = pool, 0
        self._ready = {
            name for name, slot in self.slots.items() if self.policies[name] is slot.policy
        }

    def begin(self, step: int) -> None:
        self.step = step

    def launch(self) -> None:
        """See Turn: the only copy of an observation; dtypes are cast on the way."""
        for name, slot in self.slots.items():
            storage, rows, here = (
                slot.storage,
                self.groups[slot.group.name],
                (self.step, self.columns[name]),
            )
            for key, target in storage.obs.items():
                target[here].copy_(pick(rows.obs[key], self.picked[name]))
            for key in FLAGS:
                if (source := getattr(rows, key)) is not None:
                    getattr(storage, key)[here].copy_(pick(source, self.picked[name]))

    def wait(self) -> None:
        """See Turn: the policies run in here."""
        for slot in self.slots.values():
            self._act(slot)
            if self.step < slot.storage.horizon:  # `resend` leaves those of the last step
                self._leave(slot, self.step)
        self.step += 1

    @torch.no_grad()
    def _act(self, slot: Slot) -> None:
        """Run the policy on the rows of this step and store what it did."""
        storage, columns, name, step = slot.storage, self.columns[slot.name], slot.name, self.step
        state, reset = self.remembered(slot), self.reset[name]
        if state:
            storage.resets[step, columns].copy_(reset)
        noise = draw_noise(storage.spec, columns.stop - columns.start, self.device, self.generator)
        pieces = pieces_of(columns)

        @torch.no_grad()
        def act(piece: slice) -> State:
            """Runs in a thread of the pool."""
            obs = {key: part[step, piece] for key, part in storage.obs.items()}
            allowed = None if storage.action_masks is None else storage.action_masks[step, piece]
            here = slice(piece.start - columns.start, piece.stop - columns.start)
            before = tuple(part[here] for part in state)
            heads, value, after = forward(
                self.policies[name], obs, before, reset[here], allowed, self.bf16
            )
            actions, log_prob = sample(storage.spec, heads, noise[here])
            storage.values[step, piece].copy_(value)
            storage.log_probs[step, piece].copy_(log_prob)
            storage.actions[step, piece].copy_(actions)
            return after

        # What a wing has made of a policy may set itself up at its first call, which other threads
        # must not see.
        after = (
            self.pool.map(act, pieces) if name in self._ready else [act(piece) for piece in pieces]
        )
        self._ready.add(name)
        if state:
            self.states[name] = tuple(torch.cat(parts) for parts in zip(*after, strict=True))
            self.reset[name] = _starts_anew(storage, step, columns)

    def _leave(self, slot: Slot, step: int) -> None:
        """Put the drawn actions of a step into the slab, as the env takes them."""
        target = self.groups[slot.group.name].actions
        actions = slot.storage.action_map(slot.storage.actions[step, self.columns[slot.name]])
        if (picked := self.picked[slot.name]) is None:
            target.copy_(actions)
        else:
            target[picked] = actions.to(target.dtype)

    def resend(self) -> None:
        for slot in self.slots.values():
            self._leave(slot, 0)


def pieces_of(columns: slice) -> list[slice]:
    """Cut columns into equal pieces; the cut does not depend on the number of threads."""
    rows = columns.stop - columns.start
    count = max(-(-rows // MOST_ROWS), min(-(-rows // LEAST_ROWS), PIECES))
    size = -(-rows // count)
    return [
        slice(begin, min(begin + size, columns.stop))
        for begin in range(columns.start, columns.stop, size)
    ]


def _starts_anew(storage: Storage, step: int, columns: slice) -> Tensor:
    """Rows whose next observation is not this episode's: done or absent at `step`."""
    done = storage.terminals[step, columns] | storage.truncations[step, columns]
    return (storage.masks[step, columns] == 0) | (done != 0)
