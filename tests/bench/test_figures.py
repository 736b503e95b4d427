# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Figures of the pages: what the pages say is what was measured, on a clean tree, often enough."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.figures import Figures
from puffervec.errors import ConfigError

TABLE = """
machine = "box"
[runs]
speed = "python bench/speed.py"
[[section]]
title = "Speed"
[[section.figure]]
name = "rate"
what = "steps per second"
run = "speed"
value = "results.rate"
show = "{:2s}"
[[section.figure]]
name = "share"
what = "of the loop"
run = "speed"
value = "results.rate"
over = "results.loop"
show = "{:p}"
[[quote]]
page = "README.md"
text = "| stepping | {rate} steps/s, {share} of a loop |"
"""


def _figures(root: Path, table: str = TABLE, commit: str = "0123abcd", foreign: float = 0.0, count: int = 5) -> Figures:
    folder = root / "bench" / "results" / "box"
    folder.mkdir(parents=True, exist_ok=True)
    rate, loop = ([scale * (10 + i) for i in range(count)] for scale in (100.0, 200.0))
    document: dict[str, Any] = {
        "command": "python bench/speed.py",
        "machine": {"commit": commit, "date": "2026-01-02T03:04:05Z", "foreign_load": foreign},
        "results": {"rate": {"median": 0, "spread": 0, "samples": rate}, "loop": loop},
    }
    (folder / "2026-01-02-speed.json").write_text(json.dumps(document))
    (root / "docs").mkdir(exist_ok=True)
    page = root / "README.md"
    if not page.exists():
        page.write_text("# Speed\n\n| stepping | 7 steps/s, 8 % of a loop |\n")
    (root / "figures.toml").write_text(table)
    return Figures(root / "figures.toml", root)


def test_the_pages_show_what_was_measured() -> None:
    assert Figures().problems() == []


def test_a_page_that_differs_is_found_and_rewritten(tmp_path: Path) -> None:
    found = _figures(tmp_path)
    assert len(found.problems()) == 2, "the page of all figures, and the quote"
    assert found.write() == ["docs/figures.md", "README.md"]
    assert (tmp_path / "README.md").read_text() == "# Speed\n\n| stepping | 1.2 k steps/s, 50 % of a loop |\n"
    assert "| steps per second | 1.2 k | ±8 % | 5 | speed |" in (tmp_path / "docs" / "figures.md").read_text()
    assert found.problems() == [] and found.write() == []


@pytest.mark.parametrize("commit", ["0123abcd+", ""])
def test_a_result_of_a_changed_tree_is_a_problem(tmp_path: Path, commit: str) -> None:
    found = _figures(tmp_path, commit=commit)
    found.write()
    (problem,) = found.problems()
    assert problem.startswith("speed: measured on") and "RUNS=speed" in problem


def test_few_samples_need_a_reason(tmp_path: Path) -> None:
    found = _figures(tmp_path, count=2)
    found.write()
    assert [problem.partition(":")[0] for problem in found.problems()] == ["rate", "share"]
    allowed = TABLE.replace('run = "speed"', 'run = "speed"\nsamples = 2\nreason = "an hour each"')
    found = _figures(tmp_path, table=allowed, count=2)
    found.write()
    assert found.problems() == [] and "2 (an hour each)" in (tmp_path / "docs" / "figures.md").read_text()


def test_a_disturbed_figure_is_marked_wherever_it_is_quoted(tmp_path: Path) -> None:
    _figures(tmp_path, foreign=0.3).write()
    assert "1.2 k † steps/s, 50 % † of a loop" in (tmp_path / "README.md").read_text()
    _figures(tmp_path).write()
    assert "†" not in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("results.rate", "results.rat", "which is no number"),
        ('run = "speed"', 'run = "spee"', "no run is called 'spee'"),
        ('name = "share"', 'name = "rate"', "same name"),
        ("{share} of a loop", "{shar} of a loop", "no figure is called 'shar'"),
        ("| stepping |", "| stopping |", "should occur there once"),
        ("{share} of a loop |", "{share}", "begin and end with text"),
    ],
)
def test_a_table_that_cannot_be_meant_is_one_error(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        _figures(tmp_path, table=TABLE.replace(old, new)).write()


def test_measuring_needs_a_clean_tree_and_keeps_the_old_result_until_there_is_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _figures(tmp_path)
    monkeypatch.setattr("bench.common.commit", lambda: "0123abcd+")
    with pytest.raises(ConfigError, match="commit them first"):
        found.measure(["speed"], {})
    monkeypatch.setattr("bench.common.commit", lambda: "0123abcd")
    script = tmp_path / "bench" / "speed.py"
    script.write_text("raise SystemExit(3)")
    with pytest.raises(ConfigError, match="speed failed with status 3"):
        found.measure(["speed"], {})
    old = found.path("speed")
    assert old is not None and old.name == "2026-01-02-speed.json"
    script.write_text("import pathlib, sys; pathlib.Path(sys.argv[-1]).write_text('{}')")
    found.measure(["speed"], {})
    assert not old.exists() and found.document("speed") == {}
    with pytest.raises(ConfigError, match="no run is called 'sped'"):
        found.measure(["sped"], {})
