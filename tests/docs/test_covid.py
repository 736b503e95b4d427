# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/covid.md: its code runs and prints what it shows, and the names it uses are those of the
env.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from puffervec.envs.covid.data import COLUMNS
from puffervec.envs.covid.settings import CovidConfig
from tests.docs import pages
from tests.helpers import serial

PAGE = (pages.ROOT / "docs/covid.md").read_text(encoding="utf-8")


def test_the_code_runs_and_prints_what_the_page_shows(tmp_path: Path) -> None:
    ((_, shown),) = pages.examples(PAGE)
    assert shown is not None and pages.printed(PAGE, tmp_path) == [shown.text]


def test_names_are_those_of_the_env() -> None:
    with serial("covid") as vec:
        records, state = set(vec.spec.record_names), {f.name for f in vec.spec.state_fields}
        groups = {group.name for group in vec.spec.groups}
    settings = {f.name for f in dataclasses.fields(CovidConfig)}
    known = (
        records
        | state
        | groups
        | settings
        | set(COLUMNS)
        | {"covid", "state", "day", "lambda_days"}
    )
    used = set(re.findall(r"`([a-z]+(?:_[a-z]+)*)`", PAGE))
    assert used <= known and records <= used and set(COLUMNS) <= used
