# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Loops at once: they are timed together, and one that fails is an error."""

from __future__ import annotations

import sys

import pytest

from bench.ceiling import at_once, c_loops
from bench.workloads import preset
from puffervec.errors import PuffervecError

TIMED = """
import json, time
from bench.ceiling import wait_for_others
time.sleep({seconds})
wait_for_others()
print(json.dumps({{"at": time.monotonic()}}))
"""


def test_all_are_timed_from_the_same_moment_however_long_each_took_to_start() -> None:
    found = at_once([[sys.executable, "-c", TIMED.format(seconds=seconds)] for seconds in (0.0, 0.4)])
    assert abs(found[0]["at"] - found[1]["at"]) < 0.3


def test_one_that_ends_before_its_time_is_an_error() -> None:
    with pytest.raises(PuffervecError, match="ended before it was timed"):
        at_once([[sys.executable, "-c", TIMED.format(seconds=0)], [sys.executable, "-c", "raise SystemExit(3)"]])


def test_c_loops_share_the_envs() -> None:
    assert c_loops(preset("probe", 8), 2, 10) > 0
