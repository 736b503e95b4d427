# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""With a /dev/shm of 1 MiB, as containers and some clusters have it, the library works: the tests
of what uses it run there.

`make limits` runs the whole core suite so; here it is those tests that make slabs of all kinds.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.builds import ROOT

MOUNT = "mount -t tmpfs -o size=1m tmpfs /dev/shm"
REPRESENTATIVE = [
    "tests/test_shared_memory.py",
    "tests/test_backends.py",
    "tests/test_vector_env.py",
    "tests/test_control.py",
    "tests/test_save_load.py",
    "tests/test_env.py",
    "tests/golden",
    "tests/limits/test_limits.py",
]


@pytest.mark.slow
def test_the_tests_pass() -> None:
    probe = subprocess.run(["unshare", "-m", "sh", "-c", MOUNT], capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"may not mount here: {probe.stderr.strip()}")
    command = (
        f"{MOUNT} && df /dev/shm && exec {sys.executable} -m pytest -q -p no:cacheprovider -m "
        "'not slow and not gpu' $0"
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command, " ".join(REPRESENTATIVE)],
        cwd=ROOT, capture_output=True, text=True, timeout=3000,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
    assert re.search(r"^tmpfs\s+1024\s", done.stdout, re.MULTILINE), (
        "the small file system was not there"
    )
    assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) > 100
