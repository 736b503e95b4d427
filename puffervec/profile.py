# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The profiler: how long a policy, any callable, or the phases of training take, what grows with a knob, and what waits.

    from puffervec import profile

    print(profile.latency(lambda: policy(observation)))
    print(profile.find_syncs(lambda: policy(observation)))
    print(profile.sweep(lambda n: lambda: policy(observation, num_steps=n), "num_steps", (1, 2, 4, 8)))

docs/profile.md walks through it; `puffer-train profile` is the same on the command line. Names are loaded, and torch with them,
when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from puffervec import extras

if TYPE_CHECKING:
    from puffervec.train.device.profile.ablation import MODES, Entry, Mode, ablation, ablation_table
    from puffervec.train.device.profile.compare import Comparison, compare
    from puffervec.train.device.profile.counts import Counts
    from puffervec.train.device.profile.fake import ProofError, fake_cuda, prove_no_syncs
    from puffervec.train.device.profile.nsys import Trace, nvtx_range, read_csv, window
    from puffervec.train.device.profile.pictures import picture
    from puffervec.train.device.profile.report import Report, read_report
    from puffervec.train.device.profile.sweep import Fit, Sweep, fit_line, sweep, sweeps
    from puffervec.train.device.profile.syncs import Sync, SyncReport, cuda_syncs, find_syncs
    from puffervec.train.device.profile.timing import Latency, Meter, Timing, latencies, latency, table
    from puffervec.train.device.profile.trace import chrome_trace
    from puffervec.train.verbs.profiling import phases

_HOME = {
    "ablation": ("MODES", "Entry", "Mode", "ablation", "ablation_table"),
    "compare": ("Comparison", "compare"),
    "counts": ("Counts",),
    "fake": ("ProofError", "fake_cuda", "prove_no_syncs"),
    "nsys": ("Trace", "nvtx_range", "read_csv", "window"),
    "pictures": ("picture",),
    "report": ("Report", "read_report"),
    "sweep": ("Fit", "Sweep", "fit_line", "sweep", "sweeps"),
    "syncs": ("Sync", "SyncReport", "cuda_syncs", "find_syncs"),
    "timing": ("Latency", "Meter", "Timing", "latencies", "latency", "table"),
    "trace": ("chrome_trace",),
}
_MODULE = {name: f"puffervec.train.device.profile.{module}" for module, names in _HOME.items() for name in names}
_MODULE["phases"] = "puffervec.train.verbs.profiling"

__all__ = [
    "MODES", "Comparison", "Counts", "Entry", "Fit", "Latency", "Meter", "Mode", "ProofError", "Report", "Sweep", "Sync",
    "SyncReport", "Timing", "Trace", "ablation", "ablation_table", "chrome_trace", "compare", "cuda_syncs", "fake_cuda",
    "find_syncs", "fit_line", "latencies", "latency", "nvtx_range", "phases", "picture", "prove_no_syncs", "read_csv",
    "read_report", "sweep", "sweeps", "table", "window",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load a name at first use. Raises: MissingExtraError: the trainer's packages are missing."""
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    extras.require(f"puffervec.profile.{name}", *extras.TRAINER)
    value = getattr(importlib.import_module(_MODULE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE])
