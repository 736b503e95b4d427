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
SHORTER = {"turns=200": "turns=20", "turns=100": "turns=10", "steps=5000": "steps=500", "rows=480": "rows=96"}


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


def test_the_text_says_what_the_figures_say() -> None:
    shown = [block.text for _, block in pages.examples(FILE.read_text(encoding="utf-8")) if block is not None]
    (trip, _), few_c, many_c, _, python = (
        (float(turn), float(work)) for turn, work in re.findall(r"turn +([\d.]+) us, worker +([\d.]+) us", "\n".join(shown))
    )
    assert trip < 10
    assert few_c[1] < 0.1 * few_c[0] and many_c[1] > 0.5 * many_c[0] and python[1] > 0.9 * python[0]
    per_step = figures(shown, r"([\d.]+) ns per step")
    assert per_step == sorted(per_step, reverse=True)
    one, two, four, eight = figures(shown, r"workers \d: +(\d+) us")
    assert two < 0.8 * one and two < eight and four < one
    quiet, crowded = figures(shown, r"torch threads \d: +(\d+) us")
    assert crowded > 3 * quiet
    nothing, number, ten, array = figures(shown, r"(?:nothing|number|numbers|array) *: +(\d+) us")
    assert nothing < number < array and 0.5 * array < ten < 2 * array
    views, copies = figures(shown, r"(\d+) us per turn of 64 frames")
    assert views < copies
    (next_step, some), (same_step, every) = re.findall(r"_step: +([\d.]+) us per turn, +([\d.]+) %", "\n".join(shown))
    assert every == "100.0" and float(next_step) / float(some) < float(same_step) / 100.0
    one, by_workers, by_envs = figures(shown, r"([\d.]+) ms")
    assert max(by_workers, by_envs) < one
    in_order, part, first = figures(shown, r"(\d+) steps/s")
    assert in_order < part < first
