# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Files that verbs write (puffervec/commands/outputs.py): bad ones are refused before any work."""

from __future__ import annotations

from pathlib import Path

import pytest

from puffervec.commands.outputs import check_output, save_output
from puffervec.errors import ConfigError


def test_a_file_that_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / "a.PNG"
    check_output("--out", path, ".png", ".svg")
    check_output("--out", path)
    assert not path.exists()
    save_output(path, b"one")
    check_output("--out", path, ".png")
    save_output(path, b"two")
    assert path.read_bytes() == b"two"


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link.png").symlink_to(tmp_path / "target")
    (tmp_path / "folder.png").mkdir()
    for name, words in {
        "a.txt": "--out .*/a.txt: the name must end in .png or .svg",
        "none/a.png": "--out .*/none/a.png: there is no folder .*/none",
        "link.png": "cannot write .*link.png: it is a link, and links are not followed",
        "folder.png": "--out .*/folder.png: is a folder: give a file",
    }.items():
        with pytest.raises(ConfigError, match=words):
            check_output("--out", tmp_path / name, ".png", ".svg")
    for name in ("none/a.png", "link.png", "folder.png"):
        with pytest.raises(ConfigError, match=f"cannot write .*{name}: "):
            save_output(tmp_path / name, b"")
    assert not (tmp_path / "target").exists()
