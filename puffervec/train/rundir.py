# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The run folder: where a run leaves config, metrics and checkpoints, and the lock that lets only one trainer write there.

    runs/drive-20251121-120000-s1/   config.json  metrics.jsonl  run.lock  checkpoints/<agent-steps>/

Runs in the learner, before any worker starts, so that a folder that cannot be written is refused while nothing is lost.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import re
import socket
from pathlib import Path
from typing import Any

from puffervec.errors import CheckpointError, ConfigError
from puffervec.train.config import LogSection, TrainConfig

CHECKPOINTS = "checkpoints"
CONFIG_FILE = "config.json"
_LOCK_FILE = "run.lock"


def new_run_folder(log: LogSection, target: str, seed: int) -> Path:
    """Make and return a fresh run folder.

    Raises: ConfigError where the folder exists already or cannot be made.
    """
    env = re.sub(r"[^\w.-]+", "-", target)  # ALE/Pong-v5, module:factory
    name = log.name or f"{env}-{datetime.datetime.now():%Y%m%d-%H%M%S}-s{seed}"
    path = log.folder / name
    for attempt in range(2, 100):
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            if log.name or not path.is_dir():
                raise ConfigError(f"log.name: {path} exists already: choose another name, or --resume {path}") from None
            path = log.folder / f"{name}-{attempt}"  # Two runs within one second.
        except OSError as error:
            raise ConfigError(f"log.folder: cannot make {path}: {error.strerror}") from error
    raise ConfigError(f"log.folder: {log.folder / name} and its successors exist already")


class RunLock:
    """Holds a run folder for this process until closed; the kernel lets go of it when the process ends, however that
    happens."""

    def __init__(self, folder: Path) -> None:
        """Take the lock.

        Raises: ConfigError where another trainer holds it or the folder cannot be written.
        """
        path = folder / _LOCK_FILE
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ConfigError(f"cannot write to the run folder {folder}: {error.strerror}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(self._fd, 1000).decode("utf-8", "replace").strip() or "an unknown process"
            os.close(self._fd)
            raise ConfigError(f"another trainer is using {folder}: {owner}") from None
        note = {"pid": os.getpid(), "host": socket.gethostname(), "started": f"{datetime.datetime.now():%Y-%m-%d %H:%M:%S}"}
        os.ftruncate(self._fd, 0)
        os.write(self._fd, ", ".join(f"{k} {v}" for k, v in note.items()).encode())

    def close(self) -> None:
        """Let go of the folder."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def write_config(folder: Path, config: TrainConfig) -> None:
    """Leave the resolved config in the run folder."""
    text = json.dumps({"target": config.target, **config.tables()}, indent=2)
    (folder / CONFIG_FILE).write_text(text + "\n", encoding="utf-8")


def config_from_tables(values: dict[str, Any]) -> TrainConfig:
    """Return the config kept in a manifest or config file.

    Raises: ConfigError for an unknown env, table or key.
    """
    tables = dict(values)
    return TrainConfig.bare(str(tables.pop("target"))).merged(tables)


def find_checkpoint(where: str | Path, runs: Path) -> Path:
    """Return the newest whole checkpoint in `where`: a checkpoint, a run folder, or `latest` for the newest run in `runs`.

    Raises: CheckpointError where there is none; the message says what was looked at.
    """
    from puffervec.train.checkpoint import MANIFEST, newest

    if str(where) == "latest":
        folders = sorted((p for p in runs.glob("*") if (p / CHECKPOINTS).is_dir()), key=_last_change, reverse=True)
        for folder in folders:
            found = newest(folder / CHECKPOINTS)
            if found is not None:
                return found
        raise CheckpointError(f"no run in {runs} has a whole checkpoint")
    path = Path(where)
    if (path / MANIFEST).is_file():
        return path
    found = newest(path / CHECKPOINTS)
    if found is None:
        state = "has no whole checkpoint" if path.is_dir() else "is no folder"
        raise CheckpointError(f"{path} {state}: give a run folder, a checkpoint in it, or latest")
    return found


def _last_change(run: Path) -> float:
    return max((p.stat().st_mtime for p in (run / CHECKPOINTS).iterdir()), default=run.stat().st_mtime)


def run_folder_of(checkpoint: Path) -> Path:
    """Return the run folder that a checkpoint lies in."""
    return checkpoint.parent.parent
