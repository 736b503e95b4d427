# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""How often a call launches work on its device, copies numbers to the host, and waits.

On a GPU torch.profiler counts calls of CUDA's API. Elsewhere the operations are counted that would
be kernels there, and those that would copy and wait: for eager code both say the same of copies and
waits.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from typing import Any

import torch

from puffervec.train.device.syncs import Syncs

# Names in CUDA's runtime and driver API; the tools put versions behind them (cudaMemcpyAsync_v3020,
# cuLaunchKernelEx_ptsz).
_LAUNCH = re.compile(r"(cuda|cu)(Launch(Cooperative)?Kernel|GraphLaunch)")
_SYNCHRONIZE = re.compile(r"(cuda|cu)(Stream|Device|Event|Ctx)Synchronize")
_TO_HOST = re.compile(r"memcpy.*(DtoH|Device-to-Host)", re.IGNORECASE)
KINDS = ("launches", "copies", "synchronisations")
_CALLS = 5  # calls per run under torch.profiler


@dataclasses.dataclass(frozen=True)
class Counts:
    """Per call: launches of kernels and graphs, copies from the device to the host,
    synchronisations. source: what was counted, "CUDA" (its API) or "operations".
    """

    launches: float
    copies: float
    synchronisations: float
    source: str

    def __str__(self) -> str:
        """The three numbers in words."""
        what = ("launch", "launches") if self.source == "CUDA" else ("operation", "operations")
        words = (
            what,
            ("copy to the host", "copies to the host"),
            ("synchronisation", "synchronisations"),
        )
        numbers = (self.launches, self.copies, self.synchronisations)
        return ", ".join(
            f"{n:g} {one if n == 1 else many}"
            for n, (one, many) in zip(numbers, words, strict=True)
        )


def kind_of(name: str) -> str | None:
    """Return which of KINDS a call of CUDA's API or an operation on memory is; None for others.

    >>> kind_of("cudaGraphLaunch_v10000"), kind_of("[CUDA memcpy Device-to-Host]"), kind_of("cudaMalloc")
    ('launches', 'copies', None)
    """
    patterns = zip(KINDS, (_LAUNCH, _TO_HOST, _SYNCHRONIZE), strict=True)
    return next((kind for kind, pattern in patterns if pattern.search(name)), None)


def total(names: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return how often each of KINDS happened. names: of calls and operations, with how often."""
    found = dict.fromkeys(KINDS, 0.0)
    for name, times in names:
        if (kind := kind_of(name)) is not None:
            found[kind] += times
    return found


def count(work: Callable[[], Any], device: torch.device) -> Counts:
    """Return the counts of one call of `work`, which is called a few times."""
    if device.type != "cuda":
        with Syncs() as syncs:
            work()
        return Counts(syncs.operations, syncs.copies_out, len(syncs.found), "operations")
    # The profiler itself waits for the device at the end: the difference of two runs is that of the
    # calls alone.
    few, many = (_recorded(work, calls) for calls in (_CALLS, 2 * _CALLS))
    launches, copies, waits = ((many[kind] - few[kind]) / _CALLS for kind in KINDS)
    return Counts(launches, copies, waits, "CUDA")


def _recorded(work: Callable[[], Any], calls: int) -> dict[str, float]:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        for _ in range(calls):
            work()
        torch.cuda.synchronize()
    return total((event.name, 1) for event in recorded.events() or ())
