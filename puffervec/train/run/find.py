# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Where a run goes on: the newest whole checkpoint of a folder, of the newest run, or of the run
that a torchrun job began.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

from puffervec.errors import CheckpointError
from puffervec.system.folder import Folder
from puffervec.train.device import ranks
from puffervec.train.run import provenance
from puffervec.train.run.checkpoint import MANIFEST, newest
from puffervec.train.run.rundir import CHECKPOINTS

Result = TypeVar("Result")


def find_checkpoint(
    where: str | Path, runs: Path, note: Callable[[str], None] | None = None
) -> Path:
    """Return the newest whole checkpoint in `where`: a checkpoint, a run folder, or `latest` for
    the run in `runs` that was started or resumed last.

    Args: note: told of each damaged checkpoint that is passed over.
    Raises: CheckpointError where there is none; the message says what was looked at.
    """
    if str(where) == "latest":
        for folder in _newest_first(runs):
            found = newest(folder / CHECKPOINTS, note)
            if found is not None:
                return found
        raise CheckpointError(f"no run in {runs} has a whole checkpoint")
    path = Path(where)
    if os.path.lexists(
        path / MANIFEST
    ):  # which is False where a name cannot be one, while a Path would raise
        return path
    found = newest(path / CHECKPOINTS, note) if os.path.isdir(path) else None
    if found is None:
        state = "has no whole checkpoint" if os.path.isdir(path) else "is no folder"
        raise CheckpointError(f"{path} {state}: give a run folder, a checkpoint in it, or latest")
    return found


def read_newest(
    where: str | Path,
    runs: Path,
    read: Callable[[Path], Result],
    note: Callable[[str], None] | None = None,
) -> tuple[Path, Result]:
    """Return what `find_checkpoint` finds and what `read` makes of it.

    Also while the run is under way: a checkpoint that its trainer replaces by a newer one meanwhile
    is looked for again.
    Raises: CheckpointError.
    """
    while True:
        path = find_checkpoint(where, runs, note)
        try:
            return path, read(path)
        except CheckpointError:
            if path.is_dir() or path == Path(where):
                raise


def _newest_first(runs: Path) -> list[Path]:
    """Return the run folders in `runs`, the one that was started or resumed last first.

    Other commands write into run folders too (plots, evaluations), so only `run.json` tells, which
    each start replaces. Folders without it come last. Links are left out: nobody has named them.
    """
    found = []
    with contextlib.suppress(OSError), Folder(runs) as folder:
        for name in folder.names():
            with contextlib.suppress(OSError), folder.below(name) as run:
                started = run.kind(provenance.RUN_FILE) == "file"
                found.append((run.stat(provenance.RUN_FILE).st_mtime_ns if started else 0, name))
    return [runs / name for _, name in sorted(found, reverse=True)]


def run_folder_of(checkpoint: Path) -> Path | None:
    """Return the run folder that a checkpoint lies in; None for one that lies elsewhere, as a copy
    that was put aside does.

    >>> run_folder_of(Path("runs/one/checkpoints/000000000512")), run_folder_of(Path("/models/best"))
    (PosixPath('runs/one'), None)
    """
    for path in (checkpoint, checkpoint.resolve()):  # As it was given, if that tells.
        if path.parent.name == CHECKPOINTS:
            return path.parent.parent
    return None


def find_job(runs: Path, wanted: Collection[str]) -> tuple[Path, Path | None] | None:
    """Return the run folder that this job has begun in `runs`, and its newest whole checkpoint;
    None where there is none.

    Args: wanted: the job's names. An --rdzv-id counts after a failure only: it may have been used
        for another job before.
    """
    sought = {
        name for name in wanted if ranks.restarted() or not name.startswith(ranks.job_of_id(""))
    }
    if not sought:
        return None
    for path in _newest_first(runs):
        with contextlib.suppress(OSError), Folder(path) as run:
            if sought & provenance.jobs_of(run):
                return path, newest(path / CHECKPOINTS)
    return None
