# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/ray.md and docs/scale.md: flags of their commands exist, the table of settings is that of
the code.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bench import scale
from puffervec.train import TrainConfig
from puffervec.train.config import flags
from puffervec.train.config.hosts import RaySection
from tests.docs import pages

PAGE = (pages.ROOT / "docs/ray.md").read_text(encoding="utf-8")
SCALE = (pages.ROOT / "docs/scale.md").read_text(encoding="utf-8")


def commands(page: str, program: str) -> list[list[str]]:
    lines = [shlex.split(line, comments=True) for line in pages.commands(page, "bash")]
    return [words[1:] for words in lines if words[0] == program]


@pytest.mark.parametrize("args", commands(PAGE, "puffer-train"), ids=" ".join)
def test_commands_are_understood(args: list[str]) -> None:
    config = flags.build_config(TrainConfig.of(args[0]), args[1:])
    assert config.ray.address in ("local", "auto") and config.ray.hosts == int(
        flags.peek(args, "--ray.hosts") or 0
    )


def test_the_settings_are_all_there() -> None:
    rows = dict(re.findall(r"^\| `ray\.(\w+)`[^|]*\| ([^|]+) \|", PAGE, re.MULTILINE))
    defaults = {field.name: field.default for field in dataclasses.fields(RaySection)}
    assert rows == {
        name: "none" if value == "" else f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in defaults.items()
    }


def test_the_python_block_is_code() -> None:
    ((block, _),) = pages.examples(PAGE)
    compile(block.text, "docs/ray.md", "exec")
    names: dict[str, object] = {}
    exec(block.text, names)  # Makes the function; tests/wings/ray runs such trainers.
    assert callable(names["train"])


def test_flags_of_the_prediction_exist() -> None:
    for args in commands(SCALE, "python"):
        if args[0] == "bench/scale.py":
            scale.parse(args[1:])
    assert all(
        f"`--{name.replace('_', '-')}`" in SCALE
        for name in ("host_cores", "gbit", "gpu_steps_per_s", "most_segments")
    )


@pytest.mark.slow
def test_the_commands_of_the_start_work_in_their_order(tmp_path: Path) -> None:
    """On one machine, which is the learner's and every other; the last command is for machines that
    join later.
    """
    lines = pages.commands(PAGE.split("## Start")[1].split("## Settings")[0], "bash")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    home = tmp_path / "home"
    home.mkdir()
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    env = kept | {"HOME": str(home), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    rest = [
        "--vec.num-envs",
        "8",
        "--train.total-timesteps",
        "2000",
        "--log.folder",
        str(tmp_path),
        "--train.final-eval",
        "false",
    ]
    with contextlib.ExitStack() as stack:
        for line in lines:
            words = shlex.split(
                line.replace("learner", "127.0.0.1").replace("6379", port), comments=True
            )
            if words[0] == "export":
                env |= dict([words[1].split("=")])
            elif words[:2] == ["ray", "start"]:
                cpus = [] if "--head" in words else ["--num-cpus", "1"]
                command = [*words, *cpus, "--block"]
                process = stack.enter_context(
                    subprocess.Popen(
                        command,
                        env=env,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        text=True,
                    )
                )
                stack.callback(process.terminate)
                assert process.stdout is not None
                assert any("Ray runtime started" in told for told in process.stdout), (
                    f"{line}: {process.wait(60)}"
                )
            elif words[0] in ("ray", "puffer-train"):
                if words[0] == "puffer-train":
                    address = "local" if "local" in words else f"127.0.0.1:{port}"
                    words = [
                        "puffer-train",
                        "cartpole",
                        "--ray",
                        address,
                        "--ray.hosts",
                        "1",
                        *rest,
                    ]
                done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=250)
                assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
