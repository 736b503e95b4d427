# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Intervals of rates: published values, ends, and how often they cover the truth where agents of a
scene are alike.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from drive_env.evaluate.intervals import cluster_interval, mean_interval, wilson


def test_wilson_against_published_values() -> None:
    # Newcombe 1998, Statistics in Medicine 17, table I, method 3.
    table = (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    )
    for hits, count, low, high in table:
        found = wilson(hits, count)
        assert found[0] == pytest.approx(low, abs=1e-4) and found[1] == pytest.approx(
            high, abs=1e-4
        )


def test_wilson_at_the_ends() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(10, 10)[1] == 1.0 and wilson(10, 10)[0] == pytest.approx(0.7225, abs=1e-4)
    assert wilson(0, 10)[0] == 0.0


def test_clusters_that_agree_within_widen_the_interval() -> None:
    counts = np.full(40, 10.0)
    alike = np.where(np.arange(40) % 2 == 0, 10.0, 0.0)  # scenes succeed as a whole or not at all
    mixed = np.full(40, 5.0)
    wide, narrow = cluster_interval(alike, counts), cluster_interval(mixed, counts)
    assert narrow == pytest.approx(wilson(200, 400))
    # All agents of a scene together count as about one.
    assert wide == pytest.approx(wilson(20, 40), abs=0.01)


def test_one_scene_none_and_all() -> None:
    assert cluster_interval(np.array([7.0]), np.array([10.0])) == wilson(7, 10)
    assert cluster_interval(np.array([7.0, 0.0]), np.array([10.0, 0.0])) == wilson(7, 10)
    assert cluster_interval(np.zeros(3), np.zeros(3)) == (0.0, 1.0)
    assert cluster_interval(np.full(5, 8.0), np.full(5, 8.0)) == wilson(40, 40)


def test_coverage_with_dependent_agents() -> None:
    rng = np.random.default_rng(7)
    covered = naive = 0
    for _ in range(400):
        counts = rng.integers(2, 15, 60).astype(float)
        hits = rng.binomial(counts.astype(int), rng.beta(1.4, 0.6, 60)).astype(
            float
        )  # mean 0.7, scenes differ a lot
        low, high = cluster_interval(hits, counts)
        covered += low <= 0.7 <= high
        low, high = wilson(hits.sum(), counts.sum())
        naive += low <= 0.7 <= high
    assert covered >= 0.91 * 400
    assert naive < 0.85 * 400  # why agents are not counted as independent


def test_seeds_that_are_alike_say_nothing_new() -> None:
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 9, 30).astype(float)
    hits = np.floor(counts * rng.random(30))
    alone = cluster_interval(hits, counts)
    assert cluster_interval(hits[None], counts[None]) == alone
    assert cluster_interval(np.tile(hits, (3, 1)), np.tile(counts, (3, 1))) == pytest.approx(
        alone, abs=1e-3
    )
    assert mean_interval(np.tile(hits, (3, 1)), np.tile(counts, (3, 1))) == pytest.approx(
        mean_interval(hits, counts)
    )


def test_intervals_cover_the_spread_of_seeds_and_scenes() -> None:
    """Five seeds of which each shifts all scenes; without them the interval is far too narrow."""
    rng, covered, naive, counts = np.random.default_rng(3), 0, 0, np.full((5, 40), 6.0)
    for _ in range(300):
        rates = 0.6 + 0.1 * rng.standard_normal((5, 1)) + 0.12 * rng.standard_normal((1, 40))
        hits = rng.binomial(6, np.clip(rates, 0, 1)).astype(float)
        low, high = cluster_interval(hits, counts)
        covered += low <= 0.6 <= high
        low, high = cluster_interval(hits.sum(axis=0), counts.sum(axis=0))
        naive += low <= 0.6 <= high
    assert covered >= 0.8 * 300  # five seeds are few for a normal approximation
    assert naive < 0.75 * 300


def test_one_scene_with_several_seeds() -> None:
    counts = np.full((4, 1), 10.0)
    for alone in (np.array([5.0]), np.array([[5.0, 0.0]])):  # One scene tells nothing of others.
        assert all(math.isnan(end) for end in mean_interval(alone, 2 * alone))
    low, high = mean_interval(np.array([[2.0], [4.0], [6.0], [8.0]]), counts)
    assert (low + high) / 2 == pytest.approx(0.5) and high - low == pytest.approx(
        2 * 1.96 * 0.258 / 2, abs=0.01
    )
    assert mean_interval(np.full((4, 1), 5.0), counts) == (0.5, 0.5)


def test_the_interval_of_a_share_stays_a_share() -> None:
    values, counts = np.array([0.1, 1.0, 1.0]), np.ones(3)
    low, high = mean_interval(values, counts)
    assert low > 0.0 and high > 1.0
    assert mean_interval(values, counts, most=1.0) == (low, 1.0)
    assert mean_interval(1.0 - values, counts, most=1.0) == (0.0, pytest.approx(1.0 - low))
