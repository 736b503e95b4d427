# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure the cost of the channel: round trips, the first step after a pause, and idle workers.

    python bench/latency.py

A round trip is send + recv from Python. The env is `probe`, which does nothing, with one agent per
worker, so nearly all of the time is the library's. The targets are for two cores without a GPU.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common
from bench.common import Figure
from bench.policies import Replay
from bench.workloads import Workload, draw_actions
from puffervec.vec.vector_env import VectorEnv

TRIPS_PER_SECOND = 50_000  # An estimate for planning.
SETTLE_S = 0.25  # Within this time a worker reaches the last rung of its wait ladder.
KWARGS = {"episode_length": 100}


@dataclass(frozen=True)
class Cost:
    """One line of the table.

    Attributes:
        target: upper limit in `unit`, or None.
    """

    name: str
    unit: str
    figure: Figure
    target: float | None

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.figure.median < self.target


def _open(workers: int, backend: str = "multiprocessing") -> tuple[VectorEnv, Replay]:
    workload = Workload("probe", "probe", KWARGS, num_envs=workers)
    settings: dict[str, Any] = {} if backend == "serial" else {"num_workers": workers}
    vec = workload.make(backend, **settings)
    vec.recv()
    return vec, Replay(vec, draw_actions(vec.spec, workers))


def _trips(vec: VectorEnv, replay: Replay, count: int) -> np.ndarray:
    """Return (count,) int64 ns of single round trips."""
    clock, send, recv = time.perf_counter_ns, vec.send, vec.recv
    times = np.empty(count, np.int64)
    rows: tuple[Any, ...] = ()
    for index in range(count):
        actions = replay(0, rows)
        begin = clock()
        send(actions)
        recv()
        times[index] = clock() - begin
    return times


def round_trip(workers: int, seconds: float, backend: str = "multiprocessing") -> dict[str, float]:
    """Start workers; return the median and 99th percentile of a round trip in us."""
    count = max(20, int(seconds * TRIPS_PER_SECOND))
    vec, replay = _open(workers, backend)
    with vec:
        _trips(vec, replay, count // 4)
        times = _trips(vec, replay, count)
    return {"median": float(np.median(times)) / 1e3, "p99": float(np.percentile(times, 99)) / 1e3}


def after_pause(workers: int, pause_s: float, pauses: int) -> float:
    """Start workers; return the median us of the first round trip after each pause."""
    vec, replay = _open(workers)
    with vec:
        _trips(vec, replay, 100)
        firsts = []
        for _ in range(pauses):
            time.sleep(pause_s)
            firsts.append(_trips(vec, replay, 1)[0])
            _trips(vec, replay, 20)
    return float(np.median(firsts)) / 1e3


def cpu_time_ns(pid: int) -> int:
    """Return the CPU time of a process so far, all threads together.

    Source: Linux, Documentation/scheduler/sched-stats.rst (/proc/<pid>/schedstat: ns on the CPU).
    Kernels without it: psutil, which counts in ticks of 10 ms.
    """
    try:
        return sum(
            int((task / "schedstat").read_text().split()[0])
            for task in Path(f"/proc/{pid}/task").iterdir()
        )
    except (OSError, ValueError, IndexError):
        import psutil

        times = psutil.Process(pid).cpu_times()
        return int((times.user + times.system) * 1e9)


def idle_percent(vec: Any, seconds: float) -> float:
    """Measure the CPU share of the busiest worker while nothing is sent."""
    pids = [process.pid for process in vec.processes]
    time.sleep(SETTLE_S)  # Within this time a worker reaches the last rung of its wait ladder.
    before, begin = [cpu_time_ns(pid) for pid in pids], time.monotonic_ns()
    time.sleep(seconds)
    after, end = [cpu_time_ns(pid) for pid in pids], time.monotonic_ns()
    return max(100 * (b - a) / (end - begin) for a, b in zip(before, after, strict=True))


def idle_share(workers: int, seconds: float) -> float:
    """Start workers, step, leave them idle; return the CPU share of the busiest one in percent."""
    vec, replay = _open(workers)
    with vec:
        _trips(vec, replay, 100)
        return idle_percent(vec, seconds)


def run(options: argparse.Namespace, progress: Callable[[str], None]) -> tuple[list[Cost], float]:
    """Measure all costs in turns; return the table and the share of foreign load."""
    seconds = options.seconds
    variants: dict[str, Callable[[], Any]] = {
        "serial": lambda: round_trip(1, seconds, "serial"),
        "threading 1": lambda: round_trip(1, seconds, "threading"),
        "1": lambda: round_trip(1, seconds),
        "2": lambda: round_trip(2, seconds),
        "4": lambda: round_trip(4, seconds),
        "pause": lambda: after_pause(2, options.pause_s, options.pauses),
        "idle": lambda: idle_share(2, options.idle_s),
    }
    runs = common.interleave(variants, options.repeats, progress, options.attempts)
    samples = runs.results

    def trips(key: str, which: str) -> Figure:
        return common.figure(sample[which] for sample in samples[key])

    costs = [
        Cost("serial (no worker)", "us", trips("serial", "median"), None),
        Cost("one thread", "us", trips("threading 1", "median"), None),
        Cost("one worker", "us", trips("1", "median"), 3.0),
        Cost("one worker, 99th percentile", "us", trips("1", "p99"), None),
        Cost("two workers", "us", trips("2", "median"), 15.0),
        Cost("two workers, 99th percentile", "us", trips("2", "p99"), None),
        Cost("four workers", "us", trips("4", "median"), None),
        Cost(
            f"first step after {options.pause_s:g} s, two workers",
            "us",
            common.figure(samples["pause"]),
            300.0,
        ),
        Cost("idle worker, share of a core", "%", common.figure(samples["idle"]), 2.0),
    ]
    return costs, runs.foreign


def show(costs: Sequence[Cost]) -> None:
    """Print the table of results."""
    word = {True: "yes", False: "NO", None: "-"}
    rows = [
        (
            cost.name,
            f"{cost.figure} {cost.unit}",
            "-" if cost.target is None else f"< {cost.target:g} {cost.unit}",
            word[cost.met],
        )
        for cost in costs
    ]
    notes = [
        f"send + recv from Python with an env that does nothing; {os.cpu_count()} cores; targets "
        "are for two"
    ]
    common.print_table(
        "round trips: median ± half the distance of the quartiles",
        ("what", "measured", "target", "met"),
        rows,
        notes,
    )


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    flags = common.parser(__doc__)
    flags.add_argument("--pause-s", type=float, default=2.0, help="pause before a first step")
    flags.add_argument("--pauses", type=int, default=3, help="pauses per sample")
    flags.add_argument(
        "--idle-s", type=float, default=1.0, help="time for which an idle worker is measured"
    )
    common.add_flags(flags, "latency", 0.5)
    options = flags.parse_args(arguments)
    facts, progress = common.machine(), common.Progress()
    costs, foreign = run(options, progress)
    show(costs)
    results = [{**asdict(cost), "met": cost.met} for cost in costs]
    common.finish("latency", options, facts, foreign, results)


if __name__ == "__main__":
    sys.exit(main())
