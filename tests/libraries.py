# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Env types outside the core, for the tests: C files compiled to shared libraries, example packages
installed into a folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from puffervec.contract import env_types
from tests.builds import ROOT, source_folder

STRICT = [
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Wconversion",
    "-Wmissing-prototypes",
    "-Wdouble-promotion",
    "-Werror",
]


def compile_library(source: Path, target: Path, *flags: str, include: str | None = None) -> Path:
    """Compile a C file to a shared library as a package's setup.py would, with all warnings as
    errors, and return `target`.
    """
    source_folder()
    headers = include if include is not None else env_types.get_include()
    command = [
        os.environ.get("CC", "cc"),
        "-shared",
        "-fPIC",
        *env_types.compile_args(),
        *STRICT,
        f"-I{headers}",
        *flags,
    ]
    done = subprocess.run(
        [*command, str(source), "-o", str(target)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return target


MODULE = """
from dataclasses import dataclass
from puffervec import EnvData, NativeEnv

@dataclass(frozen=True)
class Config:
    {settings}

ENV = NativeEnv(
    name="{name}", config=Config, build=lambda config: EnvData(), shared_library={library!r}
)
"""


def install_env(folder: Path, name: str, source: str, settings: str) -> Path:
    """Compile a C env and lay it out as an installed package `<name>_package`, without pip; returns
    the folder for sys.path.

    settings: the body of the config dataclass.
    """
    (folder / f"{name}.c").write_text(source)
    library = compile_library(folder / f"{name}.c", folder / f"{name}.so", f"-I{folder}", "-lm")
    module = f"{name}_package"
    (folder / f"{module}.py").write_text(
        MODULE.format(settings=settings, name=name, library=str(library))
    )
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[puffervec.envs]\n{name} = {module}:ENV\n")
    return folder


def install_example(name: str, folder: Path) -> Path:
    """Install a copy of examples/<name> with pip and return the folder to put on sys.path."""
    root = source_folder()
    copy, target = folder / name, folder / "site"
    shutil.copytree(
        root / "examples" / name, copy, ignore=shutil.ignore_patterns("*.so", "build", "*.egg-info")
    )
    pip_install(copy, target)
    return target


def pip_install(package: Path, target: Path) -> None:
    """Run pip as a user would in an installed environment: no network, the headers of the puffervec
    under test.
    """
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-build-isolation",
    ]
    done = subprocess.run(
        [*command, "--target", str(target), str(package)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def environment(*folders: Path) -> dict[str, str]:
    """Return this process's environment with the folders and the puffervec under test on Python's
    path.
    """
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, folders), str(ROOT)])}
