# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The sanitizers of `make asan` (scripts/sanitize.py) are at work: what they must not let pass ends
a Python process.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import sanitize
from tests.builds import build_script
from tests.helpers import slow_but

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc with its sanitizers")

# One function for each; the compiler knows none of the arguments.
BROKEN = """
#include <stdlib.h>
static __attribute__((noipa)) char* get(void) { return malloc(4); }
int fine(int x) { return x / 2; }
int overflow(int x) { return x * 2; }
int index_too_large(int x) { static int table[4]; return table[(x & 3) + 4]; }
int heap(int x) { char* bytes = get(); int found = bytes[4 + (x & 1)]; free(bytes); return found; }
int stale(int x) { char* bytes = get(); free(bytes); return bytes[x & 1]; }
"""
CALL = "import ctypes, sys; print(getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])(2147483647))"


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The functions, compiled with the flags of the sanitized build."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "broken.c").write_text(BROKEN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PUFFERVEC_SANITIZE", sanitize.SANITIZERS)
        flags = [
            flag for flag in build_script().compile_arguments() if flag != "-fvisibility=hidden"
        ]
    command = [
        "gcc",
        *flags,
        "-w",
        "-shared",
        "-fPIC",
        "-o",
        str(folder / "broken.so"),
        str(folder / "broken.c"),
    ]
    subprocess.run(command, check=True, timeout=100)
    return folder / "broken.so"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "words"),
    slow_but(
        [("overflow", "signed integer overflow"), ("heap", "heap-buffer-overflow")],
        [
            ("fine", None),
            ("overflow", "signed integer overflow"),
            ("index_too_large", "index 7 out of bounds"),
            ("heap", "heap-buffer-overflow"),
            ("stale", "heap-use-after-free"),
        ],
    ),
)
def test_what_is_undefined_ends_the_process(broken: Path, function: str, words: str | None) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CALL, str(broken), function],
        env=sanitize.environment(), capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    if words is None:
        assert (done.returncode, done.stdout) == (0, "1073741823\n"), done.stderr
    else:
        assert words in done.stderr
        assert done.returncode == -signal.SIGABRT


def test_a_compiler_without_runtimes_is_named(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho libasan.so\n")
    compiler.chmod(0o755)
    with pytest.raises(FileNotFoundError, match="has no libasan.so: install"):
        sanitize.runtimes(str(compiler))
