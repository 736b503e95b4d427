# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/from-pufferlib.md: its code runs, its names exist, and each claim points to a test that
exists.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import puffervec.compat.pufferlib as pufferlib
from tests.docs.pages import ROOT, run_script

PAGE = (ROOT / "docs/from-pufferlib.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def names(text: str) -> list[str]:
    return re.findall(r"`([A-Za-z_]+)`", text)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_example_runs(number: int, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(BLOCKS[number])
    run_script(script)


@pytest.mark.parametrize("module", ["vector", "emulation", "pytorch", "models", "spaces"])
def test_the_table_lists_the_names_of_a_module(module: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{module}` |"))
    listed = set(names(row.split("|")[2]))
    public = set(getattr(pufferlib, module).__all__)
    unlisted = {"STEP", "SEND", "RECV", "CLOSE", "MAIN", "NativeDType"}  # "RESET to INFO"; a type
    assert listed == public - unlisted


def test_the_table_lists_the_top_level() -> None:
    rows = [
        line for line in PAGE.splitlines() if line.startswith(("| top level |", "| of version 2 |"))
    ]
    listed = {name for row in rows for name in names(row)}
    assert listed | {"vector", "emulation", "pytorch", "models", "spaces"} == set(pufferlib.__all__)
