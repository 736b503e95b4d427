# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What a run uses of the machine: cores, memory, the GPU. Sampled in the learner between updates, a
few times a minute.
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
    """Samples the learner, its worker processes and its GPU, at most every `interval_s`; in between
    the last sample stands.
    """

    def __init__(
        self,
        worker_pids: Iterable[int],
        device: torch.device,
        interval_s: float,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Args: worker_pids: processes that step the envs; none where the learner does it itself."""
        self._learner = psutil.Process()
        self._workers = list(_alive(worker_pids))
        self._device, self._interval_s, self._clock = device, interval_s, clock
        self._cpu_s = self._cpu_seconds()
        self._at_s, self._due_s = clock(), -1.0
        self._sample: dict[str, float] = {}

    def sample(self) -> dict[str, float]:
        """Return `usage/<name>`: cores are CPU seconds per second since the sample before, memory
        is resident, in MiB.

        Memory that learner and workers share (the slab, libraries) counts in each of them. Without
        worker processes their two values are left out, as those of a GPU are without one.
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
        found = {
            keys.LEARNER_CORES: learner,
            keys.LEARNER_MEMORY: self._learner.memory_info().rss / MIB,
        }
        if self._workers:
            found[keys.WORKER_CORES] = max(
                0.0, workers
            )  # A worker that ended takes its seconds with it.
            found[keys.WORKER_MEMORY] = sum(_told(process)[1] for process in self._workers) / MIB
        return found

    def _cpu_seconds(self) -> tuple[float, float]:
        """CPU seconds of the learner and of all workers so far."""
        return _told(self._learner)[0], sum(_told(process)[0] for process in self._workers)

    def _gpu(self) -> dict[str, float]:
        if self._device.type != "cuda":
            return {}
        free, total = torch.cuda.mem_get_info(self._device)
        found = {
            keys.GPU_MEMORY: torch.cuda.memory_reserved(self._device) / MIB,
            keys.GPU_MEMORY_SHARE: 1.0 - free / total,
        }
        if _has_nvml():
            with contextlib.suppress(
                Exception
            ):  # A driver that does not tell: NVML has an error of its own for each reason.
                found[keys.GPU_SHARE] = torch.cuda.utilization(self._device) / 100.0
        return found


@functools.cache
def _has_nvml() -> bool:
    """True where torch can ask the driver how busy a GPU is."""
    return importlib.util.find_spec("pynvml") is not None


def _alive(pids: Iterable[int]) -> Iterable[psutil.Process]:
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            yield psutil.Process(pid)


def _told(process: psutil.Process) -> tuple[float, float]:
    """CPU seconds so far and resident bytes of a process; 0 where it has ended."""
    with contextlib.suppress(psutil.Error):
        times = process.cpu_times()
        return times.user + times.system, process.memory_info().rss
    return 0.0, 0.0
