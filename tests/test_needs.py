# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""tests/needs.py: tests whose programs are missing are skipped, and one line at the end says how
many and what to install.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs

ROOT = Path(__file__).resolve().parent.parent
CONFTEST = """
from tests import needs

def pytest_configure(config):
    for marker in ("needs(*names): a", "slow: b"):
        config.addinivalue_line("markers", marker)
    needs.PROGRAMS["Chromium"] = needs.Program(lambda: False, "apt-get install chromium")
    needs.PROGRAMS["ALE"] = needs.Program(lambda: False, "pip install ale-py")
    needs.PROGRAMS["zsh"] = needs.Program(lambda: True, "")
    config.pluginmanager.register(needs.Absent(config))
"""
TESTS = """
import pytest

@pytest.fixture
def browser():
    raise AssertionError("it is not there")

def test_page(browser): pass
@pytest.mark.needs("Chromium")
def test_film(): raise AssertionError
@pytest.mark.slow
@pytest.mark.needs("ALE")
def test_game(): raise AssertionError
@pytest.mark.needs("zsh")
def test_shell(): pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["0", "1"])
def test_one_line_says_what_is_missing(processes: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-n", processes, "-m", "not slow", "."]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    last = done.stdout.splitlines()[-1]
    assert done.returncode == 0 and "1 passed, 2 skipped" in done.stdout and "not installed" in last
    assert last.endswith(": ALE (1: pip install ale-py), Chromium (2: apt-get install chromium)")


def test_every_program_is_one_that_a_test_needs() -> None:
    used = set(needs.FIXTURES.values())
    for path in (ROOT / "tests").rglob("test_*.py"):
        if path != Path(__file__):
            used.update(re.findall(r"mark\.needs\(\"(\w+)\"\)", path.read_text()))
    assert used == set(needs.PROGRAMS)
