# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/from-gpudrive.md and docs/from-pufferdrive.md: every name of ours in their tables exists,
and their commands are taken.

Their tables of observation columns are those of test_drive.py.
"""

from __future__ import annotations

import importlib
import re
import shlex
from dataclasses import fields
from typing import Any

import pytest

from drive_env import cli as scenes
from drive_env.config import DriveConfig
from drive_env.env import TRAINING
from drive_env.evaluate.columns import MEANS, MORE_RATES, RATES
from drive_env.evaluate.evaluate import EVALUATION
from puffervec.commands import cli
from puffervec.train.config.flags import apply_flags, known_flags
from puffervec.train.config.sections import TrainConfig
from tests.docs import pages

NAMES = {field.name for field in fields(DriveConfig)} | {
    *RATES,
    *MORE_RATES,
    *MEANS,
    *TRAINING.rates,
    "goals",
    "goals_again",
}
FLAGS = set(known_flags(TrainConfig.bare("drive")))


def ours(page: str) -> list[str]:
    """The names in the second column of the tables of names."""
    rows = re.findall(r"^\|[^|]*\|([^|]*)\|[^|]*\|$", page, re.MULTILINE)
    return [name for cell in rows for name in re.findall(r"`([^`]+)`", cell)]


def exists(name: str) -> bool:
    """Whether a setting takes the value, or the name is that of a setting, metric, flag, verb or of
    what can be imported.
    """
    if name.startswith("--suite "):
        return name.split()[1] in EVALUATION.suites
    if name.startswith("--"):
        return name in FLAGS
    setting, equals, value = name.partition("=")
    if equals:
        given: dict[str, Any] = {setting: int(value) if value.isdigit() else value}
        given |= {"actions": "continuous"} if setting == "dynamics" else {}
        DriveConfig(**given)  # raises where it is not taken
        return True
    command, _, verb = name.partition(" ")
    if verb:
        return (
            verb in cli.VERBS if command == "puffer-train" else scenes.main([verb, "--help"]) == 0
        )
    return name in NAMES or is_importable(name)


def is_importable(name: str) -> bool:
    parts = name.split(".")
    for at in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:at]))
        except ModuleNotFoundError:
            continue
        for part in parts[at:]:
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("simulator", ["gpudrive", "pufferdrive", "waymax"])
def test_every_name_of_ours_exists(simulator: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = pages.ROOT / "docs" / f"from-{simulator}.md"
    page = path.read_text(encoding="utf-8")
    found = ours(page)
    assert len(found) > 20 and [name for name in found if not exists(name)] == []
    assert pages.missing_links(path) == []
    (command,) = (block.text for block in pages.blocks(page) if block.info == "sh")
    words = shlex.split(command.replace("\\\n", ""))[2:]
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert set(given) <= FLAGS
    config = apply_flags(TrainConfig.of("drive"), words)
    config.check()
    if simulator != "waymax":
        assert config.env.observation == simulator and config.env.dynamics == f"classic_{simulator}"
    rewards = {
        field.name
        for field in fields(DriveConfig)
        if re.fullmatch("reward_(?!ranges).*", field.name)
    }
    preset = {name for name in rewards if getattr(config.env, name) != getattr(DriveConfig(), name)}
    said = {flag.removeprefix("--env.").replace("-", "_") for flag in given}
    assert preset <= said and {
        "--env.reward-goal",
        "--env.reward-collision",
        "--env.reward-offroad",
    } <= set(given)
    assert {"--train.horizon", "--train.gamma", "--train.lr"} <= set(given)


def test_a_name_that_does_not_exist_is_noticed() -> None:
    assert (
        not exists("num_worlds") and not exists("--train.speed") and not exists("puffer-train fly")
    )
    assert not exists("puffervec_of.old")
