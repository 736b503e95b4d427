# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Continuous integration, pre-commit and the development container use what the project has."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
CI = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["make"]
CHOICES = CI["strategy"]["matrix"]["include"]
PINS = dict(
    line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line
)


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
    assert [hook["rev"] for hook in hooks] == [f"v{PINS['ruff']}", f"v{PINS['clang-format']}"]


def test_the_readers_run_with_pinned_packages_that_the_extra_allows() -> None:
    (choice,) = [choice for choice in CHOICES if choice["targets"] == "readers"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extra,) = map(Requirement, project["optional-dependencies"]["opendrive"])
    assert extra.specifier.contains(PINS[extra.name])
    assert extra.marker is not None and extra.marker.evaluate({"python_version": choice["python"]})
    recipe = (ROOT / "Makefile").read_text().partition("\nreaders:")[2].partition("\n\n")[0]
    lines = re.findall(r"install -c constraints.txt (.*)", recipe)
    names = [name for line in lines for name in line.split() if not name.startswith("-")]
    assert "py123d" in names and set(names) <= set(PINS)
