# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Progress for people: a live table on a terminal (rich), plain lines elsewhere. Runs in the learner.

Both show rates and shares as means over the last seconds, weighted by time, and all else as it was last.
"""

from __future__ import annotations

import collections
import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from puffervec.host.output import steady

if TYPE_CHECKING:
    from puffervec.train.config.sections import TrainConfig

TIME_PARTS = ("env", "copy", "forward", "update", "log", "other")
_AVERAGED = ("charts/agent_steps_per_s", "charts/env_steps_per_s", "charts/overlap", *(f"time/{p}" for p in TIME_PARTS))
_TIME_WORDS = {"env": "env wait", "update": "advantage, update", "log": "checkpoint, log"}
_REDRAW_S = 0.5  # A picture costs some 10 ms of the learner's time.


class Dashboard(Protocol):
    """Shows metrics as they come."""

    def show(self, metrics: Mapping[str, float], progress: float) -> None:
        """Take the metrics of one update; progress is 0 to 1."""

    def note(self, text: str) -> None:
        """Show a message that stays."""

    def close(self) -> None:
        """Leave the terminal as it was; may be called twice."""


class Silent:
    """Shows nothing."""

    def show(self, metrics: Mapping[str, float], progress: float) -> None:
        """Drop the metrics."""

    def note(self, text: str) -> None:
        """Drop the message."""

    def close(self) -> None:
        """Do nothing."""


class Recent:
    """The lines of the last seconds, and their means."""

    def __init__(self, window_s: float) -> None:
        """Args: window_s: seconds of training that are remembered; at least one line is."""
        self._window_s = window_s
        self._lines: collections.deque[Mapping[str, float]] = collections.deque()
        self._span_s = 0.0

    def add(self, metrics: Mapping[str, float]) -> None:
        """Remember a line."""
        self._lines.append(metrics)
        self._span_s += metrics["span_s"]
        while len(self._lines) > 1 and self._span_s - self._lines[0]["span_s"] >= self._window_s:
            self._span_s -= self._lines.popleft()["span_s"]

    def means(self) -> dict[str, float]:
        """Return the last line, its rates and shares replaced by their means over time."""
        last = dict(self._lines[-1])
        for key in _AVERAGED:
            found = [(line[key], line["span_s"]) for line in self._lines if key in line]
            if found:
                last[key] = math.fsum(value * span for value, span in found) / math.fsum(span for _, span in found)
        return last


class PlainLines:
    """One line every few seconds, for logs and pipes."""

    def __init__(self, interval_s: float, stream: Any = None, clock: Callable[[], float] = time.monotonic) -> None:
        """Args: interval_s: between lines; stream: a text file, None is standard output."""
        self._interval_s, self._stream, self._clock = interval_s, steady(stream or sys.stdout), clock
        self._next_s = -1.0
        self._recent = Recent(interval_s)

    def show(self, metrics: Mapping[str, float], progress: float) -> None:
        """Print a line if it is time for one, and at the end."""
        self._recent.add(metrics)
        now = self._clock()
        if now < self._next_s and progress < 1.0:
            return
        self._next_s = now + self._interval_s
        print(plain_line(self._recent.means(), progress), file=self._stream, flush=True)

    def note(self, text: str) -> None:
        """Print it."""
        print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Do nothing."""


def plain_line(metrics: Mapping[str, float], progress: float) -> str:
    """Return the metrics that matter as one line."""
    m = metrics
    parts = [
        f"{progress:4.0%}",
        f"{clock(m['elapsed_s'])}",
        f"left {clock(m['charts/seconds_left'])}",
        f"{m['step']:,.0f} agent-steps",
        f"{m['charts/agent_steps_per_s']:,.0f} agent-steps/s",
        f"{m['charts/env_steps_per_s']:,.0f} env-steps/s",
    ]
    if "episode/return" in m:
        parts.append(f"return {m['episode/return']:.3f}")
    parts += [f"{key.removeprefix('env/')} {m[key]:.3f}" for key in m if key.startswith("env/")]
    parts.append("time " + time_split(m))
    cores, memory = (total(m, kind) for kind in ("cores", "memory_mib"))
    parts.append(f"{cores:.1f} cores {memory:,.0f} MiB")
    if "usage/gpu_memory_mib" in m:
        parts.append(f"GPU {m['usage/gpu_memory_mib']:,.0f} MiB")
    return " | ".join(parts)


def time_split(metrics: Mapping[str, float]) -> str:
    """Return the shares of the time in one line: `env 20%, copy 1%, ...`; rounded so that they add up to 100."""
    shares = whole_percents([metrics[f"time/{name}"] for name in TIME_PARTS])
    return ", ".join(f"{name} {share}%" for name, share in zip(TIME_PARTS, shares, strict=True))


def whole_percents(shares: list[float]) -> list[int]:
    """Round shares to whole percents that add up as the shares do: those with the largest rests are rounded up.

    >>> whole_percents([0.333, 0.333, 0.334])
    [33, 33, 34]
    """
    down = [math.floor(100 * share) for share in shares]
    short = round(100 * math.fsum(shares)) - sum(down)
    rests = sorted(range(len(shares)), key=lambda i: down[i] - 100 * shares[i])
    return [value + (i in rests[:short]) for i, value in enumerate(down)]


def total(metrics: Mapping[str, float], kind: str) -> float:
    """Sum of a kind of usage over learner and workers."""
    return metrics[f"usage/learner_{kind}"] + metrics.get(f"usage/worker_{kind}", 0.0)


class LiveTable:
    """A table that is redrawn in place, as large as the terminal has room for."""

    def __init__(self, title: str, console: Any = None, clock: Callable[[], float] = time.monotonic) -> None:
        """Args: title: the run in one line; console: rich's, None is that of standard output."""
        from rich.console import Console
        from rich.live import Live

        self._title, self._clock, self._next_s = title, clock, -1.0
        self._recent = Recent(window_s=5.0)
        console = Console(file=steady(sys.stdout)) if console is None else console
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._live.start()

    def show(self, metrics: Mapping[str, float], progress: float) -> None:
        """Redraw if it is time for it, and at the end."""
        self._recent.add(metrics)
        now = self._clock()
        if now < self._next_s and progress < 1.0:
            return
        self._next_s = now + _REDRAW_S
        size = self._live.console.size
        self._live.update(live_table(self._title, self._recent.means(), progress, size.width, size.height), refresh=True)

    def note(self, text: str) -> None:
        """Print it above the table."""
        self._live.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        """Leave the last picture on the terminal."""
        self._live.stop()


Rows = list[tuple[str, str]]
LEAST_LINES = 20  # Of a terminal that all tables are shown in.
SMALL_COLUMN = 26  # Characters of a name and a number, in fewer lines.


def live_table(title: str, m: Mapping[str, float], progress: float, width: int, height: int) -> Any:
    """Return the dashboard as something rich can draw in width x height characters; rows without room are counted.

    In fewer than LEAST_LINES lines: what matters most, score and return first, without the tables.
    """
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    if height < LEAST_LINES:
        return _small(title, m, progress, width, height)
    sections = [("Episodes", _episodes(m)), ("Speed", _speed(m)), ("Time", _shares(m)), ("Losses", _losses(m))]
    sections.append(("Machine", _machine(m)))
    per_line = 5 if width >= 150 else 3 if width >= 72 else 2
    lines = [sections[i : i + per_line] for i in range(0, len(sections), per_line)]
    name, _, rest_of_title = title.partition(": ")
    about = Text(rest_of_title, style="dim")
    budget = Table.grid(padding=(0, 1), expand=True)
    budget.add_column(ratio=1)
    budget.add_row(ProgressBar(total=1.0, completed=progress), _budget(m, progress))
    # Without the frame, the bar, the head and the blank line of each line of tables, and what stands on top.
    room = height - 4 - 2 * len(lines) - math.ceil(len(about) / max(1, width - 4))
    body = Table.grid(expand=True)
    body.add_row(about)
    body.add_row(budget)
    for number, line in enumerate(lines):
        rest = lines[number + 1 :]
        most = max(2, room - sum(max(len(rows) for _, rows in later[:1]) for later in rest))
        shown = [(head, _fitting(rows, most)) for head, rows in line]
        room -= max(len(rows) for _, rows in shown)
        body.add_row("")
        body.add_row(_side_by_side(shown))
    return Panel(body, title=name, title_align="left", width=width)


def _budget(m: Mapping[str, float], progress: float) -> str:
    left = clock(m["charts/seconds_left"])
    return f"{math.floor(100 * progress)}%  {clock(m['elapsed_s'])} done, {left} left"


def _small(title: str, m: Mapping[str, float], progress: float, width: int, height: int) -> Any:
    """For a few lines: how far the run is, and below that rows in as many columns as there is room for."""
    from rich.panel import Panel
    from rich.table import Table

    columns = max(1, (width - 4) // SMALL_COLUMN)
    room = max(1, height - 4)  # Frame, budget, and the line that the cursor is in.
    episodes = _episodes(m)
    rows = [*episodes[:3], *_speed(m)[:1], *episodes[3:], *_speed(m)[1:], *_losses(m), *_machine(m)]
    rows = _fitting(rows, room * columns)
    each = -(-len(rows) // columns)
    parts = [("", rows[first : first + each]) for first in range(0, len(rows), each)]
    body = Table.grid(expand=True)
    body.add_row(_budget(m, progress))
    body.add_row(_side_by_side(parts))
    return Panel(body, title=title.partition(": ")[0], title_align="left", width=width)


def _side_by_side(sections: list[tuple[str, Rows]]) -> Any:
    from rich.table import Table

    outer = Table.grid(padding=(0, 3, 0, 0), expand=True)
    tables = []
    for head, rows in sections:
        outer.add_column(ratio=1)
        table = Table(
            box=None,
            show_header=False,
            padding=(0, 1, 0, 0),
            pad_edge=False,
            expand=True,
            title=head or None,
            title_justify="left",
        )
        table.title_style = "bold cyan"
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        table.add_column(no_wrap=True, justify="right")
        for row in rows:
            table.add_row(*row)
        tables.append(table)
    outer.add_row(*tables)
    return outer


def _fitting(rows: Rows, most: int) -> Rows:
    """At most `most` rows; the last one says how many are left out."""
    return rows if len(rows) <= most else [*rows[: most - 1], (f"and {len(rows) - most + 1} more", "")]


def _episodes(m: Mapping[str, float]) -> Rows:
    """Score and return first: what the run is for."""
    first = ("env/score", "episode/return", "episode/length")
    keys = [key for key in m if key.startswith(("episode/", "env/"))]
    keys.sort(key=lambda key: first.index(key) if key in first else len(first))
    return [(key.partition("/")[2], _number(m[key])) for key in keys] or [("no episode has ended", "")]


def _losses(m: Mapping[str, float]) -> Rows:
    return [(key.removeprefix("losses/"), _number(m[key])) for key in m if key.startswith("losses/")]


def _speed(m: Mapping[str, float]) -> Rows:
    rows = [
        ("agent-steps/s", f"{m['charts/agent_steps_per_s']:,.0f}"),
        ("env-steps/s", f"{m['charts/env_steps_per_s']:,.0f}"),
        ("agent-steps", f"{m['step']:,.0f}" if m["step"] < 1e6 else f"{m['step'] / 1e6:,.2f} M"),
        ("updates", f"{m['update']:,.0f}"),
    ]
    return rows + ([("overlap", f"{m['charts/overlap']:.2f}")] if "charts/overlap" in m else [])


def _shares(m: Mapping[str, float]) -> Rows:
    shares = whole_percents([m[f"time/{name}"] for name in TIME_PARTS])
    return [(_TIME_WORDS.get(name, name), f"{share}%") for name, share in zip(TIME_PARTS, shares, strict=True)]


def _machine(m: Mapping[str, float]) -> Rows:
    rows = [("learner cores", f"{m['usage/learner_cores']:.2f}"), ("learner MiB", f"{m['usage/learner_memory_mib']:,.0f}")]
    if "usage/worker_cores" in m:
        rows += [("workers cores", f"{m['usage/worker_cores']:.2f}"), ("workers MiB", f"{m['usage/worker_memory_mib']:,.0f}")]
    if "usage/gpu_share" in m:
        rows.append(("GPU", f"{m['usage/gpu_share']:.0%}"))
    if "usage/gpu_memory_mib" in m:
        rows.append(("GPU MiB", f"{m['usage/gpu_memory_mib']:,.0f}"))
    return rows


def _number(value: float) -> str:
    """Four digits that matter: 0.0012, 12.34, 123,456."""
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    return f"{value:,.0f}" if size >= 1e4 else f"{value:.2e}" if 0 < size < 1e-3 else f"{value:.{3 if size >= 1 else 4}f}"


def clock(seconds: float) -> str:
    """Return seconds as h:mm:ss or m:ss, `?` where they are infinite.

    >>> clock(3725)
    '1:02:05'
    """
    if not math.isfinite(seconds):
        return "?"
    whole = int(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def make_dashboard(config: TrainConfig, title: str) -> Dashboard:
    """Return the dashboard that `config.log.dashboard` asks for; auto is rich on a terminal and plain lines elsewhere."""
    kind = config.log.dashboard
    if kind == "auto":
        kind = "rich" if steady(sys.stdout).isatty() else "plain"
    if kind == "off":
        return Silent()
    return LiveTable(title) if kind == "rich" else PlainLines(config.log.print_interval_s)
