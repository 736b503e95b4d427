# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Fit the growth of a process's memory: a robust slope with its interval, over several lives.

Used by scripts/soak.py. A life is the time from the start of a process to its end. Memory goes up
and down: arenas fill and are trimmed, garbage waits to be collected. A leak raises the floor, so a
life is divided into blocks, and each block counts with its lowest value. The slope is the median of
the slopes between all pairs of blocks of the same life (Theil 1950; Sen 1968), so lives may begin
at different levels. Its 95 % interval is Sen's, from the ranks that Kendall's S takes by chance.
Single spikes have little effect.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

BLOCKS = 24  # Most blocks per life; with fewer samples each is a block.
FEWEST_BLOCKS = 4
Z_95 = 1.96
HOUR_S = 3600.0
MIB = float(1 << 20)

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Slope:
    """A slope in MiB per hour: the median and the 95 % interval.

    It also has the number of blocks, and the hours that they span.
    """

    median: float
    low: float
    high: float
    blocks: int
    hours: float

    def verdict(self, limit: float) -> str:
        """Return "flat", "grows" or "undecided".

        The slope is certainly below the limit, certainly above it, or the run was too short.
        """
        if self.low > limit:
            return "grows"
        return "flat" if self.high < limit else "undecided"

    def __str__(self) -> str:
        """Return the slope with its interval."""
        return f"{self.median:+.2f} MiB/h ({self.low:+.2f} to {self.high:+.2f})"


def floors(life: Points, blocks: int = BLOCKS) -> list[tuple[float, float]]:
    """Return (time, lowest value) of each block of a life's samples (seconds, bytes).

    There are at most `blocks` blocks of equal length.
    """
    if not life:
        return []
    count = min(blocks, len(life))
    edges = [round(i * len(life) / count) for i in range(count + 1)]
    parts = [life[begin:end] for begin, end in zip(edges, edges[1:], strict=False)]
    return [
        (statistics.fmean(t for t, _ in part), min(value for _, value in part)) for part in parts
    ]


def fit(lives: Sequence[Points]) -> Slope | None:
    """Return the slope that all lives share, or None if no life has enough blocks.

    Args:
        lives: samples (seconds, bytes) of each life, in order of time, without its warm-up.
    """
    cut = [part for part in map(floors, lives) if len(part) >= FEWEST_BLOCKS]
    slopes = sorted(
        (y2 - y1) / MIB / (x2 - x1) * HOUR_S
        for part in cut
        for (x1, y1), (x2, y2) in combinations(part, 2)
        if x2 > x1
    )
    if not slopes:
        return None
    # Variance of Kendall's S, summed over lives, since pairs are within a life.
    spread = Z_95 * math.sqrt(sum(n * (n - 1) * (2 * n + 5) / 18 for n in map(len, cut)))
    low, high = math.floor((len(slopes) - spread) / 2), math.ceil((len(slopes) + spread) / 2)
    return Slope(
        median=statistics.median(slopes),
        low=slopes[low] if low >= 0 else -math.inf,
        high=slopes[high] if high < len(slopes) else math.inf,
        blocks=sum(map(len, cut)),
        hours=sum(part[-1][0] - part[0][0] for part in cut) / HOUR_S,
    )


def steady(lives: Sequence[Points]) -> bool:
    """Return whether a count (open files, threads) has an equal floor in every block of a life."""
    return all(len({value for _, value in floors(life)}) <= 1 for life in lives)
