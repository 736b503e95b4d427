# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
import sys

import pytest

from puffervec.contract.evaluation import Interval, Report
from puffervec.train.metrics import tables


def test_a_report_that_is_too_wide_has_a_line_per_column(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = Report(
        [{"name": "a", "good": Interval(0.5, 0.25, 0.75)}, {"name": "b", "good": None}],
        remarks=["said once"],
    )
    tables.print_report(few, "few")
    assert capsys.readouterr().out.splitlines()[1:] == [
        "few",
        "  name               good",
        "  a     0.50 [0.25, 0.75]",
        "  b                     -",
        "  said once",
    ]
    many = Report([{"name": "a", **{f"number {i}": i for i in range(30)}}])
    tables.print_report(many, "many")
    assert "  number 29  29" in capsys.readouterr().out.splitlines()


def test_of_many_parts_the_total_and_the_lowest_scores_are_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [{"scene": f"scene {i}", "score": i / 100} for i in range(100)]
    failures = {"failures": [{"scene": f"failed {i}"} for i in range(70)]}
    report = Report(rows, {"scene": "all of them", "score": 0.5}, score="score", tables=failures)
    tables.print_report(report, "many")
    lines = capsys.readouterr().out.splitlines()
    assert (
        len(lines) < 35
        and "all of them" in lines[3]
        and "lowest score of 100: --all prints all" in lines[5]
    )
    assert [line.split()[1] for line in lines if line.startswith("  scene ") and "." in line] == [
        str(i) for i in range(10)
    ]
    assert sum("failed" in line for line in lines) == 10 and "and 60 more" in lines[-1]
    tables.print_report(report, "many", every=True)
    out = capsys.readouterr().out
    assert all(f"scene {i} " in out for i in range(100)) and out.count("failed") == 70


def test_tables_and_remarks_fit_a_terminal_of_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"scene": f"scene {i}", **{f"rate {n}": Interval(n / 9, 0.0, 1.0) for n in range(9)}}
        for i in range(12)
    ]
    report = Report(rows, remarks=["said of all scenes " * 9])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    tables.print_report(report, "wide")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("  scene 11 ") for line in lines) == 3  # of each part of the table
    assert (
        " ".join(lines).count("[0.00, 1.00]") == 12 * 9
        and sum("rate 8" in line for line in lines) == 1
    )
    alone = {"score": Interval(0.77, math.nan, math.nan)}
    tables.print_report(Report([alone]), "one scene")
    assert "0.77" in (out := capsys.readouterr().out) and "[" not in out


@pytest.mark.parametrize(("policy_width", "keys"), [(8, 2), (70, 1)])
def test_each_part_of_a_cut_table_begins_with_all_columns_that_name_its_rows(
    policy_width: int,
    keys: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But where these leave no room for anything else, with the first one."""
    rows = [
        {
            "scene": f"scene {i // 2}",
            "policy": f"p{i % 2}".ljust(policy_width, "-"),
            **{f"rate {n}": Interval(n / 9, 0.0, 1.0) for n in range(9)},
        }
        for i in range(12)
    ]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    tables.print_report(Report(rows), "wide")
    lines = capsys.readouterr().out.splitlines()
    heads = [line.split() for line in lines if line.startswith("  scene") and "rate" in line]
    assert len(heads) > 1 and all(
        head[:keys] == ["scene", "policy"][:keys] and "policy" not in head[keys:]
        for head in heads[1:]
    )
    assert sum(" p1-" in line for line in lines) == 6 * (len(heads) if keys == 2 else 1)
