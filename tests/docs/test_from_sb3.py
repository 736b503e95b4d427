# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/from-sb3.md: its code runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import pages
from tests.helpers import thinned

pytest.importorskip("stable_baselines3")

PAGE = (pages.ROOT / "docs/from-sb3.md").read_text(encoding="utf-8")
*BLOCKS, MEASUREMENT = [block.text for block, _ in pages.examples(PAGE)]


def run(code: str, folder: Path) -> str:
    script = folder / "script.py"
    script.write_text(code)
    return pages.run_script(script)


@pytest.mark.slow
@pytest.mark.parametrize("number", thinned(2, range(3)))
def test_example_runs(number: int, tmp_path: Path) -> None:
    assert run(BLOCKS[number], tmp_path) == ""


@pytest.mark.slow
def test_the_measurement_runs(tmp_path: Path) -> None:
    shown = run(
        MEASUREMENT.replace("N_ENVS, SECONDS = 16, 1.0", "N_ENVS, SECONDS = 2, 0.1"), tmp_path
    )
    rates = {line[:28].strip(): float(line[28:].replace(",", "")) for line in shown.splitlines()}
    assert len(rates) == 5 and min(rates.values()) > 0
