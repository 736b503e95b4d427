# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/wings/ocean/source.py: which file is the env, and C code without comments."""

from __future__ import annotations

from pathlib import Path

import pytest

from puffervec.wings.ocean.source import locate, without_comments


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


BINDING, HEADER = '#include "vecenv.h"\n', '#include "pufferenv.h"\n'


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        ({"binding.c": BINDING, "z.h": HEADER}, "z.h"),
        ({"game.c": BINDING, "binding.c": BINDING}, "game.c"),
        ({"aaa.c": BINDING, "binding.c": BINDING}, "binding.c"),
        ({"aaa.h": HEADER, "game.h": HEADER}, "game.h"),
        ({"demo.c": HEADER, "game.h": HEADER}, "game.h"),
    ],
)
def test_of_several_files_the_newest_generation_then_the_folders_name_counts(
    tmp_path: Path, files: dict[str, str], chosen: str
) -> None:
    folder = tmp_path / "game"
    folder.mkdir()
    for name, code in files.items():
        (folder / name).write_text(code)
    assert locate(folder).main.name == chosen
