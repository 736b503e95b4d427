# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from puffervec.errors import ConfigError
from puffervec.train.config.target import training_of
from puffervec.train.metrics.keys import METRICS
from puffervec.train.metrics.log import JsonLog
from puffervec.viewing.web.board import (
    Board,
    Run,
    describe_metric,
    name_of,
    newest_checkpoint,
    rank_metrics,
    read_json,
    time_shares,
)
from puffervec.viewing.web.follow import Follower


def a_run(path: Path, *lines: dict[str, float]) -> Path:
    path.mkdir(parents=True)
    log = JsonLog(path / "metrics.jsonl", {"env": "probe"})
    for line in lines:
        log.write(line)
    log.close()
    return path


def test_it_finds_runs_and_new_ones(tmp_path: Path) -> None:
    one, two = a_run(tmp_path / "runs" / "one"), a_run(tmp_path / "elsewhere")
    (tmp_path / "runs" / "no-run").mkdir()
    (tmp_path / "runs" / "link").symlink_to(two)
    board = Board([two, tmp_path / "runs"])
    assert [run.path for run in board.runs] == [two, one]
    three = a_run(tmp_path / "runs" / "three", {"step": 1, "elapsed_s": 1, "env/a": 2})
    board.refresh()
    assert [run.path for run in board.runs] == [two, one, three]
    assert board.to_json()["runs"][2]["keys"] == ["env/a"]


def test_a_folder_without_a_run_is_watched_until_there_is_one(tmp_path: Path) -> None:
    for folder in (tmp_path / "holder", tmp_path / "itself"):
        folder.mkdir()
    board = Board([tmp_path / "holder", tmp_path / "itself"])
    assert board.to_json()["runs"] == [] and board.to_json()["folders"] == ["holder", "itself"]
    first = a_run(tmp_path / "holder" / "first")
    (tmp_path / "itself" / "run.json").write_text("{}")
    board.refresh()
    assert [run.path for run in board.runs] == [first, tmp_path / "itself"]
    with pytest.raises(ConfigError, match="none does not exist: give run folders"):
        Board([tmp_path / "none"])


def saved(run: Path, name: str, **manifest: object) -> None:
    (run / "checkpoints" / name).mkdir(parents=True)
    (run / "checkpoints" / name / "manifest.json").write_text(json.dumps(manifest))


def test_the_newest_checkpoint_is_the_one_saved_last(tmp_path: Path) -> None:
    """A run that went on from its first checkpoint has left one with more steps; and names that are
    no numbers do no harm.
    """
    path = a_run(tmp_path / "run")
    run = Run(path, "run", Follower(path / "metrics.jsonl"))
    saved(path, "000000000100", sequence=1)
    saved(path, "000000000900", sequence=2)
    assert run.checkpoint() == "000000000900"
    saved(path, "000000000300", sequence=3)
    (path / "checkpoints" / "²").mkdir()
    (path / "checkpoints" / "000000009999").mkdir()  # without a manifest
    assert run.checkpoint() == newest_checkpoint(path) == "000000000300"
    saved(path, "000000000300-1", sequence=4)
    assert run.checkpoint() == "000000000300-1"
    saved(path, "000000000500", sequence=9)
    saved(path, "000000000500-1", sequence=5)
    assert run.checkpoint() == "000000000500"
    (path / "checkpoints" / "000000000100" / "manifest.json").write_text('{"sequence": 99}')
    assert run.checkpoint() == "000000000500"  # The same names: they are not read again.
    assert newest_checkpoint(path) == "000000000100"
    for old in ("1", "20"):  # of a version that wrote no sequence
        saved(tmp_path / "old", old)
    assert newest_checkpoint(tmp_path / "old") == "20"
    saved(tmp_path / "old", "5", sequence=1)
    assert newest_checkpoint(tmp_path / "old") == "5"


def test_of_very_many_checkpoints_and_runs_the_last_are_looked_at(tmp_path: Path) -> None:
    saved(tmp_path / "run", "1", sequence=2)
    saved(tmp_path / "run", "2", sequence=1)
    for steps in range(3, 1001):
        (tmp_path / "run" / "checkpoints" / str(steps)).mkdir()
    assert newest_checkpoint(tmp_path / "run") == "1"
    (tmp_path / "run" / "checkpoints" / "1001").mkdir()
    assert newest_checkpoint(tmp_path / "run") == "2"
    for number in range(101):
        folder = tmp_path / "runs" / str(number)
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}")
        os.utime(folder, (number, number))
    assert [run.name for run in Board([tmp_path / "runs"]).runs] == [str(n) for n in range(1, 101)]


@pytest.mark.parametrize(
    ("line", "age_s", "training"),
    [({}, 14, True), ({}, 17, False), ({"span_s": 10.0}, 48, True), ({"span_s": 10.0}, 53, False)],
)
def test_a_run_trains_until_no_line_has_come_for_long(
    tmp_path: Path, line: dict[str, float], age_s: float, training: bool
) -> None:
    """For five spans of its last line, and for 15 s."""
    path = a_run(tmp_path / "run", {"step": 1.0, "elapsed_s": 1.0} | line)
    written = time.time() - age_s
    os.utime(path / "metrics.jsonl", (written, written))
    (found,) = Board([path]).to_json()["runs"]
    assert found["training"] is training and found["age_s"] == pytest.approx(age_s, abs=5)


def test_a_run_without_metrics_does_not_train(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    (found,) = Board([tmp_path]).to_json()["runs"]
    assert (found["training"], found["age_s"]) == (False, None)


def test_parts_of_the_time_are_weighted_by_spans(tmp_path: Path) -> None:
    """Spans that are empty or negative do not count, and shares are clipped."""
    lines = [
        {"elapsed_s": elapsed, "time/env": env, "time/update": 1.2, "time/copy": -1.2}
        for elapsed, env in ((1.0, 0.5), (1.0, 0.9), (0.5, 0.9), (4.5, 0.1))
    ]
    metrics = Follower(a_run(tmp_path / "run", *lines) / "metrics.jsonl")
    metrics.poll()
    found = time_shares(metrics)
    assert (found["env"], found["update"], found["copy"]) == (pytest.approx(0.18), 1.0, -1.0)


@pytest.mark.parametrize("seconds", [1e299, -1e299, 1e-320])
def test_numbers_of_any_size_leave_json_that_can_be_read(tmp_path: Path, seconds: float) -> None:
    lines = [
        {"step": n * seconds, "elapsed_s": n * seconds, "span_s": seconds, "time/env": seconds}
        for n in range(1, 700)
    ]
    board = Board([a_run(tmp_path / "run", *lines)])
    json.dumps(board.to_json(), allow_nan=False)
    json.dumps(board.runs[0].metrics.curves(["time/env"]), allow_nan=False)


def test_what_is_no_json_is_left_out_of_tables(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"a": NaN, "b": [Infinity, 1e999, -1e999, 1.5], "c": 2}')
    assert read_json(tmp_path, "run.json") == {"a": None, "b": [None, None, None, 1.5], "c": 2}
    for size, taken in ((4 << 20, True), ((4 << 20) + 1, False)):
        (tmp_path / "run.json").write_text('{"a": 1}'.ljust(size))
        assert read_json(tmp_path, "run.json") == ({"a": 1} if taken else {})


def test_what_it_says_of_a_run(tmp_path: Path) -> None:
    lines = [
        {
            "step": 10,
            "elapsed_s": 1.0,
            "span_s": 1.0,
            "time/env": 0.5,
            "time/update": 0.5,
            "charts/seconds_left": 60.0,
        },
        {
            "step": 40,
            "elapsed_s": 4.0,
            "span_s": 3.0,
            "time/env": 0.1,
            "time/update": 0.9,
            "charts/agent_steps_per_s": 10.0,
        }
        | {"env/score": 0.5, "episode/return": 7.0},
    ]
    path = a_run(tmp_path / "run", *lines)
    saved(path, "000000000009", sequence=1)
    saved(path, "000000000010", sequence=2)
    (path / "checkpoints" / ".removed-11").mkdir()
    (path / "plot.png").write_bytes(b"")
    (path / "secret.png").symlink_to("/etc/passwd")
    (path / "weights.safetensors").write_bytes(b"")
    (found,) = Board([path]).to_json()["runs"]
    assert found["time"] == {
        "env": 0.2,
        "copy": 0.0,
        "forward": 0.0,
        "update": pytest.approx(0.8),
        "log": 0.0,
        "other": 0.0,
    }
    assert (found["step"], found["elapsed_s"], found["per_s"], found["left_s"]) == (
        40,
        4.0,
        10.0,
        60.0,
    )
    assert (found["score"], found["return"]) == (0.5, 7.0)
    assert (found["checkpoint"], found["training"], found["env"]) == ("000000000010", True, "probe")
    assert found["files"] == ["metrics.jsonl", "plot.png"]


def test_it_says_what_envs_say_of_their_own_metrics(tmp_path: Path) -> None:
    """Also where a run is of an env that is not installed here."""
    for number, env in enumerate(("drive", "none such", "")):
        (tmp_path / str(number)).mkdir()
        log = JsonLog(tmp_path / str(number) / "metrics.jsonl", {"env": env})
        log.write({"step": 1, "elapsed_s": 1, "env/score": 0.5, "env/unknown": 1})
        log.close()
    metrics = Board([tmp_path]).to_json()["metrics"]
    meanings = training_of("drive").meanings
    assert metrics["env/score"]["meaning"] == meanings["score"] != ""
    assert metrics["env/unknown"]["meaning"] == ""


def test_metrics_have_units_and_an_order() -> None:
    assert describe_metric("losses/taggers/entropy") == {
        "unit": "nats",
        "meaning": "entropy of the policy",
        "usual": True,
    }
    own = describe_metric("env/speed_mps", {"speed_mps": "mean speed"})
    assert own == {"unit": "m/s", "meaning": "mean speed", "usual": True}
    assert describe_metric("env/speed_mps") == {"unit": "m/s", "meaning": "", "usual": True}
    assert not describe_metric("usage/worker_cores")["usual"]
    assert describe_metric("eval/held-out/score")["usual"]
    assert not describe_metric("eval/episodes")["usual"]
    assert rank_metrics(["losses/value", "episode/return", "env/b", "env/a", "eval/score"]) == [
        "eval/score",
        "env/b",
        "env/a",
        "episode/return",
        "losses/value",
    ]


def test_a_name_that_is_no_text_is_shown_as_it_can_be(tmp_path: Path) -> None:
    assert name_of(tmp_path / "a\udcffb") == "a\ufffdb" and name_of(Path()) == Path.cwd().name


def test_meanings_say_all_when_they_stand_alone() -> None:
    """A page shows them without the text of docs/run-folder.md around them."""
    for key, metric in METRICS.items():
        assert not metric.meaning.endswith("since") and "see below" not in metric.meaning, key
        assert "since," not in metric.meaning, key
