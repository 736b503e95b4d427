# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/tag_learning.py in short; whether the sides learn in that time is not judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import tag_learning
from tests.fixtures.training import torch_state  # noqa: F401 (autouse)


def test_ratios_are_those_of_the_pairings() -> None:
    caught = {"trained, random": 6.0, "random, random": 2.0, "trained, trained": 3.0}
    found = {
        name: {"tags": [tags, 0.0], "survival": [40 * tags, 0.0]} for name, tags in caught.items()
    }
    assert tag_learning.ratios(found) == {"tags": 3.0, "survival": 0.5}


@pytest.mark.slow
def test_both_sides_are_trained_and_matched(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="draws a picture")
    short = [
        "--minutes",
        "0.02",
        "--episodes",
        "2",
        "--json",
        str(tmp_path / "r.json"),
        "--png",
        str(tmp_path / "r.png"),
    ]
    assert tag_learning.main(short) == 0
    (one,) = json.loads((tmp_path / "r.json").read_text())["results"]
    assert list(one["training"]) == ["tagger", "runner"] and all(
        run["agent_steps"] for run in one["training"].values()
    )
    assert [list(found) for found in one["pairings"].values()] == [list(tag_learning.PAIRINGS)] * 2
    assert (tmp_path / "r.png").stat().st_size > 1000
