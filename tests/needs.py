# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Programs and packages that some tests need and that need not be installed:
`@pytest.mark.needs("Chromium")`.

Where one is missing, its tests are skipped, and the last line of a test run says how many, with the
command that installs it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.viewing.web import browser

ARM_HEADERS = Path("/usr/aarch64-linux-gnu/include")


@dataclass(frozen=True)
class Program:
    """What some tests need. Attributes: there: returns whether it is installed; command: installs
    it.
    """

    there: Callable[[], bool]
    command: str


def _modules(*names: str) -> Callable[[], bool]:
    return lambda: all(importlib.util.find_spec(name) for name in names)


def _commands(*names: str) -> Callable[[], bool]:
    return lambda: all(shutil.which(name) for name in names)


OFFICIAL_PYTHON = "PUFFERVEC_WOSAC_PYTHON"  # an interpreter with waymo_open_dataset and NumPy 1
PUFFERDRIVE_WEIGHTS = "PUFFERVEC_PUFFERDRIVE_WEIGHTS"  # a file of its weights
AARCH64 = ("aarch64-linux-gnu-gcc", "qemu-aarch64-static")
PROGRAMS = {
    "Chromium": Program(lambda: browser.find() is not None, "apt-get install chromium"),
    "aarch64": Program(
        _commands(*AARCH64),
        "apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static",
    ),
    "clang": Program(
        lambda: shutil.which("clang") is not None and ARM_HEADERS.is_dir(),
        "apt-get install clang libc6-dev-arm64-cross",
    ),
    "valgrind": Program(_commands("valgrind"), "apt-get install valgrind"),
    "fish": Program(_commands("fish"), "apt-get install fish"),
    "zsh": Program(_commands("zsh"), "apt-get install zsh"),
    "ALE": Program(_modules("ale_py"), "pip install ale-py"),
    "Box2D": Program(_modules("Box2D"), "pip install 'gymnasium[box2d]'"),
    "EnvPool": Program(_modules("envpool"), "pip install envpool"),
    "MiniGrid": Program(_modules("minigrid"), "pip install minigrid"),
    "SuperSuit": Program(_modules("supersuit"), "pip install supersuit"),
    "MuJoCo": Program(_modules("mujoco", "imageio"), "pip install 'gymnasium[mujoco]'"),
    "waymo_open_dataset": Program(
        lambda: bool(os.environ.get(OFFICIAL_PYTHON)) or _modules("waymo_open_dataset")(),
        f"pip install waymo-open-dataset-tf-2-12-0==1.6.7 where {OFFICIAL_PYTHON} points",
    ),
    "PufferDriveWeights": Program(
        lambda: bool(os.environ.get(PUFFERDRIVE_WEIGHTS)),
        f"name a file that puffer export wrote in {PUFFERDRIVE_WEIGHTS}",
    ),
}
FIXTURES = {"browser": "Chromium"}


def needs_of(item: pytest.Item) -> set[str]:
    """Return the names of the programs that a test needs."""
    named = {name for mark in item.iter_markers("needs") for name in mark.args}
    return named | {
        FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in FIXTURES
    }


class Absent:
    """The plugin: skips tests whose programs are missing and counts them, slow ones too.

    With pytest-xdist each process counts all tests, and the one that reports has a process's
    counts.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.missing = {name: program for name, program in PROGRAMS.items() if not program.there()}
        self.counts: Counter[str] = Counter()

    @pytest.hookimpl(tryfirst=True)  # before tests are left out for their markers
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for name in needs_of(item):
                if PROGRAMS[name] is not self.missing.get(name):
                    continue
                self.counts[name] += 1
                reason = f"{name} is not installed: {PROGRAMS[name].command}"
                item.add_marker(pytest.mark.skip(reason=reason))

    def pytest_sessionfinish(self) -> None:
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["absent"] = dict(self.counts)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.counts = Counter(getattr(node, "workeroutput", {}).get("absent", {})) or self.counts

    def pytest_unconfigure(self) -> None:
        """Print the line, behind all that pytest has to say."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if self.counts and reporter is not None:
            missing = (
                f"{name} ({count}: {PROGRAMS[name].command})"
                for name, count in sorted(self.counts.items())
            )
            reporter.write_line(
                f"not installed, with how many tests (slow ones too) need it: {', '.join(missing)}"
            )
