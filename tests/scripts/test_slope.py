# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The slope of memory (scripts/slope.py), on curves whose slope is known."""

from __future__ import annotations

import math
import random

import pytest

from scripts.slope import HOUR_S, MIB, fit, steady


def curve(
    mib_per_hour: float, hours: float, seed: int, level_mib: float = 300.0, samples: int = 400
) -> list[tuple[float, float]]:
    """Samples (s, bytes) with garbage of up to 8 MiB on top of a straight floor, and a spike."""
    chance = random.Random(seed)
    points = []
    for i in range(samples):
        t = i / samples * hours * HOUR_S
        garbage = 8 * chance.random() + (200 if i == samples // 2 else 0)
        points.append((t, (level_mib + mib_per_hour * t / HOUR_S + garbage) * MIB))
    return points


@pytest.mark.parametrize("truth", [0.0, 3.0, -2.0])
def test_the_interval_holds_the_truth(truth: float) -> None:
    """In nearly all of 60 runs, which is what 95 % says."""
    found = [fit([curve(truth, 10.0, seed)]) for seed in range(60)]
    assert sum(slope is not None and slope.low <= truth <= slope.high for slope in found) >= 53


def test_lives_may_begin_at_any_level() -> None:
    """A step of 100 MiB at each restart is no growth."""
    lives = [curve(0.0, 3.0, seed, level_mib=300 + 100 * seed) for seed in range(5)]
    slope = fit(lives)
    assert slope is not None and abs(slope.median) < 0.3 and slope.verdict(1.0) == "flat"
    leaking = fit([curve(5.0, 3.0, seed, level_mib=300 - 100 * seed) for seed in range(3)])
    assert leaking is not None and leaking.verdict(1.0) == "grows"


def test_a_short_run_decides_nothing() -> None:
    slope = fit([curve(0.0, 0.1, 1, samples=30)])
    assert slope is not None and slope.verdict(1.0) == "undecided"
    assert fit([]) is None and fit([[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]]) is None
    few = fit([[(float(i), float(i)) for i in range(4)]])
    assert few is not None and math.isinf(few.high)  # four blocks cannot bound anything at 95 %


def test_counts_may_rise_for_a_moment_only() -> None:
    """A file is opened for a checkpoint and closed again; one that stays open is seen."""
    moments = [(float(i), 30.0 + (i % 7 == 0)) for i in range(100)]
    assert steady([moments, []])
    assert not steady([moments, [(t, value + (t > 60)) for t, value in moments]])
