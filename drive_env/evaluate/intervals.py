# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""95 % intervals of rates.

Cars of one scene meet each other and the same road, so they succeed or fail together: the interval
of a total treats scenes as clusters, because treating all cars as independent draws would make it
too narrow. NumPy only; runs in the learner.
"""

from __future__ import annotations

import math

import numpy as np

from drive_env.scenes.schema import Floats

Z95 = 1.959963984540054


def wilson(hits: float, count: float) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a rate (Wilson 1927); (0, 1) without data.

    Fractional counts are allowed.

    >>> tuple(round(bound, 3) for bound in wilson(8, 10))
    (0.49, 0.943)
    """
    if count <= 0:
        return (0.0, 1.0)
    rate = hits / count
    shrink = 1 + Z95**2 / count
    middle = (rate + Z95**2 / (2 * count)) / shrink
    half = Z95 / shrink * math.sqrt(rate * (1 - rate) / count + Z95**2 / (4 * count**2))
    # The ends are exact if nothing or everything succeeded; rounding would leave 1e-19 or
    # 1 - 1e-16.
    return (
        0.0 if hits <= 0 else max(0.0, middle - half),
        1.0 if hits >= count else min(1.0, middle + half),
    )


def cluster_interval(hits: Floats, counts: Floats) -> tuple[float, float]:
    """Return the 95 % interval of sum(hits) / sum(counts) where scenes and seeds are clusters.

    It is Wilson's interval with the sample size divided by the design effect: the variance of the
    ratio estimator over clusters (see `_variance`) over that of independent draws, never below 1. A
    single scene has no spread between scenes, so its interval is Wilson's.

    Args:
        hits, counts: (scenes,) or (seeds, scenes) successes and trials.
    """
    total = float(counts.sum())
    if total == 0:
        return (0.0, 1.0)
    rate = float(hits.sum()) / total
    independent = rate * (1 - rate) / total
    effect = 1.0
    if independent > 0:
        effect = max(1.0, _variance(hits, counts) / independent)
    return wilson(rate * total / effect, total / effect)


def mean_interval(values: Floats, counts: Floats, most: float = math.inf) -> tuple[float, float]:
    """Return the 95 % interval of sum(values) / sum(counts) where scenes and seeds are clusters.

    It is a normal approximation with the variance of `_variance`, clipped to the range of the mean.
    A single scene with one seed has no spread, so it has no interval: (NaN, NaN).

    Args:
        values, counts: (scenes,) or (seeds, scenes) sums, 0 or more, and their numbers of terms.
        most: upper bound of the mean: 1 for shares and likelihoods.
    """
    total = float(counts.sum())
    if total == 0 or (counts.ndim < 2 or len(counts) == 1) and np.count_nonzero(counts) == 1:
        return (math.nan, math.nan)
    mean, half = float(values.sum()) / total, Z95 * math.sqrt(_variance(values, counts))
    return (max(mean - half, 0.0), min(mean + half, most))


def _variance(values: Floats, counts: Floats) -> float:
    """Return the variance of the ratio sum(values) / sum(counts) over clusters.

    Over scenes it is that of the ratio estimator (Cochran, Sampling Techniques, 6.3, with the
    factor K / (K - 1)). Scenes and seeds cross: each scene is driven with each seed. So what both
    share is counted once (Cameron, Gelbach and Miller, "Robust inference with multiway clustering",
    2011): variance over scenes + over seeds - over pairs, and at least that over scenes.
    """
    values, counts = np.atleast_2d(values), np.atleast_2d(counts)
    used = counts.sum(axis=0) > 0
    values, counts = values[:, used], counts[:, used]
    total = counts.sum()
    residual = values - values.sum() / total * counts
    of_scenes, of_seeds = (_spread(residual.sum(axis=axis)) for axis in (0, 1))
    of_pairs = _spread(residual.ravel()) if min(residual.shape) > 1 else min(of_scenes, of_seeds)
    return float(max(of_scenes, of_scenes + of_seeds - of_pairs) / total**2)


def _spread(residual: Floats) -> float:
    """Return the sum of squares of clusters' residuals, times K / (K - 1); 0 for one cluster."""
    clusters = len(residual)
    return clusters / (clusters - 1) * float(np.sum(residual**2)) if clusters > 1 else 0.0
