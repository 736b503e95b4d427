# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Env types outside the core, for the tests: C files compiled to shared libraries, example packages installed into a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from puffervec import env_types
from tests.builds import ROOT, source_folder

STRICT = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wmissing-prototypes", "-Wdouble-promotion", "-Werror"]


def compile_library(source: Path, target: Path, *flags: str, include: str | None = None) -> Path:
    """Compile a C file to a shared library as a package's setup.py would, with all warnings as errors, and return `target`."""
    source_folder()
    headers = include if include is not None else env_types.get_include()
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", *env_types.compile_args(), *STRICT, f"-I{headers}", *flags]
    done = subprocess.run([*command, str(source), "-o", str(target)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return target


def install_example(name: str, folder: Path) -> Path:
    """Install a copy of examples/<name> with pip and return the folder to put on sys.path."""
    root = source_folder()
    copy, target = folder / name, folder / "site"
    shutil.copytree(root / "examples" / name, copy, ignore=shutil.ignore_patterns("*.so", "build", "*.egg-info"))
    pip_install(copy, target)
    return target


def pip_install(package: Path, target: Path) -> None:
    """Run pip as a user would in an installed environment: no network, the headers of the puffervec under test."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--target", str(target), str(package)], env=environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def environment(*folders: Path) -> dict[str, str]:
    """Return this process's environment with the folders and the puffervec under test on Python's path."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, folders), str(ROOT)])}
