# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""scripts/cpus.py: which settings a CPU runs, that the libraries obey them, and that a failure of
one is a failure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import cpus
from tests.helpers import slow_but

FLAGS = cpus.cpu_flags()
LOOK = """
import json, numpy, torch
found = numpy.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
print(json.dumps([torch.backends.cpu.get_cpu_capability(), found, torch.get_num_threads()]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(["AVX2"], cpus.KERNELS))
def test_the_libraries_obey(name: str) -> None:
    kernels = cpus.KERNELS[name]
    if kernels.flag not in FLAGS:
        pytest.skip(f"this CPU has no {kernels.flag}")
    environment = {**os.environ, **kernels.environment(4)}
    done = subprocess.run(
        [sys.executable, "-c", LOOK], env=environment, capture_output=True, text=True, check=True
    )
    capability, numpys, threads = json.loads(done.stdout)
    assert capability == kernels.variables["ATEN_CPU_CAPABILITY"].upper() and threads == 4
    assert not [found for found in numpys if kernels.newer and found.startswith(kernels.newer)]


@pytest.mark.parametrize(
    ("flags", "fails", "status", "ran"),
    [
        ({"sse4_2", "avx2", "avx512bw"}, None, 0, 6),
        ({"sse4_2", "avx2"}, "AVX2, 4 threads", 1, 4),
        ({"sse4_2"}, None, 0, 2),
        (set(), None, 1, 0),
    ],
)
def test_settings_of_a_cpu(
    flags: set[str],
    fails: str | None,
    status: int,
    ran: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A failure does not keep the others from running; a CPU that runs none has shown nothing."""
    names: list[str] = []

    def run(name: str, environment: dict[str, str], arguments: list[str]) -> int:
        names.append(name)
        assert environment["OMP_NUM_THREADS"] == ("1" if "1 thread" in name else "4")
        assert arguments == ["tests/x.py"]
        return int(name == fails)

    monkeypatch.setattr(cpus, "run", run)
    assert cpus.main(["tests/x.py"], frozenset(flags)) == status and len(names) == ran
    shown = capsys.readouterr().out
    assert shown.count(": passed\n") == ran - (fails is not None)
    assert shown.count("left out") == (6 - ran) / 2
    assert fails is None or f"{fails}: FAILED, status 1\n" in shown


@pytest.mark.slow
def test_a_setting_is_a_run_of_pytest(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(
        "import os\ndef test_it(): assert os.environ['ATEN_CPU_CAPABILITY'] == 'avx2'\n"
    )
    arguments = [str(test), "-n", "0", "-c", os.devnull]
    assert cpus.run("AVX2", {"ATEN_CPU_CAPABILITY": "avx2"}, arguments) == 0
    assert cpus.run("SSE4", {"ATEN_CPU_CAPABILITY": "default"}, arguments) == 1
    shown = capfd.readouterr().out
    assert "== AVX2: ATEN_CPU_CAPABILITY='avx2'\n" in shown and "1 failed" in shown


def test_all_tests_are_there() -> None:
    assert [name for name in cpus.TESTS if not (cpus.ROOT / name).exists()] == []
