# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/train/device/durable.py; on failing disks in tests/faults/test_checkpoint_disk.py."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from puffervec.train.device import durable


def test_folders_are_made_with_those_above(tmp_path: Path) -> None:
    for _ in range(2):
        durable.make_folder(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        durable.make_folder(tmp_path / "file")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, r"disk full \(No space left on device\): free \d+ MiB at FOLDER"),
        (errno.EDQUOT, r"disk full \(.*\): free \d+ MiB at FOLDER"),
        (errno.EFBIG, r"\(ulimit -f\) to 3 MiB"),
        (errno.EROFS, "Read-only file system: make FOLDER writable"),
        (errno.EACCES, "Permission denied: make FOLDER writable"),
        (errno.EMFILE, r"\(ulimit -n\)"),
        (errno.EIO, "dmesg"),
        (errno.ENOTDIR, "Not a directory: look at FOLDER"),
    ],
)
def test_each_reason_says_what_to_do(number: int, words: str, tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    text = durable.reason(OSError(number, os.strerror(number)), folder, 2 * 2**20 + 1)
    assert re.search(words.replace("FOLDER", re.escape(str(folder))), text), text


def test_missing_room_is_what_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = os.statvfs(tmp_path)
    free = found.f_bavail * found.f_frsize
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    text = durable.reason(OSError(errno.ENOSPC, "full"), tmp_path, free + 5 * 2**20)
    assert text == f"disk full (full): free 5 MiB at {tmp_path}"
