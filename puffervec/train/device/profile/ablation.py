# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The same call made faster in several ways, side by side: each mode's times, what it costs to make, and whether it changes the
result."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from puffervec.errors import ConfigError
from puffervec.host.output import table_lines
from puffervec.train.device.profile.compare import difference
from puffervec.train.device.profile.timing import Latency, Timing, Work, device_of, latencies

EAGER = "eager"


@dataclasses.dataclass(frozen=True)
class Mode:
    """A way to run work. make: takes the work and returns what runs it; cuda: it makes sense on a GPU only."""

    make: Callable[[Work], Work]
    cuda: bool = False


def compiled(**settings: Any) -> Callable[[Work], Work]:
    """Return what compiles work with torch.compile. Args: settings: of torch.compile."""

    def make(work: Work) -> Work:
        return torch.compile(work, **settings)

    return make


MODES: Mapping[str, Mode] = {
    EAGER: Mode(lambda work: work),
    "compile": Mode(compiled()),
    "compile, reduce-overhead": Mode(compiled(mode="reduce-overhead"), cuda=True),
    "compile, max-autotune-no-cudagraphs": Mode(compiled(mode="max-autotune-no-cudagraphs")),
    "compile, max-autotune": Mode(compiled(mode="max-autotune")),
    "CUDA graph": Mode(lambda work: _graph(work), cuda=True),
}


@dataclasses.dataclass(frozen=True)
class Entry:
    """One mode. latency: None where it cannot run, and `why` says so; ready_s: seconds until the first result; difference: the
    largest from eager, NaN where there are no numbers."""

    mode: str
    latency: Latency | None = None
    ready_s: float = math.nan
    difference: float = math.nan
    why: str = ""


def ablation(
    work: Work, timing: Timing | None = None, modes: Mapping[str, Mode | Callable[[], Work]] = MODES, **changes: Any
) -> list[Entry]:
    """Time work in every mode that this machine can run, in turn.

    Args: work: called without arguments; timing, changes: of `latency`; modes: by name, the first one is what the others are
        compared with; a function without arguments returns work made in another way.
    Raises: ConfigError where not even the first mode runs.
    """
    timing = dataclasses.replace(timing or Timing(), **{"counts": False, **changes})
    device = device_of(timing.device)
    entries: dict[str, Entry] = {}
    ready: dict[str, Work] = {}
    for name, mode in modes.items():
        if isinstance(mode, Mode) and mode.cuda and device.type != "cuda":
            entries[name] = Entry(name, why="needs a GPU")
            continue
        make = functools.partial(mode.make, work) if isinstance(mode, Mode) else mode
        begin = timing.now()
        try:
            ready[name] = make()
            ready[name]()
        except Exception as error:  # Compilers raise anything.
            ready.pop(name, None)
            entries[name] = Entry(name, why=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
        else:
            entries[name] = Entry(name, ready_s=timing.now() - begin)
    first = next(iter(modes))
    if first not in ready:
        raise ConfigError(f"{first} cannot run: {entries[first].why}")
    found = {one.name: one for one in latencies(ready, timing)}
    base = found[first].actions
    for name, one in found.items():
        apart = difference(base, one.actions) if base is not None and one.actions is not None else math.nan
        entries[name] = dataclasses.replace(entries[name], latency=one, difference=apart)
    return list(entries.values())


def ablation_table(entries: Sequence[Entry]) -> str:
    """Return a table: modes with their median, p95, speed over the first one, seconds until the first result, difference."""
    rows: list[tuple[str, ...]] = [("mode", "median ms", "p95 ms", "speed", "ready s", "difference")]
    base = next(entry.latency.median for entry in entries if entry.latency is not None)
    for entry in entries:
        if entry.latency is None:
            rows.append((entry.mode, "-", "-", "-", "-", "-"))
            continue
        median, p95 = entry.latency.median, entry.latency.stats()["wall"]["p95"]
        apart = "-" if math.isnan(entry.difference) else f"{entry.difference:.2g}"
        rows.append((entry.mode, f"{median:.3f}", f"{p95:.3f}", f"{base / median:.2f}x", f"{entry.ready_s:.1f}", apart))
    return "\n".join([*table_lines(rows), *(f"  {entry.mode}: {entry.why}" for entry in entries if entry.why)])


def _graph(work: Work) -> Work:
    """Return work that replays a CUDA graph of itself. It must read nothing back and take its input from where it stays."""
    from puffervec.train.device.graphs import WARM_UPS, recording
    from puffervec.train.device.streams import CudaStream

    stream = CudaStream(torch.device("cuda", torch.cuda.current_device()))
    stream.follow()
    with stream.active():
        for _ in range(WARM_UPS):
            work()
    with recording(stream) as graph:
        out = work()
    stream.precede()

    def replay() -> Any:
        graph.replay()
        return out

    return replay
