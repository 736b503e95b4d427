# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/wings/sweep/door.py; most tests let trials be told instead of run."""

from __future__ import annotations

import json
import math
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from puffervec.errors import ConfigError, MissingExtraError
from puffervec.train import TrainConfig
from puffervec.train.run.diverged import Diverged
from puffervec.wings.sweep import door as sweep
from puffervec.wings.sweep.door import Sweep

pytest.importorskip("optuna")

Small = Callable[..., TrainConfig]
RANGES = {"train.lr": "1e-4:1e-2:log", "train.update_epochs": "1/2"}


@pytest.fixture
def ask(small: Small, tmp_path: Path) -> Callable[..., Sweep]:
    def make(trials: int = 4, **changes: Any) -> Sweep:
        fields: dict[str, Any] = {
            "config": small(),
            "folder": tmp_path,
            "ranges": RANGES,
            "trials": trials,
            "name": "s",
        }
        return Sweep(**{**fields, **changes})

    return make


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the trials come to, in order: (score, seconds), an exception, or "stop" for Ctrl-C."""
    results: list[Any] = []

    def train(self: Sweep, number: int, values: Any) -> tuple[float, float]:
        result = results.pop(0)
        if result == "stop":
            self.request_stop()
            return math.nan, math.nan
        if isinstance(result, BaseException):
            raise result
        found: tuple[float, float] = result
        return found

    monkeypatch.setattr(Sweep, "_train", train)
    return results


def run(sweep: Sweep) -> dict[str, Any]:
    with sweep:
        return sweep.run()


@pytest.mark.slow
def test_real_trials(ask: Callable[..., Sweep], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    summary = run(ask(2))
    assert [t["run"] for t in summary["trials"]] == ["trials/0000", "trials/0001"]
    folder = tmp_path / "s"
    assert all((folder / t["run"] / "checkpoints").is_dir() for t in summary["trials"])
    first = summary["trials"][0]
    kept = json.loads((folder / "trials/0000/config.json").read_text())
    assert (
        kept["train"]["lr"] == first["values"]["train.lr"]
        and str(kept["train"]["update_epochs"]) in "12"
    )
    lines = (folder / "trials/0000/metrics.jsonl").read_text().splitlines()
    assert first["score"] == json.loads(lines[-1])["episode/return"] and first["cost_s"] > 0
    assert json.loads((folder / "summary.json").read_text()) == summary
    assert {p.name for p in folder.iterdir()} >= {"study.db", "pareto.png", "parallel.png"}


@pytest.mark.slow
def test_failures_are_recorded_and_the_sweep_goes_on(
    ask: Callable[..., Sweep], told: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    told += [(1.0, 2.0), Diverged("losses/value is not finite"), ValueError("an env's"), (3.0, 1.0)]
    summary = run(ask(4))
    said = capsys.readouterr().out.splitlines()
    assert summary["failed"] == [1, 2] and summary["best"] == 3 and summary["pareto"] == [3]
    assert [t["reason"] for t in summary["trials"][1:3]] == [
        "Diverged: losses/value is not finite",
        "ValueError: an env's",
    ]
    assert (
        len(said) == 4
        and "failed, Diverged" in said[1]
        and "episode/return 3.000 in 1.0 s" in said[3]
    )


@pytest.mark.slow
def test_a_sweep_that_was_stopped_goes_on_where_it_was(
    ask: Callable[..., Sweep], told: list[Any]
) -> None:
    told += [(1.0, 1.0), "stop"]
    assert [t["number"] for t in run(ask(3))["trials"]] == [0]
    told += [(2.0, 2.0), (3.0, 3.0)]
    with ask(3, config=None, ranges={}) as made:  # by its name alone
        cut_off = next(t for t in made._study.trials if t.number == 1)
        summary = made.run()
        assert not told and made.config.train.horizon == 8 and list(made.space) == list(RANGES)
    assert [t["number"] for t in summary["trials"]] == [0, 2, 3]
    assert summary["trials"][1]["values"] == cut_off.params  # what was cut off comes first
    assert run(ask(3))["trials"] == summary["trials"]  # as many as asked for are there


@pytest.mark.slow
def test_a_trial_whose_process_was_killed_is_done_again(
    ask: Callable[..., Sweep], told: list[Any]
) -> None:
    with ask() as made:
        trial = made._study._study.ask()
        values = sweep.draw(trial, made.space)
    told += [(1.0, 1.0)]
    assert [(t["number"], t["values"]) for t in run(ask(1))["trials"]] == [(1, values)]


@pytest.mark.slow
def test_other_settings_are_refused(
    ask: Callable[..., Sweep], told: list[Any], small: Small
) -> None:
    told += [(1.0, 1.0)]
    run(ask(1))
    for change, words in (
        ({"config": small(train={"gamma": 0.5})}, r"\(train.gamma\)"),
        ({"ranges": {"train.lr": "1:2"}}, "space.train.lr, space.train.update_epochs"),
        ({"metric": "env/x"}, "metric"),
    ):
        with pytest.raises(ConfigError, match=words):
            ask(1, **change)


@pytest.mark.slow
def test_machines_with_folders_of_their_own(
    ask: Callable[..., Sweep], told: list[Any], tmp_path: Path
) -> None:
    storage = f"journal:///{tmp_path}/s.log"
    told += [(1.0, 1.0), (2.0, 1.0)]
    one = run(ask(1, storage=storage, folder=tmp_path / "one"))
    other = run(ask(2, storage=storage, folder=tmp_path / "other", config=None, ranges={}))
    assert other["trials"][0] == one["trials"][0] and [t["run"] for t in other["trials"]] == [
        "trials/0000",
        "trials/0001",
    ]
    host = socket.gethostname()
    assert [t["where"] for t in other["trials"]] == [
        f"{host}:{tmp_path}/one/s/trials/0000",
        f"{host}:{tmp_path}/other/s/trials/0001",
    ]
    assert (
        run(ask(1, storage=storage, folder=tmp_path / "one"))["best"] == 1
    )  # The results of both, from either.
    with pytest.raises(ConfigError, match=r"other settings \(target, env.*\)"):
        ask(storage=storage, folder=tmp_path / "third", config=TrainConfig.of("cartpole"))


def test_of_two_that_begin_at_the_same_moment_one_is_refused(
    ask: Callable[..., Sweep], told: list[Any]
) -> None:
    with ask() as made:
        made._study._study.set_user_attr("plan", {**made.plan, "metric": "env/x"})
        with pytest.raises(ConfigError, match=r"other settings \(metric\)"):
            made.run()


@pytest.mark.slow
def test_the_results_are_printed(
    ask: Callable[..., Sweep], told: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    told += [(float(i), 1.0) for i in range(22)] + [ValueError("no")]
    sweep.print_results(run(ask(23)), TrainConfig.of("probe"))
    out = capsys.readouterr().out
    assert (
        "23 trials, 1 of them failed; best 21, Pareto front [21]" in out
        and "... and 2 more: see summary.json" in out
    )
    rows = [
        line.split()
        for line in out.splitlines()
        if "trials/00" in line and "puffer-train" not in line
    ]
    assert [row[0] for row in rows] == [str(i) for i in range(21, 1, -1)] and rows[0][1:3] == [
        "21.000",
        "1.0",
    ]
    assert "  puffer-train probe --train.lr " in out and "--train.update-epochs " in out
    sweep.print_results(
        {"trials": [], "best": None, "failed": [], "pareto": [], "running": 1},
        TrainConfig.of("probe"),
    )
    assert (
        capsys.readouterr().out
        == "\n0 trials, 0 of them failed, 1 running; best None, Pareto front []\n"
    )


@pytest.mark.slow
def test_where_nothing_works(ask: Callable[..., Sweep], told: list[Any], tmp_path: Path) -> None:
    told += [ValueError(str(i)) for i in range(9)]
    with pytest.raises(sweep.SweepError, match="all 5 trials failed, the last one: ValueError: 4"):
        run(ask(9))
    assert len(json.loads((tmp_path / "s" / "summary.json").read_text())["failed"]) == 5


@pytest.mark.slow
def test_a_run_without_the_metric(ask: Callable[..., Sweep]) -> None:
    with pytest.raises(sweep.SweepError, match="the run has no finite env/none; its metrics: "):
        run(ask(1, metric="env/none"))


def test_bad_input_leaves_nothing(
    ask: Callable[..., Sweep], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"config": None}, "the sweep .* does not exist"),
        ({"config": None, "name": None}, "which env"),
        ({"storage": "sqlite://a"}, "give journal:///FILE.log, sqlite:///FILE.db, or a server"),
        ({"storage": "sqlite:///none/there.db"}, "the folder .* does not exist"),
        ({"config": TrainConfig.of("probe", env={"num_agents": -1})}, "num_agents is -1"),
        ({"config": TrainConfig.of(lambda: gymnasium.make("CartPole-v1"))}, "could not be resumed"),
    ]
    for change, words in cases:
        with pytest.raises(ConfigError, match=words):
            ask(**change)
    assert not list(tmp_path.iterdir())
    (tmp_path / "text.db").write_text("no database" * 100)
    with pytest.raises(ConfigError, match="cannot open the study"):
        ask(storage=f"sqlite:///{tmp_path}/text.db")
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"puffervec\[sweep\]"):
        ask()


@pytest.mark.slow
def test_the_front(ask: Callable[..., Sweep], told: list[Any]) -> None:
    told += [
        (1.0, 5.0),
        (2.0, 1.0),
        (1.5, 3.0),
        (3.0, 4.0),
        (2.5, 4.0),
        (-1.0, 0.5),
        (0.0, 0.75),
    ]  # a score of 0 is one
    summary = run(ask(len(told)))
    assert summary["pareto"] == [5, 6, 1, 3] and summary["best"] == 3
