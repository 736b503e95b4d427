# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""examples/double_buffered.py: 25 lines, no copies, every agent counted."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "double_buffered.py"


def test_it_has_25_lines() -> None:
    lines = SCRIPT.read_text().splitlines()
    assert all("SPDX" in line for line in lines[:2])
    assert len(lines[2:]) <= 25
    assert max(map(len, lines)) <= 128


@pytest.mark.parametrize("given", [["CartPole-v1", "8", "20"], []])
def test_it_runs_and_prints_a_rate(given: list[str]) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), *given], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    found = re.fullmatch(r"([\d,]+) agent-steps/s\n", done.stdout)
    assert found is not None and int(found[1].replace(",", "")) > 0


@pytest.mark.parametrize(("env", "least"), [("cartpole", 0.8), ("tag_grid", 0.95)])
def test_nothing_is_copied_and_rows_without_a_step_do_not_count(
    env: str, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A random pole falls after about 22 steps, and a game of Tag has many; the row after an episode's end is a reset."""
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), env, "8", "150"])
    threads = torch.get_num_threads()
    try:
        left = runpy.run_path(str(SCRIPT))
    finally:
        torch.set_num_threads(threads)
    vec, views = left["vec"], left["views"]
    for half, view in zip(vec.halves, views, strict=True):
        (rows,) = half.groups.values()
        assert np.shares_memory(view.observations.numpy(), rows.observations)
        assert np.shares_memory(view.actions.numpy(), rows.actions)
    rows_seen = 2 * 150 * vec.agents_per_batch
    assert least * rows_seen < int(left["acted"]) < rows_seen
    assert vec.counters()["invalid_actions"] == 0
