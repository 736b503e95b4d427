# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Order the work of a device by streams and events.

A CPU has finished its work when the call returns. On CUDA, streams run concurrently and events
report what has finished. The driver copies pageable memory through a buffer of its own and blocks
the call, so the slab, which CUDA did not allocate, is registered with CUDA. Runs in the learner and
in the thread of ahead.py.
"""

from __future__ import annotations

import contextlib
import warnings
import weakref
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import torch
from torch import Tensor


class Stream:
    """A stream whose work is done when the call returns; `CudaStream` is the concurrent variant."""

    def active(self) -> AbstractContextManager[Any]:
        """Return a context in which new work is queued on this stream."""
        return contextlib.nullcontext()

    def follow(self) -> None:
        """Make further work on this stream wait, on the device, for the thread's current stream."""

    def precede(self) -> None:
        """Make the thread's current stream wait for this one, on the device."""

    def mark(self) -> None:
        """Mark the work queued so far; `done` refers to it."""

    def done(self) -> bool:
        """Return whether the work before `mark` has finished, without waiting."""
        return True


class CudaStream(Stream):
    """A stream of a GPU."""

    def __init__(self, device: torch.device) -> None:
        """Create the stream on `device`."""
        self.device = device
        self.own = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    @cached_property
    def _marked(self) -> torch.cuda.Event:
        return torch.cuda.Event()  # type: ignore[no-untyped-call]

    def active(self) -> AbstractContextManager[Any]:
        """See Stream. Also makes the device current: a new thread starts with the first GPU."""
        return torch.cuda.stream(self.own)

    def follow(self) -> None:
        self.own.wait_stream(torch.cuda.current_stream(self.device))

    def precede(self) -> None:
        torch.cuda.current_stream(self.device).wait_stream(self.own)

    def mark(self) -> None:
        self._marked.record(self.own)

    def done(self) -> bool:
        return bool(self._marked.query())  # type: ignore[no-untyped-call]


def stream_of(device: torch.device) -> Stream:
    """Return a new stream on a device."""
    return CudaStream(device) if device.type == "cuda" else Stream()


# cudaHostRegisterPortable: pinned for every CUDA context of this process.
# Source: CUDA Runtime API, cudaHostRegister.
_PORTABLE = 1


def pin(block: Tensor, owner: Any) -> bool:
    """Page-lock a CPU tensor's memory until `owner` is collected; return whether that worked.

    Args:
        block: A contiguous tensor that begins on a page, as the slab's halves do. Nothing is pinned
            if it is empty.
    """
    runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    pointer, size = block.data_ptr(), block.numel() * block.element_size()
    if not size:
        return False
    code = int(runtime.cudaHostRegister(pointer, size, _PORTABLE))
    if code:
        _forget_error()
        warnings.warn(
            f"{size:,} bytes shared with the workers cannot be page-locked (CUDA error {code}; "
            "`ulimit -l` limits it): copies to the GPU will be slower and will not overlap",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    weakref.finalize(owner, runtime.cudaHostUnregister, pointer)
    return True


def _forget_error() -> None:
    """Clear the CUDA runtime's last error.

    torch checks it after each kernel that it launches, and would blame that kernel.
    """
    with contextlib.suppress(RuntimeError):
        torch.zeros(1, device="cuda").add_(1)
