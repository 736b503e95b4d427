# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from pathlib import Path

import pytest

from puffervec.train.log import SCHEMA_VERSION, JsonLog, read_metrics


def test_head_then_lines_and_again(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    for value in (1.0, 2.0):  # A resumed run appends without a second head.
        log = JsonLog(path, {"env": "probe"})
        log.write({"step": value})
        log.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0] == {"schema_version": SCHEMA_VERSION, "env": "probe"}
    assert lines[1:] == [{"step": 1.0}, {"step": 2.0}]
    assert list(read_metrics(path)) == lines[1:]


def test_not_a_number_becomes_null(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "m.jsonl", {})
    log.write({"a": float("nan"), "b": float("inf"), "c": 1.5})
    log.close()
    assert list(read_metrics(tmp_path / "m.jsonl")) == [{"a": None, "b": None, "c": 1.5}]


def test_a_full_disk_drops_lines_and_counts_them() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full on this system")
    log = JsonLog(full, {})
    log.write({"a": 1.0})
    log.close()
    assert log.dropped >= 1


def test_a_cut_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    log = JsonLog(path, {})
    log.write({"a": 1.0})
    log.close()
    path.write_text(path.read_text() + '{"a": 2')
    assert list(read_metrics(path)) == [{"a": 1.0}]


def test_other_versions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"schema_version": 99}\n')
    with pytest.raises(ValueError, match="99"):
        list(read_metrics(path))
