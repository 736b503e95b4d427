# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Report whether a graph of a policy is being traced, and whether our kernels stay whole in it.

A kernel that stays whole is a single operation of the graph; otherwise the graph holds plain torch
operations in its place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import torch

_WHOLE: ContextVar[bool] = ContextVar("keep_whole", default=False)


@contextlib.contextmanager
def keep_whole() -> Iterator[None]:
    """Let graphs made in the body hold our kernels as operations `puffervec::...`.

    Only this process can run such a graph.
    """
    before = _WHOLE.set(True)
    try:
        yield
    finally:
        _WHOLE.reset(before)


def is_kept_whole() -> bool:
    """Return whether this is called within `keep_whole`."""
    # Dynamo cannot look into a ContextVar.
    return not torch.compiler.is_dynamo_compiling() and _WHOLE.get()


def is_traced() -> bool:
    """Return whether torch or a plan is tracing a graph, so that tensors have no memory for C."""
    return torch.compiler.is_compiling() or _WHOLE.get()
