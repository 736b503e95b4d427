# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/wings/ocean/ini.py: texts by section and key, and what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from puffervec.errors import ConfigError
from puffervec.wings.ocean import ini


def test_comments_quotes_and_lists(tmp_path: Path) -> None:
    path = tmp_path / "x.ini"
    path.write_text(
        "# first\n[env]\nsteps = 90_000 ; many\nname = 'a # b'\n"
        "level = 11\nempty = ''\nquote = '\nlist = [1,\n 2]\n"
        "[sweep.env.x]\nmin=1\nlong = 1,\n   2\n"
    )
    assert ini.read(path) == {
        "env": {
            "steps": "90_000", "name": "a # b", "level": "11", "empty": "", "quote": "'",
            "list": "[1, 2]",
        },
        "sweep.env.x": {"min": "1", "long": "1, 2"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("True", True), ("false", False), ("-3", -3), ("1_000", 1000), ("1e-3", 1e-3), (".5", 0.5),
        ("1, 2, 4.5", (1, 2, 4.5)), ("[8, 16]", (8, 16)), ("auto", "auto"), ("a, b", "a, b"),
        ("0x1", "0x1"), ("", ""),
    ],
)  # fmt: skip
def test_values(text: str, value: Any) -> None:
    found = ini.value_of(text)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("[env]\nsteps\n", r"x\.ini:2: 'steps' must be"),
        ("steps = 1\n", r"x\.ini:1: 'steps = 1' must be"),
        ("[env]\n= 1\n", r"x\.ini:2: '= 1' must be"),
        ("[env\nsteps = 1\n", r"x\.ini:1: '\[env' must be"),
    ],
)
def test_a_line_that_is_no_setting_is_named(tmp_path: Path, lines: str, words: str) -> None:
    path = tmp_path / "x.ini"
    path.write_text(lines)
    with pytest.raises(ConfigError, match=words):
        ini.read(path)
