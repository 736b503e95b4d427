# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/faults.py and bench/fault_table.py in short. How long it takes is judged by people, what is
told by tests/faults.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import faults
from bench.fault_table import _judge


def run(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    path = tmp_path / "out.json"
    assert faults.main([*arguments, "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    assert document["benchmark"] == f"faults-{arguments[0]}"
    return document["results"]  # type: ignore[no-any-return]


@pytest.mark.slow
def test_dead_workers(tmp_path: Path, no_leaks: None) -> None:
    found = run(tmp_path, "workers", "--kills", "4")
    assert [found[name]["count"] for name in ("all", *faults.MOMENTS)] == [4, 2, 1, 1]
    assert 0 < found["all"]["p50_ms"] <= found["all"]["max_ms"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_dead_learners(tmp_path: Path, no_leaks: None) -> None:
    found = run(tmp_path, "learner", "--kills", "6")
    assert found["all"]["count"] == 6 and 0 < found["all"]["max_ms"] < 1e3 * faults.GIVE_UP_S
    assert found["names in /dev/shm"] == 0


@pytest.mark.slow
def test_closes(tmp_path: Path, no_leaks: None) -> None:
    found = run(tmp_path, "close", "--kills", "2")
    assert {name: figures["count"] for name, figures in found.items()} == {
        "C envs": 2, "C envs, hung": 2, "Python envs": 2, "Python envs, hung": 2,
    }  # fmt: skip


MADE = [{"begins": "make"}, {"did": "make"}]
RAISED = {"did": "step", "raised": "EOFError", "text": ""}


@pytest.mark.parametrize(
    ("row", "events", "status", "left", "text", "passed"),
    [
        ("raise", [*MADE, {"begins": "step"}], None, 0, "HUNG", False),
        ("raise", [*MADE, RAISED, {"begins": "close"}], None, 0, "EOFError; HUNG in close", False),
        ("raise", [*MADE, RAISED, {"did": "close"}], 0, 0, "EOFError; close ok", True),
        (
            "raise",
            [*MADE, RAISED, {"did": "close"}],
            0,
            2,
            "EOFError; close ok; 2 processes left",
            False,
        ),
        (
            "raise",
            [*MADE, RAISED, {"did": "close"}],
            None,
            0,
            "EOFError; HUNG in exit; close ok",
            False,
        ),
        (
            "raise",
            [*MADE, {"did": "step"}, {"did": "close"}],
            0,
            0,
            "no exception; close ok",
            False,
        ),
        ("main returns", MADE, 0, 0, "exits 0", True),
        ("main returns", MADE, 1, 0, "exits 1", False),
        ("main raises", MADE, 1, 0, "exits 1", True),
        ("main killed", MADE, -9, 3, "3 processes left", False),
        (
            "none",
            [{"did": "close"}, {"did": "step after close", "raised": "E", "text": ""}],
            0,
            0,
            "close ok; then E",
            True,
        ),
    ],
)
def test_cells(
    row: str, events: list[dict[str, Any]], status: int | None, left: int, text: str, passed: bool
) -> None:
    outcome = _judge(row, events, status, left)
    assert (outcome.text, outcome.passed) == (text, passed)
