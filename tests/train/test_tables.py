# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest

from puffervec.evaluation import Interval, Report
from puffervec.train.metrics import tables


def test_a_report_that_is_too_wide_has_a_line_per_column(capsys: pytest.CaptureFixture[str]) -> None:
    few = Report([{"name": "a", "good": Interval(0.5, 0.25, 0.75)}, {"name": "b", "good": None}], remarks=["said once"])
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
