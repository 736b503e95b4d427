# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Folders that a stranger may have filled: run folders, checkpoints, caches. Nothing is followed
out of them.

A `Folder` holds a descriptor, and every name below it is looked up relative to that descriptor, one
name at a time, without following links. So a link that is there, or that appears between two calls,
is refused and never opened; the same goes for pipes, sockets and devices, which may block or act
when they are opened. Files that are written in place must have one name only, since a second one (a
hard link) may belong to something else; files that are replaced get a new inode, and need not.

The folder itself is named by the user, so its path may lead through links: `runs/best ->
/data/runs/7` is a choice of theirs. A file is safe once it and the folder that names it have been
synced; a rename is what makes several of them appear at once (Pillai et al., "All File Systems Are
Not Created Equal", OSDI 2014). Runs in the learner.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

Kind = Literal["nothing", "file", "folder", "link", "special"]
REMOVED = ".removed-"
_WORDS = {
    "link": "it is a link, and links are not followed",
    "folder": "Is a directory",
    "special": "it is no plain file",
}


class NotPlainError(OSError):
    """A name below a folder is a link, a pipe, a socket or a device, or a file that has other
    names; `filename` is its path.
    """


class Folder:
    """An open folder. Close it, or use it in a with statement."""

    def __init__(self, path: Path, fd: int | None = None) -> None:
        """Open a folder that the user has named. Args: fd: it is open already, and is closed with
            this object.

        Raises: OSError where there is no such folder.
        """
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if fd is None else fd
        self._finalizer = weakref.finalize(self, os.close, self.fd)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor; may be called twice."""
        with contextlib.suppress(OSError):  # Nothing was written by it.
            self._finalizer()

    # ---------------------------------------------------------------------------------------------- looking

    def names(self) -> list[str]:
        """Return the names in the folder, sorted. Raises: OSError."""
        return sorted(os.listdir(self.fd))

    def stat(self, name: str) -> os.stat_result:
        """Return what a name is, itself and not what it may lead to. Raises: OSError."""
        return os.stat(_checked(name), dir_fd=self.fd, follow_symlinks=False)

    def kind(self, name: str) -> Kind:
        """Return what a name is; "nothing" where there is none. Raises: OSError."""
        try:
            mode = self.stat(name).st_mode
        except FileNotFoundError:
            return "nothing"
        if stat.S_ISREG(mode):
            return "file"
        return "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "special"

    def below(self, name: str) -> Folder:
        """Open a folder in this one. Raises: OSError, NotPlainError."""
        if self.kind(name) in ("link", "special"):
            raise self._not_plain(name)
        with self._naming(name):
            fd = os.open(
                name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.fd
            )
        return Folder(self.path / name, fd)

    def refuse_odd(self, *names: str) -> None:
        """Raise NotPlainError where one of these names is a link or a special file; they need not
        be there.
        """
        for name in names:
            if self.kind(name) in ("link", "special"):
                raise self._not_plain(name)

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Have errors name the whole path: the system knows the last name of it only."""
        try:
            yield
        except OSError as error:
            if error.filename == name:
                error.filename = str(self.path / name)
            raise

    def _not_plain(self, name: str, words: str = "") -> NotPlainError:
        what = self.kind(name)
        number = errno.EISDIR if what == "folder" else errno.ELOOP
        return NotPlainError(
            number, words or _WORDS.get(what, "it was replaced just now"), str(self.path / name)
        )

    # ---------------------------------------------------------------------------------------------- files

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open a plain file and return the descriptor; with O_CREAT it is made where it is missing.

        Raises: OSError; NotPlainError for anything else than a plain file, and to write in place
            for one with other names.
        """
        if self.kind(name) not in ("file", "nothing"):
            raise self._not_plain(name)
        with self._naming(name):
            fd = os.open(
                name,
                flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC,
                0o644,
                dir_fd=self.fd,
            )
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):  # Put there since it was looked at.
                raise self._not_plain(name)
            if flags & (os.O_WRONLY | os.O_RDWR) and found.st_nlink > 1:
                raise self._not_plain(
                    name, "it has other names (hard links): copy the folder with all its contents"
                )
        except BaseException:
            os.close(fd)
            raise
        return fd

    def read(self, name: str, most: int) -> bytes:
        """Return the content of a plain file of at most `most` bytes. Raises: OSError,
        NotPlainError.
        """
        with os.fdopen(self.open(name), "rb") as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(self.path / name))
        return data

    def write(self, name: str, chunks: Iterable[bytes | memoryview], durable: bool = True) -> None:
        """Write a new file; its bytes are on the disk when this returns, unless durable is False.
        Raises: OSError.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._naming(name):
            fd = os.open(_checked(name), flags, 0o666, dir_fd=self.fd)
        try:
            for chunk in chunks:
                left = memoryview(chunk)
                while left:
                    left = left[os.write(fd, left) :]
            if durable:
                os.fsync(fd)
        except BaseException:
            with contextlib.suppress(OSError):
                os.close(fd)
            raise
        os.close(fd)  # Some file systems tell only here that they have no room.

    def replace(
        self, name: str, chunks: Iterable[bytes | memoryview], durable: bool = True
    ) -> None:
        """Write a file that others see either as it was or as a whole. Raises: OSError,
            NotPlainError.

        Args: durable: as of `write`; without it a machine that loses power may keep a file of any
            content.
        """
        if self.kind(name) not in ("file", "nothing"):
            raise self._not_plain(name)
        # Several processes, also of several machines, may write the same name.
        fresh = f".{name}.{secrets.token_hex(8)}.tmp"
        try:
            self.write(fresh, chunks, durable)
            self.rename(fresh, name)
        except BaseException:
            with contextlib.suppress(OSError):
                self._remove_file(fresh)
            raise

    def rename(self, before: str, after: str) -> None:
        """Give a file or folder another name; a file of that name is replaced. Raises: OSError."""
        os.rename(_checked(before), _checked(after), src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def _remove_file(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.fd)

    # ---------------------------------------------------------------------------------------------- folders

    def mkdir(self, name: str) -> None:
        """Make a folder. Raises: OSError."""
        with self._naming(name):
            os.mkdir(_checked(name), dir_fd=self.fd)

    def made(self, name: str) -> Folder:
        """Open a folder in this one, made where it is missing; its name is on the disk then.
        Raises: OSError, NotPlainError.
        """
        with contextlib.suppress(FileExistsError):
            self.mkdir(name)
        found = self.below(name)
        try:
            self.sync()  # Also where it was there: who made it may have been killed before that.
        except BaseException:
            found.close()
            raise
        return found

    def sync(self) -> None:
        """Bring the names in the folder to the disk. Raises: OSError."""
        try:
            os.fsync(self.fd)
        except OSError as error:
            if (
                error.errno != errno.EINVAL
            ):  # A file system that has no such call for folders, as some over a network.
                raise

    def remove(self, name: str) -> None:
        """Remove a folder, renamed first, so that no reader sees half of it. What cannot be removed
        now is left to `sweep`.
        """
        with contextlib.suppress(OSError):
            self.rename(name, f"{REMOVED}{name}")
            self.remove_tree(f"{REMOVED}{name}")

    def remove_tree(self, name: str) -> None:
        """Remove a folder and what is in it, or a link but not what it leads to. Raises: OSError."""
        if self.kind(name) == "folder":
            shutil.rmtree(
                _checked(name), dir_fd=self.fd
            )  # It goes by descriptors as well, and follows no links.
        else:
            self._remove_file(name)

    def sweep(self, *prefixes: str) -> None:
        """Remove what earlier writers and removers left under these (hidden) prefixes, as far as it
        can be done.
        """
        for name in self.names():
            if name.startswith(prefixes):
                with contextlib.suppress(OSError):  # It stays for the next time.
                    self.remove_tree(name)

    def refuse_ways_out(self, name: str) -> None:
        """Refuse a folder in which other people's code is going to write, where a link below leads
        out of this folder or a special file lies. It is looked at once: what appears later is
        beyond us. It need not be there.

        Raises: OSError, NotPlainError.
        """
        if self.kind(name) == "nothing":
            return
        root = os.path.realpath(self.path)
        with self.below(name) as top:
            for path in top._walk():
                found = os.path.realpath(os.path.join(root, name, path))
                if found != root and not found.startswith(root + os.sep):
                    words = "it is a link that leads out of the run folder"
                    raise NotPlainError(errno.ELOOP, words, str(self.path / name / path))

    def _walk(self) -> Iterator[str]:
        """Yield the links in this folder and in those below it. Raises: NotPlainError for special
        files.
        """
        for name in self.names():
            kind = self.kind(name)
            if kind == "special":
                raise self._not_plain(name)
            if kind == "link":
                yield name
            elif kind == "folder":
                with self.below(name) as below:
                    yield from (f"{name}/{path}" for path in below._walk())


def _checked(name: str) -> str:
    """Return a name that is one name, and not a path that leads elsewhere."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise OSError(errno.EINVAL, "it is not the name of a file", name)
    return name


@contextlib.contextmanager
def folder_of(path: Path) -> Iterator[tuple[Folder, str]]:
    """Open the folder that holds a file which the user has named; yields it and the file's name in
    it. Raises: OSError.
    """
    path = path if path.name not in ("", "..") else path.absolute()
    with Folder(path.parent) as folder:
        yield folder, path.name


def open_file(path: Path) -> int:
    """Open a plain file, no link, to read it; the folder it is in may be reached through links.
    Raises: OSError.
    """
    with folder_of(path) as (folder, name):
        return folder.open(name)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file that others see either as it was or as a whole. A link in its place is refused.
    Raises: OSError.
    """
    with folder_of(path) as (folder, name):
        folder.replace(name, [data])


def refuse_odd_file(path: Path) -> None:
    """Refuse what `replace_file` would refuse, before any work for the file. Raises: OSError."""
    with folder_of(path) as (folder, name):
        folder.refuse_odd(name)
        if folder.kind(name) == "folder":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))


def said(error: OSError) -> str:
    """Return what an error says, with the name of the file where it is one that `Folder` refuses."""
    words = error.strerror or str(error)
    return (
        f"{os.path.basename(error.filename)}: {words}"
        if isinstance(error, NotPlainError)
        else words
    )


_MIB = 2**20


def make_folder(path: Path) -> None:
    """Make a folder that the user has named, and those above it that are missing; its name is on
    the disk when this returns.

    Also where it exists: who made it may have been killed before its name was synced. Raises:
        OSError.
    """
    if not path.is_dir():
        if not path.parent.is_dir():
            make_folder(path.parent)
        try:
            os.mkdir(path)
        except FileExistsError:
            if not path.is_dir():  # A file, or a link to nothing.
                raise
    with Folder(path.parent) as above:
        above.sync()


def reason(error: OSError, folder: Path, wanted: int) -> str:
    """Return why a write of `wanted` bytes in `folder` failed and what to do, without a full stop."""
    words = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"disk full ({words}): free {_missing_mib(folder, wanted)} MiB at {folder}"
    if error.errno == errno.EFBIG:
        return f"{words}: raise the file-size limit (ulimit -f) to {_mib(wanted)} MiB or more"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{words}: make {folder} writable"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{words}: raise the limit of open files (ulimit -n)"
    if error.errno == errno.EIO:
        return f"{words}: the disk below {folder} fails, look at dmesg"
    return f"{words}: look at {error.filename or folder}"


def _mib(size: int) -> int:
    return max(1, -(-size // _MIB))


def _missing_mib(folder: Path, wanted: int) -> int:
    """MiB that must become free for `wanted` bytes to fit, at least 1; all of them where the file
    system does not tell.
    """
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    try:
        found = os.statvfs(folder)
    except OSError:
        return _mib(wanted)
    return _mib(wanted - found.f_bavail * found.f_frsize)
