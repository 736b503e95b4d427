# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Wings can be taken off (puffervec/doors.py): without one, the rest trains, evaluates and passes
its tests.

A tree of links is puffervec without some wings; what runs there imports puffervec from it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from puffervec import doors
from tests.test_source_rules import ROOT

WINGS = doors.names()
CORE_TESTS = (
    "tests/train/test_trainer.py",
    "tests/train/test_turn.py",
    "tests/commands/test_eval.py",
)
# By wing: arguments of `puffer-train` that need it, and the setting that the error names.
ASKING = {
    "plan": (("cartpole", "--train.plan", "arena"), "train.plan"),
    "evaluations": (("cartpole", "--eval.every-s", "5"), "eval.every_s"),
    "reference": (("cartpole", "--train.kl-to", "runs/x"), "train.kl_to"),
    "ray": (("cartpole", "--ray", "local"), "ray.address"),
    "warpdrive": (("--warpdrive", "x.yaml"), "--warpdrive"),
    "ocean": (("ocean:x",), "ocean:PATH"),
}


def tree_without(hidden: Collection[str], folder: Path) -> Path:
    """Make the tree; return the folder in which `puffervec` and `drive_env` lie."""
    package = folder / "puffervec"
    wings = package / "wings"
    wings.mkdir(parents=True)
    for source, target, left_out in (
        (ROOT / "puffervec", package, {"wings"}),
        (ROOT / "puffervec" / "wings", wings, set(hidden)),
    ):
        for path in source.iterdir():
            if path.name not in left_out:
                (target / path.name).symlink_to(path)
    (folder / "drive_env").symlink_to(ROOT / "drive_env")
    (folder / "csrc").symlink_to(ROOT / "csrc")
    return folder


def run_in(tree: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-P", *command], cwd=tree, env=environment, capture_output=True, text=True
    )


def puffer_train(tree: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return run_in(
        tree, "-c", "from puffervec.commands.cli import main; raise SystemExit(main())", *args
    )


def test_there_are_wings() -> None:
    assert {"plan", "profile", "ray", "sharded", "sweep", "watch"} <= set(WINGS)


def test_trains_and_evaluates_without_any_wing(tmp_path: Path) -> None:
    tree = tree_without(WINGS, tmp_path)
    small = ("--train.total-timesteps", "4096", "--train.device", "cpu", "--log.dashboard", "off")
    trained = puffer_train(tree, "cartpole", *small, "--log.folder", str(tmp_path / "runs"))
    assert trained.returncode == 0, trained.stderr
    run = next((tmp_path / "runs").iterdir())
    evaluated = puffer_train(tree, "eval", str(run), "--episodes", "4")
    assert evaluated.returncode == 0 and "return" in evaluated.stdout, evaluated.stderr
    usage = puffer_train(tree, "--help").stdout
    assert "puffer-train eval" in usage and not any(
        f"puffer-train {wing} " in usage for wing in WINGS
    )


@pytest.mark.slow
@pytest.mark.parametrize("wing", ASKING)
def test_what_needs_a_wing_says_so(wing: str, tmp_path: Path) -> None:
    args, setting = ASKING[wing]
    found = puffer_train(tree_without([wing], tmp_path), *args)
    assert found.returncode == 2
    assert f"{setting} needs puffervec.wings.{wing}, which this installation lacks" in found.stderr


@pytest.mark.slow
@pytest.mark.parametrize("wing", WINGS)
def test_the_core_passes_its_tests_without(wing: str, tmp_path: Path) -> None:
    tree = tree_without([wing], tmp_path)
    (tree / "tests").symlink_to(ROOT / "tests")
    tests = run_in(
        tree,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow and not gpu",
        *CORE_TESTS,
    )
    assert tests.returncode == 0, tests.stdout[-2000:]
