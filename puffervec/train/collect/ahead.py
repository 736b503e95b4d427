# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Collect the next rollout during the update (`train.asynchronous`), with copies of the policies.

    learner  | update 1           | take over, copy weights | update 2           | ...
    thread   | rollout 2 (old)    |                         | rollout 3 (old)    | ...

A rollout's weights are one update old, which V-trace corrects. All draws and sums happen in the
order of the diagram, whichever side is faster, so the same seed still gives the same bytes. A
rollout that nothing has learned from yet is part of a checkpoint. Runs in the learner.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from numpy.lib.recfunctions import repack_fields
from torch import Tensor, nn

from puffervec.core.slab import RECORD_DTYPE
from puffervec.train.collect.rollout import Rollout, Times
from puffervec.train.collect.storage import Slot, Storage
from puffervec.train.device.device import one_torch_thread
from puffervec.train.device.streams import stream_of

# No tensor of a rollout has this name: theirs begin with the policy's name and a slash.
_EPISODES = "episodes"
_RECORD = repack_fields(RECORD_DTYPE)  # Without gaps, whose bytes are undefined.


def actor_of(policy: nn.Module) -> nn.Module:
    """Return a copy of a policy that acts while the original learns."""
    return copy.deepcopy(policy).requires_grad_(False)


class Ahead:
    """A collector that is one rollout ahead of the learner."""

    def __init__(
        self, rollout: Rollout, policies: Mapping[str, nn.Module], storages: Mapping[str, Storage]
    ) -> None:
        """Start the thread, which waits for work.

        Args:
            rollout: Its slots hold the copies that act, with separate storages.
            policies: The learner's policies.
            storages: The learner's storages.
        """
        self.rollout, self.policies, self.storages = rollout, policies, storages
        self.ready = False  # A rollout has been collected that the learner has not taken over.
        self.times = Times()  # Times of the learner, which only waits.
        self._thread = ThreadPoolExecutor(1, "puffervec-ahead")
        self._pending: Future[bool] | None = None
        self._cancelled = False
        # For the thread's work between the turns: on the learner's stream, a rollout would wait for
        # the concurrent update.
        self.stream = stream_of(rollout.device)

    def collect(self, stop: Callable[[], bool]) -> bool:
        """Give the learner the next rollout.

        Returns:
            False if `stop()` is true by then; the rollout is kept for a checkpoint.

        Raises:
            Exception: An error while collecting it.
        """
        if not self.wait():
            self.start()
            self.wait()
        if stop() or not self.ready:
            return False
        begin = time.perf_counter()
        for name, storage in self.storages.items():
            storage.copy_from(self.rollout.slots[name].storage)
        self.ready = False
        self.times.copy += time.perf_counter() - begin
        return True

    def start(self) -> None:
        """Begin to collect in the thread, with the current weights."""
        begin = time.perf_counter()
        for name in self.storages:
            self.rollout.slots[name].policy.load_state_dict(self.policies[name].state_dict())
        self.times.copy += time.perf_counter() - begin
        self.stream.follow()
        self._pending = self._thread.submit(self._collect)

    def _collect(self) -> bool:
        # This runs to the end even if the run is to stop: a partial rollout cannot be continued.
        with one_torch_thread(), self.stream.active():
            return self.rollout.collect(lambda: self._cancelled)

    def wait(self) -> bool:
        """Wait for the pending rollout, if any; return whether a whole one is ready.

        Raises:
            Exception: An error while collecting it.
        """
        begin, pending, self._pending = time.perf_counter(), self._pending, None
        if pending is not None:
            self.ready = pending.result()
            self.stream.precede()  # The learner reads what was collected.
        self.times.env += time.perf_counter() - begin
        return self.ready

    def tensors(self) -> dict[str, Tensor]:
        """Return the ready rollout and its episode records, by name; {} if none is ready."""
        tensors: dict[str, Tensor] = {}
        for name, slot in self._learning() if self.ready else ():
            tensors |= {f"{name}/{key}": tensor for key, tensor in slot.storage.tensors().items()}
            for half, state in slot.storage.first_states.items():
                tensors |= {f"{name}/first/{half}/{i}": part for i, part in enumerate(state)}
        if self.ready:
            ended = b"".join(records.astype(_RECORD).tobytes() for records in self.rollout.episodes)
            tensors[_EPISODES] = torch.tensor(bytearray(ended), dtype=torch.uint8).reshape(
                -1, _RECORD.itemsize
            )
        return tensors

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `tensors` returned.

        Raises:
            KeyError, RuntimeError, ValueError: The tensors do not fit.
        """
        for name, slot in self._learning():
            for key, tensor in slot.storage.tensors().items():
                if tensors[f"{name}/{key}"].shape != tensor.shape:
                    raise ValueError(f"{name}/{key} does not fit the rollouts of this run")
                tensor.copy_(tensors[f"{name}/{key}"])
            for half in slot.storage.last_states:
                count = len(slot.storage.last_states[half])
                parts = (tensors[f"{name}/first/{half}/{i}"] for i in range(count))
                slot.storage.first_states[half] = tuple(
                    part.to(slot.storage.device) for part in parts
                )
        records = tensors[_EPISODES].numpy().reshape(-1).view(_RECORD)
        self.rollout.episodes.append(records)
        self.ready = True

    def _learning(self) -> list[tuple[str, Slot]]:
        """Return the slots that the learner takes over.

        Of the others only the last step is needed, which is saved with the envs.
        """
        return [(name, self.rollout.slots[name]) for name in self.storages]

    def close(self) -> None:
        """End the thread and cancel a pending rollout."""
        self._cancelled = True
        self._thread.shutdown()
