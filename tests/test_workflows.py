# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Continuous integration, pre-commit and the development container use what the project has."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
CI = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["make"]
CHOICES = CI["strategy"]["matrix"]["include"]


def test_workflows_make_targets_that_exist() -> None:
    wheels = yaml.safe_load((ROOT / ".github/workflows/wheels.yml").read_text())["jobs"]["dist"]
    runs = [step["run"] for job in (CI, wheels) for step in job["steps"] if "run" in step]
    assert runs == ["make ${{ matrix.targets }}", "make dist"]
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
    commands = [*runs[1:], container["postCreateCommand"]]
    used = {target for choice in CHOICES for target in choice["targets"].split()}
    used |= {command.removeprefix("make ") for command in commands}
    existing = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert used >= {"lint", "type", "test", "docs", "dist"} and used <= existing


def test_the_tests_run_on_every_supported_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    supported = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert [choice["python"] for choice in CHOICES if choice["targets"] == "test"] == supported


def test_pre_commit_uses_the_pinned_linters() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    pins = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line
    )
    assert [hook["rev"] for hook in hooks] == [f"v{pins['ruff']}", f"v{pins['clang-format']}"]
