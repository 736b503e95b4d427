# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""scripts/wheels.py: what it builds here, what it says about the rest, and what cibuildwheel makes
of pyproject.toml.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import wheels
from tests.builds import source_folder
from tests.test_wheel import copy_source

pytestmark = pytest.mark.normal_build("a wheel holds the normal build")
NO_MACOS = "arm64 for macOS: not built: it needs macOS, where this command runs cibuildwheel"


def no_docker(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a `docker` on the PATH that finds no daemon."""
    (folder / "docker").write_text(
        "#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n"
    )
    (folder / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder), os.environ["PATH"]]))


def test_docker_is_asked_for_its_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_docker(tmp_path, monkeypatch)
    assert not wheels.docker_answers()
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 0\n")
    assert wheels.docker_answers()
    monkeypatch.setenv("PATH", "")
    assert not wheels.docker_answers()


def test_a_missing_tool_is_named_with_its_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(
        FileNotFoundError,
        match="no-such-tool is not installed: pip install -c constraints.txt no-such-tool",
    ):
        wheels.tool("no-such-tool")


def test_it_tries_the_installed_package_only() -> None:
    with pytest.raises(AssertionError, match="puffervec"):
        wheels.main(["--try"])  # these tests import the source folder's


@pytest.mark.slow
def test_what_cibuildwheel_would_build() -> None:
    pytest.importorskip("cibuildwheel")
    ask = [sys.executable, "-m", "cibuildwheel", "--print-build-identifiers", str(source_folder())]
    said = [
        subprocess.run(
            [*ask, "--platform", system], capture_output=True, text=True, check=True, timeout=100
        ).stdout.split()
        for system in ("linux", "macos")
    ]
    assert said == [["cp311-manylinux_x86_64", "cp311-manylinux_aarch64"], ["cp311-macosx_arm64"]]


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64", reason="builds for Linux on x86-64"
)
def test_linux_wheels_without_containers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("auditwheel")
    try:
        wheels.tool("patchelf")
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    source = tmp_path / "source"
    source.mkdir()
    copy_source(source)
    no_docker(tmp_path, monkeypatch)
    monkeypatch.setattr(wheels, "DIST", tmp_path / "dist")
    monkeypatch.setenv("PUFFERVEC_OPT", "-O0")
    assert wheels.main(["--source", str(source)]) == 0
    said = capfd.readouterr().out.splitlines()
    made = sorted(path.name for path in (tmp_path / "dist").iterdir())
    machines = ["aarch64", "x86_64"] if shutil.which(wheels.CROSS) else ["x86_64"]
    assert [re.sub(r"_2_\d+_", "_2_X_", name) for name in made] == [
        f"puffervec-{_version()}-cp311-abi3-manylinux_2_X_{machine}.whl" for machine in machines
    ]
    assert re.fullmatch(
        r"x86_64: \S+\.whl, \d\.\d MB; newest symbols GLIBC_2\.\d+ \(.*pthread_create.*\)", said[0]
    )
    assert said[1].startswith("aarch64: ") and said[2:] == [NO_MACOS]


def _version() -> str:
    import puffervec

    return puffervec.__version__
