# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train eval`, and comparisons (puffervec/commands/comparison.py)."""

from __future__ import annotations

import csv
import dataclasses
import doctest
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drive_env.generate import generate
from puffervec.commands import cli, comparison
from puffervec.commands.comparison import describe_difference, describe_overlap
from puffervec.commands.eval import EvalRequest, choose_parts, parse, run_evaluation
from puffervec.contract.evaluation import Interval, Report, Row
from puffervec.errors import ConfigError, PuffervecError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.metrics import tables
from tests.train import envs

Small = Callable[..., TrainConfig]


@pytest.fixture
def scenes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two generated scenes, and a cache of its own."""
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "scenes"
    folder.mkdir()
    for number, name in enumerate(("one", "two")):
        (folder / f"{name}.json").write_text(json.dumps(generate.generate_tree(5, number)))
    return folder


@pytest.fixture
def run(small: Small, scenes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of a few steps on these scenes, which were named relative to the folder it was started
    in.
    """
    monkeypatch.chdir(tmp_path)
    train = {"horizon": 8, "minibatch_size": 96, "total_timesteps": 200}
    env = {"scenes": "scenes", "num_agents": 24, "max_steps": 6}
    with Trainer(small("drive", env=env, vec={"num_envs": 2}, train=train)) as trainer:
        trainer.train()
        return trainer.folder.absolute()


@pytest.mark.slow
def test_a_run_is_evaluated_from_any_folder(
    run: Path, scenes: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    (scenes / "broken.json").write_text("{")
    run_evaluation(EvalRequest(str(run)))
    out = capsys.readouterr().out
    assert "total of 2 scenes" in out and "one.json" in out and f"on {scenes}" in out
    assert out.count("left out broken.json: not JSON") == 1
    run_evaluation(EvalRequest(str(run)), parts=False)
    assert "one.json" not in capsys.readouterr().out


@pytest.mark.slow
def test_baselines_and_a_checkpoint_stand_beside_a_run(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = str(next((run / "checkpoints").iterdir()))
    request = EvalRequest(
        str(run), baseline=f"lane-follow,log,{checkpoint}", seeds=2, csv=tmp_path / "a.csv"
    )
    run_evaluation(request)
    out = capsys.readouterr().out
    assert (
        "comparison: 4" in out
        and "log: score" in out
        and "intervals" in out
        and "all 2 episodes of each scene are equal" in out
    )
    with (tmp_path / "a.comparison.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["driver"] for line in lines] == [str(run), "lane-follow", "log", checkpoint]
    assert {**lines[0], "driver": ""} == {**lines[3], "driver": ""} and lines[0]["score_low"] != ""
    of_env = EvalRequest(
        "drive",
        baseline=f"log,{checkpoint}",
        env_flags=("--scenes", "scenes"),
        json=tmp_path / "b.json",
    )
    run_evaluation(of_env)
    assert [
        row["driver"]
        for row in json.loads((tmp_path / "b.json").read_text())["tables"]["comparison"]
    ] == ["log", checkpoint]


@pytest.mark.slow
def test_a_checkpoint_drives_the_other_cars_of_a_suite(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = str(next((run / "checkpoints").iterdir()))
    flags = ["--suite", "traffic", "--against", checkpoint, "--json", str(tmp_path / "a.json")]
    run_evaluation(parse([str(run), *flags]))
    found = json.loads((tmp_path / "a.json").read_text())
    names = [row["traffic"] for row in found["rows"]]
    assert names[:2] == ["log", "plain"] and names[-1] == checkpoint
    assert found["total"]["agents"] == sum(row["agents"] for row in found["rows"]) > 0
    assert checkpoint in capsys.readouterr().out
    for request, words in (
        (EvalRequest(str(run), against=("x",)), "--against x: add --suite traffic"),
        (EvalRequest(str(run), suite="idm", against=("x",)), "--against x: add --suite traffic"),
        (
            EvalRequest("cartpole", baseline="random", against=("x",)),
            "--against x: cartpole has no such suite",
        ),
    ):
        with pytest.raises(ConfigError, match=words):
            run_evaluation(request)


def test_scores_are_compared_part_by_part() -> None:
    def report(scores: list[float | None], names: str = "abcd", agents: int = 10) -> Report:
        rows: list[Row] = [
            {"scene": name, "agents": 0, "score": None}
            if score is None
            else {"scene": name, "agents": agents, "score": Interval(score, 0, 1)}
            for name, score in zip(names, scores, strict=True)
        ]
        return Report(rows, score="score", weight="agents")

    own, old = report([0.9, 0.5, 0.1, None]), report([0.8, 0.4, 0.0, None])
    assert (
        describe_difference(own, "old", old)
        == "score above that of old on the same 3 scenes: +0.10 [+0.10, +0.10]"
    )
    assert describe_difference(
        own, "old", report([0.8, 0.4, 0.0, None], agents=300)
    ) == describe_difference(own, "old", old)
    mixed = describe_difference(own, "old", report([0.5, 0.6, 0.1, None]))
    low, high = (float(text) for text in mixed.partition("[")[2].rstrip("]").split(","))
    assert "+0.10 [" in mixed and low < -0.3 and high > 0.5  # three parts say little
    others = report([0.8, 0.4, 0.0, None], "abce"), report([0.8, None, None, None])
    assert [describe_difference(own, "old", other) for other in others] == ["", ""]
    assert (
        describe_difference(Report(own.rows, score="score"), "old", old) == ""
        and doctest.testmod(comparison).failed == 0
    )


def test_scores_that_are_apart_are_told() -> None:
    def row(who: str, low: float, high: float) -> dict[str, Any]:
        return {"driver": who, "score": Interval((low + high) / 2, low, high)}

    own = row("own", 0.6, 0.7)
    assert describe_overlap(own, row("old", 0.4, 0.5), "score") == (
        "old: score 0.45 [0.40, 0.50] against 0.65 [0.60, 0.70]: behind, intervals apart"
    )
    assert describe_overlap(own, row("log", 0.8, 1.0), "score").endswith("ahead, intervals apart")
    assert describe_overlap(own, row("near", 0.5, 0.61), "score").endswith("intervals overlap")
    assert describe_overlap(own, {"driver": "none", "score": None}, "score") == ""


@pytest.mark.slow
def test_other_scenes_leave_those_of_the_training_alone(
    run: Path, scenes: Path, tmp_path: Path
) -> None:
    (scenes / "one.json").rename(tmp_path / "other.json")
    (scenes / "two.json").unlink()
    scenes.rmdir()
    with pytest.raises(PuffervecError, match="no such folder or file"):
        run_evaluation(EvalRequest(str(run)))
    for path in (tmp_path / "cache" / "scenes").iterdir():
        path.unlink()
    run_evaluation(EvalRequest(str(run), env_flags=("--scenes", str(tmp_path / "other.json"))))
    assert len(list((tmp_path / "cache" / "scenes").glob("*.pvset"))) == 1


@pytest.mark.slow
def test_results_as_files(run: Path, tmp_path: Path) -> None:
    request = EvalRequest(
        str(run),
        json=tmp_path / "a.json",
        csv=tmp_path / "a.csv",
        episodes=2,
        env_flags=("--env.goal-radius-m", "3"),
    )
    run_evaluation(request)
    found = json.loads((tmp_path / "a.json").read_text())
    assert (
        found["env"] == "drive"
        and found["settings"]["goal_radius_m"] == 3.0
        and found["policy"] == str(run)
    )
    assert [row["scene"] for row in found["rows"]] == ["one.json", "two.json"]
    assert found["rows"][0]["episodes"] == 1  # the second one is the same
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert [float(row["score"]) for row in rows] == [row["score"] for row in found["rows"]]


@pytest.mark.slow
def test_pictures(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")

    def drawn(png: str, draw: str | None) -> list[str]:
        path = tmp_path / png
        run_evaluation(EvalRequest(str(run), png=path, draw=draw), parts=False)
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)
        return [file.name for file in files]

    assert drawn("most.png", None) == ["most.png"]
    assert drawn("two.png", "part:two") == ["two.png"]
    assert drawn("all", "all") == ["one.png", "two.png"]
    assert sorted(name[2:] for name in drawn("worst", "worst:5")) == ["-one.png", "-two.png"]
    assert [name[:3] for name in sorted(os.listdir(tmp_path / "worst"))] == ["01-", "02-"]


def test_which_parts_are_drawn() -> None:
    rows = [
        {"scene": f"{i}.json", "score": Interval(score, 0, 1)}
        for i, score in enumerate((0.9, 0.1, 0.5))
    ]
    found = Report([*rows, {"scene": "nobody.json", "score": None}], score="score", drawn="2.json")
    assert choose_parts(found, None, one=True) == ["2.json"]
    assert choose_parts(found, None, one=False) == ["1.json", "2.json", "0.json"]
    assert choose_parts(found, "worst:2", one=False) == ["1.json", "2.json"]
    assert choose_parts(found, "all", one=False) == ["0.json", "1.json", "2.json"]
    with pytest.raises(
        ConfigError, match="--draw part:9: there is no such part: use one of the 4 parts 0.json"
    ):
        choose_parts(found, "part:9", one=True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "--baseline"),
        (
            {"baseline": "stop", "suite": "reel"},
            r"--suite reel: the suites of drive are: generated \(held-out generated",
        ),
        (
            {"target": "probe", "baseline": "random", "suite": "realism"},
            "--suite realism: the suites of probe are: none",
        ),
        (
            {"baseline": "best"},
            "--baseline best: drive has random, stop, lane-follow, idm, log, expert",
        ),
        ({"baseline": "stop", "png": Path("/none/x.png")}, "no folder /none"),
        ({"baseline": "stop", "png": Path("x.png"), "draw": "all"}, "give a folder"),
        ({"baseline": "stop", "png": Path("x"), "draw": "best"}, "part:NAME, worst:N or all"),
        ({"baseline": "stop", "json": Path("/tmp")}, "--json /tmp: is a folder"),
        ({"target": "tag_grid", "baseline": "stop"}, "--baseline stop: tag_grid has random"),
        ({"target": "tag_grid", "baseline": "random", "env_flags": ("--scenes", "x")}, "--scenes"),
        (
            {"target": "tag_grid", "baseline": "random", "png": Path("x.png")},
            "tag_grid draws no pictures",
        ),
        ({"baseline": "stop", "env_flags": ("--scenes", "/none")}, "/none"),
        ({"baseline": "stop", "env_flags": ("--env.lanes", "99")}, "lanes is 99"),
        ({"baseline": "stop", "wosac": "2024"}, "--wosac 2024: add --suite realism"),
        (
            {"baseline": "stop", "suite": "idm", "submission": Path("x")},
            "--submission x: add --suite realism",
        ),
        (
            {"target": "probe", "baseline": "random", "wosac": "2024"},
            "--wosac 2024: probe has no such suite",
        ),
        (
            {"baseline": "stop", "suite": "realism", "submission": Path("/none/x")},
            "--submission /none/x: there is no folder /none",
        ),
        (
            {"baseline": "stop", "suite": "realism", "wosac": "2023"},
            "--wosac 2023: use one of 2025, 2024",
        ),
        ({"target": "probe"}, "--baseline"),
    ],
)
def test_bad_requests(changes: dict[str, Any], words: str) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(PuffervecError, match=words):
        run_evaluation(dataclasses.replace(EvalRequest("drive"), **changes))


def test_settings_that_the_policy_does_not_fit_are_refused(small: Small) -> None:
    with Trainer(small()) as trainer:
        path = trainer.save()
    with pytest.raises(PuffervecError, match="do not fit"):
        run_evaluation(EvalRequest(str(path), env_flags=("--env.obs-size", "9")))


def test_records_of_an_env_in_c(capsys: pytest.CaptureFixture[str]) -> None:
    run_evaluation(
        EvalRequest(
            "tag_grid", baseline="random", episodes=16, env_flags=("--env.num-taggers", "3")
        )
    )
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    head = next(line for line in lines if "episodes" in line)
    assert "tagged" in head
    assert [line[0] for line in lines if line and line[0] in ("tagger", "runner")] == [
        "tagger",
        "runner",
    ]


def test_infos_of_an_env_in_python(
    small: Small, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with Trainer(small(envs.Reports)) as trainer:
        path = trainer.save()
    request = EvalRequest(
        str(path), code=(trainer.config.target, None), json=tmp_path / "a.json", episodes=32
    )
    run_evaluation(request)
    assert "solved" in capsys.readouterr().out
    (row,) = json.loads((tmp_path / "a.json").read_text())["rows"]
    assert row["solved"] == 0.5 and row["nested/step"] == 2.0 and row["episodes"] == 32


def test_what_is_asked_for() -> None:
    args = (
        "runs/one --episodes 3 --env my:make --env.size 4 --scenes=here --env.hard --json a.json "
        "--png out --draw all --sample"
    )
    assert parse(args.split()) == EvalRequest(
        target="runs/one",
        episodes=3,
        png=Path("out"),
        draw="all",
        json=Path("a.json"),
        deterministic=False,
        code=("my:make", None),
        env_flags=("--env.size", "4", "--scenes=here", "--env.hard"),
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("--seed 1", "which run"),
        ("one --train.lr 1", "unknown argument --train.lr"),
        ("one --draw all", "--draw all needs --png"),
        ("one --episodes none", "--episodes: 'none' must be a whole number of at least 1"),
        ("one --json", "--json: expected one argument"),
    ],
)
def test_bad_flags(args: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(args.split())


@pytest.mark.parametrize(
    "args", ["cartpole --episodes 48", "drive --scenes generated:3 --env.max-steps 20"]
)
def test_progress_for_programs(
    args: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "PROGRESS_EVERY_S", 0.0)
    assert cli.main(["eval", *args.split(), "--baseline", "random", "--progress"]) == 0
    lines = [line.split() for line in capsys.readouterr().err.splitlines()]
    shares = [
        float(share) for word, act, share in lines if (word, act) == ("progress", "evaluating")
    ]
    assert (
        len(shares) == len(lines) > 10
        and shares == sorted(shares)
        and 0 == shares[0] < shares[-1] <= 1
    )
