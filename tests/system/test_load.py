# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What other programs use of the cores: /proc/stat less our own processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from puffervec.system import load
from tests.helpers import eventually

STAT = """cpu  60 6 60 600 6 6 6 6 6 0
cpu0 10 1 20 300 4 2 3 50 5 0
cpu1 20 2 30 200 1 3 1 50 1 0
cpu7 30 3 10 100 1 1 2 50 0 0
intr 1234 1 2 3
ctxt 99
"""


def test_busy_is_what_ran_on_the_cores_asked_for() -> None:
    """user, nice, system, irq, softirq: neither idle nor iowait, nor what a hypervisor gave to
    others, nor guests twice.
    """
    assert load.busy_s(STAT, {0}) == pytest.approx((10 + 1 + 20 + 2 + 3) * load.TICK_S)
    assert load.busy_s(STAT, {0, 7}) == pytest.approx((36 + 30 + 3 + 10 + 1 + 2) * load.TICK_S)
    assert load.busy_s(STAT, {3}) == 0.0


def test_a_process_clock_counts_all_its_threads_and_nobody_elses() -> None:
    before = load.process_s(os.getpid())
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass
    assert load.process_s(os.getpid()) - before >= 0.02
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert load.process_s(gone.pid) == 0.0


def test_another_process_has_a_clock() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            eventually(lambda: load.process_s(busy.pid) > 0.05, "CPU time of the other process")
        finally:
            busy.kill()


@pytest.mark.parametrize(
    ("busy_s", "own_s", "foreign"),
    [(2.0, 0.5, 1.5), (0.4, 0.5, 0.0), (1.0, 0.0, 1.0)],
    ids=["others", "ticks are coarse", "all others"],
)
def test_foreign_is_busy_less_our_own(busy_s: float, own_s: float, foreign: float) -> None:
    before = load.Reading(10.0, 5.0, {1: 3.0})
    after = load.Reading(11.0, 5.0 + busy_s, {1: 3.0 + own_s})
    assert load.foreign_cores(before, after) == pytest.approx(foreign)


def test_a_process_that_was_not_there_before_does_not_count_its_past() -> None:
    before = load.Reading(0.0, 0.0, {1: 0.0, 3: 7.0})
    after = load.Reading(1.0, 2.0, {1: 0.5, 2: 100.0})
    assert load.foreign_cores(before, after) == pytest.approx(1.5)


def test_a_system_without_the_file_says_nothing(tmp_path: Path) -> None:
    missing = load.open_stat(tmp_path / "stat")
    assert missing is None and load.read({0}, {os.getpid()}, missing) is None


def test_the_file_is_read_from_its_beginning_each_time(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(STAT)
    stat = load.open_stat(tmp_path / "stat")
    assert stat is not None
    try:
        for _ in range(2):
            found = load.read({1}, {os.getpid()}, stat)
            assert (
                found is not None
                and found.busy_s == pytest.approx(56 * load.TICK_S)
                and set(found.own_s) == {os.getpid()}
            )
    finally:
        os.close(stat)
