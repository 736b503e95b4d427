# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The runs that a page shows: found in folders that the user has named, followed, and told of as JSON. Imports no torch."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from puffervec.errors import ConfigError
from puffervec.host.folder import Folder
from puffervec.train.metrics.curves import unit_of
from puffervec.train.metrics.keys import (
    AGENT_STEPS_PER_S,
    ELAPSED_S,
    ENV,
    EPISODE,
    METRICS,
    SECONDS_LEFT,
    SPAN_S,
    STEP,
    TIME_PARTS,
    UPDATE,
    base,
)
from puffervec.train.metrics.log import METRICS_FILE
from puffervec.web.follow import Follower

RUN_FILES = (METRICS_FILE, "config.json", "run.json")
CHECKPOINTS = "checkpoints"
MOST_RUNS = 100  # of a folder: the newest
MOST_JSON = 1 << 22
# What a page hands out of a run folder, by the end of its name.
SERVED = {
    ".json": "application/json", ".jsonl": "text/plain", ".csv": "text/plain", ".png": "image/png", ".gif": "image/gif",
    ".mp4": "video/mp4", ".html": "text/html",
}  # fmt: skip
QUIET_SPANS, QUIET_S = 5.0, 15.0  # without a line, before a run counts as one that has ended


@dataclass
class Run:
    """A run folder that is watched."""

    path: Path
    name: str
    metrics: Follower
    about: dict[str, Any] = field(default_factory=dict)  # run.json, {} where there is none

    def to_json(self, number: int) -> dict[str, Any]:
        """What a page says of it, all but its curves."""
        metrics = self.metrics
        span = metrics.last(SPAN_S) or 0.0
        shares = time_shares(metrics)
        return {
            "id": number,
            "name": self.name,
            "env": metrics.env,
            "error": metrics.error,
            "version": metrics.version,
            "training": metrics.age_s is not None and metrics.age_s < max(QUIET_SPANS * span, QUIET_S),
            "age_s": metrics.age_s,
            **newest(metrics),
            "keys": curve_keys(metrics),
            "time": shares,
            "checkpoint": self.checkpoint(),
            "files": self.files(),
        }

    def checkpoint(self) -> str | None:
        """The name of the newest checkpoint."""
        return newest_checkpoint(self.path)

    def files(self) -> list[str]:
        """Names of the files in its folder that a page may ask for."""
        with contextlib.suppress(OSError), Folder(self.path) as folder:
            return [name for name in folder.names() if served_as(name) and folder.kind(name) == "file"]
        return []


_LAST = {"step": STEP, "update": UPDATE, "elapsed_s": ELAPSED_S, "per_s": AGENT_STEPS_PER_S, "left_s": SECONDS_LEFT}
_NO_CURVES = (STEP, UPDATE, ELAPSED_S, SPAN_S)


class Board:
    """Runs by number: the same as long as the page is served."""

    def __init__(self, where: Sequence[Path]) -> None:
        """Find the runs. Args: where: run folders, and folders that hold some.

        Raises: ConfigError: there is no such folder, or no run in it.
        """
        self.runs: list[Run] = []
        self._holders = [path for path in where if not is_run(path)]
        for path in where:
            if not path.is_dir():
                raise ConfigError(f"{path} is no folder: give run folders, or folders of runs")
            if is_run(path):
                self._add(path)
        self.refresh()
        if not self.runs:
            raise ConfigError(f"there is no run in {', '.join(map(str, where))}: give run folders, or folders of runs")

    def refresh(self) -> None:
        """Look for new runs and read what has come to all metrics."""
        for holder in self._holders:
            for path in runs_in(holder):
                self._add(path)
        for run in self.runs:
            run.metrics.poll()
            if not run.about:
                run.about = read_json(run.path, "run.json")

    def _add(self, path: Path) -> None:
        if path not in [run.path for run in self.runs]:
            self.runs.append(Run(path, name_of(path), Follower(path / METRICS_FILE), read_json(path, "run.json")))

    def to_json(self) -> dict[str, Any]:
        """All that a page says of runs, all but their curves, and what their metrics are."""
        keys = ranked(key for run in self.runs for key in curve_keys(run.metrics))
        return {
            "runs": [run.to_json(number) for number, run in enumerate(self.runs)],
            "metrics": {key: told_of(key) for key in keys},
            "time": time_meanings(),
        }


def ranked(keys: Iterable[str]) -> list[str]:
    """Return metrics, each once: the env's own, those of episodes, and the others as they came."""
    first = (ENV, EPISODE)
    return sorted(dict.fromkeys(keys), key=lambda key: next((i for i, head in enumerate(first) if key.startswith(head)), 2))


def told_of(key: str) -> dict[str, Any]:
    """What a page says of a metric: its unit, its meaning, and whether it is shown where nobody chose."""
    known = METRICS.get(base(key))
    usual = key.startswith(ENV) or (known is not None and known.usual)
    return {"unit": unit_of(base(key)), "meaning": known.meaning if known is not None else "", "usual": usual}


def newest(metrics: Follower) -> dict[str, float | None]:
    """The newest numbers of a run as a whole."""
    return {name: metrics.last(key) for name, key in _LAST.items()}


def curve_keys(metrics: Follower) -> list[str]:
    """The metrics that can be drawn over steps."""
    return [key for key in metrics.keys if key not in _NO_CURVES]


def time_meanings() -> dict[str, str]:
    """What the parts of a run's time are."""
    return {part: METRICS[key].meaning for part, key in TIME_PARTS.items()}


def time_shares(metrics: Follower) -> dict[str, float]:
    """The mean share of the whole run's time of each of its parts: lines stand for spans of unequal length."""
    ends = metrics.column(ELAPSED_S)
    known = np.isfinite(ends)
    spans = np.diff(ends[known], prepend=0.0)
    whole = max(float(spans.sum()), 1e-9)
    parts = {part: np.nan_to_num(metrics.column(key)[known]) for part, key in TIME_PARTS.items()}
    return {part: float((shares * spans).sum() / whole) for part, shares in parts.items()} if known.any() else {}


def is_run(path: Path) -> bool:
    """Whether a folder is that of a run."""
    try:
        with Folder(path) as folder:
            return any(folder.kind(name) == "file" for name in RUN_FILES) or folder.kind(CHECKPOINTS) == "folder"
    except OSError:
        return False


def runs_in(holder: Path) -> list[Path]:
    """Return the run folders in a folder, the newest last. Links are left out: nobody has named them."""
    found = []
    with contextlib.suppress(OSError), Folder(holder) as folder:
        for name in folder.names():
            with contextlib.suppress(OSError):
                if folder.kind(name) == "folder" and is_run(holder / name):
                    found.append((folder.stat(name).st_mtime, holder / name))
    return [path for _, path in sorted(found)][-MOST_RUNS:]


def newest_checkpoint(run: Path) -> str | None:
    """Return the name of the newest checkpoint of a run folder, None where there is none."""
    with contextlib.suppress(OSError), Folder(run) as folder, folder.below(CHECKPOINTS) as saved:
        return max((name for name in saved.names() if name.isdigit()), key=int, default=None)
    return None


def name_of(path: Path) -> str:
    """The name of a run folder, also where the path is `.`; what is no text in it is shown as it can be."""
    return os.fsencode(path.name or path.absolute().name).decode("utf-8", "replace")


def read_json(path: Path, name: str) -> dict[str, Any]:
    """Return a JSON table of a run folder, {} where there is none that can be read."""
    with contextlib.suppress(OSError, ValueError, RecursionError), Folder(path) as folder:
        found = json.loads(folder.read(name, MOST_JSON))
        return found if isinstance(found, dict) else {}
    return {}


def served_as(name: str) -> str | None:
    """The media type of a file that a page may ask for, None for all others."""
    return SERVED.get(Path(name).suffix.lower())
