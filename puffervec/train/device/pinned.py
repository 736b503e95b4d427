# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Page-locks the slab's halves, so that copies to and from a GPU run by themselves. Runs in the learner only.

Pageable memory is copied by way of a buffer of the driver's, and the call waits for it. The slab is memory that we have not
allocated through CUDA, so it is registered with it instead.
"""

from __future__ import annotations

import contextlib
import warnings
import weakref
from typing import Any

import torch
from torch import Tensor

_PORTABLE = 1  # cudaHostRegisterPortable: pinned for every CUDA context of this process
# Source: CUDA Runtime API, cudaHostRegister.


def pin(block: Tensor, owner: Any) -> bool:
    """Page-lock a CPU tensor's memory until `owner` is gone; return whether that worked.

    Args: block: contiguous, begins on a page (the slab's halves do); empty blocks have nothing to pin.
    """
    runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    pointer, size = block.data_ptr(), block.numel() * block.element_size()
    if not size:
        return False
    code = int(runtime.cudaHostRegister(pointer, size, _PORTABLE))
    if code:
        _forget_error()
        warnings.warn(
            f"{size:,} bytes shared with the workers cannot be page-locked (CUDA error {code}; `ulimit -l` limits it): copies "
            "to the GPU will be slower and wait for each other",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    weakref.finalize(owner, runtime.cudaHostUnregister, pointer)
    return True


def _forget_error() -> None:
    """Clear the runtime's last error, which is kept until somebody asks for it: torch does after each kernel that it launches,
    and would raise it there, as that kernel's."""
    with contextlib.suppress(RuntimeError):
        torch.zeros(1, device="cuda").add_(1)
