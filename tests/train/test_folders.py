# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The order of run folders (puffervec/train/run/folders.py)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from puffervec.system.folder import Folder
from puffervec.train.run import folders


def start(run: Path, second: int) -> Path:
    """Write run.json as a start at this second would."""
    run.mkdir(parents=True, exist_ok=True)
    (run / folders.RUN_FILE).write_text("{}")
    os.utime(run / folders.RUN_FILE, (second, second))
    return run


def test_the_run_that_was_started_or_resumed_last_comes_first(tmp_path: Path) -> None:
    one, two, three = (start(tmp_path / name, number) for number, name in enumerate("bca", 1))
    assert folders.newest_first(tmp_path) == [three, two, one]
    (two / "plot.png").touch()  # Newer than all of them, but it starts nothing.
    assert folders.newest_first(tmp_path) == [three, two, one]
    start(one, 9)
    assert folders.newest_first(tmp_path) == [one, three, two]


def test_folders_that_no_run_was_started_in_come_last(tmp_path: Path) -> None:
    run = start(tmp_path / "a", 1)
    (tmp_path / "z").mkdir()
    (tmp_path / "y" / folders.RUN_FILE).mkdir(parents=True)  # Not a file.
    assert folders.newest_first(tmp_path) == [run, tmp_path / "z", tmp_path / "y"]


def test_files_and_links_are_no_runs(tmp_path: Path) -> None:
    run = start(tmp_path / "runs" / "a", 1)
    (tmp_path / "runs" / "notes.txt").touch()
    (tmp_path / "runs" / "link").symlink_to(start(tmp_path / "elsewhere", 2))
    assert folders.newest_first(tmp_path / "runs") == [run]
    assert folders.newest_first(tmp_path / "none") == []


def test_a_folder_that_vanishes_meanwhile_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, gone, emptied, last = (start(tmp_path / name, i) for i, name in enumerate("abcd"))
    below, kind = Folder.below, Folder.kind

    def remove_before(folder: Folder, name: str) -> Folder:
        if name == gone.name:
            shutil.rmtree(gone)
        return below(folder, name)

    def remove_after(folder: Folder, name: str) -> str:
        found = kind(folder, name)
        if folder.path == emptied:
            shutil.rmtree(emptied)
        return found

    monkeypatch.setattr(Folder, "below", remove_before)
    monkeypatch.setattr(Folder, "kind", remove_after)
    assert folders.newest_first(tmp_path) == [last, first]
