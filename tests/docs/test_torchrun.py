# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/torchrun.md: its commands, its SLURM script and its Kubernetes objects say what torchrun and
puffer-train take; those for one machine run, with two ranks on a CPU.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import RendezvousTimeout
from torch.distributed.run import get_args_parser

from puffervec.commands.cli import VERBS
from puffervec.train import TrainConfig
from puffervec.train.config import flags
from tests.docs import pages
from tests.helpers import eventually

PAGE = (pages.ROOT / "docs" / "torchrun.md").read_text(encoding="utf-8")
BLOCKS = pages.blocks(PAGE)
ONE, SEVERAL, LOOPBACK = (block.text.strip() for block in BLOCKS if block.info == "bash")
(SLURM,) = (block.text for block in BLOCKS if block.info == "sh")
(KUBERNETES,) = (block.text for block in BLOCKS if block.info == "yaml")
SMALL = (
    "--backend serial --num-envs 4 --train.horizon 8 --policy.hidden 8 --train.threads 1 --device "
    "cpu --total-timesteps 200"
)


def checked(words: list[str]) -> Any:
    """Return what torchrun makes of its flags; those of puffer-train behind them must be right too.
    --resume is taken out.
    """
    assert words[0] == "torchrun"
    known = get_args_parser().parse_args(words[1:])
    assert known.training_script.endswith("puffer-train")
    asked = VERBS["train"].parse(known.training_script_args)
    known.resumed = asked.resume
    known.config = flags.build_config(TrainConfig.of(asked.target), asked.settings)
    return known


def plain(command: str) -> list[str]:
    return shlex.split(
        command.replace("$(which puffer-train)", "puffer-train").replace("\\\n", " ")
    )


def test_the_commands() -> None:
    one, several, loopback = (checked(plain(command)) for command in (ONE, SEVERAL, LOOPBACK))
    assert one.standalone and one.max_restarts == 3 and one.config.log.name == "first"
    for known in (several, loopback):
        assert (
            known.rdzv_backend == "c10d"
            and known.nnodes == "2"
            and known.rdzv_id == known.config.log.name
        )


def with_stubs(script: list[str], folder: Path, **stubs: str) -> list[str]:
    """Run a script whose programs are the stubs, shell code by name, and return the words that
    torchrun was given.
    """
    (folder / "bin").mkdir(exist_ok=True)
    for name, code in {
        "torchrun": f'printf "%s\\0" torchrun "$@" > {folder}/given',
        "puffer-train": "exit 1",
        **stubs,
    }.items():
        path = folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{code}\n")
        path.chmod(0o755)
    slurm = {"SLURM_NNODES": "2", "SLURM_JOB_ID": "77", "SLURM_JOB_NODELIST": "node[4-5]"}
    env = {**os.environ, **slurm, "PATH": f"{folder}/bin:/usr/bin:/bin"}
    subprocess.run(script, cwd=folder, env=env, check=True)
    return (folder / "given").read_text().split("\0")[:-1]


def test_the_slurm_script(tmp_path: Path) -> None:
    (tmp_path / "train.slurm").write_text(SLURM)
    stubs = {
        "srun": 'exec "$@"',
        "scontrol": '[ "$*" = "show hostnames node[4-5]" ] && printf "node4\\nnode5\\n"',
    }
    known = checked(with_stubs(["bash", "train.slurm"], tmp_path, **stubs))
    assert (known.nnodes, known.rdzv_id, known.rdzv_endpoint) == (
        "2",
        "77",
        "node4:29400",
    ) and known.resumed is None
    given = dict(re.findall(r"^#SBATCH --([\w-]+)(?:=(.*))?$", SLURM, re.MULTILINE))
    assert (
        given["ntasks-per-node"] == "1"
        and given["gpus-per-node"] == known.nproc_per_node
        and given["nodes"] == known.nnodes
    )
    assert known.shutdown_timeout < int(given["signal"].removeprefix("TERM@"))
    (tmp_path / "runs" / known.config.log.name / "checkpoints").mkdir(parents=True)
    again = checked(with_stubs(["bash", "train.slurm"], tmp_path, **stubs))
    assert again.resumed == f"runs/{known.config.log.name}"


def test_the_kubernetes_objects(tmp_path: Path) -> None:
    service, job = yaml.safe_load_all(KUBERNETES)
    name, spec = job["metadata"]["name"], job["spec"]
    pod, (container,) = spec["template"]["spec"], spec["template"]["spec"]["containers"]
    assert (
        service["spec"]["selector"] == {"job-name": name} and service["spec"]["clusterIP"] == "None"
    )
    assert pod["subdomain"] == service["metadata"]["name"] and spec["completionMode"] == "Indexed"
    assert {mount["name"] for mount in container["volumeMounts"]} == {
        volume["name"] for volume in pod["volumes"]
    }
    script = [*container["command"], *container["args"]]
    known = checked(with_stubs(script, tmp_path))
    assert known.rdzv_endpoint == f"{name}-0.{pod['subdomain']}:29400" and known.resumed is None
    assert int(known.nnodes) == spec["parallelism"] == spec["completions"]
    assert int(known.nproc_per_node) == container["resources"]["limits"]["nvidia.com/gpu"]
    assert known.shutdown_timeout < pod["terminationGracePeriodSeconds"]
    run = Path("runs") / known.config.log.name
    (tmp_path / run / "checkpoints").mkdir(parents=True)
    assert checked(with_stubs(script, tmp_path)).resumed == str(run)
    runs = next(
        mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "runs"
    )
    assert runs == f"{container['workingDir']}/runs"


def test_defaults_that_the_text_names() -> None:
    assert TrainConfig.of("probe").train.rank_timeout_s == 600
    defaults = {
        name: int(value.total_seconds())
        for name, value in RendezvousTimeout._DEFAULT_TIMEOUTS.items()
    }
    assert f"join_timeout={defaults['join']},last_call_timeout={defaults['last_call']}" in PAGE
    text = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    known = {flag for action in get_args_parser()._actions for flag in action.option_strings}
    known |= {*flags.known_flags(TrainConfig.of("probe")), "--device", "--resume", "--signal"}
    named = set(re.findall(r"`(?:[^`\n]*\s)?(--\w[\w.-]+)", text))
    assert len(named) > 8 and named <= known


def start(command: str, folder: Path, more: str = "", **variables: str) -> psutil.Popen:
    """Start a command of the page with few steps. torchrun and puffer-train are those of this
    Python.
    """
    (folder / "train.py").write_text(
        "import sys\nfrom puffervec.commands.cli import main\nsys.exit(main())\n"
    )
    words = plain(command)
    words[words.index("puffer-train")] = "train.py"
    assert words[0] == "torchrun"
    local = ["-m", "torch.distributed.run", "--local-addr", "127.0.0.1"]
    return psutil.Popen(
        [sys.executable, *local, *words[1:], *SMALL.split(), *more.split()], cwd=folder,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(pages.ROOT), **variables},
    )  # fmt: skip


def ranks_of(run: Path) -> list[int]:
    return [start["ranks"] for start in json.loads((run / "run.json").read_text())["starts"]]


@pytest.mark.slow
def test_one_machine(tmp_path: Path) -> None:
    job = start(
        ONE.replace("--nproc-per-node 4", "--nproc-per-node 2").replace(" drive ", " cartpole "),
        tmp_path,
    )
    out, err = job.communicate(timeout=120)
    assert job.returncode == 0, err
    assert "on each of 2 ranks" in out and ranks_of(tmp_path / "runs/first") == [2]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port: int = free.getsockname()[1]
    return port


@pytest.mark.slow
def test_two_terminals(tmp_path: Path) -> None:
    command = LOOPBACK.replace(":29400", f":{free_port()}")
    jobs = [start(command, tmp_path) for _ in range(2)]
    told = [job.communicate(timeout=180) for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], told
    assert sum("on each of 2 ranks" in out for out, _ in told) == 1 and ranks_of(
        tmp_path / "runs/try"
    ) == [2]


def kill(job: psutil.Popen) -> None:
    """As a machine that loses its power."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in [*job.children(recursive=True), job]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    job.communicate()


@pytest.mark.slow
def test_a_machine_dies_and_another_joins_and_then_the_host_dies(tmp_path: Path) -> None:
    """The rows of the page's table about machines, with impatient agents."""
    impatient = (
        "--rdzv-conf "
        "join_timeout=60,last_call_timeout=2,keep_alive_interval=1,keep_alive_max_attempt=3 "
        "--max-restarts 3"
    )
    command = LOOPBACK.replace(":29400", f":{free_port()} {impatient}").replace(
        "--nnodes 2", "--nnodes 1:2"
    )
    more = (
        "--total-timesteps 1000000000 --log.checkpoint-interval-s 0 --train.rank-timeout-s 30 "
        "--log.dashboard off"
    )

    def agent() -> psutil.Popen:
        return start(command, tmp_path, more, TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")

    run, jobs = tmp_path / "runs/try", [agent()]
    try:
        eventually(
            lambda: run.is_dir() and len(list(run.glob("checkpoints/0*"))) >= 2, "two checkpoints"
        )
        jobs.append(agent())
        eventually(lambda: len(ranks_of(run)) == 2, "a start with the machine that joined")
        assert ranks_of(run) == [1, 2]
        time.sleep(2)  # Not in the middle of their start.
        kill(jobs.pop())
        eventually(lambda: len(ranks_of(run)) == 3, "a start without the machine that died")
        assert ranks_of(run) == [1, 2, 1]
        starts = json.loads((run / "run.json").read_text())["starts"]
        assert all(start["resumed_from"] for start in starts[1:])
        jobs.append(agent())
        eventually(lambda: len(ranks_of(run)) == 4, "a start with another machine")
        kill(jobs.pop(0))
        eventually(
            lambda: jobs[0].poll() is not None, "the end of the agent that has lost its host"
        )
        assert jobs[0].returncode != 0 and ranks_of(run) == [1, 2, 1, 2]
    finally:
        for job in jobs:
            kill(job)
