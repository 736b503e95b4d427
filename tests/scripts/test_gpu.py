# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""scripts/gpu.py without a GPU: steps, time limits, results; and its answer where there is no CUDA."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from bench import common
from scripts import gpu
from tests.helpers import eventually

GPU = {"name": "NVIDIA X9", "memory_bytes": 8 * 2**30, "cuda": "13.0"}


def _python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_cuda_it_says_so_in_one_line_and_exits_2() -> None:
    done = subprocess.run([sys.executable, str(Path(gpu.__file__))], capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1 and "CUDA" in done.stderr


def test_the_steps_are_tests_benchmarks_and_both_trainings(tmp_path: Path) -> None:
    found = {step.name: step for step in gpu.steps(tmp_path, 60.0)}
    assert list(found)[0] == "tests" and "gpu" in found["tests"].command
    for name, script in (("training", "train.py"), ("bottlenecks", "bottlenecks.py"), ("host", "host.py")):
        words = found[name].command
        assert words[1].endswith(f"bench/{script}") and "cuda" in words and Path(words[1]).exists()
    for env in ("tag_grid", "drive"):
        words = " ".join(found[f"train {env}"].command)
        assert f"train {env} --device cuda --time-limit-s 60 " in words
        assert "--policy torch --device cuda" in " ".join(found[f"steps per second, {env}"].command)
    assert sum(step.limit_s for step in found.values()) <= 20 * 60


def test_the_training_flags_are_known_to_the_command_line(tmp_path: Path) -> None:
    from puffervec.train.verbs.train import parse_train

    for env in ("tag_grid", "drive"):
        step = next(step for step in gpu.steps(tmp_path, 60.0) if step.name == f"train {env}")
        words = list(step.command)
        config, _ = parse_train(words[words.index("train") + 1 :])
        assert config.target == env and config.train.device == "cuda" and config.train.time_limit_s == 60.0
        assert not config.train.final_eval


def test_each_step_leaves_its_status_and_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [
        gpu.Step("fine", _python("print('hello')"), 60.0, lambda: {"rate": 1}),
        gpu.Step("broken", _python("print('oh no'); raise SystemExit(3)"), 60.0),
        gpu.Step("empty", _python("pass"), 60.0, lambda: gpu.read_json(tmp_path / "gone.json")),
    ]
    entries = gpu.run_all(steps, tmp_path, 600.0)
    assert [entry["status"] for entry in entries] == ["ok", "failed", "failed"]
    assert entries[0]["results"] == {"rate": 1} and entries[0]["last_line"] == "hello"
    assert entries[1]["exit_status"] == 3 and entries[1]["output"] == ["oh no"]
    assert "gone.json" in entries[2]["reason"]
    assert "fine ... ok" in capsys.readouterr().out
    assert entries[0]["command"].startswith("python -c"), "no folder of this machine"


def test_a_step_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = f"""
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path({str(pids)!r}).write_text(str(child.pid))
time.sleep(600)
"""
    entry = gpu.run_step(gpu.Step("slow", _python(code), 3.0), 600.0, tmp_path / "log")
    assert entry["status"] == "timed out"
    eventually(lambda: not _alive(int(pids.read_text())), "the child of a step to end")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]


def test_no_step_is_begun_after_the_time_is_up(tmp_path: Path) -> None:
    entry = gpu.run_step(gpu.Step("late", _python("raise SystemExit(3)"), 60.0), 0.0, tmp_path / "log")
    assert entry["status"] == "left out" and not (tmp_path / "log").exists()


def test_a_training_run_is_summarized_from_its_metrics(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "drive-1"
    folder.mkdir(parents=True)
    lines: list[dict[str, Any]] = [{"schema_version": 1}]
    for i in range(10):
        lines.append(
            {"step": 100 * i, "charts/agent_steps_per_s": 1.0 if i < 2 else 50.0 + i, "time/env": 0.25, "env/score": i / 10}
        )
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = gpu.collect_training(tmp_path / "runs")
    assert found["updates"] == 10 and found["agent_steps"] == 900
    assert found["medians"] == {"charts/agent_steps_per_s": 55.5, "time/env": 0.25}, "the first fifth is warm-up"
    assert found["last"] == {"env/score": 0.9}
    with pytest.raises(ValueError, match="no metrics"):
        gpu.summarize_training([])


@pytest.mark.parametrize("status, code", [("ok", 0), ("failed", 1)])
def test_results_are_named_after_the_gpu(
    status: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "cuda_facts", lambda: GPU)
    monkeypatch.setattr(gpu, "run_all", lambda *arguments: [{"name": "tests", "status": status}])  # and nothing else ran
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    assert gpu.main([]) == code
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("nvidia-x9-20") and path.suffix == ".json"
    document = json.loads(path.read_text())
    assert document["machine"]["gpu"]["name"] == "NVIDIA X9" and document["results"][0]["status"] == status
    assert [one["met"] for one in document["criteria"]] == [False, False, False, status == "ok"]
    out = capsys.readouterr().out
    assert "8 GiB" in out and "NOT MET: drive" in out


def test_what_is_asked_of_a_gpu_is_judged_by_what_the_steps_found() -> None:
    def entries(drive: float, tag: float, us: float) -> list[dict[str, Any]]:
        rates = {name: {"agent_steps_per_s": {"median": rate}} for name, rate in (("drive", drive), ("tag_grid", tag))}
        host = [{"host": {"median": us}, "target": 60.0, "met": us < 60.0}]
        return [
            {"name": "tests", "status": "ok", "results": None},
            {"name": "training", "status": "ok", "results": {"speed": rates}},
            {"name": "host", "status": "ok", "results": host},
        ]

    assert [one["met"] for one in gpu.criteria(entries(1e6, 1e7, 59.0))] == [True] * 4
    assert [one["met"] for one in gpu.criteria(entries(9e5, 9e6, 61.0))] == [False, False, False, True]
    assert [one["found"] for one in gpu.criteria(entries(1.0, 2.0, 3.0))] == [1.0, 2.0, 3.0, True]


def test_the_benchmarks_know_the_flags_that_they_are_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from bench import bottlenecks, host, train

    mains = {"training": train.main, "bottlenecks": bottlenecks.main, "host": host.main}
    for step in gpu.steps(tmp_path, 60.0):
        if step.name in mains:
            # Without CUDA, a device that is not there is all that they have to object to.
            words = ["abacus" if word == "cuda" else word for word in step.command[2:]]
            assert mains[step.name](words) == 2 and "abacus" in capsys.readouterr().err


@pytest.mark.gpu
def test_facts_of_the_gpu_are_those_of_torch() -> None:
    facts = gpu.cuda_facts()
    assert facts is not None and facts["name"] == torch.cuda.get_device_name(0) and facts["memory_bytes"] > 0
