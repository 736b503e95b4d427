# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""examples/sb3_script.py runs as its head says, over Python workers and over C rows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("stable_baselines3")

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "sb3_script.py"


@pytest.mark.parametrize(("env", "rows"), [("CartPole-v1", 4), ("tag_grid", 4 * 11)])
def test_it_trains(env: str, rows: int) -> None:
    command = [sys.executable, str(SCRIPT), "--env", env, "--n-envs", "4", "--steps", "3000"]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=one_thread)
    assert (done.returncode, done.stderr) == (0, "")
    number = r"-?\d+\.\d\d"
    assert re.fullmatch(rf"{env}, {rows} rows: mean return {number} after 300 steps, {number} at the end\n", done.stdout)


def test_one_line_differs() -> None:
    """What the head promises: with SB3's own import in place of ours, the script is one for SB3."""
    imports = [line for line in SCRIPT.read_text().splitlines() if line.startswith(("import", "from")) and "puffervec" in line]
    assert imports == [
        "from puffervec.sb3 import make_vec_env  # was: from stable_baselines3.common.env_util import make_vec_env"
    ]
