# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""examples/train_any_env.py: the env keeps to its spaces, and both ways to train it work."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from gymnasium.utils.env_checker import check_env

from puffervec.train import cli

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "train_any_env.py"


def test_the_env_is_a_gymnasium_env() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # advice on unbounded Boxes
        check_env(runpy.run_path(str(SCRIPT))["Thermostat"](), skip_render_check=True)


@pytest.mark.slow
def test_as_a_script(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")
    found = re.search(r"return (-?\d+), ([\d.]+) degrees from the target", done.stdout)
    assert found is not None and int(found[1]) > -400 and float(found[2]) < 4  # untrained: about -1,000 and 10
    day = re.search(r"one day with the trained policy: ([\d.]+) degrees", done.stdout)
    assert day is not None and float(day[1]) < 5


def test_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(SCRIPT.parent)
    args = "--env.target 23.5 --total-timesteps 500 --num-envs 4 --train.horizon 16 --log.dashboard plain --device cpu"
    assert cli.main(["train_any_env:Thermostat", *args.split(), "--log.folder", str(tmp_path), "--run-name", "r"]) == 0
    out = capsys.readouterr().out
    assert "serial" in out and "away" in out and "power" in out
    assert cli.main(["eval", str(tmp_path / "r"), "--env", "train_any_env:Thermostat", "--episodes", "4"]) == 0
    assert "train_any_env:Thermostat" in capsys.readouterr().out
