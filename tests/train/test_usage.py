# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest
import torch

from puffervec.train.metrics import usage
from puffervec.train.metrics.usage import MIB, Usage

CPU = torch.device("cpu")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has used CPU time and then waits for its input to end."""
    script = (
        "import os, sys\nwhile sum(os.times()[:2]) < 0.1: pass\nprint(); sys.stdout.flush(); "
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield process
        process.stdin.close()  # type: ignore[union-attr]


def work(seconds: float) -> float:
    """Use CPU time; returns how much it was."""
    begin = sum(os.times()[:2])
    while sum(os.times()[:2]) - begin < seconds:
        pass
    return sum(os.times()[:2]) - begin


def test_cores_are_cpu_seconds_per_second() -> None:
    clock = Clock()
    measured = Usage((), CPU, 0.0, clock)
    used = work(0.1)
    clock.now += 0.2
    found = measured.sample()
    assert 0.9 * used / 0.2 <= found["usage/learner_cores"] < used / 0.2 + 0.5
    assert found["usage/learner_memory_mib"] == pytest.approx(
        psutil.Process().memory_info().rss / MIB, rel=0.2
    )
    assert set(found) == {"usage/learner_cores", "usage/learner_memory_mib"}  # no workers, no GPU
    clock.now += 1000.0
    assert (
        measured.sample()["usage/learner_cores"] < 0.01
    )  # only what was used since the sample before


def test_workers_are_counted_until_they_end(child: subprocess.Popen[bytes]) -> None:
    clock = Clock()
    measured = Usage(
        [child.pid, 2**22 + 1], CPU, 0.0, clock
    )  # The second one is above the highest pid.
    child.stdout.read(1)  # type: ignore[union-attr]
    clock.now += 1.0
    found = measured.sample()
    assert 0.0 < found["usage/worker_cores"] <= 0.5 and found["usage/worker_memory_mib"] > 1
    child.kill()
    child.wait()
    found = measured.sample()
    assert found["usage/worker_cores"] == 0.0 and found["usage/worker_memory_mib"] == 0.0


def test_a_gpu_is_looked_at_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (6 * MIB, 8 * MIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: MIB)
    monkeypatch.setattr(torch.cuda, "utilization", lambda device: 40)
    for there, more in ((True, {"usage/gpu_share": 0.4}), (False, {})):
        monkeypatch.setattr(usage, "_has_nvml", lambda there=there: there)
        found = Usage((), torch.device("cuda"), 0.0).sample()
        gpu = {key: value for key, value in found.items() if "gpu" in key}
        assert gpu == {"usage/gpu_memory_mib": 1.0, "usage/gpu_memory_share": 0.25, **more}


def test_a_driver_that_does_not_tell_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(device: object) -> int:
        raise RuntimeError("NVML is not supported here")

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (0, MIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 0)
    monkeypatch.setattr(torch.cuda, "utilization", refuse)
    monkeypatch.setattr(usage, "_has_nvml", lambda: True)
    assert "usage/gpu_share" not in Usage((), torch.device("cuda"), 0.0).sample()
