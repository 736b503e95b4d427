# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""95 % intervals of rates.

Cars of one scene meet each other and the same road, so they succeed or fail together: the interval of a total takes scenes for
clusters, since one that took all cars for independent draws would be too narrow. NumPy only; runs in the learner.
"""

from __future__ import annotations

import math

import numpy as np

from drive_env.scenes.schema import Floats

Z95 = 1.959963984540054


def wilson(hits: float, count: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a rate (Wilson 1927). No data: (0, 1). Fractional counts are allowed.

    >>> tuple(round(bound, 3) for bound in wilson(8, 10))
    (0.49, 0.943)
    """
    if count <= 0:
        return (0.0, 1.0)
    rate = hits / count
    shrink = 1 + Z95**2 / count
    middle = (rate + Z95**2 / (2 * count)) / shrink
    half = Z95 / shrink * math.sqrt(rate * (1 - rate) / count + Z95**2 / (4 * count**2))
    # The ends are exact where nothing or everything succeeded; rounding would leave 1e-19 or 1 - 1e-16.
    return (0.0 if hits <= 0 else max(0.0, middle - half), 1.0 if hits >= count else min(1.0, middle + half))


def clustered(hits: Floats, counts: Floats) -> tuple[float, float]:
    """95 % interval of sum(hits) / sum(counts) where each scene is a cluster.

    Wilson's interval with the sample size divided by the design effect: the variance of the ratio estimator over clusters
    (Cochran, Sampling Techniques, 6.3, with the factor K / (K - 1)) over that of independent draws, never below 1. One scene
    alone shows nothing of the spread between scenes: its interval is Wilson's.

    Args:
        hits, counts: (scenes,) successes and trials per scene.
    """
    used = counts > 0
    hits, counts = hits[used], counts[used]
    total = float(counts.sum())
    if total == 0:
        return (0.0, 1.0)
    rate = float(hits.sum()) / total
    independent = rate * (1 - rate) / total
    clusters = len(counts)
    effect = 1.0
    if clusters > 1 and independent > 0:
        residual = hits - rate * counts
        variance = clusters / (clusters - 1) * float(np.sum(residual**2)) / total**2
        effect = max(1.0, variance / independent)
    return wilson(rate * total / effect, total / effect)


def mean_interval(values: Floats, counts: Floats) -> tuple[float, float]:
    """95 % interval of sum(values) / sum(counts) where each scene is a cluster: normal approximation with the variance of the
    ratio estimator, as in `clustered`. One scene alone shows nothing of the spread: its interval is the mean itself.

    Args:
        values, counts: (scenes,) sums and what they are sums over.
    """
    used = counts > 0
    values, counts = values[used], counts[used]
    total, clusters = float(counts.sum()), len(counts)
    if clusters == 0:
        return (math.nan, math.nan)
    mean = float(values.sum()) / total
    if clusters == 1:
        return (mean, mean)
    variance = clusters / (clusters - 1) * float(np.sum((values - mean * counts) ** 2)) / total**2
    return (mean - Z95 * math.sqrt(variance), mean + Z95 * math.sqrt(variance))
