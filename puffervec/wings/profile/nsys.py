# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Nsight Systems: ranges and a window for `nsys profile`, its command line, and its summaries.

puffer-train profile TARGET --nvtx      prints the lines to run; under nsys it marks each phase
                                        and opens the window
nsys stats --format csv                 summaries of CUDA's API, kernels, operations on memory,
                                        and NVTX ranges
puffer-train profile --nsys-csv FILES   launches, synchronisations and copies to the host per
                                        inference
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import math
import shlex
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from puffervec.errors import ConfigError
from puffervec.system.output import table_lines
from puffervec.train.config.tables import format_value
from puffervec.wings.profile.counts import KINDS, kind_of
from puffervec.wings.profile.timing import INFERENCE, ITERATION

REPORT = "puffer-profile"
SUMMARIES = ("cuda_api_sum", "cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "nvtx_sum")
MOST_BYTES, MOST_TIMES = 1 << 26, 1 << 63
ENQUEUE_ONLY = (
    "NVTX ranges show when work was submitted to the GPU, not when it was done: a range that does "
    "not wait ends early, and the wait appears in the next synchronisation"
)
# The columns by which summaries are recognized: one with counts and one with names. Older versions
# write "Time(%)" and "Calls".
_KINDS = {
    "API": (("Num Calls", "Calls"), ("Name",)),
    "NVTX": (("Instances",), ("Range",)),
    "memory": (("Count", "Operations"), ("Operation",)),
    "kernels": (("Instances",), ("Name",)),
}
_TOTAL = ("Total Time (ns)", "Total Time")


@contextlib.contextmanager
def nvtx_range(name: str) -> Iterator[None]:
    """Mark the block for Nsight Systems. Without a GPU nothing is marked."""
    if not torch.cuda.is_available():
        yield
        return
    torch.cuda.nvtx.range_push(name)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        torch.cuda.nvtx.range_pop()  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def window() -> Iterator[None]:
    """Let `nsys profile --capture-range=cudaProfilerApi` record only the block.

    This does nothing without a GPU.
    """
    if not torch.cuda.is_available():
        yield
        return
    runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    runtime.cudaProfilerStart()
    try:
        yield
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record()
        while not done.query():  # type: ignore[no-untyped-call]
            time.sleep(1e-4)  # A synchronisation here would be counted with those of the block.
    finally:
        runtime.cudaProfilerStop()


def command_lines(words: Sequence[str]) -> list[str]:
    """Return the three commands that record and read a trace. words: the command to record."""
    own = shlex.join(words)
    files = [f"{REPORT}_{name}.csv" for name in SUMMARIES]
    return [
        "nsys profile --trace=cuda,nvtx,osrt --sample=none --cuda-graph-trace=graph "
        "--capture-range=cudaProfilerApi --capture-range-end=stop --force-overwrite=true "
        f"--output={REPORT} {own}",
        f"nsys stats --report {','.join(SUMMARIES)} --format csv --force-export=true --output "
        f"{REPORT} {REPORT}.nsys-rep",
        f"puffer-train profile --nsys-csv {' '.join(files)}",
    ]


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a summary: count and total time of a call, kernel, operation or range."""

    name: str
    times: int
    total_ms: float


@dataclasses.dataclass(frozen=True)
class Trace:
    """Summaries of a recording.

    Attributes:
        summaries: rows by kind ("API", "kernels", "memory", "NVTX").
        inferences: how often the range around each call occurred; None if it is not known.
    """

    summaries: dict[str, tuple[Row, ...]]
    inferences: int | None

    def counts(self) -> dict[str, float]:
        """Return the totals of those kinds whose summaries were recorded."""
        sums: dict[str, float] = {}
        for kind, summary in zip(KINDS, ("API", "memory", "API"), strict=True):
            if summary in self.summaries:
                sums[kind] = sum(
                    row.times for row in self.summaries[summary] if kind_of(row.name) == kind
                )
        return sums

    def per_inference(self) -> dict[str, float]:
        """Return `counts` per inference. Raises: ConfigError: their number is not known."""
        if not self.inferences:
            raise ConfigError(
                "the number of inferences is not known: give the NVTX summary (nvtx_sum) with the "
                f"range {INFERENCE!r}, or --iterations N"
            )
        return {kind: times / self.inferences for kind, times in self.counts().items()}

    def __str__(self) -> str:
        """Return the numbers per inference, the heaviest rows of each summary, and notes."""
        parts = [f"{self.inferences} inferences; per inference:"]
        parts += [f"  {times:g} {_NAMES[kind]}" for kind, times in self.per_inference().items()]
        for kind, rows in self.summaries.items():
            heaviest = sorted(rows, key=lambda row: -row.total_ms)[:8]
            cells: list[tuple[str, ...]] = [(kind, "times", "total ms")]
            cells += [
                (_shorten(row.name), f"{row.times:,}", f"{row.total_ms:,.3f}") for row in heaviest
            ]
            parts += table_lines(cells)
        if "NVTX" in self.summaries:
            parts.append(f"  note: {ENQUEUE_ONLY}{self._short_ranges()}")
        return "\n".join(parts)

    def _short_ranges(self) -> str:
        """Return a sentence if the ranges are shorter than the GPU's work in them, else ""."""
        ranges = sum(row.total_ms for row in self.summaries["NVTX"] if _is_inference(row.name))
        busy = sum(row.total_ms for row in self.summaries.get("kernels", ()))
        if not 0 < ranges < busy:
            return ""
        return f". Here the ranges {INFERENCE!r} took {ranges:.3f} ms, the kernels {busy:.3f} ms"


_NAMES = {
    "launches": "launches",
    "copies": "copies from the device to the host",
    "synchronisations": "synchronisations",
}


def _shorten(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:57]}..."


def _is_inference(name: str) -> bool:
    # Names of the default domain, which has no name itself, begin with a colon.
    return name.lstrip(":") in (INFERENCE, ITERATION)


def read_csv(paths: Sequence[str | Path], inferences: int | None = None) -> Trace:
    """Read summaries that `nsys stats --format csv` wrote, in any order, also several per file.

    Args:
        paths: paths of the files.
        inferences: how many inferences were recorded; None: count the ranges of that name.

    Raises:
        ConfigError: a file has no summary.
    """
    summaries: dict[str, tuple[Row, ...]] = {}
    for path in paths:
        tables = _read_file(Path(path))
        if twice := [kind for kind in tables if kind in summaries]:
            raise ConfigError(f"{path}: a second summary of {twice[0]}: give each once")
        summaries |= tables
    if inferences is None:
        inferences = (
            sum(row.times for row in summaries.get("NVTX", ()) if _is_inference(row.name)) or None
        )
    return Trace(summaries, inferences)


def _read_file(path: Path) -> dict[str, tuple[Row, ...]]:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES:,} bytes")
        tables = _tables(data.decode("utf-8-sig"))
        if not tables:
            raise ValueError(f"no header of {', '.join(SUMMARIES)}")
        return tables
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (ValueError, csv.Error) as error:
        raise ConfigError(f"{path} is not a CSV file of nsys stats: {error}") from error


def _tables(text: str) -> dict[str, tuple[Row, ...]]:
    """Return the summaries in a text; skip other lines, such as nsys's messages."""
    tables: dict[str, list[Row]] = {}
    kind, columns = "", (0, 0, 0)
    for number, cells in enumerate(csv.reader(io.StringIO(text)), 1):
        header = _header(cells)
        if header is not None:
            kind, columns = header
            tables[kind] = []
        elif kind and len(cells) > max(columns):
            tables[kind].append(_row(cells, columns, number))
        else:  # An empty line, or a message.
            kind = ""
    return {kind: tuple(rows) for kind, rows in tables.items()}


def _header(cells: Sequence[str]) -> tuple[str, tuple[int, int, int]] | None:
    """Return the kind of a summary and its columns name, count, total; None: not a header."""
    names = [cell.strip() for cell in cells]

    def column(words: Sequence[str]) -> int | None:
        return next((names.index(word) for word in words if word in names), None)

    total = column(_TOTAL)
    for kind, (counts, labels) in _KINDS.items():
        at, label = column(counts), column(labels)
        if at is not None and label is not None and total is not None:
            return kind, (label, at, total)
    return None


def _row(cells: Sequence[str], columns: tuple[int, int, int], number: int) -> Row:
    name, times, total = (cells[column].strip() for column in columns)
    try:
        row = Row(name, int(times.replace(",", "")), float(total.replace(",", "")) / 1e6)
        if 0 <= row.times < MOST_TIMES and 0 <= row.total_ms < math.inf:
            return row
    except ValueError:
        pass
    raise ValueError(
        f"line {number}: {format_value(times)} and {format_value(total)} must be a count below "
        "2**63 and nanoseconds"
    )
