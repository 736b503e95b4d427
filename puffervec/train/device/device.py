# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Choose the device, the precision and the number of threads of a run. Runs in the learner."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import torch

from puffervec.errors import ConfigError
from puffervec.system import memory


def choose_device(name: str) -> torch.device:
    """Return the device for `auto`, `cpu`, `cuda` or `cuda:N`.

    Raises:
        ConfigError: The name is not one of these, or the device does not exist.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ConfigError(f"train.device is {name!r}: must be auto, cpu, cuda or cuda:N")
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count == 0:
            raise ConfigError(f"train.device is {name!r}: no CUDA device found, use cpu or auto")
        if (device.index or 0) >= count:
            raise ConfigError(
                f"train.device is {name!r}: this machine has CUDA devices 0 to {count - 1}"
            )
    return device


def make_current(device: torch.device) -> None:
    """Make a GPU this thread's current CUDA device.

    Graphs, page-locking and other calls that take no device use the current one.
    """
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)


@contextlib.contextmanager
def deterministic_kernels(device: torch.device) -> Iterator[None]:
    """Use only deterministic CUDA kernels in the body, and refuse operations that have none.

    On a CPU this does nothing: the trainer's results there do not depend on timing.
    """
    if device.type != "cuda":
        yield
        return
    os.environ.setdefault(
        "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
    )  # cuBLAS, "Results reproducibility"; read at its first call
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def in_pieces(device: torch.device) -> bool:
    """Return whether work is split into cache-sized pieces, one per thread, as on a CPU.

    Other devices process everything in one go, in fixed buffers, and the host waits only for the
    actions.
    """
    return device.type == "cpu"


def refuse_more_on(device: torch.device, wanted: int, who: str, what_for: str, advice: str) -> None:
    """Raise ConfigError if the device has less than `wanted` bytes free.

    Args: see `memory.refuse_more`.
    """
    if device.type == "cpu":
        memory.refuse_more(wanted, who, what_for, advice)
    elif device.type == "cuda" and wanted > (free := torch.cuda.mem_get_info(device)[0]):
        raise ConfigError(
            f"{who} {wanted:,} bytes {what_for}; {free:,} are free on {device}: {advice}"
        )


def cpu_has_bf16() -> bool:
    """Return whether the CPU has bf16 instructions; without them bf16 is slower than float32."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return re.search(r"\b(avx512_|amx_)?bf16\b", flags) is not None  # Arm calls it bf16.


def use_bf16(precision: str, device: torch.device) -> bool:
    """Return whether the policy's hidden layers run in bf16, judging by the hardware.

    `startup.py` measures it instead where there is time to do so.

    Args:
        precision: auto, bf16 or fp32.
    """
    if precision != "auto":
        return precision == "bf16"
    return torch.cuda.is_bf16_supported() if device.type == "cuda" else cpu_has_bf16()


Item = TypeVar("Item")
Result = TypeVar("Result")


class ThreadPool:
    """A pool of threads that each run whole pieces of work with single-threaded torch kernels.

    By default torch splits every kernel over its threads and waits for all of them after each one.
    On a CPU shared with env workers (or anything else) each such wait can last a whole time slice.
    Pieces of a few milliseconds cost one wait per minibatch: on 2 cores this is 1.2 times as fast
    on an idle machine, and several times as fast next to another busy process. The pieces do not
    depend on the number of threads, so neither do the results.
    """

    def __init__(self, count: int) -> None:
        """Start the threads.

        Args:
            count: Number of threads; 1 runs everything in the caller.
        """
        self.count = count
        self._pool: ThreadPoolExecutor | None = None
        if count > 1:
            self._pool = ThreadPoolExecutor(
                count, "puffervec-pool", initializer=torch.set_num_threads, initargs=(1,)
            )

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return the results in the order of the items; block until all are done.

        The first exception is raised.
        """
        if self._pool is None or len(items) < 2:
            return [work(item) for item in items]
        return list(self._pool.map(work, items))

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()


@contextlib.contextmanager
def one_torch_thread() -> Iterator[None]:
    """Run the body with single-threaded torch kernels in this thread, then restore the number."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
