# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What torchrun calls its job, and how the job's run folder is found again when torchrun has started the ranks anew.

torchrun starts all ranks again when one dies or a machine joins or leaves, with the same command line. The agent, the torchrun
process on each machine, stays: its name stands in `run.json`, so the ranks that it starts next go on there. A new torchrun is
another agent and begins a new run; `--resume` goes on with an old one. Runs in the learner; imports no torch.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Collection
from pathlib import Path

import psutil

from puffervec.host.folder import Folder

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
    return found if given in ("", "none") else [*found, _by_id(given)]


def _by_id(given: str) -> str:
    return f"id {given}"


def find(runs: Path, wanted: Collection[str]) -> tuple[Path, Path | None] | None:
    """Return the run folder that this job has begun in `runs`, and its newest whole checkpoint; None where there is none.

    Args: wanted: the job's names. An --rdzv-id counts after a failure only: it may have been used for another job before.
    """
    from puffervec.train.run import checkpoint, provenance, rundir

    sought = {name for name in wanted if restarted() or not name.startswith(_by_id(""))}
    if not sought:
        return None
    found = []
    with contextlib.suppress(OSError), Folder(runs) as folder:
        for name in folder.names():
            with contextlib.suppress(OSError), folder.below(name) as run:
                if sought & provenance.jobs_of(run):
                    found.append((run.stat(provenance.RUN_FILE).st_mtime, runs / name))
    if not found:
        return None
    path = max(found)[1]
    return path, checkpoint.newest(path / rundir.CHECKPOINTS)
