# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/real.py: which scenes are for what, by which rules drivers are measured, and the tables.
Scores are not judged here.
"""

from __future__ import annotations

import doctest
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import real, score
from drive_env.rules import RULES
from drive_env.sources import split_of
from puffervec.errors import ConfigError, SceneError
from puffervec.train import TrainConfig

NAMES = [f"tfrecord-{number:05d}-of-01000_{number % 7}" for number in range(2000)]


def test_doctests_hold() -> None:
    assert doctest.testmod(real).failed == 0


def test_shares_of_the_parts() -> None:
    parts = [real.part_of(name) for name in NAMES]
    shares = {part: parts.count(part) / len(parts) for part in real.PARTS}
    assert shares == pytest.approx({"training": 0.6, "validation": 0.2, "test": 0.2}, abs=0.03)


def test_test_scenes_are_outside_the_envs_split_for_training() -> None:
    assert all((real.part_of(name) == "test") == (split_of(name) != "train") for name in NAMES)


@pytest.mark.slow
def test_a_scene_keeps_its_part_whatever_else_there_is() -> None:
    paths = [Path("a") / f"{name}.json" for name in NAMES]
    parts, fewer = real.split_scenes(paths), real.split_scenes(paths[::2])
    assert all(set(fewer[part]) == set(parts[part]) & set(paths[::2]) for part in real.PARTS)
    numbers = real.numbers_of(parts, paths)
    assert sorted(n for own in numbers.values() for n in own) == list(range(1, len(paths) + 1))
    assert paths[numbers["test"][0] - 1] == parts["test"][0]
    with pytest.raises(ConfigError, match="none of the 1 scenes is for"):
        real.split_scenes(paths[:1])


def test_real_scenes_weigh_as_much_as_a_set_of_generated_ones() -> None:
    found = real.training_scenes("generated:9,streets:9=2", [Path("/a.json"), Path("/b.json")])
    assert found == ("generated:9=1.000000,streets:9=2.000000,/a.json=0.500000,/b.json=0.500000")


@pytest.mark.parametrize("rules", RULES)
def test_rules_leave_a_driver_its_car(rules: str) -> None:
    config = TrainConfig.of("drive")
    env = real.by_rules(config, rules).env
    assert env.dynamics == config.env.dynamics and env.observation == config.env.observation
    for name, value in RULES[rules].items():
        assert name == "dynamics" or getattr(env, name) == value


def test_times_are_those_of_the_first_moment_that_reaches_the_share() -> None:
    def moment(minutes: float, goal: float) -> dict[str, Any]:
        return {
            "minutes": minutes,
            "goal": {rules: dict.fromkeys(real.PARTS, goal) for rules in real.PEERS},
        }

    found = real.times_to([moment(1.1, 0.5), moment(2.2, 0.96), moment(4.4, 0.9)])
    assert found["gpudrive"]["test"] == [2.2, 2.2, None]


def canned(value: float) -> dict[str, Any]:
    """What `score.evaluate` returns."""
    rates = {name: value for name in real.RATES}
    ends = {f"{name}_95": [value - 0.05, value + 0.05] for name in real.RATES}
    return {"scenes": 2, "agents": 9, **rates, **ends, "by_scene": {}}


@pytest.mark.slow
def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in NAMES[:20]:
        (tmp_path / f"{name}.json").touch()
    asked: list[tuple[str, str]] = []
    prepared: list[str] = []

    def evaluate(actor: Any, config: TrainConfig, scenes: str, episodes: int) -> dict[str, Any]:
        asked.append((config.env.goal_behavior, scenes))
        return canned(0.97 if actor == "trained" else 0.5)

    def train(config: TrainConfig, times: list[float]) -> Any:
        assert times == [1.0, 2.0] and config.train.time_limit_s == 120
        named = {Path(part).name.split(".json")[0] for part in config.env.scenes.split(",")}
        used = {name for name in NAMES[:20] if name in named}
        assert used == {name for name in NAMES[:20] if real.part_of(name) == "training"}
        moments = [SimpleNamespace(minutes=m, seconds=60 * m, agent_steps=9) for m in times]
        watch = SimpleNamespace(moments=moments)
        return watch, {"start_s": 1.0}, lambda moment: "trained" if moment.minutes > 1 else "new"

    def load_drivers(names: str, task: Any, device: Any, deterministic: bool) -> dict[str, Any]:
        assert deterministic and task.scenes.count("tfrecord") == 20
        return {name: (name, TrainConfig.of("drive")) for name in names.split(",")}

    monkeypatch.setattr(score, "evaluate", evaluate)
    monkeypatch.setattr(score, "load_drivers", load_drivers)
    monkeypatch.setattr(score, "train", train)
    monkeypatch.setattr(real, "prepare_scenes", lambda env: prepared.append(env.scenes))
    monkeypatch.setattr(score, "use_cores", lambda count: None)
    path = tmp_path / "r.json"
    flags = ["--real", str(tmp_path), "--minutes", "2", "--json", str(path)]
    assert real.main(flags) == 0
    assert str(tmp_path) not in path.read_text(), "results name no folder and no scene"
    assert not any(name in path.read_text() for name in NAMES[:20])
    results = json.loads(path.read_text())["results"]
    assert list(results["drivers"]) == ["log", "lane-follow", "idm", "driver", "2 min"]
    assert results["split"][real.ALL] == list(range(1, 21))
    assert real.ALL not in results["drivers"]["2 min"]["none"], "it has seen some of them"
    (run,) = results["trainings"]
    assert len(prepared) == 1 and "generated:1000=" in prepared[0], "before the clock starts"
    assert run["time_to"]["pufferdrive"]["validation"] == [2.0, 2.0, None]
    parts, rules = len(real.PARTS) + 1, len(RULES)  # One more: those that are not seen.
    assert len(asked) == 4 * (parts + 1) * rules + parts * (rules + len(real.PEERS))
    assert ("respawn", ",".join(map(str, real.split_scenes(
        sorted(tmp_path.glob("tfrecord*")))["test"]))) in asked  # fmt: skip
    table = real.markdown(results)
    assert "| gpudrive | 2 min | 9 | 0.97 [0.92, 1.02] |" in table
    assert "| pufferdrive | 2 min | test | 2.0 | 2.0 | - |" in table
    assert "minutes to a share of goals" in capsys.readouterr().out
    assert real.main([*flags[:2], "--minutes", "", "--drivers", "a,b", "--json", str(path)]) == 0
    lines = real.markdown(json.loads(path.read_text())["results"]).splitlines()
    assert len(lines) == 2 + 5 * rules, "rates on all scenes, and no minutes"
    assert any(line.startswith("| nuplan | b | 9 | 0.50 [0.45, 0.55] |") for line in lines)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--minutes", "soon"], "--minutes is 'soon': give numbers above 0"),
        (["--minutes", "7,-1"], "--minutes is '7,-1'"),
        ([], "no scene of WOMD there"),
    ],
)
def test_bad_input_is_one_line(
    flags: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(score, "use_cores", lambda count: None)
    assert real.main(["--real", str(tmp_path), *flags]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ") and words in error


def test_scenes_without_a_self_driving_car_have_no_rates_by_nuplans_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def evaluate(*_: Any) -> dict[str, Any]:
        raise SceneError("none of its scenes has an agent")

    monkeypatch.setattr(score, "evaluate", evaluate)
    config, parts = TrainConfig.of("drive"), {"test": [Path("a.json")]}
    found = real.measure(Any, config, parts, ["nuplan"])  # type: ignore[arg-type]
    assert real.cell(found["nuplan"]["test"], "score") == "-"
    with pytest.raises(SceneError):
        real.measure(Any, config, parts, ["gpudrive"])  # type: ignore[arg-type]


def test_rates_without_a_value() -> None:
    assert real.cell({"score": None, "score_95": None}, "score") == "-"
    assert real.cell({"score": 0.5, "score_95": [None, None]}, "score") == "0.50"
