# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure steps/s next to other programs on the same cores.

Two workers, one worker, serial and Gymnasium's own vector env are compared.

    python bench/foreign_process.py                                  one and two busy processes
    python bench/foreign_process.py --neighbours "1 nice 19,bursts"  see NEIGHBOURS
    python bench/foreign_process.py --envs drive --seconds 2
    python bench/foreign_process.py --envs training --seconds 8    trainings: agent-steps/s

"kept" is the rate next to the other programs / the rate without them, "of serial" is the rate / the
rate of the serial backend next to them, both within one repeat. The targets for two workers on two
cores are 0.45 of the quiet rate next to one process that never sleeps, 0.3 next to two, and never
less than serial.

A neighbour is started in this process's own session, as from a shell script, or in a separate one:
with the scheduler's autogroups (the default on desktops and many servers), all processes of a
session together get as much time as one process of another session.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common, runs
from bench.common import Figure
from bench.workloads import Workload, draw_actions, half_actions, preset

BUSY = "while True: pass"
BURSTS = """
import time
while True:
    end = time.monotonic() + 0.5
    while time.monotonic() < end: pass
    time.sleep(0.5)
"""
SETTLE_S = 0.5  # Time until neighbours run, and the vector env has noticed them.
CHUNK = 8  # Turns between two readings of the clock.


@dataclass(frozen=True)
class Neighbours:
    """Other programs that run on the machine during a measurement.

    Attributes:
        words: command that starts each of them.
        code: Python code that each runs.
    """

    count: int
    words: tuple[str, ...] = ()
    code: str = BUSY
    own_session: bool = False
    target: float | None = None

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run the programs within the block."""
        command = [*self.words, sys.executable, "-c", self.code]
        running = [
            subprocess.Popen(command, start_new_session=self.own_session) for _ in range(self.count)
        ]
        try:
            time.sleep(SETTLE_S if running else 0)
            yield
        finally:
            for process in running:
                process.kill()
                process.wait()


QUIET = "none"
NEIGHBOURS = {
    QUIET: Neighbours(0),
    "1": Neighbours(1, target=0.45),
    "2": Neighbours(2, target=0.3),
    "1 in its session": Neighbours(1, own_session=True, target=0.45),
    "2 in theirs": Neighbours(2, own_session=True, target=0.3),
    "1 nice 19": Neighbours(1, ("nice", "-n", "19")),
    "1 nice -5": Neighbours(1, ("nice", "-n", "-5")),  # Needs the permission.
    "1 batch": Neighbours(1, ("chrt", "--batch", "0")),
    "bursts": Neighbours(1, code=BURSTS),
}
ENVS = {
    "tag_grid": preset("tag_grid", 1024),
    "tag_grid-64": Workload(
        "tag_grid-64", "tag_grid", {"num_taggers": 4, "grid_length": 100}, num_envs=64
    ),
    "CartPole-v1": Workload("CartPole-v1", "CartPole-v1", {}, num_envs=64),
    "drive": preset("drive", 8),
}


TRAINING = "training"  # Stands for all of these, in place of an env.
TRAININGS = {
    f"{TRAINING} {target}": runs.Run(target, {}) for target in ("cartpole", "tag_grid", "drive")
}


@dataclass(frozen=True)
class Way:
    """A way of stepping envs.

    Attributes:
        workers: None: serial; 0: Gymnasium's own vector env with worker processes.
    """

    name: str
    workers: int | None


SERIAL = "serial"
WAYS = (Way("two workers", 2), Way("one worker", 1), Way(SERIAL, None))
GYMNASIUM = Way("Gymnasium's async, 8 envs", 0)
TRAINER = Way("the trainer", None)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    env: str
    way: str
    neighbours: str
    env_steps_per_s: Figure
    kept: Figure | None
    of_serial: Figure | None
    target: float | None
    met: bool | None


def turns_per_s(turn: Callable[[], Any], seconds: float) -> float:
    """Call `turn` for a warm-up, then for `seconds`; return the calls per second of the latter."""
    clock = time.perf_counter
    for length in (max(SETTLE_S, seconds / 4), seconds):
        turns, begin = 0, clock()
        while (now := clock()) - begin < length:
            for _ in range(CHUNK):
                turn()
            turns += CHUNK
    return turns / (now - begin)


def ours(workload: Workload, workers: int | None, seconds: float) -> float:
    """Measure the env-steps per second of our vector env."""
    settings: dict[str, Any] = {} if workers is None else {"num_workers": workers}
    with workload.make("serial" if workers is None else "multiprocessing", **settings) as vec:
        batches = half_actions(vec, draw_actions(vec.spec, workload.num_envs))[0]
        vec.recv()
        turn = iter(range(sys.maxsize))

        def step() -> None:
            vec.send(batches[next(turn) % len(batches)])
            vec.recv()

        return turns_per_s(step, seconds) * workload.num_envs


def gymnasiums(env: str, seconds: float) -> float:
    """Measure the env-steps per second of eight envs in Gymnasium's vector env, a process each."""
    import gymnasium

    vec = gymnasium.make_vec(env, num_envs=8, vectorization_mode="async")
    try:
        vec.reset(seed=0)
        actions = np.zeros(8, np.int64)
        return turns_per_s(lambda: vec.step(actions), seconds) * 8
    finally:
        vec.close()


def sample(env: str, way: Way, neighbours: Neighbours, seconds: float) -> float:
    """Start the neighbours, then the workers, and return env-steps per second.

    For a training, return agent-steps per second.
    """
    with neighbours.running():
        if way is TRAINER:
            result = runs.train(runs.config_of(TRAININGS[env], "cpu"), seconds)
            return float(result["agent_steps_per_s"])
        return (
            gymnasiums(env, seconds) if way.workers == 0 else ours(ENVS[env], way.workers, seconds)
        )


def run(options: argparse.Namespace, progress: common.Progress) -> tuple[list[Row], float]:
    """Measure all cases in turns; return the table and the share of foreign load."""
    places = [QUIET, *options.neighbours]
    cases = [(env, way, place) for env in options.envs for way in ways_of(env) for place in places]
    variants: dict[str, Callable[[], Any]] = {
        f"{env}, {way.name}, {place}": partial(sample, env, way, NEIGHBOURS[place], options.seconds)
        for env, way, place in cases
    }
    samples = common.interleave(variants, options.repeats, progress, options.attempts)
    return [row(env, way, place, samples.results) for env, way, place in cases], samples.foreign


def ways_of(env: str) -> tuple[Way, ...]:
    """Return the ways of stepping an env."""
    if env in TRAININGS:
        return (TRAINER,)
    return (*WAYS, *([GYMNASIUM] if ENVS[env].env == "CartPole-v1" else []))


def row(env: str, way: Way, place: str, results: dict[str, list[float]]) -> Row:
    """Return the line of one case."""
    rates = results[f"{env}, {way.name}, {place}"]
    kept = None if place == QUIET else common.ratio(rates, results[f"{env}, {way.name}, {QUIET}"])
    serial = None
    if way.name != SERIAL and way is not TRAINER:
        serial = common.ratio(rates, results[f"{env}, {SERIAL}, {place}"])
    target = NEIGHBOURS[place].target if way.workers == 2 else None
    met = None if target is None or kept is None else kept.median >= target
    return Row(env, way.name, place, common.figure(rates), kept, serial, target, met)


def show(rows: Sequence[Row]) -> None:
    """Print the table of results."""
    word = {True: "yes", False: "NO", None: "-"}

    def share(figure: Figure | None) -> str:
        return (
            "-" if figure is None else f"{figure.median:.2f} ±{figure.spread * figure.median:.2f}"
        )

    lines = [
        (
            row.env,
            row.way,
            row.neighbours,
            f"{row.env_steps_per_s}",
            share(row.kept),
            share(row.of_serial),
            "-" if row.target is None else f">= {row.target:g}",
            word[row.met],
        )
        for row in rows
    ]
    columns = ("env", "way", "neighbours", "env-steps/s", "kept", "of serial", "target", "met")
    common.print_table(
        "beside other programs: median ± half the distance of the quartiles", columns, lines
    )


def markdown(results: Sequence[dict[str, Any]]) -> str:
    """Return the table of docs/why-not-faster.md. Args: results: the results of a JSON file."""
    rows = []
    for one in results:
        if one["kept"] and one["way"] in (WAYS[0].name, GYMNASIUM.name, TRAINER.name):
            name = f"{one['env']}, {GYMNASIUM.name}" if one["way"] == GYMNASIUM.name else one["env"]
            rate, kept = str(Figure(**one["env_steps_per_s"])), str(Figure(**one["kept"]))
            over = str(Figure(**one["of_serial"])) if one["of_serial"] else "-"
            rows.append((name, one["neighbours"], rate, kept, over))
    columns = ("two workers", "beside", ">steps/s", ">of the quiet rate", ">of serial beside it")
    return common.markdown(columns, rows)


def _names(text: str, known: Sequence[str]) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is unknown: use {', '.join(known)}")
    return names


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    flags = common.parser(__doc__)
    others = [name for name in NEIGHBOURS if name != QUIET]
    known = [*ENVS, *TRAININGS, TRAINING]
    envs = ", ".join(known)
    flags.add_argument("--envs", type=lambda text: _names(text, known), default=[*ENVS], help=envs)
    flags.add_argument(
        "--neighbours",
        type=lambda text: _names(text, others),
        default=others[:4],
        help=", ".join(others),
    )
    common.add_flags(flags, "foreign-process", 1.0)
    options = flags.parse_args(arguments)
    if TRAINING in options.envs:
        options.envs = [*(env for env in options.envs if env != TRAINING), *TRAININGS]
    facts, progress = common.machine(), common.Progress()
    facts["autogroup"] = _autogroup()
    rows, foreign = run(options, progress)
    show(rows)
    common.finish("foreign-process", options, facts, foreign, [asdict(row) for row in rows])


def _autogroup() -> bool:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/sched_autogroup_enabled").read_text().strip() == "1"
    return False


if __name__ == "__main__":
    sys.exit(main())
