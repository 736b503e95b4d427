# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The profiler: what a policy, any callable or training takes, how it scales, and what waits.

    from puffervec import profile

    print(profile.latency(lambda: policy(observation)))
    print(profile.find_syncs(lambda: policy(observation)))
    print(profile.sweep(lambda n: lambda: policy(observation, num_steps=n), "num_steps", (1, 2, 4)))

docs/profile.md walks through it; `puffer-train profile` is the same on the command line. Names are
loaded, and torch with them, when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from puffervec.system import lazy

if TYPE_CHECKING:
    from puffervec.train.device.syncs import Sync, SyncReport, cuda_syncs, find_syncs
    from puffervec.wings.profile.ablation import MODES, Entry, Mode, ablation, ablation_table
    from puffervec.wings.profile.compare import Comparison, compare
    from puffervec.wings.profile.counts import Counts
    from puffervec.wings.profile.fake import ProofError, fake_cuda, prove_no_syncs
    from puffervec.wings.profile.nsys import Trace, nvtx_range, read_csv, window
    from puffervec.wings.profile.pictures import picture
    from puffervec.wings.profile.report import Report, read_report
    from puffervec.wings.profile.sweep import Fit, Sweep, fit_line, sweep, sweeps
    from puffervec.wings.profile.targets import phases
    from puffervec.wings.profile.timing import Latency, Meter, Timing, latencies, latency, table
    from puffervec.wings.profile.trace import chrome_trace

_HOMES = {
    "puffervec.wings.profile.ablation": ("MODES", "Entry", "Mode", "ablation", "ablation_table"),
    "puffervec.wings.profile.compare": ("Comparison", "compare"),
    "puffervec.wings.profile.counts": ("Counts",),
    "puffervec.wings.profile.fake": ("ProofError", "fake_cuda", "prove_no_syncs"),
    "puffervec.wings.profile.nsys": ("Trace", "nvtx_range", "read_csv", "window"),
    "puffervec.wings.profile.pictures": ("picture",),
    "puffervec.wings.profile.report": ("Report", "read_report"),
    "puffervec.wings.profile.sweep": ("Fit", "Sweep", "fit_line", "sweep", "sweeps"),
    "puffervec.train.device.syncs": ("Sync", "SyncReport", "cuda_syncs", "find_syncs"),
    "puffervec.wings.profile.timing": (
        "Latency",
        "Meter",
        "Timing",
        "latencies",
        "latency",
        "table",
    ),
    "puffervec.wings.profile.trace": ("chrome_trace",),
    "puffervec.wings.profile.targets": ("phases",),
}

__all__ = [
    "MODES", "Comparison", "Counts", "Entry", "Fit", "Latency",
    "Meter", "Mode", "ProofError", "Report", "Sweep", "Sync",
    "SyncReport", "Timing", "Trace", "ablation", "ablation_table",
    "chrome_trace", "compare", "cuda_syncs", "fake_cuda",
    "find_syncs", "fit_line", "latencies", "latency", "nvtx_range",
    "phases", "picture", "prove_no_syncs", "read_csv",
    "read_report", "sweep", "sweeps", "table", "window",
]  # fmt: skip

__getattr__ = lazy.loader(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
