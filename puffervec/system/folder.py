# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Folders whose contents are not trusted: run folders, checkpoints, caches.

No link leads out of them. A `Folder` holds a descriptor, and every name below it is looked up
relative to that descriptor, one name at a time, without following links. So a link that is there,
or that appears between two calls, is refused and never opened; the same goes for pipes, sockets and
devices, which may block or act when they are opened. Files that are written in place must have only
one name, since a second one (a hard link) may belong to something else; this is not required of
files that are replaced, which get a new inode.

The folder itself is named by the user, so its path may lead through links: `runs/best ->
/data/runs/7` is the user's choice. A file is safe once it and the folder that names it have been
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
    "special": "it is not a plain file",
}


class NotPlainError(OSError):
    """An error for a name below a folder that is not a plain file or folder.

    The name is a link, a pipe, a socket or a device, or a file with other names (hard links);
    `filename` is its path.
    """


class Folder:
    """An open folder. Close it, or use it in a with statement."""

    def __init__(self, path: Path, fd: int | None = None) -> None:
        """Open a folder that the user has named.

        Args:
            path: path of the folder.
            fd: descriptor of the folder if it is open already; closed with this object.

        Raises:
            OSError: there is no such folder.
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
        with contextlib.suppress(OSError):  # nothing was written through this descriptor
            self._finalizer()

    # ---- inspection ------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the names in the folder, sorted; raise OSError on failure."""
        return sorted(os.listdir(self.fd))

    def stat(self, name: str) -> os.stat_result:
        """Return the status of a name itself, not of a link's target; raise OSError on failure."""
        return os.stat(_checked(name), dir_fd=self.fd, follow_symlinks=False)

    def kind(self, name: str) -> Kind:
        """Return the kind of a name; "nothing" if it does not exist. Raises OSError."""
        try:
            mode = self.stat(name).st_mode
        except FileNotFoundError:
            return "nothing"
        if stat.S_ISREG(mode):
            return "file"
        return "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "special"

    def below(self, name: str) -> Folder:
        """Open a folder in this one.

        Raises:
            OSError: the folder does not exist or cannot be opened.
            NotPlainError: the name is a link or a special file.
        """
        if self.kind(name) in ("link", "special"):
            raise self._not_plain(name)
        with self._naming(name):
            fd = os.open(
                name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.fd
            )
        return Folder(self.path / name, fd)

    def refuse_odd(self, *names: str) -> None:
        """Raise NotPlainError if one of these names is a link or a special file.

        The names need not exist.
        """
        for name in names:
            if self.kind(name) in ("link", "special"):
                raise self._not_plain(name)

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Make errors name the whole path: those of the system only have its last component."""
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

    # ---- files -----------------------------------------------------------------------------------

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open a plain file and return the descriptor; with O_CREAT a missing one is created.

        Raises:
            OSError: the file cannot be opened.
            NotPlainError: the name is not a plain file, or has hard links and is to be written.
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
            if not stat.S_ISREG(found.st_mode):  # a special file appeared after the check
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
        """Return the content of a plain file of at most `most` bytes.

        Raises:
            OSError: the file cannot be read, or is larger.
            NotPlainError: the name is not a plain file.
        """
        with os.fdopen(self.open(name), "rb") as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(self.path / name))
        return data

    def write(self, name: str, chunks: Iterable[bytes | memoryview], durable: bool = True) -> None:
        """Write a new file.

        Its bytes are on the disk when this returns, unless durable is False.

        Raises:
            OSError: the file exists or cannot be written.
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
        os.close(fd)  # some file systems report only here that they are full

    def replace(
        self, name: str, chunks: Iterable[bytes | memoryview], durable: bool = True
    ) -> None:
        """Write a file that readers see either unchanged or complete.

        Args:
            name: name of the file.
            chunks: its contents.
            durable: as for `write`; if False, the file may have any content after a power failure.

        Raises:
            OSError: the file cannot be written.
            NotPlainError: the name is not a plain file.
        """
        if self.kind(name) not in ("file", "nothing"):
            raise self._not_plain(name)
        # Several processes, also on several machines, may write the same name.
        fresh = f".{name}.{secrets.token_hex(8)}.tmp"
        try:
            self.write(fresh, chunks, durable)
            self.rename(fresh, name)
        except BaseException:
            with contextlib.suppress(OSError):
                self._remove_file(fresh)
            raise

    def rename(self, before: str, after: str) -> None:
        """Rename a file or folder, replacing a file of the new name; raise OSError on failure."""
        os.rename(_checked(before), _checked(after), src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def _remove_file(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.fd)

    # ---- folders ---------------------------------------------------------------------------------

    def mkdir(self, name: str) -> None:
        """Make a folder; raise OSError on failure."""
        with self._naming(name):
            os.mkdir(_checked(name), dir_fd=self.fd)

    def made(self, name: str) -> Folder:
        """Open a folder in this one, making it if it is missing.

        Its name is on the disk when this returns.

        Raises:
            OSError: the folder cannot be made or opened.
            NotPlainError: the name is a link or a special file.
        """
        with contextlib.suppress(FileExistsError):
            self.mkdir(name)
        found = self.below(name)
        try:
            self.sync()  # even if it existed: its maker may have been killed before syncing
        except BaseException:
            found.close()
            raise
        return found

    def sync(self) -> None:
        """Flush the names in the folder to the disk; raise OSError on failure."""
        try:
            os.fsync(self.fd)
        except OSError as error:
            # EINVAL: the file system cannot fsync folders, as is the case for some network ones.
            if error.errno != errno.EINVAL:
                raise

    def remove(self, name: str) -> None:
        """Rename a folder and then remove it, so that no reader sees half of it.

        `sweep` later removes what cannot be removed now.
        """
        with contextlib.suppress(OSError):
            self.rename(name, f"{REMOVED}{name}")
            self.remove_tree(f"{REMOVED}{name}")

    def remove_tree(self, name: str) -> None:
        """Remove a folder with its contents, or a link but not its target.

        Raises:
            OSError: the folder cannot be removed.
        """
        if self.kind(name) == "folder":
            # rmtree also works relative to descriptors, and follows no links.
            shutil.rmtree(_checked(name), dir_fd=self.fd)
        else:
            self._remove_file(name)

    def sweep(self, *prefixes: str) -> None:
        """Remove what earlier writers and removers left under these (hidden) prefixes.

        What cannot be removed is left.
        """
        for name in self.names():
            if name.startswith(prefixes):
                with contextlib.suppress(OSError):  # it stays for the next sweep
                    self.remove_tree(name)

    def refuse_ways_out(self, name: str) -> None:
        """Raise if a folder holds a special file or a link that leads out of this folder.

        For a folder in which other people's code is going to write. It is checked only once: links
        that appear later cannot be prevented here. The folder need not exist.

        Raises:
            OSError: the folder cannot be read.
            NotPlainError: the folder holds such a link or file.
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
        """Yield the links in this folder and in those below it.

        Raises:
            NotPlainError: there is a special file.
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
    """Return `name` if it is a single name, and not a path that leads elsewhere."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise OSError(errno.EINVAL, "it is not the name of a file", name)
    return name


@contextlib.contextmanager
def folder_of(path: Path) -> Iterator[tuple[Folder, str]]:
    """Open the folder of a file that the user has named; yield it and the file's name in it.

    Raises:
        OSError: the folder cannot be opened.
    """
    path = path if path.name not in ("", "..") else path.absolute()
    with Folder(path.parent) as folder:
        yield folder, path.name


def open_file(path: Path) -> int:
    """Open a plain file, not a link, to read it.

    The folder it is in may be reached through links.

    Raises:
        OSError: the file cannot be opened, or is not a plain file.
    """
    with folder_of(path) as (folder, name):
        return folder.open(name)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file that readers see either unchanged or complete.

    A link in its place is refused.

    Raises:
        OSError: the file cannot be written.
    """
    with folder_of(path) as (folder, name):
        folder.replace(name, [data])


def refuse_odd_file(path: Path) -> None:
    """Raise if `replace_file` would refuse the path; to be called before any work for the file.

    Raises:
        OSError: the path would be refused.
    """
    with folder_of(path) as (folder, name):
        folder.refuse_odd(name)
        if folder.kind(name) == "folder":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))


def describe_error(error: OSError) -> str:
    """Return the message of an error, with the file name if `Folder` refused that file."""
    words = error.strerror or str(error)
    return (
        f"{os.path.basename(error.filename)}: {words}"
        if isinstance(error, NotPlainError)
        else words
    )


_MIB = 2**20


def make_folder(path: Path) -> None:
    """Make a folder that the user has named, with its missing parents.

    The name is on the disk when this returns. If the folder exists, its parent is synced too, since
    the process that made the folder may have been killed before doing so.

    Raises:
        OSError: the folder cannot be made.
    """
    if not path.is_dir():
        if not path.parent.is_dir():
            make_folder(path.parent)
        try:
            os.mkdir(path)
        except FileExistsError:
            if not path.is_dir():  # a file, or a link to nothing
                raise
    with Folder(path.parent) as above:
        above.sync()


def reason(error: OSError, folder: Path, wanted: int) -> str:
    """Return why a write of `wanted` bytes in `folder` failed and what to do.

    The text has no full stop.
    """
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
        return f"{words}: the disk of {folder} is failing, see dmesg"
    return f"{words}: check {error.filename or folder}"


def _mib(size: int) -> int:
    return max(1, -(-size // _MIB))


def _missing_mib(folder: Path, wanted: int) -> int:
    """Return the MiB that must be freed for `wanted` bytes to fit, at least 1.

    If the file system does not report its free space, return the MiB of all `wanted` bytes.
    """
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    try:
        found = os.statvfs(folder)
    except OSError:
        return _mib(wanted)
    return _mib(wanted - found.f_bavail * found.f_frsize)
