# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads the metrics of a run while it is under way: each time what has come since, as columns of numbers. Imports no torch.

A line counts once its end is there. What a resumed run did once more is left out, as in puffervec/train/metrics/log.py.
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

from puffervec.host.folder import open_file, said
from puffervec.train.metrics.keys import ELAPSED_S, STEP
from puffervec.train.metrics.log import RESUMED, SCHEMA_VERSION

Floats = NDArray[np.float64]
MOST_READ = 1 << 24  # bytes at once
LONGEST_LINE = 1 << 20
MOST_POINTS = 600  # of a curve that is shown; of more, neighbours are averaged


class Follower:
    """The metrics of a file that may grow, be replaced, or not be there yet.

    Attributes:
        version: changes with what is known. error: why nothing can be read, "" where that is not so. config, env: of its head.
        age_s: since the file was last written to, None where there is none.
    """

    def __init__(self, path: Path) -> None:
        """Args: path: of metrics.jsonl. Nothing is read yet."""
        self.path, self.version, self.error = path, 0, ""
        self._begin(None)

    def _begin(self, file: tuple[int, int] | None) -> None:
        self.env, self.config = "", dict[str, Any]()
        self.age_s: float | None = None
        self._file, self._offset, self._rest, self._headed = file, 0, b"", False
        self._count = 0
        self._columns: dict[str, array[float]] = {}

    def poll(self) -> None:
        """Read what has come. Nothing is raised: `error` says what is wrong."""
        try:
            fd = open_file(self.path)
        except FileNotFoundError:
            self._refuse("")
            return
        except OSError as error:
            self._refuse(said(error))
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
        found = os.fstat(fd)
        if (found.st_dev, found.st_ino) != self._file or found.st_size < self._offset:
            self._begin((found.st_dev, found.st_ino))
            self.error = ""
            self.version += 1
        self.age_s = max(0.0, datetime.datetime.now().timestamp() - found.st_mtime)
        end = min(found.st_size, self._offset + MOST_READ)
        if end <= self._offset or self.error:
            return
        data = self._rest + os.pread(fd, end - self._offset, self._offset)
        self._offset = end
        *lines, self._rest = data.split(b"\n")
        if len(self._rest) > LONGEST_LINE:  # No line of ours.
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
                self.error = f"its metrics have schema_version {version!r:.40}: {SCHEMA_VERSION} is known"
            config = values.get("config")
            self.env, self.config = str(values.get("env", "")), config if isinstance(config, dict) else {}
        elif values.get("event") == RESUMED:
            self._cut(_number(values.get(STEP)))
        elif "event" not in values and not self.error:
            self._add(values)

    def _add(self, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            number = _number(value)
            if key in self._columns or not math.isnan(number):
                column = self._columns.setdefault(key, array("d"))
                column.extend([math.nan] * (self._count - len(column)))
                column.append(number)
        self._count += 1

    def _cut(self, step: float) -> None:
        """Leave out lines of work that was done once more."""
        kept = np.flatnonzero(~(self.column(STEP) > step))
        self._columns = {key: array("d", self.column(key)[kept]) for key in self._columns}
        self._count = len(kept)

    @property
    def keys(self) -> list[str]:
        """All metrics that have numbers, in the order in which they came."""
        return list(self._columns)

    def column(self, key: str) -> Floats:
        """Return (lines,) the numbers of a key, NaN where a line has none."""
        column = np.array(self._columns.get(key, ()), np.float64)
        return np.pad(column, (0, self._count - len(column)), constant_values=math.nan)

    def last(self, key: str) -> float | None:
        """Return the newest number of a key."""
        known = self.column(key)[::-1]
        known = known[np.isfinite(known)]
        return float(known[0]) if len(known) else None

    def curves(self, keys: Sequence[str], most: int = MOST_POINTS) -> dict[str, Any]:
        """Return columns for a page: steps and seconds, and the numbers of each key with None where there is none.

        Of more than `most` lines neighbours are averaged.
        """
        there = np.isfinite(self.column(STEP)) & np.isfinite(self.column(ELAPSED_S))
        names = [key for key in dict.fromkeys(keys) if key in self._columns]
        table = np.stack([self.column(key)[there] for key in (STEP, ELAPSED_S, *names)])
        table = _thinned(table[:, np.argsort(table[0], kind="stable")], most)
        step, elapsed, *rest = ([None if math.isnan(n) else _short(n) for n in row] for row in table.tolist())
        return {"step": step, "elapsed_s": elapsed, "keys": dict(zip(names, rest, strict=True)), "lines": int(there.sum())}


def _thinned(table: Floats, most: int) -> Floats:
    """Return at most `most` columns of a table: means of neighbours, which leave out what is NaN."""
    if table.shape[1] <= most:
        return table
    edges = np.linspace(0, table.shape[1], most + 1).astype(np.int64)[:-1]
    known = np.isfinite(table)
    sums, counts = np.add.reduceat(np.where(known, table, 0.0), edges, axis=1), np.add.reduceat(known, edges, axis=1)
    means: Floats = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    return means


def _number(value: Any) -> float:
    """Return a number of a line, NaN for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300:
        return float(value)
    return math.nan


def _short(number: float) -> float:
    """A number with as many digits as a curve can show; whole ones as they are."""
    return number if number == int(number) else float(f"{number:.7g}")
