# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import io
from typing import Any

import pytest

from puffervec.train import dashboard as db
from puffervec.train.config import TrainConfig

METRICS: dict[str, float] = {
    "step": 1234567,
    "update": 5,
    "elapsed_s": 65.0,
    "charts/agent_steps_per_s": 40000.4,
    "charts/env_steps_per_s": 20.0,
    "episode/return": 1.25,
    "env/goal": 0.5,
    "losses/policy": -0.01,
    **{f"time/{part}": 0.2 for part in db.TIME_PARTS},
}


def test_plain_line_says_what_matters() -> None:
    line = db.plain_line(METRICS, 0.25)
    for word in (
        "25%",
        "1:05",
        "1,234,567 agent-steps",
        "40,000 agent-steps/s",
        "20 env-steps/s",
        "return 1.250",
        "goal 0.500",
    ):
        assert word in line
    assert "env 20%" in line and "update 20%" in line and "\n" not in line


def test_plain_lines_are_rare_but_the_last_one_comes() -> None:
    stream = io.StringIO()
    lines = db.PlainLines(1000.0, stream)
    for progress in (0.1, 0.2, 0.3, 1.0):
        lines.show(METRICS, progress)
    lines.note("a note")
    assert [line[:4] for line in stream.getvalue().splitlines()] == [" 10%", "100%", "a no"]


def test_live_table_draws_every_metric() -> None:
    from rich.console import Console

    console = Console(width=160, file=io.StringIO(), record=True)
    console.print(db.live_table("title", METRICS, 0.5))
    text = console.export_text()
    for word in (
        "title",
        "agent-steps/s",
        "40,000",
        "forward",
        "20%",
        "policy",
        "-0.0100",
        "goal",
        "0.500",
        "left, about",
        "1:05",
    ):
        assert word in text


def test_live_table_starts_and_stops(capsys: pytest.CaptureFixture[str]) -> None:
    live = db.LiveTable("title")
    live.show(METRICS, 0.5)
    live.note("a [note]")
    live.close()
    live.close()
    assert "a [note]" in capsys.readouterr().out


def test_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(kind: str) -> Any:
        return db.make_dashboard(TrainConfig.of("probe", log={"dashboard": kind}), "title")

    assert isinstance(made("off"), db.Silent) and isinstance(made("plain"), db.PlainLines)
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert isinstance(made("auto"), db.PlainLines)  # no terminal
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    live = made("auto")
    assert isinstance(live, db.LiveTable)
    live.close()


def test_clock() -> None:
    assert [db.clock(s) for s in (0, 59.9, 60, 3600)] == ["0:00", "0:59", "1:00", "1:00:00"]
