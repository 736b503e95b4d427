# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Whether a graph is being made of a policy, in which our own kernels stand as one operation each,
or not at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import torch

_WHOLE: ContextVar[bool] = ContextVar("kept_whole", default=False)


@contextlib.contextmanager
def kept_whole() -> Iterator[None]:
    """In the block a graph holds our kernels as operations `puffervec::...`; only this process can
    run them.
    """
    before = _WHOLE.set(True)
    try:
        yield
    finally:
        _WHOLE.reset(before)


def is_kept_whole() -> bool:
    """True within `kept_whole`."""
    return (
        not torch.compiler.is_dynamo_compiling() and _WHOLE.get()
    )  # Dynamo cannot look into a ContextVar


def is_traced() -> bool:
    """True while a graph is being made, by torch or for a plan: tensors have no memory that C could
    read.
    """
    return torch.compiler.is_compiling() or _WHOLE.get()
