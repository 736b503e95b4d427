# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Statistics, turn-taking, facts and files of the benchmarks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import common


def test_a_figure_is_median_and_half_the_distance_of_the_quartiles() -> None:
    found = common.figure([4.0, 1.0, 2.0, 3.0, 10.0])
    assert found.median == 3.0
    assert found.spread == pytest.approx((4.0 - 2.0) / 2 / 3.0)
    assert found.samples == (4.0, 1.0, 2.0, 3.0, 10.0)
    assert common.figure([5.0]) == common.Figure(5.0, 0.0, (5.0,))


def test_a_ratio_compares_the_samples_of_one_repeat() -> None:
    """The second repeat is ten times slower for both, and the ratio does not see it."""
    found = common.ratio([2.0, 20.0, 2.2], [1.0, 10.0, 1.1])
    assert found.median == pytest.approx(2.0) and found.spread == pytest.approx(0.0)
    with pytest.raises(ValueError):
        common.ratio([1.0], [1.0, 2.0])


def test_variants_take_turns_in_alternating_order() -> None:
    order: list[str] = []

    def run(name: str) -> int:
        order.append(name)
        return len(order)

    runs = common.interleave({"a": lambda: run("a"), "b": lambda: run("b")}, 3)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert runs.results == {"a": [1, 4, 5], "b": [2, 3, 6]}


def test_a_disturbed_sample_is_taken_again_and_the_calmest_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loads = iter([0.5, 0.2, 0.3, 0.01])
    monkeypatch.setattr(common, "foreign_load", lambda run: (run(), next(loads)))
    calls = iter(range(10))
    runs = common.interleave({"a": lambda: next(calls)}, 2, attempts=3)
    assert runs.results == {"a": [1, 3]}, (
        "three attempts, the second is the calmest; then one calm attempt"
    )
    assert runs.foreign == 0.2
    assert "NOT QUIET" in common.foreign_note(
        runs.foreign
    ) and "quiet enough" in common.foreign_note(0.01)


def test_results_are_filed_by_cpu_and_day(tmp_path: Path) -> None:
    facts = {"cpu": "AMD EPYC 9B14", "usable_cores": 2, "date": "2026-03-04T05:06:07Z"}
    assert (
        common.results_path("sps", facts, tmp_path)
        == tmp_path / "amd-epyc-9b14-2" / "2026-03-04-sps.json"
    )


def test_results_name_no_folders_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        common.without_path(str(tmp_path)) == "FOLDER"
        and common.without_path(f"--real={tmp_path}") == "--real=FOLDER"
    )
    assert common.without_path("../shared/x.json") == common.without_path("~/x.json") == "FILE"
    assert (
        common.without_path(str(common.ROOT / "bench" / "results" / "r.json"))
        == "bench/results/r.json"
    )
    assert [common.without_path(word) for word in ("tag_grid,drive", "--seconds=5", "a/b")] == [
        "tag_grid,drive",
        "--seconds=5",
        "a/b",
    ]
    monkeypatch.setattr(
        "sys.argv", [str(common.ROOT / "bench" / "sps.py"), "--json", str(tmp_path / "r.json")]
    )
    assert common.command_line() == "python bench/sps.py --json FILE"
    settings = common.report(
        "sps", {}, {"real": str(tmp_path), "png": None, "envs": ["drive", str(tmp_path)]}, []
    )["settings"]
    assert settings == {"real": "FOLDER", "png": None, "envs": ["drive", "FOLDER"]}


def test_a_report_is_written_whole_with_figures_and_paths(tmp_path: Path) -> None:
    path = tmp_path / "new" / "r.json"
    document = common.report(
        "sps", {"cpu": "x"}, {"json": path, "repeats": 2}, [{"rate": common.figure([1.0, 3.0])}]
    )
    common.write_json(path, document)
    read = json.loads(path.read_text())
    assert read["schema_version"] == common.SCHEMA_VERSION and read["benchmark"] == "sps"
    assert read["settings"] == {"json": "FILE", "repeats": 2}
    assert read["results"] == [{"rate": {"median": 2.0, "spread": 0.25, "samples": [1.0, 3.0]}}]
    assert read["command"].startswith("python ")
    assert [entry.name for entry in path.parent.iterdir()] == ["r.json"], (
        "no temporary file is left"
    )
    with pytest.raises(TypeError):
        common.write_json(path, {"x": object()})
    common.write_json(tmp_path / "t.json", {"text": f'File "{common.ROOT}/bench/a.py"'})
    written = json.loads((tmp_path / "t.json").read_text())
    assert written == {"text": 'File "bench/a.py"'}, "no path of the machine"
    assert json.loads(path.read_text()) == read, (
        "a document that cannot be written leaves the old file"
    )
