# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/from-pufferlib.md: its code runs, its names exist, and each claim points to a test that exists."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import puffervec.compat.pufferlib as pufferlib

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/from-pufferlib.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PART = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))


def names(text: str) -> list[str]:
    return re.findall(r"`([A-Za-z_]+)`", text)


def test_there_are_examples_and_parts() -> None:
    assert len(BLOCKS) == 2
    assert list(PART) == ["What is there", "What is better", "What differs"]


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_example_runs(number: int) -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKS[number]], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("module", ["vector", "emulation", "pytorch", "models", "spaces"])
def test_the_table_lists_the_names_of_a_module(module: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{module}` |"))
    listed = set(names(row.split("|")[2]))
    public = set(getattr(pufferlib, module).__all__)
    unlisted = {"STEP", "SEND", "RECV", "CLOSE", "MAIN", "NativeDType"}  # "RESET to INFO"; a type
    assert listed == public - unlisted


def test_the_table_lists_the_top_level() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith(("| top level |", "| of version 2 |"))]
    listed = {name for row in rows for name in names(row)}
    assert listed | {"vector", "emulation", "pytorch", "models", "spaces"} == set(pufferlib.__all__)


def claims() -> list[str]:
    return re.findall(r"`(tests/[^`]+)`", PART["What is better"])


def test_every_claim_is_shown_by_something() -> None:
    rows = [line for line in PART["What is better"].splitlines() if line.startswith("| ") and "shown by" not in line]
    assert len(rows) > 10
    assert all("`tests/" in row for row in rows)


@pytest.mark.parametrize("claim", claims())
def test_a_claim_names_a_test_that_exists(claim: str) -> None:
    file, _, test = claim.partition("::")
    functions = {node.name for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, ast.FunctionDef)}
    assert not test or test in functions


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)\)", PAGE))
def test_link_leads_somewhere(target: str) -> None:
    assert (ROOT / "docs" / target).exists()


def test_the_length_of_the_example_is_as_stated() -> None:
    stated = int(re.search(r"a whole PPO in (\d+) lines", PAGE).group(1))  # type: ignore[union-attr]
    assert len((ROOT / "examples/pufferlib_style.py").read_text().splitlines()) == stated


def test_what_is_not_there_is_not_there() -> None:
    for name in ("GymnaxPufferEnv", "pufferl", "sweep", "ocean", "environments"):
        assert f"`{name}`" in PART["What differs"]
        assert not hasattr(pufferlib, name)
