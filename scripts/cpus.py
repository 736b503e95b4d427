# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`make cpus`: run tests with the kernels of other CPUs, with one thread and with four.

    python scripts/cpus.py [arguments of pytest]

PyTorch, MKL, oneDNN, OpenBLAS and NumPy choose their kernels by the features of the CPU, and have
variables that make them choose older ones. Each setting runs in separate pytest processes, one
setting at a time, at a low priority. Settings that this CPU cannot run are listed and skipped. Exit
status: 1 if a setting fails.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
THREADS = (1, 4)
TESTS = (
    *("tests/train", "tests/learn", "tests/drive_env", "tests/envs", "tests/golden"),
    *("tests/test_byte_equality.py", "tests/test_torch_view.py", "tests/test_sb3.py"),
)
OPTIONS = (
    "-q",
    "-p",
    "no:cacheprovider",
    "-n",
    "2",
    "--dist",
    "worksteal",
    "-m",
    "cpus or not slow and not gpu",
)


@dataclass(frozen=True)
class Kernels:
    """Kernels of one generation of x86-64 CPUs.

    Attributes:
        flag: required feature of the CPU, by its name in /proc/cpuinfo.
        variables: environment variables that make the libraries choose these kernels.
        newer: prefixes of the names of NumPy's kernels to switch off.
    """

    flag: str
    variables: Mapping[str, str]
    newer: tuple[str, ...] = ()

    def environment(self, threads: int) -> dict[str, str]:
        """Return the environment variables of a run with this many threads."""
        kernels: Sequence[str] = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])  # type: ignore[call-overload]
        off = " ".join(name for name in kernels if name.startswith(self.newer))
        counts = dict.fromkeys(
            ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads)
        )
        counts["MKL_DYNAMIC"] = "FALSE"  # Otherwise MKL uses at most one thread per core.
        return {**self.variables, **counts, **({"NPY_DISABLE_CPU_FEATURES": off} if off else {})}


def _variables(aten: str, mkl: str, onednn: str, openblas: str) -> dict[str, str]:
    return {
        "ATEN_CPU_CAPABILITY": aten,
        "MKL_ENABLE_INSTRUCTIONS": mkl,
        "ONEDNN_MAX_CPU_ISA": onednn,
        "OPENBLAS_CORETYPE": openblas,
    }


AVX512 = ("X86_V4", "AVX512")
KERNELS = {
    "SSE4": Kernels(
        "sse4_2",
        _variables("default", "SSE4_2", "SSE41", "Nehalem"),
        ("X86_V3", "AVX", "F16C", "FMA", *AVX512),
    ),
    "AVX2": Kernels("avx2", _variables("avx2", "AVX2", "AVX2", "Haswell"), AVX512),
    "AVX-512": Kernels("avx512bw", _variables("avx512", "AVX512", "AVX512_CORE", "SkylakeX")),
}


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Return the features of the CPU by the kernel's names; empty if they are not reported."""
    if not cpuinfo.exists():
        return frozenset()
    lines = (line for line in cpuinfo.read_text().splitlines() if line.startswith("flags"))
    return frozenset(next(lines, ":").partition(":")[2].split())


def lower_priority() -> None:
    """Lower the priority of this process below that of other programs."""
    os.nice(10)


def run(name: str, environment: Mapping[str, str], arguments: Sequence[str]) -> int:
    """Run pytest with these environment variables; return its exit status."""
    print(
        f"== {name}: {' '.join(f'{key}={value!r}' for key, value in environment.items())}",
        flush=True,
    )
    command = [sys.executable, "-m", "pytest", *OPTIONS, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, preexec_fn=lower_priority
    ).returncode


def main(arguments: Sequence[str] = (), flags: frozenset[str] | None = None) -> int:
    """Run all settings of this CPU, print which passed, and return the exit status.

    Args:
        arguments: arguments of pytest, instead of TESTS.
        flags: features of the CPU.
    """
    flags = cpu_flags() if flags is None else flags
    statuses: dict[str, str] = {}
    for name, kernels in KERNELS.items():
        if kernels.flag not in flags:
            statuses[name] = f"left out, this CPU ({platform.machine()}) has no {kernels.flag}"
            continue
        for threads in THREADS:
            setting = f"{name}, {threads} {'thread' if threads == 1 else 'threads'}"
            status = run(setting, kernels.environment(threads), arguments or TESTS)
            statuses[setting] = f"FAILED, status {status}" if status else "passed"
    print(*(f"{setting}: {status}" for setting, status in statuses.items()), sep="\n")
    ran = [status for status in statuses.values() if not status.startswith("left out")]
    return 0 if ran and all(status == "passed" for status in ran) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
