# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A disk that fails on demand, and one that loses power: what tests of checkpoints put in place of
the functions of `os`.

`Failing` lets the n-th call fail. `Recorder` writes down what a save does; `after_power_loss`
yields every content that a disk may have when the power went at any moment of it: what was synced
is there, of the rest any part (see `_Disk`).
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CALLS = ("open", "write", "fsync", "close", "mkdir", "rename", "unlink", "rmdir")
Operation = tuple[
    Any, ...
]  # (name, path, ...); rename: (name, from, to); write: (name, path, bytes)
Tree = frozenset[tuple[str, bytes | None]]  # path below the root, content; None: a folder


class Failing:
    """Within the block, the n-th call of `CALLS` fails, once or with all that follow; 0: none
    fails, they are counted.
    """

    def __init__(self, nth: int = 0, for_ever: bool = False, number: int = errno.ENOSPC) -> None:
        self.count, self.nth, self.for_ever, self.number = 0, nth, for_ever, number
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> Failing:
        for name in CALLS:
            self._patch.setattr(os, name, self._wrap(name, getattr(os, name)))
        return self

    def __exit__(self, *error: object) -> None:
        self._patch.undo()

    def _wrap(self, name: str, real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            due = self.nth and (self.count == self.nth or (self.for_ever and self.count > self.nth))
            if due and name != "close":
                raise OSError(self.number, os.strerror(self.number))
            done = real(*args, **kwargs)
            if due:  # A close that fails has closed all the same.
                raise OSError(self.number, os.strerror(self.number))
            return done

        return call


class Recorder:
    """Within the block, writes down the operations that change the disk, in order."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._open: dict[int, str] = {}
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> Recorder:
        for name in CALLS:
            self._patch.setattr(
                os, name, self._wrap(getattr(self, f"_on_{name}"), getattr(os, name))
            )
        return self

    def __exit__(self, *error: object) -> None:
        self._patch.undo()

    def _wrap(self, note: Any, real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            done = real(*args, **kwargs)
            note(done, *args, **kwargs)
            return done

        return call

    def _path(self, path: Any, dir_fd: int | None = None) -> str:
        return os.path.join(self._open[dir_fd], path) if dir_fd is not None else os.fspath(path)

    def _on_open(
        self, fd: int, path: Any, flags: int, *rest: Any, dir_fd: int | None = None
    ) -> None:
        self._open[fd] = self._path(path, dir_fd)
        if flags & os.O_CREAT:
            self.operations.append(("create", self._open[fd]))

    def _on_write(self, count: int, fd: int, data: Any) -> None:
        self.operations.append(("write", self._open[fd], bytes(data[:count])))

    def _on_fsync(self, done: None, fd: int) -> None:
        self.operations.append(("sync", self._open[fd]))

    def _on_close(self, done: None, fd: int) -> None:
        self._open.pop(fd, None)

    def _on_mkdir(
        self, done: None, path: Any, mode: int = 0o777, dir_fd: int | None = None
    ) -> None:
        self.operations.append(("mkdir", self._path(path, dir_fd)))

    def _on_rename(
        self,
        done: None,
        before: Any,
        after: Any,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> None:
        self.operations.append(
            ("rename", self._path(before, src_dir_fd), self._path(after, dst_dir_fd))
        )

    def _on_unlink(self, done: None, path: Any, *, dir_fd: int | None = None) -> None:
        self.operations.append(("unlink", self._path(path, dir_fd)))

    def _on_rmdir(self, done: None, path: Any, *, dir_fd: int | None = None) -> None:
        self.operations.append(("unlink", self._path(path, dir_fd)))


class _Disk:
    """Folders as tables of names, files as bytes. Each change waits until its folder or file is
    synced; a change that waits may be lost or not, whatever happens to the others. A rename is one
    change. Unsynced bytes of a file may be lost, cut, zero or there.
    """

    def __init__(self, root: Path) -> None:
        self.root = os.fspath(root)
        self.folders: dict[int, dict[str, int]] = {0: {}}  # as the program sees them
        self.safe: dict[int, dict[str, int]] = {0: {}}
        self.waiting: list[
            tuple[int, list[tuple[str, int | None]]]
        ] = []  # (folder, [(name, what it names now)])
        self.files: dict[int, bytes] = {}
        self.synced: dict[int, bytes] = {}
        self._numbers = itertools.count(1)
        for path in sorted(root.rglob("*")):
            self.apply(("mkdir", str(path)) if path.is_dir() else ("create", str(path)))
            if path.is_file():
                self.apply(("write", str(path), path.read_bytes()))
        for number in list(self.folders):
            self._sync(number)
        for number in self.files:
            self._sync(number)

    def _find(self, path: str) -> tuple[int, str]:
        """The folder that holds a path's last name, and that name; ("", for the root)."""
        names = os.path.relpath(path, self.root).split(os.sep)
        number = 0
        for name in names[:-1]:
            number = self.folders[number][name]
        return number, names[-1]

    def apply(self, operation: Operation) -> None:
        kind, path = operation[:2]
        if os.path.relpath(path, self.root) == ".":
            if kind == "sync":
                self._sync(0)
            return
        folder, name = self._find(path)
        if kind in ("mkdir", "create"):
            number = next(self._numbers)
            (self.folders if kind == "mkdir" else self.files)[number] = (
                {} if kind == "mkdir" else b""
            )  # type: ignore[assignment]
            (self.safe if kind == "mkdir" else self.synced)[number] = {} if kind == "mkdir" else b""  # type: ignore[assignment]
            self._change(folder, [(name, number)])
        elif kind == "write":
            self.files[self.folders[folder][name]] += operation[2]
        elif kind == "sync":
            self._sync(self.folders[folder][name])
        elif kind == "rename":
            there, new_name = self._find(operation[2])
            assert there == folder, "a rename from one folder into another is not modelled"
            self._change(folder, [(new_name, self.folders[folder][name]), (name, None)])
        else:
            self._change(folder, [(name, None)])

    def _change(self, folder: int, names: list[tuple[str, int | None]]) -> None:
        _put(self.folders[folder], names)
        self.waiting.append((folder, names))

    def _sync(self, number: int) -> None:
        if number in self.files:
            self.synced[number] = self.files[number]
            return
        for folder, names in self.waiting:
            if folder == number:
                _put(self.safe[folder], names)
        self.waiting = [(folder, names) for folder, names in self.waiting if folder != number]

    def contents(self) -> Iterator[Tree]:
        """Every content that the disk may have when the power goes now."""
        for kept in itertools.product((False, True), repeat=len(self.waiting)):
            folders = {number: dict(names) for number, names in self.safe.items()}
            for (folder, names), keep in zip(self.waiting, kept, strict=True):
                if keep:
                    _put(folders[folder], names)
            unsure = [number for number, data in self.files.items() if data != self.synced[number]]
            for parts in itertools.product(*(_remains(self.files[number]) for number in unsure)):
                yield frozenset(
                    _tree(folders, self.synced | dict(zip(unsure, parts, strict=True)), 0, "")
                )


def _put(folder: dict[str, int], names: list[tuple[str, int | None]]) -> None:
    for name, number in names:
        if number is None:
            folder.pop(name, None)
        else:
            folder[name] = number


def _remains(data: bytes) -> tuple[bytes, ...]:
    return b"", data[: len(data) // 2], bytes(len(data)), data


def _tree(
    folders: dict[int, dict[str, int]], files: dict[int, bytes], number: int, path: str
) -> Iterator[Any]:
    for name, what in folders[number].items():
        below = f"{path}/{name}"
        yield below, files.get(what)
        if what in folders:
            yield from _tree(folders, files, what, below)


def after_power_loss(before: _Disk, operations: list[Operation]) -> Iterator[tuple[int, Tree]]:
    """Yield (operations done, content) for every moment and every content; each content once."""
    seen: set[tuple[bool, Tree]] = set()
    for done in range(len(operations) + 1):
        for tree in before.contents():
            key = (done == len(operations), tree)
            if key not in seen:
                seen.add(key)
                yield done, tree
        if done < len(operations):
            before.apply(operations[done])


def snapshot(root: Path) -> _Disk:
    """The disk as it is now, with everything synced."""
    return _Disk(root)


def lay_out(tree: Tree, root: Path) -> Path:
    """Make a content real in a new folder."""
    root.mkdir()
    for path, data in sorted(tree, key=lambda item: item[0]):
        if data is None:
            (root / path[1:]).mkdir()
        else:
            (root / path[1:]).write_bytes(data)
    return root


@contextlib.contextmanager
def half_writes() -> Iterator[None]:
    """Within the block, a write takes at most half of what it is given, as the kernel may do."""
    real = os.write
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, data[: max(1, len(data) // 2)]))
        yield
