# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Run the test suite under AddressSanitizer and UndefinedBehaviorSanitizer.

    python scripts/sanitize.py [arguments of pytest]    (make asan runs all but the slow tests)

The script builds puffervec._native_sanitize first. Python itself is not instrumented, so the
runtimes are preloaded; worker processes inherit that. Leak detection is off, because Python keeps
memory until it ends. Tests that cannot run in this build have the marker normal_build with a
reason.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SANITIZERS = "address,undefined"
# Leave fatal signals to faulthandler and the kernel: a worker has to die of them in this build too.
ASAN_OPTIONS = (
    "detect_leaks=0:abort_on_error=1:handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigfpe=0"
)
UBSAN_OPTIONS = "halt_on_error=1:abort_on_error=1:print_stacktrace=1"
TIME_SCALE = 6  # Factor on the deadlines of tests.
TESTS = ["-q", "-p", "no:cacheprovider", "-m", "not slow and not gpu"]


def runtimes(compiler: str = "gcc") -> str:
    """Return the runtime libraries in the form of LD_PRELOAD.

    Raises:
        FileNotFoundError: the compiler lacks one; the message names the package to install.
    """
    paths = []
    for name in ("libasan.so", "libubsan.so"):
        path = subprocess.run(
            [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        if not Path(path).is_absolute():
            raise FileNotFoundError(
                f"{compiler} has no {name}: install its sanitizers (Debian: libgcc-12-dev, "
                "Fedora: libasan)"
            )
        paths.append(path)
    return " ".join(paths)


def environment(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return environment variables with those that the sanitized build needs."""
    return {
        **variables,
        "PUFFERVEC_BUILD": "sanitize",
        "LD_PRELOAD": runtimes(),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": ASAN_OPTIONS,
        "UBSAN_OPTIONS": UBSAN_OPTIONS,
        "PV_TIME_SCALE": variables.get("PV_TIME_SCALE", str(TIME_SCALE)),
    }


def build() -> None:
    """Compile the sanitized module next to the normal one."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PUFFERVEC_SANITIZE": SANITIZERS}, check=True
    )


def main(arguments: list[str]) -> int:
    """Build, run pytest and return its exit status."""
    build()
    return subprocess.run(
        [sys.executable, "-m", "pytest", *TESTS, *arguments], cwd=ROOT, env=environment()
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
