# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A Chrome trace of some calls, for chrome://tracing or ui.perfetto.dev, through torch.profiler."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from puffervec.commands.outputs import save_output
from puffervec.wings.profile.timing import INFERENCE, Work, device_of


def chrome_trace(
    work: Work,
    path: str | Path,
    calls: int = 3,
    warmup: int = 3,
    device: torch.device | str | None = None,
) -> Path:
    """Record calls of `work`, each in its own range, and write the trace as JSON.

    Args:
        work: called without arguments.
        path: path of the file.
        calls, warmup: numbers of recorded calls, and of calls before them.
        device: as in `Timing`.

    Raises:
        ConfigError: the file cannot be written.
        Exception: whatever the work raises.
    """
    from torch.profiler import ProfilerActivity, profile, record_function

    on_gpu = device_of(device).type == "cuda"
    for _ in range(warmup):
        work()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities, record_shapes=True) as profiler:
        for _ in range(calls):
            with record_function(INFERENCE):
                work()
        if on_gpu:
            torch.cuda.synchronize()
    with tempfile.TemporaryDirectory(prefix="puffer-train-") as folder:
        fresh = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(fresh))
        save_output(Path(path), fresh.read_bytes())
    return Path(path)
