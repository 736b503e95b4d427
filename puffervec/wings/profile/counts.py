# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Counts of launches, copies to the host, and synchronisations of a call.

On a GPU torch.profiler counts calls of CUDA's API. Without one, operations are counted that would
launch kernels on a GPU, and those that would copy and synchronize. For eager code both methods
agree on copies and synchronisations.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from typing import Any

import torch

from puffervec.train.device.syncs import Syncs

# Names in CUDA's runtime and driver API; tools append versions (cudaMemcpyAsync_v3020,
# cuLaunchKernelEx_ptsz).
_LAUNCH = re.compile(r"(cuda|cu)(Launch(Cooperative)?Kernel|GraphLaunch)")
_SYNCHRONIZE = re.compile(r"(cuda|cu)(Stream|Device|Event|Ctx)Synchronize")
_TO_HOST = re.compile(r"memcpy.*(DtoH|Device-to-Host)", re.IGNORECASE)
KINDS = ("launches", "copies", "synchronisations")
_CALLS = 5  # Number of calls in a run under torch.profiler.


@dataclasses.dataclass(frozen=True)
class Counts:
    """Numbers of events per call.

    Attributes:
        launches: number of kernel and graph launches.
        copies: number of copies from the device to the host.
        synchronisations: number of times the host waits for the device.
        source: what was counted: "CUDA" (calls of its API) or "operations".
    """

    launches: float
    copies: float
    synchronisations: float
    source: str

    def __str__(self) -> str:
        """Return the three numbers with their names."""
        what = ("launch", "launches") if self.source == "CUDA" else ("operation", "operations")
        names = (
            what,
            ("copy to the host", "copies to the host"),
            ("synchronisation", "synchronisations"),
        )
        numbers = (self.launches, self.copies, self.synchronisations)
        return ", ".join(
            f"{n:g} {one if n == 1 else many}"
            for n, (one, many) in zip(numbers, names, strict=True)
        )


def kind_of(name: str) -> str | None:
    """Return which of KINDS the name of a CUDA call or memory operation belongs to, or None.

    >>> kind_of("cudaGraphLaunch_v10000"), kind_of("[CUDA memcpy Device-to-Host]")
    ('launches', 'copies')
    >>> kind_of("cudaMalloc") is None
    True
    """
    patterns = zip(KINDS, (_LAUNCH, _TO_HOST, _SYNCHRONIZE), strict=True)
    return next((kind for kind, pattern in patterns if pattern.search(name)), None)


def total(names: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the sum for each of KINDS. names: names of calls and operations, with counts."""
    sums = dict.fromkeys(KINDS, 0.0)
    for name, times in names:
        if (kind := kind_of(name)) is not None:
            sums[kind] += times
    return sums


def count(work: Callable[[], Any], device: torch.device) -> Counts:
    """Return the counts of one call of `work`, which is called several times."""
    if device.type != "cuda":
        with Syncs() as syncs:
            work()
        return Counts(syncs.operations, syncs.copies_out, len(syncs.found), "operations")
    # The profiler itself synchronizes at the end; the difference of two runs leaves that out.
    few, many = (_profile(work, calls) for calls in (_CALLS, 2 * _CALLS))
    launches, copies, waits = ((many[kind] - few[kind]) / _CALLS for kind in KINDS)
    return Counts(launches, copies, waits, "CUDA")


def _profile(work: Callable[[], Any], calls: int) -> dict[str, float]:
    from torch.profiler import ProfilerActivity, profile

    both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=both, acc_events=True) as profiler:
        for _ in range(calls):
            work()
        torch.cuda.synchronize()
    return total((event.name, 1) for event in profiler.events() or ())
