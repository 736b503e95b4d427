# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The README's Python runs as it stands, and its pictures and pages exist."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_it_is_short_and_has_examples() -> None:
    assert len(BLOCKS) == 2


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_example_runs(number: int, tmp_path: Path) -> None:
    (tmp_path / "puffervec").mkdir()  # as beside a clone: it must not be taken for the package
    code = BLOCKS[number].replace("1_000_000", "20_000")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    if "Trainer(" in code:
        (log,) = tmp_path.glob("runs/*/metrics.jsonl")
        assert any("step" in line for line in map(json.loads, log.read_text().splitlines()))


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)\)", README))
def test_link_leads_somewhere(target: str) -> None:
    assert (ROOT / target).exists()
