# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Figures of the pages: what the pages say is what was measured, on a clean tree, often enough."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench import common
from bench.figures import MOST_COMMITS, Figures
from puffervec.errors import ConfigError

TABLE = """
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


def _figures(
    root: Path,
    table: str = TABLE,
    commit: str = "0123abcd",
    foreign: float | None = 0.0,
    count: int = 5,
    schema: int = 2,
) -> Figures:
    folder = root / "bench" / "results" / "box"
    folder.mkdir(parents=True, exist_ok=True)
    rate, loop = ([scale * (10 + i) for i in range(count)] for scale in (100.0, 200.0))
    document: dict[str, Any] = {
        "schema_version": schema,
        "command": "python bench/speed.py --json FILE",
        "settings": {"json": "FILE", "repeats": 9},
        "machine": {
            "commit": commit, "date": "2026-01-02T03:04:05Z", "foreign_load": foreign,
            "cpu": "Abacus", "usable_cores": 2, "load": [1.25, 1.0, 1.0], "system": "Linux 6.1",
            "versions": {"puffervec": "0.1.0", "envpool": "1.2", "sb3": ""},
        },
        "results": {
            "rate": {"median": 0, "spread": 0, "samples": rate, "ends": [990.0, 1410.0]},
            "loop": loop, "cases": [{"env": "tag", "us": 3.0}, {"env": "drive", "us": 5.0}],
        },
    }  # fmt: skip
    (folder / "2026-01-02-speed.json").write_text(json.dumps(document))
    (root / "docs").mkdir(exist_ok=True)
    page = root / "README.md"
    if not page.exists():
        page.write_text("# [Speed](docs/figures.md)\n\n| stepping | 7 steps/s, 8 % of a loop |\n")
    (root / "figures.toml").write_text(table)
    return Figures(root / "figures.toml", root)


def test_the_pages_show_what_was_measured() -> None:
    assert Figures().problems() == []


def test_a_page_that_differs_is_found_and_rewritten(tmp_path: Path) -> None:
    found = _figures(tmp_path)
    assert len(found.problems()) == 2, "the page of all figures, and the quote"
    assert found.write() == ["docs/figures.md", "README.md"]
    line = "| stepping | 1.2 k steps/s, 50 % of a loop |"
    assert (tmp_path / "README.md").read_text() == f"# [Speed](docs/figures.md)\n\n{line}\n"
    page = (tmp_path / "docs" / "figures.md").read_text()
    assert "| steps per second | 1.2 k | - | ±8 % | 5 | speed |" in page
    assert (
        "| speed | `python bench/speed.py --json FILE` | Abacus, 2 cores | envpool 1.2 | 0 %; 1.2 "
        "| 0123abcd | 2026-01-02 |" in page
    )
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
    assert (
        found.problems() == []
        and "2 (an hour each)" in (tmp_path / "docs" / "figures.md").read_text()
    )


@pytest.mark.parametrize(("foreign", "schema"), [(0.3, 2), (None, 2), (0.01, 1)])
def test_a_disturbed_figure_and_one_of_unknown_load_are_marked_wherever_they_are_quoted(
    tmp_path: Path, foreign: float | None, schema: int
) -> None:
    _figures(tmp_path, foreign=foreign, schema=schema).write()
    assert "1.2 k † steps/s, 50 % † of a loop" in (tmp_path / "README.md").read_text()
    _figures(tmp_path).write()
    assert "†" not in (tmp_path / "README.md").read_text()
    counted = TABLE.replace('run = "speed"', 'run = "speed"\ncounted = true')
    _figures(tmp_path, counted, foreign=foreign, schema=schema).write()
    assert "†" not in (tmp_path / "README.md").read_text(), "no load changes a count"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("results.rate", "results.rat", "which is no number"),
        ('run = "speed"', 'run = "spee"', "no run is called 'spee'"),
        ('name = "share"', 'name = "rate"', "same name"),
        ("{share} of a loop", "{shar} of a loop", "no figure is called 'shar'"),
        ("| stepping |", "| stopping |", "should occur there once"),
        ("{share} of a loop |", "{share}", "begin and end with text"),
        (
            'value = "results.rate"',
            'value = "results.rate"\ninterval = "results.loop"',
            "which are no two numbers",
        ),
        ('name = "rate"', 'name = "rate"\neach = "results.no"', "finds nothing in speed"),
    ],
)
def test_a_table_that_cannot_be_meant_is_one_error(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        _figures(tmp_path, table=TABLE.replace(old, new)).write()


@pytest.mark.slow
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
    script.write_text(
        "import pathlib, sys; p = pathlib.Path(sys.argv[-1]); p.parent.mkdir(exist_ok=True); "
        "p.write_text('{}')"
    )
    found.measure(["speed"], {})
    assert not old.exists() and found.document("speed") == {}
    with pytest.raises(ConfigError, match="no run is called 'sped'"):
        found.measure(["sped"], {})


def test_an_interval_stands_beside_its_figure_and_can_be_quoted(tmp_path: Path) -> None:
    table = TABLE.replace(
        'run = "speed"', 'run = "speed"\ninterval = "results.rate.ends"', 1
    ).replace("{rate}", "{rate} {rate_95}")
    found = _figures(tmp_path, table)
    (tmp_path / "README.md").write_text("| stepping | 7 [6, 8] steps/s, 8 % of a loop |\n")
    found.write()
    assert (
        tmp_path / "README.md"
    ).read_text() == "| stepping | 1.2 k [990, 1.4 k] steps/s, 50 % of a loop |\n"
    assert "| 1.2 k | [990, 1.4 k] | ±8 % |" in (tmp_path / "docs" / "figures.md").read_text()


def test_items_of_a_list_are_figures_each(tmp_path: Path) -> None:
    each = """
name = "{env}_us"
what = "a step of {env}"
run = "speed"
each = "results.cases"
value = "us"
samples = 1
reason = "one"
"""
    found = _figures(tmp_path, TABLE.replace("[[quote]]", f"[[section.figure]]{each}[[quote]]"))
    found.write()
    page = (tmp_path / "docs" / "figures.md").read_text()
    assert "| a step of tag | 3.0 | - | - | 1 (one) | speed |\n| a step of drive | 5.0 |" in page
    assert found.text("drive_us") == "5.0" and found.problems() == []
    counted = (
        each.replace("{env}", "{key}")
        .replace("results.cases", "settings")
        .replace('"us"', '"value"')
    )
    keyed = _figures(tmp_path, TABLE.replace("[[quote]]", f"[[section.figure]]{counted}[[quote]]"))
    assert (
        keyed.entries["repeats_us"].what == "a step of repeats"
        and keyed.text("repeats_us") == "9.0"
    )


def test_the_newest_result_counts_whatever_machine_it_is_of(tmp_path: Path) -> None:
    found = _figures(tmp_path)
    other = tmp_path / "bench" / "results" / "a-newer-box"
    other.mkdir()
    (other / "2026-01-03-speed.json").write_text("{}")
    assert found.path("speed") == other / "2026-01-03-speed.json"


# ---- where a result comes from -------------------------------------------------------------------


def test_every_result_leads_back_to_its_command_and_commit() -> None:
    assert Figures().untraceable() == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "its commit 0123abcd is no ancestor"),
        ({"machine": None, "command": None}, "it has no command"),
        (
            {"machine": None, "command": "python bench/speed.py --json a.json"},
            "it was edited after the run",
        ),
        (
            {"machine": {"system": "Linux 6.1-fc-7", "commit": "{head}"}},
            "write the kernel's version alone",
        ),
        (
            {"settings": {"json": "FILE", "scenes": "../data/a.json"}, "machine": None},
            "a path of a machine, '../data/a.json'",
        ),
        ({"doubt": "rebased"}, ""),
        ({"machine": None}, ""),
    ],
)
def test_a_result_that_leads_nowhere_is_found(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    found = _figures(tmp_path)
    head = _commits(tmp_path, 1)
    path = tmp_path / "bench" / "results" / "box" / "2026-01-02-speed.json"
    document = json.loads(path.read_text()) | changes
    if "machine" in changes:
        document["machine"] = {"system": "Linux 6.1", **(changes["machine"] or {}), "commit": head}
    path.write_text(json.dumps(document))
    problems = found.untraceable()
    assert [words in problem for problem in problems] == ([True] if words else []), problems


def _commits(root: Path, count: int) -> str:
    """Make a repository of a folder with some commits and return the first of them."""
    named = {"AUTHOR": "a", "COMMITTER": "a"}
    environment = {
        f"GIT_{who}_{what}": name for who, name in named.items() for what in ("NAME", "EMAIL")
    }

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(root), *words],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    git("init", "-q")
    for number in range(count):
        git("commit", "-q", "--allow-empty", "-m", str(number))
    return git("rev-list", "--max-parents=0", "HEAD")


def test_a_page_may_not_have_figures_of_old_commits(tmp_path: Path) -> None:
    found = _figures(tmp_path, commit="0123abcd")
    with pytest.raises(ConfigError, match="no complete git history"):
        found.old("README.md", 2)
    first = _commits(tmp_path, 4)
    assert (
        "is not an ancestor of this commit: make figures RUNS=speed" in found.old("README.md", 2)[0]
    )
    found = _figures(tmp_path, commit=first[:12])
    assert found.old("README.md", 3) == [] and found.old("docs/other.md", 0) == []
    (problem,) = found.old("README.md", 2)
    assert (
        problem
        == "README.md: speed was measured 3 commits ago, at most 2 are allowed: make figures "
        "RUNS=speed"
    )


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.skipif(not common.has_history(), reason="needs the whole git history")
def test_no_figure_of_readme_is_of_an_old_commit() -> None:
    """Slow, since whoever commits cannot always measure: it must hold before a release."""
    assert Figures().old("README.md", MOST_COMMITS) == []


TABLES = """
untimed = ["faults-table"]
[runs]
speed = "python bench/speed.py"
sharded = "python bench/sharded.py"
faults-table = "python bench/faults.py table"
[tables]
sharded = "docs/page.md"
faults-table = "docs/page.md"
"""
CELL = {"text": "close ok", "skipped": "", "passed": True}
STEP = {"median": 100.0, "spread": 0.1, "samples": [90.0, 100.0, 110.0]}
RANKS = {"variant": "weak", "ranks": 2, "width": 64, "peak_mib": 8.0, "of_one_rank": 1.5}
MEASURED = {
    "sharded": {"measured": [{**RANKS, "step_ms": STEP, "times_one_rank": STEP}]},
    "faults-table": {"puffervec": {"none": CELL}},
}


def test_a_page_shows_all_results_of_a_run_and_where_they_come_from(tmp_path: Path) -> None:
    _figures(tmp_path)
    folder = tmp_path / "bench" / "results" / "box"
    facts = json.loads((folder / "2026-01-02-speed.json").read_text())
    for run, results in MEASURED.items():
        document = {**facts, "schema_version": 1, "results": results}
        (folder / f"2026-01-02-{run}.json").write_text(json.dumps(document))
    rest = TABLE.replace('[runs]\nspeed = "python bench/speed.py"\n', "")
    (tmp_path / "figures.toml").write_text(TABLES + rest)
    page = tmp_path / "docs" / "page.md"
    places = (
        "<!-- table sharded -->\n<!-- end -->\n\n<!-- table faults-table -->\nold\n<!-- end -->"
    )
    page.write_text(f"above\n\n{places}\nbelow\n")
    found = Figures(tmp_path / "figures.toml", tmp_path)
    stale = "docs/page.md does not show the table of"
    assert sum(stale in problem for problem in found.problems()) == 2
    found.write()
    lines = page.read_text().splitlines()
    origin = "Abacus, 2 cores; commit 0123abcd; 2026-01-02"
    unknown = "; the load of other programs is not known †"
    assert "| weak | 2 | 64 | 100 ±10% | 100 ±10% | 8.0 | 1.50 |" in lines
    assert f"*[sharded](figures.md#runs): {origin}{unknown}.*" in lines
    assert f"*[faults-table](figures.md#runs): {origin}.*" in lines, "no load changes what it found"
    assert (lines[0], lines[-1]) == ("above", "below") and "old" not in lines
    assert found.problems() == []
    assert "| sharded | `" in (tmp_path / "docs" / "figures.md").read_text()
    page.write_text("above\n")
    words = "docs/page.md: give the table of sharded one place, <!-- table sharded --> to"
    with pytest.raises(ConfigError, match=words):
        found.write()


def test_a_page_with_figures_leads_to_how_they_were_measured(tmp_path: Path) -> None:
    table = TABLE.replace("README.md", "docs/page.md")
    _figures(tmp_path, table)
    page = tmp_path / "docs" / "page.md"
    page.write_text("| stepping | 7 steps/s, 8 % of a loop |\n")
    found = _figures(tmp_path, table)
    found.write()
    (problem,) = found.problems()
    assert problem.startswith("docs/page.md has figures and no link to figures.md")
    page.write_text(page.read_text() + "[All](figures.md).\n")
    assert found.problems() == []


def test_a_quote_that_would_grow_each_time_is_a_problem(tmp_path: Path) -> None:
    """It begins or ends with text that its own figures contain."""
    table = TABLE.replace("{share} of a loop |", "{rate}.")
    (tmp_path / "README.md").write_text("[All](docs/figures.md)\n| stepping | 7 steps/s, 1.2 k.\n")
    found = _figures(tmp_path, table)
    found.write()
    assert any("README.md does not say" in problem for problem in found.problems())
