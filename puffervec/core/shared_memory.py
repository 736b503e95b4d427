# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The memory that learner and workers share.

The learner makes it; workers receive it through multiprocessing and map it. This module is separate
from slab.py because workers import it, and NumPy would cost them start-up time and threads.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from multiprocessing import heap, sharedctypes
from typing import Any

from puffervec.errors import ConfigError
from puffervec.system import limits
from puffervec.system.memory_file import Descriptor, reserve, unnamed_file

PAGE = mmap.PAGESIZE  # 4 KiB on x86-64, 16 KiB on Apple's processors, up to 64 KiB on other aarch64
SHM_FOLDER = "/dev/shm"


class SharedMemory:
    """Zeroed, page-aligned memory that processes started by multiprocessing can map.

    It has no name, so nothing leaks. It is one multiprocessing.RawArray; where /dev/shm has no room
    (RawArray would silently take a file on disk), it is a memfd, which that limit does not bound
    (memory_file.py; an unnamed file where the system has no memfd). The space is reserved before
    any byte is touched, and then every page is touched here, so that a lack of memory is an error
    now and not a SIGBUS later.

    Attributes:
        size: number of bytes.

    Raises:
        ConfigError: neither /dev/shm nor a memfd has room, or a limit of this process is too low.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._array: Any = None
        self._file = Descriptor(-1)
        self._mapping: mmap.mmap | None = None
        with limits.named(f"{size:,} bytes of shared memory"):
            if _shm_free() >= size + 2 * PAGE:
                self._array = _reserved_array(size + PAGE)
            if self._array is None:
                self._file = Descriptor(_reserved_memfd(size))
                self._mapping = mmap.mmap(self._file.fd, size)
                ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(self._mapping)), 0, size)

    @property
    def buffer(self) -> memoryview:
        """The bytes, starting on a page. Holding the view keeps the mapping alive."""
        if self._array is None:
            assert self._mapping is not None
            return memoryview(self._mapping)
        skip = -ctypes.addressof(self._array) % PAGE
        return memoryview(self._array).cast("B")[skip : skip + self.size]

    def __getstate__(self) -> dict[str, Any]:
        return {"size": self.size, "_array": self._array, "_file": self._file}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._mapping = mmap.mmap(self._file.fd, self.size) if self._array is None else None


class PrivateMemory:
    """The counterpart of SharedMemory for workers in this process.

    No other process sees it, and a forked child has a copy.

    Raises:
        ConfigError: there is no room.
    """

    def __init__(self, size: int) -> None:
        with limits.named(f"{size:,} bytes of memory"):
            self._mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(self._mapping)), 0, size)

    @property
    def buffer(self) -> memoryview:
        """The bytes, starting on a page. Holding the view keeps the mapping alive."""
        return memoryview(self._mapping)


def _shm_free() -> int:
    """Return the free bytes of /dev/shm; 0 if it does not exist or is not writable.

    RawArray uses it only if it is writable.
    """
    if not os.access(SHM_FOLDER, os.W_OK | os.X_OK):
        return 0
    try:
        status = os.statvfs(SHM_FOLDER)
    except OSError:
        return 0
    return status.f_bavail * status.f_frsize


def _reserved_array(size: int) -> Any:
    """Return a zeroed RawArray with reserved space, or None if /dev/shm has filled up meanwhile.

    RawArray zeroes memory without reserving it; if another program takes the space in between, the
    process gets a SIGBUS. So this does what RawArray does, but reserves the space first.
    """
    wrapper: Any = heap.BufferWrapper(size)
    (arena, _, _), _ = wrapper._state
    if os.fstat(arena.fd).st_dev != os.stat(SHM_FOLDER).st_dev:
        return None  # a file on disk
    try:
        reserve(arena.fd, arena.size)
    except OSError:
        return None
    array = sharedctypes.rebuild_ctype(ctypes.c_uint8 * size, wrapper, None)  # type: ignore[attr-defined]
    ctypes.memset(ctypes.addressof(array), 0, size)
    return array


def _reserved_memfd(size: int) -> int:
    fd = unnamed_file("puffervec")
    try:
        reserve(fd, size)
    except OSError as error:
        os.close(fd)
        if limits.in_words(error) is not None:
            raise
        raise ConfigError(
            f"shared memory of {size:,} bytes does not fit: {SHM_FOLDER} has {_shm_free():,} free "
            f"and the kernel refused a memfd ({error}): use fewer envs, or add memory"
        ) from None
    return fd
