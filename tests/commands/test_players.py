# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/commands/players.py: actors of the user's as baselines, and which run `latest` is."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from puffervec.commands import cli
from puffervec.train import TrainConfig, Trainer
from tests.docs import pages

Small = Callable[..., TrainConfig]
DRIVERS = """
    import numpy as np

    class Idle:
        def __init__(self, seed=None):
            print(f"seed {seed}")

        def reset(self, vec):
            pass

        def act(self, obs, vec):
            return np.zeros(len(obs), np.int64)

    class Nobody:
        pass

    def broken():
        raise ValueError("no such driver")
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own_drivers.py").write_text(textwrap.dedent(DRIVERS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_drivers", raising=False)
    return tmp_path


def test_an_actor_of_the_users_is_a_baseline(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = (
        "eval cartpole --baseline own_drivers:Idle,random --episodes 3 --seed 5 --json out.json"
    )
    assert cli.main(command.split()) == 0
    printed, written = capsys.readouterr().out, json.loads((here / "out.json").read_text())
    assert "seed 5" in printed and "cartpole: own_drivers:Idle" in printed
    assert written["policy"] == "own_drivers:Idle" and len(written["tables"]["comparison"]) == 2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("own_drivers:Nobody", "a Nobody without reset and act"),
        ("own_drivers:broken", "cannot be made: ValueError: no such driver"),
        ("own_drivers:Missing", "has no 'Missing'"),
        ("no_drivers:Idle", "No module named 'no_drivers'"),
        ("nothing", "or use module:Class"),
    ],
)
def test_what_is_no_actor_is_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    assert cli.main(["eval", "cartpole", "--baseline", name]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_latest_says_which_run_it_is(
    small: Small, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Trainer(small("cartpole")) as trainer:
        trainer.collect()
        trainer.save()
    assert cli.main(["eval", "latest", "--scenes", "somewhere"]) == 2
    name = trainer.folder.name
    assert f"latest is runs/{name}, a run of cartpole" in capsys.readouterr().err
    beside = ["--baseline", "random", "--episodes", "1", "--env.max-episode-steps", "5"]
    assert cli.main(["eval", "latest", *beside]) == 0
    assert capsys.readouterr().err.count("latest is") == 1  # A baseline next to it loads no run.
    assert cli.main(["drive", "--resume", "latest"]) == 2
    assert (
        f"--resume latest (runs/{name}) is a run of 'cartpole', not of 'drive'"
        in capsys.readouterr().err
    )


@pytest.mark.slow
def test_the_driver_of_the_page_drives(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (pages.ROOT / "docs" / "drive.md").read_text(encoding="utf-8")
    (driver,) = (
        block.text for block in pages.blocks(page) if 'title="my_drivers.py"' in block.info
    )
    (here / "my_drivers.py").write_text(driver)
    command = "eval drive --baseline my_drivers:Straight,stop --scenes generated:4 --json out.json"
    assert cli.main(command.split()) == 0
    own, stop = json.loads((here / "out.json").read_text())["tables"]["comparison"]
    assert own["driver"] == "my_drivers:Straight" and own["goal"] > stop["goal"]
