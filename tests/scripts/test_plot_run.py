# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""scripts/plot_run.py: the README's picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.plot_run import draw
from tests.train.test_plot import line, write

pytest.importorskip("matplotlib")


def test_a_picture_is_written(tmp_path: Path) -> None:
    folder = write(tmp_path / "r", [line(i, **{"env/score": i / 10, "env/goal": 0.5}) for i in (1, 2, 3)])
    draw(folder, tmp_path / "new" / "curve.png", held_out_score=0.3)
    assert (tmp_path / "new" / "curve.png").read_bytes()[:4] == b"\x89PNG"
