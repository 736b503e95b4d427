# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The order of the run folders in a folder of runs. Imports no torch."""

from __future__ import annotations

import contextlib
from pathlib import Path

from puffervec.system.folder import Folder

RUN_FILE = "run.json"  # provenance.py replaces it at each start


def newest_first(runs: Path) -> list[Path]:
    """Return the run folders in `runs`, the most recently started or resumed one first.

    Only the time of `run.json`, which each start replaces, counts: other commands (plots,
    evaluations) write into run folders too. Folders without it come last. Links are left out,
    because the user has not named them.
    """
    found = []
    with contextlib.suppress(OSError), Folder(runs) as folder:
        for name in folder.names():
            with contextlib.suppress(OSError), folder.below(name) as run:
                started = run.kind(RUN_FILE) == "file"
                found.append((run.stat(RUN_FILE).st_mtime_ns if started else 0, name))
    return [runs / name for _, name in sorted(found, reverse=True)]
