# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Page-locking (puffervec/train/pinned.py) against a stand-in for CUDA's runtime, since a GPU is seldom there."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

from puffervec.train import pinned


class Runtime:
    """Stands for torch.cuda.cudart()."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.calls: list[tuple[Any, ...]] = []

    def cudaHostRegister(self, pointer: int, size: int, flags: int) -> int:
        self.calls.append(("register", pointer, size, flags))
        return self.code

    def cudaHostUnregister(self, pointer: int) -> int:
        self.calls.append(("unregister", pointer))
        return 0


class Owner:
    pass


def test_memory_is_pinned_until_its_owner_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime(0)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    block, owner = torch.zeros(4096, dtype=torch.uint8), Owner()
    assert pinned.pin(block, owner)
    assert runtime.calls == [("register", block.data_ptr(), 4096, 1)]
    del owner
    gc.collect()
    assert runtime.calls[1:] == [("unregister", block.data_ptr())]


def test_what_cannot_be_pinned_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime(2)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    with pytest.warns(RuntimeWarning, match=r"4,096 bytes .* cannot be page-locked \(CUDA error 2; `ulimit -l`"):
        assert not pinned.pin(torch.zeros(4096, dtype=torch.uint8), Owner())
    assert not pinned.pin(torch.zeros(0), Owner())
    assert len(runtime.calls) == 1
