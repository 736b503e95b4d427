# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Segments: rollouts of hosts as NumPy arrays, which Ray passes without a copy on one machine.

    host: Storage (T+1, R) -- pack_storage --> Segment -- Ray --> learner: unpack into columns of
    its Storage (T+1, K x R)

Segments contain no values: the learner's policy computes them again. Float32 observations may be
sent as bf16, or as bytes that divide the range of each feature into 255 steps. The host then acted
on observations that differ slightly from those that the learner trains on, just as it acted with
older weights; V-trace corrects for both with the same ratio. Runs on hosts and in the learner.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from puffervec.train.collect.storage import Storage
from puffervec.train.run.tally import Counted

NOT_SENT = ("values",)
_MEMORY_ONLY = "resets"
STEPS = 255  # Steps between minimum and maximum of a feature that is sent as a byte.


@dataclasses.dataclass(frozen=True)
class PackedArray:
    """An array in the form in which it is sent.

    Attributes:
        data: the array; bf16 is stored as int16.
        kind: exact, bf16 or uint8.
        scale: minimum and step size of each feature, (F,) float32 each; only for kind uint8.
    """

    data: np.ndarray
    kind: str = "exact"
    scale: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def nbytes(self) -> int:
        """Number of bytes that are sent."""
        return sum(part.nbytes for part in (self.data, *(self.scale or ())))


@dataclasses.dataclass(frozen=True)
class Segment:
    """A host's rollout of T steps with the weights of one version.

    Attributes:
        version: version of the weights.
        incarnation: incarnation of the host, see host.py.
        arrays: arrays by learning policy and by name in `Storage.tensors`, (T+1, R, ...) each.
        states: for each policy, its recurrent state before step 0, (R, ...) each.
        counted: statistics of the episodes and rewards in it.
        agent_steps: number of valid transitions.
        seconds: time that the host needed for it.
    """

    version: int
    incarnation: str
    arrays: Mapping[str, Mapping[str, PackedArray]]
    states: Mapping[str, tuple[np.ndarray, ...]]
    counted: Counted
    agent_steps: int
    seconds: float

    @property
    def nbytes(self) -> int:
        """Number of bytes of its arrays."""
        packed = sum(part.nbytes for arrays in self.arrays.values() for part in arrays.values())
        return packed + sum(part.nbytes for states in self.states.values() for part in states)


def pack_storage(storage: Storage, kind: str) -> dict[str, PackedArray]:
    """Return the arrays of a rollout in the form in which they are sent.

    Arrays of kind exact alias the storage: Ray copies them before the host gets its next request.

    Args:
        storage: storage of a learning policy.
        kind: encoding of float32 observations: exact, bf16 or uint8.
    """
    arrays = {}
    for name, tensor in storage.tensors().items():
        if name in NOT_SENT or (name == _MEMORY_ONLY and not storage.first_states.get(0)):
            continue
        lossy = name.startswith("obs") and tensor.dtype == torch.float32
        arrays[name] = _pack(tensor, kind if lossy else "exact")
    return arrays


def _pack(tensor: Tensor, kind: str) -> PackedArray:
    if kind == "uint8":
        return _quantize(tensor)
    if kind == "bf16" or tensor.dtype == torch.bfloat16:
        return PackedArray(tensor.to(torch.bfloat16, copy=True).view(torch.int16).numpy(), "bf16")
    return PackedArray(tensor.numpy())


def _quantize(tensor: Tensor) -> PackedArray:
    """Quantize each feature to 256 levels from its minimum to its maximum over all steps and rows.

    It processes one step of the rollout at a time, so that intermediate results stay in the CPU
    caches, which takes only a third of the time.
    """
    rows = tensor.flatten(2)
    low = torch.stack([step.amin(0) for step in rows]).amin(0)
    high = torch.stack([step.amax(0) for step in rows]).amax(0)
    width = (high - low) / STEPS
    divisor = width.clamp_min(torch.finfo(width.dtype).tiny)  # A constant feature has width 0.
    data = torch.empty(rows.shape, dtype=torch.uint8)
    for step, out in zip(rows, data, strict=True):
        out.copy_(((step - low) / divisor).round_())
    return PackedArray(data.view(tensor.shape).numpy(), "uint8", (low.numpy(), width.numpy()))


def _tensor(array: np.ndarray) -> Tensor:
    """Return a tensor that shares the memory of an array in Ray's store.

    The array is read-only. torch has no read-only tensors and would warn about that.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(array)


def unpack(part: PackedArray, target: Tensor) -> None:
    """Write an array into a tensor of its shape, which may be on another device."""
    tensor = _tensor(part.data).to(target.device)
    if part.kind == "bf16":
        tensor = tensor.view(torch.bfloat16)
    if part.scale is None:
        target.copy_(tensor)
        return
    low, width = (_tensor(x).to(target.device).view(tensor.shape[2:]) for x in part.scale)
    # On a CPU, work step by step, so that a step stays in the caches; a GPU needs few launches.
    steps = zip(tensor, target, strict=True) if target.device.type == "cpu" else [(tensor, target)]
    for step, into in steps:
        into.copy_(torch.addcmul(low, step.to(torch.float32), width))


def store_segment(segment: Segment, storages: Mapping[str, Storage], place: int) -> None:
    """Copy a segment into its columns of the learner's storages.

    Args:
        segment: segment that a host has collected.
        storages: storages by learning policy.
        place: index of the segment among those of the update.

    Raises:
        ValueError: the segment's shapes differ from those of the storages.
    """
    for name, storage in storages.items():
        arrays = segment.arrays[name]
        rows = arrays["rewards"].data.shape[1]
        columns = slice(place * rows, (place + 1) * rows)
        for key, target in storage.tensors().items():
            if key in arrays:
                shape, wanted = arrays[key].data.shape, tuple(target[:, columns].shape)
                if shape != wanted:
                    raise ValueError(f"{name}/{key} has shape {shape}: must be {wanted}")
                unpack(arrays[key], target[:, columns])
        states: tuple[Any, ...] = segment.states[name]
        storage.first_states[place] = tuple(
            _tensor(part).to(storage.device, copy=True) for part in states
        )
