# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Metrics as lines of JSON, one per update, in `metrics.jsonl` of the run folder.

The first line of a file is a head with `schema_version`; where a run was resumed stands a marker,
{"event": "resumed", ...}; every other line is one flat object of numbers, whose keys are those of
keys.py.

Runs in the learner. A write that fails is counted and dropped: a full disk does not end a run. The
file is never a link or something else than a plain file (folder.py), and a line that is read has a
longest length.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from puffervec.system.folder import folder_of, open_file, reason
from puffervec.train.metrics import keys

SCHEMA_VERSION = 1
METRICS_FILE = "metrics.jsonl"
RESUMED = "resumed"  # The event of a marker.
_LONGEST_LINE = 2**20
_GROWTH = 16  # At most; bytes of memory per byte of a file whose lines are kept as tables.


class JsonLog:
    """Appends metrics to a file; a resumed run goes on in the same file. A file that is deleted
    meanwhile is made again.
    """

    def __init__(self, path: Path, head: Mapping[str, Any], kept: bool = True) -> None:
        """Open `path` for appending and write the head line where the file is new.

        Args: kept: False: lines are taken and written nowhere, as on ranks beside the first one.
        Raises: OSError where the file cannot be opened.
        """
        self.path, self.dropped, self.reason = path, 0, ""
        self._head = _as_line({"schema_version": SCHEMA_VERSION, **head})
        self._file = _Appended(path) if kept else None
        with contextlib.suppress(OSError):  # Then it comes with the first line that can be written.
            self._append(b"")

    def write(self, metrics: Mapping[str, float]) -> bool:
        """Append one line; numbers that are not finite become null, since JSON has no word for
        them.

        Returns: False where the line was dropped; `reason` says why.
        """
        try:
            self._append(_as_line({k: v if math.isfinite(v) else None for k, v in metrics.items()}))
            return True
        except OSError as error:
            self.dropped += 1
            self.reason = reason(error, self.path.parent, 2**20)
            return False

    def mark(self, event: str, **values: Any) -> None:
        """Append a line that is no metrics: {"event": event, ...}. One that cannot be written is
        left out.
        """
        with contextlib.suppress(OSError):
            self._append(_as_line({"event": event, **values}))

    def _append(self, line: bytes) -> None:
        if self._file is None:
            return
        if self._file.deleted:
            self._file.close()
            self._file = _Appended(self.path)
        self._file.append(line if self._file.size else self._head + line)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


class _Appended:
    """A file that grows by whole lines: what a crash or a full disk left of a line is cut off."""

    def __init__(self, path: Path) -> None:
        with folder_of(path) as (folder, name):
            fd = folder.open(name, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        self._fd, self._finalizer = fd, weakref.finalize(self, os.close, fd)
        if self.size:
            self._cut_torn_line()

    @property
    def size(self) -> int:
        return os.fstat(self._fd).st_size

    @property
    def deleted(self) -> bool:
        return not self._finalizer.alive or os.fstat(self._fd).st_nlink == 0

    def _cut_torn_line(self) -> None:
        end = self.size
        tail = os.pread(self._fd, _LONGEST_LINE, max(0, end - _LONGEST_LINE))
        if not tail.endswith(b"\n"):
            os.ftruncate(self._fd, end - len(tail) + tail.rfind(b"\n") + 1)

    def append(self, data: bytes) -> None:
        before = self.size
        written = os.write(self._fd, data)
        if written < len(data):
            os.ftruncate(self._fd, before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        self._finalizer()


def _as_line(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values) + "\n").encode()


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the metric lines of a file in the order of their steps, without its head and markers.

    Left out are lines cut short by a crash or a full disk, and what a resumed run did once more:
    lines between the checkpoint it went on from and the end of the process before.
    Raises: OSError; ValueError for a file of another schema version, or one that memory has no room
        for.
    """
    found: list[dict[str, Any]] = []
    lines = _lines(path)
    head = next(lines, {})
    if head.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(
            f"{path} has schema_version {head.get('schema_version')!r:.40}: {SCHEMA_VERSION} is "
            "known"
        )
    for values in lines:
        if values.get("event") == RESUMED or "event" not in values:
            found.append(values)
    # From the end, so that any number of resumes takes one pass.
    kept, limit = list[dict[str, Any]](), math.inf
    for values in reversed(found):
        if values.get("event") == RESUMED:
            limit = min(limit, _step(values))
        elif _step(values) <= limit:
            kept.append(values)
    yield from reversed(kept)


def read_head(path: Path) -> dict[str, Any]:
    """Return the first line of a file, {} where it is no table. Raises: OSError, ValueError as
    `read_metrics`.
    """
    return next(_lines(path), {})


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield each line that is a table."""
    with os.fdopen(open_file(path), "rb") as file:
        size, free = os.fstat(file.fileno()).st_size, psutil.virtual_memory().available
        if size * _GROWTH > free:
            raise ValueError(
                f"{path} has {size} bytes: to read it takes {_GROWTH} times that, and {free} "
                "bytes are available"
            )
        while line := file.readline(_LONGEST_LINE):
            with contextlib.suppress(ValueError, RecursionError):
                if isinstance(values := json.loads(line), dict):
                    yield values


def _step(values: Mapping[str, Any]) -> float:
    step = values.get(keys.STEP, 0)
    return float(step) if isinstance(step, (int, float)) and abs(step) < 2**63 else 0.0
