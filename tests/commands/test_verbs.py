# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The verbs of puffer-train, through the command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import puffervec.envs
from puffervec.commands import cli
from tests.commands.test_cli import SMALL, run

VERBS = tuple(cli.VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run([verb, "--help"], capsys)
    assert (code, err) == (0, "") and out.startswith(f"usage: puffer-train {verb}")
    assert f"puffer-train {verb}" in cli.usage()


def test_help_lists_all_envs() -> None:
    for text in (cli.usage(), cli.VERBS["train"].help(["--help"])):  # type: ignore[misc]
        assert all(name in text for name in puffervec.envs.names())


@pytest.mark.slow
def test_help_and_refused_flags_load_no_torch() -> None:
    code = (
        "import sys; from puffervec.commands.cli import VERBS, main\n"
        "bad = ['probe', '--foo', '1']\n"
        "codes = [(main([verb, '--help']), main([verb, *bad])) for verb in VERBS]\n"
        "sys.exit('torch' in sys.modules or set(codes) != {(0, 2)})"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode
        == 0
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("list drive", ["unknown argument drive"]),
        ("plot none", ["none does not exist", "give run folders"]),
        ("plot --x steps", ["which run?"]),
        ("plot none --x hours", ["hours", "minutes"]),
        ("plot none --smooth many", ["--smooth", "must be a number"]),
        ("plot none --smooth 101", ["--smooth", "0 to 100"]),
        ("plot none --colour red", ["--colour"]),
        ("plot none --smoth 3", ["unknown argument --smoth", "did you mean --smooth?"]),
        ("export none", ["none", "run folder"]),
        ("export latest --format pt2", ["runs does not exist"]),
        ("export none --format jit", ["jit", "'onnx', 'pt2'"]),
        ("export none --out here.txt", ["here.txt", ".onnx"]),
        ("export --out a.pt2", ["which run"]),
        ("sweep nothere", ["nothere"]),
        ("sweep probe --trials 0", ["--trials", "at least 1"]),
        ("sweep probe --sweep.train.lr 3", ["--sweep.train.lr 3", "LOW:HIGH"]),
        ("sweep probe --sweep.train.foo 1:2", ["unknown setting foo"]),
        ("sweep probe --parameters train.foo", ["train.foo"]),
        ("sweep probe --train.foo 3", ["unknown flag --train.foo"]),
        ("sweep probe --trails 5", ["unknown flag --trails", "did you mean --trials?"]),
        ("bench probe --second 5", ["did you mean --seconds?"]),
        ("sweep probe --storage x.db", ["x.db", "sqlite:///"]),
        ("sweep --name none", ["sweep runs/none does not exist"]),
        ("sweep --trials 3", ["which env"]),
        ("sweep --name s --train.lr 3", ["which env"]),
        ("bench nothere", ["nothere"]),
        ("bench --seconds 3", ["which env"]),
        ("bench probe --seconds no", ["--seconds"]),
        ("bench probe --num-envs 3", ["vec.num_envs is 3"]),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    args: str,
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run(args.split(), capsys)
    assert code == 2
    assert err.startswith("puffer-train: ") and err.count("\n") == 1, err
    for word in words:
        assert word in err
    assert not list(tmp_path.iterdir())  # nothing was begun


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(["list"], capsys)
    assert code == 0 and all(
        f"\n{title}\n" in out for title in ("envs", "policies", "memories", "optimizers", "presets")
    )
    code, out, _ = run(["list", "--json"], capsys)
    assert code == 0 and {row["policy.memory"] for row in json.loads(out)["memories"]} == {
        "none",
        "mingru",
        "lstm",
    }


@pytest.mark.slow
def test_bench(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(["bench", "probe", *SMALL, "--seconds", "1", "--json"], capsys)
    assert code == 0, err
    assert json.loads(out)["agent_steps_per_s"] > 0 and not list(tmp_path.iterdir())


@pytest.mark.slow
def test_sweep_then_plot(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    pytest.importorskip("matplotlib")
    runs = ["--log.folder", str(tmp_path)]
    args = [
        "--sweep.train.lr",
        "1e-3:1e-2:log",
        "--trials",
        "1",
        "--name",
        "s",
        "--total-timesteps",
        "50",
    ]
    code, out, err = run(["sweep", "probe", *SMALL, *runs, *args], capsys)
    assert code == 0, err
    assert "trial 0: episode/return" in out and f"puffer-train eval {tmp_path}/s/trials/0000" in out
    again = re.search(r"puffer-train (sweep --name s .*)", out)
    assert again is not None
    code, out, err = run(again[1].split(), capsys)
    assert code == 0 and "trial 1: " in out and "2 trials, 0 of them failed" in out, err
    trials = [str(path) for path in sorted((tmp_path / "s" / "trials").iterdir())]
    code, out, err = run(
        ["plot", *trials, "--out", str(tmp_path / "two.png"), "--x", "minutes"], capsys
    )
    assert (
        code == 0
        and out == f"{tmp_path}/two.png\n"
        and (tmp_path / "two.png").stat().st_size > 10_000
    ), err


@pytest.mark.slow
def test_export(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["probe", *SMALL, "--log.folder", str(tmp_path), "--run-name", "r"], capsys)[0] == 0
    code, out, err = run(["export", str(tmp_path / "r"), "--format", "pt2"], capsys)
    assert (
        code == 0 and "largest difference" in out and (tmp_path / "r" / "policy.pt2").is_file()
    ), err
