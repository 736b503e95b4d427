# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Unnamed files in memory (puffervec/host/memory_file.py). What stands in them: tests/test_traces.py, tests/test_mailbox.py."""

from __future__ import annotations

import multiprocessing
import os

import pytest

from puffervec.host.memory_file import MemoryFile

pytestmark = pytest.mark.usefixtures("no_leaks")


def write(file: MemoryFile) -> None:
    os.write(file._fd, b"from the child")


def test_a_child_inherits_the_file_and_what_it_writes_outlives_it() -> None:
    file = MemoryFile("puffervec-test")
    process = multiprocessing.get_context("spawn").Process(target=write, args=(file,))
    process.start()
    process.join()
    process.close()
    assert os.pread(file._fd, 100, 0) == b"from the child"
    assert "memfd:puffervec-test" in os.readlink(f"/proc/self/fd/{file._fd}")


def test_it_is_closed_with_the_object() -> None:
    file = MemoryFile("puffervec-test")
    fd = file._fd
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
