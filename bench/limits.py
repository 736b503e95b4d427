# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure more workers than cores: 1, 2, 4 and 8 workers on one core, and 2, 4 and 8 on two.

    python bench/limits.py                        drive and tag_grid
    python bench/limits.py --envs drive --repeats 9

There is no policy. Each speed is compared with that of two workers on the same cores, within one
repeat. The target is at least 85 % with four workers on one core (as under `taskset -c 0`) and with
eight on two. The last column is the CPU share of the busiest worker while idle.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common
from bench.common import Figure
from bench.latency import idle_percent
from bench.workloads import Workload, draw_actions, half_actions, preset
from puffervec.system.cores import affinity
from puffervec.vec.vector_env import VectorEnv

TARGET, IDLE_TARGET = 0.85, 2.0
REFERENCE = 2  # Workers of the reference.
IDLE_S = 0.5
WARM_UP = 0.25  # Share of a sample's length.
ENVS = {"drive": 8, "tag_grid": 4096}  # Numbers of envs by name.


@dataclass(frozen=True)
class Crowd:
    """A number of workers on a number of cores."""

    env: str
    cores: int
    workers: int

    @property
    def target(self) -> float | None:
        """Lowest share of the reference's speed that meets the target, None if there is none."""
        return TARGET if self.workers > max(REFERENCE, self.cores) else None


@dataclass(frozen=True)
class Sample:
    """The result of one start.

    It has rows per second, and the busiest worker's CPU share while idle, in percent of a core.
    """

    rows_per_s: float
    idle_percent: float


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        share: ratio to the speed of two workers on the same cores.
        met: whether share and idle meet their targets.
    """

    env: str
    cores: int
    workers: int
    rows_per_s: Figure
    share: Figure
    idle_percent: Figure
    target: float | None
    met: bool | None


@contextlib.contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Pin this process and its children to its first `count` cores, as taskset would."""
    before = affinity()
    os.sched_setaffinity(0, set(before[:count]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, set(before))


def rows_per_s(vec: VectorEnv, batches: Sequence[Any], seconds: float) -> float:
    """Step for about `seconds`; return the rows of all agents per second."""
    send, recv, clock = vec.send, vec.recv, time.perf_counter
    turns, begin = 0, clock()
    while (now := clock()) - begin < seconds or not turns:
        send(batches[turns % len(batches)])
        recv()
        turns += 1
    return turns * vec.num_agents / (now - begin)


def sample(crowd: Crowd, workload: Workload, seconds: float) -> Sample:
    """Start new workers and measure them."""
    with on_cores(crowd.cores), workload.make("multiprocessing", num_workers=crowd.workers) as vec:
        batches = half_actions(vec, draw_actions(vec.spec, workload.num_envs))[0]
        vec.recv()
        rows_per_s(vec, batches, WARM_UP * seconds)
        return Sample(rows_per_s(vec, batches, seconds), idle_percent(vec, min(IDLE_S, seconds)))


def crowds(envs: Sequence[str]) -> list[Crowd]:
    """Return all crowds: up to eight workers on one core, and on two if there are two."""
    result = [Crowd(env, 1, workers) for env in envs for workers in (1, 2, 4, 8)]
    if len(affinity()) > 1:
        result += [Crowd(env, 2, workers) for env in envs for workers in (2, 4, 8)]
    return result


def run(
    envs: Sequence[str], options: argparse.Namespace, progress: common.Progress
) -> tuple[list[Row], float]:
    """Measure all crowds in turns; return the table and the share of foreign load."""
    workloads = {env: preset(env, ENVS[env]) for env in envs}
    all_crowds = crowds(envs)

    def variant(crowd: Crowd) -> Any:
        return lambda: sample(crowd, workloads[crowd.env], options.seconds)

    by_name = {
        f"{crowd.env}, {crowd.workers} workers on {crowd.cores} core(s)": crowd
        for crowd in all_crowds
    }
    runs = common.interleave(
        {n: variant(c) for n, c in by_name.items()}, options.repeats, progress, options.attempts
    )
    samples: dict[Crowd, list[Sample]] = {
        crowd: runs.results[name] for name, crowd in by_name.items()
    }
    return [row(crowd, samples) for crowd in all_crowds], runs.foreign


def row(crowd: Crowd, samples: dict[Crowd, list[Sample]]) -> Row:
    """Return the line of a crowd."""
    speeds = {c: [one.rows_per_s for one in runs] for c, runs in samples.items()}
    share = common.ratio(speeds[crowd], speeds[Crowd(crowd.env, crowd.cores, REFERENCE)])
    idle = common.figure(one.idle_percent for one in samples[crowd])
    met = (
        None if crowd.target is None else share.median >= crowd.target and idle.median < IDLE_TARGET
    )
    return Row(
        *asdict(crowd).values(), common.figure(speeds[crowd]), share, idle, crowd.target, met
    )


def show(rows: Sequence[Row]) -> None:
    """Print the table of results."""
    word = {True: "yes", False: "NO", None: "-"}
    lines = [
        (
            row.env,
            f"{row.workers} on {row.cores}",
            f"{row.rows_per_s}",
            f"{100 * row.share.median:.0f}% ±{100 * row.share.spread:.0f}",
            "-" if row.target is None else f">= {100 * row.target:.0f}%",
            f"{row.idle_percent.median:.2f}%",
            word[row.met],
        )
        for row in rows
    ]
    columns = (
        "env",
        "workers on cores",
        "rows/s",
        "of two workers",
        "target",
        "idle worker",
        "met",
    )
    common.print_table(
        "more workers than cores: median ± half the distance of the quartiles", columns, lines
    )


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    flags = common.parser(__doc__)
    flags.add_argument(
        "--envs",
        default=",".join(ENVS),
        help="envs, from drive and tag_grid (default: %(default)s)",
    )
    common.add_flags(flags, "limits", 1.0)
    options = flags.parse_args(arguments)
    envs = common.names("--envs", options.envs, ENVS)
    facts, progress = common.machine(), common.Progress()
    rows, foreign = run(envs, options, progress)
    show(rows)
    common.finish("limits", options, facts, foreign, [asdict(row) for row in rows])


if __name__ == "__main__":
    sys.exit(main())
