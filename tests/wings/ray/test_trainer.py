# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Runs over Ray, with real hosts on this machine (puffervec/wings/ray/trainer.py). Each in a
process of its own: what Ray leaves open in one would be another test's leak.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from puffervec.commands.cli import main
from puffervec.errors import ConfigError
from puffervec.train import TrainConfig, Trainer, read_metrics
from puffervec.train.run.checkpoint import read_manifest
from puffervec.train.run.find import find_checkpoint
from puffervec.wings.ray import RayTrainer
from tests.train.gangs import together

Small = Callable[..., TrainConfig]
pytest.importorskip("ray")
ENVS = (
    "--vec.num-envs 4 --vec.backend serial --train.horizon 8 --policy.hidden 8 --train.precision "
    "fp32"
).split()
REST = "--train.compile off --train.threads 1 --device cpu --log.dashboard plain".split()


def train(folder: Path, *args: str, learners: int = 1) -> str:
    torchrun = (
        ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(learners)]
        if learners > 1
        else []
    )
    command = [
        sys.executable,
        *torchrun,
        "-m",
        "puffervec.commands.cli",
        *args,
        *REST,
        "--log.folder",
        str(folder),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        out = process.communicate(timeout=250)[0]
    assert process.returncode == 0, out
    assert not left_of(process.pid)
    return out


def left_of(pid: int) -> list[str]:
    """Processes of the Ray that a process had started: its session is named after it."""
    commands = [
        " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])
    ]
    return [command for command in commands if "/session_" in command and f"_{pid}" in command]


@pytest.mark.parametrize(
    ("address", "hosts", "learners", "own"),
    [("local", 0, 1, 1), ("local", 4, 2, 2), ("auto", 0, 1, 0), ("auto", 6, 3, 2)],
)
def test_a_learner_has_its_share_of_the_hosts(
    monkeypatch: pytest.MonkeyPatch, address: str, hosts: int, learners: int, own: int
) -> None:
    """Without a number: one on this machine alone, or one on each machine of a cluster (0)."""
    asked: list[int] = []

    def join(section: Any, count: int) -> Any:
        asked.append(count)
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr("puffervec.wings.ray.cluster.Cluster", join)
    config = TrainConfig.of("probe", ray={"address": address, "hosts": hosts})
    setup: Any = SimpleNamespace(
        run=SimpleNamespace(config=config), ranks=SimpleNamespace(size=learners)
    )
    object.__new__(RayTrainer)._make_vec(setup)
    assert asked == [own]


@pytest.mark.slow
def test_two_hosts_play_for_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    ray = ("--ray", "local", "--ray.hosts", "2")
    out = train(tmp_path, "cartpole", *ray, *ENVS, "--total-timesteps", "400", "--run-name", "one")
    assert not (tmp_path / "home/.ray").exists(), (
        "a token there, and the next `ray start --head` demands it of everyone"
    )
    assert "2 hosts of 4 envs, 4 rows each, 2 segments an update" in out
    lines = list(read_metrics(tmp_path / "one/metrics.jsonl"))
    assert lines[-1]["step"] >= 400 and lines[-1]["ray/hosts"] == 2
    assert all(
        0 <= line["ray/lag"] <= 4 and line["ray/bytes_per_agent_step"] > 20 for line in lines
    )
    # Each update takes 2 segments of 4 envs x 8 steps.
    assert {round(line["charts/env_steps_per_s"] * line["span_s"]) for line in lines} == {64}
    # Goes on without Ray: with the means, the weights and the counters of the run.
    assert main(["cartpole", "--resume", str(tmp_path / "one"), "--total-timesteps", "600"]) == 0
    assert "resumes with new episodes" in capsys.readouterr().out
    lines = list(read_metrics(tmp_path / "one/metrics.jsonl"))
    assert lines[-1]["step"] >= 600 and "ray/hosts" not in lines[-1]
    assert round(lines[-1]["charts/env_steps_per_s"] * lines[-1]["span_s"]) == 32


@pytest.mark.slow
def test_a_run_goes_on_with_other_hosts(tmp_path: Path) -> None:
    """On one machine first, then on one host, then on three."""
    name = ("--run-name", "one")
    train(tmp_path, "cartpole", *ENVS, "--total-timesteps", "200", *name)
    for hosts, steps in ((1, 600), (3, 1200)):
        ray = ("--ray", "local", "--ray.hosts", str(hosts))
        out = train(
            tmp_path, "--resume", str(tmp_path / "one"), *ray, "--total-timesteps", str(steps)
        )
        assert "the envs of hosts are not part of a checkpoint" in out
        manifest = read_manifest(find_checkpoint(str(tmp_path / "one"), tmp_path, print))
        assert manifest["counters"]["agent_steps"] >= steps
        assert manifest["config"]["ray"]["hosts"] == hosts


def started(folder: Path, *args: str) -> subprocess.Popen[str]:
    """Start an endless run over two hosts; returns before its first line."""
    command = [
        sys.executable,
        "-m",
        "puffervec.commands.cli",
        "cartpole",
        "--ray",
        "local",
        "--ray.hosts",
        "2",
        *ENVS,
        *REST,
    ]
    command += [
        "--total-timesteps",
        "1000000000",
        "--log.folder",
        str(folder),
        "--run-name",
        "one",
        *args,
    ]
    piped: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, **piped, start_new_session=True)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_to_the_group_saves_and_leaves_no_process(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Send it to Ray's processes too, as a terminal and `timeout` do; SIGTERM ends those."""
    with started(tmp_path) as process:
        assert process.stdout is not None
        said = next(line for line in process.stdout if "agent-steps/s" in line)
        os.killpg(process.pid, number)
        said += process.communicate(timeout=50)[
            0
        ]  # Ray alone would wait for its lost parts for a minute.
    assert process.returncode == 128 + number and "Traceback" not in said, said
    assert find_checkpoint(tmp_path / "one", tmp_path) is not None
    assert not left_of(process.pid)


@pytest.mark.slow
def test_a_run_whose_raylet_is_gone_goes_on_from_its_newest_checkpoint(tmp_path: Path) -> None:
    """Ray ends the learner without asking it, so nothing can be saved then."""
    with started(tmp_path, "--log.checkpoint-interval-s", "0") as process:
        assert process.stdout is not None
        said = next(line for line in process.stdout if "agent-steps/s" in line)
        (raylet,) = (
            child for child in psutil.Process(process.pid).children() if child.name() == "raylet"
        )
        raylet.kill()
        said += process.communicate(timeout=100)[0]
    assert process.returncode != 0, said  # Ray ends its driver, in words of its own.
    saved = read_manifest(find_checkpoint(tmp_path / "one", tmp_path))["counters"]["agent_steps"]
    assert saved > 0
    out = train(
        tmp_path,
        "--resume",
        str(tmp_path / "one"),
        "--ray",
        "local",
        "--total-timesteps",
        str(saved + 100),
    )
    assert "the envs of hosts are not part of a checkpoint" in out


@pytest.mark.slow
def test_two_learners_share_four_hosts(tmp_path: Path) -> None:
    ray = ("--ray", "local", "--ray.hosts", "4", "--ray.segments", "2")
    out = train(
        tmp_path,
        "cartpole",
        *ray,
        *ENVS,
        "--total-timesteps",
        "2000",
        "--run-name",
        "one",
        learners=2,
    )
    assert (
        "2 hosts of 4 envs, 4 rows each, 2 segments an update" in out
        and "on each of 2 ranks" in out
    )
    (*_, last) = read_metrics(tmp_path / "one/metrics.jsonl")
    # Each of the learners takes 2 segments of 4 envs x 8 steps.
    assert round(last["charts/env_steps_per_s"] * last["span_s"]) == 128 and last["ray/hosts"] == 4


@pytest.mark.parametrize(
    ("ray", "learners", "words"),
    [
        ({"hosts": 3, "segments": 1}, 2, "ray.hosts is 3: must be a multiple of the 2 learners"),
        (
            {"segments": 1},
            2,
            "ray.hosts is 0 and ray.segments 1: with 2 learners set the number of hosts",
        ),
        ({"hosts": 2}, 2, "ray.hosts is 2 and ray.segments 0: with 2 learners set"),
    ],
)
def test_learners_that_cannot_share(
    small: Small, tmp_path: Path, ray: dict[str, Any], learners: int, words: str
) -> None:
    config = small("cartpole", ray={"address": "local", **ray})
    for answer in together(learners, lambda ranks: RayTrainer(config, ranks=ranks)):
        assert isinstance(answer, ConfigError) and words in str(answer)
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    [
        ("tag_grid", "--policy.memory", "mingru"),  # several agents, memory
        ("CartPole-v1", "--ray.observations", "uint8", "--train.scale-rewards"),  # a Python env
        (
            "drive",
            "--env.scenes",
            "generated:2",
            "--train.algorithm",
            "a2c",
            "--ray.observations",
            "bf16",
        ),
    ],
)
def test_all_kinds_of_envs(tmp_path: Path, args: tuple[str, ...]) -> None:
    out = train(
        tmp_path,
        *args,
        "--ray",
        "local",
        "--ray.hosts",
        "2",
        *ENVS,
        "--total-timesteps",
        "2000",
        "--train.final-eval",
        "false",
    )
    assert "2 hosts of 4 envs" in out and "Training, means over the latest episodes" in out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--train.asynchronous",), ["train.asynchronous is true", "leave one of them out"]),
        (("--deterministic",), ["train.deterministic is true", "in order of arrival"]),
        (("--ray.ahead", "0"), ["ray.ahead is 0", "at least 1"]),
        (("--train.tensor-parallel", "2"), ["train.tensor_parallel is 2", "leave out --ray"]),
    ],
)
def test_settings_that_do_not_go_together(
    small: Small, args: tuple[str, ...], words: list[str]
) -> None:
    from puffervec.commands.train import parse_train

    with pytest.raises(ConfigError) as error:
        parse_train(["cartpole", "--ray", "local", *args])
    assert all(word in str(error.value) for word in words)


def test_an_algorithm_says_that_it_cannot_correct_for_lag(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    from puffervec.train.learn import ppo

    config = small("cartpole", ray={"address": "local"})
    config.check()
    monkeypatch.setattr(
        "puffervec.train.config.algorithms.get",
        lambda name: dataclasses.replace(ppo.PPO, corrects_lag=False),
    )
    with pytest.raises(
        ConfigError, match="train.algorithm ppo cannot learn from the rollouts of hosts"
    ):
        config.check()


def test_who_makes_which_trainer(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ConfigError, match="ray.address is 'local': use puffervec.wings.ray.RayTrainer"
    ):
        Trainer(small("cartpole", ray={"address": "local"}))
    with pytest.raises(ConfigError, match="ray.address is empty"):
        RayTrainer(small("cartpole"))


def test_a_missing_ray_is_said_in_one_line(
    small: Small, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    made: dict[str, Any] = {"ray": {"address": "local"}}
    with pytest.raises(ImportError, match=r"--ray needs ray: pip install 'puffervec\[ray\]'"):
        RayTrainer(small("cartpole", **made))
    assert not (tmp_path / "runs").exists()
