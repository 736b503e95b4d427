# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/state.md: its code runs and prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import pages

FILE = pages.ROOT / "docs" / "state.md"
PAGE = FILE.read_text(encoding="utf-8")


def test_the_code_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path / "cache"))
    assert pages.differing(PAGE, tmp_path) == []


def test_links() -> None:
    assert pages.missing_links(FILE) == []
