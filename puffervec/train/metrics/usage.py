# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure a run's use of the machine: cores, memory, the GPU.

The learner takes a sample between updates, a few times a minute.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import time
from collections.abc import Callable, Iterable

import psutil
import torch

from puffervec.train.metrics import keys

MIB = 2**20


class Usage:
    """A sampler of the learner, its worker processes and its GPU, at most once every `interval_s`.

    Between samples the latest one is returned.
    """

    def __init__(
        self,
        worker_pids: Iterable[int],
        device: torch.device,
        interval_s: float,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Find the processes and start counting CPU time.

        Args:
            worker_pids: Processes that step the envs; empty if the learner does it itself.
        """
        self._learner = psutil.Process()
        self._workers = list(_alive(worker_pids))
        self._device, self._interval_s, self._clock = device, interval_s, clock
        self._cpu_s = self._cpu_seconds()
        self._at_s, self._due_s = clock(), -1.0
        self._sample: dict[str, float] = {}

    def sample(self) -> dict[str, float]:
        """Return `usage/<name>`: CPU seconds per second since the last sample, and memory in MiB.

        Memory is resident memory. Memory that learner and workers share (the slab, libraries)
        counts in each of them. Values of workers are missing without worker processes, those of a
        GPU without one.
        """
        now = self._clock()
        if now >= self._due_s:
            self._due_s = now + self._interval_s
            self._sample = {**self._processes(now), **self._gpu()}
        return self._sample

    def _processes(self, now: float) -> dict[str, float]:
        before, self._cpu_s = self._cpu_s, self._cpu_seconds()
        span, self._at_s = max(1e-9, now - self._at_s), now
        learner, workers = (
            (after - b) / span for after, b in zip(self._cpu_s, before, strict=True)
        )
        values = {
            keys.LEARNER_CORES: learner,
            keys.LEARNER_MEMORY: self._learner.memory_info().rss / MIB,
        }
        if self._workers:
            # The seconds of a worker that has ended vanish from the sum.
            values[keys.WORKER_CORES] = max(0.0, workers)
            values[keys.WORKER_MEMORY] = sum(_cost(process)[1] for process in self._workers) / MIB
        return values

    def _cpu_seconds(self) -> tuple[float, float]:
        """Return the CPU seconds of the learner and of all workers so far."""
        return _cost(self._learner)[0], sum(_cost(process)[0] for process in self._workers)

    def _gpu(self) -> dict[str, float]:
        if self._device.type != "cuda":
            return {}
        free, total = torch.cuda.mem_get_info(self._device)
        values = {
            keys.GPU_MEMORY: torch.cuda.memory_reserved(self._device) / MIB,
            keys.GPU_MEMORY_SHARE: 1.0 - free / total,
        }
        if _has_nvml():
            # NVML has a separate error for each reason why a driver does not answer.
            with contextlib.suppress(Exception):
                values[keys.GPU_SHARE] = torch.cuda.utilization(self._device) / 100.0
        return values


@functools.cache
def _has_nvml() -> bool:
    """Return whether torch can ask the driver how busy a GPU is."""
    return importlib.util.find_spec("pynvml") is not None


def _alive(pids: Iterable[int]) -> Iterable[psutil.Process]:
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            yield psutil.Process(pid)


def _cost(process: psutil.Process) -> tuple[float, float]:
    """Return the CPU seconds so far and the resident bytes of a process; 0 if it has ended."""
    with contextlib.suppress(psutil.Error):
        times = process.cpu_times()
        return times.user + times.system, process.memory_info().rss
    return 0.0, 0.0
