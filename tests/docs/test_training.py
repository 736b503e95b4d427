# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/training.md: its verbs and flags are those of the code, and its Python runs."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from torch.distributed.run import get_args_parser

from puffervec.commands import cli, settings_help
from puffervec.train import TrainConfig
from puffervec.train.config import flags
from puffervec.train.config.ranges import PREFIX, build_space
from tests.docs import pages

FILE = pages.ROOT / "docs" / "training.md"
PAGE = FILE.read_text(encoding="utf-8")
COMMANDS = pages.commands(PAGE, "bash")
TORCHRUN = {flag for action in get_args_parser()._actions for flag in action.option_strings}


def test_every_verb_is_listed() -> None:
    assert re.findall(r"^\| `puffer-train \[?(\w+)\]?", PAGE, re.MULTILINE) == list(cli.VERBS)


def test_flags_of_the_commands_exist() -> None:
    assert len(COMMANDS) == 23
    for command in COMMANDS:
        if command.startswith("torchrun "):
            launch, command = command.split("$(which ")
            assert {arg for arg in launch.split() if arg.startswith("--")} <= TORCHRUN
            command = command.replace(")", "", 1)
        _, first, *args = shlex.split(command, comments=True)
        verb = cli.VERBS["train" if first not in cli.VERBS else first]
        asked = verb.parse(args if first in cli.VERBS else [first, *args])
        if verb.configured and asked.target is not None:
            config = TrainConfig.of(asked.target)
            build_space(config, flags.take_prefixed(asked.settings, PREFIX))
            flags.build_config(config, asked.settings)


def test_other_flags_that_the_text_names() -> None:
    usage = (
        cli.usage()
        + "".join(verb.usage for verb in cli.VERBS.values())
        + settings_help.full_help(TrainConfig.of("probe"))
    )
    named = set(
        re.findall(r"`(?:[^`\n]*\s)?(--\w[\w.-]+)", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL))
    )
    assert len(named) > 5 and {
        flag
        for flag in named
        if flag not in usage and flag not in TORCHRUN and flag != f"{PREFIX}KEY"
    } <= {"--help"}


@pytest.mark.slow
@pytest.mark.parametrize("env", ["cartpole", "CartPole-v1", "Pendulum-v1", "tag_grid"])
def test_the_network_of_the_page_trains(
    env: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (net,) = (block.text for block in pages.blocks(PAGE) if 'title="my_nets.py"' in block.info)
    (tmp_path / "my_nets.py").write_text(net)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_nets", raising=False)
    small = (
        "--num-envs 4 --total-timesteps 300 --train.horizon 16 --log.dashboard off --run-name r "
        "--train.final-eval false"
    )
    assert cli.main([env, "--policy.kind", "my_nets:Net", *small.split()]) == 0
    assert cli.main(["eval", "runs/r", "--policy", "my_nets:Net", "--episodes", "2"]) == 0


@pytest.mark.slow
def test_the_code_prints_what_the_page_shows(tmp_path: Path) -> None:
    assert pages.differing(PAGE.replace("2_000", "200").replace("4_000", "400"), tmp_path) == []
