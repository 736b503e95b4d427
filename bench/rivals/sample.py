# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Take one sample in a fresh process. Started by bench/peers.py; prints one line of JSON.

python -m bench.rivals.sample '{"rival": "gymnasium_vec", "workload": "cartpole", "num_envs": 64}'
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import platform
import sys
import time
import warnings
from importlib import metadata
from typing import Any

from bench.rivals.runner import Job, Missing, Runner

FIRST_TURNS = 4
ENOUGH = 0.8  # Share of the requested seconds.


def _warm_up(runner: Runner, seconds: float) -> float:
    """Run turns for about `seconds`; return the seconds of one."""
    turns, begin = FIRST_TURNS, time.perf_counter()
    while True:
        since = time.perf_counter()
        runner.run(turns)
        now = time.perf_counter()
        if now - begin >= seconds:
            return (now - since) / turns
        turns = max(turns, min(2 * turns, int(turns * seconds / max(1e-9, now - since) / 2)))


def _timed(runner: Runner, seconds: float, turn_s: float) -> dict[str, Any]:
    """Run and count turns for about `seconds`.

    Args:
        turn_s: expected seconds of a turn; if that is wrong, more turns are added.
    """
    turns = rows = resets = 0
    elapsed_s = 0.0
    while elapsed_s < ENOUGH * seconds:
        more = max(2, round((seconds - elapsed_s) / turn_s))
        begin = time.perf_counter()
        count = runner.run(more)
        elapsed_s += time.perf_counter() - begin
        turns, rows, resets = turns + more, rows + count.rows, resets + count.resets
        turn_s = elapsed_s / turns
    return {"rows": rows, "env_steps": rows - resets, "turns": turns, "seconds": elapsed_s}


def _versions() -> dict[str, str]:
    """Return the versions of this interpreter and its packages, on which a figure depends."""
    versions = {"python": platform.python_version()}
    for package in ("numpy", "gymnasium", "pufferlib"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


def take(job: Job) -> dict[str, Any]:
    """Take a sample; return {"rows", "env_steps", "turns", "seconds", "versions"}.

    If the library cannot run it, return {"missing": reason}.
    """
    if job.copies > 1:
        return _several(job)
    try:
        runner: Runner = importlib.import_module(f"bench.rivals.{job.rival}").open_runner(job)
    except (ImportError, Missing) as reason:
        return {"missing": str(reason)}
    try:
        turn_s = _warm_up(runner, job.warmup_s)
        if job.waits:
            from bench.ceiling import (
                wait_for_others,
            )  # It needs puffervec, which PufferLib's interpreter does not have.

            wait_for_others()
        return _timed(runner, job.seconds, turn_s) | {"versions": _versions()}
    finally:
        runner.close()


def _several(job: Job) -> dict[str, Any]:
    """Take the sample in `job.copies` simultaneous processes and sum their steps."""
    from bench.ceiling import run_simultaneously

    one = dataclasses.replace(job, copies=1, waits=True)
    results = run_simultaneously([[sys.executable, *arguments_of(one)]] * job.copies)
    if missing := [result for result in results if "missing" in result]:
        return missing[0]
    summed = {
        name: sum(result[name] for result in results) for name in ("rows", "env_steps", "turns")
    }
    return {
        **summed,
        "seconds": max(result["seconds"] for result in results),
        "versions": results[0]["versions"],
    }


def main(arguments: list[str]) -> int:
    """Run the command and return its exit status."""
    warnings.simplefilter("ignore")  # Libraries warn about each other.
    print(json.dumps(take(Job(**json.loads(arguments[0])))))
    return 0


def arguments_of(job: Job) -> list[str]:
    """Return the arguments of an interpreter that takes this sample."""
    return ["-m", "bench.rivals.sample", json.dumps(dataclasses.asdict(job))]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
