# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The shared memory (core/shared_memory.py): page-aligned, nameless, with a memfd where /dev/shm is
small or missing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec.core import shared_memory
from puffervec.core.shared_memory import PAGE, SharedMemory
from puffervec.errors import PuffervecError
from tests.helpers import action_table, run

pytestmark = pytest.mark.usefixtures("no_leaks")


@pytest.fixture(params=["RawArray", "memfd"])
def backing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both kinds; the second by a /dev/shm that says it is full."""
    if request.param == "memfd":
        monkeypatch.setattr(shared_memory, "_shm_free", lambda: 0)
    return str(request.param)


def backing_of(memory: Any) -> str:
    return "memfd" if memory._array is None else "RawArray"


@pytest.mark.parametrize("size", [1, PAGE, PAGE + 1, 5_000_000])
def test_memory_is_zeroed_page_aligned_and_of_the_wanted_size(backing: str, size: int) -> None:
    if backing == "RawArray" and shared_memory._shm_free() < size + 2 * PAGE:
        backing = "memfd"  # the tests are run with a small /dev/shm: `make limits`
    for _ in range(2):  # the second may get memory that was used before
        memory = SharedMemory(size)
        array = np.frombuffer(memory.buffer, np.uint8)
        assert (backing_of(memory), len(array)) == (backing, size)
        assert array.ctypes.data % PAGE == 0
        assert not array.any()
        array[:] = 0xFF
        assert bytes(memory.buffer[-1:]) == b"\xff"  # each `buffer` is a view on the same bytes


def test_it_has_no_name(backing: str) -> None:
    before = set(os.listdir("/dev/shm"))
    memory = SharedMemory(10_000)
    assert set(os.listdir("/dev/shm")) == before
    assert len(memory.buffer) == 10_000


def test_a_view_outlives_the_object(backing: str) -> None:
    memory = SharedMemory(3 * PAGE)
    array = np.frombuffer(memory.buffer, np.uint8)
    array[-1] = 7
    del memory
    assert array[-1] == 7
    array[:] = 1


@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
def test_workers_map_it(backing: str, start_method: str) -> None:
    with puffervec.make("probe", env_kwargs={}, backend="serial", num_envs=4) as vec:
        table = action_table(vec, 30)
        expected = run(vec, 30, table)
    with puffervec.make(
        "probe", env_kwargs={}, num_envs=4, num_workers=2, start_method=start_method
    ) as vec:
        assert backing_of(vec.rows.memory) == backing
        assert run(vec, 30, table) == expected


def test_room_is_asked_for_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """RawArray would take a file in a temporary folder, silently, where /dev/shm has too little."""
    size = 10 * PAGE
    for free, expected in (
        (size + 2 * PAGE, "RawArray"),
        (size + 2 * PAGE - 1, "memfd"),
        (0, "memfd"),
    ):
        monkeypatch.setattr(shared_memory, "_shm_free", lambda free=free: free)
        assert backing_of(SharedMemory(size)) == expected


def test_no_room_anywhere_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "_shm_free", lambda: 123)

    def full(fd: int, offset: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(PuffervecError) as caught:
        SharedMemory(1_000_000)
    for word in (
        "shared memory of 1,000,000 bytes does not fit",
        "123 free",
        "/dev/shm",
        "No space left",
        "use fewer envs",
    ):
        assert word in str(caught.value)


def test_a_real_small_file_system(tmp_path: Path) -> None:
    """Where we may mount: a /dev/shm of 1 MiB, and a slab of 8 MiB. No SIGBUS, no file on disk."""
    import subprocess
    import sys

    script = (
        "import puffervec\n"
        "large = {'env_kwargs': {'obs_size': 1024}, 'num_envs': 2048}\n"
        "with puffervec.make('probe', **large, num_workers=2) as vec:\n"
        "    vec.reset(seed=0)\n"
        "    vec.step([0] * 2048)\n"
        "    print(vec.rows.memory._array is None, vec.rows.slab.bytes > 8 << 20)\n"
    )
    inner = f'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec {sys.executable} -c "$0"'
    probe = subprocess.run(
        ["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=1m tmpfs /dev/shm"],
        capture_output=True,
    )
    if probe.returncode:
        pytest.skip(f"may not mount here: {probe.stderr.decode().strip()}")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", inner, script], capture_output=True, text=True, timeout=100
    )
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("True True", "", 0)
