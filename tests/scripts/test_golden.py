# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""scripts/golden.py: hashes are written anew only with a reason, which is kept; checks name what
cannot be checked here.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts import golden
from tests.builds import ROOT
from tests.golden import cases, check, record


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two short cases, and a file of hashes elsewhere."""
    path = tmp_path / "hashes.json"
    monkeypatch.setattr(cases, "CASES", [cases.BY_NAME["cartpole"], cases.BY_NAME["probe"]])
    monkeypatch.setattr(record, "HASHES", path)
    return path


@pytest.mark.parametrize("reason", ["", "   ", "because", "\n"])
def test_without_a_reason_nothing_is_written(few: Path, reason: str) -> None:
    with pytest.raises(ValueError, match='make golden REASON="'):
        golden.regenerate(reason, few, 10)
    assert not few.exists()


def test_the_reason_stands_beside_the_hashes(few: Path) -> None:
    changed = golden.regenerate("first hashes\nof two envs", few, 10)
    assert changed == [*(f"cartpole, seed {seed}" for seed in (1, 2, 3, 4, 5)), "probe, seed 1"]
    found = record.load()
    assert [entry["reason"] for entry in found["log"]] == ["first hashes of two envs"]
    assert found["log"][0]["changed"] == changed
    committed = json.loads((ROOT / "tests/golden/hashes.json").read_text())["runs"]
    assert found["runs"]["probe, seed 1"] == {
        name: values[:2] for name, values in committed["probe, seed 1"].items()
    }


def test_a_second_time_only_what_changed_is_logged(
    few: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden.regenerate("first hashes of two envs", few, 10)
    before = few.read_text()
    assert golden.regenerate("nothing has changed since", few, 10) == []
    assert few.read_text() == before
    shorter = cases.Case("probe", "probe", {"episode_length": 7})
    monkeypatch.setattr(cases, "CASES", [cases.BY_NAME["cartpole"], shorter])
    assert golden.regenerate("the probe has longer episodes", few, 10) == ["probe, seed 1"]
    assert [entry["reason"] for entry in record.load()["log"]] == [
        "first hashes of two envs",
        "the probe has longer episodes",
    ]
    monkeypatch.setattr(cases, "CASES", [shorter])
    assert golden.regenerate("cartpole is no more", few, 10) == [
        f"cartpole, seed {seed} (gone)" for seed in (1, 2, 3, 4, 5)
    ]


def test_only_the_named_cases_are_run_again(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    golden.regenerate("first hashes of two envs", few, 10)
    before = record.load()["runs"]
    changed = [cases.Case(name, name, {"episode_length": 7}) for name in ("probe", "drift")]
    monkeypatch.setattr(cases, "CASES", [cases.BY_NAME["cartpole"], *changed])
    assert golden.regenerate("the probe alone", few, 10, only="probe") == ["probe, seed 1"]
    after = record.load()["runs"]
    assert list(after) == list(before) and after["probe, seed 1"] != before["probe, seed 1"]
    assert all(after[name] == before[name] for name in before if name != "probe, seed 1")


@pytest.mark.slow
@pytest.mark.parametrize("name", cases.SCENES)
def test_scenes_are_compiled_anew_only_where_they_must(tmp_path: Path, name: str) -> None:
    path = tmp_path / "set"
    assert golden.ensure_scenes(name, path)
    written = path.read_bytes()
    assert not golden.ensure_scenes(name, path)
    assert golden.ensure_scenes(name, path, anew=True) and path.read_bytes() == written
    path.write_bytes(written[:-1])
    assert golden.ensure_scenes(name, path) and path.read_bytes() == written


def test_a_difference_makes_the_check_fail(
    few: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    golden.regenerate("first hashes of two envs", few, 10)
    names = ["--steps", "10", "--build", "this build"]
    monkeypatch.setattr(check, "CASES", cases.CASES)
    assert check.main(names) == 0
    few.write_text(few.read_text().replace('"agents.rewards": ["', '"agents.rewards": ["x', 1))
    assert check.main(names) == 1
    said = capsys.readouterr().out
    assert (
        "cartpole, seed 1: agents.rewards differ(s) from the golden hashes between step 0 and 1 "
        "(this build; serial)" in said
    )
    assert "this build: 2 combinations of 10 steps, 1 differ" in said
    with pytest.raises(SystemExit):
        check.main(["--steps", "11"])
