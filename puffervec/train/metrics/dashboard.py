# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Show progress to people: a live table on a terminal (rich), plain lines elsewhere.

Both show rates and shares as means over the last seconds, weighted by time, and the latest value of
everything else. Runs in the learner.
"""

from __future__ import annotations

import collections
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from puffervec.system.output import steady
from puffervec.train.metrics import keys
from puffervec.train.metrics.keys import TIME_PARTS

if TYPE_CHECKING:
    from puffervec.train.config.sections import TrainConfig

_AVERAGED = [key for key, metric in keys.METRICS.items() if metric.averaged]
_TIME_WORDS = {"env": "env wait", "update": "advantage, update", "log": "checkpoint, log"}
_REDRAW_S = 0.5  # Drawing takes about 10 ms of the learner's time.


class Dashboard:
    """A display of metrics as they arrive; this one shows nothing."""

    def show(self, metrics: Mapping[str, float], progress: float) -> None:
        """Show the metrics of one update; progress is 0 to 1."""

    def note(self, text: str) -> None:
        """Show a message that stays."""

    def close(self) -> None:
        """Restore the terminal; may be called twice."""


class Recent:
    """The lines of the last seconds, and their means."""

    def __init__(self, window_s: float) -> None:
        """Start without lines.

        Args:
            window_s: Seconds of training to remember; at least one line is kept.
        """
        self._window_s = window_s
        self._lines: collections.deque[Mapping[str, float]] = collections.deque()
        self._span_s = 0.0

    def add(self, metrics: Mapping[str, float]) -> None:
        """Remember a line."""
        self._lines.append(metrics)
        self._span_s += metrics[keys.SPAN_S]
        while len(self._lines) > 1 and self._span_s - self._lines[0][keys.SPAN_S] >= self._window_s:
            self._span_s -= self._lines.popleft()[keys.SPAN_S]

    def means(self) -> dict[str, float]:
        """Return the last line, with rates and shares replaced by their means over time."""
        last = dict(self._lines[-1])
        for key in _AVERAGED:
            values = [(line[key], line[keys.SPAN_S]) for line in self._lines if key in line]
            if values:
                last[key] = math.fsum(value * span for value, span in values) / math.fsum(
                    span for _, span in values
                )
        return last


class _Paced(Dashboard):
    """A dashboard that draws at intervals and at the end, rates as means over the last seconds."""

    def __init__(self, interval_s: float, window_s: float, clock: Callable[[], float]) -> None:
        self._interval_s, self._clock, self._next_s = interval_s, clock, -1.0
        self._recent = Recent(window_s)

    def show(self, metrics: Mapping[str, float], progress: float) -> None:
        """Draw if it is due, and at the end."""
        self._recent.add(metrics)
        now = self._clock()
        if now >= self._next_s or progress >= 1.0:
            self._next_s = now + self._interval_s
            self._draw(self._recent.means(), progress)

    def _draw(self, means: Mapping[str, float], progress: float) -> None:
        raise NotImplementedError


class PlainLines(_Paced):
    """One line every few seconds, for logs and pipes."""

    def __init__(
        self, interval_s: float, stream: Any = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Choose the stream.

        Args:
            interval_s: Seconds between lines.
            stream: A text file; None for standard output.
        """
        super().__init__(interval_s, interval_s, clock)
        self._stream = steady(stream or sys.stdout)

    def _draw(self, means: Mapping[str, float], progress: float) -> None:
        self.note(plain_line(means, progress))

    def note(self, text: str) -> None:
        """Print the message."""
        print(text, file=self._stream, flush=True)


def plain_line(metrics: Mapping[str, float], progress: float) -> str:
    """Return the most important metrics as one line."""
    m = metrics
    parts = [
        f"{progress:4.0%}",
        f"{clock(m[keys.ELAPSED_S])}",
        f"left {clock(m[keys.SECONDS_LEFT])}",
        f"{m[keys.STEP]:,.0f} agent-steps",
        f"{m[keys.AGENT_STEPS_PER_S]:,.0f} agent-steps/s",
        f"{m[keys.ENV_STEPS_PER_S]:,.0f} env-steps/s",
    ]
    if keys.EPISODE_RETURN in m:
        parts.append(f"return {m[keys.EPISODE_RETURN]:.3f}")
    parts += [f"{key.removeprefix(keys.ENV)} {m[key]:.3f}" for key in m if key.startswith(keys.ENV)]
    parts.append("time " + time_split(m))
    cores, memory = (
        m[keys.LEARNER_CORES] + m.get(keys.WORKER_CORES, 0),
        m[keys.LEARNER_MEMORY] + m.get(keys.WORKER_MEMORY, 0),
    )
    parts.append(f"{cores:.1f} cores {memory:,.0f} MiB")
    if keys.GPU_MEMORY in m:
        parts.append(f"GPU {m[keys.GPU_MEMORY]:,.0f} MiB")
    return " | ".join(parts)


def time_split(metrics: Mapping[str, float]) -> str:
    """Return the shares of the time in one line, `env 20%, copy 1%, ...`; they add up to 100%."""
    return ", ".join(f"{name} {share}%" for name, share in _percents(metrics).items())


def _percents(metrics: Mapping[str, float]) -> dict[str, int]:
    return dict(
        zip(TIME_PARTS, whole_percents([metrics[key] for key in TIME_PARTS.values()]), strict=True)
    )


def whole_percents(shares: list[float]) -> list[int]:
    """Round shares to whole percents that add up to the sum of the shares.

    The shares with the largest remainders are rounded up.

    >>> whole_percents([0.333, 0.333, 0.334])
    [33, 33, 34]
    """
    down = [math.floor(100 * share) for share in shares]
    short = round(100 * math.fsum(shares)) - sum(down)
    rests = sorted(range(len(shares)), key=lambda i: down[i] - 100 * shares[i])
    return [value + (i in rests[:short]) for i, value in enumerate(down)]


class LiveTable(_Paced):
    """A table that is redrawn in place, as large as the terminal allows."""

    def __init__(self, title: str, metric: str = keys.EPISODE_RETURN) -> None:
        """Start the live display.

        Args:
            title: Describes the run in one line.
            metric: The metric that measures the success of the run.
        """
        from rich.console import Console
        from rich.live import Live

        super().__init__(_REDRAW_S, 5.0, time.monotonic)
        self._title, self._metric = title, metric
        self._live = Live(
            console=Console(file=steady(sys.stdout)), auto_refresh=False, transient=False
        )
        self._live.start()

    def _draw(self, means: Mapping[str, float], progress: float) -> None:
        size = self._live.console.size
        self._live.update(
            live_table(self._title, means, progress, size.width, size.height, self._metric),
            refresh=True,
        )

    def note(self, text: str) -> None:
        """Print the message above the table."""
        self._live.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        """Leave the last table on the terminal."""
        self._live.stop()


Rows = list[tuple[str, str]]
LEAST_LINES = 20  # A terminal needs this many lines for all tables.
SMALL_COLUMN = 26  # Characters of a name and a number, on a smaller terminal.


def live_table(
    title: str,
    m: Mapping[str, float],
    progress: float,
    width: int,
    height: int,
    metric: str = keys.EPISODE_RETURN,
) -> Any:
    """Return the dashboard as something that rich can draw in width x height characters.

    The last row of a table says how many do not fit. Below LEAST_LINES lines the dashboard has no
    tables, only the most important numbers, `metric` and return first.
    """
    from rich.panel import Panel
    from rich.table import Table

    name, _, about = title.partition(": ")
    body = Table.grid(expand=True)
    small = height < LEAST_LINES
    parts = (
        _small(m, progress, width, height, metric)
        if small
        else _large(about, m, progress, width, height, metric)
    )
    for part in parts:
        body.add_row(part)
    return Panel(body, title=name, title_align="left", width=width)


def _large(
    about: str, m: Mapping[str, float], progress: float, width: int, height: int, metric: str
) -> Iterator[Any]:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    sections = [
        ("Episodes", _episodes(m, metric)),
        ("Speed", _speed(m)),
        ("Time", _shares(m)),
        ("Losses", _losses(m)),
    ]
    sections.append(("Machine", _machine(m)))
    per_line = 5 if width >= 150 else 3 if width >= 72 else 2
    lines = [sections[i : i + per_line] for i in range(0, len(sections), per_line)]
    budget = Table.grid(padding=(0, 1), expand=True)
    budget.add_column(ratio=1)
    budget.add_row(ProgressBar(total=1.0, completed=progress), _budget(m, progress))
    yield Text(about, style="dim")
    yield budget
    # Subtract the frame, the bar, the title, and the heading and blank line of each line of tables.
    room = height - 4 - 2 * len(lines) - math.ceil(len(about) / max(1, width - 4))
    for number, line in enumerate(lines):
        most = max(
            2, room - sum(max(len(rows) for _, rows in later[:1]) for later in lines[number + 1 :])
        )
        shown = [(head, _limit_rows(rows, most)) for head, rows in line]
        room -= max(len(rows) for _, rows in shown)
        yield ""
        yield _side_by_side(shown)


def _budget(m: Mapping[str, float], progress: float) -> str:
    left = clock(m[keys.SECONDS_LEFT])
    return f"{math.floor(100 * progress)}%  {clock(m[keys.ELAPSED_S])} done, {left} left"


def _small(
    m: Mapping[str, float], progress: float, width: int, height: int, metric: str
) -> Iterator[Any]:
    """Yield the budget, and below it rows in as many columns as fit, for a small terminal."""
    columns = max(1, (width - 4) // SMALL_COLUMN)
    room = max(1, height - 4)  # Subtracts the frame, the budget and the cursor's line.
    episodes = _episodes(m, metric)
    rows = [*episodes[:3], *_speed(m)[:1], *episodes[3:], *_speed(m)[1:], *_losses(m), *_machine(m)]
    rows = _limit_rows(rows, room * columns)
    each = -(-len(rows) // columns)
    yield _budget(m, progress)
    yield _side_by_side([("", rows[first : first + each]) for first in range(0, len(rows), each)])


def _side_by_side(sections: list[tuple[str, Rows]]) -> Any:
    from rich.table import Table

    outer = Table.grid(padding=(0, 3, 0, 0), expand=True)
    tables = []
    for head, rows in sections:
        outer.add_column(ratio=1)
        table = Table.grid(padding=(0, 1, 0, 0), expand=True)
        table.title, table.title_justify, table.title_style = head or None, "left", "bold cyan"
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        table.add_column(no_wrap=True, justify="right")
        for row in rows:
            table.add_row(*row)
        tables.append(table)
    outer.add_row(*tables)
    return outer


def _limit_rows(rows: Rows, most: int) -> Rows:
    """Return at most `most` rows; if some are left out, the last one gives their number."""
    return (
        rows if len(rows) <= most else [*rows[: most - 1], (f"and {len(rows) - most + 1} more", "")]
    )


def _episodes(m: Mapping[str, float], metric: str) -> Rows:
    """Return the rows on episodes, the metric of success and the return first."""
    first = [metric, keys.EPISODE_RETURN, keys.EPISODE_LENGTH]
    names = [key for key in m if key.startswith((keys.EPISODE, keys.ENV))]
    names.sort(key=lambda key: first.index(key) if key in first else len(first))
    return [(key.partition("/")[2], _number(m[key])) for key in names] or [
        ("no episode has ended", "")
    ]


def _losses(m: Mapping[str, float]) -> Rows:
    return [
        (key.removeprefix(keys.LOSSES), _number(m[key])) for key in m if key.startswith(keys.LOSSES)
    ]


def _speed(m: Mapping[str, float]) -> Rows:
    rows = [
        ("agent-steps/s", f"{m[keys.AGENT_STEPS_PER_S]:,.0f}"),
        ("env-steps/s", f"{m[keys.ENV_STEPS_PER_S]:,.0f}"),
        (
            "agent-steps",
            f"{m[keys.STEP]:,.0f}" if m[keys.STEP] < 1e6 else f"{m[keys.STEP] / 1e6:,.2f} M",
        ),
        ("updates", f"{m[keys.UPDATE]:,.0f}"),
    ]
    return rows + ([("overlap", f"{m[keys.OVERLAP]:.2f}")] if keys.OVERLAP in m else [])


def _shares(m: Mapping[str, float]) -> Rows:
    return [(_TIME_WORDS.get(name, name), f"{share}%") for name, share in _percents(m).items()]


def _machine(m: Mapping[str, float]) -> Rows:
    names = {
        "learner cores": keys.LEARNER_CORES,
        "learner MiB": keys.LEARNER_MEMORY,
        "workers cores": keys.WORKER_CORES,
        "workers MiB": keys.WORKER_MEMORY,
        "GPU": keys.GPU_SHARE,
        "GPU MiB": keys.GPU_MEMORY,
    }
    forms = {keys.GPU_SHARE: "{:.0%}", keys.LEARNER_CORES: "{:.2f}", keys.WORKER_CORES: "{:.2f}"}
    return [
        (name, forms.get(key, "{:,.0f}").format(m[key])) for name, key in names.items() if key in m
    ]


def _number(value: float) -> str:
    """Format a value with four significant digits: 0.0012, 12.34, 123,456."""
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    return (
        f"{value:,.0f}"
        if size >= 1e4
        else f"{value:.2e}"
        if 0 < size < 1e-3
        else f"{value:.{3 if size >= 1 else 4}f}"
    )


def clock(seconds: float) -> str:
    """Return seconds as h:mm:ss or m:ss, or `?` for infinity.

    >>> clock(3725)
    '1:02:05'
    """
    if not math.isfinite(seconds):
        return "?"
    whole = int(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def make_dashboard(config: TrainConfig, title: str, metric: str = keys.EPISODE_RETURN) -> Dashboard:
    """Return the dashboard that `config.log.dashboard` asks for.

    Args: see LiveTable.
    """
    kind = config.log.dashboard
    if kind == "auto":
        kind = "rich" if steady(sys.stdout).isatty() else "plain"
    if kind == "off":
        return Dashboard()
    return LiveTable(title, metric) if kind == "rich" else PlainLines(config.log.print_interval_s)
