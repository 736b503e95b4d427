# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The wheel, as a user gets it: in a new virtual environment, used from an empty folder, without a compiler on PATH."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.normal_build("a wheel holds the normal build")

STEP = """
import os, shutil, sys
assert shutil.which("gcc") is None and shutil.which("cc") is None, os.environ["PATH"]
import puffervec
assert "site-packages" in puffervec.__file__, puffervec.__file__
with puffervec.make("tag_grid", num_envs=8, num_workers=2) as vec:
    observations, infos = vec.reset(seed=0)
    for _ in range(10):
        observations, rewards, terminals, truncations, infos = vec.step([0] * vec.num_agents)
print(observations.shape)
"""


def _copy_source(target: Path) -> None:
    """Copy what the build needs, so that the source folder's own build products stay as they are."""
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, target / name)
    for folder in ("csrc", "puffervec", "drive_env"):
        shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns("*.so", "__pycache__", "_native.c"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    _copy_source(source)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", str(out), str(source)]
    subprocess.run(command, check=True, timeout=300)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a new virtual environment with the wheel; what it needs is borrowed from the tests' own environment."""
    venv = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=120)
    lib = venv / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    # A folder named in a .pth file comes last, and its own .pth files (an editable puffervec) are not looked at.
    (lib / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin/python"), "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True, timeout=200)
    return venv / "bin"


def _run(command: list[str], bin_folder: Path, folder: Path, timeout_s: int) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment |= {"PATH": str(bin_folder), "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout_s)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_abi3_wheel_with_headers(wheel: Path) -> None:
    assert "-cp311-abi3-linux_" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    for header in ("base.h", "env.h", "env_helpers.h", "pv_env.h", "pv_ocean.h", "rng.h"):
        assert f"puffervec/include/{header}" in names
    assert "puffervec/include/sources.crc32" in names
    assert "puffervec/_native.abi3.so" in names and "puffervec/py.typed" in names
    assert not [name for name in names if name.startswith(("tests/", "csrc/", "bench/"))]


def test_metadata_has_lower_bounds_only(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (metadata,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
    requirements = [line for line in archive.read(metadata).decode().splitlines() if line.startswith("Requires-Dist:")]
    assert any("torch>=" in line for line in requirements)
    for line in requirements:
        assert "==" not in line.split(";")[0] and "<" not in line.split(";")[0], line


def test_imports_and_steps(installed: Path, tmp_path: Path) -> None:
    assert _run(["python", "-c", STEP], installed, tmp_path, 60).strip() == "(88, 45)"


@pytest.mark.slow
def test_what_it_needs_is_installed_with_it(wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, timeout=120)
    pip = [str(venv / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), str(wheel)], check=True, timeout=500)
    assert _run(["python", "-c", STEP], venv / "bin", tmp_path, 60).strip() == "(88, 45)"
    assert "usage: puffer-train" in _run(["puffer-train", "--help"], venv / "bin", tmp_path, 60)


def test_trains_for_some_seconds(installed: Path, tmp_path: Path) -> None:
    _run(["puffer-train", "tag_grid", "--train.time-limit-s", "3", "--log.folder", "out"], installed, tmp_path, 120)
    (metrics,) = (tmp_path / "out").rglob("metrics.jsonl")
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert lines[-1]["charts/agent_steps_per_s"] > 0
