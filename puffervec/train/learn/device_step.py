# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Take a gradient step on a device, from fixed buffers, so that a CUDA graph can record it.

    minibatch  --copy-->  buffers  --[ policy | loss | backward | clip | optimizer ]-->  weights,
                                                                                         sums

The part in brackets is captured after some steps and replayed from then on; elsewhere (tests, other
devices) the same code runs directly. Minibatches differ in size: if one does not fill the buffers,
the rest has weight 0. Runs in the learner.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from puffervec.train.device.graphs import Recorded
from puffervec.train.learn.samples import Batch


class DeviceStep(Recorded):
    """The gradient steps of one policy."""

    def __init__(
        self,
        step: Callable[[Batch, Tensor], Tensor],
        width: int,
        device: torch.device,
        capture: bool,
    ) -> None:
        """Prepare the step; the buffers are created with the first batch.

        Args:
            step: Takes a batch and its number of valid samples (1,), and returns sums.
            width: Maximum number of rows of a batch (columns of sequences).
            capture: Record a graph (CUDA).
        """
        super().__init__(self._compute, device, capture)
        self.step, self.width = step, width
        self.count = torch.ones(1, device=device)
        self.batch: Batch | None = None
        self.sums: Tensor | None = None

    def run(self, batch: Batch, count: int) -> Tensor:
        """Take a step and return the sums of `step`, in a buffer that the next call overwrites.

        Args:
            count: Number of valid samples.
        """
        if self.batch is None:
            self.batch = self._make(batch)
        self._fill(self.batch, batch)
        self.count.fill_(count)
        self.play()
        assert self.sums is not None
        return self.sums

    def _compute(self) -> None:
        """Run `step` on the buffers; a graph can record it."""
        assert self.batch is not None
        sums = self.step(self.batch, self.count)
        if self.sums is None:
            self.sums = torch.zeros_like(sums)
        self.sums.copy_(sums)

    def _make(self, batch: Batch) -> Batch:
        """Return buffers for batches like this one."""

        def wide(x: Tensor, dim: int) -> Tensor:
            return torch.zeros(
                [self.width if i == dim else n for i, n in enumerate(x.shape)],
                dtype=x.dtype,
                device=self.device,
            )

        return _map(batch, wide)

    def _fill(self, buffers: Batch, batch: Batch) -> None:
        for (target, dim), (source, _) in zip(_leaves(buffers), _leaves(batch), strict=True):
            target.narrow(dim, 0, source.shape[dim]).copy_(source)
            if target is buffers.weights:
                target.narrow(dim, source.shape[dim], self.width - source.shape[dim]).zero_()


def _map(batch: Batch, change: Callable[[Tensor, int], Tensor]) -> Batch:
    """Return a batch of changed tensors.

    Args:
        change: Takes a tensor and the dim of its samples (columns).
    """
    if batch.weights is None:
        batch = dataclasses.replace(batch, weights=torch.ones_like(batch.advantages))
    dim = 0 if batch.resets is None else 1
    observations = {key: change(part, dim) for key, part in batch.observations.items()}
    others = {
        field.name: None if (value := getattr(batch, field.name)) is None else change(value, dim)
        for field in dataclasses.fields(batch)
        if field.name not in ("observations", "state")
    }
    state = tuple(change(part, 0) for part in batch.state)
    return Batch(observations=observations, state=state, **others)  # type: ignore[arg-type]


def _leaves(batch: Batch) -> Iterator[tuple[Tensor, int]]:
    """Yield all tensors with the dim of their samples."""
    leaves: list[tuple[Tensor, int]] = []

    def note(x: Tensor, dim: int) -> Tensor:
        leaves.append((x, dim))
        return x

    _map(batch, note)
    return iter(leaves)
