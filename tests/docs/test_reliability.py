# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/reliability.md: its promises are counted, their tests exist, and numbers of cases are those
of the code.
"""

from __future__ import annotations

import re

from scripts.golden import KINDS
from tests.docs import pages
from tests.golden.cases import CASES

FILE = pages.ROOT / "docs" / "reliability.md"
PAGE = FILE.read_text(encoding="utf-8")
PROMISES = {int(row[1]): row[0] for row in re.finditer(r"^\| (\d+) \|.*$", PAGE, re.MULTILINE)}


def test_every_promise_has_a_figure_and_a_test_that_exists() -> None:
    assert list(PROMISES) == list(range(1, 20)) and "Nineteen promises" in PAGE
    for row in PROMISES.values():
        *_, figure, shown_by, _ = (cell.strip() for cell in row.split("|"))
        assert figure not in ("", "-") and "`" in shown_by, row
    assert pages.missing_links(FILE) == [] and pages.missing_tests(PAGE) == []


def test_cases_and_builds_of_the_golden_hashes_are_those_of_the_code() -> None:
    found = re.search(
        r"(\d+) cases with committed hashes, which (\d+) builds must give", PROMISES[6]
    )
    assert found is not None and int(found[1]) <= len(CASES) and int(found[2]) == len(KINDS)
