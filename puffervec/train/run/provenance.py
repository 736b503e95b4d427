# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The provenance of a run: `run.json` in the run folder, with one entry per start.

Each entry has the command, versions, machine, git commit and seeds, so that results can be
reproduced. docs/run-folder.md lists the keys. Runs in the learner, before any worker starts.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import numpy
import torch

import puffervec
from puffervec.system.cores import usable_cores
from puffervec.system.folder import Folder
from puffervec.train.run.folders import RUN_FILE

MOST_BYTES = 2**22  # size limit of the file: a few thousand starts
# Seconds for a git command: enough for a repository of any size. Without a limit, a repository on a
# network file system that is gone would block forever.
_GIT_S = 5.0


def record_start(folder: Path, facts: dict[str, Any]) -> str:
    """Add a start to `run.json` and return the run's id, 16 hexadecimal digits.

    The file is replaced atomically.

    Args:
        folder: the run folder.
        facts: entries that the caller adds: env, device, seeds, the checkpoint to resume from.

    Raises:
        OSError: the file cannot be read or replaced.
    """
    with Folder(folder) as opened:
        before = _read(opened)
        known, starts = before.get("run_id"), before.get("starts")
        run_id = (
            known
            if isinstance(known, str) and known.isalnum() and len(known) <= 64
            else uuid.uuid4().hex[:16]
        )
        entries = [*(starts if isinstance(starts, list) else []), {**circumstances(), **facts}]
        text = json.dumps({"schema_version": 1, "run_id": run_id, "starts": entries}, indent=2)
        opened.replace(RUN_FILE, [(text + "\n").encode()])
    return run_id


def jobs_of(folder: Folder) -> set[str]:
    """Return the names (see ranks.py) of the torchrun jobs that the starts of a run belong to.

    Raises:
        OSError: `run.json` cannot be read.
    """
    starts = _read(folder).get("starts")
    jobs = (
        [start.get("job") for start in starts if isinstance(start, dict)]
        if isinstance(starts, list)
        else []
    )
    return {
        name for names in jobs if isinstance(names, list) for name in names if isinstance(name, str)
    }


def _read(folder: Folder) -> dict[str, Any]:
    """Return the content of `run.json`, {} if it is missing or not a JSON object.

    Raises:
        OSError: the file cannot be read.
    """
    with contextlib.suppress(FileNotFoundError, ValueError, RecursionError):
        found = json.loads(folder.read(RUN_FILE, MOST_BYTES))
        if isinstance(found, dict):
            return found
    return {}


def circumstances() -> dict[str, Any]:
    """Return the time, command, versions and machine of this start."""
    return {
        "started": _now(),
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "folder": os.getcwd(),
        "git": git_state(Path.cwd()),
        "versions": {
            "puffervec": puffervec.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
        },
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "usable_cores": usable_cores(),
    }


def _now() -> str:
    """Return the local time with its UTC offset.

    It is UTC if TZ has an offset of a day or more, which Python cannot represent.
    """
    try:
        now = datetime.datetime.now().astimezone()
    except ValueError:
        now = datetime.datetime.now(datetime.UTC)
    return now.isoformat(timespec="seconds")


def git_state(folder: Path) -> dict[str, Any] | None:
    """Return the commit of `folder` and whether tracked files differ; None outside of git.

    Runs no program that the repository names (filters, hooks, file-system monitors). `changed` is
    None if git cannot tell without the repository's settings. A file that a filter rewrites, such
    as those of Git LFS, counts as changed once it has been touched.
    """
    commit = _git(folder, {}, "rev-parse", "HEAD")
    if not commit:
        return None
    places = ("--show-toplevel", "--git-path", "objects", "--git-path", "index")
    found = _git(folder, {}, "rev-parse", "--path-format=absolute", *places)
    changes = None
    if found is not None and len(paths := found.splitlines()) == 3:
        changes = _changes(commit, *paths)
    return {"commit": commit, "changed": None if changes is None else bool(changes)}


def _changes(commit: str, top: str, objects: str, index: str) -> str | None:
    """Return the tracked files that `git status` lists, without reading the repository's settings.

    A repository's settings may name programs under arbitrary keys, such as `filter.NAME.clean`, so
    overriding keys one by one cannot be complete. Instead git gets the real files, index and
    objects through an empty repository. Submodules are compared by commit alone, because looking
    into one would read its settings.
    """
    with tempfile.TemporaryDirectory(prefix="puffervec-git-") as empty:
        (Path(empty) / "refs").mkdir()
        (Path(empty) / "HEAD").write_text(f"{commit}\n", encoding="ascii")
        repository = {
            "GIT_DIR": empty,
            "GIT_COMMON_DIR": empty,
            "GIT_WORK_TREE": top,
            "GIT_OBJECT_DIRECTORY": objects,
            "GIT_INDEX_FILE": index,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
        }
        options = ("--porcelain", "--untracked-files=no", "--ignore-submodules=dirty")
        return _git(Path(top), repository, "status", *options)


def _git(folder: Path, environment: dict[str, str], *arguments: str) -> str | None:
    """Return the output of a git command, None if it fails or takes too long.

    The command writes nothing: no locks, no refreshed index.
    """
    command = [
        "git",
        "--no-optional-locks",
        "-c",
        "core.fsmonitor=false",
        "-C",
        str(folder),
        *arguments,
    ]
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=_GIT_S,
            check=True,
            env={**os.environ, **environment},
        )
        return done.stdout.strip()
    return None


def device_name(device: torch.device) -> str:
    """Return the device, with its model if it is a GPU: `cuda:0 NVIDIA L4`."""
    return (
        f"{device} {torch.cuda.get_device_name(device)}" if device.type == "cuda" else str(device)
    )


def cpu_name() -> str:
    """Return the CPU model that the kernel reports, "" if it reports none."""
    with contextlib.suppress(OSError):
        for line in (
            Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        ):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return ""
