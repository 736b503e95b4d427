# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A segment: a host's roll-out as it travels, arrays of NumPy that Ray hands over without copying
them on one machine.

    host: Storage (T+1, R) -- packed --> Segment -- Ray --> learner: unpack into columns of its Storage (T+1, K x R)

Values are left out: the learner's policy makes them anew. Observations of float32 may be sent as
bf16 or, by 256 steps between the least and the largest value of each number, as bytes; what a
policy did then belongs to observations a little beside those that are learned from, as its older
weights do, and V-trace sees both in one ratio. Runs on hosts and in the learner.
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
STEPS = 255  # Between the least and the largest value of a number that travels as a byte.


@dataclasses.dataclass(frozen=True)
class Packed:
    """An array as it travels. Attributes: data: bf16 as int16; kind: what of; low, step: (F,)
    float32, of bytes for numbers.
    """

    data: np.ndarray
    kind: str = "exact"
    low: np.ndarray | None = None
    step: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that travel."""
        return sum(part.nbytes for part in (self.data, self.low, self.step) if part is not None)


@dataclasses.dataclass(frozen=True)
class Segment:
    """A host's roll-out of T steps with the weights of one version.

    Attributes:
        version: of the weights. life: of the host, see host.py.
        arrays: by policy that learns, and the names of `Storage.tensors`, (T+1, R, ...) each.
        states: by policy, what it remembered before step 0, (R, ...) each.
        counted: its episodes and rewards in numbers.
        agent_steps: valid transitions. seconds: that the host played.
    """

    version: int
    life: str
    arrays: Mapping[str, Mapping[str, Packed]]
    states: Mapping[str, tuple[np.ndarray, ...]]
    counted: Counted
    agent_steps: int
    seconds: float

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        packed = sum(part.nbytes for arrays in self.arrays.values() for part in arrays.values())
        return packed + sum(part.nbytes for states in self.states.values() for part in states)


def packed(storage: Storage, kind: str) -> dict[str, Packed]:
    """Return the arrays of a roll-out as they travel. Those that are sent as they are alias the
    storage: Ray takes its copy before the host gets its next order.

    Args: kind: of float32 observations: exact, bf16 or uint8.
    """
    found = {}
    for name, tensor in storage.tensors().items():
        if name in NOT_SENT or (name == _MEMORY_ONLY and not storage.first_states.get(0)):
            continue
        lossy = name.startswith("obs") and tensor.dtype == torch.float32
        found[name] = _pack(tensor, kind if lossy else "exact")
    return found


def _pack(tensor: Tensor, kind: str) -> Packed:
    if kind == "uint8":
        return _bytes_of(tensor)
    if kind == "bf16" or tensor.dtype == torch.bfloat16:
        return Packed(tensor.to(torch.bfloat16, copy=True).view(torch.int16).numpy(), "bf16")
    return Packed(tensor.numpy())


def _bytes_of(tensor: Tensor) -> Packed:
    """Each number of an observation, over all steps and rows, in 256 steps from its least value to
    its largest.

    Step by step of the roll-out: what is in between stays in the caches (a third of the time).
    """
    rows = tensor.flatten(2)
    low = torch.stack([step.amin(0) for step in rows]).amin(0)
    high = torch.stack([step.amax(0) for step in rows]).amax(0)
    width = (high - low) / STEPS
    divisor = torch.where(width > 0, width, 1.0)
    data = torch.empty(rows.shape, dtype=torch.uint8)
    for step, out in zip(rows, data, strict=True):
        out.copy_(((step - low) / divisor).round_())
    return Packed(data.view(tensor.shape).numpy(), "uint8", low.numpy(), width.numpy())


def _tensor(array: np.ndarray) -> Tensor:
    """Return a tensor on an array of Ray's store, which is read-only: torch has no such tensors and
    would warn.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(array)


def unpack(part: Packed, target: Tensor) -> None:
    """Write an array into a tensor of its shape, which may lie on another device."""
    tensor = _tensor(part.data).to(target.device)
    if part.kind == "bf16":
        tensor = tensor.view(torch.bfloat16)
    if part.low is None or part.step is None:
        target.copy_(tensor)
        return
    low, width = (
        _tensor(x).to(target.device).view(tensor.shape[2:]) for x in (part.low, part.step)
    )
    steps = (
        zip(tensor, target, strict=True) if target.device.type == "cpu" else [(tensor, target)]
    )  # Caches; launches.
    for step, into in steps:
        into.copy_(torch.addcmul(low, step.to(torch.float32), width))


def put(segment: Segment, storages: Mapping[str, Storage], place: int) -> None:
    """Copy a segment into its columns of the learner's storages: the place-th of those that an
        update takes.

    Raises: ValueError where the shapes are others, as of other settings.
    """
    for name, storage in storages.items():
        arrays = segment.arrays[name]
        rows = arrays["rewards"].data.shape[1]
        columns = slice(place * rows, (place + 1) * rows)
        for key, target in storage.tensors().items():
            if key in arrays:
                shape, wanted = arrays[key].data.shape, tuple(target[:, columns].shape)
                if shape != wanted:
                    raise ValueError(f"{name}/{key} has the shape {shape}, not {wanted}")
                unpack(arrays[key], target[:, columns])
        states: tuple[Any, ...] = segment.states[name]
        storage.first_states[place] = tuple(
            _tensor(part).to(storage.device, copy=True) for part in states
        )
