# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Dockerfile and .dockerignore, without Docker: versions are pinned, and what the image is built
from is enough to build.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
IGNORED = [
    line
    for line in (ROOT / ".dockerignore").read_text().splitlines()
    if line and not line.startswith("#")
]
pytestmark = pytest.mark.normal_build("an image holds the normal build")


def left_out(path: str) -> bool:
    """Whether .dockerignore leaves out a path, itself or one of the folders above it."""
    parts = path.split("/")
    for end in range(1, len(parts) + 1):
        for pattern in IGNORED:
            name = parts[end - 1] if pattern.startswith("**/") else "/".join(parts[:end])
            if fnmatch.fnmatchcase(name, pattern.removeprefix("**/")):
                return True
    return False


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """What Docker would be sent."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no git repository")
    for name in listed.stdout.split("\0"):
        if name and not left_out(name) and (ROOT / name).exists():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / name)
    return tmp_path


def test_versions_are_pinned() -> None:
    (image,) = re.findall(r"^FROM (\S+)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", image)
    command = re.search(r'"\$\((grep [^)]*)\)"', DOCKERFILE)
    assert command is not None and "https://download.pytorch.org/whl/cpu" in DOCKERFILE
    found = subprocess.run(
        ["sh", "-c", command.group(1)], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert re.fullmatch(r"torch==[\d.]+\n", found)


def test_an_image_holds_the_sources_alone(context: Path) -> None:
    assert {path.name for path in context.iterdir()} >= {
        "puffervec",
        "drive_env",
        "csrc",
        "Makefile",
        "setup.py",
    }
    for name in ("tests", "bench", ".git", "docs/images", ".ci"):
        assert (ROOT / name).exists() and not (context / name).exists(), name
    assert (
        left_out("puffervec/_native.abi3.so")
        and left_out("puffervec/vec/__pycache__/a.pyc")
        and left_out("runs/a/b")
    )


@pytest.mark.slow
def test_make_trains_in_the_image(context: Path) -> None:
    """The layers: an environment with PyTorch, then `make trainer`, then `make train`, which makes
    nothing anew.
    """
    python = context / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)

    def planned(target: str) -> list[str]:
        command = ["make", "-n", "--no-print-directory", target]
        done = subprocess.run(
            command, cwd=context, capture_output=True, text=True, check=True, timeout=30
        )
        assert done.stderr == ""
        return [line.strip() for line in done.stdout.splitlines()]

    first = planned("trainer")
    assert [line for line in first if "-e '.[train,plot]'" in line] and not [
        line for line in first if "pytest" in line
    ]
    assert not [line for line in first if "-m venv" in line]
    (context / ".venv" / ".trainer").touch()
    assert planned("train") == [".venv/bin/puffer-train drive"]
    assert 'CMD ["make", "train"]' in DOCKERFILE and "RUN make trainer" in DOCKERFILE


@pytest.mark.slow
def test_the_core_is_built_from_what_the_image_has(
    context: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = tmp_path_factory.mktemp("out")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-build-isolation",
        "--no-deps",
        "-w",
        str(out),
        str(context),
    ]
    subprocess.run(build, env={**os.environ, "PUFFERVEC_OPT": "-O0"}, check=True, timeout=300)
    assert len(list(out.glob("puffervec-*.whl"))) == 1
