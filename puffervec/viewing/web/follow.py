# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads the metrics of a run while it trains, as columns of numbers.

A line counts once its end has been written. Lines of work that a resumed run has repeated are left
out, as in puffervec/train/metrics/log.py. Imports no torch.
"""

from __future__ import annotations

import datetime
import json
import math
import os
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from puffervec.system.folder import describe_error, open_file
from puffervec.train.metrics.keys import ELAPSED_S, STEP
from puffervec.train.metrics.log import RESUMED, SCHEMA_VERSION

Floats = NDArray[np.float64]
MOST_READ = 1 << 24  # Most bytes read per poll.
LONGEST_LINE = 1 << 20
MOST_POINTS = 600  # Limit for a curve on a page; in longer curves neighbours are averaged.
MOST_KEYS = 2000  # Limit of metrics per run; a page cannot list more.


class Follower:
    """The metrics in a file that may grow, be replaced, or not exist yet.

    Attributes:
        version: changes with the contents.
        error: why nothing can be read, or "".
        remark: what was left out, or "".
        config, env: config and env of the file's head.
        age_s: seconds since the file was last written; None if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        """Prepare to read. Args: path: path of metrics.jsonl."""
        self.path, self.version, self.error = path, 0, ""
        self._begin(None)

    def _begin(self, file: tuple[int, int] | None) -> None:
        self.env, self.config, self.remark = "", dict[str, Any](), ""
        self.age_s: float | None = None
        self._file, self._offset, self._rest, self._headed = file, 0, b"", False
        self._count = 0  # Lines of metrics.
        # For each metric, the lines that have it and its numbers there: so memory grows with the
        # size of the file, not with lines times metrics.
        self._columns: dict[str, tuple[array[int], array[float]]] = {}
        # For each resume the number of lines before it, and the step of its checkpoint.
        self._resumes: tuple[array[int], array[float]] = array("q"), array("d")
        # Lines that no resume has undone; None: not computed yet.
        self._valid: NDArray[np.bool_] | None = None

    def poll(self) -> None:
        """Read new lines. Nothing is raised: `error` reports problems."""
        try:
            fd = open_file(self.path)
        except FileNotFoundError:
            self._refuse("")
            return
        except OSError as error:
            self._refuse(describe_error(error))
            return
        try:
            self._read(fd)
        finally:
            os.close(fd)

    def _refuse(self, error: str) -> None:
        if (self._file, self.error) != (None, error):
            self._begin(None)
            self.error = error
            self.version += 1

    def _read(self, fd: int) -> None:
        stat = os.fstat(fd)
        if (stat.st_dev, stat.st_ino) != self._file or stat.st_size < self._offset:
            self._begin((stat.st_dev, stat.st_ino))
            self.error = ""
            self.version += 1
        self.age_s = max(0.0, datetime.datetime.now().timestamp() - stat.st_mtime)
        end = min(stat.st_size, self._offset + MOST_READ)
        if self.error:
            return
        data = self._rest + os.pread(fd, end - self._offset, self._offset)
        self._offset = end
        *lines, self._rest = data.split(b"\n")
        if len(self._rest) > LONGEST_LINE:  # puffervec writes no such line.
            self._rest = b""
        for line in lines:
            self._take(line)
        self.version += bool(lines)

    def _take(self, line: bytes) -> None:
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(values, dict):
            return
        if not self._headed:
            self._headed = True
            version = values.get("schema_version")
            if version != SCHEMA_VERSION:
                self.error = (
                    f"its metrics have schema_version {version!r:.40}: must be {SCHEMA_VERSION}"
                )
            config = values.get("config")
            self.env, self.config = (
                str(values.get("env", "")),
                config if isinstance(config, dict) else {},
            )
        elif values.get("event") == RESUMED:
            self._resume(_number(values.get(STEP)))
        elif "event" not in values and not self.error:
            self._add(values)

    def _add(self, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            number = _number(value)
            if math.isnan(number):
                continue
            if key not in self._columns and len(self._columns) == MOST_KEYS:
                self.remark = f"it has more than {MOST_KEYS} metrics: later ones are left out"
                continue
            lines, numbers = self._columns.setdefault(key, (array("q"), array("d")))
            lines.append(self._count)
            numbers.append(number)
        self._count += 1
        self._valid = None

    def _resume(self, step: float) -> None:
        """Mark the lines after a step as undone, since their work is repeated."""
        lines, steps = self._resumes
        lines.append(self._count)
        steps.append(0 if math.isnan(step) else step)
        self._valid = None

    def _valid_lines(self) -> NDArray[np.bool_]:
        """Return (lines,) bool: True for the lines that no later resume has undone."""
        if self._valid is None:
            before, steps = self._resumes
            limits = np.full(self._count + 1, math.inf)
            np.minimum.at(limits, np.array(before, np.int64), np.array(steps, np.float64))
            lowest = np.minimum.accumulate(limits[::-1])[::-1]
            self._valid = ~(self._every(STEP) > lowest[1:])
        return self._valid

    def _every(self, key: str) -> Floats:
        """Return the numbers of a metric on all lines, including those undone by a resume."""
        column = np.full(self._count, math.nan)
        if key in self._columns:
            lines, numbers = self._columns[key]
            column[np.array(lines, np.int64)] = np.array(numbers, np.float64)
        return column

    @property
    def keys(self) -> list[str]:
        """All metrics with numbers, in the order of their first lines."""
        return list(self._columns)

    def column(self, key: str) -> Floats:
        """Return (lines,) the numbers of a metric, NaN where a line has none."""
        column: Floats = self._every(key)[self._valid_lines()]
        return column

    def last(self, key: str) -> float | None:
        """Return the newest number of a metric, or None if it has none."""
        known = self.column(key)[::-1]
        known = known[np.isfinite(known)]
        return float(known[0]) if len(known) else None

    def curves(self, keys: Sequence[str], most: int = MOST_POINTS) -> dict[str, Any]:
        """Return columns for a page: steps, seconds, and the numbers of each metric.

        Gaps are None. If there are more than `most` lines, neighbours are averaged.
        """
        steps = self.column(STEP)
        present = np.flatnonzero(np.isfinite(steps) & np.isfinite(self.column(ELAPSED_S)))
        order = present[np.argsort(steps[present], kind="stable")]
        names = [key for key in dict.fromkeys(keys) if key in self._columns]

        def points(key: str) -> list[float | None]:
            numbers = _thin(self.column(key)[order], most).tolist()
            return [None if math.isnan(number) else _round_digits(number) for number in numbers]

        return {
            "step": points(STEP),
            "elapsed_s": points(ELAPSED_S),
            "keys": {key: points(key) for key in names},
            "lines": len(order),
        }


def _thin(column: Floats, most: int) -> Floats:
    """Return at most `most` numbers of a column: means of neighbours, ignoring NaN."""
    if len(column) <= most:
        return column
    edges = np.linspace(0, len(column), most + 1).astype(np.int64)[:-1]
    known = np.isfinite(column)
    sums = np.add.reduceat(np.where(known, column, 0.0), edges)
    counts = np.add.reduceat(known.astype(np.int64), edges)
    means: Floats = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    return means


def _number(value: Any) -> float:
    """Return a number of a line, NaN for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300:
        return float(value)
    return math.nan


def _round_digits(number: float) -> float:
    """Return a number with as many digits as a curve can show; integers unchanged."""
    return number if number == int(number) else float(f"{number:.7g}")
