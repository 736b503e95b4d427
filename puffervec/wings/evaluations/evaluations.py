# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Evaluate checkpoints of a run while it trains, each in a separate process.

    puffer-train eval RUN/evaluations/checkpoint --suite NAME --json RUN/evaluations/NAME.json

One checkpoint is evaluated at a time, one suite after the other. RUN/evaluations/checkpoint has
hard links to its files, so the run may remove it from RUN/checkpoints meanwhile. RUN/best is the
checkpoint with the highest score; RUN/evaluations/best.json contains that score, so a resumed run
continues from there. Runs in the learner, on the first rank.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from puffervec.commands.train import code_flags
from puffervec.errors import ConfigError
from puffervec.system.background import ONE_THREAD, background_command, set_session_nice
from puffervec.system.folder import replace_file
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import own_evaluation
from puffervec.train.metrics.keys import EVAL

FOLDER, BEST = "evaluations", "best"
CHECKPOINT, STATE = "checkpoint", "best.json"  # below FOLDER
NICE = 5  # With a process of niceness 0 on the same core, an evaluation gets a quarter of it.
ERROR_CHARS = 400  # characters that are shown of the output of a failed evaluation
DEFAULT = ""  # in place of a suite: the env's own evaluation


class Evaluations:
    """The evaluations of one run.

    Attributes:
        best: score of the best checkpoint, None before the first evaluation.
        best_step: agent-steps of that checkpoint.
        since: number of evaluations since the best one.
    """

    def __init__(
        self,
        config: TrainConfig,
        folder: Path,
        note: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare the folder, and read the state that an earlier part of the run has left there.

        Args:
            config: config of the run.
            folder: the run folder.
            note: shows a message permanently.
            clock: returns seconds.
        """
        self._config, self._run, self._note, self._clock = config, folder, note, clock
        self._suites = config.eval.suites or (DEFAULT,)
        self._folder = folder / FOLDER
        self._folder.mkdir(exist_ok=True)
        self._due_s = clock() + config.eval.every_s
        self._process: subprocess.Popen[bytes] | None = None
        self._left: list[str] = []  # suites of the checkpoint that are not evaluated yet
        self._found: dict[str, float] = {}  # metrics of the suites that are
        self._scores: list[float] = []
        self.best: float | None = None
        self.best_step = self.since = self._step = 0
        self._read_state()

    @property
    def exhausted(self) -> bool:
        """Whether `eval.patience` evaluations in a row found no better checkpoint."""
        patience = self._config.eval.patience
        return patience > 0 and self.since >= patience

    def due(self) -> bool:
        """Return whether it is time to evaluate a checkpoint, and none is being evaluated."""
        return self._process is None and self._clock() >= self._due_s

    def start(self, checkpoint: Path, step: int) -> None:
        """Begin to evaluate a checkpoint.

        Args:
            checkpoint: folder of the checkpoint; its files are linked, so it may be removed
                afterwards.
            step: agent-steps of the run.
        """
        self._due_s = self._clock() + self._config.eval.every_s
        try:
            _link_folder(checkpoint, self._folder / CHECKPOINT)
        except OSError as error:
            self._note(f"the checkpoint of {step:,} agent-steps is not evaluated: {error}")
            return
        self._left, self._found, self._scores, self._step = list(self._suites), {}, [], step
        self._begin()

    def poll(self) -> dict[str, float]:
        """Return the metrics of a checkpoint once all its suites are evaluated, else nothing."""
        if self._process is None or self._process.poll() is None:
            return {}
        suite = self._left.pop(0)
        process, self._process = self._process, None
        try:
            self._add(suite, process)
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._note(
                f"the evaluation of {self._step:,} agent-steps failed: {error}; the run continues"
            )
            return {}
        if self._left:
            self._begin()
            return {}
        return self._finish()

    def close(self) -> None:
        """End an evaluation that is under way, and remove the links to its checkpoint."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        shutil.rmtree(self._folder / CHECKPOINT, ignore_errors=True)

    # ---- one suite -------------------------------------------------------------------------------

    def _out(self, suite: str) -> Path:
        return self._folder / f"{suite or 'default'}.json"

    def _begin(self) -> None:
        """Start the process of the next suite."""
        section, suite = self._config.eval, self._left[0]
        self._out(suite).unlink(missing_ok=True)
        # The checkpoint is passed as a path, so that a run with the name of an env is recognized as
        # a run. -P keeps Python from importing from the current folder.
        words = [
            *background_command(NICE),
            sys.executable,
            "-P",
            "-m",
            "puffervec.commands.cli",
            "eval",
            str((self._folder / CHECKPOINT).absolute()),
            "--json",
            str(self._out(suite)),
            *(["--suite", suite] if suite else []),
            *(["--episodes", str(section.episodes)] if section.episodes else []),
            *code_flags(self._config),
        ]
        with (self._folder / "log.txt").open("wb") as log:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **ONE_THREAD},
                start_new_session=True,
            )
        set_session_nice(self._process.pid, NICE)

    def _add(self, suite: str, process: subprocess.Popen[bytes]) -> None:
        """Add the metrics of a suite whose process has ended.

        Raises:
            ValueError: the process failed; the message is the end of its output.
            OSError, KeyError, TypeError: the results cannot be read.
        """
        if process.returncode:
            text = (self._folder / "log.txt").read_text("utf-8", "replace").strip()
            shown = " ".join(text[-ERROR_CHARS:].split())
            raise ValueError(shown or f"it ended with status {process.returncode}")
        results = json.loads(self._out(suite).read_text("utf-8"))
        row = results["total"] or results["rows"][0]
        numbers = {
            name: float(value)
            for name, value in row.items()
            if isinstance(value, (int, float)) and math.isfinite(value)
        }
        # The general evaluation for envs without their own has no score: there the return is used.
        column = self._config.eval.metric or results["score"] or "return"
        if column not in numbers:
            raise ValueError(f"eval.metric is {column!r}: the evaluation has {', '.join(numbers)}")
        self._scores.append(numbers[column])
        prefix = f"{EVAL}{suite}/" if len(self._suites) > 1 else EVAL
        self._found |= {f"{prefix}{name}": value for name, value in numbers.items()}

    # ---- the best one ----------------------------------------------------------------------------

    def _finish(self) -> dict[str, float]:
        """Compare the checkpoint with the best one, and return its metrics."""
        score = sum(self._scores) / len(self._scores)
        text = f"evaluation of {self._step:,} agent-steps: {score:.3f}"
        if self.best is None or score > self.best:
            _replace_folder(self._folder / CHECKPOINT, self._run / BEST)
            self.best, self.best_step, self.since = score, self._step, 0
            self._note(f"{text}, the best so far")
        else:
            self.since += 1
            shutil.rmtree(self._folder / CHECKPOINT, ignore_errors=True)
            self._note(f"{text}; the best is {self.best:.3f} of {self.best_step:,} agent-steps")
            if self.exhausted:
                self._note(f"no better checkpoint in {self.since} evaluations: the run ends")
        state = {"score": self.best, "agent_steps": self.best_step, "since": self.since}
        with contextlib.suppress(OSError):  # A full disk must not end a run that can still train.
            replace_file(self._folder / STATE, json.dumps(state).encode())
        return {**self._found, f"{EVAL}of_step": float(self._step)}

    def _read_state(self) -> None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            state: Any = json.loads((self._folder / STATE).read_text("utf-8"))
            found = float(state["score"]), int(state["agent_steps"]), int(state["since"])
            self.best, self.best_step, self.since = found


def check(config: TrainConfig) -> None:
    """Raise ConfigError if the env lacks a suite, or cannot be made in another process."""
    if config.creator is not None:
        raise ConfigError(
            f"eval.every_s is {config.eval.every_s:g}, but evaluations run in other processes, "
            f"which cannot import {config.target}: put its factory into a module, or leave it out"
        )
    own = own_evaluation(config.target)
    suites = own.suites if own is not None else {}
    for suite in config.eval.suites:
        if suite not in suites:
            raise ConfigError(
                f"eval.suites has {suite!r}: the suites of {config.target} are "
                f"{', '.join(suites) or 'none'}"
            )


def _link_folder(source: Path, target: Path) -> None:
    """Make `target` a folder with links to the files of `source`, or copies on another disk."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for path in source.iterdir():
        try:
            os.link(path, target / path.name)
        except OSError:
            shutil.copy2(path, target / path.name)


def _replace_folder(source: Path, target: Path) -> None:
    """Rename a folder to the name of another one, which it replaces."""
    before = target.with_name(f".{target.name}-before")
    shutil.rmtree(before, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        target.rename(before)
    source.rename(target)
    shutil.rmtree(before, ignore_errors=True)
