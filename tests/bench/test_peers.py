# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/peers.py: tables, skipped libraries, where puffervec loses, targets; no speeds."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench import common, peers
from bench.rivals import scenarios
from bench.rivals.runner import Job
from bench.rivals.scenarios import IN_PROCESS, NATIVE, OURS, WORKERS
from puffervec.errors import ConfigError
from puffervec.system.cores import usable_cores


def _run(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    path = tmp_path / "out.json"
    assert peers.main(["--quick", "--out", str(path), *arguments]) == 0
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.slow
def test_table_json_and_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    false = tmp_path / "python"
    false.write_text("#!/bin/sh\necho no such thing >&2\nexit 3\n")
    false.chmod(0o755)
    labels = "plain loop,puffervec serial,PufferLib serial"
    document = _run(
        tmp_path, "--workloads", "noop", "--variants", labels, "--pufferlib-python", str(false)
    )
    rows = {row["label"]: row for row in document["results"]["rows"]}
    at_once = scenarios.loops_label(usable_cores())
    loops = {
        scenarios.LOOP,
        scenarios.PUFFERLIB_LOOP,
        "plain loop, 64 envs",
        at_once,
        f"{at_once}, {64 // usable_cores()} envs each",
    }
    assert set(rows) == loops | {"puffervec serial", "PufferLib serial"}
    assert {label for label, row in rows.items() if row["bound"]} == loops
    for label in ("puffervec serial", "plain loop, 1 env"):
        row = rows[label]
        assert row["env_steps_per_s"]["median"] > 0 and not row["skipped"]
        assert row["of_loop"]["median"] > 0
    assert rows["PufferLib serial"]["skipped"] == "exit status 3: no such thing"
    assert rows["PufferLib serial"]["env_steps_per_s"] is None
    assert document["settings"]["repeats"] == 1 and "gymnasium" in document["machine"]["versions"]
    assert "slower than plain loop" not in capsys.readouterr().out, "a bound is no peer"


def test_a_workload_without_its_module_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        peers.importlib.util, "find_spec", lambda name: None if name == "ale_py" else object()
    )
    chosen = peers.choose(peers.parser().parse_args(["--workloads", "pong,noop"]))
    assert [scenario.word for scenario in chosen] == ["noop"]
    assert "skipped: pong x8: the module ale_py is not installed" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="nothing to measure"):
        peers.choose(peers.parser().parse_args(["--workloads", "pong"]))


def _row(
    label: str,
    *samples: float,
    library: str = "theirs",
    kind: str = WORKERS,
    scenario: str = "cartpole x64",
) -> peers.Row:
    figure = common.figure(samples) if samples else None
    return peers.Row(scenario, label, kind, library, 64, {}, figure)


def test_losses_compare_what_does_the_same_job() -> None:
    rows = [
        _row("fast", 10.0, 20.0, 30.0),
        _row("slow", 1.0, 2.0, 3.0),
        _row("elsewhere", 99.0, scenario="pong x8"),
        _row("another kind", 99.0, 99.0, 99.0, kind=IN_PROCESS),
        _row("not installed"),
        _row("ours, the slow way", 1.0, 1.0, 1.0, library=OURS),
        _row("ours", 5.0, 10.0, 15.0, library=OURS),
    ]
    assert peers.losses(rows) == [
        "puffervec is slower than fast on cartpole x64 (workers): ours reaches 0.50x ±0%"
    ]


def test_targets_are_ratios_repeat_by_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "usable_cores", lambda: 2)
    rows = [
        _row(scenarios.LOOP, 100.0, 50.0, kind=IN_PROCESS),
        _row(scenarios.GYM_SYNC, 80.0, 80.0, kind=IN_PROCESS),
        _row(scenarios.loops_label(2), 125.0, 125.0),
        *(_row(scenarios.workers_label(n), n * 50.0, n * 50.0, library=OURS) for n in (1, 2, 4)),
        _row("EnvPool sync", 1.0, 1.0, library="envpool_vec", kind=NATIVE, scenario="cartpole_c"),
        _row("EnvPool async", 2.0, 2.0, library="envpool_vec", kind=NATIVE, scenario="cartpole_c"),
        _row("C", 18.0, 18.0, library=OURS, kind=NATIVE, scenario="cartpole_c"),
    ]
    found = [
        (target.over, target.under, target.ratio.median, target.met)
        for target in peers.targets(rows)
    ]
    assert found == [
        ("puffervec 1 worker", "plain loop, 1 env", 0.75, False),
        ("puffervec 2 workers", "2 plain loops at once", 0.8, False),
        ("puffervec 4 workers", "Gymnasium sync", 2.5, True),
        ("C", "EnvPool async", 9.0, False),
    ]
    assert peers.targets([]) == []


def test_a_sample_that_hangs_is_ended_and_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "SAMPLE_LIMIT_S", 0.3)
    monkeypatch.setattr(
        "bench.rivals.sample.arguments_of", lambda job: ["-c", "import time; time.sleep(60)"]
    )
    started: list[Any] = []

    def start(*args: Any, **kwargs: Any) -> Any:
        started.append(popen(*args, **kwargs))
        return started[-1]

    popen = subprocess.Popen
    monkeypatch.setattr(peers.subprocess, "Popen", start)
    sampler = peers.Sampler(peers.parser().parse_args([]))
    variant = scenarios.Variant("theirs", WORKERS, Job("loop", "noop", 1))
    assert sampler.take(variant) is None and sampler.take(variant) is None
    sampler.close()
    assert sampler.skipped == {"theirs": "no answer in 0.3 s"}
    assert len(started) == 1 and started[0].returncode == -9
