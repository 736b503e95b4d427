# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Who must not live on (csrc/core/watch.c): a worker without its learner, and a forked copy that
writes.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from puffervec._ffi import lib


@pytest.mark.parametrize("gone", ["pipe", "learner", "learner, looked for"])
def test_the_process_ends_with_what_it_watches(gone: str) -> None:
    """In a process of its own, blocked in C with the GIL held: the watching thread needs no GIL."""
    script = (
        "import ctypes, os, sys\n"
        "from puffervec._ffi import lib\n"
        "pid, handle = int(sys.argv[1]), sys.argv[2] == 'learner'\n"
        "assert lib.pv_watch_learner(0, os.pidfd_open(pid) if handle else -1, pid) == 0\n"
        "print('watching', flush=True)\n"
        "ctypes.PyDLL(None).pause()\n"  # PyDLL keeps the GIL
    )
    learner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(learner.pid), gone],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == b"watching\n"
    assert process.poll() is None
    if gone == "pipe":
        process.stdin.close()
    else:
        learner.kill()  # and it stays a zombie until it is waited for
    assert process.wait(60) == 70
    learner.kill()
    learner.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_process_that_leads_its_group_ends_it(tmp_path: object) -> None:
    script = (
        "import subprocess, sys, time\n"
        "from puffervec._ffi import lib\n"
        "code = 'import time; print(1, flush=True); time.sleep(100)'\n"
        "child = subprocess.Popen([sys.executable, '-c', code])\n"
        "assert lib.pv_watch_learner(0, -1, 1) == 0\n"
        "time.sleep(100)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,
    )
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == b"1\n"
    process.stdin.close()
    assert process.wait(60) == -9
    assert process.stdout.read() == b""  # nobody has it open any more
    process.stdout.close()


def test_forks_are_counted_in_the_child_only() -> None:
    before = lib.pv_fork_count()
    child = os.fork()
    if child == 0:
        os._exit(lib.pv_fork_count() - before)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert lib.pv_fork_count() == before


@pytest.mark.parametrize(
    ("write", "status"), [("rows", 71), ("beyond", 0), ("nothing", 0), ("null", -11)]
)
def test_a_forked_copy_that_writes_rows_is_told_and_ends(write: str, status: int) -> None:
    """The copy may read them, write elsewhere, and die of faults of its own."""
    script = (
        "import ctypes, faulthandler, mmap, os, sys\n"
        "from puffervec._ffi import ffi, lib\n"
        "faulthandler.enable()\n"
        "rows, beyond = mmap.mmap(-1, 3 * mmap.PAGESIZE), mmap.mmap(-1, mmap.PAGESIZE)\n"
        "assert lib.pv_keep_from_forks(ffi.from_buffer(rows), 2 * mmap.PAGESIZE + 1) == 0\n"
        "child = os.fork()\n"
        "if child:\n"
        "    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "    rows[0] = 1\n"
        "    print(status)\n"
        "    sys.exit()\n"
        "assert rows[0] == 0\n"
        "if sys.argv[1] == 'rows': rows[2 * mmap.PAGESIZE - 1] = 1\n"
        "if sys.argv[1] == 'beyond': rows[2 * mmap.PAGESIZE] = beyond[0] = 1\n"
        "if sys.argv[1] == 'null': ctypes.memset(0, 0, 1)\n"
        "os._exit(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, write], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == status
    assert (
        done.stderr.startswith("puffervec: an env forked") if write == "rows" else done.stderr == ""
    )
