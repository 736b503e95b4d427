# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Search for the checkpoint that a run resumes from.

It is the newest complete checkpoint of a folder, of the newest run, or of the run that a torchrun
job began.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

from puffervec.errors import CheckpointError
from puffervec.system.folder import Folder
from puffervec.train.config.target import trained_policy
from puffervec.train.device import ranks
from puffervec.train.run import provenance
from puffervec.train.run.checkpoint import MANIFEST, listed, newest
from puffervec.train.run.folders import newest_first
from puffervec.train.run.rundir import CHECKPOINTS

Result = TypeVar("Result")


def find_checkpoint(
    where: str | Path, runs: Path, note: Callable[[str], None] | None = None
) -> Path:
    """Return the newest complete checkpoint in `where`.

    Args:
        where: a checkpoint, a run folder, the name of a trained policy that comes with an env (a
            folder of that name has precedence), or `latest` for the run in `runs` that was started
            or resumed last.
        runs: the folder of runs.
        note: called with a message for each damaged checkpoint that is skipped.

    Raises:
        CheckpointError: there is no complete one; the message names the folder that was searched.
    """
    if str(where) == "latest":
        for folder in newest_first(runs):
            found = newest(folder / CHECKPOINTS, note)
            if found is not None:
                return found
        if not runs.is_dir():
            raise CheckpointError(
                f"there is no latest run: {runs.absolute()} does not exist: name a run folder"
            )
        raise CheckpointError(f"no run in {runs} has a complete checkpoint: name a run folder")
    path = Path(where)
    # os.path returns False for an impossible name, where a Path method would raise.
    if os.path.lexists(path / MANIFEST):
        return path
    found = newest(path / CHECKPOINTS, note) if os.path.isdir(path) else None
    if found is None and not os.path.lexists(path):
        found = trained_policy(str(where))
    if found is None:
        state = "has no complete checkpoint"
        if not os.path.isdir(path):
            state = "is not a folder" if os.path.exists(path) else "does not exist"
        raise CheckpointError(f"{path} {state}: name a run folder, a checkpoint in it, or latest")
    return found


def find_checkpoints(where: str, runs: Path) -> list[Path]:
    """Return all checkpoints of a folder of checkpoints, or the one that `find_checkpoint` finds.

    Raises:
        CheckpointError: there is no checkpoint.
    """
    if where != "latest" and not os.path.lexists(Path(where) / MANIFEST):
        pool = listed(Path(where))
        if pool:
            return pool
    return [find_checkpoint(where, runs)]


def read_newest(
    where: str | Path,
    runs: Path,
    read: Callable[[Path], Result],
    note: Callable[[str], None] | None = None,
) -> tuple[Path, Result]:
    """Return the path from `find_checkpoint` and the result of `read` for it.

    This works while the run is training: if its trainer replaces the checkpoint by a newer one
    before it is read, the search starts again.

    Raises:
        CheckpointError: there is no checkpoint, or it cannot be read.
    """
    while True:
        path = find_checkpoint(where, runs, note)
        try:
            return path, read(path)
        except CheckpointError:
            if path.is_dir() or path == Path(where):
                raise


def run_folder_of(checkpoint: Path) -> Path | None:
    """Return the run folder of a checkpoint, None if it lies elsewhere, such as a copy.

    >>> run_folder_of(Path("runs/one/checkpoints/000000000512"))
    PosixPath('runs/one')
    >>> run_folder_of(Path("/models/best"))
    """
    for path in (checkpoint, checkpoint.resolve()):  # The unresolved path has precedence.
        if path.parent.name == CHECKPOINTS:
            return path.parent.parent
    return None


def find_job(runs: Path, wanted: Collection[str]) -> tuple[Path, Path | None] | None:
    """Return the run folder that this job began in `runs` and its newest complete checkpoint.

    Args:
        runs: the folder of runs.
        wanted: the names of the job. An --rdzv-id counts only after a failure, because an earlier
            job may have used the same one.

    Returns:
        None if the job has not begun a run.
    """
    sought = {
        name for name in wanted if ranks.is_restart() or not name.startswith(ranks.job_of_id(""))
    }
    if not sought:
        return None
    for path in newest_first(runs):
        with contextlib.suppress(OSError), Folder(path) as run:
            if sought & provenance.jobs_of(run):
                return path, newest(path / CHECKPOINTS)
    return None
