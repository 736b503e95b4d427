# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Ranks for tests: threads of this process that talk over gloo as the processes of a torchrun job
do.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch.distributed as dist

from puffervec.train.device.ranks import GroupRanks

Result = TypeVar("Result")


def together(
    size: int, work: Callable[[GroupRanks], Result], timeout_s: float = 60.0
) -> list[Result | Exception]:
    """Return what `work` returns, or raises, in each of `size` ranks."""
    store = dist.HashStore()

    def run(rank: int) -> Result | Exception:
        group: Any = dist.ProcessGroupGloo(store, rank, size, datetime.timedelta(seconds=timeout_s))
        try:
            return work(GroupRanks(group, rank, size))
        except Exception as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(run, range(size)))


def all_well(size: int, work: Callable[[GroupRanks], Result]) -> list[Result]:
    """`together` where nothing may be raised."""
    found = []
    for result in together(size, work):
        if isinstance(result, Exception):
            raise result
        found.append(result)
    return found
