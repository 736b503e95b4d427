# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Finds places where the learner waits for its device, on any machine.

`Syncs` notes each operation that reads a number back from a tensor (on a GPU: waits for everything before it). `fake_cuda`
makes tensors that claim to be on a GPU and have no contents: whatever asks for a number fails.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

READS = (
    "aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::equal", "aten::is_nonzero",
)  # fmt: skip


class Syncs(TorchDispatchMode):
    """While active, `found` collects "operation at file:line"."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        indices = args[1] if name in ("aten::index", "aten::index_put_", "aten::index_put") else ()
        by_mask = any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)
        if name in READS or by_mask:
            ours = [f for f in traceback.extract_stack() if "/puffervec/" in f.filename or "/tests/" in f.filename]
            frame = [f for f in ours if not f.filename.endswith("syncs.py")][-1]
            self.found.append(f"{name} at {frame.filename.rpartition('/')[2]}:{frame.lineno}: {frame.line}")
        return func(*args, **(kwargs or {}))


def _copy(self: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """copy_ by way of the dispatcher: the method itself asks a torch without CUDA to choose the device."""
    copied: torch.Tensor = torch.ops.aten.copy_.default(self, source)
    return copied


def _to(self: torch.Tensor, where: torch.dtype | torch.device) -> torch.Tensor:
    """to, likewise; nothing can be moved."""
    if not isinstance(where, torch.dtype):
        assert self.device.type == torch.device(where).type
        return self
    changed: torch.Tensor = torch.ops.aten.to.dtype(self, where)
    return changed


@contextmanager
def fake_cuda() -> Iterator[torch.device]:
    """In the block, new tensors are on "cuda" and have shapes but no contents; nothing can be moved there."""
    device = torch.device("cuda")
    ways = mock.patch.multiple(torch.Tensor, copy_=_copy, to=_to)
    with ways, FakeTensorMode(allow_non_fake_inputs=True), device:
        yield device
