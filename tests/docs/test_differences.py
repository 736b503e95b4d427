# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/differences.md: its links and tests exist, other pages lead to its sections, and its commands can be given."""

from __future__ import annotations

import re

import pytest

from scripts import upstream_suites
from tests.docs import pages

FILE = pages.ROOT / "docs" / "differences.md"
PAGE = FILE.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["from-gymnasium", "from-pufferlib", "from-sb3"])
def test_each_page_leads_to_its_section(page: str) -> None:
    found = re.search(r"\]\(differences\.md#([\w-]+)\)", (pages.ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))
    sections = [title.lower().replace(" ", "-") for title in re.findall(r"^## (.+)$", PAGE, re.MULTILINE)]
    assert found is not None and found[1] in sections
    assert f"({page}.md)" in PAGE


def test_the_commands_name_suites_that_there_are() -> None:
    named = re.findall(r"^python scripts/upstream_suites\.py (\w+) FOLDER", PAGE, re.MULTILINE)
    assert set(named) == set(upstream_suites.SUITES)
