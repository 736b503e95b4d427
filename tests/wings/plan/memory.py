# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Counts what torch allocates on the CPU."""

from __future__ import annotations

from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile


def allocations(call: Callable[[], object], runs: int = 3) -> list[int]:
    """Return the bytes of each allocation of `runs` calls, after a first that does not count."""
    call()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        for _ in range(runs):
            call()
    assert found.profiler is not None
    events = found.profiler.kineto_results.events()
    return [event.nbytes() for event in events if event.name() == "[memory]" and event.nbytes() > 0]
