# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/drive.md: its code runs, and its tables are those of the code."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from drive_env.config import DriveConfig
from drive_env.env import ENV
from drive_env.evaluate.baselines import ACCELERATIONS_MPS2, STEERINGS_RAD
from drive_env.evaluate.observation import columns
from drive_env.scenes.levels import LEVEL_M
from puffervec.train.config.flags import known_flags
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import env_spec
from puffervec.train.verbs import evaluate
from tests.docs import pages

PAGE = (pages.ROOT / "docs" / "drive.md").read_text(encoding="utf-8")


def table(head: str) -> list[list[str]]:
    """Return the rows of the table under a head row, as cells without backquotes."""
    rows = PAGE.partition(f"| {head} |\n")[2].partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip().replace("`", "") for cell in row.split("|")[1:-1]] for row in rows]


def test_the_code_prints_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path))
    (example,) = pages.examples(PAGE)
    done = subprocess.run([sys.executable, "-c", example[0].text], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert example[1] is not None and done.stdout == example[1].text


def test_columns_units_and_scales() -> None:
    listed = [cells[:4] for cells in table("block | column | unit | scale | meaning")]
    assert listed == [[block, c.name, c.unit, f"{c.scale:g}"] for block, found in columns().items() for c in found]


def test_actions() -> None:
    rows = dict(table("| values"))
    for key, values in (("acceleration in m/s²", ACCELERATIONS_MPS2), ("steering in rad, positive to the left", STEERINGS_RAD)):
        assert [float(text) for text in rows[key].split(",")] == pytest.approx(values.tolist())
    assert len(ACCELERATIONS_MPS2) * len(STEERINGS_RAD) == 91


def test_rewards_and_their_defaults() -> None:
    listed = {name: float(value) for name, value, _ in table("setting | default | paid")}
    assert listed == {name: getattr(DriveConfig, name) for name in vars(DriveConfig) if name.startswith("reward_")}


def test_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path))
    spec = env_spec(TrainConfig.bare("drive").merged({"env": {"scenes": "generated:2", "num_agents": 24}}))
    head = "record | in the log and in `eval` | what it is a share or mean of"
    assert {cells[0] for cells in table(head)} == set(spec.record_names)


def test_settings_and_flags_exist() -> None:
    config = TrainConfig.bare("drive")
    names = set(re.findall(r"`(\w+_\w+)`", PAGE))
    known = {flag.removeprefix("--env.").replace("-", "_") for flag in known_flags(config)}
    listed = {name for found in columns().values() for name in (column.name for column in found)}
    others = {"mark_as_expert", "goal_steps", "progress_m", "PUFFERVEC_CACHE"}
    assert names - known - listed - others == set()
    assert f"more than {LEVEL_M:g} m apart" in PAGE
    own = ENV.own_evaluation()
    assert own is not None
    commands = [line for block in pages.blocks(PAGE) if block.info == "sh" for line in block.text.splitlines()]
    assert len(commands) == 4
    for command in commands:
        request = evaluate.parse(shlex.split(command)[2:])
        assert request.baseline is None or request.baseline in own.baselines
