# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Other builds of the C core, for the tests: a copy of the sources in its own folder, compiled
there with other switches.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILD_PRODUCTS = shutil.ignore_patterns("*.so", "__pycache__", "_native.c", "*.o")


def source_folder() -> Path:
    """Return the source tree that these tests belong to, or skip where the tests are run without
    it.
    """
    if not (ROOT / "csrc" / "build_ffi.py").exists():
        pytest.skip(f"no sources beside the tests in {ROOT}")
    if shutil.which(os.environ.get("CC", "cc")) is None and shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    return ROOT


def build_script() -> ModuleType:
    """Return csrc/build_ffi.py as a module, loaded in the source folder as setup.py does."""
    root, before = source_folder(), os.getcwd()
    os.chdir(root)
    try:
        spec = importlib.util.spec_from_file_location("build_ffi", root / "csrc/build_ffi.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        os.chdir(before)


class Build:
    """The package in `folder`, compiled with the given switches (see csrc/build_ffi.py)."""

    def __init__(self, folder: Path, **switches: str) -> None:
        """Start the build; `python` waits for it."""
        root = source_folder()
        self.folder = folder
        for name in ("csrc", "puffervec", "drive_env", "tests", "examples"):
            if (root / name).is_dir():
                shutil.copytree(root / name, folder / name, ignore=BUILD_PRODUCTS)
        for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
            shutil.copy2(root / name, folder / name)
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("PUFFERVEC_") or name == "PUFFERVEC_CACHE"
        }
        self.environment = {**clean, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        self._compiler = subprocess.Popen(
            [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
            cwd=folder, env={**self.environment, **switches}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def wait(self) -> None:
        """Wait for the compiler."""
        said, _ = self._compiler.communicate(timeout=600)
        assert self._compiler.returncode == 0, said

    def python(self, *arguments: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run an interpreter that imports this build, in its folder."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
