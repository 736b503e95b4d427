# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/why-not-faster.md: its code runs and prints what the page shows, but for the figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import pages

FILE = pages.ROOT / "docs" / "why-not-faster.md"
# A tenth of the page's repeats: enough to run every line.
SHORTER = {
    "turns=200": "turns=20",
    "turns=100": "turns=10",
    "steps=5000": "steps=500",
    "rows=480": "rows=96",
}


@pytest.mark.slow
def test_the_code_prints_what_the_page_shows(tmp_path: Path) -> None:
    page = FILE.read_text(encoding="utf-8")
    assert all(page.count(repeats) == 1 for repeats in SHORTER if repeats != "turns=100")
    for repeats, fewer in SHORTER.items():
        page = page.replace(repeats, fewer)
    found = pages.printed(page, tmp_path)
    for (_, shown), output in zip(pages.examples(page), found, strict=True):
        if shown is not None:
            assert pages.words(output) == pages.words(shown.text)
    one, *_, many = figures(found, r"([\d.]+) ns per step")
    assert one > 10 * many
    in_order, _, first = figures(found, r"(\d+) steps/s")
    assert first > in_order


def figures(outputs: list[str], pattern: str) -> list[float]:
    """Return the numbers that the pattern finds in all that was printed."""
    return [float(number) for number in re.findall(pattern, "\n".join(outputs))]
