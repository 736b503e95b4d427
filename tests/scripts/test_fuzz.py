# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""scripts/fuzz.py: how inputs are cut into chunks, sums, what it prints of a broken input, and a
run of a moment.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts import fuzz
from tests.fuzz.program import Broken, Report


def test_chunks_cover_all_inputs_once() -> None:
    found = list(fuzz.chunks(50_000, ["scenes", "states", "json"]))
    for target, wanted in (("scenes", 50_000), ("states", 25_000), ("json", 50_000)):
        own = [chunk for chunk in found if chunk.target == target]
        assert sum(chunk.count for chunk in own) == wanted
        assert [chunk.first for chunk in own] == list(range(0, wanted, fuzz.CHUNK))
    assert [chunk.count for chunk in fuzz.chunks(1, ["sets"])] == [1]


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    work = fuzz.Work(1, Path(), Path(), (), ())
    monkeypatch.setattr(
        fuzz, "prepare", lambda folder, seed: fuzz.Work(seed, folder, *(work.compiled, (), ()))
    )


@pytest.mark.slow
def test_a_run_of_a_moment(
    no_compiler: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a process of its own, as the long run does it; counts go to the file."""
    words = [
        "--count",
        "100",
        "--targets",
        "sets",
        "--sequences",
        "0",
        "--jobs",
        "1",
        "--json",
        str(tmp_path / "fuzz.json"),
    ]
    assert fuzz.main(words) == 0
    shown = capsys.readouterr().out
    assert "10 inputs" in shown and shown.endswith("seed 1: ok\n")
    results = json.loads((tmp_path / "fuzz.json").read_text())["results"]
    assert results["targets"]["sets"]["inputs"] == 10 and results["crashes"] == 0


@pytest.mark.parametrize(
    "before",
    ["", "ValueError: 3 (22,)\n\nThe above exception was the cause:\nTraceback:\nx.Broken: "],
)
def test_a_broken_input_is_kept_and_can_be_run_again(
    no_compiler: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    before: str,
) -> None:
    def run_chunk(work: fuzz.Work, chunk: fuzz.Chunk) -> Report:
        raise Broken(f"{before}scenes: input 12 of seed 5: exit code 99", 0, b"bytes")

    monkeypatch.setenv("PV_SEED", "5")
    monkeypatch.setattr(fuzz, "run_chunk", run_chunk)
    monkeypatch.setattr(fuzz.tempfile, "gettempdir", lambda: str(tmp_path))
    assert fuzz.main(["--count", "100", "--targets", "scenes", "--sequences", "0"]) == 1
    said = capsys.readouterr().err
    assert (
        "again: PV_SEED=5 python scripts/fuzz.py --targets scenes --first 12 --count 1 "
        "--sequences 0" in said
    )
    assert (tmp_path / "puffervec-broken-input").read_bytes() == b"bytes"
