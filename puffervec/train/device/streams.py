# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The order in which a device works. Runs in the learner and in the thread of ahead.py.

A CPU has done what it was asked for when the call returns. On CUDA streams run beside each other, and events tell when
something is done; graphs hold what is asked for again and again.
"""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import torch


class Stream:
    """Work that is done when the call returns. `CudaStream` has the same methods where it runs beside other work."""

    beside = False

    def active(self) -> AbstractContextManager[Any]:
        """What the block asks for happens in this stream."""
        return contextlib.nullcontext()

    def follow(self) -> None:
        """Do what is asked for from now on after what the thread's current stream was asked for, on the device."""

    def precede(self) -> None:
        """Let the thread's current stream wait for this one, on the device."""

    def mark(self) -> None:
        """Have `done` tell of what was asked for so far."""

    def done(self) -> bool:
        """Return whether what was asked for before `mark` is done; waits for nothing."""
        return True


class CudaStream(Stream):
    """A stream of a GPU."""

    beside = True

    def __init__(self, device: torch.device) -> None:
        """Args: device: whose."""
        self.device = device
        self.own = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    @cached_property
    def _marked(self) -> torch.cuda.Event:
        return torch.cuda.Event()  # type: ignore[no-untyped-call]

    def active(self) -> AbstractContextManager[Any]:
        """See Stream. Also makes the device the current one: a thread begins with the first."""
        return torch.cuda.stream(self.own)

    def follow(self) -> None:
        """See Stream."""
        self.own.wait_stream(torch.cuda.current_stream(self.device))

    def precede(self) -> None:
        """See Stream."""
        torch.cuda.current_stream(self.device).wait_stream(self.own)

    def mark(self) -> None:
        """See Stream."""
        self._marked.record(self.own)

    def done(self) -> bool:
        """See Stream."""
        return bool(self._marked.query())  # type: ignore[no-untyped-call]


def stream_of(device: torch.device) -> Stream:
    """Return a new stream of a device."""
    return CudaStream(device) if device.type == "cuda" else Stream()
