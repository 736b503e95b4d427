# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""tests/viewing/web/browser.py: what tests of pages rely on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.viewing.web.browser import Browser

PAGE = """<!doctype html><title>a page</title><meta name="viewport" content="width=device-width">
<button onclick="this.textContent = 'clicked'">click</button><p></p>
<style>p { color: red } @media (prefers-color-scheme: dark) { p { color: white } }</style>
<script>
addEventListener("keydown", event => document.querySelector("p").textContent += event.key);
addEventListener("touchstart", () => document.querySelector("p").textContent += "touched");
</script>"""


def test_it_opens_clicks_presses_touches_and_reads(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(PAGE)
    url = (tmp_path / "page.html").as_uri()
    page = browser.open(url, width=360, height=500, dark=True, touch=True)
    page.click("button")
    assert page.text("button") == "clicked"
    page.press("a")
    page.press("ArrowLeft")
    page.tap("p")
    assert page.text("p") == "aArrowLefttouched"
    assert page.eval("getComputedStyle(document.querySelector('p')).color") == "rgb(255, 255, 255)"
    assert page.eval("innerWidth") == 360
    assert page.picture(tmp_path / "page.png").startswith(b"\x89PNG")
    assert (page.requests, page.errors) == ([url], [])


@pytest.mark.slow
def test_it_tells_of_requests_and_errors(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<img src="other.png"><script>throw new Error("mine")</script>'
    )
    page = browser.open((tmp_path / "page.html").as_uri())
    assert page.requests[1:] == [(tmp_path / "other.png").as_uri()]
    assert any("mine" in error for error in page.errors)
