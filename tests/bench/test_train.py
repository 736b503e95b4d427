# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/train.py: what it reckons from logs, and that its commands run. Times are measured here but not judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import train
from puffervec.train import TrainConfig
from puffervec.train.dashboard import TIME_PARTS

SMALL = {"vec": {"num_envs": 8}, "train": {"horizon": 8}, "policy": {"hidden": (8,)}}
FACTS = {"horizon": 10, "num_envs": 2, "buffers": 2, "observation_floats": 8, "parameters": 100, "replay_ratio": 2}


def line(seconds: float, step: int, env: float) -> dict[str, float]:
    rest = {"copy": 0.1, "forward": 0.2, "update": 0.5 - env, "log": 0.1, "other": 0.1}
    return {"elapsed_s": seconds, "step": step, **{f"time/{part}": share for part, share in {"env": env, **rest}.items()}}


def test_rates_leave_the_first_lines_out_and_weigh_by_time() -> None:
    lines = [line(9.0, 1, 0.0), line(10.0, 100, 0.0), line(11.0, 200, 0.2), line(14.0, 700, 0.4)]
    lines = [lines[0], *lines]  # a fifth of five lines is warm-up
    found = train.rates(lines, FACTS)
    assert found["agent_steps_per_s"] == pytest.approx(699 / 5)
    assert found["env_steps_per_s"] == pytest.approx(3 * 10 * 2 / 5)
    assert found["shares"]["env"] == pytest.approx((0 * 1 + 0.2 * 1 + 0.4 * 3) / 5)
    assert sum(found["shares"].values()) == pytest.approx(1)
    assert found["iteration_s"] == pytest.approx((0.28 + 0.3) * 5 / 30)
    assert found["policy_half_s"] == pytest.approx(0.3 * 5 / 60)


def test_overlap_is_one_where_an_iteration_takes_twice_the_longer_of_both() -> None:
    sample = {"facts": FACTS, "iteration_s": 0.4, "policy_half_s": 0.1}
    assert train.overlap(sample, 0.2) == pytest.approx(1.0)
    assert train.overlap(sample, 0.05) == pytest.approx(2.0)
    assert train.overlap({**sample, "facts": FACTS | {"buffers": 1}}, 0.2) is None


def test_half_a_million_parameters_and_replay_ratio_1() -> None:
    from puffervec.train.policy import build_policy
    from puffervec.train.target import env_spec

    config = train.config_of(train.RUNS["drive-500k"], "cpu")
    policy = build_policy(env_spec(config).groups[0], config.policy)
    assert 500_000 <= sum(p.numel() for p in policy.parameters()) < 600_000 and config.train.update_epochs == 1


def test_each_rung_is_compared_with_the_one_before_and_the_first() -> None:
    rows = train.ladder_rows({"naive": [1.0, 2.0], "a": [2.0, 4.0], "b": [8.0, 16.0]})
    assert [(row["over_before"].median, row["over_naive"].median) for row in rows] == [(1, 1), (2, 2), (4, 8)]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "RUNS", {"probe": train.Run("probe", SMALL, "episode/return", 6.0)})
    monkeypatch.setattr(train, "simulation_half_s", lambda config: 1e-3)


@pytest.mark.slow
def test_the_command_measures_draws_and_writes(quick: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    written, drawn = tmp_path / "r.json", tmp_path / "r.png"
    flags = ["--parts", "speed,ladder,score", "--runs", "probe", "--envs", "probe", "--seconds", "0.01", "--repeats", "1"]
    assert train.main([*flags, "--score-limit-s", "20", "--json", str(written), "--png", str(drawn)]) == 0
    found = json.loads(written.read_text())["results"]
    assert set(found["speed"]["probe"]["shares"]) == set(TIME_PARTS) and drawn.stat().st_size > 1000
    assert found["speed"]["probe"]["facts"]["observation_floats"] == 8
    assert found["ladder"]["probe"][0]["label"] == "naive" and found["ladder"]["probe"][-1]["label"] == train.TRAINER
    (sample,) = found["score"]["probe"]
    assert sample["score"] >= 6 and sample["seconds"] > 0 and sample["held_out_score"] is None
    shown = capsys.readouterr().out
    assert "training end to end" in shown and "from a naive loop to the trainer" in shown and "time to a score" in shown


def test_the_simulation_of_a_half_is_measured() -> None:
    assert train.simulation_half_s(TrainConfig.of("probe", **SMALL), turns=4) > 0


def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(["--parts", "sped"]) == 2
    assert capsys.readouterr().err == "error: --parts has 'sped': use some of speed, ladder, score\n"
    assert train.main(["--runs", "tag"]) == 2
