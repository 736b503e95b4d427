# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A stand-in for the streams, events and graphs of torch.cuda: it notes what would be ordered after
what, and runs nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch


class Event:
    """Each look is noted; `after` of them find it not yet there."""

    def __init__(self, after: int = 0) -> None:
        self.after, self.looks = after, 0

    def query(self) -> bool:
        self.looks += 1
        return self.looks > self.after


class Stream:
    """`notes` holds (stream, "waits", stream), (stream, "replays", graph)."""

    def __init__(self, cuda: Cuda, name: str) -> None:
        self._cuda, self.name = cuda, name

    def wait_stream(self, other: Stream) -> None:
        self._cuda.notes.append((self.name, "waits", other.name))


class Graph:
    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self.generators: list[Any] = []

    def register_generator_state(self, generator: Any) -> None:
        self.generators.append(generator)

    def replay(self) -> None:
        self._cuda.notes.append((self._cuda.current_stream().name, "replays", self))


class Cuda:
    """What stands for torch.cuda; the current stream is one per thread, as there."""

    def __init__(self) -> None:
        self.notes: list[tuple[Any, ...]] = []
        self.recordings, self.most_at_once = 0, 0
        self._made, self._here = 0, threading.local()

    def current_stream(self, device: Any = None) -> Stream:
        here: Stream = getattr(self._here, "stream", None) or Stream(self, "default")
        return here

    def make_stream(self, device: Any = None) -> Stream:
        self._made += 1
        return Stream(self, f"stream {self._made}")

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, self._here.stream = self.current_stream(), stream
        yield
        self._here.stream = before

    @contextmanager
    def graph(self, graph: Graph, stream: Stream, capture_error_mode: str) -> Iterator[None]:
        assert capture_error_mode == "thread_local"
        self.recordings += 1
        self.most_at_once = max(self.most_at_once, self.recordings)
        with self.stream(stream):
            yield
        self.recordings -= 1


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    """Put the stand-in in the place of torch.cuda's own."""
    made = Cuda()
    monkeypatch.setattr(torch.cuda, "current_stream", made.current_stream)
    monkeypatch.setattr(torch.cuda, "stream", made.stream)
    monkeypatch.setattr(torch.cuda, "Stream", made.make_stream)
    monkeypatch.setattr(torch.cuda, "graph", made.graph)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: Graph(made))
    return made
