# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/plan.md: its code runs and prints what the page shows, and its tables are those of the
measurements.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import plan as calls
from bench import plan_turns as turns
from bench.figures import Figures
from puffervec.commands import cli
from puffervec.wings import plan
from tests.docs import pages

FILE = pages.ROOT / "docs" / "plan.md"
PAGE = FILE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_code_prints_what_the_page_shows(tmp_path: Path) -> None:
    assert pages.differing(PAGE, tmp_path) == []
    assert (tmp_path / "plan.svg").read_text().startswith("<svg")
    assert len(pages.examples(PAGE)[0][0].text.splitlines()) <= 10


def test_modes_and_flags_are_those_of_the_code() -> None:
    assert [mode for mode in plan.MODES if f"| `{mode}` |" in PAGE] == list(plan.MODES)
    (command,) = [block.text.split() for block in pages.blocks(PAGE) if block.info == "bash"]
    own = [word for word in command if word.startswith("--") and not word.startswith("--policy.")]
    assert own and all(flag in cli.VERBS["plan"].usage for flag in own)
    assert pages.missing_links(FILE) == [] and pages.missing_tests(PAGE) == []


def test_the_tables_are_what_was_measured() -> None:
    for name, table in (("plan", calls.markdown), ("plan-turns", turns.markdown)):
        document = Figures().document(name)
        assert document is not None and table(document["results"]) in PAGE
