# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import io
import re
from typing import Any

import pytest

from puffervec.train.config.sections import TrainConfig
from puffervec.train.metrics import dashboard as db

METRICS: dict[str, float] = {
    "step": 1234567,
    "update": 5,
    "elapsed_s": 65.0,
    "span_s": 2.0,
    "charts/seconds_left": 125.0,
    "charts/overlap": 1.25,
    "charts/agent_steps_per_s": 40000.4,
    "charts/env_steps_per_s": 20.0,
    "episode/return": 1.25,
    "env/goal": 0.5,
    "losses/policy": -0.01,
    "usage/learner_cores": 1.5,
    "usage/learner_memory_mib": 1000.0,
    "usage/worker_cores": 0.25,
    "usage/worker_memory_mib": 500.0,
    **{f"time/{part}": 1 / 6 for part in db.TIME_PARTS},
}
GPU = {"usage/gpu_share": 0.75, "usage/gpu_memory_mib": 2048.0, "usage/gpu_memory_share": 0.5}


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
        "left 2:05",
        "1.8 cores 1,500 MiB",
        "log 16%",
    ):
        assert word in line
    assert "\n" not in line and "GPU" not in line
    assert "GPU 2,048 MiB" in db.plain_line(METRICS | GPU, 0.25)


def test_plain_lines_are_rare_but_the_last_one_comes() -> None:
    stream = io.StringIO()
    now = [0.0]
    lines = db.PlainLines(5.0, stream, lambda: now[0])
    for progress in (0.1, 0.2, 0.3, 0.4, 0.5, 1.0):
        lines.show(METRICS, progress)
        now[0] += 2.0
    lines.note("a note")
    assert [line[:4] for line in stream.getvalue().splitlines()] == [" 10%", " 40%", "100%", "a no"]


def test_rates_and_shares_are_means_over_the_last_seconds() -> None:
    recent = db.Recent(5.0)
    for span, rate, step in ((3.0, 1000.0, 1), (2.0, 30.0, 2), (4.0, 60.0, 3)):
        recent.add(
            {
                "span_s": span,
                "charts/agent_steps_per_s": rate,
                "time/env": rate / 1000,
                "step": step,
            }
        )
    means = recent.means()
    assert means["charts/agent_steps_per_s"] == 50.0 and means["step"] == 3
    assert means["time/env"] == pytest.approx(0.05)
    recent.add({"span_s": 100.0, "charts/agent_steps_per_s": 1.0, "step": 4})
    assert recent.means() == {"span_s": 100.0, "charts/agent_steps_per_s": 1.0, "step": 4}
    only_last = db.Recent(0.0)
    for span in (0.1, 0.2, 1e-9):
        only_last.add({"span_s": span})
        assert only_last.means() == {"span_s": span}


@pytest.mark.parametrize(
    "shares", [[1 / 6] * 6, [0.005] * 100 + [0.5], [1.004, -0.004], [0.999, 0.0005, 0.0005], [1.0]]
)
def test_percents_add_up(shares: list[float]) -> None:
    whole = db.whole_percents(shares)
    assert sum(whole) == 100 and all(
        abs(value - 100 * share) < 1 for value, share in zip(whole, shares, strict=True)
    )


MANY = {f"losses/l{i}": 0.5 for i in range(8)} | {f"env/e{i}": 1e-5 for i in range(30)}


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (200, 20), (40, 60), (30, 10)])
def test_the_table_fits_the_terminal(width: int, height: int) -> None:
    """With room for more than the least; what is left out is counted."""
    from rich.console import Console

    about = (
        "tag_grid: 2048 envs, 22528 rows, multiprocessing with 4 workers and 2 buffers, cpu bf16 "
        "with 2 threads"
    )
    for metrics in (METRICS, METRICS | GPU | MANY):
        console = Console(width=width, height=height, file=io.StringIO(), record=True)
        console.print(db.live_table(about, metrics, 0.5, width, height))
        lines = console.export_text().splitlines()
        assert max(len(line) for line in lines) == width
        if height > 10:
            assert len(lines) <= height
    assert ("more" in "".join(lines)) == (height < 60)
    if width >= 80:
        assert "…" not in "".join(lines)


@pytest.mark.parametrize(("width", "height"), [(40, 12), (80, 12), (80, 24), (30, 10)])
def test_score_and_return_are_shown_on_any_terminal(width: int, height: int) -> None:
    """Above all else, whole, in no more lines than there are; with the time that is left."""
    from rich.console import Console

    metrics = (
        METRICS | {f"env/a{i}": 0.5 for i in range(9)} | {"env/score": 0.875, "step": 123_456_789.0}
    )
    console = Console(width=width, height=height, file=io.StringIO(), record=True)
    title = "a title: that is rather long, so that it takes more than a line"
    console.print(db.live_table(title, metrics, 0.5, width, height, "env/score"))
    text = console.export_text()
    assert (
        len(text.splitlines()) < height + (height > 20) and "2:05 left" in text and "…" not in text
    )
    for row in (r"score +0\.8750", r"return +1\.250", r"agent-steps/s +40,000"):
        assert re.search(row, text), text
    assert text.index("score") < text.index("return") < text.index("goal")


def test_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(kind: str) -> Any:
        return db.make_dashboard(TrainConfig.of("probe", log={"dashboard": kind}), "title")

    assert type(made("off")) is db.Dashboard and isinstance(made("plain"), db.PlainLines)
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert isinstance(made("auto"), db.PlainLines)  # no terminal
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    live = made("auto")
    assert isinstance(live, db.LiveTable)
    live.close()
