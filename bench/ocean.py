# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure what running an env of PufferLib here costs over a plain C loop of the same env.

    python bench/ocean.py
    python bench/ocean.py --steps-ns 100,1000 --num-envs 1024

The env (bench/ocean_env) is written for PufferLib 4.0. Its step takes about 20, 100 and 1,000 ns. A
program in C steps it in a loop that clears rewards and ends, as PufferLib's vectorizer does. Here
it is `ocean:bench/ocean_env`, stepped by `send` and `recv` in one process and in two workers. The
actions are drawn beforehand. The plain loop and the one process are measured in CPU time, so that
other programs disturb them less; two workers in seconds. A ratio compares with the plain loop of
the same repeat; the goal is at least 0.95 in one process from 100 ns on.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common
from bench.common import Figure
from bench.workloads import Workload, on_one_core
from puffervec.contract.env_types import compile_args

ENV = Path(__file__).resolve().parent / "ocean_env"
LENGTH = 1000  # Steps of an episode; the reset row after each is not counted.
GOAL, FROM_NS = 0.95, 100
PLAIN, SERIAL, TWO = "plain C loop", "one process", "two workers"
COLUMNS = ("step", "loop", "ns/env-step", "env-steps/s", "of plain", "goal", "met")


@dataclasses.dataclass(frozen=True)
class Result:
    """One line of the table.

    Attributes:
        step_ns: wanted time of a step in the plain loop.
        work: setting of the env for it.
        ratio: env-steps/s over those of the plain loop, repeat by repeat.
    """

    step_ns: float
    work: int
    loop: str
    ns_per_step: Figure
    env_steps_per_s: Figure
    ratio: Figure

    @property
    def goal(self) -> float | None:
        return GOAL if self.loop == SERIAL and self.step_ns >= FROM_NS else None


class Plain:
    """The program that steps the env in a plain loop."""

    def __init__(self, folder: Path, num_envs: int) -> None:
        self.program, self.num_envs = folder / "plain", num_envs
        command = [os.environ.get("CC", "cc"), *compile_args(), f"-I{ENV}", str(ENV / "plain.c")]
        subprocess.run([*command, "-o", str(self.program)], check=True)

    def seconds(self, turns: int, work: int) -> float:
        """Measure the seconds of CPU time per turn of all envs."""
        arguments = map(str, (self.num_envs, turns, work, LENGTH))
        with on_one_core():
            done = subprocess.run(
                [str(self.program), *arguments], check=True, capture_output=True, text=True
            )
        return float(done.stdout.split()[0])

    def work_for(self, step_ns: float) -> int:
        """Return the setting with which a step takes about `step_ns`."""
        turns = max(10, int(2e7 / (500 * self.num_envs)))
        none, much = (
            min(1e9 * self.seconds(turns, work) / self.num_envs for _ in range(3))
            for work in (0, 500)
        )
        return max(0, round(500 * (step_ns - none) / (much - none)))


def turns_here(
    workload: Workload, seconds: float, clock: Callable[[], float], backend: str, **settings: Any
) -> float:
    """Measure the seconds per turn of `send` and `recv` with actions that were drawn before."""
    with workload.make(backend, **settings) as vec:
        vec.recv()
        random = np.random.default_rng(0)
        table = [random.integers(0, 4, workload.num_envs).astype(np.int32) for _ in range(8)]
        spent, turns, until = 0.0, 0, clock() + 0.1 * seconds
        while spent < seconds:
            begin = clock()
            for actions in table:
                vec.send(actions)
                vec.recv()
            end = clock()
            if begin > until:
                spent += end - begin
                turns += len(table)
        return spent / turns


def loops(plain: Plain, work: int, options: argparse.Namespace) -> dict[str, Callable[[], float]]:
    """Return the loops, each of which measures the seconds per turn."""
    workload = Workload(
        "ocean", f"ocean:{ENV}", {"work": work, "length": LENGTH}, options.num_envs, LENGTH + 1
    )
    turn = plain.seconds(20, work)
    turns = max(20, int(options.seconds / turn))

    def serial() -> float:
        with on_one_core():
            return turns_here(workload, options.seconds, time.thread_time, "serial")

    return {
        PLAIN: lambda: plain.seconds(turns, work),
        SERIAL: serial,
        TWO: lambda: turns_here(
            workload, options.seconds, time.perf_counter, "multiprocessing", num_workers=2
        ),
    }


def results_of(
    step_ns: float, work: int, samples: dict[str, list[float]], num_envs: int
) -> list[Result]:
    """Return a result per loop.

    Args:
        samples: seconds per turn by loop, one per repeat.
    """
    # Here a turn in LENGTH + 1 is the reset row, which is no step.
    steps = {loop: num_envs * (1.0 if loop == PLAIN else LENGTH / (LENGTH + 1)) for loop in samples}
    rates = {loop: [steps[loop] / turn for turn in turns] for loop, turns in samples.items()}
    return [
        Result(
            step_ns,
            work,
            loop,
            common.figure(1e9 / rate for rate in rates[loop]),
            common.figure(rates[loop]),
            common.ratio(rates[loop], rates[PLAIN]),
        )
        for loop in samples
    ]


def show(results: Sequence[Result], num_envs: int) -> None:
    """Print the table of results."""
    cells = [
        (
            f"{r.step_ns:g} ns",
            r.loop,
            str(r.ns_per_step),
            str(r.env_steps_per_s),
            f"{r.ratio.median:.3f} ±{100 * r.ratio.spread:.0f}%",
            "-" if r.goal is None else f"{r.goal:g}",
            "-" if r.goal is None else "yes" if r.ratio.median >= r.goal else "NO",
        )
        for r in results
    ]
    common.print_table(f"An env of PufferLib 4.0, {num_envs} envs", COLUMNS, cells)


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    flags = common.parser(__doc__)
    flags.add_argument(
        "--steps-ns",
        type=lambda text: [float(part) for part in text.split(",")],
        default=[20, 100, 1000],
        help="steps, in ns (default: 20,100,1000)",
    )
    flags.add_argument("--num-envs", type=int, default=2048)
    common.add_flags(flags, "ocean", 1.0)
    options = flags.parse_args(arguments)
    facts, progress = common.machine(), common.Progress()
    results: list[Result] = []
    foreign = 0.0
    with tempfile.TemporaryDirectory() as folder:
        plain = Plain(Path(folder), options.num_envs)
        for step_ns in options.steps_ns:
            work = plain.work_for(step_ns)
            variants = loops(plain, work, options)
            runs = common.interleave(variants, options.repeats, progress, options.attempts)
            results += results_of(step_ns, work, runs.results, options.num_envs)
            foreign = max(foreign, runs.foreign)
    show(results, options.num_envs)
    rows = [{**dataclasses.asdict(result), "goal": result.goal} for result in results]
    common.finish("ocean", options, facts, foreign, rows)


if __name__ == "__main__":
    sys.exit(main())
