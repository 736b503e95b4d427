# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Send metrics to TensorBoard and Weights & Biases, each an extra of the package.

TensorBoard gets every line of `metrics.jsonl`. Weights & Biases, which may send lines over a
network, gets the latest line at most every few seconds, and the last line of the run. Both write
into the run folder, and Weights & Biases also to its server if it is online. A failed tracker is
dropped with a note, and the run continues. Both open their files by name, so links that lead out of
the run folder are refused before they start. Runs in the learner.
"""

from __future__ import annotations

import functools
import importlib
import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from puffervec.errors import ConfigError
from puffervec.system import extras
from puffervec.system.folder import Folder
from puffervec.train.metrics import keys

if TYPE_CHECKING:
    from puffervec.train.config.sections import LogSection

TENSORBOARD_FOLDER, WANDB_FOLDER = "tensorboard", "wandb"


class Tracker(Protocol):
    """A receiver of metrics. Any call may raise any exception, since it runs third-party code."""

    name: str
    every_line: bool  # False: takes lines only every `log.print_interval_s`.

    def write(self, metrics: Mapping[str, float]) -> None:
        """Write one line of metrics."""

    def close(self) -> None:
        """Write what is still buffered."""


class TensorBoard:
    """Event files in the folder `tensorboard` of the run.

    They hold a point per update over agent-steps, and the settings as hyperparameters.
    """

    name = "TensorBoard"
    every_line = True

    def __init__(
        self,
        folder: Path,
        step: int,
        config: Mapping[str, Any],
        metric: str = keys.EPISODE_RETURN,
        flush_s: float = 5.0,
    ) -> None:
        """Open the event files.

        Args:
            folder: The run folder.
            step: Agent-steps from which the run continues; points of later steps are hidden.
            config: The settings as tables of JSON values.
            metric: The metric that measures the success of a run.
            flush_s: Seconds for which points may stay in memory.
        """
        writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter
        self._summary = importlib.import_module("tensorboard.compat.proto.summary_pb2").Summary
        where, purged = str(folder / TENSORBOARD_FOLDER), step + 1 if step else None
        self._writer = writer(where, purge_step=purged, flush_secs=max(1, math.ceil(flush_s)))
        named = importlib.import_module("torch.utils.tensorboard.summary").hparams
        experiment, start, self._end = named(
            hyperparameters(config), dict.fromkeys((keys.EPISODE_RETURN, metric), 0.0)
        )
        for part in (experiment, start):
            self._writer.file_writer.add_summary(part)

    def write(self, metrics: Mapping[str, float]) -> None:
        """Add a point to every curve, in one event: separate ones take twelve times as long."""
        value = self._summary.Value
        points = [
            value(tag=key, simple_value=number)
            for key, number in metrics.items()
            if key != keys.STEP
        ]
        self._writer.file_writer.add_summary(self._summary(value=points), int(metrics[keys.STEP]))

    def close(self) -> None:
        """Write the remaining points and close the files."""
        self._writer.file_writer.add_summary(self._end)
        self._writer.close()


def hyperparameters(config: Mapping[str, Any]) -> dict[str, bool | int | float | str]:
    """Return a run's settings by name, {"train.lr": 0.001, ...}, without those of its log.

    Lists and tables become text.
    """
    flat = {
        f"{section}.{key}": value
        for section, table in config.items()
        if section != "log"
        for key, value in table.items()
    }
    return {
        key: value if isinstance(value, (bool, int, float, str)) else json.dumps(value)
        for key, value in flat.items()
    }


class WeightsAndBiases:
    """A run of Weights & Biases under this run's id, so that a resumed run continues there too."""

    name = "Weights & Biases"
    every_line = False

    def __init__(
        self, folder: Path, log: LogSection, run_id: str, config: Mapping[str, Any]
    ) -> None:
        """Start the run.

        Args:
            folder: The run folder.
            run_id: At most 64 letters and digits.
            config: The settings as tables of JSON values.

        Raises:
            ConfigError: Weights & Biases cannot start, for instance without account or network.
        """
        wandb = importlib.import_module("wandb")
        # The dashboard owns the terminal.
        settings = wandb.Settings(silent=True, console="off")
        try:
            self._run = wandb.init(
                project=log.wandb_project,
                name=folder.name,
                id=run_id,
                resume="allow",
                dir=str(folder),
                mode=log.wandb,
                config=dict(config),
                settings=settings,
            )
            self._run.define_metric("*", step_metric=keys.STEP)
        except Exception as error:
            raise ConfigError(
                f"log.wandb is {log.wandb!r}, but Weights & Biases cannot start "
                f"({_in_one_line(error)}): run `wandb login`, or use --log.wandb offline and "
                "`wandb sync` later"
            ) from error

    def write(self, metrics: Mapping[str, float]) -> None:
        """Log a row. Its x axis is `step`, not the number of rows: a resumed run may step back."""
        self._run.log({key: value for key, value in metrics.items() if math.isfinite(value)})

    def close(self) -> None:
        """Upload the rest and end the run."""
        self._run.finish()


class Trackers:
    """All trackers of a run."""

    def __init__(
        self,
        trackers: list[Tracker],
        interval_s: float,
        note: Callable[[str], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Take over open trackers.

        Args:
            interval_s: Minimum time between two lines, for trackers that do not take every line.
            note: Called with a message if a tracker is dropped.
        """
        self._trackers, self._interval_s, self._note, self._clock = (
            trackers,
            interval_s,
            note,
            clock,
        )
        self._due_s = -1.0
        # The latest line, while it waits until the trackers take one again.
        self._pending: dict[str, float] | None = None

    def write(self, metrics: Mapping[str, float]) -> None:
        """Write a line to the trackers that take every line, and to the others if they are due."""
        self._send([tracker for tracker in self._trackers if tracker.every_line], metrics)
        if all(tracker.every_line for tracker in self._trackers):
            return
        self._pending = dict(metrics)
        now = self._clock()
        if now >= self._due_s:
            self._due_s = now + self._interval_s
            self.flush()

    def flush(self) -> None:
        """Write the latest line to the trackers that have not received it yet."""
        line, self._pending = self._pending, None
        if line is not None:
            self._send([tracker for tracker in self._trackers if not tracker.every_line], line)

    def _send(self, trackers: list[Tracker], line: Mapping[str, float]) -> None:
        for tracker in trackers:
            self._attempt(tracker, functools.partial(tracker.write, line))

    def _attempt(self, tracker: Tracker, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # A failing viewer must not end a run that can still learn.
            self._trackers.remove(tracker)
            self._note(
                f"{tracker.name} failed and receives nothing more ({_in_one_line(error)}); the run "
                "and metrics.jsonl continue"
            )

    def close(self) -> None:
        """Write the last line and close all trackers; may be called twice."""
        self.flush()
        for tracker in list(self._trackers):
            self._attempt(tracker, tracker.close)
        self._trackers.clear()


def require(log: LogSection) -> None:
    """Raise MissingExtraError if a tracker that `log` asks for is not installed; import nothing."""
    for wanted, module in ((log.tensorboard, "tensorboard"), (log.wandb != "off", "wandb")):
        if wanted:
            extras.require(
                f"--log.{module}" + ("" if module == "tensorboard" else f" {log.wandb}"), module
            )


def open_trackers(
    log: LogSection, folder: Path, step: int, run_id: str, config: Mapping[str, Any], metric: str
) -> list[Tracker]:
    """Return the trackers that `log` asks for.

    Args: see the classes above.

    Raises:
        ConfigError: A tracker cannot start.
    """
    opened: list[Tracker] = []
    used = [
        name
        for name, on in ((TENSORBOARD_FOLDER, log.tensorboard), (WANDB_FOLDER, log.wandb != "off"))
        if on
    ]
    for name in used:
        try:
            with Folder(folder) as run:
                run.refuse_ways_out(name)
        except OSError as error:
            raise ConfigError(
                f"log.{name}: cannot use {error.filename or folder / name}: {error.strerror}"
            ) from error
    if log.tensorboard:
        try:
            opened.append(TensorBoard(folder, step, config, metric, log.print_interval_s))
        except OSError as error:
            raise ConfigError(
                f"log.tensorboard: cannot write to {folder / TENSORBOARD_FOLDER}: {error.strerror}"
            ) from error
    if log.wandb != "off":
        opened.append(WeightsAndBiases(folder, log, run_id, config))
    return opened


def _in_one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
