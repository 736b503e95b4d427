# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from puffervec import envs
from puffervec.commands import train as verb
from puffervec.contract.evaluation import Evaluation, Report
from puffervec.envs.probe import ENV as PROBE
from puffervec.train import TrainConfig, Trainer

Small = Callable[..., TrainConfig]


@pytest.mark.slow
def test_summary_says_what_to_try(
    small: Small, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = small()
    with Trainer(config) as trainer:
        metrics = trainer.train()
        folder, steps = trainer.folder, trainer.counters.agent_steps
    verb.print_summary(config, folder, steps, metrics, final_eval=True)
    out = capsys.readouterr().out
    for word in (
        "agent-steps/s, whole run",
        "time split",
        f"puffer-train eval {folder}",
        f"--resume {folder}",
    ):
        assert word in out
    assert f"--total-timesteps {2 * max(steps, config.train.total_timesteps)}" in out
    longer = config.merged({"train": {"time_limit_s": 30, "total_timesteps": 10**9}})
    verb.print_summary(longer, folder, steps, metrics, final_eval=False)
    assert "--time-limit-s 60" in capsys.readouterr().out


def test_a_run_that_had_used_its_budget_up(
    small: Small, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = small(policy={"kind": "my_nets:Net"})
    verb.print_summary(config, tmp_path, 10_000, {}, final_eval=True)
    out = capsys.readouterr().out
    assert (
        " --policy my_nets:Net" in out and " --policy.kind my_nets:Net" in out
    )  # to evaluate, and to go on
    assert (
        "Nothing was trained; the run has 10,000 agent-steps." in out
        and "--total-timesteps 20000" in out
    )


def test_describe_data_to_train_on(small: Small) -> None:
    assert (
        "scenes: 2 (generated:2)" in verb.describe_data(small("drive"))[0]
        and verb.describe_data(small()) == []
    )


def broken(actor: Any, config: Any, **how: Any) -> Report:
    raise ZeroDivisionError("nothing\nto divide")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("evaluation", "words"),
    [
        (Evaluation(evaluate=broken), "ZeroDivisionError: nothing to divide"),
        (
            Evaluation(evaluate=lambda actor, config, **how: 3),
            "returned 3: it must return a puffervec.contract.evaluation.Report",
        ),  # type: ignore[arg-type, return-value]
        (None, "must return a puffervec.Evaluation"),
    ],
)
def test_whatever_an_env_evaluates_a_finished_run_has_succeeded(
    small: Small,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    evaluation: Any,
    words: str,
) -> None:
    with Trainer(small()) as trainer:
        metrics = trainer.train()
    monkeypatch.setattr(
        envs, "get", lambda name: dataclasses.replace(PROBE, evaluation=lambda: evaluation)
    )
    verb.print_summary(trainer.config, trainer.folder, 1, metrics, final_eval=True)
    said = capsys.readouterr()
    assert (
        "note: the run is saved, but its evaluation failed: " in said.err
        and words in said.err
        and "Try next" in said.out
    )


@pytest.mark.slow
def test_torch_is_imported_before_a_signal_raises() -> None:
    """A KeyboardInterrupt within torch's import ends the process by SIGABRT."""
    code = """
import sys
from puffervec.commands import cli, verb

def start(self, make):
    print("torch.distributed" in sys.modules)
    raise SystemExit(3)

verb.StopSignals.start = start
cli.main(["cartpole"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (3, "True\n"), done.stderr
