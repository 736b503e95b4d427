# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/latency.py in short. What it measures is judged by people, not here."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from bench import common, latency


def test_all_lines_are_there_with_their_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str], no_leaks: None) -> None:
    path = tmp_path / "out.json"
    short = ["--seconds", "0.001", "--repeats", "2", "--pause-s", "0.05", "--pauses", "2", "--idle-s", "0.1"]
    assert latency.main([*short, "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    targets = {cost["name"]: cost["target"] for cost in document["results"]}
    assert targets["one worker"] == 3.0 and targets["two workers"] == 15.0
    assert targets["first step after 0.05 s, two workers"] == 300.0 and targets["idle worker, share of a core"] == 2.0
    for cost in document["results"]:
        assert cost["figure"]["median"] >= 0 and len(cost["figure"]["samples"]) == 2
        assert cost["met"] == (None if cost["target"] is None else cost["figure"]["median"] < cost["target"])
    text = capsys.readouterr().out
    assert "round trips" in text and "idle worker" in text and "< 15 us" in text


def test_a_target_is_met_below_it() -> None:
    assert latency.Cost("x", "us", common.figure([2.9]), 3.0).met is True
    assert latency.Cost("x", "us", common.figure([3.0]), 3.0).met is False
    assert latency.Cost("x", "us", common.figure([3.0]), None).met is None


def test_cpu_time_of_a_process_counts_its_work() -> None:
    before, worked = latency.cpu_time_ns(os.getpid()), time.process_time_ns()
    while time.process_time_ns() - worked < 50_000_000:
        pass
    assert latency.cpu_time_ns(os.getpid()) - before >= 30_000_000
