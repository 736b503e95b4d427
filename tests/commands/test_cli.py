# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import puffervec
from puffervec.commands import cli
from puffervec.train.run import checkpoint as ckpt

SMALL = (
    "--backend serial --num-envs 4 --train.horizon 8 --policy.hidden 8 --device cpu "
    "--train.precision fp32 --total-timesteps 100 --train.threads 1 --log.dashboard plain"
).split()


def run(args: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = cli.main(args)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--help"],
        ["-h"],
        ["train", "--help"],
        ["eval", "--help"],
        ["probe", "--help"],
        ["probe", "--help-all"],
    ],
)
def test_help(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(args, capsys)
    assert code == 0 and out.startswith("usage: puffer-train") and not err


@pytest.mark.parametrize(
    "verb", [name for name, verb in cli.VERBS.items() if not verb.syntax.startswith("[")]
)
def test_a_verb_without_arguments_shows_its_help(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run([verb], capsys)
    assert (code, out) == (2, "") and err.startswith(f"usage: puffer-train {verb}")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"], capsys) == (0, f"puffervec {puffervec.__version__}\n", "")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("nothere", ["nothere", "probe", "drive"]),
        ("probee", ["did you mean 'probe'"]),
        ("evl runs/x", ["no verb is called 'evl': did you mean eval?", "no env is called 'evl'"]),
        ("trian", ["did you mean train?"]),
        ("reprot --help", ["did you mean report?"]),
        ("--seed 3", ["which env"]),
        ("probe --foo 1", ["unknown flag --foo"]),
        ("probe --train.lr no", ["train.lr is 'no'"]),
        ("probe --env.num-agents 0", ["num_agents is 0"]),
        ("probe --num-envs 3", ["vec.num_envs is 3", "2"]),
        ("probe --num-envs -4", ["vec.num_envs"]),
        ("probe --train.minibatch-size 7", ["train.minibatch_size is 7", "divide"]),
        ("probe --device cuda:99", ["cuda:99"]),
        ("probe --device abacus", ["abacus", "cpu"]),
        ("probe --config none.toml", ["none.toml"]),
        ("probe --run-name ../x", ["log.name is '../x'"]),
        ("probe --resume none", ["none"]),
        ("--resume latest --log.folder nowhere", ["nowhere does not exist"]),
        ("probe --log.folder /proc/none", ["/proc/none"]),
        ("drive --scenes /none/there", ["/none/there"]),
        ("eval none", ["none", "run folder"]),
        ("eval probe", ["--baseline"]),
        ("eval probe --baseline log", ["log", "random"]),
        ("eval probe --baseline random --png x.png", ["--png"]),
        ("eval probe --baseline random --episodes 0", ["--episodes"]),
        ("eval probe --baseline random --more", ["--more"]),
        ("eval --seed 1", ["which run"]),
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
    code, out, err = run(args.split(), capsys)
    assert code == 2
    assert err.startswith("puffer-train: ") and err.count("\n") == 1, err
    for word in words:
        assert word in err
    assert not list(tmp_path.rglob("metrics.jsonl"))  # nothing was started


def test_a_name_in_a_config_file_is_no_path(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text('[log]\nname = "../x"\n')
    code, _, err = run(["probe", "--config", "a.toml"], capsys)
    assert code == 2 and err.count("\n") == 1 and "log.name is '../x'" in err
    assert [path.name for path in tmp_path.iterdir()] == ["a.toml"]


def test_no_cuda_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    code, _, err = run(["probe", "--device", "cuda", "--log.folder", str(tmp_path)], capsys)
    assert code == 2 and "no CUDA device found, use cpu or auto" in err


def test_scene_errors_name_file_and_key(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    code, _, err = run(
        ["drive", "--scenes", str(tmp_path / "empty"), "--log.folder", str(tmp_path / "runs")],
        capsys,
    )
    assert code == 2 and "empty" in err and err.count("\n") == 1
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "one.json").write_text('{"roads": [], "tl_states": {}}')
    code, _, err = run(
        ["drive", "--scenes", str(broken), "--log.folder", str(tmp_path / "runs")], capsys
    )
    assert code == 2 and "one.json" in err and err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_train_resume_eval(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    runs = ["--log.folder", str(tmp_path)]
    code, out, err = run(["probe", *SMALL, *runs, "--run-name", "r"], capsys)
    assert code == 0, err
    assert (
        "agent-steps/s" in out and "Try next:" in out and f"puffer-train eval {tmp_path}/r" in out
    )
    code, out, err = run(["--resume", "latest", *runs, "--total-timesteps", "200"], capsys)
    assert code == 0 and f"run folder: {tmp_path}/r" in out, err
    code, out, err = run(["eval", str(tmp_path / "r"), "--episodes", "8"], capsys)
    assert code == 0 and "95 %" in out and "return" in out, err
    code, out, err = run(["tag_grid", "--resume", str(tmp_path / "r")], capsys)
    assert code == 2 and "'probe'" in err
    code, out, err = run(["probe", *SMALL, *runs, "--run-name", "r"], capsys)
    assert code == 2 and "exists already" in err


@pytest.mark.slow
def test_init_from_begins_a_run_with_the_policies_of_another(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from puffervec.train import load_policy

    runs = ["--log.folder", str(tmp_path)]
    assert (
        run(["probe", *SMALL, *runs, "--policy.memory", "mingru", "--run-name", "one"], capsys)[0]
        == 0
    )
    still = [
        "--train.lr",
        "1e-30",
        "--total-timesteps",
        "64",
    ]  # so that the weights stay as they begin
    code, out, err = run(
        ["probe", *SMALL, *runs, *still, "--run-name", "two", "--init-from", str(tmp_path / "one")],
        capsys,
    )
    assert code == 0 and f"run folder: {tmp_path}/two" in out, err
    one, two = (
        dict(load_policy(tmp_path / name).policies["default"].named_parameters())
        for name in ("one", "two")
    )
    assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)
    code, _, err = run(
        ["--resume", str(tmp_path / "two"), *runs, "--total-timesteps", "200"], capsys
    )
    assert code == 0, err  # the memory is that of the first run, and in the second one's settings
    for arguments, word in (
        (["--init-from", "none"], "none does not exist"),
        (["--init-from", str(tmp_path / "one"), "--policy.hidden", "32"], "do not fit"),
        (
            ["--init-from", str(tmp_path / "one"), "--resume", str(tmp_path / "one")],
            "not allowed with argument",
        ),
    ):
        code, _, err = run(["probe", *SMALL, *runs, "--run-name", "three", *arguments], capsys)
        assert code == 2 and word in err and err.count("\n") == 1
    assert not (tmp_path / "three").exists()


def test_a_failing_env_is_exit_code_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    args = [
        "--env.fault",
        "10",
        "--env.fault-step",
        "5",
        "--log.folder",
        str(tmp_path),
    ]  # FAULTS[10] is "error"
    code, _, err = run(["probe", *SMALL, *args], capsys)
    assert code == 1 and err.startswith("puffer-train: ") and "env" in err


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_signals_save_and_exit(number: signal.Signals, tmp_path: Path) -> None:
    """Sent to the whole process group, as a terminal does for Ctrl-C: workers are silent, the
    checkpoint loads.
    """
    args = [
        sys.executable,
        "-m",
        "puffervec.commands.cli",
        "probe",
        *SMALL,
        "--backend",
        "multiprocessing",
    ]
    args += [
        "--num-workers",
        "2",
        "--total-timesteps",
        str(10**12),
        "--log.folder",
        str(tmp_path),
        "--log.print-interval-s",
        "0",
    ]
    process = subprocess.Popen(
        args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "agent-steps/s" in line:
                break
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == 128 + number, err
    assert "saving a checkpoint" in err and "Traceback" not in err + out
    (folder,) = tmp_path.iterdir()
    found = ckpt.newest(folder / "checkpoints")
    assert found is not None and ckpt.read(found).manifest["counters"]["agent_steps"] > 0
