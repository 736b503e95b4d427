# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A run folder in use by a trainer: its lock, the config and the start noted in it, the log. Runs in the learner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from puffervec.errors import ConfigError
from puffervec.host.folder import said
from puffervec.train.metrics.log import METRICS_FILE, JsonLog
from puffervec.train.run import provenance, rundir
from puffervec.train.run.checkpoint import SaveError
from puffervec.train.run.setup import Setup


class RunFiles:
    """The folder of a run, locked until closed. Ranks beside the first one write nothing there."""

    lock: rundir.RunLock | None = None
    run_id = ""

    def __init__(self, folder: Path, setup: Setup) -> None:
        """Lock the folder, leave config and start there and open the log.

        Raises: ConfigError where it cannot be written to, or another trainer uses it.
        """
        self.folder, self._setup = folder, setup
        metrics, first = folder / METRICS_FILE, setup.ranks.first
        try:
            if first:
                self._take()
            self.goes_on = setup.checkpoint is not None or (first and metrics.is_file())
            head = {"env": setup.config.target, "config": setup.config.tables()}
            self.log = JsonLog(metrics, head, kept=first)
        except BaseException as error:
            if self.lock is not None:
                self.lock.close()
            if isinstance(error, OSError):
                raise ConfigError(f"cannot write to the run folder {folder}: {said(error)}") from error
            raise

    def _take(self) -> None:
        """Make the folder if it is missing, lock it and note config and start. Raises: OSError, ConfigError."""
        setup = self._setup
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lock = rundir.RunLock(self.folder)
        rundir.write_config(self.folder, setup.config)
        facts = {
            "env": setup.config.target,
            "device": provenance.device_name(setup.device),
            "seeds": {"train": setup.config.train.seed},
            "resumed_from": None if setup.checkpoint is None else setup.checkpoint.name,
            "measured": setup.chosen.measured,
            "ranks": setup.ranks.size,
            "job": list(setup.ranks.job),
        }
        self.run_id = provenance.record_start(self.folder, facts)

    def refind(self, note: Callable[[str], None]) -> None:
        """Where the folder was deleted under the run, make and lock it again: what was learned must not be lost with it.

        Raises: SaveError, ConfigError.
        """
        assert self.lock is not None
        if not self.lock.lost:
            return
        self.lock.close()
        try:
            self._take()
        except OSError as error:
            raise SaveError(f"cannot save: the run folder {self.folder} is gone: {said(error)}") from error
        note(f"the run folder {self.folder} was deleted: it was made again, without what was in it")

    def close(self) -> None:
        """Close the log, then let go of the folder."""
        self.log.close()
        if self.lock is not None:
            self.lock.close()
