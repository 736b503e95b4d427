# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Kill the hosts of a run over Ray at random moments, then the learner; no update may be lost.

    python scripts/host_deaths.py              50 deaths of one of two hosts, then the learner's
    PV_SEED=7 python scripts/host_deaths.py    the same hosts at the same moments

A host is killed by SIGKILL, at most some seconds after the previous death: while it collects, sends
or restarts, or just after its start. The log must contain every update from the first to the last,
in order. After the learner's death no process of Ray may be left, and `--resume` must continue from
the newest checkpoint. Exit status: 0, or 1 with a message that names the fault.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common
from puffervec.train import read_metrics

PATIENCE_S = 180.0
LONGEST_WAIT_S = 10.0  # Longest time between two deaths; a host takes some seconds to restart.
FLAGS = (
    "--total-timesteps 1000000000 --train.final-eval false --train.threads 1 --device cpu "
    "--log.dashboard plain --log.checkpoint-interval-s 5 --run-name deaths --vec.num-envs 16"
).split()


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """Wait until the condition returns a true value, and return it.

    Raises:
        SystemExit: it takes too long.
    """
    give_up = time.monotonic() + PATIENCE_S
    while not (result := condition()):
        if time.monotonic() > give_up:
            raise SystemExit(f"after {PATIENCE_S:g} s still not: {what}")
        time.sleep(0.05)
    return result


def hosts_of(learner: psutil.Process) -> list[psutil.Process]:
    """Return the processes of the hosts."""
    processes = []
    for process in learner.children(recursive=True):
        try:
            if " ".join(process.cmdline()).startswith("ray::Actor"):
                processes.append(process)
        except psutil.Error:
            continue
    return processes


def updates(run: Path) -> list[dict[str, float]]:
    """Return the lines of metrics of a run so far."""
    file = run / "metrics.jsonl"
    return list(read_metrics(file)) if file.exists() else []


def start(folder: Path, hosts: int, *args: str) -> subprocess.Popen[bytes]:
    """Start a learner with its hosts."""
    command = [
        sys.executable,
        "-m",
        "puffervec.commands.cli",
        *args,
        *FLAGS,
        "--log.folder",
        str(folder),
    ]
    command += ["--ray", "local", "--ray.hosts", str(hosts)]
    return subprocess.Popen(
        command,
        stdout=(folder / "out.txt").open("ab"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, print and write the figures, and return the exit status."""
    flags = common.parser(__doc__)
    flags.add_argument(
        "--deaths", type=int, default=50, help="number of deaths of hosts (default: %(default)s)"
    )
    flags.add_argument("--hosts", type=int, default=2, help="that play (default: %(default)s)")
    flags.add_argument("--json", type=Path, help="path of the results (default: not written)")
    options = flags.parse_args(arguments)
    seed = int(os.environ.get("PV_SEED", "1"))
    with tempfile.TemporaryDirectory() as name:
        figures, foreign = common.foreign_load(
            lambda: (
                deaths(Path(name), options.hosts, options.deaths, random.Random(seed))
                | {"seed": seed}
            )
        )
    for key, value in figures.items():
        print(f"{key:>34}: {value}")
    if options.json is not None:
        facts = {**common.machine(), "foreign_load": foreign}
        common.write_json(options.json, common.report("host-deaths", facts, vars(options), figures))
    return 0


def deaths(folder: Path, hosts: int, count: int, random_: random.Random) -> dict[str, Any]:
    """Kill hosts and the learner; return figures. Raises: SystemExit: names the fault."""
    run = folder / "deaths"
    running = start(folder, hosts, "cartpole")
    learner = psutil.Process(running.pid)
    try:
        wait_for(lambda: len(updates(run)) > 2, "the first updates")
        begin = time.monotonic()
        for number in range(count):
            victim = random_.choice(wait_for(lambda: hosts_of(learner), "a host"))
            victim.send_signal(signal.SIGKILL)
            time.sleep(random_.uniform(0.0, LONGEST_WAIT_S))
            if running.poll() is not None:
                raise SystemExit(
                    "the run ended after death "
                    f"{number + 1}:\n{(folder / 'out.txt').read_text()[-2000:]}"
                )
        spent_s = time.monotonic() - begin
        after = len(updates(run))
        wait_for(lambda: len(updates(run)) > after + 20, "updates after the last death")
        wait_for(lambda: len(hosts_of(learner)) == hosts, "all hosts at work again")
        lines = in_order(run)
        wait_for(lambda: list((run / "checkpoints").glob("*")), "a checkpoint")
        below = learner.children(recursive=True)
        learner.send_signal(signal.SIGKILL)
        running.wait()
        begin = time.monotonic()
        wait_for(
            lambda: not [process for process in below if alive(process)],
            f"nothing left of {len(below)} processes",
        )
        gone_s = time.monotonic() - begin
        before = int(lines[-1]["update"])
        running = start(folder, hosts + 1, "--resume", str(run))  # With another number of hosts.
        wait_for(
            lambda: updates(run)[-1]["update"] > before + 20 or running.poll() is not None,
            "updates after resuming",
        )
        running.send_signal(signal.SIGTERM)
        code = running.wait(PATIENCE_S)
        last = updates(run)[-1]
    finally:
        for process in [*learner_and_below(running.pid)]:
            process.kill()
    if code != 128 + signal.SIGTERM:
        raise SystemExit(f"the resumed run ended with {code}, not as one that was stopped")
    return {
        "deaths of hosts": count,
        "seconds": round(spent_s, 1),
        "hosts that learner saw begin again": int(lines[-1]["ray/deaths"]),
        "updates until the learner's death": len(lines),
        "updates missing in the log": 0,
        "segments dropped as too old": int(lines[-1]["ray/dropped"]),
        "seconds until nothing was left": round(gone_s, 2),
        "updates after resuming": int(last["update"]),
        "return at the end": round(last["episode/return"], 1),
    }


def in_order(run: Path) -> list[dict[str, float]]:
    """Return the lines of metrics. Raises: SystemExit: they do not contain every update once."""
    lines = updates(run)
    numbers = [int(line["update"]) for line in lines]
    if numbers != list(range(1, len(numbers) + 1)):
        raise SystemExit(f"updates are missing or twice in the log: {numbers}")
    return lines


def alive(process: psutil.Process) -> bool:
    """Return whether a process runs."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def learner_and_below(pid: int) -> list[psutil.Process]:
    """Return the live processes of a learner and its descendants."""
    try:
        learner = psutil.Process(pid)
        return [*learner.children(recursive=True), learner]
    except psutil.Error:
        return []


if __name__ == "__main__":
    sys.exit(main())
