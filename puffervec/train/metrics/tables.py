# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Print tables and notes on the command line, as plain text."""

from __future__ import annotations

import math
import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Collection

from puffervec.contract.evaluation import Report, cells_of
from puffervec.system.output import one_line, printable, table_lines

WIDE = 160  # Characters per line of a table in a file or a pipe.
MOST_ROWS = 20  # Longer tables are cut to FIRST_ROWS.
FIRST_ROWS = 10
PROGRESS = "progress"  # The first word of a line of `ProgressLines`.
PROGRESS_EVERY_S = 0.5
REST = "--all prints all, --csv and --json write all"


def print_report(
    report: Report, title: str, parts: bool = True, every: bool = False, whole: Collection[str] = ()
) -> None:
    """Print the report of an evaluation; a table that is too wide is transposed or split.

    If there are many parts, print the total and, below it, the parts with the lowest scores.

    Args:
        parts: False to print only the total, if there is one.
        every: Print all parts, however many there are.
        whole: Names of tables of which all lines and columns are printed.
    """
    cells, lowest = report.cells(), list[str]()
    short = (
        parts
        and not every
        and len(report.rows) > MOST_ROWS
        and report.score is not None
        and report.total is not None
    )
    if (short or not parts) and report.total is not None:
        cells = [cells[0], cells[-1]]
    if short:
        worst = _fit_table(cells_of(report.worst_rows(FIRST_ROWS), report.shown))
        lowest = ["", f"lowest {report.score} of {len(report.rows)}: {REST}", *worst]
    lines = _fit_table(cells)
    more = report.rest()
    if more:
        lines += ["", *table_lines([("also of all", ""), *more])]
    lines += lowest
    printed = {
        name: rows for name, rows in report.tables.items() if parts and name not in report.unprinted
    }
    for name, rows in printed.items():
        shown = rows if every or name in whole or len(rows) <= MOST_ROWS else rows[:FIRST_ROWS]
        columns = () if name in whole else report.columns.get(name, ())
        lines += ["", f"{name}: {len(rows)}", *_fit_table(cells_of(shown, columns))] if rows else []
        lines += (
            [f"  ... and {len(rows) - len(shown)} more: {REST}"] if len(shown) < len(rows) else []
        )
    remarks = [f"  {one_line(remark)}" for remark in report.remarks]
    if sys.stdout.isatty():
        remarks = [
            line
            for remark in remarks
            for line in textwrap.wrap(remark, _table_width(), subsequent_indent="    ")
        ]
    print("\n" + printable("\n".join([title, *lines, *remarks])))


def _fit_table(cells: list[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table that fit the width.

    A table that is too wide is transposed. If that does not fit either, it is split into several
    tables below each other, each of which begins with the columns that name the rows.
    """
    width = _table_width()

    def fits(table: list[tuple[str, ...]]) -> bool:
        return max(map(len, table_lines(table))) <= width

    transposed = list(zip(*cells, strict=True))
    if fits(cells) or fits(transposed):
        return table_lines(cells if fits(cells) else transposed)
    keys = _count_keys(cells)
    if any(
        not fits([(*row[:keys], row[at]) for row in cells]) for at in range(keys, len(transposed))
    ):
        keys = 1  # All key columns leave too little width for the others.
    lines: list[str] = []
    names = block = [row[:keys] for row in cells]
    for column in transposed[keys:]:
        wider = [(*row, cell) for row, cell in zip(block, column, strict=True)]
        if len(block[0]) > keys and not fits(wider):
            lines += [*table_lines(block), ""]
            wider = [(*row, cell) for row, cell in zip(names, column, strict=True)]
        block = wider
    return lines + table_lines(block)


def _count_keys(cells: list[tuple[str, ...]]) -> int:
    """Return how many of a table's first columns tell its rows apart; 1 if none do."""
    counts = range(1, len(cells[0]))
    return next((n for n in counts if len({row[:n] for row in cells}) == len(cells)), 1)


def _table_width() -> int:
    """Return the width for tables in characters: the terminal's, or WIDE for files and pipes."""
    return shutil.get_terminal_size((WIDE, 0)).columns if sys.stdout.isatty() else WIDE


def note(text: str) -> None:
    """Print a note on standard error, apart from the results."""
    print(f"puffer-train: note: {printable(text)}", file=sys.stderr)


class ProgressLines:
    """A printer of "progress ACT SHARE" on standard error, for programs that run the command.

    It prints at most twice a second, and at the end of an act.
    """

    def __init__(self) -> None:
        self._last = ("", -math.inf)

    def __call__(self, act: str, share: float) -> None:
        """Print the finished share of an act (see `contract.evaluation.report_progress`)."""
        now = time.monotonic()
        if act != self._last[0] or now >= self._last[1] + PROGRESS_EVERY_S or share >= 1.0:
            self._last = act, now
            print(f"{PROGRESS} {act} {share:.3f}", file=sys.stderr, flush=True)


def print_command(*words: object) -> None:
    """Print a command for people to copy, quoted for a shell."""
    print(f"  {shlex.join(map(str, words))}")
