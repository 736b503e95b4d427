# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure the joint speed of several cores of this machine, by simultaneous independent C loops.

No vector env is involved. Two cores seldom do twice the work of one: they share caches, memory
bandwidth and sometimes the hardware of one physical core. So a vector env is compared with as many
simultaneous loops as it has workers, measured in the same run.

    python -m bench.ceiling '{"name": "tag_grid", ...}' COPY TURNS    one such loop, for c_loops
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from bench.common import ROOT
from bench.workloads import Workload, actions_of, c_loop
from puffervec.errors import PuffervecError
from puffervec.system.cores import affinity

READY, GO = "ready", "go"


def wait_for_others() -> None:
    """Report that this process is ready to be timed, and wait until the others are ready too.

    This is for processes of `run_simultaneously`.
    """
    print(READY, flush=True)
    if sys.stdin.readline().strip() != GO:
        raise PuffervecError("the benchmark that started this process has ended")


def run_simultaneously(commands: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Run commands that call `wait_for_others` and print a line of JSON; return the JSON of each.

    Raises:
        PuffervecError: one of them failed; the others are ended.
    """
    pipe = subprocess.PIPE
    with contextlib.ExitStack() as stack:
        started = []
        for command in commands:
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)
            stack.enter_context(process)
            stack.callback(process.kill)
            started.append(process)
        for process in started:
            assert process.stdout is not None
            if process.stdout.readline().strip() != READY:
                raise PuffervecError(f"{' '.join(process.args[:4])} ended before it was timed")
        for process in started:
            assert process.stdin is not None
            process.stdin.write(f"{GO}\n")
            process.stdin.flush()
        return [json.loads(process.communicate()[0].splitlines()[-1]) for process in started]


def c_loops(workload: Workload, copies: int, turns: int) -> float:
    """Return the seconds per turn of all envs of a workload that `copies` processes share.

    Each process runs its own C loop.
    """
    shared = json.dumps({**dataclasses.asdict(workload), "num_envs": workload.num_envs // copies})
    command = [sys.executable, "-m", "bench.ceiling", shared]
    loops = run_simultaneously([[*command, str(copy), str(turns)] for copy in range(copies)])
    return max(result["turn_s"] for result in loops)


def main(arguments: Sequence[str]) -> int:
    """Run one loop on its own core, and print its seconds per turn."""
    workload = Workload(**json.loads(arguments[0]))
    copy, turns = int(arguments[1]), int(arguments[2])
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {affinity()[copy % len(affinity())]})
    turn_s = c_loop(workload, actions_of(workload), turns, max(1, turns // 4), wait_for_others)
    print(json.dumps({"turn_s": turn_s}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
