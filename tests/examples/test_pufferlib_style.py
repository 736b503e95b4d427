# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""examples/pufferlib_style.py: has one line that PufferLib's users do not have, is short, and learns."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "pufferlib_style.py"


def returns(*arguments: str) -> list[float]:
    """Run the script; return the mean returns that it printed, one per update with an ended episode."""
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return [float(found) for found in re.findall(r"mean return ([\d.]+)", done.stdout)]


def test_it_is_short_and_names_puffervec_once() -> None:
    lines = SCRIPT.read_text().splitlines()
    assert len(lines) < 120
    assert [line for line in lines if "puffervec" in line][1:] == [
        "import puffervec.compat.pufferlib as pufferlib  # the one changed line"
    ]  # the first is the licence's


def test_it_learns() -> None:
    """A random policy stands for about 22 steps; ten updates triple that (four seeds gave 44 to 98)."""
    found = returns("--updates", "10")
    assert found[0] < 30
    assert max(found[-3:]) > 40


def test_it_runs_in_one_process_with_other_sizes() -> None:
    assert returns("--updates", "1", "--num-envs", "4", "--horizon", "40", "--backend", "Serial")
