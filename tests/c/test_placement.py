# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Where a thread may run (csrc/core/placement.c), asked of the system from inside and from
outside.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from puffervec._ffi import ffi, lib
from puffervec.system.cores import affinity


def numbers(cores: Any) -> set[int]:
    return {
        64 * word + bit
        for word in range(lib.PV_CORE_WORDS)
        for bit in range(64)
        if cores.bits[word] >> bit & 1
    }


def in_a_thread(run: Any) -> Any:
    """Return what `run` returns in a thread of its own, whose cores end with it."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(run()))
    thread.start()
    thread.join()
    return found[0]


def test_cores_are_those_that_the_system_names() -> None:
    cores = ffi.new("pv_cores*")
    lib.pv_cores_read(cores)
    assert numbers(cores) == set(affinity())
    assert lib.pv_current_core() in affinity()


def test_a_thread_moves_and_comes_home() -> None:
    last = affinity()[-1]

    def moves() -> list[set[int]]:
        os.sched_setaffinity(0, {last})
        placement = ffi.new(
            "pv_placement*", {"anywhere": {"bits": [sum(1 << core for core in affinity_before)]}}
        )
        lib.pv_placement_open(placement)
        found = [numbers(placement.home)]
        for place in (lib.PV_ANYWHERE, lib.PV_ON_CORE + affinity_before[0], lib.PV_HOME):
            lib.pv_placement_move(placement, place)
            found.append(os.sched_getaffinity(0))
        return found

    affinity_before = affinity()
    if affinity_before[-1] >= 64:
        pytest.skip("the test names cores by one word of bits")
    first = affinity_before[0]
    assert in_a_thread(moves) == [{last}, set(affinity_before), {first}, {last}]


def test_home_is_anywhere_where_nothing_else_was_noted() -> None:
    placement = ffi.new("pv_placement*")
    lib.pv_placement_open(placement)
    assert numbers(placement.anywhere) == numbers(placement.home) == set(affinity())


def test_a_core_that_does_not_exist_moves_nobody() -> None:
    def moves() -> set[int]:
        placement = ffi.new("pv_placement*")
        lib.pv_placement_open(placement)
        lib.pv_placement_move(placement, lib.PV_ON_CORE + 64 * lib.PV_CORE_WORDS - 1)
        return os.sched_getaffinity(0)

    assert in_a_thread(moves) == set(affinity())
