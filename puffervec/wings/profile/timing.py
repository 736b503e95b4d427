# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Times of calls: wall time until the device has finished, and device time between two events.

latency(work)                      one call repeatedly, from the same seed each time
Meter().watch(owner, "method")     methods of objects in use: the phases of a loop
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from puffervec.errors import ConfigError
from puffervec.system.output import table_lines
from puffervec.wings.profile.counts import Counts, count

MS = 1e3
_QUANTILES = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}
COLUMNS = ("mean", *_QUANTILES, "min", "max")
MOST_ACTIONS = 100_000  # Limit of the numbers that a report stores for comparisons.
INFERENCE, ITERATION = "inference", "iteration"  # Ranges around each call and loop iteration.

Now = Callable[[], float]
Marks = Callable[[str], AbstractContextManager[Any]]
Work = Callable[[], Any]


def stats(samples: Sequence[float]) -> dict[str, float]:
    """Return mean, quantiles (linear between samples), minimum and maximum, by COLUMNS."""
    x = np.asarray(samples, dtype=float)
    quantiles = {name: float(np.percentile(x, q)) for name, q in _QUANTILES.items()}
    return {"mean": float(x.mean()), **quantiles, "min": float(x.min()), "max": float(x.max())}


@dataclasses.dataclass(frozen=True)
class Latency:
    """Times of one call or phase, in milliseconds.

    Attributes:
        name: name of the call or phase.
        wall: (calls,) from the call until it has returned and the device has finished.
        device: (calls,) between an event before and one after, on the device; None on a CPU.
        counts: counts of one call; None if they were not requested.
        actions: (numbers,) the flat result of the last call; None if it has no numbers, or more
            than MOST_ACTIONS.
        per_iteration: for a phase, calls per iteration of the loop; None for a call.
    """

    name: str
    wall: tuple[float, ...]
    device: tuple[float, ...] | None = None
    counts: Counts | None = None
    actions: tuple[float, ...] | None = None
    per_iteration: float | None = None

    @property
    def median(self) -> float:
        """Median of the wall time, ms."""
        return float(np.median(self.wall))

    def stats(self) -> dict[str, dict[str, float]]:
        """Return `stats` by clock: wall, and device if there is one."""
        clocks = {"wall": self.wall} | ({} if self.device is None else {"device": self.device})
        return {clock: stats(samples) for clock, samples in clocks.items()}

    def __str__(self) -> str:
        """Return a table of this latency."""
        return table([self])


def table(latencies: Sequence[Latency]) -> str:
    """Return a table with a row for each clock of each latency, in ms, and the counts below."""
    phases = any(one.per_iteration is not None for one in latencies)
    total = sum(sum(one.wall) for one in latencies if one.per_iteration is not None)
    rows: list[tuple[str, ...]] = [
        ("ms", "clock", *COLUMNS, *(("calls", "share") if phases else ()))
    ]
    for one in latencies:
        extra = _format_share(one, total) if phases else ()
        for clock, values in one.stats().items():
            rows.append((one.name, clock, *(f"{values[column]:.3f}" for column in COLUMNS), *extra))
    lines = [f"  {one.name}: {one.counts} per call" for one in latencies if one.counts is not None]
    return "\n".join([*table_lines(rows), *lines])


def _format_share(one: Latency, total: float) -> tuple[str, str]:
    """Return calls per iteration, and the share of the time of all phases, as text."""
    if one.per_iteration is None:
        return "", ""
    return f"{one.per_iteration:g}", f"{sum(one.wall) / total:.0%}" if total else ""


class Clock:
    """Times work on a device; `stop` waits for a GPU (a CPU is done when the call returns)."""

    def __init__(self, device: torch.device, now: Now = time.perf_counter) -> None:
        """Args: device: device to wait for; now: clock in seconds."""
        self.device, self.now, self.cuda = device, now, device.type == "cuda"

    def start(self) -> tuple[float, Any] | None:
        """Return the argument of `stop`.

        It is None while a CUDA graph is being captured, which must neither wait nor be timed.
        """
        if not self.cuda:
            return self.now(), None
        if torch.cuda.is_current_stream_capturing():
            return None
        torch.cuda.synchronize(self.device)
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return self.now(), event

    def stop(self, begun: tuple[float, Any]) -> tuple[float, float | None]:
        """Return the wall time and the time on the device's current stream since `start`, ms."""
        begin, event = begun
        if not self.cuda:
            return (self.now() - begin) * MS, None
        end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        end.record()
        torch.cuda.synchronize(self.device)
        return (self.now() - begin) * MS, float(event.elapsed_time(end))


def device_of(device: torch.device | str | None) -> torch.device:
    """Return a device; for None, the GPU if this process uses one, otherwise the CPU."""
    if device is None:
        used = torch.cuda.is_available()
        used = used and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        device = "cuda" if used else "cpu"
    return torch.device(device)


def no_marks(name: str) -> AbstractContextManager[Any]:
    """Return a range that marks nothing."""
    return contextlib.nullcontext()


class Samples(NamedTuple):
    """The times of a callable.

    Attributes:
        walls, devices: wall time and device time of each timed call, ms.
        last: the last call's result.
    """

    walls: list[float]
    devices: list[float]
    last: list[Any]


@dataclasses.dataclass(frozen=True)
class Timing:
    """The settings by which calls are timed.

    Attributes:
        iterations, warmup: numbers of timed calls, and of untimed calls before them.
        seed: seed of torch's generators before every call, so that each draws the same noise. Their
            state is restored afterwards.
        device: device to wait for; None: the GPU if this process uses one, otherwise the CPU.
        counts: whether to count launches, copies and synchronisations too, in further calls.
        now: the clock, in seconds.
        marks, window: for a recording tool (nsys.py): `iterations` further calls, each in a range,
            all in one window. They are not timed, since a clock would wait for the device.
    """

    iterations: int = 100
    warmup: int = 10
    seed: int = 0
    device: torch.device | str | None = None
    counts: bool = True
    now: Now = time.perf_counter
    marks: Marks = no_marks
    window: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext

    def check(self) -> None:
        """Raise ConfigError if there is nothing to time."""
        if self.iterations < 1 or self.warmup < 0:
            raise ConfigError(
                f"iterations is {self.iterations}, warmup {self.warmup}: must be at least 1 and 0"
            )


def latency(
    work: Work, timing: Timing | None = None, *, name: str = "call", **changes: Any
) -> Latency:
    """Time a callable.

    Args:
        work: called repeatedly without arguments.
        timing: settings; None: `Timing()`.
        name: name of the result.
        changes: fields of Timing to change.

    Raises:
        ConfigError: there are no iterations.
        Exception: whatever the work raises.
    """
    (only,) = latencies({name: work}, timing, **changes)
    return only


def latencies(
    works: Mapping[str, Work], timing: Timing | None = None, **changes: Any
) -> list[Latency]:
    """Time callables, alternating between them, so that other load affects all alike.

    Args and Raises: as `latency`.
    """
    timing = dataclasses.replace(timing or Timing(), **changes)
    timing.check()
    device = device_of(timing.device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        for work in works.values():
            for _ in range(timing.warmup):
                torch.manual_seed(timing.seed)
                work()
        samples = _alternate(works, timing, Clock(device, timing.now))
        if timing.marks is not no_marks:
            _record(works, timing)
        counts = {name: _count(work, device, timing) for name, work in works.items()}
    return [
        Latency(
            name, tuple(one.walls), tuple(one.devices) or None, counts[name], numbers(one.last[0])
        )
        for name, one in samples.items()
    ]


def _alternate(works: Mapping[str, Work], timing: Timing, clock: Clock) -> dict[str, Samples]:
    samples = {name: Samples([], [], [None]) for name in works}
    for _ in range(timing.iterations):
        for name, work in works.items():
            torch.manual_seed(timing.seed)
            begun = clock.start()
            assert begun is not None, "a graph is being captured"
            samples[name].last[0] = work()
            wall, between = clock.stop(begun)
            samples[name].walls.append(wall)
            samples[name].devices.extend([] if between is None else [between])
    return samples


def _record(works: Mapping[str, Work], timing: Timing) -> None:
    with timing.window():
        for _ in range(timing.iterations):
            for work in works.values():
                torch.manual_seed(timing.seed)
                with timing.marks(INFERENCE):
                    work()


def _count(work: Work, device: torch.device, timing: Timing) -> Counts | None:
    if not timing.counts:
        return None
    torch.manual_seed(timing.seed)
    return count(work, device)


def numbers(tree: Any) -> tuple[float, ...] | None:
    """Return the numbers in nested tensors, arrays and numbers, flat.

    The result is None if there are none, or more than MOST_ACTIONS.
    """
    parts = []
    for leaf in tree_leaves(tree):
        if isinstance(leaf, Tensor):
            leaf = leaf.detach().to("cpu", torch.float64).numpy()
        if isinstance(leaf, (np.ndarray, float, int)) and np.asarray(leaf).dtype.kind in "bfiu":
            parts.append(np.asarray(leaf, dtype=np.float64).ravel())
    flat = np.concatenate(parts) if parts else np.zeros(0)
    return tuple(flat.tolist()) if 0 < len(flat) <= MOST_ACTIONS else None


class Meter:
    """Times ranges, and methods of objects in use, which it replaces meanwhile.

        with Meter() as meter:
            meter.watch(policy, "encode")
            meter.watch(policy, "decode", "head")
            for _ in range(100):
                with meter.range("step"):
                    policy(observation)
        print(meter)

    A range's time excludes that of ranges within it. Iterations are the outermost ranges. On a GPU
    each range waits for the device at both ends, so that it contains only its own work; a rollout's
    halves then do not overlap. Code that is not watched costs nothing.
    """

    def __init__(
        self,
        device: torch.device | str | None = None,
        now: Now = time.perf_counter,
        marks: Marks = no_marks,
    ) -> None:
        """Args: as `Timing`."""
        self.clock, self.marks = Clock(device_of(device), now), marks
        self.iterations = 0  # Outermost ranges of the thread that made the meter.
        self._thread = threading.get_ident()
        self._walls: dict[str, list[float]] = {}
        self._devices: dict[str, list[float]] = {}
        self._open = threading.local()  # Per thread: times within the ranges that are open.
        self._undo = contextlib.ExitStack()

    def watch(self, owner: Any, method: str, name: str | None = None) -> None:
        """Time a callable attribute of an object until the meter is closed.

        Args:
            owner: the object.
            method: name of the attribute.
            name: name of the range; None: the attribute's name.

        Raises:
            ConfigError: the method does not exist.
        """
        original = getattr(owner, method, None)
        if not callable(original):
            raise ConfigError(f"{type(owner).__name__} has no method {method!r} to be timed")
        own = method in vars(owner)

        @functools.wraps(original)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.range(name or method):
                return original(*args, **kwargs)

        setattr(owner, method, timed)
        self._undo.callback(setattr, owner, method, original) if own else self._undo.callback(
            delattr, owner, method
        )

    @contextlib.contextmanager
    def range(self, name: str) -> Iterator[None]:
        """Time the block."""
        stack: list[list[float]] = self._open.__dict__.setdefault("stack", [])
        begun = self.clock.start()
        if begun is None:  # A graph is being captured.
            yield
            return
        stack.append([0.0, 0.0])
        try:
            with self.marks(name):
                yield
        finally:
            inner = stack.pop()
            wall, device = self.clock.stop(begun)
            for outer in stack[-1:]:
                outer[0], outer[1] = outer[0] + wall, outer[1] + (device or 0.0)
        self.iterations += not stack and threading.get_ident() == self._thread
        self._walls.setdefault(name, []).append(wall - inner[0])
        if device is not None:
            self._devices.setdefault(name, []).append(device - inner[1])

    def latencies(self) -> list[Latency]:
        """Return the times of all ranges, in the order in which they first ended."""
        return [
            Latency(
                name,
                tuple(walls),
                tuple(self._devices.get(name, ())) or None,
                per_iteration=len(walls) / self.iterations,
            )
            for name, walls in self._walls.items()
        ]

    def __str__(self) -> str:
        """Return a table of all ranges."""
        return table(self.latencies())

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the objects' methods."""
        self._undo.close()
