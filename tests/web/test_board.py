# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from puffervec.errors import ConfigError
from puffervec.train.metrics.log import JsonLog
from puffervec.web.board import Board, name_of, ranked, told_of


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


def test_folders_without_runs_are_refused(tmp_path: Path) -> None:
    for path, words in ((tmp_path, "there is no run in"), (tmp_path / "none", "is no folder")):
        with pytest.raises(ConfigError, match=words):
            Board([path])


def test_what_it_says_of_a_run(tmp_path: Path) -> None:
    lines = [
        {"step": 10, "elapsed_s": 1.0, "span_s": 1.0, "time/env": 0.5, "time/update": 0.5, "charts/seconds_left": 60.0},
        {"step": 40, "elapsed_s": 4.0, "span_s": 3.0, "time/env": 0.1, "time/update": 0.9, "charts/agent_steps_per_s": 10.0},
    ]
    path = a_run(tmp_path / "run", *lines)
    (path / "checkpoints" / "000000000009").mkdir(parents=True)
    (path / "checkpoints" / "000000000010").mkdir()
    (path / "checkpoints" / ".removed-11").mkdir()
    (path / "plot.png").write_bytes(b"")
    (path / "secret.png").symlink_to("/etc/passwd")
    (path / "weights.safetensors").write_bytes(b"")
    (found,) = Board([path]).to_json()["runs"]
    assert found["time"] == {"env": 0.2, "copy": 0.0, "forward": 0.0, "update": pytest.approx(0.8), "log": 0.0, "other": 0.0}
    assert (found["step"], found["elapsed_s"], found["per_s"], found["left_s"]) == (40, 4.0, 10.0, 60.0)
    assert (found["checkpoint"], found["training"], found["env"]) == ("000000000010", True, "probe")
    assert found["files"] == ["metrics.jsonl", "plot.png"]


def test_metrics_have_units_and_an_order() -> None:
    assert told_of("losses/taggers/entropy") == {"unit": "nats", "meaning": "entropy of the policy", "usual": True}
    assert told_of("env/speed_mps") == {"unit": "m/s", "meaning": "", "usual": True}
    assert not told_of("usage/worker_cores")["usual"]
    assert ranked(["losses/value", "episode/return", "env/b", "env/a"]) == ["env/b", "env/a", "episode/return", "losses/value"]


def test_a_name_that_is_no_text_is_shown_as_it_can_be(tmp_path: Path) -> None:
    assert name_of(tmp_path / "a\udcffb") == "a\ufffdb"
