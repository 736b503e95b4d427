# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

from puffervec.train.device import streams
from puffervec.train.device.streams import stream_of
from tests.train.streams import Cuda, cuda

__all__ = ["cuda"]


def test_a_stream_of_a_gpu_runs_beside_the_threads_own(cuda: Cuda) -> None:
    stream = stream_of(torch.device("cuda"))
    stream.follow()
    with stream.active():
        assert cuda.current_stream().name == "stream 1"
    stream.precede()
    assert cuda.notes == [("stream 1", "waits", "default"), ("default", "waits", "stream 1")]


def test_a_cpu_is_done_when_the_call_returns(cuda: Cuda) -> None:
    stream = stream_of(torch.device("cpu"))
    stream.follow()
    with stream.active():
        stream.mark()
    stream.precede()
    assert stream.done() and cuda.notes == []


class Runtime:
    """Stands for torch.cuda.cudart()."""

    def __init__(self, code: int) -> None:
        self.code, self.last = code, 0
        self.calls: list[tuple[Any, ...]] = []

    def cudaHostRegister(self, pointer: int, size: int, flags: int) -> int:
        self.calls.append(("register", pointer, size, flags))
        self.last = self.code
        return self.code

    def cudaHostUnregister(self, pointer: int) -> int:
        self.calls.append(("unregister", pointer))
        return 0

    def launch(self, size: int, device: str) -> torch.Tensor:
        """Stands for torch.zeros: a kernel, after which torch asks for the last error."""
        assert device == "cuda"
        last, self.last = self.last, 0
        if last:
            raise torch.AcceleratorError(f"CUDA error {last}")
        return torch.ones(size)


class Owner:
    pass


def test_memory_is_pinned_until_its_owner_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime(0)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    block, owner = torch.zeros(4096, dtype=torch.uint8), Owner()
    assert streams.pin(block, owner)
    assert runtime.calls == [("register", block.data_ptr(), 4096, 1)]
    del owner
    gc.collect()
    assert runtime.calls[1:] == [("unregister", block.data_ptr())]


def test_what_cannot_be_pinned_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime(2)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    block, nothing = torch.zeros(4096, dtype=torch.uint8), torch.zeros(0)
    monkeypatch.setattr(torch, "zeros", runtime.launch)
    with pytest.warns(
        RuntimeWarning, match=r"4,096 bytes .* cannot be page-locked \(CUDA error 2; `ulimit -l`"
    ):
        assert not streams.pin(block, Owner())
    assert not streams.pin(nothing, Owner())
    assert len(runtime.calls) == 1


def test_a_refusal_is_not_taken_for_the_error_of_the_next_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runtime = Runtime(2)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    block = torch.zeros(4096, dtype=torch.uint8)
    monkeypatch.setattr(torch, "zeros", runtime.launch)
    with pytest.warns(RuntimeWarning, match="cannot be page-locked"):
        streams.pin(block, Owner())
    runtime.launch(1, "cuda")
