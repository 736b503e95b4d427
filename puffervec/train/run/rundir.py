# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The run folder with config, metrics and checkpoints, and the lock for its only trainer.

    runs/drive-20251121-120000-s1/
        config.json  run.json  metrics.jsonl  run.lock  checkpoints/<agent-steps>/

docs/run-folder.md describes each file. A folder may come from an untrusted source: links in it are
never followed and special files never opened (folder.py). The user names the run folder itself, so
its path may lead through links.

Runs in the learner, before any worker starts, so that a folder that cannot be written is refused
before there is anything to lose.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fcntl
import json
import os
import re
import socket
import weakref
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puffervec.envs import OCEAN
from puffervec.errors import ConfigError
from puffervec.system.folder import Folder, describe_error, make_folder, replace_file
from puffervec.train.config import algorithms
from puffervec.train.config.sections import (
    LogSection,
    PolicySection,
    RoleSection,
    TrainConfig,
    TrainSection,
)
from puffervec.train.config.tables import format_value
from puffervec.train.metrics.log import METRICS_FILE, JsonLog
from puffervec.train.run import provenance
from puffervec.train.run.folders import RUN_FILE

if TYPE_CHECKING:
    from puffervec.train.run.setup import Setup

CHECKPOINTS = "checkpoints"
CONFIG_FILE = "config.json"
_LOCK_FILE = "run.lock"
# Checked before the start.
_WRITTEN = (CONFIG_FILE, RUN_FILE, METRICS_FILE, CHECKPOINTS)


def new_run_folder(log: LogSection, target: str, seed: int) -> Path:
    """Create a new run folder and return its path.

    Raises:
        ConfigError: the name is a path, or the folder exists already or cannot be created.
    """
    if log.name in (".", "..") or "/" in log.name:
        raise ConfigError(
            f"log.name is {log.name!r}: give a name without '/' that is not . or ..; log.folder is "
            "the folder of runs"
        )
    short = target.rpartition("/")[2] if target.startswith(OCEAN) else target
    env = re.sub(r"[^\w.-]+", "-", short)  # ALE/Pong-v5, module:factory
    name = log.name or f"{env}-{datetime.datetime.now():%Y%m%d-%H%M%S}-s{seed}"
    path = log.folder / name
    for attempt in range(2, 100):
        try:
            path.mkdir(parents=True)
            for named in (path.parent, path):  # Synced to disk before anything is saved in it.
                make_folder(named)
            return path
        except FileExistsError:
            if log.name or not path.is_dir():
                raise ConfigError(
                    f"log.name: {path} exists already: choose another name, or --resume {path}"
                ) from None
            path = log.folder / f"{name}-{attempt}"  # Two runs began in the same second.
        except OSError as error:
            raise ConfigError(f"log.folder: cannot create {path}: {error.strerror}") from error
    raise ConfigError(
        f"log.folder: {log.folder / name} and its numbered successors exist already: set log.name"
    )


class RunLock:
    """A lock on a run folder that this process holds until `close`.

    The kernel releases it when the process ends, even after a crash. Children do not hold it:
    programs they run do not inherit the descriptor, and forks close it.
    """

    def __init__(self, folder: Path) -> None:
        """Acquire the lock.

        Raises:
            ConfigError: another trainer holds it, or the folder cannot be written.
        """
        self.folder = folder
        self._path = folder / _LOCK_FILE
        try:
            with Folder(folder) as opened:
                opened.refuse_odd(*_WRITTEN)
                self._fd = opened.open(_LOCK_FILE, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise ConfigError(
                f"cannot write to the run folder {folder}: {describe_error(error)}"
            ) from error
        self._finalizer = weakref.finalize(self, os.close, self._fd)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._sign()
        except BlockingIOError:
            owner = (
                os.read(self._fd, 1000).decode("utf-8", "replace").strip() or "an unknown process"
            )
            self.close()
            raise ConfigError(
                f"another trainer is using {folder}: {owner}; wait for it, stop it, or use "
                "another folder"
            ) from None
        except OSError as error:
            self.close()
            raise ConfigError(
                f"cannot lock {self._path}: {error.strerror}: choose a log.folder on a file system "
                "that supports locks"
            ) from error
        _held.add(self)

    def _sign(self) -> None:
        note = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started": f"{datetime.datetime.now():%Y-%m-%d %H:%M:%S}",
        }
        os.ftruncate(self._fd, 0)
        os.write(self._fd, ", ".join(f"{k} {v}" for k, v in note.items()).encode())

    @property
    def lost(self) -> bool:
        """True if the lock file is not the one that was locked.

        The run folder was then deleted or replaced.
        """
        try:
            there, mine = os.stat(self._path, follow_symlinks=False), os.fstat(self._fd)
        except OSError:
            return True
        return (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino)

    def close(self) -> None:
        """Release the folder."""
        if self._finalizer.alive:
            # Unlocking also covers a child that was forked just now and has the descriptor.
            with contextlib.suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        self._finalizer()


_held: weakref.WeakSet[RunLock] = weakref.WeakSet()


def _close_in_fork() -> None:
    """Close the descriptors of all locks in a forked child.

    The child shares a lock as long as it has the descriptor, and could keep a new trainer out after
    its parent has ended.
    """
    for lock in list(_held):
        lock._finalizer()  # Closing is enough: unlocking would release the parent's lock too.


os.register_at_fork(after_in_child=_close_in_fork)


def write_config(folder: Path, config: TrainConfig) -> None:
    """Write the resolved config into the run folder, replacing an existing file atomically.

    Raises:
        OSError: the file cannot be written.
    """
    text = json.dumps({"target": config.target, **config.tables()}, indent=2)
    replace_file(folder / CONFIG_FILE, (text + "\n").encode())


class RunFiles:
    """The folder of a run, locked until closed; only the first rank writes there."""

    lock: RunLock | None = None
    run_id = ""

    def __init__(self, folder: Path, setup: Setup) -> None:
        """Lock the folder, write the config, record this start, and open the log.

        Raises:
            ConfigError: the folder cannot be written, or another trainer uses it.
        """
        self.folder, self._setup = folder, setup
        metrics, first = folder / METRICS_FILE, setup.ranks.first
        try:
            if first:
                self._take()
            self.goes_on = setup.checkpoint is not None or (first and metrics.is_file())
            head = {"env": setup.run.config.target, "config": setup.run.config.tables()}
            self.log = JsonLog(metrics, head, write=first)
        except BaseException as error:
            if self.lock is not None:
                self.lock.close()
            if isinstance(error, OSError):
                raise ConfigError(
                    f"cannot write to the run folder {folder}: {describe_error(error)}"
                ) from error
            raise

    def _take(self) -> None:
        """Create the folder if it is missing, lock it, write the config and record this start.

        Raises:
            OSError: the folder cannot be created or written.
            ConfigError: the folder cannot be locked.
        """
        setup = self._setup
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lock = RunLock(self.folder)
        write_config(self.folder, setup.run.config)
        facts = {
            "env": setup.run.config.target,
            "device": provenance.device_name(setup.run.device),
            "seeds": {"train": setup.run.config.train.seed},
            "resumed_from": None if setup.checkpoint is None else setup.checkpoint.name,
            "measured": setup.chosen.measured,
            "ranks": setup.ranks.size,
            "job": list(setup.ranks.job),
        }
        self.run_id = provenance.record_start(self.folder, facts)

    def refind(self, note: Callable[[str], None]) -> None:
        """Recreate and lock the folder if it was deleted, so that checkpoints can be saved.

        Args:
            note: called with a message if the folder was deleted.

        Raises:
            ConfigError: the folder cannot be created or locked.
        """
        assert self.lock is not None
        if not self.lock.lost:
            return
        self.lock.close()
        try:
            self._take()
        except OSError as error:
            raise ConfigError(
                f"cannot save: the run folder {self.folder} is gone: {describe_error(error)}"
            ) from error
        note(f"the run folder {self.folder} was deleted: it was recreated without its old content")

    def close(self) -> None:
        """Close the log, then release the folder."""
        self.log.close()
        if self.lock is not None:
            self.lock.close()


def config_from_tables(
    values: dict[str, Any],
    trusted: Collection[str | None] = (),
    env: Callable[..., Any] | None = None,
    learns: bool = True,
) -> TrainConfig:
    """Return the config from the tables of a manifest or config file.

    Args:
        values: the tables.
        trusted: names of code that the user has given. An env "module:factory", a policy
            "module:Class" and an algorithm "module:NAME" are imported and called with settings
            from the same file, so the file alone must not decide that.
        env: creates the Python env, in place of the name in the file.
        learns: if False, an algorithm that is not installed is ignored together with its settings.

    Raises:
        ConfigError: an env, table or key is unknown, a value is not allowed, or the user has not
            named the code.
    """
    tables = dict(values)
    target = tables.pop("target", None)
    if not isinstance(target, str) or not target:
        raise ConfigError(f"the run's config names no env: target is {format_value(target)}")
    if env is None:
        again = (
            "puffer-train NAME --resume RUN, puffer-train eval RUN --env NAME, or "
            "load_policy(RUN, env='NAME')"
        )
        _check_trusted("env", target, trusted, again)
    single = tables.get("policies")
    learning = [
        table
        for table in (tables.get("train"), *(single if isinstance(single, dict) else {}).values())
    ]
    names = [
        table["algorithm"]
        for table in learning
        if isinstance(table, dict) and isinstance(table.get("algorithm"), str)
    ]
    if not learns and not set(names) <= set(algorithms.names()):
        tables |= _without_algorithms(tables)
    else:
        for name in names:
            _check_trusted(
                "algorithm",
                name,
                trusted,
                f"puffer-train {target} --resume RUN --train.algorithm NAME",
            )
    config = TrainConfig.bare(env or target).merged(tables)
    again = (
        f"puffer-train {target} --resume RUN --policy.kind NAME, puffer-train eval RUN --policy "
        "NAME, or "
    )
    for kind in config.policy_kinds:
        _check_trusted("policy", kind, trusted, again + "load_policy(RUN, policy='NAME')")
    for entry in (
        config.policy.map if len(config.policy.map) == 1 and "=" not in config.policy.map[0] else ()
    ):
        _check_trusted(
            "policy map", entry, trusted, f"puffer-train {target} --resume RUN --policy.map NAME"
        )
    config.check()
    return config


def config_of(manifest: Mapping[str, Any], run: TrainConfig) -> TrainConfig:
    """Return the config of a checkpoint that a run continues, or whose policies act in it.

    Args:
        manifest: manifest of the checkpoint.
        run: the run's config; code that it names may be imported.

    Raises:
        ConfigError: see `config_from_tables`.
    """
    trusted = (run.target, *run.policy_kinds)
    return config_from_tables(manifest["config"], trusted, run.creator, learns=False)


def _without_algorithms(tables: dict[str, Any]) -> dict[str, Any]:
    """Return the train and policies tables with only the settings that all algorithms share."""
    kinds = (TrainSection, PolicySection, RoleSection)
    shared = {field.name for kind in kinds for field in dataclasses.fields(kind)} - {"algorithm"}

    def filtered(table: Any) -> Any:
        return (
            {name: value for name, value in table.items() if name in shared}
            if isinstance(table, dict)
            else table
        )

    single = tables.get("policies", {})
    cut = (
        {name: filtered(table) for name, table in single.items()}
        if isinstance(single, dict)
        else single
    )
    return {"train": filtered(tables.get("train", {})), "policies": cut}


def _check_trusted(what: str, name: str, trusted: Collection[str | None], how: str) -> None:
    """Raise ConfigError if a run names code that the user has not named.

    Args:
        what: the kind of code.
        name: the name in the file.
        trusted: names that the user has given.
        how: commands that allow it, with NAME in place of the name.
    """
    if ":" in name and name not in trusted:
        raise ConfigError(
            f"this run's {what} is {name!r}, code that would be imported and called: to allow it, "
            "name it yourself: " + how.replace("NAME", name)
        )
