# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/comparison.md: its code runs, and its table of rules is the one in drive_env/rules.py."""

from __future__ import annotations

from pathlib import Path

from drive_env.rules import RULES
from tests.docs import pages

PAGE = (pages.ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")


def test_examples_give_what_is_shown(tmp_path: Path) -> None:
    assert pages.differing(PAGE, tmp_path) == []


def test_the_table_is_that_of_the_rules() -> None:
    lines = PAGE.split("## The rules", 1)[1].split("\n\n")[1].splitlines()
    head, _, *rows = ([cell.strip(" `") for cell in line.split("|")[1:-1]] for line in lines)
    shown = {
        rules: {row[0]: row[column] for row in rows if row[column] != "-"}
        for column, rules in enumerate(head[1:], 1)
    }
    expected = {
        name: {setting: str(value) for setting, value in settings.items()}
        for name, settings in RULES.items()
        if settings
    }
    assert shown == expected
