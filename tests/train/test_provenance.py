# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import datetime
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
import torch

import puffervec
from puffervec.train import TrainConfig, Trainer
from puffervec.train.run import provenance

Small = Callable[..., TrainConfig]


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e@localhost", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *identity, "-C", str(folder), *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("no git")
    folder = tmp_path / "mine"
    (folder / "sub").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "a.py").write_text("1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def test_commit_and_changes_of_the_users_folder(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    (repository / "new.txt").touch()  # Not a tracked file: run folders are none either.
    assert provenance.git_state(repository / "sub") == {"commit": commit, "changed": False}
    (repository / "a.py").write_text("2\n")
    assert provenance.git_state(repository) == {"commit": commit, "changed": True}
    assert provenance.git_state(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.git_state(repository) is None  # no git


PROGRAMS = (
    "core.fsmonitor",
    "core.hooksPath",
    "filter.x.clean",
    "filter.x.process",
    "diff.external",
    "diff.x.textconv",
)


@pytest.fixture
def trap(repository: Path, tmp_path: Path) -> Path:
    """Make a repository that names a program wherever git takes one; it leaves a file that does not
    exist yet.
    """
    script = tmp_path / "trap.sh"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    script.chmod(0o755)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        shutil.copy(script, hooks / name)
    (repository / ".gitattributes").write_text("* filter=x diff=x\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "attributes")
    for name in PROGRAMS:
        git(repository, "config", name, str(hooks if name == "core.hooksPath" else script))
    return tmp_path / "ran"


@pytest.mark.parametrize("change", ["nothing", "touched", "same size", "longer"])
def test_looking_runs_no_program_of_the_repository(
    repository: Path, trap: Path, change: str
) -> None:
    file = repository / "a.py"
    if change == "touched":
        os.utime(file, (1, 1))
    elif change != "nothing":
        file.write_text("2\n" if change == "same size" else "longer\n")
    found = provenance.git_state(repository)
    assert found is not None and found["changed"] is (change in ("same size", "longer"))
    assert not trap.exists()


def test_nor_does_it_run_one_of_a_submodule(repository: Path, trap: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(
        outer,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(repository),
        "inner",
    )
    git(outer, "commit", "-qm", "with a submodule")
    for name in ("filter.x.clean", "filter.x.process", "core.fsmonitor"):
        git(outer / "inner", "config", name, str(tmp_path / "trap.sh"))
    (outer / "inner" / "a.py").write_text("3\n")
    found = provenance.git_state(outer)
    assert found is not None and found["changed"] is False and not trap.exists()


def test_other_layouts_of_a_repository(repository: Path, tmp_path: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "worktree", "add", "-q", "--detach", str(tmp_path / "tree"))
    assert provenance.git_state(tmp_path / "tree") == {"commit": commit, "changed": False}
    (tmp_path / "tree" / "a.py").unlink()
    assert provenance.git_state(tmp_path / "tree") == {"commit": commit, "changed": True}
    git(tmp_path, "clone", "-q", "--bare", str(repository), "bare.git")
    assert provenance.git_state(tmp_path / "bare.git") == {"commit": commit, "changed": None}


def test_a_start_is_recorded(
    small: Small, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    monkeypatch.setattr(
        sys, "argv", ["/somewhere/puffer-train", "probe", "--log.name", "two words"]
    )
    config = small(train={"seed": 7})
    with Trainer(config) as trainer:
        path, run_id = trainer.save(), trainer.files.run_id
    found = json.loads((trainer.folder / "run.json").read_text())
    assert found["schema_version"] == 1 and found["run_id"] == run_id and len(run_id) == 16
    (start,) = found["starts"]
    assert start["command"] == "puffer-train probe --log.name 'two words'" and start[
        "folder"
    ] == str(repository)
    assert start["git"]["commit"] == git(repository, "rev-parse", "HEAD")
    versions = {
        "puffervec": puffervec.__version__,
        "torch": torch.__version__,
        "numpy": numpy.__version__,
    }
    assert versions.items() <= start["versions"].items() and sys.version.startswith(
        start["versions"]["python"]
    )
    assert (start["env"], start["device"], start["seeds"], start["resumed_from"]) == (
        "probe",
        "cpu",
        {"train": 7},
        None,
    )
    assert start["platform"] and start["usable_cores"] >= 1 and isinstance(start["cpu"], str)
    assert datetime.datetime.fromisoformat(start["started"]).tzinfo is not None
    with Trainer(config, checkpoint=path) as trainer:
        assert trainer.files.run_id == run_id
    again = json.loads((trainer.folder / "run.json").read_text())
    assert (
        again["starts"][0] == start
        and len(again["starts"]) == 2
        and again["starts"][1]["resumed_from"] == path.name
    )


@pytest.mark.parametrize("text", ["", "[]", '{"run_id": "../../x", "starts": 3}', '{"run_id": 5}'])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / provenance.RUN_FILE).write_text(text)
    run_id = provenance.record_start(tmp_path, {"env": "probe"})
    found = json.loads((tmp_path / provenance.RUN_FILE).read_text())
    assert (
        run_id.isalnum()
        and found["run_id"] == run_id
        and [start["env"] for start in found["starts"]] == ["probe"]
    )


def test_a_zone_that_python_cannot_represent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "XXX-24:30")
    time.tzset()
    try:
        assert datetime.datetime.fromisoformat(
            provenance.circumstances()["started"]
        ).utcoffset() == datetime.timedelta(0)
    finally:
        monkeypatch.undo()
        time.tzset()
