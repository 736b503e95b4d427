# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure the cost of `pip install puffervec`: megabytes on disk, and times of the first imports.

    python bench/install.py dist/puffervec-0.1.0-cp311-abi3-linux_x86_64.whl

It installs a wheel into an empty environment, with the dependencies at the versions of
constraints.txt. Sizes are those of the installed files without pip and setuptools, including
bytecode. Times are those of whole Python processes minus those of one that imports nothing,
measured in turns.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common  # noqa: E402

INSTALLERS = ("pip", "setuptools", "pkg_resources", "wheel", "_distutils_hack", "distutils")
MOST_MB, MOST_S = 100.0, 0.2
STARTS = {
    "nothing": "pass",
    "import puffervec": "import puffervec",
    "puffervec.make": "import puffervec; puffervec.make",
    "from puffervec.train import TrainConfig": "from puffervec.train import TrainConfig",
    "puffer-train --version": "import sys; sys.argv[1:] = ['--version']; "
    "from puffervec.commands.console import main; main()",
}


def make_environment(folder: Path, wheel: Path) -> Path:
    """Install a wheel and its dependencies into a new venv and return the interpreter."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=300)
    python = folder / "bin" / "python"
    pip = [
        str(python),
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "-c",
        str(common.ROOT / "constraints.txt"),
    ]
    subprocess.run([*pip, str(wheel)], check=True, timeout=600, stderr=subprocess.DEVNULL)
    return python


def sizes(packages: Path) -> dict[str, int]:
    """Return the bytes of each entry of site-packages, largest first, without installers."""
    totals: dict[str, int] = {}
    for path in packages.rglob("*"):
        name = path.relative_to(packages).parts[0].removesuffix(".libs").partition("-")[0]
        if path.is_file() and name not in INSTALLERS:
            totals[name] = totals.get(name, 0) + path.stat().st_size
    return dict(sorted(totals.items(), key=lambda item: -item[1]))


def start_s(python: Path, code: str, folder: Path) -> Callable[[], float]:
    """Return a function that times a process of an environment, in seconds."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}

    def once() -> float:
        begin = time.perf_counter()
        subprocess.run(
            [python, "-c", code],
            check=True,
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            timeout=60,
        )
        return time.perf_counter() - begin

    once()  # Compiles the bytecode.
    return once


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 1 if a limit is exceeded."""
    flags = common.parser(__doc__)
    flags.add_argument("wheel", type=Path)
    common.add_flags(flags, "install", seconds=0.0)
    flags.set_defaults(repeats=20)
    options = flags.parse_args(arguments)
    if not options.wheel.is_file():
        print(f"{options.wheel} is no file: make wheel builds one into dist/", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        python = make_environment(Path(folder) / "venv", options.wheel)
        start_times = {name: start_s(python, code, Path(folder)) for name, code in STARTS.items()}
        package_bytes = sizes(next((Path(folder) / "venv" / "lib").glob("python*/site-packages")))
        runs = common.interleave(start_times, options.repeats, attempts=options.attempts)
    nothing = runs.results.pop("nothing")
    times = {
        name: common.figure(a - b for a, b in zip(all_, nothing, strict=True))
        for name, all_ in runs.results.items()
    }
    total_mb = sum(package_bytes.values()) / 1e6
    common.print_table(
        "Installed",
        ["package", "MB"],
        [[name, f"{size / 1e6:.1f}"] for name, size in package_bytes.items()],
    )
    common.print_table(
        "From nothing", ["start", "seconds"], [[name, str(time)] for name, time in times.items()]
    )
    print(
        f"{total_mb:.1f} MB (limit {MOST_MB:g}); import puffervec "
        f"{times['import puffervec'].median:.3f} s (limit {MOST_S:g})"
    )
    facts = common.machine()
    results = {
        "megabytes": total_mb,
        "bytes": package_bytes,
        "wheel_bytes": options.wheel.stat().st_size,
    }
    common.finish("install", options, facts, runs.foreign, results | {"seconds": times})
    return 1 if total_mb > MOST_MB or times["import puffervec"].median > MOST_S else 0


if __name__ == "__main__":
    sys.exit(main())
