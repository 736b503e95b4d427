# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A progress bar on a terminal, if rich is installed (the extra `train`). Runs in the learner."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from puffervec.system import extras


@contextlib.contextmanager
def progress(
    what: str, total: int, done: int = 0, shown: bool = True
) -> Iterator[Callable[..., None]]:
    """Show progress on standard error.

    Yields a function to call after each item, or with a number of items.

    Args:
        what: a word or two.
        done: items that need no work.
        shown: False shows nothing.
    """
    if not (shown and sys.stderr.isatty() and extras.installed("rich")):
        yield lambda count=1: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, completed=done)
        yield lambda count=1: bar.advance(task, count)
