# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/defaults.py: which candidates are compared, and what is made of the scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import defaults
from puffervec.train import TrainConfig


def test_candidates_are_settings_of_a_run() -> None:
    for tables in defaults.CANDIDATES.values():
        TrainConfig.of("cartpole").merged(tables).check()


def test_rows_are_means_over_tasks_of_means_over_seeds() -> None:
    samples = [
        {"task": task, "candidate": candidate, "seed": seed, "score": 10 * share, "share": share, "seconds": 1.0}
        for task, candidate, seed, share in (
            ("a", "x", 1, 0.0), ("a", "x", 2, 1.0), ("b", "x", 1, 1.0), ("a", "y", 1, 1.0), ("b", "y", 1, 0.9),
        )
    ]  # fmt: skip
    rows = defaults.table(samples)
    assert [(row["candidate"], row["share"], row["worst_share"]) for row in rows] == [("y", 0.95, 0.9), ("x", 0.75, 0.5)]
    assert rows[1]["scores"] == {"a": [0.0, 10.0], "b": [10.0]}


def test_names_that_are_none_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert defaults.main(["--tasks", "chess"]) == 2
    assert "'chess' is none of CartPole-v1, cartpole" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_leaves_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tmp_path / "found.json"
    assert defaults.main(["--tasks", "parts", "--candidates", "generic", "--seeds", "1", "--json", str(found)]) == 0
    (row,) = json.loads(found.read_text())["results"]["rows"]
    assert row["candidate"] == "generic" and row["share"] > 0.8
