# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/wings/ocean/source.py: C code without comments."""

from __future__ import annotations

import pytest

from puffervec.wings.ocean.source import without_comments


@pytest.mark.parametrize(
    ("code", "bare"),
    [
        ("int/**/x;", "int x;"),
        ("a /* one\ntwo */ b // three\nc", "a \n b  \nc"),
        ('char* text = "/* no */ // comment"; // one', 'char* text = "/* no */ // comment";  '),
        ("char quote = '\"'; /* \" */ int x;", "char quote = '\"';   int x;"),
    ],
)
def test_comments_go_and_words_and_lines_stay_apart(code: str, bare: str) -> None:
    assert without_comments(code) == bare
