# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What torchrun calls its job, and how the job's run folder is found again when torchrun has started the ranks anew.

torchrun starts all ranks again when one dies or a machine joins or leaves, with the same command line. The agent, the torchrun
process on each machine, stays: its name stands in `run.json`, so the ranks that it starts next go on there. A new torchrun is
another agent and begins a new run; `--resume` goes on with an old one. Runs in the learner; imports no torch.
"""

from __future__ import annotations

import os
import socket

import psutil

VARIABLES = ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK")  # torchrun sets them, and others, in each rank.


def under_torchrun() -> bool:
    """True in a process that torchrun has started, and in its children."""
    return all(name in os.environ for name in VARIABLES)


def restarted() -> bool:
    """True where torchrun has started the ranks again after a failure."""
    return under_torchrun() and int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def names() -> list[str]:
    """Return the names of this process's job: its agent and, where the user has given it one, its --rdzv-id.

    Empty outside of torchrun. A job of several machines has the names of all its ranks.
    """
    if not under_torchrun():
        return []
    agent = psutil.Process(os.getppid())
    found = [f"agent {socket.gethostname()} {agent.pid} {agent.create_time():.2f}"]
    given = os.environ["TORCHELASTIC_RUN_ID"]
    return found if given in ("", "none") else [*found, by_id(given)]


def by_id(given: str) -> str:
    """Return the name of a job that was given an --rdzv-id."""
    return f"id {given}"
