# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Write and read metrics as lines of JSON, one per update, in `metrics.jsonl` of the run folder.

The first line of a file is a header with `schema_version`. A resumed run adds a marker, {"event":
"resumed", ...}. Every other line is one flat object of numbers by metric name (keys.py).

Runs in the learner. A write that fails is counted and dropped: a full disk does not end a run. The
file must be a plain file, not a link (folder.py), and lines that are read have a maximum length.
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
# Upper bound on the bytes of memory per byte of a file whose lines are kept as dicts.
_GROWTH = 16


class JsonLog:
    """A log that appends metrics to a file; a resumed run continues in the same file.

    A file that is deleted during the run is created again.
    """

    def __init__(self, path: Path, head: Mapping[str, Any], write: bool = True) -> None:
        """Open `path` for appending and write the header line if the file is new.

        Args:
            write: False to write nothing anywhere, as on all ranks but the first.

        Raises:
            OSError: The file cannot be opened.
        """
        self.path, self.dropped, self.reason = path, 0, ""
        self._head = _as_line({"schema_version": SCHEMA_VERSION, **head})
        self._file = _LineFile(path) if write else None
        # If the header cannot be written now, it precedes the first line that can be written.
        with contextlib.suppress(OSError):
            self._append(b"")

    def write(self, metrics: Mapping[str, float]) -> bool:
        """Append one line; numbers that are not finite become null, since JSON cannot express them.

        Returns:
            False if the line was dropped; `reason` then says why.
        """
        try:
            self._append(_as_line({k: v if math.isfinite(v) else None for k, v in metrics.items()}))
            return True
        except OSError as error:
            self.dropped += 1
            self.reason = reason(error, self.path.parent, 2**20)
            return False

    def mark(self, event: str, **values: Any) -> None:
        """Append a line that is not metrics: {"event": event, ...}.

        It is left out if it cannot be written.
        """
        with contextlib.suppress(OSError):
            self._append(_as_line({"event": event, **values}))

    def _append(self, line: bytes) -> None:
        if self._file is None:
            return
        if self._file.deleted:
            self._file.close()
            self._file = _LineFile(self.path)
        self._file.append(line if self._file.size else self._head + line)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


class _LineFile:
    """A file that grows by whole lines: a line torn by a crash or a full disk is cut off."""

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
    """Yield the metric lines of a file in the order of their steps, without header and markers.

    Lines torn by a crash or a full disk are left out, and so are lines that a resumed run replaced:
    those between the checkpoint that it continued from and the end of the previous process.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file has another schema version or does not fit into memory.
    """
    entries: list[dict[str, Any]] = []
    lines = _lines(path)
    head = next(lines, {})
    if head.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(
            f"{path} has schema_version {head.get('schema_version')!r:.40}: this version of "
            f"puffervec reads {SCHEMA_VERSION}"
        )
    for values in lines:
        if values.get("event") == RESUMED or "event" not in values:
            entries.append(values)
    # Backwards, so that one pass suffices for any number of resumes.
    lines_left, limit = list[dict[str, Any]](), math.inf
    for values in reversed(entries):
        if values.get("event") == RESUMED:
            limit = min(limit, _step(values))
        elif _step(values) <= limit:
            lines_left.append(values)
    yield from reversed(lines_left)


def read_head(path: Path) -> dict[str, Any]:
    """Return the first line of a file, or {} if it is not a JSON object.

    Raises:
        OSError, ValueError: As for `read_metrics`.
    """
    return next(_lines(path), {})


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield each line that is a JSON object."""
    with os.fdopen(open_file(path), "rb") as file:
        size, free = os.fstat(file.fileno()).st_size, psutil.virtual_memory().available
        if size * _GROWTH > free:
            raise ValueError(
                f"{path} has {size} bytes: reading it takes {_GROWTH} times that, but only {free} "
                "bytes are available"
            )
        while line := file.readline(_LONGEST_LINE):
            with contextlib.suppress(ValueError, RecursionError):
                if isinstance(values := json.loads(line), dict):
                    yield values


def _step(values: Mapping[str, Any]) -> float:
    step = values.get(keys.STEP, 0)
    return float(step) if isinstance(step, (int, float)) and abs(step) < 2**63 else 0.0
