# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compare ways to make a call faster: speed, preparation time, and difference of results."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from puffervec.system.output import table_lines
from puffervec.wings.profile.compare import difference
from puffervec.wings.profile.timing import Latency, Timing, Work, device_of, latencies

EAGER = "eager"


@dataclasses.dataclass(frozen=True)
class Mode:
    """A way to run work.

    Attributes:
        make: called with the work; returns a function that runs it in this mode.
        cuda: whether the mode makes sense only on a GPU.
    """

    make: Callable[[Work], Work]
    cuda: bool = False


def compiled(**settings: Any) -> Callable[[Work], Work]:
    """Return a function that compiles work, which draws the same noise as uncompiled work.

    Args:
        settings: settings of `torch.compile`.
    """

    def make(work: Work) -> Work:
        from torch._inductor import config

        fast = torch.compile(work, **settings)
        with config.patch(fallback_random=True):
            fast()  # The first call compiles it.
        return fast

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
    """The result of one mode.

    Attributes:
        mode: Name of the mode.
        latency: Latency of a call; None if the mode cannot run here.
        speed: Speed-up over the first mode, by the medians of alternating calls.
        ready_s: Seconds until the first result, including compilation.
        difference: Largest difference from the first mode's results; NaN if they are no numbers.
        why: The reason if the mode cannot run.
    """

    mode: str
    latency: Latency | None = None
    speed: float = math.nan
    ready_s: float = math.nan
    difference: float = math.nan
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the entry as JSON values, with None for unknown numbers."""
        numbers = {"speed": self.speed, "ready_s": self.ready_s, "difference": self.difference}
        known = {key: value if math.isfinite(value) else None for key, value in numbers.items()}
        stats = None if self.latency is None else self.latency.stats()
        return {"mode": self.mode, "stats_ms": stats, **known, "why": self.why}


def ablation(
    work: Work,
    timing: Timing | None = None,
    modes: Mapping[str, Mode | Callable[[], Work]] | None = None,
    **changes: Any,
) -> list[Entry]:
    """Time work in every mode that this machine can run, each alternating with the first one.

    This resets what torch has compiled.

    Args:
        work: called without arguments.
        timing, changes: see `latency`.
        modes: modes by name; the others are compared with the first one. A function without
            arguments, instead of a Mode, returns work that was made in another way. None: MODES.

    Raises:
        Exception: whatever the work raises in the first mode.
    """
    timing = dataclasses.replace(timing or Timing(), **{"counts": False, **changes})
    (first, plain), *others = (MODES if modes is None else modes).items()
    begin = timing.now()
    base = _make_work(plain, work)
    base()
    ready_s, (base_latency,) = timing.now() - begin, latencies({first: base}, timing)
    return [
        Entry(first, base_latency, 1.0, ready_s, 0.0),
        *(_entry(name, mode, work, base, timing) for name, mode in others),
    ]


def _entry(
    name: str, mode: Mode | Callable[[], Work], work: Work, base: Work, timing: Timing
) -> Entry:
    if isinstance(mode, Mode) and mode.cuda and device_of(timing.device).type != "cuda":
        return Entry(name, why="needs a GPU")
    if "torch._dynamo" in sys.modules:
        # All modes compile the same functions, and torch keeps only a few versions of each.
        torch.compiler.reset()
    begin = timing.now()
    try:
        fast = _make_work(mode, work)
        fast()
        ready_s = timing.now() - begin
        plain, own = latencies({"": base, name: fast}, timing)
    except Exception as error:  # Compilers raise errors of any type.
        return Entry(name, why=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
    numbers = plain.actions, own.actions
    apart = (
        math.nan if numbers[0] is None or numbers[1] is None else difference(numbers[0], numbers[1])
    )
    return Entry(name, own, plain.median / own.median, ready_s, apart)


def _make_work(mode: Mode | Callable[[], Work], work: Work) -> Work:
    return mode.make(work) if isinstance(mode, Mode) else mode()


def ablation_table(entries: Sequence[Entry]) -> str:
    """Return a table of the modes, and below it the reasons why some cannot run."""
    rows: list[tuple[str, ...]] = [
        ("mode", "median ms", "p95 ms", "speed", "ready s", "difference")
    ]
    for entry in entries:
        if entry.latency is None:
            rows.append((entry.mode, "-", "-", "-", "-", "-"))
            continue
        median, p95 = entry.latency.median, entry.latency.stats()["wall"]["p95"]
        apart = "-" if math.isnan(entry.difference) else f"{entry.difference:.2g}"
        rows.append(
            (
                entry.mode,
                f"{median:.3f}",
                f"{p95:.3f}",
                f"{entry.speed:.2f}x",
                f"{entry.ready_s:.1f}",
                apart,
            )
        )
    return "\n".join(
        [*table_lines(rows), *(f"  {entry.mode}: {entry.why}" for entry in entries if entry.why)]
    )


def _graph(work: Work) -> Work:
    """Return work that replays a CUDA graph of `work`.

    The work must read nothing back, and read its input at a fixed address.
    """
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
