# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The next roll-out during the update (`train.asynchronous`), with copies of the policies as they
were before it.

    learner  | update 1           | take over, copy weights | update 2           | ...
    thread   | roll-out 2 (old)   |                         | roll-out 3 (old)   | ...

What a roll-out's actions lag behind is one update, which V-trace corrects. The order of all draws
and sums is that of the diagram, whichever side is faster, so the same seed still gives the same
bytes. A roll-out that nothing has learned from yet is part of a checkpoint. Runs in the learner.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch
from numpy.lib.recfunctions import repack_fields
from torch import Tensor, nn

from puffervec.core.slab import RECORD_DTYPE
from puffervec.train.collect.rollout import Rollout, Times
from puffervec.train.collect.storage import Slot, Storage
from puffervec.train.device.device import one_torch_thread
from puffervec.train.device.streams import stream_of

# No tensor of a roll-out has that name: theirs begin with the policy's and a slash.
_EPISODES = "episodes"
_RECORD = repack_fields(RECORD_DTYPE)  # Without gaps, whose bytes could be any.


def actor_of(policy: nn.Module) -> nn.Module:
    """Return a copy that acts while its original learns."""
    return copy.deepcopy(policy).requires_grad_(False)


class Ahead:
    """Collects one roll-out ahead of the learner."""

    def __init__(
        self, rollout: Rollout, policies: Mapping[str, nn.Module], storages: Mapping[str, Storage]
    ) -> None:
        """Args: rollout: its slots hold the copies that act, and storages of their own; policies,
        storages: the learner's.
        """
        self.rollout, self.policies, self.storages = rollout, policies, storages
        self.ready = False  # a roll-out has been collected that the learner has not taken over
        self.times = Times()  # of the learner, which only waits
        self._thread = ThreadPoolExecutor(1, "puffervec-ahead")
        self._under_way: Future[bool] | None = None
        self._given_up = False
        # What the thread does between the turns; on the learner's own, a roll-out would wait for
        # the update beside it.
        self.stream = stream_of(rollout.device)

    def collect(self, stop: Callable[[], bool]) -> bool:
        """Give the learner the next roll-out; False where `stop()` is true by then: it is kept for
        a checkpoint.

        Raises: what collecting it raised.
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
        """Begin to collect in the thread, with the weights of now."""
        begin = time.perf_counter()
        for name in self.storages:
            self.rollout.slots[name].policy.load_state_dict(self.policies[name].state_dict())
        self.times.copy += time.perf_counter() - begin
        self.stream.follow()
        self._under_way = self._thread.submit(self._collect)

    def _collect(self) -> bool:
        # To the end also where the run is to stop: a part of a roll-out could not be gone on with.
        with one_torch_thread(), self.stream.active():
            return self.rollout.collect(lambda: self._given_up)

    def wait(self) -> bool:
        """Wait for the roll-out that is under way, if any; True where a whole one is there.

        Raises: what collecting it raised.
        """
        begin, under_way, self._under_way = time.perf_counter(), self._under_way, None
        if under_way is not None:
            self.ready = under_way.result()
            self.stream.precede()  # The learner reads what was collected.
        self.times.env += time.perf_counter() - begin
        return self.ready

    def tensors(self) -> dict[str, Tensor]:
        """Return the roll-out that is there with the records of its episodes, for a checkpoint;
        empty where there is none.
        """
        found: dict[str, Tensor] = {}
        for name, slot in self._learning() if self.ready else ():
            found |= {f"{name}/{key}": tensor for key, tensor in slot.storage.tensors().items()}
            for half, state in slot.storage.first_states.items():
                found |= {f"{name}/first/{half}/{i}": part for i, part in enumerate(state)}
        if self.ready:
            ended = b"".join(records.astype(_RECORD).tobytes() for records in self.rollout.episodes)
            found[_EPISODES] = torch.tensor(bytearray(ended), dtype=torch.uint8).reshape(
                -1, _RECORD.itemsize
            )
        return found

    def restore(self, found: Mapping[str, Tensor]) -> None:
        """Put back what `tensors` returned.

        Raises: KeyError, RuntimeError, ValueError where it does not fit.
        """
        for name, slot in self._learning():
            for key, tensor in slot.storage.tensors().items():
                if found[f"{name}/{key}"].shape != tensor.shape:
                    raise ValueError(f"{name}/{key} is no roll-out of this run")
                tensor.copy_(found[f"{name}/{key}"])
            for half in slot.storage.last_states:
                count = len(slot.storage.last_states[half])
                parts = (found[f"{name}/first/{half}/{i}"] for i in range(count))
                slot.storage.first_states[half] = tuple(
                    part.to(slot.storage.device) for part in parts
                )
        if _EPISODES in found:  # Not in older checkpoints.
            self.rollout.episodes.append(_records(found[_EPISODES].numpy()))
        self.ready = True

    def _learning(self) -> list[tuple[str, Slot]]:
        """What the learner takes over. Of the others only the last step is needed, which is saved
        with the envs.
        """
        return [(name, self.rollout.slots[name]) for name in self.storages]

    def close(self) -> None:
        """End the thread; a roll-out under way is given up."""
        self._given_up = True
        self._thread.shutdown()


def _records(rows: np.ndarray) -> np.ndarray:
    """Return the records of a checkpoint, (n, bytes) uint8. Older ones have fewer values, and once
    had no rows: (n * 100,).
    """
    rows = rows.reshape(-1, 100) if rows.ndim == 1 else rows
    records = np.zeros(len(rows), _RECORD)
    records.view(np.uint8).reshape(len(rows), _RECORD.itemsize)[:, : rows.shape[1]] = (
        rows  # The values are last.
    )
    return records
