# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from puffervec.errors import ConfigError
from puffervec.train import TrainConfig, Trainer, report

Small = Callable[..., TrainConfig]
REQUEST = report.EvalRequest("drive", None, None, None, None, 0, "cpu", True)


@pytest.fixture
def scene(tmp_path: Path) -> str:
    """A folder with one generated scene of the project's own."""
    import json

    from drive_env import generate

    folder = tmp_path / "scenes"
    folder.mkdir()
    (folder / "one.json").write_text(json.dumps(generate.generate_tree(5, 0)))
    return str(folder)


def ask(**changes: Any) -> report.EvalRequest:
    return dataclasses.replace(REQUEST, **changes)


def test_table_columns_line_up(capsys: pytest.CaptureFixture[str]) -> None:
    report.print_table("Title", ("name", "value"), [("a", "1"), ("long name", "22")])
    assert capsys.readouterr().out.splitlines() == [
        "",
        "Title",
        "  name       value",
        "  a              1",
        "  long name     22",
    ]


def test_summary_says_what_to_try(small: Small, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = small()
    with Trainer(config) as trainer:
        metrics = trainer.train()
        folder = trainer.folder
    report.print_summary(config, folder, metrics, final_eval=True)
    out = capsys.readouterr().out
    for word in ("agent-steps/s, whole run", "time split", f"puffer-train eval {folder}", f"--resume {folder}"):
        assert word in out
    assert "--total-timesteps 200" in out
    report.print_summary(config.merged({"train": {"time_limit_s": 30, "total_timesteps": 10**9}}), folder, metrics, False)
    assert "--time-limit-s 60" in capsys.readouterr().out
    report.print_summary(config, folder, {}, final_eval=True)  # stopped before the first update
    assert "Try next" in capsys.readouterr().out


def test_drive_end_to_end(small: Small, scene: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Train a few steps on one scene; evaluate the run and a baseline; draw it."""
    train = {"horizon": 8, "minibatch_size": 96, "total_timesteps": 200}
    config = small("drive", env={"scenes": scene, "num_agents": 24}, vec={"num_envs": 2}, train=train)
    with Trainer(config) as trainer:
        metrics = trainer.train()
        folder = trainer.folder
    assert metrics["step"] >= 200
    report.print_scenes(config)
    assert "scenes: 1" in capsys.readouterr().out
    assert report.run_evaluation(ask(target=str(folder))) == 0
    out = capsys.readouterr().out
    assert "score" in out and "total of 1 scenes" in out and ".json" in out
    assert report.run_evaluation(ask(target="drive", baseline="log", scenes=scene)) == 0
    assert "1.00" in capsys.readouterr().out
    pytest.importorskip("matplotlib")
    picture = tmp_path / "one.png"
    assert report.run_evaluation(ask(target=str(folder), png=picture), per_scene=False) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "--baseline"),
        ({"baseline": "best"}, "best"),
        ({"baseline": "stop", "png": Path("x.jpg")}, ".png"),
        ({"baseline": "stop", "png": Path("/none/x.png")}, "no folder /none"),
        ({"target": "tag_grid", "baseline": "stop"}, "only random"),
        ({"target": "tag_grid", "baseline": "random", "scenes": "x"}, "--scenes"),
        ({"baseline": "stop", "scenes": "/none"}, "/none"),
    ],
)
def test_bad_requests(changes: dict[str, Any], words: str) -> None:
    from puffervec.errors import PuffervecError

    with pytest.raises(PuffervecError, match=words):
        report.run_evaluation(ask(**changes))


def test_envs_without_scenes_say_nothing(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    report.print_scenes(small())
    assert capsys.readouterr().out == ""
    with pytest.raises(ConfigError):
        report.run_evaluation(ask(target="probe"))
