# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""examples/pettingzoo_script.py runs as its head says, and chasing beats walking about."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pettingzoo")

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "pettingzoo_script.py"


def test_chasing_taggers_tag_more_and_sooner() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--episodes", "12"], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    found = re.findall(r"(\w+) taggers: runner tagged in (\d+)% of 12 episodes, ([\d.]+) steps each", done.stdout)
    assert [name for name, _, _ in found] == ["random", "chasing"]
    (_, random_share, random_steps), (_, share, steps) = found
    assert int(share) >= max(90, int(random_share)) and float(steps) < 0.5 * float(random_steps)
