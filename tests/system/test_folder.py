# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/system/folder.py; whole commands on folders made to do harm are in
tests/faults/test_hostile_folders.py.
"""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from puffervec.system import folder
from puffervec.system.folder import (
    REMOVED,
    Folder,
    NotPlainError,
    make_folder,
    open_file,
    reason,
    replace_file,
)

pytestmark = pytest.mark.usefixtures("no_leaks")


def test_files_are_new_and_whole(tmp_path: Path) -> None:
    with Folder(tmp_path) as opened:
        opened.write("a", [b"x" * 50_000, b"", b"y" * 50_000])
        assert opened.read("a", 100_000) == b"x" * 50_000 + b"y" * 50_000
        with pytest.raises(FileExistsError):
            opened.write("a", [b""])
        with pytest.raises(OSError, match="more than 99999 bytes"):
            opened.read("a", 99_999)


def test_a_replaced_file_is_the_old_one_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    for text in (b"first", b"second"):
        replace_file(path, text)
        assert path.read_bytes() == text

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    for call in ("fsync", "rename"):
        with monkeypatch.context() as patch:
            patch.setattr(folder.os, call, lambda *_, **__: fail())
            with pytest.raises(OSError, match="full"):
                replace_file(path, b"third")
        assert path.read_bytes() == b"second" and os.listdir(tmp_path) == ["a"]


def make_link(path: Path) -> None:
    path.symlink_to(path.parent.parent / "outside")


def make_loop(path: Path) -> None:
    path.symlink_to(path)


def make_socket(path: Path) -> None:
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(path.name)


@pytest.mark.parametrize("make", [make_link, make_loop, os.mkfifo, make_socket, Path.mkdir])
def test_what_is_no_plain_file_is_neither_read_nor_written(
    tmp_path: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outside").write_bytes(b"canary")
    (tmp_path / "inside").mkdir()
    path = tmp_path / "inside" / "name"
    make(path)
    uses: list[Callable[[Folder], object]] = [
        lambda opened: opened.read("name", 10),
        lambda opened: opened.open("name", os.O_RDWR | os.O_CREAT),
        lambda opened: opened.write("name", [b"x"]),
        lambda opened: opened.replace("name", [b"x"]),
        lambda opened: open_file(path),
        lambda opened: replace_file(path, b"x"),
    ]
    with Folder(tmp_path / "inside") as opened:
        for use in uses:
            with pytest.raises(OSError) as caught:
                use(opened)
            assert caught.value.filename in ("name", str(path))
        if make is not Path.mkdir:
            with pytest.raises(NotPlainError, match="it is (a link|not a plain file)"):
                opened.below("name")
            with pytest.raises(NotPlainError):
                opened.refuse_odd("nothing", "name")
    assert (tmp_path / "outside").read_bytes() == b"canary" and os.listdir(tmp_path / "inside") == [
        "name"
    ]


def test_a_link_that_appears_after_the_look_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link may appear between the check and the opening: the opening itself refuses it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "file").write_bytes(b"canary")
    with Folder(tmp_path) as opened:
        (tmp_path / "link").symlink_to(tmp_path / "outside")
        (tmp_path / "to-file").symlink_to(tmp_path / "file")
        monkeypatch.setattr(
            Folder, "kind", lambda self, name: "folder" if name == "link" else "file"
        )
        with pytest.raises(OSError):
            opened.below("link")
        for flags in (os.O_RDONLY, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_TRUNC):
            with pytest.raises(OSError):
                opened.open("to-file", flags)
        opened.replace("to-file", [b"new"])  # Takes the link's place.
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(NotPlainError):
            opened.open("pipe")
    assert (tmp_path / "file").read_bytes() == b"canary" and not (tmp_path / "to-file").is_symlink()


def test_files_with_two_names_are_not_written_in_place(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    os.link(tmp_path / "a", tmp_path / "b")
    with Folder(tmp_path) as opened:
        with pytest.raises(NotPlainError, match="hard links"):
            opened.open("a", os.O_RDWR)
        assert opened.read("a", 10) == b"old"
        opened.replace("a", [b"new"])
    assert (tmp_path / "b").read_bytes() == b"old"


def test_names_are_names(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with Folder(tmp_path / "in") as opened:
        for name in ("", ".", "..", "../x", "a/b", "a\0b", "/etc/passwd"):
            for use in (
                opened.open,
                opened.below,
                opened.made,
                opened.mkdir,
                opened.remove_tree,
                opened.kind,
            ):
                with pytest.raises(OSError, match="not the name of a file"):
                    use(name)
    assert not list((tmp_path / "in").iterdir())


def test_folders_are_made_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Folder(tmp_path) as opened:
        for _ in range(2):
            with opened.made("a") as inner:
                inner.write("file" if "file" not in inner.names() else "more", [b""])
        assert [(name, opened.kind(name)) for name in opened.names()] == [("a", "folder")]
        with monkeypatch.context() as patch:
            patch.setattr(Folder, "remove_tree", lambda *_: None)  # As if it were killed here.
            opened.remove("a")
        assert opened.names() == [".removed-a"]
        opened.sweep(REMOVED)
        assert opened.names() == []


def test_what_links_lead_to_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "canary").touch()
    inside = tmp_path / "inside"
    (inside / ".partial-1").mkdir(parents=True)
    for link in (".removed-1", ".partial-1/link", "000000000001"):
        (inside / link).symlink_to(tmp_path / "outside")
    with Folder(inside) as opened:
        opened.sweep(".removed-", ".partial-")
        opened.remove("000000000001")
        assert opened.names() == []
    assert (tmp_path / "outside" / "canary").exists()


def test_ways_out_below_a_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "wandb" / "run-1").mkdir(parents=True)
    (run / "wandb" / "latest-run").symlink_to("run-1")  # As Weights & Biases makes them.
    with Folder(run) as opened:
        opened.refuse_ways_out("nothing")
        opened.refuse_ways_out("wandb")
        for target in ("../../../outside", tmp_path, "/etc/passwd", tmp_path / "run-beside"):
            link = run / "wandb" / "run-1" / "log"
            link.symlink_to(target)
            with pytest.raises(NotPlainError, match="leads out of the run folder") as caught:
                opened.refuse_ways_out("wandb")
            assert caught.value.filename == str(link)
            link.unlink()
        os.mkfifo(run / "wandb" / "pipe")
        with pytest.raises(NotPlainError, match="not a plain file"):
            opened.refuse_ways_out("wandb")


def test_folders_are_made_with_those_above(tmp_path: Path) -> None:
    for _ in range(2):
        make_folder(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file")


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
        (errno.ENOTDIR, "Not a directory: check FOLDER"),
    ],
)
def test_each_reason_says_what_to_do(number: int, words: str, tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    text = reason(OSError(number, os.strerror(number)), folder, 2 * 2**20 + 1)
    assert re.search(words.replace("FOLDER", re.escape(str(folder))), text), text


def test_missing_room_is_what_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = os.statvfs(tmp_path)
    free = found.f_bavail * found.f_frsize
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    text = reason(OSError(errno.ENOSPC, "full"), tmp_path, free + 5 * 2**20)
    assert text == f"disk full (full): free 5 MiB at {tmp_path}"
