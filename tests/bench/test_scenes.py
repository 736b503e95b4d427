# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/scenes.py on sets of a few scenes: what it counts, and that its parts run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import scenes


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path / "cache"))


def test_copies_take_turns(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.json").write_text(name)
    folder = scenes.copies_of([tmp_path / "a.json", tmp_path / "b.json"], 3, tmp_path / "copies")
    assert [path.read_text() for path in sorted(folder.iterdir())] == ["a", "b", "a"]


def test_a_page_of_the_set_counts_once() -> None:
    """So many workers have little more than one, however large the set is."""
    one, two = (scenes.memory("generated:3", workers, 2) for workers in (1, 2))
    size_mb = scenes.prepare("generated:3")["bytes"] / 1e6
    assert 0 < one["set"] <= size_mb + 0.01 and two["set"] == pytest.approx(one["set"], rel=0.2)
    assert one["megabytes"] > one["own"] > 1


def test_two_sets_are_stepped_in_turn() -> None:
    found = scenes.steps(["generated:2", "generated:3"], 1, 3)
    assert [len(rates) for rates in found.values()] == [3, 3] and all(
        rate > 0 for rates in found.values() for rate in rates
    )


def test_results_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    scenes.show({"many": {"sets": {}, "start_s": 0.25, "steps_2": {"ratio": 0.5}}})
    shown = capsys.readouterr().out
    assert "steps_2 ratio" in shown and "start_s" in shown and "sets │" not in shown
