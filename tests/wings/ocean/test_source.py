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


THREE = '#include "env_binding.h"\n'
BINDING, HEADER = '#include "vecenv.h"\n', '#include "pufferenv.h"\n'


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        ({"binding.c": BINDING, "z.h": HEADER}, "z.h"),
        ({"game.c": BINDING, "binding.c": BINDING}, "game.c"),
        ({"aaa.c": BINDING, "binding.c": BINDING}, "binding.c"),
        ({"aaa.h": HEADER, "game.h": HEADER}, "game.h"),
        ({"demo.c": HEADER, "game.h": HEADER}, "game.h"),
        ({"game.c": HEADER, "other.h": HEADER}, "other.h"),
        ({"game.txt": BINDING, "binding.c": BINDING}, "binding.c"),
        ({"a_types.h": HEADER, "game.h": '#include "a_types.h"\n'}, "game.h"),
        ({"a_types.h": HEADER, "other.h": '#include "a_types.h"\n'}, "other.h"),
        ({"binding.c": BINDING, "game.h": '#include "parts.h"\n', "parts.h": ""}, "binding.c"),
    ],
)
def test_of_several_files_the_newest_generation_then_the_folders_name_counts(
    tmp_path: Path, files: dict[str, str], chosen: str
) -> None:
    folder = tmp_path / "game"
    folder.mkdir()
    for name, code in files.items():
        (folder / name).write_text(code)
    found = locate(folder)
    assert found.main.name == chosen
    assert found.name == (Path(chosen).stem if chosen.endswith(".h") else "game")


def test_a_header_leads_to_its_env_where_another_header_includes_that_of_the_generation(
    tmp_path: Path,
) -> None:
    """Files that are included appear in their place, each once."""
    types = "int above;\n" + HEADER + "int below;\n"
    code = '#include "types.h"\n// #include "types.h"\n#include "types.h"\nint last;\n'
    (tmp_path / "types.h").write_text(types)
    (tmp_path / "env.h").write_text(code)
    found = locate(tmp_path / "env.h")
    assert (found.generation, found.main.name) == (5, "env.h")
    assert found.files == (tmp_path / "env.h", tmp_path / "types.h")
    assert found.expanded.split("\n") == [
        *types.split("\n"),
        " ",
        '#include "types.h"',
        "int last;",
        "",
    ]


def test_a_class_is_looked_for_first_in_the_module_of_the_folders_name(tmp_path: Path) -> None:
    folder = tmp_path / "game"
    folder.mkdir()
    (folder / "binding.c").write_text(THREE)
    assert locate(folder).python_class is None
    for name in ("another.py", "zoo.py", "game.py"):
        (folder / name).write_text("binding.vec_init()")
    (folder / "empty.py").touch()
    assert locate(folder).python_class == folder / "game.py"


def test_settings_lie_next_to_the_env_or_at_most_five_folders_above(tmp_path: Path) -> None:
    """Over those of the default.ini that belongs to them."""
    folder = tmp_path / "1" / "2" / "3" / "4" / "5" / "game"
    folder.mkdir(parents=True)
    (folder / "game.h").write_text(HEADER)

    def write(path: Path, level: int) -> None:
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"[env]\nlevel = {level}\n")

    write(tmp_path / "config" / "game.ini", 0)
    assert locate(folder).settings == {}
    write(tmp_path / "1" / "config" / "game.ini", 1)
    assert locate(folder).settings == {"env": {"level": "1"}}
    (tmp_path / "1" / "config" / "default.ini").write_text("[env]\nlevel = 7\nsize = 3\n")
    assert locate(folder).settings == {"env": {"level": "1", "size": "3"}}
    write(folder / "own.ini", 2)
    assert locate(folder).settings == {"env": {"level": "2"}}
    write(folder / "other.ini", 3)  # One of two is not chosen.
    assert locate(folder).settings["env"]["level"] == "1"
    write(folder / "game.ini", 4)
    assert locate(folder).settings == {"env": {"level": "4"}}
