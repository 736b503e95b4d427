# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""How many bytes of tensors a piece of work needs at once: what splitting a network gains a rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class _Living(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the memory of each tensor that an operation makes, for as long as anybody holds it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = 0
        self._living: dict[int, tuple[Any, int]] = {}
        self._given: dict[int, Any] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for tensor in tree_leaves((args, kwargs)):  # What was there before is not counted.
            if (
                isinstance(tensor, Tensor)
                and (key := tensor.untyped_storage()._cdata) not in self._living
            ):
                self._given[key] = _weak(tensor)
        found = func(*args, **(kwargs or {}))
        self._living = {key: kept for key, kept in self._living.items() if not kept[0].expired()}
        for tensor in tree_leaves(found):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                given = self._given.get(storage._cdata)
                if given is None or given.expired():
                    self._living[storage._cdata] = _weak(tensor), storage.nbytes()
        self.most = max(self.most, sum(size for _, size in self._living.values()))
        return found


def _weak(tensor: Tensor) -> Any:
    """Return what tells whether a tensor's memory is still there, without keeping it."""
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]


def peak_bytes(work: Callable[[], object], device: torch.device | None = None) -> int:
    """Return the most bytes that tensors made in `work` took at once; those that were there before
    are not counted.

    Args:
        work: a training step, say; called once.
        device: where it works. On CUDA the allocator is asked; elsewhere each operation is watched,
            which takes time.
    """
    if device is not None and device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        work()
        most: int = torch.cuda.max_memory_allocated(device)
        return most - before
    with _Living() as living:
        work()
    found: int = living.most
    return found
