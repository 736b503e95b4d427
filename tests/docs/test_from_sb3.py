# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/from-sb3.md: its code runs, the tests it names exist, and its links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("stable_baselines3")

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/from-sb3.md").read_text(encoding="utf-8")
*BLOCKS, MEASUREMENT = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def run(code: str, folder: Path) -> str:
    script = folder / "script.py"
    script.write_text(code)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_there_are_examples() -> None:
    assert len(BLOCKS) == 3


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_example_runs(number: int, tmp_path: Path) -> None:
    assert run(BLOCKS[number], tmp_path) == ""


@pytest.mark.slow
def test_the_measurement_runs(tmp_path: Path) -> None:
    shown = run(MEASUREMENT.replace("N_ENVS, SECONDS = 16, 1.0", "N_ENVS, SECONDS = 2, 0.1"), tmp_path)
    rates = {line[:28].strip(): float(line[28:].replace(",", "")) for line in shown.splitlines()}
    assert len(rates) == 5 and min(rates.values()) > 0


def test_named_tests_exist() -> None:
    source = (ROOT / "tests/test_sb3.py").read_text(encoding="utf-8")
    named = re.findall(r"::(test_\w+)", PAGE)
    assert len(named) >= 2 and all(f"def {name}(" in source for name in named)


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)\)", PAGE))
def test_link_leads_somewhere(target: str) -> None:
    assert (ROOT / "docs" / target).exists()
