# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/sweeps.md: its commands can be given, and two processes share a sweep as the page says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from puffervec.commands import cli
from puffervec.train import TrainConfig
from puffervec.train.config import flags
from puffervec.train.config.ranges import PREFIX, build_space
from puffervec.wings.sweep.door import FAILURES_AT_START, PICTURES, STUDY_FILE, SUMMARY_FILE
from puffervec.wings.sweep.study import BEAT_S, LOST_S, check_storage
from tests.docs import pages

PAGE = (pages.ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
SHARED = next(block.text for block in pages.blocks(PAGE) if block.info == "sh")


def test_flags_of_the_commands_exist() -> None:
    commands = [line for line in pages.commands(PAGE) if line != "wait"]
    assert len(commands) == 5
    for command in commands:
        program, verb, *args = shlex.split(command.removesuffix(" &"))
        assert (program, verb) == ("puffer-train", "sweep")
        asked = cli.VERBS["sweep"].parse(args)
        if asked.storage:
            check_storage(asked.storage)
        if asked.target is None:
            assert asked.settings == [] and asked.name
            continue
        build_space(TrainConfig.of(asked.target), flags.take_prefixed(asked.settings, PREFIX))
        flags.build_config(TrainConfig.of(asked.target), asked.settings)


def test_flags_and_figures_of_the_text() -> None:
    text = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    named = set(re.findall(r"`(?:[^`\n]*\s)?(--\w[\w.-]+)", text)) - {f"{PREFIX}KEY", "--resume"}
    assert (
        len(named) == 6
        and {flag for flag in named if flag not in cli.VERBS["sweep"].usage} == set()
    )
    assert BEAT_S == 30 and LOST_S == 120 and FAILURES_AT_START == 5
    assert all(f"`{name}`" in text for name in (STUDY_FILE, SUMMARY_FILE, *PICTURES))


@pytest.mark.slow
def test_two_processes_share_a_sweep(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    small = " --num-envs 4 --total-timesteps 2000"
    script = SHARED.replace(" --total-timesteps 20000", small).replace("--trials 6", "--trials 4")
    assert script.count(small) == 2
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(re.findall(r"^trial (\d): episode/return", done.stdout, re.MULTILINE)) == list(
        "0123"
    )
    summary = json.loads((tmp_path / "runs/shared/summary.json").read_text())
    assert [trial["number"] for trial in summary["trials"]] == [0, 1, 2, 3] and summary[
        "failed"
    ] == []
    assert done.stdout.count("4 trials, 0 of them failed") == 3
    assert (tmp_path / f"runs/shared/trials/{summary['best']:04d}/checkpoints").is_dir()
