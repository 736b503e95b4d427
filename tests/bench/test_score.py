# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/score.py: when policies are copied, what they are evaluated on, and what is said of it.
Scores are not judged here.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bench import runs, score
from drive_env.config import DriveConfig
from puffervec.errors import ConfigError
from puffervec.train import TrainConfig
from tests.fixtures.training import torch_state  # noqa: F401 (autouse)


def options(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"at": None, "minutes": 30.0, **given})


@pytest.mark.parametrize(
    ("at", "minutes", "times"),
    [
        ("5,30", 60.0, [5, 30, 60]),
        ("2,1", 3.0, [1, 2, 3]),
        ("0.5", 0.5, [0.5]),
    ],
)
def test_times_are_those_asked_for_and_the_end(at: str, minutes: float, times: list[float]) -> None:
    assert score.times_of(options(at=at, minutes=minutes)) == times


def test_policies_are_copied_at_the_last_update_that_ends_in_time() -> None:
    clock = iter([100.0, 120.0, 140.0, 159.0, 185.0, 250.0])
    stops: list[float] = []
    policy = torch.nn.Linear(1, 1)
    watch = score.Watch([2.0, 1.0], lambda: next(clock))
    watch.trainer = SimpleNamespace(
        policies={"default": policy}, request_stop=lambda: stops.append(watch.before_s or 0.0)
    )  # type: ignore[assignment]
    for step in range(1, 5):  # updates end after 20, 40, 59 and 85 seconds
        with torch.no_grad():
            policy.weight.fill_(step)
        watch.show({"step": step}, 0.0)
    assert [(m.minutes, m.seconds, m.agent_steps) for m in watch.moments] == [
        (1.0, 59.0, 3)
    ] and not stops
    watch.show({"step": 5}, 0.0)  # 150 s: 120 s were over before it
    assert [m.minutes for m in watch.moments] == [1.0, 2.0] and stops == [150.0]
    assert watch.moments[0].policies["default"].weight.item() == 3.0  # a copy


@pytest.mark.slow
def test_a_trained_driver_gets_another_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps how it sees and acts; its own scenes are not read."""
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path / "cache"))
    task, cpu = DriveConfig(scenes="generated:2", goal_behavior="stop"), torch.device("cpu")
    ((name, (actor, config)),) = score.load_drivers("driver", task, cpu, True).items()
    assert (name, config.env.scenes, config.env.goal_behavior) == ("driver", "generated:2", "stop")
    assert (config.env.observation, config.env.dynamics) == ("driver", "car")
    found = score.evaluate(actor, config, "generated:2", 1)
    assert found["scenes"] == 2 and found["goal"] > 0.5
    for names, words in (("chess", "no driver 'chess': name a run"), ("driver,a/driver", "rename")):
        with pytest.raises(ConfigError, match=words):
            score.load_drivers(names, task, cpu, True)


def canned(score_value: float) -> dict[str, Any]:
    """What `score.evaluate` returns."""
    found: dict[str, Any] = {
        "scenes": 2,
        "agents": 9,
        "comfortable": 0.9,
        "goal_time": 1.1,
        "median_peak_lateral": 2.5,
    }
    found["by_scene"] = {
        "agents": [4, 5],
        **{name: [1, 2] for name in ("score", "goal", "collision", "offroad")},
    }
    for name in ("score", "goal", "collision", "offroad"):
        found |= {name: score_value, f"{name}_95": [score_value - 0.05, score_value + 0.05]}
    return found


def test_each_moment_is_evaluated_on_all_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Baselines on the same scenes, but for those of the training."""
    asked: list[tuple[str, str]] = []

    def train(config: TrainConfig, times: list[float], keep: Path | None) -> Any:
        moments = [score.Moment(minutes, 60 * minutes, 9, {}) for minutes in times]
        facts = dict.fromkeys(runs.FACTS, 1)
        return SimpleNamespace(moments=moments), {"facts": facts}, lambda moment: "driver"

    def evaluate(actor: Any, config: TrainConfig, scenes: str, episodes: int) -> dict[str, Any]:
        who = actor if actor == "driver" else type(actor).__name__
        asked.append((who, scenes))
        return canned({"driver": 0.8, "LaneFollowActor": 0.5}[who])

    monkeypatch.setattr(score, "train", train)
    monkeypatch.setattr(score, "evaluate", evaluate)
    monkeypatch.setattr(score, "use_cores", lambda count: None)
    real = [tmp_path / "b" / "tfrecord-1-of-2_9.json", tmp_path / "a" / "tfrecord-2-of-2_c0.json"]
    for path in (*real, tmp_path / "a" / "carla_Town01_0.json"):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    flags = ["--real", str(tmp_path / "a"), "--real", str(tmp_path / "b")]
    flags += ["--scenes", "folder", "--baselines", "lane-follow", "--minutes", "2"]
    assert score.main([*flags, "--json", str(tmp_path / "r.json")]) == 0
    results = json.loads((tmp_path / "r.json").read_text())["results"]
    (sample,) = results["score"]["drive"]
    assert {who: set(sets) for who, sets in results["pooled"].items()} == {
        "driver": {score.TRAINED, score.HELD_OUT, score.REAL},
        "lane-follow": {score.HELD_OUT, score.REAL},
    }
    assert [moment["minutes"] for moment in sample["moments"]] == [1, 2]
    sets = {
        score.TRAINED: "folder",
        score.HELD_OUT: "held-out",
        score.REAL: f"{real[0]},{real[1]}",
    }
    assert asked[:6] == [("driver", scenes) for scenes in sets.values()] * 2
    assert set(sample["baselines"]["lane-follow"]) == {*sets} - {score.TRAINED}
    out = capsys.readouterr().out
    assert "lane-follow 0.500 [0.45, 0.55] is clearly behind" in out and "lateral" in out


def test_seeds_are_pooled_with_intervals_over_scenes() -> None:
    """Two seeds; all cars of a scene come to the same. Half of the scenes have no agent, and change
    nothing.
    """
    agents = [4, 0] * 50

    def sample(*solved: int) -> dict[str, Any]:
        hits = [agents[scene] * (scene in solved) for scene in range(100)]
        return {
            "real": {
                "by_scene": {
                    "agents": agents,
                    **dict.fromkeys(("score", "goal", "collision", "offroad"), hits),
                }
            }
        }

    first, second = sample(*range(40)), sample(*range(60))
    samples = [
        {"moments": [{"evaluations": one}], "baselines": {"idm": first}} for one in (first, second)
    ]
    found = score.pool(samples)
    driver, idm = found["driver"]["real"], found["idm"]["real"]
    assert (driver["scenes"], driver["agents"], driver["seeds"], idm["seeds"]) == (50, 200, 2, 1)
    assert driver["score"] == pytest.approx(0.5) and driver["score_by_seed"] == pytest.approx(
        [0.4, 0.6]
    )
    low, high = idm[
        "score_95"
    ]  # of 50 draws of a rate of 0.4, over twice as many scenes, half of them empty
    half = 1.96 * (0.4 * 0.6 / 50) ** 0.5
    assert low == pytest.approx(0.4 - half, abs=0.03) and high == pytest.approx(
        0.4 + half, abs=0.03
    )
    other = {"real": {"by_scene": {**first["real"]["by_scene"], "agents": [1] * 100}}}
    apart = score.pool([samples[0], {"moments": [{"evaluations": other}], "baselines": {}}])
    assert apart["driver"] == {}, "rates over different agents are not put together"


@pytest.mark.parametrize(
    ("twice", "words"), [(False, "no scene of WOMD there"), (True, "is in two of them")]
)
def test_real_scenes_have_names_of_womd_and_occur_once(
    tmp_path: Path, twice: bool, words: str
) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (
            tmp_path
            / folder
            / ("tfrecord-1-of-2_9.json" if twice else "agent-agent-collision.json")
        ).touch()
    with pytest.raises(ConfigError, match=words):
        score.scene_sets(TrainConfig.of("drive"), [str(tmp_path / "a"), str(tmp_path / "b")])


def test_what_is_wanted_after_seven_minutes() -> None:
    moment = {
        "minutes": 7.0,
        "evaluations": {score.HELD_OUT: canned(0.95), score.REAL: canned(0.7)},
        "gaps": {},
    }
    lines = score.verdicts(
        {"seed": 1, "trained_on": "generated:9,streets:9", "baselines": {}}, moment
    )
    assert "wanted 0.94: met" in lines[0] and "wanted 0.90: MISSED" in lines[1]
    of_folder = score.verdicts(
        {"seed": 1, "trained_on": "a folder of scenes", "baselines": {}}, moment
    )
    assert not any("wanted" in line for line in of_folder)


@pytest.mark.parametrize(
    ("scenes", "trained", "held_out"),
    [
        ("generated:2000", "generated", "held-out"),
        ("generated:50", "generated:50", "held-out"),
        ("generated:1000,streets:1000", "generated,streets", "held-out,held-out-streets"),
    ],
)
def test_scenes_to_evaluate_on(scenes: str, trained: str, held_out: str) -> None:
    found = score.scene_sets(TrainConfig.of("drive", env={"scenes": scenes}), None)
    assert found == {score.TRAINED: trained, score.HELD_OUT: held_out}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--baselines", "chess"], "--baselines has 'chess': use some of random"),
        (["--cores", "0"], "--cores is 0"),
        (["--minutes", "-1"], "give minutes above 0"),
    ],
)
def test_bad_input_is_one_line(
    flags: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.sched_setaffinity", lambda pid, cores: None)
    assert score.main(flags) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ") and words in error
