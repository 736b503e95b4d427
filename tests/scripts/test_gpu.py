# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""scripts/gpu.py without a GPU: steps, time limits, results; its answer where there is no CUDA."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import torch

from bench import common
from scripts import gpu
from tests.helpers import eventually

GPU = {"name": "NVIDIA X9", "memory_bytes": 8 * 2**30, "cuda": "13.0"}


def _python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_cuda_it_says_so_in_one_line_and_exits_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert gpu.main([]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and len(shown.err.splitlines()) == 1 and "CUDA" in shown.err


def test_the_training_flags_are_known_to_the_command_line(tmp_path: Path) -> None:
    from puffervec.commands.train import parse_train

    for env in ("tag_grid", "drive"):
        step = next(step for step in gpu.steps(tmp_path, 60.0) if step.name == f"train {env}")
        words = list(step.command)
        config, *_ = parse_train(words[words.index("train") + 1 :])
        assert (
            config.target == env
            and config.train.device == "cuda"
            and config.train.time_limit_s == 60.0
        )
        assert not config.train.final_eval


def test_the_profiles_are_known_to_the_command_line(tmp_path: Path) -> None:
    from puffervec.wings.profile.door import VERB, _request

    by_name = {step.name: step for step in gpu.steps(tmp_path, 60.0)}
    words = list(by_name["phases of training"].command)
    request = _request(VERB.parse(words[words.index("profile") + 1 :]))
    assert (request.target, request.mode) == ("tag_grid", "loop") and request.json is not None


def test_each_step_leaves_its_status_and_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


@pytest.mark.slow
def test_a_step_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = f"""
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path({str(pids)!r}).write_text(str(child.pid))
time.sleep(600)
"""
    entry = gpu.run_step(gpu.Step("slow", _python(code), 2.0), 600.0, tmp_path / "log")
    assert entry["status"] == "timed out"
    eventually(lambda: not _alive(int(pids.read_text())), "the child of a step to end")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]


@pytest.mark.slow
@pytest.mark.parametrize("status, code", [("ok", 0), ("failed", 1)])
def test_results_are_named_after_the_gpu(
    status: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "cuda_facts", lambda: GPU)
    monkeypatch.setattr(
        gpu, "run_all", lambda *arguments: [{"name": "tests", "status": status}]
    )  # and nothing else ran
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    assert gpu.main([]) == code
    (path,) = tmp_path.glob("*/????-??-??-gpu.json")
    document = json.loads(path.read_text())
    assert (
        document["machine"]["gpu"]["name"] == "NVIDIA X9"
        and document["results"][0]["status"] == status
    )
    assert [one["met"] for one in document["criteria"]] == [False, False, False, status == "ok"]


def test_the_benchmarks_know_the_flags_that_they_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from bench import host, train

    mains = {"training": train.main, "host": host.main}
    for step in gpu.steps(tmp_path, 60.0):
        if step.name in mains:
            # Without CUDA, a device that is not there is all that they have to object to.
            words = ["abacus" if word == "cuda" else word for word in step.command[2:]]
            assert mains[step.name](words) == 2 and "abacus" in capsys.readouterr().err


def test_the_steps_to_run_are_chosen_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def run_all(steps: list[gpu.Step], scratch: Path, limit_s: float) -> list[dict[str, str]]:
        ran.extend(step.name for step in steps)
        return [{"name": step.name, "status": "ok"} for step in steps if step.name == "tests"]

    monkeypatch.setattr(gpu, "cuda_facts", lambda: GPU)
    monkeypatch.setattr(gpu, "run_all", run_all)
    assert gpu.main(["--steps", "tests,train drive", "--json", str(tmp_path / "a.json")]) == 0
    assert ran == ["tests", "train drive"]
    with pytest.raises(SystemExit):
        gpu.main(["--steps", "tests,trian drive"])
    assert "trian drive: no such step; there are: tests, host" in capsys.readouterr().err


def test_the_files_with_gpu_tests_are_named() -> None:
    files = gpu.gpu_test_files()
    assert "tests/train/test_on_gpu.py" in files and "tests/test_env.py" not in files


@pytest.mark.gpu
def test_facts_of_the_gpu_are_those_of_torch() -> None:
    facts = gpu.cuda_facts()
    assert (
        facts is not None
        and facts["name"] == torch.cuda.get_device_name(0)
        and facts["memory_bytes"] > 0
    )
