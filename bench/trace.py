# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Record timelines of workers, halves and policy, and draw them.

Workers stamp the begin and end of every turn with the monotonic clock, and the learner reads the
same clock around recv, policy and send. So all processes share one axis.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.policies import Policy
from puffervec.system import extras
from puffervec.vec.vector_env import VectorEnv

HALVES = "AB"


@dataclass(frozen=True)
class Span:
    """One bar of a timeline.

    Attributes:
        track: "learner", "policy" or "worker N".
        half: 0 or 1.
        begin_ns, end_ns: times by CLOCK_MONOTONIC.
    """

    track: str
    name: str
    half: int
    begin_ns: int
    end_ns: int


@dataclass
class Timeline:
    """The spans of one mode of stepping.

    Attributes:
        title: title in the picture.
        buffers: 1 or 2.
        rows_per_turn: rows of a half.
    """

    title: str
    buffers: int
    workers: int
    rows_per_turn: int
    spans: list[Span] = field(default_factory=list)

    def half_name(self, half: int) -> str:
        return HALVES[half] if self.buffers == 2 else "all"

    @property
    def lanes(self) -> list[str]:
        return ["policy", *(f"worker {i}" for i in range(self.workers))]

    def turn_s(self) -> float:
        """Return the mean seconds from one policy call to the next."""
        starts = [span.begin_ns for span in self.spans if span.track == "policy"]
        return (starts[-1] - starts[0]) * 1e-9 / (len(starts) - 1)


def record(vec: VectorEnv, policy: Policy, turns: int, warmup: int, title: str) -> Timeline:
    """Step some turns and return their spans. A `recv` is due before and after."""
    timeline = Timeline(title, vec.num_buffers, vec.num_workers, vec.agents_per_batch)
    members = [list(vec.rows.workers[half]) for half in range(vec.num_buffers)]
    clock = time.monotonic_ns
    stamped = []
    for index in range(warmup + turns):
        begin = clock()
        rows = vec.recv()
        received = clock()
        half = vec.half
        stamps = vec.timing(half)
        start = clock()
        actions = policy(half, rows)
        chosen = clock()
        vec.send(actions)
        if index >= warmup:
            stamped.append((half, begin, received, start, chosen, clock(), stamps))
    for half, begin, received, start, chosen, sent, stamps in stamped:
        name = timeline.half_name(half)
        timeline.spans += [
            Span("learner", f"recv {name}", half, begin, received),
            Span("policy", f"policy {name}", half, start, chosen),
            Span("learner", f"send {name}", half, chosen, sent),
        ]
        for worker, (stamp_begin, stamp_end) in zip(members[half], stamps.tolist(), strict=True):
            timeline.spans.append(
                Span(f"worker {worker}", f"simulate {name}", half, stamp_begin, stamp_end)
            )
    return timeline


# ---- the picture ---------------------------------------------------------------------------------

_COLOURS = ("#2f6db5", "#e08a2b")  # Of halves A and B: blue and orange, distinct in grey too.
_ALL = "#5b8f5a"  # Of all envs, with one buffer.
_LANE = "#f1f2f4"
_INK = "#22262b"


def _origin(timeline: Timeline) -> int:
    """Return the start of the picture: a policy call on half A after a third of the run."""
    starts = [span.begin_ns for span in timeline.spans if span.track == "policy" and span.half == 0]
    return starts[len(starts) // 3]


def _draw_bar(
    axes: Any, row: int, bar: tuple[float, float], look: tuple[str, str], hatched: bool, wide: bool
) -> None:
    """Draw one bar.

    Args:
        bar: left end and length in axis units.
        look: colour, and text for a bar that is wide enough.
    """
    (left, length), (colour, text) = bar, look
    hatch = "////" if hatched else None
    axes.barh(
        row,
        length,
        left=left,
        height=0.72,
        color=colour,
        hatch=hatch,
        edgecolor="white",
        linewidth=0.6,
        zorder=2,
    )
    if wide:
        box = (
            {"boxstyle": "round,pad=0.15", "facecolor": colour, "edgecolor": "none"}
            if hatched
            else None
        )
        where = {"ha": "center", "va": "center", "zorder": 3}
        axes.text(
            left + length / 2,
            row,
            text,
            color="white",
            fontsize=8.5,
            weight="bold",
            bbox=box,
            **where,
        )


def _draw(axes: Any, timeline: Timeline, width_ns: int, unit_ns: float) -> None:
    lanes, origin = timeline.lanes, _origin(timeline)
    for row, lane in enumerate(lanes):
        axes.barh(row, width_ns / unit_ns, left=0, height=0.72, color=_LANE, zorder=0)
        for span in timeline.spans:
            begin, end = max(span.begin_ns, origin), min(span.end_ns, origin + width_ns)
            if span.track != lane or begin >= end:
                continue
            colour = _ALL if timeline.buffers == 1 else _COLOURS[span.half]
            bar = ((begin - origin) / unit_ns, (end - begin) / unit_ns)
            _draw_bar(
                axes,
                row,
                bar,
                (colour, timeline.half_name(span.half)),
                lane == "policy",
                end - begin > width_ns / 28,
            )
    axes.set_yticks(range(len(lanes)), lanes)
    axes.set_ylim(len(lanes) - 0.45, -0.55)
    axes.tick_params(length=0, colors=_INK, labelsize=9)
    for side in axes.spines.values():
        side.set_visible(False)


def draw(timelines: Sequence[Timeline], path: Path, caption: str) -> None:
    """Draw one timeline above the other on the same time axis and write a PNG.

    Args:
        timelines: the slower one first; the axis shows about three of its turns.
        caption: text about the measurement below the picture.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with extras.required("drawing"):
        from matplotlib.figure import Figure as Canvas
    width_ns = int(3.15e9 * timelines[0].turn_s())
    unit, unit_ns = ("milliseconds", 1e6) if width_ns > 2e6 else ("microseconds", 1e3)
    lanes = [1 + timeline.workers for timeline in timelines]
    canvas = Canvas(
        figsize=(10.0, 1.6 + 0.36 * sum(lanes)), dpi=160, facecolor="white", layout="constrained"
    )
    grid = canvas.subplots(len(timelines), 1, sharex=True, height_ratios=lanes, squeeze=False)
    rates = [timeline.rows_per_turn / timeline.turn_s() for timeline in timelines]
    for axes, timeline, rate in zip(grid[:, 0], timelines, rates, strict=True):
        _draw(axes, timeline, width_ns, unit_ns)
        gain = "" if rate == rates[0] else f"   ({rate / rates[0]:.2f} times as many)"
        text = f"{timeline.title}: {_rate(rate)} agent rows per second{gain}"
        axes.set_title(text, loc="left", fontsize=11, color=_INK, weight="bold")
        axes.set_xlim(0, width_ns / unit_ns)
    grid[-1, 0].set_xlabel(f"{unit}\n{caption}", color=_INK, fontsize=8.5)
    grid[-1, 0].set_xticks(_ticks(width_ns / unit_ns))
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path, format="png")


def _rate(rate: float) -> str:
    return f"{rate / 1e6:.1f}M" if rate >= 1e6 else f"{rate / 1e3:.0f}k"


def _ticks(width: float) -> np.ndarray:
    """Return at most nine round numbers from 0 to below `width`."""
    step = 10 ** np.floor(np.log10(width / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if width / (step * factor) <= 9)
    return np.arange(0, width, step)
