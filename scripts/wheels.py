# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Build the wheels of a release in dist/: cp311-abi3 for Linux (x86-64, aarch64) and macOS (arm64).

    make dist                         all wheels that can be built here; reports the others, and why
    python scripts/wheels.py --try    step an env of the installed package (for cibuildwheel)

If Docker is available, cibuildwheel builds the Linux wheels in the containers that pyproject.toml
names. Without it they are compiled here, aarch64 with a cross compiler, and auditwheel names the
oldest glibc with which the wheels run: that of this system's headers or a little older.
cibuildwheel builds the macOS wheel on macOS only.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
CROSS = "aarch64-linux-gnu-gcc"


def docker_answers() -> bool:
    """Return whether a Docker daemon is available."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, timeout=60).returncode == 0


def tool(name: str) -> str:
    """Return the path of a tool that pip has installed.

    Raises:
        FileNotFoundError: it is missing; the message names the package to install.
    """
    beside = Path(sysconfig.get_path("scripts")) / name
    path = str(beside) if beside.exists() else shutil.which(name)
    if path is None:
        raise FileNotFoundError(f"{name} is not installed: pip install -c constraints.txt {name}")
    return path


def build(machine: str, source: Path, out: Path) -> Path:
    """Build a wheel for Linux on `machine` with this system's compilers, tagged linux_<machine>."""
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if machine != platform.machine():
        # The limited API of Python is the same on both, so the headers of this Python are used.
        environment |= {
            "CC": CROSS,
            "LDSHARED": f"{CROSS} -shared",
            "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
        }
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-build-isolation",
        "--no-deps",
        "-w",
        str(out),
        str(source),
    ]
    subprocess.run(command, env=environment, check=True, timeout=900)
    (wheel,) = out.glob(f"*linux_{machine}.whl")
    return wheel


def repair(wheel: Path, out: Path) -> Path:
    """Tag a wheel with the platform whose symbols it needs, write it to `out` and return it."""
    before = set(out.glob("*.whl"))
    path = os.pathsep.join([str(Path(tool("patchelf")).parent), os.environ.get("PATH", "")])
    command = [sys.executable, "-m", "auditwheel", "repair", "-w", str(out), str(wheel)]
    subprocess.run(
        command, env={**os.environ, "PATH": path}, check=True, timeout=300, capture_output=True
    )
    (repaired,) = set(out.glob("*.whl")) - before
    return repaired


def newest_symbols(wheel: Path) -> str:
    """Return the newest version of glibc that a wheel needs, with the symbols.

    An example is "GLIBC_2.34 (pthread_create, pthread_once)".
    """
    from elftools.elf.elffile import ELFFile

    symbols: dict[tuple[int, ...], list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        shutil.unpack_archive(wheel, folder, "zip")
        (library,) = Path(folder).glob("puffervec/_native*.so")
        with library.open("rb") as file:
            elf = ELFFile(file)
            needs, versions = (
                elf.get_section_by_name(".gnu.version_r"),
                elf.get_section_by_name(".gnu.version"),
            )
            for index, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
                number = versions.get_symbol(index)["ndx"]
                version = (
                    needs.get_version(number)[1].name
                    if isinstance(number, int) and number > 1
                    else ""
                )
                if version.startswith("GLIBC_"):
                    symbols.setdefault(tuple(map(int, version[6:].split("."))), []).append(
                        symbol.name
                    )
    newest = max(symbols)
    return f"GLIBC_{'.'.join(map(str, newest))} ({', '.join(sorted(symbols[newest]))})"


def linux_here(source: Path) -> list[Path]:
    """Build the Linux wheels without containers and return them; print which are missing."""
    wheels = []
    for machine in ("x86_64", "aarch64"):
        if machine != platform.machine() and (machine != "aarch64" or shutil.which(CROSS) is None):
            print(
                f"{machine}: not built: neither is this a {machine} machine nor is Docker here, "
                f"nor {CROSS}"
            )
            continue
        with tempfile.TemporaryDirectory() as folder:
            raw = build(machine, source, Path(folder))
            symbols = newest_symbols(raw)
            wheel = repair(raw, DIST)
        wheels.append(wheel)
        cross = (
            ""
            if machine == platform.machine()
            else "; compiled across, so it has not been run here"
        )
        print(
            f"{machine}: {wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB; newest symbols "
            f"{symbols}{cross}"
        )
    return wheels


def try_it() -> int:
    """Step a C env in worker processes with the installed package."""
    import puffervec

    assert "site-packages" in (puffervec.__file__ or ""), puffervec.__file__
    with puffervec.make("tag_grid", num_envs=8, num_workers=2) as vec:
        vec.reset(seed=0)
        for _ in range(10):
            rows = vec.step([0] * vec.num_agents)[0].shape
    print(f"{platform.system()} {platform.machine()}: {rows}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags.add_argument(
        "--try", dest="trial", action="store_true", help="step an env with the installed package"
    )
    flags.add_argument(
        "--source", type=Path, default=ROOT, help="the sources (default: this folder)"
    )
    options = flags.parse_args(arguments)
    if options.trial:
        return try_it()
    DIST.mkdir(exist_ok=True)
    if sys.platform == "darwin" or docker_answers():
        if importlib.util.find_spec("cibuildwheel") is None:
            print(
                "cibuildwheel is not installed: pip install -c constraints.txt cibuildwheel",
                file=sys.stderr,
            )
            return 2
        command = [
            sys.executable,
            "-m",
            "cibuildwheel",
            "--output-dir",
            str(DIST),
            str(options.source),
        ]
        status = subprocess.run(command).returncode
    elif sys.platform == "linux":
        try:
            linux_here(options.source)
        except FileNotFoundError as error:
            print(error, file=sys.stderr)
            return 2
        status = 0
    if sys.platform != "darwin":
        print("arm64 for macOS: not built: it needs macOS, where this command runs cibuildwheel")
    return status


if __name__ == "__main__":
    sys.exit(main())
