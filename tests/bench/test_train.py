# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/train.py: what it reckons, and that its commands run. Times are measured here but not judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import presets, runs, train
from puffervec.train.metrics.keys import TIME_PARTS

SMALL = {"vec": {"num_envs": 8}, "train": {"horizon": 8}, "policy": {"hidden": (8,)}}
FACTS = {"horizon": 10, "num_envs": 2, "buffers": 2, "observation_floats": 8, "parameters": 100, "replay_ratio": 2}


def test_overlap_is_one_where_an_iteration_takes_twice_the_longer_of_both() -> None:
    sample = {"facts": FACTS, "iteration_s": 0.4, "policy_half_s": 0.1}
    assert train.overlap(sample, 0.2) == pytest.approx(1.0)
    assert train.overlap(sample, 0.05) == pytest.approx(2.0)
    assert train.overlap({**sample, "facts": FACTS | {"buffers": 1}}, 0.2) is None


def test_each_rung_is_compared_with_the_one_before_and_the_first() -> None:
    rates = {"naive": [1.0, 2.0], "a": [2.0, 4.0], "b": [8.0, 16.0]}
    rows = train.ladder_rows(
        {label: [{"agent_steps_per_s": rate, "facts": FACTS} for rate in found] for label, found in rates.items()}
    )
    assert [(row["over_before"].median, row["over_naive"].median) for row in rows] == [(1, 1), (2, 2), (4, 8)]


@pytest.mark.slow
def test_the_command_measures_draws_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(runs, "RUNS", {"probe": runs.Run("probe", SMALL)})
    monkeypatch.setattr(runs, "simulation_half_s", lambda config: 1e-3)
    monkeypatch.setattr(presets, "settings", lambda: {presets.AUTO: presets.Setting({}, False)})
    written = tmp_path / "r.json"
    flags = ["--parts", "speed,ladder,presets", "--runs", "probe", "--envs", "probe", "--seconds", "0.01", "--repeats", "1"]
    assert train.main([*flags, "--json", str(written)]) == 0
    text = written.read_text()
    found = json.loads(text)["results"]
    assert str(tmp_path) not in text and written.with_suffix(".png").stat().st_size > 1000
    assert set(found["speed"]["probe"]["shares"]) == set(TIME_PARTS)
    assert found["ladder"]["probe"][0]["label"] == "naive" and found["ladder"]["probe"][-1]["label"] == train.TRAINER
    lines = [found["speed"]["probe"], *found["ladder"]["probe"], *found["presets"]["probe"]]
    assert {tuple(line["facts"][key] for key in runs.FACTS) for line in lines} == {(8, lines[0]["facts"]["parameters"], 2)}
    shown = capsys.readouterr().out
    assert "training end to end" in shown and "from a naive loop to the trainer" in shown and "settings of a CPU" in shown
    assert "not on this device: the slab is page-locked" in shown


def test_results_of_other_parts_and_scenes_have_other_names() -> None:
    def name(*flags: str) -> str:
        options = train.parser().parse_args(flags)
        options.parts = options.parts.split(",")
        return train.result_name(options)

    assert name() == "train-speed-ladder" and name("--parts", "score") == "train-score"
    assert name("--parts", "score", "--scenes", "generated:1000") == "train-score-generated-1000"
    assert name("--parts", "score", "--scenes", "/somewhere") == "train-score-a-folder-of-scenes"


def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(["--parts", "sped"]) == 2
    assert capsys.readouterr().err == "error: --parts has 'sped': use some of speed, ladder, presets, score\n"
    assert train.main(["--runs", "tag"]) == 2
