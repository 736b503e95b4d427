# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The order in which a device works. Runs in the learner and in the thread of ahead.py.

A CPU has done what it was asked for when the call returns. On CUDA streams run beside each other,
and events tell when something is done; graphs hold what is asked for again and again. Pageable
memory would be copied by way of a buffer of the driver's, and the call would wait for it, so the
slab, which was not allocated through CUDA, is registered with it.
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
    """Work that is done when the call returns. `CudaStream` has the same methods where it runs
    beside other work.
    """

    def active(self) -> AbstractContextManager[Any]:
        """What the block asks for happens in this stream."""
        return contextlib.nullcontext()

    def follow(self) -> None:
        """Do what is asked for from now on after what the thread's current stream was asked for, on
        the device.
        """

    def precede(self) -> None:
        """Let the thread's current stream wait for this one, on the device."""

    def mark(self) -> None:
        """Have `done` tell of what was asked for so far."""

    def done(self) -> bool:
        """Return whether what was asked for before `mark` is done; waits for nothing."""
        return True


class CudaStream(Stream):
    """A stream of a GPU."""

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
        self.own.wait_stream(torch.cuda.current_stream(self.device))

    def precede(self) -> None:
        torch.cuda.current_stream(self.device).wait_stream(self.own)

    def mark(self) -> None:
        self._marked.record(self.own)

    def done(self) -> bool:
        return bool(self._marked.query())  # type: ignore[no-untyped-call]


def stream_of(device: torch.device) -> Stream:
    """Return a new stream of a device."""
    return CudaStream(device) if device.type == "cuda" else Stream()


_PORTABLE = 1  # cudaHostRegisterPortable: pinned for every CUDA context of this process
# Source: CUDA Runtime API, cudaHostRegister.


def pin(block: Tensor, owner: Any) -> bool:
    """Page-lock a CPU tensor's memory until `owner` is gone; return whether that worked.

    Args: block: contiguous, begins on a page (the slab's halves do); empty blocks have nothing to
        pin.
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
            "`ulimit -l` limits it): copies to the GPU will be slower and wait for each other",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    weakref.finalize(owner, runtime.cudaHostUnregister, pointer)
    return True


def _forget_error() -> None:
    """Clear the runtime's last error, which is kept until somebody asks for it: torch does after
    each kernel that it launches, and would raise it there, as that kernel's.
    """
    with contextlib.suppress(RuntimeError):
        torch.zeros(1, device="cuda").add_(1)
