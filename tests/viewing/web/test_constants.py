# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The style and the script that pages take from Python (puffervec/viewing/web/constants.py)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib.resources import files

import pytest

from puffervec.contract import drawing
from puffervec.viewing.web import constants, page, play
from puffervec.wings.report import page as report
from puffervec.wings.watch import page as watch

PAGES = {
    "replay": (*page.REPLAY_STYLES, *page.REPLAY_SCRIPTS),
    "play": play.FILES,
    "report": (*report.STYLES, *report.SCRIPTS),
    "watch": watch.FILES,
}


def test_scripts_get_the_colours_of_python() -> None:
    found = dict(re.findall(r"^const (\w+) = (.*);$", page.source(constants.SCRIPT), re.MULTILINE))
    palette = json.loads(found["PALETTE"])
    assert palette[: len(drawing.PALETTE)] == list(drawing.PALETTE)
    assert len(set(palette)) == len(palette) == 16
    assert json.loads(found["LIGHT"])["paper"] == drawing.PAPER


def test_both_themes_have_the_same_variables() -> None:
    light, dark = re.findall(r"\{(.*?)\}", page.source(constants.STYLE), re.DOTALL)
    names = [re.findall(r"(--\w+):", rule) for rule in (light, dark)]
    assert names[0] == names[1] and "--ink" in names[0]
    assert "color-scheme: light" in light and "color-scheme: dark" in dark


@pytest.mark.parametrize("names", PAGES.values(), ids=PAGES)
def test_pages_include_them_before_what_needs_them(names: Sequence[str]) -> None:
    assert names.index(constants.SCRIPT) < names.index("static/colours.js")
    first = next(i for i, name in enumerate(names) if re.fullmatch(r"static/.*\.css", name))
    assert names.index(constants.STYLE) < first


def test_no_other_file_of_pages_names_a_colour() -> None:
    static = files("puffervec.viewing.web") / "static"
    texts = {file.name: file.read_text() for file in static.iterdir()}
    assert "colours.js" in texts
    assert [name for name, text in texts.items() if re.search(r"#[0-9a-fA-F]{6}\b", text)] == []
