# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What a minibatch is made of: single samples where the policy has no memory, whole sequences where
it has.

    FlatSamples      the valid samples of a roll-out, shuffled: filler rows are never gathered
    SequenceSamples  columns (a row over all T steps), shuffled, with the state that each began with; filler is masked

Both cut a minibatch into microbatches that stay in the caches of a CPU, one gather each. With
`Priority` the columns of a minibatch are drawn, those of large advantages more often, and weighed
accordingly. Runs in the learner.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from puffervec.train.collect.storage import Storage
from puffervec.train.policies.leaves import Observation, Observations, as_signed, policy_input
from puffervec.train.policies.memory import State

BF16_ROWS = 128  # see padded_rows


@dataclasses.dataclass(frozen=True)
class Batch:
    """Samples of a microbatch: (B, ...) each, or sequences (T, B, ...).

    advantages: normalised over the minibatch. weights: what each counts, float32, 0 of filler;
    None: 1 each. state, resets: of sequences, what the policy remembered before step 0, and (T, B)
    bool where it forgets.
    """

    observations: Observations
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor
    values: Tensor
    action_mask: Tensor | None
    weights: Tensor | None = None
    state: State = ()
    resets: Tensor | None = None

    @property
    def obs(self) -> Observation:
        """The observations as the policy takes them."""
        return policy_input(self.observations)


class Samples(Protocol):
    """The samples of one roll-out."""

    count: int  # valid samples
    counts: list[
        int
    ]  # of the minibatches of the last `shuffled`; known without waiting for the device

    @property
    def returns(self) -> Tensor:
        """(count,) float32, of the valid samples."""

    @property
    def values(self) -> Tensor:
        """(count,) float32, when they were taken."""

    def shuffled(self, generator: torch.Generator, parts: int) -> list[Tensor]:
        """Return the minibatches of one epoch, `parts` of them, as indices that `cut` understands;
        some may have no sample.
        """

    def moments(self, minibatch: Tensor) -> Tensor:
        """Return number, sum and sum of squares of the advantages of a minibatch, (3,) float64."""

    def cut(
        self, minibatch: Tensor, size: int, scale: Scale | None = None
    ) -> list[Callable[[], Batch]]:
        """Return a minibatch as microbatches of about `size` samples, each gathered when it is
        called for.

        Args: scale: of the advantages where the minibatch is a part of a larger one.
        """


def samples_of(
    storage: Storage, advantages: Tensor, valid: Tensor, memory: bool, pad: bool = False
) -> Samples:
    """Return the samples of a roll-out.

    Args: advantages: (T, R) float32; valid: (T, R) uint8; memory: the policy has one; pad: see
        padded_rows.
    """
    if memory:
        return SequenceSamples(storage, advantages, valid)
    return FlatSamples(storage, advantages, valid, pad)


def padded_rows(rows: int) -> int:
    """Return how many rows a policy is policy_input on a CPU in bf16, at most a sixteenth more: a multiple
        of BF16_ROWS.

    oneDNN compiles bf16 kernels for each number of rows and keeps them. The number of valid samples
    differs from minibatch to minibatch, which made 500 MiB of kernels, and a compilation almost
    every time. Like this there are 16 numbers per octave.

    >>> [padded_rows(rows) for rows in (1, 128, 129, 2049, 2176, 20_000)]
    [128, 128, 256, 2176, 2176, 20480]
    """
    step = max(BF16_ROWS, 1 << max(0, rows.bit_length() - 5))
    return -(-rows // step) * step


Scale = tuple[float, float]  # Mean and standard deviation of the advantages of a minibatch.


def normalised(
    advantages: Tensor, valid: Tensor | None = None, scale: Scale | None = None
) -> Tensor:
    """Return advantages with mean 0 and standard deviation 1 over the valid ones; a single or
    constant one becomes 0.

    Args: scale: of a minibatch that these advantages are only a part of.
    """
    if scale is not None:
        mean, deviation = scale
        found = (advantages - mean) / (deviation + 1e-8)
        return found if valid is None else found * valid
    if valid is None:
        return (advantages - advantages.mean()) / (advantages.std(correction=0) + 1e-8)
    count = valid.sum().clamp_min(1.0)
    centred = (advantages - (advantages * valid).sum() / count) * valid
    return centred / ((centred.square().sum() / count).sqrt() + 1e-8)


def _moved(indices: list[Tensor], device: torch.device) -> list[Tensor]:
    """Return indices on the device, by one copy that nothing waits for."""
    if device.type == "cpu":
        return indices
    whole = torch.cat(indices).to(device, non_blocking=True)
    return list(torch.split(whole, [len(index) for index in indices]))


def _moments(advantages: Tensor, valid: Tensor | None = None) -> Tensor:
    x = advantages.double()
    x, count = (
        (x, torch.full_like(x, 1.0).sum()) if valid is None else (x * valid, valid.double().sum())
    )
    return torch.stack([count, x.sum(), x.square().sum()])


def _take(
    storage: Storage, dim: int, index: Tensor, shape: tuple[int, ...] | None
) -> tuple[Observations, Tensor | None]:
    """Return observations and action masks of some samples: one gather each."""

    def gather(x: Tensor) -> Tensor:
        steps = x[: storage.horizon]
        found = as_signed(steps if shape is None else steps.flatten(0, 1)).index_select(dim, index)
        return found.view(x.dtype)

    obs = {key: gather(part) for key, part in storage.obs.items()}
    return obs, None if storage.action_masks is None else gather(storage.action_masks)


class FlatSamples:
    """Single samples."""

    def __init__(
        self, storage: Storage, advantages: Tensor, valid: Tensor, pad: bool = False
    ) -> None:
        """Views on the storage except for the returns. pad: see padded_rows."""
        self._storage, self._pad = storage, pad
        horizon = storage.horizon
        self._actions, self._log_probs, self._values = (
            x[:horizon].flatten(0, 1) for x in (storage.actions, storage.log_probs, storage.values)
        )
        self._advantages = advantages.view(-1)
        self._returns = self._advantages + self._values
        self._chosen = valid.view(-1).nonzero().squeeze(-1)
        self.count = len(self._chosen)
        self.counts: list[int] = []

    @property
    def returns(self) -> Tensor:
        """(count,)"""
        return self._returns[self._chosen]

    @property
    def values(self) -> Tensor:
        """(count,)"""
        return self._values[self._chosen]

    def shuffled(self, generator: torch.Generator, parts: int) -> list[Tensor]:
        """Indices of samples."""
        order = torch.randperm(self.count, generator=generator).to(
            self._chosen.device, non_blocking=True
        )
        found = list(self._chosen[order].tensor_split(parts))
        self.counts = [len(index) for index in found]
        return found

    def moments(self, minibatch: Tensor) -> Tensor:
        """See Samples."""
        return _moments(self._advantages[minibatch])

    def cut(
        self, minibatch: Tensor, size: int, scale: Scale | None = None
    ) -> list[Callable[[], Batch]]:
        """Pieces of `size` samples."""
        advantages = normalised(self._advantages[minibatch], scale=scale)
        pieces = zip(torch.split(minibatch, size), torch.split(advantages, size), strict=True)
        return [functools.partial(self._batch, index, part) for index, part in pieces]

    def _batch(self, index: Tensor, advantages: Tensor) -> Batch:
        weights = None
        if self._pad and (more := padded_rows(len(index)) - len(index)):
            weights = nn.functional.pad(torch.ones_like(advantages), (0, more))
            advantages = nn.functional.pad(advantages, (0, more))
            index = torch.cat([index, index[-1:].expand(more)])
        obs, mask = _take(self._storage, 0, index, shape=())
        mine = (
            x.index_select(0, index)
            for x in (self._actions, self._log_probs, self._returns, self._values)
        )
        actions, log_probs, returns, values = mine
        return Batch(obs, actions, log_probs, advantages, returns, values, mask, weights)


class SequenceSamples:
    """Whole columns."""

    def __init__(self, storage: Storage, advantages: Tensor, valid: Tensor) -> None:
        """Views on the storage except for the returns and the first states."""
        self._storage, self._advantages, self._valid = storage, advantages, valid.float()
        self._returns = advantages + storage.values[: storage.horizon]
        self._states = storage.first_state()
        self._column_counts = valid.sum(0, dtype=torch.int64).cpu()
        self.count = int(self._column_counts.sum())
        self.counts: list[int] = []

    @property
    def returns(self) -> Tensor:
        """(count,)"""
        return self._returns[self._valid != 0]

    @property
    def values(self) -> Tensor:
        """(count,)"""
        return self._storage.values[: self._storage.horizon][self._valid != 0]

    def shuffled(self, generator: torch.Generator, parts: int) -> list[Tensor]:
        """Indices of columns."""
        drawn = list(
            torch.randperm(len(self._column_counts), generator=generator).tensor_split(parts)
        )
        self.counts = [int(self._column_counts[columns].sum()) for columns in drawn]
        return _moved(drawn, self._valid.device)

    def moments(self, minibatch: Tensor) -> Tensor:
        """See Samples."""
        return _moments(self._advantages[:, minibatch], self._valid[:, minibatch])

    def cut(
        self, minibatch: Tensor, size: int, scale: Scale | None = None
    ) -> list[Callable[[], Batch]]:
        """Pieces of as many columns as make `size` samples."""
        columns = max(1, size // self._storage.horizon)
        advantages = normalised(self._advantages[:, minibatch], self._valid[:, minibatch], scale)
        pieces = zip(
            torch.split(minibatch, columns), torch.split(advantages, columns, dim=1), strict=True
        )
        return [functools.partial(self._batch, index, part) for index, part in pieces]

    def _batch(self, index: Tensor, advantages: Tensor) -> Batch:
        storage, steps = self._storage, slice(0, self._storage.horizon)
        obs, mask = _take(storage, 1, index, shape=None)
        return Batch(
            observations=obs,
            actions=storage.actions[steps].index_select(1, index),
            log_probs=storage.log_probs[steps].index_select(1, index),
            advantages=advantages,
            returns=self._returns.index_select(1, index),
            values=storage.values[steps].index_select(1, index),
            action_mask=mask,
            weights=self._valid.index_select(1, index),
            state=tuple(part.index_select(0, index) for part in self._states),
            resets=storage.resets[steps].index_select(1, index) != 0,
        )
