# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train plan` (puffervec/wings/plan/door.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from puffervec.commands import cli
from puffervec.train import Trainer


@pytest.mark.slow
def test_of_an_env(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        cli.main(
            [
                "plan",
                "cartpole",
                "--batch",
                "1",
                "--policy.hidden",
                "16",
                "16",
                "--policy.memory",
                "mingru",
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert (
        "policy default: MLPPolicy, 1 rows" in out
        and "aten.addmm.default" in out
        and "bound of live bytes" in out
    )
    assert (
        out.rstrip().endswith("plan.svg: written") and "<svg" in (tmp_path / "plan.svg").read_text()
    )


@pytest.mark.slow
def test_of_a_run_as_json(small: Any, capsys: pytest.CaptureFixture[str]) -> None:
    config = small("probe", env={"num_agents": 2}, policy={"map": ("a=0", "b=1")})
    with Trainer(config) as trainer:
        trainer.train()
        folder = trainer.folder
    capsys.readouterr()
    assert cli.main(["plan", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (
        set(found) == {"a", "b"}
        and found["a"]["arena"]["bytes"] >= found["a"]["arena"]["bound"] > 0
    )
    assert any(tensor["shape"][:1] == [64] for tensor in found["a"]["tensors"])
    assert {file.name for file in folder.glob("*.svg")} == {"plan-a.svg", "plan-b.svg"}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["cartpole", "--out", "nowhere/plan.svg"], "there is no folder"),
        (["cartpole", "--out", "plan.png"], "the name must end in .svg"),
        (["cartpole", "--batch", "0"], "--batch"),
        (["cartpole", "--fast"], "--fast"),
    ],
)
def test_bad_input_is_one_line(
    args: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["plan", *args]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
