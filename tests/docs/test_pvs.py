# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/pvs.md: its sections and numbers are those of the code. Its code runs in test_pages.py."""

from __future__ import annotations

import re

from drive_env.scenes import compile as compiler
from drive_env.scenes import controls, lanes, packed
from tests.docs import pages

PATH = pages.ROOT / "docs" / "pvs.md"
PAGE = " ".join(PATH.read_text(encoding="utf-8").split())


def test_sections_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| ((?:`\w+`,? ?)+)\|", PATH.read_text(encoding="utf-8"), re.MULTILINE)
    assert [
        name for row in rows for name in re.findall(r"`(\w+)`", row) if name in packed.ORDER
    ] == sorted(packed.ORDER, key=lambda name: PAGE.index(f"`{name}`", PAGE.index("| section |")))
    assert f"version {packed.VERSION}" in PAGE and f"head, {packed.SET.itemsize} bytes" in PAGE
    assert f"table, {packed.ENTRY.itemsize} bytes a scene" in PAGE


def test_numbers_are_those_of_the_code() -> None:
    said = {
        "within 2 cm": compiler.EDGES_M == 0.02,
        "up to 64 KiB": compiler.MAX_METADATA_BYTES == 64 << 10,
        "within 0.2 m between": "#define HEIGHT_M 0.2 "
        in (pages.ROOT / "csrc/drive/compile/simplify.c").read_text(encoding="utf-8"),
        "within 0.1 m of A's end, at most 0.5 rad off": (lanes.JOIN_M, lanes.TURN_RAD)
        == (0.1, 0.5),
        "2 m off its height": lanes.LEVEL_M == 2.0,
        "1.5 to 5.5 m to one side": lanes.BESIDE_M == (1.5, 5.5),
        "at most 8 m away": controls.SIGN_M == 8.0,
        "is 3.5 m long": controls.LINE_M == 3.5,
    }
    assert all(said.values()) and [words for words in said if words not in PAGE] == []
