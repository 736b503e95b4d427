# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/commands/completion.py: candidates for every place of a command line;
puffervec/system/shells.py: the scripts, in the shells that are here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from puffervec.commands import cli
from puffervec.commands.completion import SCRIPTS, candidates
from puffervec.train.config import flags
from puffervec.train.config.sections import TrainConfig


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two runs; something was written into the older one later, but no checkpoint."""
    monkeypatch.chdir(tmp_path)
    for name, saved, changed in (("old", 1, 4), ("new", 2, 3)):
        (tmp_path / "runs" / name / "checkpoints").mkdir(parents=True)
        os.utime(tmp_path / "runs" / name / "checkpoints", (saved, saved))
        os.utime(tmp_path / "runs" / name, (changed, changed))
    return tmp_path


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("plo", ["plot"]),
        ("dri", ["drive"]),
        ("--v", ["--version"]),
        ("drive --train.prec", ["--train.precision"]),
        ("train drive --train.prec", ["--train.precision"]),
        ("tag_grid --env.num-t", ["--env.num-taggers"]),
        ("cartpole --env.num-t", []),
        ("CartPole-v1 --env.num-t", []),
        ("my_envs:make --total", ["--total-timesteps"]),
        ("drive --train.precision ", ["auto", "fp32", "bf16"]),
        ("drive --policy.memory m", ["mingru"]),
        ("drive --log.tensorboard ", ["true", "false"]),
        ("drive --backend s", ["serial"]),
        ("drive --lr ", []),
        ("drive --config ", []),
        ("drive --resume ", ["latest", "runs/new", "runs/old"]),
        ("drive ", []),
        ("sweep dr", ["drive"]),
        ("sweep drive --tri", ["--trials"]),
        ("eval l", ["latest"]),
        ("eval runs/n", ["runs/new"]),
        ("eval latest ", []),
        ("eval latest --epi", ["--episodes"]),
        ("eval drive --baseline lo", ["log"]),
        ("eval --sample l", ["latest"]),
        ("plan l", ["latest"]),
        ("profile l", ["latest"]),
        ("watch l", ["latest"]),
        ("plot runs/new runs/", ["runs/new", "runs/old"]),
        ("plot runs/new --x ", ["steps", "minutes"]),
        ("export latest --format ", ["onnx", "pt2"]),
        ("render la", ["latest"]),
        ("render tag_grid runs/n", ["runs/new"]),
        ("render latest --format ", ["html", "mp4", "gif", "png"]),
        ("completion ", ["bash", "zsh", "fish"]),
        ("nonsense --x", []),
    ],
)
def test_candidates(line: str, found: list[str], runs: Path) -> None:
    assert candidates(line.split(" "), cli.VERBS) == found


def test_all_flags_and_verbs_are_offered() -> None:
    assert set(candidates([""], cli.VERBS)) >= {*cli.VERBS, "drive", "probe"}
    assert set(candidates(["drive", "--"], cli.VERBS)) >= {
        *flags.known_flags(TrainConfig.of("drive")),
        "--seed",
        "--resume",
    }


def test_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "--", "plo"]) == 0 and capsys.readouterr().out == "plot\n"
    assert cli.main(["completion", "--"]) == 0 and "drive" in capsys.readouterr().out.split()
    assert (
        cli.main(["completion", "tcsh"]) == 2 and "'bash', 'zsh', 'fish'" in capsys.readouterr().err
    )


ASK = {
    "bash": 'COMP_WORDS=(puffer-train {words}); COMP_CWORD={last}; _puffer_train; printf "%s\\n" '
    '"${{COMPREPLY[@]}}"',
    "fish": "complete -C 'puffer-train {words}'",
}


# Bash runs the Makefile too; the others need not be there.
SHELLS = {
    "bash": "bash",
    "fish": pytest.param("fish", marks=pytest.mark.needs("fish")),
    "zsh": pytest.param("zsh", marks=pytest.mark.needs("zsh")),
}


@pytest.mark.slow
@pytest.mark.parametrize("shell", [SHELLS[shell] for shell in ASK])
def test_in_a_shell(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    assert program is not None
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "puffer-train").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m puffervec.commands.cli "$@"\n'
    )
    (bin_folder / "puffer-train").chmod(0o755)
    script = SCRIPTS[shell] + ASK[shell].format(words="plot --x min", last=3)
    env = os.environ | {"PATH": f"{bin_folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        [program, "-c", script], capture_output=True, text=True, env=env, timeout=60
    )
    assert (done.stdout, done.stderr) == ("minutes\n", "")


@pytest.mark.parametrize("shell", [SHELLS[shell] for shell in SCRIPTS])
def test_scripts_are_valid(shell: str) -> None:
    program = shutil.which(shell)
    assert program is not None
    subprocess.run([program, "-n"], input=SCRIPTS[shell], text=True, check=True)
