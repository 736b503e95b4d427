# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Checkpoints are evaluated while a run trains: the best is kept, failures are noted, and a run
that no longer improves ends. (puffervec/wings/evaluations/door.py, puffervec/system/background.py)
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from puffervec.commands import cli
from puffervec.errors import ConfigError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.metrics.log import read_metrics
from puffervec.wings.evaluations import door
from puffervec.wings.evaluations import evaluations as module
from puffervec.wings.evaluations.door import check
from puffervec.wings.evaluations.evaluations import BEST, Evaluations

# In place of `puffer-train eval`: takes the next line of scores.txt, and writes what it says.
FAKE = """
import json, math, pathlib, sys
scores = pathlib.Path(sys.argv[1])
first, *rest = scores.read_text().split()
scores.write_text(" ".join(rest))
if first == "fail":
    sys.exit("error: no such thing")
if first == "babble":
    sys.exit("x" * 1000)
out = sys.argv[sys.argv.index("--json") + 1]
row = {"part": "total", "score": float(first), "goal": 0.5, "name": "x", "none": None}
if first == "0.125":  # As of an env without an evaluation of its own.
    results = {"score": "", "rows": [{"return": 0.125, "length": math.inf}], "total": {}}
else:
    results = {"score": "score", "rows": [{"score": 0.0}], "total": row}
pathlib.Path(out).write_text(json.dumps(results))
"""


class Fixture:
    """Evaluations of a run folder, with scores instead of processes that take time."""

    def __init__(self, folder: Path, scores: Sequence[str], **settings: Any) -> None:
        self.folder, self.notes, self.now = folder, [], 0.0
        (folder / "scores.txt").write_text(" ".join(scores))
        config = TrainConfig.of("drive", eval={"every_s": 10.0, **settings})
        self.made = Evaluations(config, folder, self.notes.append, lambda: self.now)

    def evaluate(self, step: int) -> dict[str, float]:
        """Evaluate a checkpoint of that many agent-steps, and wait for the end."""
        source = self.folder / "checkpoints" / str(step)
        source.mkdir(parents=True)
        (source / "manifest.json").write_text(str(step))
        self.now += 9.0
        assert not self.made.due()
        self.now += 1.0
        assert self.made.due()
        self.made.start(source, step)
        assert not self.made.due()
        (source / "manifest.json").unlink()  # The run may remove it at once.
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if found := self.made.poll():
                return found
            if self.made._process is None:
                return {}
            time.sleep(0.01)
        raise AssertionError("the evaluation did not end")

    def best(self) -> str:
        return (self.folder / BEST / "manifest.json").read_text()


Make = Callable[..., Fixture]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    script = tmp_path / "fake.py"
    script.write_text(FAKE)

    def make(*scores: str, **settings: Any) -> Fixture:
        words = [sys.executable, str(script), str(tmp_path / "scores.txt")]
        monkeypatch.setattr(module, "background_command", lambda nice: words)
        return Fixture(tmp_path, scores, **settings)

    return make


def test_the_best_checkpoint_is_kept(make: Make) -> None:
    run = make("0.5", "0.7", "0.6")
    assert (run.made.best, run.made.best_step, run.made.since) == (None, 0, 0)
    assert run.evaluate(100) == {"eval/score": 0.5, "eval/goal": 0.5, "eval/of_step": 100.0}
    assert run.best() == "100"
    run.evaluate(200)
    assert run.best() == "200"
    run.evaluate(300)
    assert run.best() == "200"
    assert (run.made.best, run.made.best_step, run.made.since) == (0.7, 200, 1)
    assert "the best so far" in run.notes[1] and "the best is 0.700 of 200" in run.notes[2]
    assert not run.made.exhausted


def test_a_run_without_progress_ends(make: Make) -> None:
    run = make("0.5", "0.4", "0.5", patience=2)
    run.evaluate(1)
    run.evaluate(2)
    assert not run.made.exhausted
    run.evaluate(3)  # An equal score is not better.
    assert run.made.exhausted and "no better checkpoint in 2 evaluations" in run.notes[-1]
    assert make(patience=1).made.exhausted and not make(patience=3).made.exhausted


def test_several_suites_count_by_their_mean(make: Make) -> None:
    run = make("0.5", "0.7", "0.9", "0.2", suites=["self-play", "idm"])
    found = run.evaluate(1)
    assert found["eval/self-play/score"] == 0.5 and found["eval/idm/score"] == 0.7
    assert run.made.best == pytest.approx(0.6)
    run.evaluate(2)
    assert run.made.best == pytest.approx(0.6) and run.made.since == 1


def test_another_metric_may_rate_checkpoints(make: Make) -> None:
    run = make("0.5", metric="goal")
    run.evaluate(1)
    assert run.made.best == 0.5
    wrong = make("0.5", metric="name")
    assert wrong.evaluate(2) == {}
    assert "eval.metric is 'name': the evaluation has score, goal" in wrong.notes[0]


def test_an_env_without_an_evaluation_is_rated_by_its_return(make: Make) -> None:
    """What is not finite is no metric."""
    run = make("0.125")
    assert run.evaluate(1) == {"eval/return": 0.125, "eval/of_step": 1.0}
    assert run.made.best == 0.125


def test_a_failure_is_noted_and_the_next_checkpoint_is_evaluated(make: Make) -> None:
    """The note has the end of the output."""
    run = make("fail", "0.5")
    assert run.evaluate(1) == {}
    assert "evaluation of 1 agent-steps failed: error: no such thing" in run.notes[0]
    assert run.evaluate(2)["eval/score"] == 0.5
    babbling = make("babble")
    assert babbling.evaluate(3) == {} and babbling.notes[0].count("x") == 400


def test_a_resumed_run_knows_its_best(make: Make) -> None:
    first = make("0.8", "0.1")
    first.evaluate(1)
    first.evaluate(2)
    again = make("0.7")
    assert (again.made.best, again.made.best_step, again.made.since) == (0.8, 1, 1)
    again.evaluate(3)
    assert again.best() == "1" and again.made.since == 2


def test_checkpoints_on_another_disk_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "manifest.json").write_text("1")
    monkeypatch.setattr(os, "link", refuse)
    module._link_folder(tmp_path / "one", tmp_path / "two")
    assert (tmp_path / "two" / "manifest.json").read_text() == "1"


def test_closing_ends_what_is_under_way(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had a quarter of a core next to the run: the kernel weighs a step of niceness by 1.25."""
    run = make("0.5")
    script = run.folder / "endless.py"
    script.write_text("import time\nwhile True: time.sleep(1)\n")

    def command(nice: int) -> list[str]:
        assert 1 / (1 + 1.25**nice) == pytest.approx(0.25, abs=0.01)
        return [sys.executable, str(script)]

    monkeypatch.setattr(module, "background_command", command)
    source = run.folder / "checkpoints" / "1"
    source.mkdir(parents=True)
    run.made.start(source, 1)
    process = run.made._process
    assert process is not None
    run.made.close()
    assert process.returncode is not None and not (run.folder / "evaluations/checkpoint").exists()
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"suites": ["moon"]}, "eval.suites has 'moon': the suites of drive are generated, real"),
        ({"every_s": -1.0}, "eval.every_s is -1.0: must be at least 0"),
        ({"patience": -1}, "eval.patience is -1"),
    ],
)
def test_wrong_settings_are_one_line(settings: dict[str, Any], message: str) -> None:
    config = TrainConfig.of("drive", eval={"every_s": 5.0, **settings})
    with pytest.raises(ConfigError, match=message):
        config.check()
        check(config)


def test_an_env_that_cannot_be_imported_is_refused() -> None:
    from tests.train import envs

    config = TrainConfig.of(lambda: envs.Guess(), eval={"every_s": 5.0})
    with pytest.raises(ConfigError, match="evaluations run in other processes, which cannot"):
        check(config)


# ---- in a run ------------------------------------------------------------------------------------


class Ending:
    """Evaluations that end a run after two updates."""

    def __init__(self) -> None:
        self.polls, self.started = 0, []
        self.exhausted = False

    def due(self) -> bool:
        return not self.started

    def start(self, checkpoint: Path, step: int) -> None:
        assert checkpoint.is_dir()
        self.started.append(step)

    def poll(self) -> dict[str, float]:
        self.polls += 1
        self.exhausted = self.polls == 2
        return {"eval/score": 0.25} if self.exhausted else {}

    def close(self) -> None:
        pass


@pytest.mark.slow
def test_metrics_are_logged_and_the_run_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Ending()
    monkeypatch.setattr(
        "puffervec.wings.evaluations.door.evaluations", lambda config, folder, note: made
    )
    config = TrainConfig.of(
        "cartpole",
        eval={"every_s": 5.0},
        train={"total_timesteps": 10**9, "time_limit_s": 0.0, "horizon": 8},
        vec={"num_envs": 4, "backend": "serial"},
        log={"folder": tmp_path, "dashboard": "off", "name": "one"},
    )
    with Trainer(config) as trainer:
        trainer.train()
        assert trainer.counters.updates == 2
    assert made.started == [32]
    lines = list(read_metrics(tmp_path / "one" / "metrics.jsonl"))
    assert [line.get("eval/score") for line in lines] == [None, 0.25]


@pytest.mark.slow
def test_a_run_on_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["cartpole", "--time-limit-s", "20", "--eval.every-s", "2", "--eval.episodes", "4"]
    folder = ["--log.folder", str(tmp_path), "--run-name", "one"]
    assert cli.main(["train", *words, *folder]) == 0
    out = capfd.readouterr().out
    assert "the best so far" in out
    lines = list(read_metrics(tmp_path / "one" / "metrics.jsonl"))
    assert sum("eval/return" in line or "eval/score" in line for line in lines) >= 2
    state = json.loads((tmp_path / "one" / "evaluations" / "best.json").read_text())
    assert state["agent_steps"] > 0
    assert cli.main(["eval", str(tmp_path / "one" / "best"), "--episodes", "4"]) == 0
    assert not (tmp_path / "one" / "evaluations" / "checkpoint").exists()


def test_the_door_imports_nothing_of_the_wing_before_it_is_called() -> None:
    assert "Evaluations" not in vars(door)


def test_settings_survive_a_checkpoint() -> None:
    config = TrainConfig.of("drive", eval={"every_s": 30.0, "suites": ["idm"], "patience": 3})
    again = TrainConfig.of("drive").merged(config.tables())
    assert again.eval == config.eval
    assert dataclasses.replace(again, eval=TrainConfig.of("drive").eval) == TrainConfig.of("drive")
