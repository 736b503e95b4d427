# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/real.py: by which rules drivers are measured, and the table. Scores are not judged here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import real, score
from drive_env.rules import RULES
from puffervec.errors import SceneError
from puffervec.train import TrainConfig


@pytest.mark.parametrize("rules", RULES)
def test_rules_leave_a_driver_its_car(rules: str) -> None:
    config = TrainConfig.of("drive")
    env = real.by_rules(config, rules).env
    assert env.dynamics == config.env.dynamics and env.observation == config.env.observation
    for name, value in RULES[rules].items():
        assert name == "dynamics" or getattr(env, name) == value


def canned(value: float) -> dict[str, Any]:
    """What `score.evaluate` returns."""
    rates = {name: value for name in real.RATES}
    ends = {f"{name}_95": [value - 0.05, value + 0.05] for name in real.RATES}
    return {"scenes": 2, "agents": 9, **rates, **ends, "by_scene": {}}


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"tfrecord-{number:05d}-of-01000_{number % 7}.json" for number in range(20)]
    for name in names:
        (tmp_path / name).touch()
    asked: list[tuple[str, int]] = []

    def evaluate(actor: Any, config: TrainConfig, scenes: str, episodes: int) -> dict[str, Any]:
        asked.append((config.env.goal_behavior, scenes.count("tfrecord")))
        return canned(0.97 if actor == "a" else 0.5)

    def load_drivers(names: str, task: Any, device: Any, deterministic: bool) -> dict[str, Any]:
        assert deterministic and task.scenes.count("tfrecord") == 20
        return {name: (name, TrainConfig.of("drive")) for name in names.split(",")}

    monkeypatch.setattr(score, "evaluate", evaluate)
    monkeypatch.setattr(score, "load_drivers", load_drivers)
    monkeypatch.setattr(score, "use_cores", lambda count: None)
    path = tmp_path / "r.json"
    flags = ["--real", str(tmp_path), "--drivers", "a,b", "--json", str(path)]
    assert real.main(flags) == 0
    assert str(tmp_path) not in path.read_text(), "results name no folder and no scene"
    assert not any(name in path.read_text() for name in names)
    results = json.loads(path.read_text())["results"]
    assert list(results["drivers"]) == ["log", "lane-follow", "idm", "a", "b"]
    assert len(asked) == 5 * len(RULES) and ("respawn", 20) in asked
    lines = real.markdown(results).splitlines()
    assert len(lines) == 2 + 5 * len(RULES)
    assert any(line.startswith("| gpudrive | a | 9 | 0.97 [0.92, 1.02] |") for line in lines)
    assert any(line.startswith("| nuplan | b | 9 | 0.50 [0.45, 0.55] |") for line in lines)


def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score, "use_cores", lambda count: None)
    assert real.main(["--real", str(tmp_path)]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ") and "no scene of WOMD there" in error


def test_scenes_without_a_self_driving_car_have_no_rates_by_nuplans_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def evaluate(*_: Any) -> dict[str, Any]:
        raise SceneError("none of its scenes has an agent")

    monkeypatch.setattr(score, "evaluate", evaluate)
    config = TrainConfig.of("drive")
    monkeypatch.setattr(real, "RULES", {"nuplan": RULES["nuplan"]})
    found = real.measure(Any, config, "a.json")  # type: ignore[arg-type]
    assert real.rate_rows({"drivers": {"log": found}}) == []
    monkeypatch.setattr(real, "RULES", {"gpudrive": RULES["gpudrive"]})
    with pytest.raises(SceneError):
        real.measure(Any, config, "a.json")  # type: ignore[arg-type]


def test_rates_without_a_value() -> None:
    assert real.cell({"score": None, "score_95": None}, "score") == "-"
    assert real.cell({"score": 0.5, "score_95": [None, None]}, "score") == "0.50"
