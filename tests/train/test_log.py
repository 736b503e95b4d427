# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from puffervec.train.metrics.log import SCHEMA_VERSION, JsonLog, read_head, read_metrics
from tests.train.saved import fill_up


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


def test_a_full_disk_drops_lines_and_counts_them(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "m.jsonl", {})
    fill_up(log)
    for _ in range(2):
        assert not log.write({"a": 1.0})
    log.close()
    assert log.dropped == 2 and log.reason.startswith("disk full")


def test_a_log_that_is_not_kept(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "m.jsonl", {}, write=False)
    assert log.write({"a": 1.0})
    log.mark("resumed", step=1)
    log.close()
    assert not list(tmp_path.iterdir())


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


def test_what_a_resumed_run_does_once_more_counts_once(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "m.jsonl", {})
    for steps, resumed in (((10, 20, 30), 20), ((25, 35), 35), ((40,), 0), ((5,), None)):
        for step in steps:
            assert log.write({"step": step, "a": 100 * len(steps)})
        if resumed is not None:
            log.mark("resumed", step=resumed)
        if resumed == 35:
            found = [(line["step"], line["a"]) for line in read_metrics(log.path)]
            assert found == [(10, 300), (20, 300), (25, 200), (35, 200)]
    log.close()
    assert list(read_metrics(log.path)) == [{"step": 5, "a": 100}]
    assert json.loads(log.path.read_text().splitlines()[4]) == {"event": "resumed", "step": 20}


def test_a_marker_that_cannot_be_written_is_left_out(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "m.jsonl", {})
    fill_up(log)
    log.mark("resumed", step=1)
    assert log.dropped == 0  # of metrics
    log.close()


def test_a_resumed_run_goes_on_after_a_cut_line(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    for text, expected in (
        ('{"schema_version": 1}\n{"a": 1.0}\n{"a": 2', [1.0, 3.0]),
        ('{"schema_ver', [3.0]),
    ):
        path.write_text(text)
        log = JsonLog(path, {})
        assert log.write({"a": 3.0})
        log.close()
        assert [line["a"] for line in read_metrics(path)] == expected
        assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_line_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    """A file-size limit in the middle of a line, for real; afterwards the file goes on, with its
    head.
    """
    path = tmp_path / "m.jsonl"
    log = JsonLog(path, {})
    log.write({"a": 1.0})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5, hard))
    try:
        assert not log.write({"a": 2.0})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert log.dropped == 1 and log.write({"a": 3.0})
    path.unlink()
    assert log.write({"a": 4.0})
    log.close()
    assert list(read_metrics(path)) == [{"a": 4.0}]


def test_files_made_to_do_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines without an end, nesting without a bottom, steps that are no numbers; more than memory
    has room for.
    """
    path = tmp_path / "m.jsonl"
    lines = [
        b'{"schema_version": 1, "env": "probe"}',
        b"[" * 100_000,
        b"x" * 3_000_000,
        b"[1]",
        b'{"step": 1}',
    ]
    lines += [
        b'{"event": "resumed"}',
        b'{"step": "2"}',
        b'{"event": "resumed", "step": []}',
        b'{"step": 3}',
        b"\xff",
    ]
    path.write_bytes(b"\n".join(lines))
    assert [line["step"] for line in read_metrics(path)] == ["2", 3]
    assert read_head(path)["env"] == "probe"
    with path.open("r+b") as file:
        file.truncate(2**43)  # takes no room on the disk
    with pytest.raises(ValueError, match=f"has {2**43} bytes: reading it takes"):
        list(read_metrics(path))
    path.unlink()
    path.symlink_to(tmp_path / "other")
    for use in (lambda: list(read_metrics(path)), lambda: JsonLog(path, {})):
        with pytest.raises(OSError, match="it is a link"):
            use()
    assert not (tmp_path / "other").exists()
