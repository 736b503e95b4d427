# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Metrics as lines of JSON, one per update, in `metrics.jsonl` of the run folder.

The first line of a file is a head with `schema_version`; every other line is one flat object whose keys are fixed:

    step                      agent-steps so far (valid transitions)
    update, elapsed_s         updates and seconds of training so far, over all resumes
    charts/agent_steps_per_s  valid transitions per second since the line before
    charts/env_steps_per_s    env transitions per second
    charts/learning_rate
    episode/return, /length   means over the latest episodes
    losses/<name>             ppo.LOSS_NAMES, grad_norm, explained_variance
    time/<part>               shares of the time since the line before: env, copy, forward, update, other; they add up to 1
    env/<name>                the env's own record values, means over the latest episodes; Python envs: numbers in their infos

Runs in the learner. A write that fails is counted and dropped: a full disk does not end a run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1
METRICS_FILE = "metrics.jsonl"


class JsonLog:
    """Appends metrics to a file; a resumed run goes on in the same file."""

    def __init__(self, path: Path, head: Mapping[str, Any]) -> None:
        """Open `path` for appending and write the head line where the file is new.

        Raises: OSError where the file cannot be opened.
        """
        self.dropped = 0
        new = not path.exists() or path.stat().st_size == 0
        self._file = path.open("a", encoding="utf-8")
        if new:
            self._line({"schema_version": SCHEMA_VERSION, **head})

    def write(self, metrics: Mapping[str, float]) -> None:
        """Append one line; numbers that are not finite become null, since JSON has no word for them."""
        self._line({k: v if math.isfinite(v) else None for k, v in metrics.items()})

    def _line(self, values: Mapping[str, Any]) -> None:
        try:
            self._file.write(json.dumps(values) + "\n")
            self._file.flush()
        except OSError:
            self.dropped += 1

    def close(self) -> None:
        """Close the file."""
        try:
            self._file.close()
        except OSError:
            self.dropped += 1


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the metric lines of a file, without its head; a last line cut short by a crash is left out.

    Raises: ValueError for a file of another schema version.
    """
    with path.open(encoding="utf-8") as file:
        head = json.loads(file.readline() or "{}")
        if head.get("schema_version") != SCHEMA_VERSION:
            raise ValueError(f"{path} has schema_version {head.get('schema_version')}: {SCHEMA_VERSION} is known")
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)
