# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""How long something takes: wall time until the device has finished, and the time between two
events on the device beside it.

latency(work)                      one call again and again, from the same seed each time
Meter().watch(owner, "method")     methods of objects at work, as they are called: the phases of a loop
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
MOST_ACTIONS = 100_000  # numbers that a report keeps to be compared
INFERENCE, ITERATION = (
    "inference",
    "iteration",
)  # the ranges round each call, and each turn of a loop

Now = Callable[[], float]
Marks = Callable[[str], AbstractContextManager[Any]]
Work = Callable[[], Any]


def stats(samples: Sequence[float]) -> dict[str, float]:
    """Return mean, quantiles (linear between samples), lowest and highest, by the names of COLUMNS."""
    x = np.asarray(samples, dtype=float)
    quantiles = {name: float(np.percentile(x, q)) for name, q in _QUANTILES.items()}
    return {"mean": float(x.mean()), **quantiles, "min": float(x.min()), "max": float(x.max())}


@dataclasses.dataclass(frozen=True)
class Latency:
    """Times of one thing, in milliseconds.

    Attributes:
        wall: (calls,) from the call until it has returned and the device has done what it was asked
        for.
        device: (calls,) between an event before and one after, on the device; None on a CPU, which
        has none.
        counts: of one call; None where they were not asked for.
        actions: (numbers,) what the last call returned, flat; None where it returned no numbers, or
        more than MOST_ACTIONS.
        per_iteration: of a phase: calls per iteration of the loop; None for a call.
    """

    name: str
    wall: tuple[float, ...]
    device: tuple[float, ...] | None = None
    counts: Counts | None = None
    actions: tuple[float, ...] | None = None
    per_iteration: float | None = None

    @property
    def median(self) -> float:
        """Of the wall time, ms."""
        return float(np.median(self.wall))

    def stats(self) -> dict[str, dict[str, float]]:
        """Return `stats` by clock: wall, and on a device also device."""
        clocks = {"wall": self.wall} | ({} if self.device is None else {"device": self.device})
        return {clock: stats(samples) for clock, samples in clocks.items()}

    def __str__(self) -> str:
        """The table of this one."""
        return table([self])


def table(latencies: Sequence[Latency]) -> str:
    """Return a table: a row for each clock of each, in ms; below it the counts."""
    phases = any(one.per_iteration is not None for one in latencies)
    total = sum(sum(one.wall) for one in latencies if one.per_iteration is not None)
    rows: list[tuple[str, ...]] = [
        ("ms", "clock", *COLUMNS, *(("calls", "share") if phases else ()))
    ]
    for one in latencies:
        extra = _of_iteration(one, total) if phases else ()
        for clock, found in one.stats().items():
            rows.append((one.name, clock, *(f"{found[column]:.3f}" for column in COLUMNS), *extra))
    counted = [
        f"  {one.name}: {one.counts} per call" for one in latencies if one.counts is not None
    ]
    return "\n".join([*table_lines(rows), *counted])


def _of_iteration(one: Latency, total: float) -> tuple[str, str]:
    """Calls per iteration, and the share of the time of all phases."""
    if one.per_iteration is None:
        return "", ""
    return f"{one.per_iteration:g}", f"{sum(one.wall) / total:.0%}" if total else ""


class Clock:
    """Times a stretch of work on a device. A CPU has done its work when the call returns; for a GPU
    `stop` waits.
    """

    def __init__(self, device: torch.device, now: Now = time.perf_counter) -> None:
        """Args: device: whose work is waited for; now: seconds."""
        self.device, self.now, self.cuda = device, now, device.type == "cuda"

    def start(self) -> tuple[float, Any] | None:
        """Return what `stop` needs; None while a CUDA graph is being captured, which must neither
        wait nor be timed.
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
        """Return the wall time and the time on the current stream of the device since `start`, ms."""
        begin, event = begun
        if not self.cuda:
            return (self.now() - begin) * MS, None
        end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        end.record()
        torch.cuda.synchronize(self.device)
        return (self.now() - begin) * MS, float(event.elapsed_time(end))


def device_of(device: torch.device | str | None) -> torch.device:
    """Return a device; None: the GPU where this process uses one, else the CPU."""
    if device is None:
        used = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        device = "cuda" if used else "cpu"
    return torch.device(device)


def no_marks(name: str) -> AbstractContextManager[Any]:
    """The range of nobody."""
    return contextlib.nullcontext()


class Timed(NamedTuple):
    """What a callable took: wall time and time on the device of each call that counts, ms, and what
    the last one returned.
    """

    walls: list[float]
    devices: list[float]
    last: list[Any]


@dataclasses.dataclass(frozen=True)
class Timing:
    """How calls are timed.

    Attributes:
        iterations, warmup: calls that count, and calls before them that do not.
        seed: torch's generators begin with it before every call, so that each draws the same noise.
            The state that they had is set back afterwards.
        device: whose work is waited for; None: the GPU where this process uses one, else the CPU.
        counts: count launches, copies and synchronisations too, in further calls.
        now: the clock, in seconds.
        marks, window: for a tool that records (nsys.py): as many further calls, each in a range,
            all in a window. They are not timed, since a clock would wait for the device.
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
        """Raise ConfigError where there is nothing to time."""
        if self.iterations < 1 or self.warmup < 0:
            raise ConfigError(
                f"iterations is {self.iterations}, warmup {self.warmup}: must be at least 1 and 0"
            )


def latency(
    work: Work, timing: Timing | None = None, *, name: str = "call", **changes: Any
) -> Latency:
    """Time a callable.

    Args: work: called without arguments, again and again; timing: None is `Timing()`; changes:
    fields of Timing to change.
    Raises: ConfigError: no iterations; and what the work raises.
    """
    (found,) = latencies({name: work}, timing, **changes)
    return found


def latencies(
    works: Mapping[str, Work], timing: Timing | None = None, **changes: Any
) -> list[Latency]:
    """Time callables in turn, so that what else the machine does meets all alike. Args, Raises: as
    of `latency`.
    """
    timing = dataclasses.replace(timing or Timing(), **changes)
    timing.check()
    device = device_of(timing.device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        for work in works.values():
            for _ in range(timing.warmup):
                torch.manual_seed(timing.seed)
                work()
        timed = _in_turn(works, timing, Clock(device, timing.now))
        if timing.marks is not no_marks:
            _record(works, timing)
        counted = {name: _counted(work, device, timing) for name, work in works.items()}
    return [
        Latency(
            name, tuple(one.walls), tuple(one.devices) or None, counted[name], numbers(one.last[0])
        )
        for name, one in timed.items()
    ]


def _in_turn(works: Mapping[str, Work], timing: Timing, clock: Clock) -> dict[str, Timed]:
    timed = {name: Timed([], [], [None]) for name in works}
    for _ in range(timing.iterations):
        for name, work in works.items():
            torch.manual_seed(timing.seed)
            begun = clock.start()
            assert begun is not None, "a graph is being captured"
            timed[name].last[0] = work()
            wall, between = clock.stop(begun)
            timed[name].walls.append(wall)
            timed[name].devices.extend([] if between is None else [between])
    return timed


def _record(works: Mapping[str, Work], timing: Timing) -> None:
    with timing.window():
        for _ in range(timing.iterations):
            for work in works.values():
                torch.manual_seed(timing.seed)
                with timing.marks(INFERENCE):
                    work()


def _counted(work: Work, device: torch.device, timing: Timing) -> Counts | None:
    if not timing.counts:
        return None
    torch.manual_seed(timing.seed)
    return count(work, device)


def numbers(tree: Any) -> tuple[float, ...] | None:
    """Return the numbers in nested tensors, arrays and numbers, flat; None where there are none, or
    more than MOST_ACTIONS.
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
    """Times ranges, and methods of objects at work, which it replaces meanwhile: code that is not
        watched pays nothing.

        with Meter() as meter:
            meter.watch(policy, "encode")
            meter.watch(policy, "decode", "head")
            for _ in range(100):
                with meter.range("step"):
                    policy(observation)
        print(meter)

    Times are a range's own: those of ranges within it are left out. Iterations are the outermost
    ranges. On a GPU each range waits for the device at both ends, so that its work is its own;
    halves do not overlap then.
    """

    def __init__(
        self,
        device: torch.device | str | None = None,
        now: Now = time.perf_counter,
        marks: Marks = no_marks,
    ) -> None:
        """Args: as of `Timing`."""
        self.clock, self.marks = Clock(device_of(device), now), marks
        self.iterations = 0  # outermost ranges of the thread that made this
        self._thread = threading.get_ident()
        self._walls: dict[str, list[float]] = {}
        self._devices: dict[str, list[float]] = {}
        self._open = threading.local()  # per thread: what the ranges that are open have within them
        self._undo = contextlib.ExitStack()

    def watch(self, owner: Any, method: str, name: str | None = None) -> None:
        """Time a callable attribute of an object until the meter is closed.

        Args: name: of the range; None: the attribute's.
        Raises: ConfigError where there is no such method.
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
        if begun is None:  # a graph is being captured
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
        """The table of all ranges."""
        return table(self.latencies())

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *error: object) -> None:
        """Give the objects their methods back."""
        self._undo.close()
