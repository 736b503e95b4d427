# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The browser of the tests of pages: one for a process of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.web.browser import Browser, find


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A Chromium; tests that need it are skipped where there is none."""
    path = find()
    if path is None:
        pytest.skip("no Chromium: apt-get install chromium")
    browser = Browser(path, tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()
