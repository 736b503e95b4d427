# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reports as text, JSON and CSV; what an env may bring as its evaluation."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from typing import Any

import pytest

from puffervec.contract.evaluation import (
    Evaluation,
    Interval,
    Report,
    progress_part,
    progress_to,
    report_progress,
)
from puffervec.envs.probe import ENV as PROBE
from puffervec.errors import ConfigError

REPORT = Report(
    rows=[
        {"part": "one", "n": 3, "good": Interval(0.5, 0.25, 0.75), "mean": math.nan},
        {"part": "two", "n": 0, "good": None, "mean": 1.5},
        {"part": "three", "n": 1, "good": Interval(0.1, 0.0, 0.9), "mean": 2.0},
    ],
    total={"part": "all", "n": 4, "good": Interval(0.4, 0.3, 0.5), "mean": 1.0},
    remarks=["one line"],
    score="good",
)


def test_json_is_plain() -> None:
    found = REPORT.to_json()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["rows"][0] == {
        "part": "one",
        "n": 3,
        "good": 0.5,
        "good_95": [0.25, 0.75],
        "mean": None,
    }
    assert found["rows"][1] == {"part": "two", "n": 0, "good": None, "mean": 1.5}
    assert found["total"]["good"] == 0.4 and found["remarks"] == ["one line"]


def test_csv_has_a_line_per_part_and_all_columns() -> None:
    rows = list(csv.DictReader(io.StringIO(REPORT.to_csv())))
    assert [row["part"] for row in rows] == ["one", "two", "three"]
    assert list(rows[0]) == ["part", "n", "good", "good_low", "good_high", "mean"]
    assert rows[0]["good_low"] == "0.25" and rows[1]["good"] == rows[1]["good_high"] == ""
    assert list(csv.reader(io.StringIO(Report([REPORT.rows[1], REPORT.rows[0]]).to_csv())))[
        0
    ] == list(rows[0])
    assert Report([]).to_csv() == "\n"


def test_the_worst_parts_come_first_and_parts_without_a_score_not_at_all() -> None:
    assert REPORT.worst(9) == ["three", "one"] and REPORT.worst(1) == ["three"]
    assert dataclasses.replace(REPORT, score=None).worst(9) == []


def test_some_columns_are_shown_and_the_total_has_the_rest() -> None:
    report = dataclasses.replace(REPORT, shown=("part", "good"))
    assert report.cells()[0] == ("part", "good") and report.rest() == [("n", "4"), ("mean", "1.00")]
    assert (
        REPORT.rest() == []
        and report.to_json() == REPORT.to_json()
        and report.to_csv() == REPORT.to_csv()
    )


def test_further_tables_are_in_the_files() -> None:
    report = dataclasses.replace(
        REPORT, tables={"failures": [{"part": "one", "why": "rain"}], "none": []}
    )
    assert report.to_json()["tables"] == {"failures": [{"part": "one", "why": "rain"}], "none": []}
    assert (
        report.to_csv("failures") == "part,why\none,rain\n" and report.to_csv() == REPORT.to_csv()
    )


@pytest.mark.parametrize(
    ("evaluation", "words"),
    [
        (lambda: 3, "its evaluation is 3: `evaluation` must return a puffervec.Evaluation"),
        (lambda: 1 / 0, "its evaluation cannot be loaded: ZeroDivisionError"),
        ("module:function", "give a function without arguments"),
    ],
)
def test_what_is_no_evaluation_is_refused(evaluation: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        dataclasses.replace(PROBE, evaluation=evaluation).own_evaluation()


def test_an_evaluation_is_loaded_when_it_is_asked_for() -> None:
    own = Evaluation(evaluate=lambda actor, config, **how: REPORT)
    assert dataclasses.replace(PROBE, evaluation=lambda: own).own_evaluation() is own
    assert PROBE.own_evaluation() is None


def test_progress_goes_to_who_listens_as_a_share_of_the_whole() -> None:
    found: list[tuple[str, float]] = []
    report_progress("playing", 0.5)  # Nobody listens.
    with progress_to(lambda act, share: found.append((act, share))):
        report_progress("evaluating", 1.0)
        for number in range(2):
            with progress_part(number, 2):
                report_progress("playing", 0.5)
        with progress_to(None):
            report_progress("playing", 0.9)
    report_progress("playing", 0.9)
    assert found == [("evaluating", 1.0), ("playing", 0.25), ("playing", 0.75)]
