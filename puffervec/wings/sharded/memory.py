# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure the peak memory of tensors, to see what splitting a network saves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class _MemoryWatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tracks the memory of each tensor that an operation allocates, as long as it is referenced."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = 0
        self._living: dict[int, tuple[Any, int]] = {}
        self._earlier: dict[int, Any] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for tensor in tree_leaves((args, kwargs)):  # Earlier tensors are not counted.
            if (
                isinstance(tensor, Tensor)
                and (key := tensor.untyped_storage()._cdata) not in self._living
            ):
                self._earlier[key] = _weak_ref(tensor)
        results = func(*args, **(kwargs or {}))
        self._living = {key: entry for key, entry in self._living.items() if not entry[0].expired()}
        for tensor in tree_leaves(results):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                earlier = self._earlier.get(storage._cdata)
                if earlier is None or earlier.expired():
                    self._living[storage._cdata] = _weak_ref(tensor), storage.nbytes()
        self.most = max(self.most, sum(size for _, size in self._living.values()))
        return results


def _weak_ref(tensor: Tensor) -> Any:
    """Return a weak reference to a tensor's memory."""
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]


def peak_bytes(work: Callable[[], object], device: torch.device | None = None) -> int:
    """Return the peak number of bytes of the tensors that `work` allocates.

    Tensors that existed before are not counted.

    Args:
        work: a training step, for example; called once.
        device: device on which it runs. On CUDA the allocator reports the peak; elsewhere every
            operation is intercepted, which slows it down.
    """
    if device is not None and device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        work()
        most: int = torch.cuda.max_memory_allocated(device)
        return most - before
    with _MemoryWatch() as watch:
        work()
    peak: int = watch.most
    return peak
