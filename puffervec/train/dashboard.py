# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Progress for people: a live table on a terminal (rich), plain lines elsewhere. Runs in the learner."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from puffervec.train.config import TrainConfig

TIME_PARTS = ("env", "copy", "forward", "update", "other")


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


class PlainLines:
    """One line every few seconds, for logs and pipes."""

    def __init__(self, interval_s: float, stream: Any = None) -> None:
        """Args: interval_s: between lines; stream: a text file, None is standard output."""
        self._interval_s, self._stream = interval_s, stream or sys.stdout
        self._next_s = -1.0

    def show(self, metrics: Mapping[str, float], progress: float) -> None:
        """Print a line if it is time for one, and at the end."""
        now = time.monotonic()
        if now < self._next_s and progress < 1.0:
            return
        self._next_s = now + self._interval_s
        print(plain_line(metrics, progress), file=self._stream, flush=True)

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
        f"{m['step']:,.0f} agent-steps",
        f"{m['charts/agent_steps_per_s']:,.0f} agent-steps/s",
        f"{m['charts/env_steps_per_s']:,.0f} env-steps/s",
    ]
    if "episode/return" in m:
        parts.append(f"return {m['episode/return']:.3f}")
    parts += [f"{key.removeprefix('env/')} {m[key]:.3f}" for key in m if key.startswith("env/")]
    parts.append("time " + " ".join(f"{name} {m[f'time/{name}']:.0%}" for name in TIME_PARTS))
    return " | ".join(parts)


class LiveTable:
    """A table that is redrawn in place."""

    def __init__(self, title: str) -> None:
        """Args: title: shown on top."""
        from rich.live import Live

        self._title = title
        self._live = Live(refresh_per_second=4, transient=False)
        self._live.start()

    def show(self, metrics: Mapping[str, float], progress: float) -> None:
        """Redraw."""
        self._live.update(live_table(self._title, metrics, progress))

    def note(self, text: str) -> None:
        """Print it above the table."""
        self._live.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        """Leave the last picture on the terminal."""
        self._live.stop()


def live_table(title: str, m: Mapping[str, float], progress: float) -> Any:
    """Return the dashboard as something rich can draw."""
    from rich import box
    from rich.columns import Columns
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    def table(name: str, rows: list[tuple[str, str]]) -> Table:
        out = Table(title=name, box=box.SIMPLE, show_header=False, title_justify="left", title_style="bold cyan")
        out.add_column()
        out.add_column(justify="right")
        for row in rows:
            out.add_row(*row)
        return out

    left = m["elapsed_s"] * (1.0 - progress) / max(progress, 1e-6)
    speed = [
        ("agent-steps", f"{m['step']:,.0f}"),
        ("agent-steps/s", f"{m['charts/agent_steps_per_s']:,.0f}"),
        ("env-steps/s", f"{m['charts/env_steps_per_s']:,.0f}"),
        ("updates", f"{m['update']:,.0f}"),
        ("elapsed", clock(m["elapsed_s"])),
        ("left, about", clock(left)),
    ]
    shares = [(name, f"{m[f'time/{name}']:.0%}") for name in TIME_PARTS]
    losses = [(key.removeprefix("losses/"), f"{m[key]:.4f}") for key in m if key.startswith("losses/")]
    rates = [
        (key.removeprefix("env/").removeprefix("episode/"), f"{m[key]:.3f}")
        for key in m
        if key.startswith(("episode/", "env/"))
    ]
    tables = [table("Speed", speed), table("Time", shares), table("Losses", losses), table("Episodes", rates)]
    body = Table.grid()
    body.add_row(ProgressBar(total=1.0, completed=progress, width=100))
    body.add_row(Columns(tables, padding=(0, 3)))
    return Panel(body, title=title, title_align="left")


def clock(seconds: float) -> str:
    """Return seconds as h:mm:ss or m:ss.

    >>> clock(3725)
    '1:02:05'
    """
    whole = int(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def make_dashboard(config: TrainConfig, title: str) -> Dashboard:
    """Return the dashboard that `config.log.dashboard` asks for; auto is rich on a terminal and plain lines elsewhere."""
    kind = config.log.dashboard
    if kind == "auto":
        kind = "rich" if sys.stdout.isatty() else "plain"
    if kind == "off":
        return Silent()
    return LiveTable(title) if kind == "rich" else PlainLines(config.log.print_interval_s)
