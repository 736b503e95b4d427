# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Make minibatches: single samples for a policy without memory, whole sequences otherwise.

    FlatSamples      the valid samples of a rollout, or the share of them with the largest
                     advantages, shuffled; filler rows are never gathered
    SequenceSamples  columns (a row over all T steps), shuffled, with the state at the start of
                     each; filler is masked

Both split a minibatch into microbatches that stay in the caches of a CPU, one gather each. Runs in
the learner.
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

BF16_ROWS = 128  # See padded_rows.


@dataclasses.dataclass(frozen=True)
class Batch:
    """The samples of a microbatch: (B, ...) each, or sequences (T, B, ...).

    Attributes:
        advantages: Normalised over the minibatch.
        weights: The weight of each sample, float32, 0 for filler; None for 1 each.
        state: The policy's state before step 0 of sequences.
        resets: (T, B) bool, where the state of sequences is cleared.
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
        """Return the observations as the argument of a policy."""
        return policy_input(self.observations)

    def total(self, values: Tensor) -> Tensor:
        """Return the weighted sum, of shape (), of one value per sample, (B,) or (T, B)."""
        return values.sum() if self.weights is None else (values * self.weights).sum()


class Samples(Protocol):
    """The samples of one rollout.

    Attributes:
        count: Number of valid samples, including those that are not learned from.
        counts: Number of samples of each minibatch of the last `shuffle`; reading it does not wait
            for the device.
    """

    count: int
    counts: list[int]

    @property
    def returns(self) -> Tensor:
        """Return the returns of the valid samples, (count,) float32."""

    @property
    def values(self) -> Tensor:
        """Return the values of the valid samples in the rollout, (count,) float32."""

    def shuffle(self, generator: torch.Generator, parts: int) -> list[Tensor]:
        """Return `parts` minibatches of one epoch, as indices for `cut`; some may be empty."""

    def moments(self, minibatch: Tensor) -> Tensor:
        """Return number, sum and sum of squares of a minibatch's advantages, (3,) float64."""

    def cut(
        self, minibatch: Tensor, size: int, scale: Scale | None = None
    ) -> list[Callable[[], Batch]]:
        """Split a minibatch into microbatches of about `size` samples, gathered when called.

        Args:
            scale: Scale of the advantages if the minibatch is a part of a larger one.
        """


def samples_of(
    storage: Storage,
    advantages: Tensor,
    valid: Tensor,
    memory: bool,
    pad: bool = False,
    share: float = 1.0,
) -> Samples:
    """Return the samples of a rollout.

    Args:
        advantages: (T, R) float32.
        valid: (T, R) uint8.
        memory: Whether the policy has memory.
        pad: See padded_rows.
        share: Share of the samples to learn from, see `train.advantage_share`.
    """
    if memory:
        return SequenceSamples(storage, advantages, valid, share)
    return FlatSamples(storage, advantages, valid, pad, share)


def padded_rows(rows: int) -> int:
    """Return a batch size for bf16 on a CPU: a multiple of BF16_ROWS, at most a sixteenth larger.

    oneDNN compiles bf16 kernels for each batch size and keeps them. The number of valid samples
    differs between minibatches, which led to 500 MiB of kernels, and to a compilation almost every
    time. Padding leaves 16 sizes per octave.

    >>> [padded_rows(rows) for rows in (1, 128, 129, 2049, 2176, 20_000)]
    [128, 128, 256, 2176, 2176, 20480]
    """
    step = max(BF16_ROWS, 1 << max(0, rows.bit_length() - 5))
    return -(-rows // step) * step


def largest(sizes: Tensor, share: float) -> Tensor:
    """Return the ascending indices of the largest `share` of the sizes (n,), at least one."""
    return sizes.topk(max(1, int(share * len(sizes))), sorted=False).indices.sort().values


Scale = tuple[float, float]  # Mean and standard deviation of the advantages of a minibatch.


def normalize(
    advantages: Tensor, valid: Tensor | None = None, scale: Scale | None = None
) -> Tensor:
    """Scale advantages to mean 0 and standard deviation 1 over the valid ones.

    A single advantage becomes 0, and so do advantages that are all equal.

    Args:
        scale: Scale of the minibatch that these advantages are a part of.
    """
    if scale is not None:
        mean, deviation = scale
        scaled = (advantages - mean) / (deviation + 1e-8)
        return scaled if valid is None else scaled * valid
    if valid is None:
        return (advantages - advantages.mean()) / (advantages.std(correction=0) + 1e-8)
    count = valid.sum().clamp_min(1.0)
    centred = (advantages - (advantages * valid).sum() / count) * valid
    return centred / ((centred.square().sum() / count).sqrt() + 1e-8)


def _to_device(indices: list[Tensor], device: torch.device) -> list[Tensor]:
    """Copy indices to the device in a single copy that does not block."""
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
    """Gather observations and action masks of some samples, in one gather each."""

    def gather(x: Tensor) -> Tensor:
        steps = x[: storage.horizon]
        signed = as_signed(steps if shape is None else steps.flatten(0, 1))
        return signed.index_select(dim, index).view(x.dtype)

    obs = {key: gather(part) for key, part in storage.obs.items()}
    return obs, None if storage.action_masks is None else gather(storage.action_masks)


class FlatSamples:
    """Single samples."""

    def __init__(
        self,
        storage: Storage,
        advantages: Tensor,
        valid: Tensor,
        pad: bool = False,
        share: float = 1.0,
    ) -> None:
        """Take views on the storage, and compute the returns.

        Args:
            pad, share: See samples_of.
        """
        self._storage, self._pad = storage, pad
        horizon = storage.horizon
        self._actions, self._log_probs, self._values = (
            x[:horizon].flatten(0, 1) for x in (storage.actions, storage.log_probs, storage.values)
        )
        self._advantages = advantages.view(-1)
        self._returns = self._advantages + self._values
        self._valid = valid.view(-1).nonzero().squeeze(-1)
        self.count = len(self._valid)
        self._used = self._valid
        if share < 1.0 and self.count:
            self._used = self._valid[largest(self._advantages[self._valid].abs(), share)]
        self.counts: list[int] = []

    @property
    def returns(self) -> Tensor:
        """Return (count,) float32."""
        return self._returns[self._valid]

    @property
    def values(self) -> Tensor:
        """Return (count,) float32."""
        return self._values[self._valid]

    def shuffle(self, generator: torch.Generator, parts: int) -> list[Tensor]:
        """Return the minibatches as indices of samples."""
        order = torch.randperm(len(self._used), generator=generator).to(
            self._used.device, non_blocking=True
        )
        minibatches = list(self._used[order].tensor_split(parts))
        self.counts = [len(index) for index in minibatches]
        return minibatches

    def moments(self, minibatch: Tensor) -> Tensor:
        """See Samples."""
        return _moments(self._advantages[minibatch])

    def cut(
        self, minibatch: Tensor, size: int, scale: Scale | None = None
    ) -> list[Callable[[], Batch]]:
        """Split a minibatch into pieces of `size` samples."""
        advantages = normalize(self._advantages[minibatch], scale=scale)
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

    def __init__(
        self, storage: Storage, advantages: Tensor, valid: Tensor, share: float = 1.0
    ) -> None:
        """Take views on the storage, and compute the returns and the first states.

        Args:
            share: See samples_of.
        """
        self._storage, self._advantages, self._valid = storage, advantages, valid.float()
        self._returns = advantages + storage.values[: storage.horizon]
        self._states = storage.first_state()
        self._column_counts = valid.sum(0, dtype=torch.int64).cpu()
        self.count = int(self._column_counts.sum())
        self._used = torch.arange(len(self._column_counts))
        if share < 1.0:
            self._used = largest(advantages.abs().sum(0).cpu(), share)
        self.counts: list[int] = []

    @property
    def returns(self) -> Tensor:
        """Return (count,) float32."""
        return self._returns[self._valid != 0]

    @property
    def values(self) -> Tensor:
        """Return (count,) float32."""
        return self._storage.values[: self._storage.horizon][self._valid != 0]

    def shuffle(self, generator: torch.Generator, parts: int) -> list[Tensor]:
        """Return the minibatches as indices of columns."""
        order = torch.randperm(len(self._used), generator=generator)
        minibatches = list(self._used[order].tensor_split(parts))
        self.counts = [int(self._column_counts[columns].sum()) for columns in minibatches]
        return _to_device(minibatches, self._valid.device)

    def moments(self, minibatch: Tensor) -> Tensor:
        """See Samples."""
        return _moments(self._advantages[:, minibatch], self._valid[:, minibatch])

    def cut(
        self, minibatch: Tensor, size: int, scale: Scale | None = None
    ) -> list[Callable[[], Batch]]:
        """Split a minibatch into pieces with as many columns as make `size` samples."""
        columns = max(1, size // self._storage.horizon)
        advantages = normalize(self._advantages[:, minibatch], self._valid[:, minibatch], scale)
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
