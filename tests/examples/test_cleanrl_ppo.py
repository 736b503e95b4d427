# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""examples/cleanrl_ppo.py: learns, repeats itself, and does with Gymnasium's own vector env what it does with ours."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "cleanrl_ppo.py"
CHANGED = "envs = puffervec.make_vec("


def returns(*arguments: str, script: Path = SCRIPT) -> list[float]:
    """Run the script; return the mean return that it printed after each update."""
    command = [sys.executable, str(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return [float(found) for found in re.findall(r"mean return (-?[\d.]+|nan)", done.stdout)]


@pytest.mark.slow
def test_it_learns_and_repeats_itself() -> None:
    """A random policy stands for about 22 steps; twelve updates triple that."""
    first = returns("--total-steps", "12288")
    assert len(first) == 12
    assert first[0] < 30
    assert max(first[-3:]) > 60
    assert returns("--total-steps", "12288") == first


@pytest.mark.slow
def test_with_gymnasiums_own_vector_env_it_does_the_same(tmp_path: Path) -> None:
    """One line changes, so that is the one to change back; the import is then of no use."""
    text = SCRIPT.read_text()
    assert text.count(CHANGED) == text.count("puffervec.") == 1
    own = tmp_path / "own.py"
    own.write_text(text.replace(CHANGED, CHANGED.replace("puffervec", "gymnasium")).replace("import puffervec\n", ""))
    sizes = ("--total-steps", "1536", "--num-envs", "4", "--horizon", "128", "--seed", "2")
    assert returns(*sizes, script=own) == returns(*sizes)


def test_truncated_episodes() -> None:
    """The first episodes of MountainCar end by time alone, at 200 steps."""
    assert returns("--env-id", "MountainCar-v0", "--num-envs", "2", "--horizon", "210", "--total-steps", "420") == [-200.0]


def test_it_runs_over_a_c_env() -> None:
    found = returns("--env-id", "puffervec/CartPole-v1", "--total-steps", "2048")
    assert len(found) == 2 and found[0] < 30
