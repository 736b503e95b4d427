# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Take a half's turn, from the workers' rows to the actions: `HostTurn` on a CPU.

    begin(step)  |  launch: rows into storage[step]
                 |  wait: policy, actions into the slab; step += 1  |  launch ...  |  join

On a CPU observations are copied once, straight from the slab into the storage, in the policy's
dtype. device_turn.py has the turn on a device. Runs in the learner.
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

# Rows that a thread processes in one piece: enough that overhead does not dominate a small policy's
# kernels (tag_grid on two cores: 0.8 M agent-steps/s with 256, 2.0 M with 2,048), few enough that
# four threads have work in a half of some hundred rows.
LEAST_ROWS, MOST_ROWS, PIECES = 256, 2048, 4


class Turn:
    """The turns of one half.

    Attributes:
        reset: (rows,) bool by policy, carried from turn to turn.
        states: The policies' states, carried from turn to turn.
        PHASES: For a profiler: the method of each phase, by the phase's name.
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
        """Create states and resets.

        Args:
            index: Index of the half.
            groups: The half's rows, by group.
            slots: The slots, by policy.
            columns: The half's columns in the storages, by policy.
            generator: Draws the actions; None for the device's default generator.
            bf16: Whether to run hidden layers in bf16.
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
        self.row_indices = {name: self._indices(slot, count[name]) for name, slot in slots.items()}
        self.policies = {name: self.acting(slot) for name, slot in slots.items()}

    def acting(self, slot: Slot) -> Any:
        """Return what to call for a slot's policy; halves that alternate share one wrapper."""
        return slot.acting

    def _indices(self, slot: Slot, count: int) -> Tensor | None:
        """Return a policy's rows among the half's rows of their group, (n,) int64; None for all."""
        if slot.agents is None:
            return None
        rows = len(self.groups[slot.group.name].rewards)
        return torch.from_numpy(places(slot.agents, rows * len(slot.agents) // count, rows)).to(
            self.device
        )

    def state_of(self, slot: Slot) -> State:
        """Return a policy's state at this step; a pool first draws members for new episodes."""
        state, policy = self.states[slot.name], slot.policy
        if not isinstance(policy, Pool):
            return state
        return policy.draw_members(
            state, self.reset[slot.name], self.columns[slot.name].start // slot.group.agents
        )

    def begin(self, step: int) -> None:
        """Set the step of the storages that the next turn writes."""
        raise NotImplementedError

    def save_states(self, step: int, horizon: int) -> None:
        """Save the policies' states before the first and the last step of a rollout.

        The update needs the former, the next rollout the latter.
        """
        for name, slot in self.slots.items() if step in (0, horizon) else ():
            state = tuple(part.clone() for part in self.states[name])
            storage = slot.storage
            (storage.first_states if step == 0 else storage.last_states)[self.index] = state

    def launch(self) -> None:
        """Start the turn: read the half's rows."""
        raise NotImplementedError

    def wait(self) -> None:
        """Return when rows and policy outputs are in the storages and the actions in the slab."""
        raise NotImplementedError

    def put_played(self, step: int, actions: Tensor, known: Tensor) -> None:
        """Replace the actions of a step in the storages by those that an expert has played.

        A transition without an expert's action is cut, as if the row were truncated there: it is
        not valid, and those around it stay.

        Args:
            step: Step of the storages.
            actions: (rows, D) of the half's only group, in the env's form, on the CPU.
            known: (rows,) bool, whether an action is an expert's.
        """
        actions, known = actions.to(self.device), known.to(self.device)
        for name, slot in self.slots.items():
            storage, here, rows = slot.storage, (step, self.columns[name]), self.row_indices[name]
            storage.actions[here].copy_(storage.action_map.inverse(pick(actions, rows)))
            cut = storage.truncations[here]
            cut.copy_(cut | ~pick(known, rows))

    def resend(self) -> None:
        """Put the actions of the storages' step 0 into the slab.

        A rollout begins with the actions that the previous one drew.
        """
        raise NotImplementedError

    def join(self) -> None:
        """End a rollout: the update may read the storages."""


class HostTurn(Turn):
    """The turn on a CPU."""

    PHASES = {"host-to-device": "launch", "policy": "_act", "device-to-host": "_write_actions"}

    def __init__(self, *half: Any, pool: ThreadPool) -> None:
        """Prepare the turn.

        Args:
            half: See `Turn`; the rows are in the slab itself.
            pool: Works on pieces of the rows.
        """
        super().__init__(*half)
        self.pool, self.step = pool, 0
        self._ready = {
            name for name, slot in self.slots.items() if self.policies[name] is slot.policy
        }

    def begin(self, step: int) -> None:
        self.step = step

    def launch(self) -> None:
        """See Turn. This is the only copy of an observation; dtypes are converted on the way."""
        for name, slot in self.slots.items():
            storage, rows, here = (
                slot.storage,
                self.groups[slot.group.name],
                (self.step, self.columns[name]),
            )
            for key, target in storage.obs.items():
                target[here].copy_(pick(rows.obs[key], self.row_indices[name]))
            for key in FLAGS:
                if (source := getattr(rows, key)) is not None:
                    getattr(storage, key)[here].copy_(pick(source, self.row_indices[name]))

    def wait(self) -> None:
        """See Turn. The policies run here."""
        for slot in self.slots.values():
            self._act(slot)
            if self.step < slot.storage.horizon:  # `resend` writes the last step's actions.
                self._write_actions(slot, self.step)
        self.step += 1

    @torch.no_grad()
    def _act(self, slot: Slot) -> None:
        """Run the policy on the rows of this step and store its outputs."""
        storage, columns, name, step = slot.storage, self.columns[slot.name], slot.name, self.step
        state, reset = self.state_of(slot), self.reset[name]
        if state:
            storage.resets[step, columns].copy_(reset)
        noise = draw_noise(storage.spec, columns.stop - columns.start, self.device, self.generator)
        pieces = pieces_of(columns)

        @torch.no_grad()
        def act(piece: slice) -> State:
            """Act for a piece of the rows. Runs in a thread of the pool."""
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

        # A policy that a wing (puffervec/wings) has wrapped may initialise itself in its first
        # call, so no other thread may call it meanwhile.
        after = (
            self.pool.map(act, pieces) if name in self._ready else [act(piece) for piece in pieces]
        )
        self._ready.add(name)
        if state:
            self.states[name] = tuple(torch.cat(parts) for parts in zip(*after, strict=True))
            self.reset[name] = _episode_begins(storage, step, columns)

    def _write_actions(self, slot: Slot, step: int) -> None:
        """Convert the drawn actions of a step to the env's and put them into the slab."""
        target = self.groups[slot.group.name].actions
        actions = slot.storage.action_map(slot.storage.actions[step, self.columns[slot.name]])
        if (indices := self.row_indices[slot.name]) is None:
            target.copy_(actions)
        else:
            target[indices] = actions.to(target.dtype)

    def resend(self) -> None:
        for slot in self.slots.values():
            self._write_actions(slot, 0)


def pieces_of(columns: slice) -> list[slice]:
    """Split columns into equal pieces, which do not depend on the number of threads."""
    rows = columns.stop - columns.start
    count = max(-(-rows // MOST_ROWS), min(-(-rows // LEAST_ROWS), PIECES))
    size = -(-rows // count)
    return [
        slice(begin, min(begin + size, columns.stop))
        for begin in range(columns.start, columns.stop, size)
    ]


def _episode_begins(storage: Storage, step: int, columns: slice) -> Tensor:
    """Return the rows whose next observation is of another episode: done or absent at `step`."""
    done = storage.terminals[step, columns] | storage.truncations[step, columns]
    return (storage.masks[step, columns] == 0) | (done != 0)
