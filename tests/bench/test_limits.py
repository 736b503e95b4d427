# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/limits.py in short. What it measures is judged by people, not here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import limits
from bench.limits import Crowd, Sample
from puffervec.cores import affinity


def test_all_lines_are_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], no_leaks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, before = tmp_path / "out.json", affinity()
    monkeypatch.setattr(limits, "ENVS", {"tag_grid": 8})
    monkeypatch.setattr(limits, "crowds", lambda envs: [Crowd(env, 1, workers) for env in envs for workers in (2, 4)])
    assert limits.main(["--envs", "tag_grid", "--seconds", "0.01", "--repeats", "1", "--json", str(path)]) == 0
    rows = json.loads(path.read_text())["results"]
    assert [(row["workers"], row["target"]) for row in rows] == [(2, None), (4, 0.85)]
    for row in rows:
        assert row["rows_per_s"]["median"] > 0 and row["idle_percent"]["median"] >= 0
        assert row["workers"] != 2 or row["share"]["median"] == 1.0
    assert "4 on 1" in capsys.readouterr().out
    assert affinity() == before


def test_up_to_eight_workers_are_measured() -> None:
    found = limits.crowds(["drive"])
    assert [(crowd.workers, crowd.target) for crowd in found if crowd.cores == 1] == [
        (1, None),
        (2, None),
        (4, 0.85),
        (8, 0.85),
    ]
    assert [(crowd.workers, crowd.target) for crowd in found if crowd.cores == 2] in ([], [(2, None), (4, 0.85), (8, 0.85)])


def test_shares_are_of_two_workers_on_the_same_cores() -> None:
    samples = {
        Crowd("drive", 1, 2): [Sample(100.0, 0.1), Sample(200.0, 0.1)],
        Crowd("drive", 1, 4): [Sample(90.0, 0.1), Sample(180.0, 0.1)],
        Crowd("drive", 1, 8): [Sample(80.0, 0.1), Sample(160.0, 0.1)],
        Crowd("drive", 2, 2): [Sample(1000.0, 0.1)] * 2,
        Crowd("drive", 2, 8): [Sample(900.0, 3.0)] * 2,
    }
    found = {(row.cores, row.workers): row for row in (limits.row(crowd, samples) for crowd in samples)}
    assert {key: row.met for key, row in found.items()} == {
        (1, 2): None, (1, 4): True, (1, 8): False, (2, 2): None, (2, 8): False,
    }  # fmt: skip
    assert found[1, 4].share.median == pytest.approx(0.9) and found[2, 8].share.median == pytest.approx(0.9)


def test_only_some_cores_are_used_meanwhile() -> None:
    before = affinity()
    with limits.on_cores(1):
        assert affinity() == before[:1]
    assert affinity() == before


def test_an_unknown_env_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        limits.main(["--envs", "pong"])
    assert "'pong': use drive, tag_grid" in capsys.readouterr().err
