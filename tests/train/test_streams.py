# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import torch

from puffervec.train.device.streams import stream_of
from tests.train.streams import Cuda, cuda

__all__ = ["cuda"]


def test_a_stream_of_a_gpu_runs_beside_the_threads_own(cuda: Cuda) -> None:
    stream = stream_of(torch.device("cuda"))
    stream.follow()
    with stream.active():
        assert stream.beside and cuda.current_stream().name == "stream 1"
    stream.precede()
    assert cuda.notes == [("stream 1", "waits", "default"), ("default", "waits", "stream 1")]


def test_a_cpu_is_done_when_the_call_returns(cuda: Cuda) -> None:
    stream = stream_of(torch.device("cpu"))
    stream.follow()
    with stream.active():
        stream.mark()
    stream.precede()
    assert stream.done() and not stream.beside and cuda.notes == []
