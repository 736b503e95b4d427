# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Run the loop between the vec env and the policies, which fills a rollout.

This is stop 6 of an observation's path from env to policy.

    recv(A) | A's rows into storage[t] | policy on A | actions into A's slab | send(A) | recv(B) ...

While the policy works on one half, the workers simulate the other. The work on a half between
`recv` and `send` is its turn: turn.py on a CPU, device_turn.py on a device. Runs in the learner.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from puffervec.train.collect.device_turn import DeviceTurn
from puffervec.train.collect.episodes import EpisodeTracker, NumericInfos, as_records
from puffervec.train.collect.experts import ExpertReader
from puffervec.train.collect.storage import Slot, rows_of
from puffervec.train.collect.turn import HostTurn, Turn
from puffervec.train.device.device import ThreadPool, in_pieces


@dataclasses.dataclass
class Times:
    """Seconds spent so far; together they are the time of `collect`."""

    env: float = 0.0
    copy: float = 0.0
    forward: float = 0.0


class Rollout:
    """The driver of a vec env with policies, which fills their storages."""

    def __init__(
        self,
        vec: Any,
        slots: dict[str, Slot],
        device: torch.device,
        bf16: bool,
        generator: torch.Generator,
        pool: ThreadPool,
        device_turns: bool | None = None,
        experts: ExpertReader | None = None,
    ) -> None:
        """Prepare the turns of all halves.

        Args:
            vec: A vector env of `puffervec.make`.
            slots: The slots, by policy name.
            bf16: Whether to run hidden layers in bf16.
            generator: Draws the actions.
            pool: Works on the rows of a half.
            device_turns: Whether to work as on CUDA; None: on every device but a CPU.
            experts: Reads the actions that the envs play in place of those that are drawn.
        """
        self.vec, self.slots, self.device, self.bf16 = vec, slots, device, bf16
        self.generator, self.pool, self.experts = generator, pool, experts
        self.device_turns = not in_pieces(device) if device_turns is None else device_turns
        self.horizon = next(iter(slots.values())).storage.horizon
        self.turns = [self._make_turn(index) for index in range(vec.num_buffers)]
        self.times = Times()
        # The caller empties both: records of finished episodes, and numbers in the infos of Python
        # envs.
        self.episodes: list[np.ndarray] = []
        self.numeric: list[NumericInfos] = []
        # Python envs keep no records: they are computed from the rows of whole rollouts.
        self.trackers = {
            n: EpisodeTracker(s.storage.rows)
            for n, s in slots.items()
            if s.group.observation_plan is not None
        }
        # Whether the storages hold a whole rollout, whose last step is the first of the next one.
        self.full = False

    def _make_turn(self, index: int) -> Turn:
        half = self.vec.halves[index]
        block = torch.from_numpy(half.block)
        rows = torch.empty_like(block, device=self.device) if self.device_turns else block
        groups = {group.name: rows_of(rows, half, group) for group in self.vec.spec.groups}
        count = {
            name: slot.storage.rows // self.vec.num_buffers for name, slot in self.slots.items()
        }
        columns = {name: slice(index * rows, (index + 1) * rows) for name, rows in count.items()}
        common = (index, groups, self.slots, columns, self.generator, self.bf16)
        return (
            DeviceTurn(*common, block=block, staging=rows)
            if self.device_turns
            else HostTurn(*common, pool=self.pool)
        )

    def collect(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Fill steps 0 to T of all storages; if the previous rollout is complete, 0 is its step T.

        Blocks until the workers have simulated T steps.

        Returns:
            False if `stop()` became true before the end.
        """
        first = 1 if self.full else 0
        if self.full:
            self._continue()
        for turn in self.turns:
            turn.begin(first)
        self.full = False
        for step in range(first, self.horizon + 1):
            for _ in self.turns:
                if stop():
                    for tracker in self.trackers.values():
                        tracker.forget()
                    return False
                self._advance(step)
        for turn in self.turns:
            turn.join()
        self.full = True
        self._track(first)
        return True

    def _continue(self) -> None:
        """Make the last step of a rollout the first of the next, and send its actions."""
        for slot in self.slots.values():
            slot.storage.carry_over()
        for turn in self.turns:
            turn.resend()
            self._send()

    def _track(self, first: int) -> None:
        """Record the episodes that ended in steps `first` to T."""
        for number, (name, tracker) in enumerate(self.trackers.items()):
            slot, storage = self.slots[name], self.slots[name].storage
            arrays = (storage.rewards, storage.terminals, storage.truncations, storage.masks)
            for rows in zip(*(array[first:].cpu().numpy() for array in arrays), strict=True):
                ended = tracker.step(*rows)
                if len(ended[0]):
                    records = as_records(ended, slot.group.agents)
                    records["agent_type"] = number  # For Python envs: the index of the policy.
                    if slot.agents is not None:
                        records["slot"] = np.take(slot.agents, records["slot"])
                    self.episodes.append(records)

    def begin(self, seed: int) -> None:
        """Start new episodes in all envs; the next `collect` begins with them."""
        self.full = False
        for tracker in self.trackers.values():
            tracker.forget()
        for turn in self.turns:
            for reset in turn.reset.values():
                reset.fill_(True)  # In place, because a CUDA graph may hold its address.
        self.vec.async_reset(seed)

    def _send(self) -> None:
        begin = time.perf_counter()
        self.vec.send(None)
        self.times.env += time.perf_counter() - begin

    def _advance(self, step: int) -> None:
        """Receive the next half, act on it and send the actions.

        The actions of the last step are sent when the next rollout begins, so that no turn is under
        way while the policies are updated or saved.
        """
        begin = time.perf_counter()
        *_, infos, _, _ = self.vec.recv()
        if infos:
            self.episodes.append(infos.episodes)
            if infos.numeric:
                self.numeric.append(infos.numeric)
        turn = self.turns[self.vec.half]
        received = time.perf_counter()
        turn.save_states(step, self.horizon)
        if self.experts is not None and step > 0:
            turn.put_played(step - 1, *self.experts.read(self.vec.half))
        turn.launch()
        copied = time.perf_counter()
        turn.wait()
        self.times.env += received - begin
        self.times.copy += copied - received
        self.times.forward += time.perf_counter() - copied
        if step < self.horizon:
            self._send()
