# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The runs that a page shows: found in the user's folders, followed, and described as JSON.

Imports no torch.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from puffervec.errors import ConfigError
from puffervec.system.folder import Folder
from puffervec.train.config.target import training_of
from puffervec.train.metrics.curves import unit_of
from puffervec.train.metrics.keys import (
    AGENT_STEPS_PER_S,
    ELAPSED_S,
    ENV,
    EPISODE,
    EPISODE_RETURN,
    EVAL,
    METRICS,
    SECONDS_LEFT,
    SPAN_S,
    STEP,
    TIME_PARTS,
    UPDATE,
    base,
    rates_policy,
)
from puffervec.train.metrics.log import METRICS_FILE
from puffervec.viewing.web.follow import Follower

RUN_FILES = (METRICS_FILE, "config.json", "run.json")
CHECKPOINTS = "checkpoints"
MANIFEST = "manifest.json"  # file in a checkpoint
MOST_RUNS = 100  # runs shown per folder: the newest
MOST_CHECKPOINTS = 1000  # checkpoints examined per run: those with the most steps
MOST_JSON = 1 << 22
# Agent-steps, followed by a number if the same step was saved again.
_CHECKPOINT_NAME = re.compile(r"([0-9]+)(?:-([0-9]+))?")
# Media types of the files of a run folder that a page serves, by suffix.
MEDIA_TYPES = {
    ".json": "application/json",
    ".jsonl": "text/plain",
    ".csv": "text/plain",
    ".png": "image/png",
    ".gif": "image/gif",
    ".mp4": "video/mp4",
    ".html": "text/html",
}
# A run has ended if no line came for QUIET_SPANS times its last span and for QUIET_S seconds.
QUIET_SPANS, QUIET_S = 5.0, 15.0


@dataclass
class Run:
    """A run folder that is followed."""

    path: Path
    name: str
    metrics: Follower
    about: dict[str, Any] = field(default_factory=dict)  # run.json, {} if there is none
    # Names of the run's checkpoints, and the newest of them.
    _checkpoints: tuple[list[str], str | None] = ([], None)

    def to_json(self, number: int) -> dict[str, Any]:
        """Return everything that a page shows of the run, except its curves."""
        metrics = self.metrics
        span = metrics.last(SPAN_S) or 0.0
        shares = time_shares(metrics)
        return {
            "id": number,
            "name": self.name,
            "env": metrics.env,
            "error": metrics.error,
            "remark": metrics.remark,
            "version": metrics.version,
            "training": metrics.age_s is not None
            and metrics.age_s < max(QUIET_SPANS * span, QUIET_S),
            "age_s": metrics.age_s,
            **last_values(metrics),
            "keys": curve_keys(metrics),
            "time": shares,
            "checkpoint": self.checkpoint(),
            "files": self.files(),
        }

    def checkpoint(self) -> str | None:
        """Return the name of the newest checkpoint.

        Manifests are read again only if the names have changed.
        """
        with (
            contextlib.suppress(OSError),
            Folder(self.path) as folder,
            folder.below(CHECKPOINTS) as saved,
        ):
            names = saved.names()
            if names != self._checkpoints[0]:
                self._checkpoints = names, _find_newest(saved, names)
            return self._checkpoints[1]
        return None

    def files(self) -> list[str]:
        """Return the names of the files in the run folder that a page may request."""
        with contextlib.suppress(OSError), Folder(self.path) as folder:
            return [
                name for name in folder.names() if media_type(name) and folder.kind(name) == "file"
            ]
        return []


_LAST = {
    "step": STEP,
    "update": UPDATE,
    "elapsed_s": ELAPSED_S,
    "per_s": AGENT_STEPS_PER_S,
    "left_s": SECONDS_LEFT,
    "score": f"{ENV}score",
    "return": EPISODE_RETURN,
}
_NO_CURVES = (STEP, UPDATE, ELAPSED_S, SPAN_S)


class Board:
    """The runs of a page, by numbers that stay the same as long as the page is served."""

    def __init__(self, where: Sequence[Path]) -> None:
        """Find the runs.

        Args:
            where: run folders, and folders that contain run folders, now or later.

        Raises:
            ConfigError: a folder does not exist.
        """
        self.runs: list[Run] = []
        self._holders = [path for path in where if not is_run(path)]
        for path in where:
            if not path.is_dir():
                state = "is not a folder" if path.exists() else "does not exist"
                raise ConfigError(f"{path} {state}: give run folders, or folders of runs")
            if is_run(path):
                self._add(path)
        self.refresh()

    def refresh(self) -> None:
        """Look for new runs and read the new lines of all metrics."""
        for holder in self._holders:
            for path in [holder] if is_run(holder) else runs_in(holder):
                self._add(path)
        for run in self.runs:
            run.metrics.poll()
            if not run.about:
                run.about = read_json(run.path, "run.json")

    def _add(self, path: Path) -> None:
        if path not in [run.path for run in self.runs]:
            self.runs.append(
                Run(path, name_of(path), Follower(path / METRICS_FILE), read_json(path, "run.json"))
            )

    def to_json(self) -> dict[str, Any]:
        """Return everything that a page shows of the runs and their metrics, except the curves."""
        keys = rank_metrics(key for run in self.runs for key in curve_keys(run.metrics))
        meanings = self._meanings()
        return {
            "runs": [run.to_json(number) for number, run in enumerate(self.runs)],
            "folders": [name_of(path) for path in self._holders],
            "metrics": {key: describe_metric(key, meanings) for key in keys},
            "time": time_meanings(),
        }

    def _meanings(self) -> dict[str, str]:
        """Return the meanings of the metrics that the runs' envs record.

        If two envs record metrics of the same name, their meanings are joined.
        """
        found: dict[str, dict[str, None]] = {}
        for env in dict.fromkeys(run.metrics.env for run in self.runs):
            for name, meaning in _meanings_of(env).items():
                found.setdefault(name, {})[meaning] = None
        return {name: "; ".join(meanings) for name, meanings in found.items()}


@cache
def _meanings_of(env: str) -> Mapping[str, str]:
    """Return the meanings of the metrics that an env records; none if it is not installed."""
    with contextlib.suppress(ConfigError, ImportError):
        return training_of(env).meanings
    return {}


def rank_metrics(keys: Iterable[str]) -> list[str]:
    """Sort metrics without duplicates: evaluations, the env's, episodes, then the rest as given."""
    first = (EVAL, ENV, EPISODE)
    return sorted(
        dict.fromkeys(keys),
        key=lambda key: next(
            (i for i, head in enumerate(first) if key.startswith(head)), len(first)
        ),
    )


def describe_metric(key: str, own: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a metric's unit, its meaning, and whether a page shows it by default.

    Args:
        key: name of the metric.
        own: meanings of the metrics that the env records (`Training.meanings`).
    """
    known = METRICS.get(base(key))
    usual = key.startswith(ENV) or rates_policy(key) or (known is not None and known.usual)
    return {
        "unit": unit_of(base(key)),
        "meaning": known.meaning if known else (own or {}).get(key.removeprefix(ENV), ""),
        "usual": usual,
    }


def last_values(metrics: Follower) -> dict[str, float | None]:
    """Return the last values of the metrics that describe a run as a whole."""
    return {name: metrics.last(key) for name, key in _LAST.items()}


def curve_keys(metrics: Follower) -> list[str]:
    """Return the metrics that can be drawn over steps."""
    return [key for key in metrics.keys if key not in _NO_CURVES]


def time_meanings() -> dict[str, str]:
    """Return the meanings of the parts of a run's time."""
    return {part: METRICS[key].meaning for part, key in TIME_PARTS.items()}


def time_shares(metrics: Follower) -> dict[str, float]:
    """Return each part's share of the whole run's time, weighted by the length of the lines' spans.

    Spans of negative length count as empty, and shares are clipped to [-1, 1], so that whatever
    the file holds, the result can be written as JSON.
    """
    ends = metrics.column(ELAPSED_S)
    known = np.isfinite(ends)
    spans = np.maximum(np.diff(ends[known], prepend=0.0), 0.0)
    if not spans.any():
        return {}
    weights = spans / spans.max()
    parts = {
        part: np.nan_to_num(metrics.column(key)[known]).clip(-1.0, 1.0)
        for part, key in TIME_PARTS.items()
    }
    return {part: float((shares * weights).sum() / weights.sum()) for part, shares in parts.items()}


def is_run(path: Path) -> bool:
    """Return whether a folder is a run folder."""
    try:
        with Folder(path) as folder:
            return (
                any(folder.kind(name) == "file" for name in RUN_FILES)
                or folder.kind(CHECKPOINTS) == "folder"
            )
    except OSError:
        return False


def runs_in(holder: Path) -> list[Path]:
    """Return the run folders in a folder, the newest last, without links.

    Links may lead to folders that the user has not named.
    """
    found = []
    with contextlib.suppress(OSError), Folder(holder) as folder:
        for name in folder.names():
            with contextlib.suppress(OSError):
                if folder.kind(name) == "folder" and is_run(holder / name):
                    found.append((folder.stat(name).st_mtime, holder / name))
    return [path for _, path in sorted(found)][-MOST_RUNS:]


def newest_checkpoint(run: Path) -> str | None:
    """Return the name of the newest checkpoint of a run folder, None if there is none."""
    with contextlib.suppress(OSError), Folder(run) as folder, folder.below(CHECKPOINTS) as saved:
        return _find_newest(saved, saved.names())
    return None


def _find_newest(saved: Folder, names: Iterable[str]) -> str | None:
    """Return the name of the checkpoint that was saved last, None if there is none.

    After a run was resumed from an older checkpoint, there are folders with more steps than the
    newest one has, so `sequence` in the manifests decides, as in
    puffervec/train/run/checkpoint.py.
    """
    named = [found for name in names if (found := _CHECKPOINT_NAME.fullmatch(name))]
    by_steps = sorted(named, key=lambda found: (int(found[1]), int(found[2] or 0)))[
        -MOST_CHECKPOINTS:
    ]
    orders = [(_sequence(saved, found[0]), place) for place, found in enumerate(by_steps)]
    newest = max(((order, place) for order, place in orders if order is not None), default=None)
    return None if newest is None else by_steps[newest[1]][0]


def _sequence(saved: Folder, name: str) -> int | None:
    """Return a checkpoint's number within its run, None if the folder is not a checkpoint.

    Checkpoints written by older versions have number 0.
    """
    with contextlib.suppress(OSError), saved.below(name) as folder:
        sequence = (
            _table(folder, MANIFEST).get("sequence", 0) if folder.kind(MANIFEST) == "file" else None
        )
        return sequence if isinstance(sequence, int) else None
    return None


def name_of(path: Path) -> str:
    """Return the name of a run folder, also of `.`; bytes that are not UTF-8 are replaced."""
    return os.fsencode(path.name or path.absolute().name).decode("utf-8", "replace")


def read_json(path: Path, name: str) -> dict[str, Any]:
    """Return a JSON table of a run folder, {} if there is none that can be read."""
    with contextlib.suppress(OSError), Folder(path) as folder:
        return _table(folder, name)
    return {}


def _table(folder: Folder, name: str) -> dict[str, Any]:
    """Return a JSON table of a folder, {} if there is none.

    NaN and infinity become None: they are not valid JSON, so pages cannot contain them.
    """
    with contextlib.suppress(OSError, ValueError, RecursionError):
        found = json.loads(
            folder.read(name, MOST_JSON), parse_constant=lambda word: None, parse_float=_finite
        )
        return found if isinstance(found, dict) else {}
    return {}


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None  # 1e999 is infinite


def media_type(name: str) -> str | None:
    """Return the media type of a file that a page may request, None for all other files."""
    return MEDIA_TYPES.get(Path(name).suffix.lower())
