# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Likelihood of the log under rollouts: histograms per object, and their weighted mean.

Source: Montali et al., "The Waymo Open Sim Agents Challenge" (NeurIPS 2023), section 4. Bins and
smoothing are those of the challenges of 2024 and 2025, whose weights differ (WEIGHTS). NumPy only;
runs in the learner.

The rollouts' values of a feature of one object, at all times together, make a histogram with a
pseudocount in each bin. The log's value at a time has the probability of its bin. A feature's
likelihood is exp(mean of log-probabilities over valid objects and times). The three indicators
count once per object: whether it collides, is off the road, or runs a red light at any valid time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.schema import Floats

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Estimator:
    """Histogram of a feature, and the group of features that it belongs to."""

    low: float
    high: float
    bins: int
    pseudocount: float
    group: str


_BOOL = (-0.5, 1.5, 2, 0.001)
ESTIMATORS: dict[str, Estimator] = {
    "linear_speed": Estimator(0.0, 25.0, 10, 0.1, "kinematic"),
    "linear_acceleration": Estimator(-12.0, 12.0, 11, 0.1, "kinematic"),
    "angular_speed": Estimator(-0.628, 0.628, 11, 0.1, "kinematic"),
    "angular_acceleration": Estimator(-3.14, 3.14, 11, 0.1, "kinematic"),
    "distance_to_nearest_object": Estimator(-5.0, 40.0, 10, 0.1, "interaction"),
    "collision": Estimator(*_BOOL, "interaction"),
    "time_to_collision": Estimator(0.0, 5.0, 10, 0.1, "interaction"),
    "distance_to_road_edge": Estimator(-20.0, 40.0, 10, 0.1, "map"),
    "offroad": Estimator(*_BOOL, "map"),
    "traffic_light_violation": Estimator(*_BOOL, "map"),
}
GROUPS = ("kinematic", "interaction", "map")
# The share of each feature in the score, by the year of the challenge.
WEIGHTS: dict[str, dict[str, float]] = {
    "2025": {
        **dict.fromkeys(ESTIMATORS, 0.05),
        "distance_to_nearest_object": 0.10,
        "collision": 0.25,
        "time_to_collision": 0.10,
        "offroad": 0.25,
    },
}
WEIGHTS["2024"] = WEIGHTS["2025"] | {"distance_to_road_edge": 0.10, "traffic_light_violation": 0.0}
YEARS = tuple(WEIGHTS)
YEAR = "2025"  # unless another one is chosen


def log_probability(estimator: Estimator, log: Floats, rollouts: Floats) -> Floats:
    """Return the log-probability of each logged value under the rollouts' histogram of its object.

    Args:
        log: (N, T).
        rollouts: (R, N, T). Values outside the bins count in the outermost ones. NaN counts in the
            last bin, as in the challenge's code: at the end of a series, where a central difference
            has no next value.

    Returns:
        (N, T).
    """
    objects = len(log)
    values = rollouts.transpose(1, 0, 2).reshape(objects, -1)
    flat = (_bins(estimator, values) + np.arange(objects)[:, None] * estimator.bins).reshape(-1)
    counts = (
        np.bincount(flat, minlength=objects * estimator.bins).reshape(objects, estimator.bins)
        + estimator.pseudocount
    )
    share = np.log(counts / counts.sum(axis=1, keepdims=True))
    return np.asarray(np.take_along_axis(share, _bins(estimator, log), axis=1))


def _bins(estimator: Estimator, values: Floats) -> NDArray[np.int64]:
    edges = np.linspace(estimator.low, estimator.high, estimator.bins + 1)
    clipped = np.nan_to_num(np.clip(values, estimator.low, estimator.high), nan=estimator.high)
    return np.clip(np.searchsorted(edges, clipped, side="right") - 1, 0, estimator.bins - 1).astype(
        np.int64
    )


def likelihood(name: str, log: Floats, rollouts: Floats, valid: Bools) -> float:
    """Return the likelihood of a feature, in (0, 1]; NaN if nothing is valid.

    Args:
        name: in ESTIMATORS.
        log, valid: (N, T).
        rollouts: (R, N, T). Indicators, such as `collision`, are 0 or 1 per time.
    """
    estimator = ESTIMATORS[name]
    if estimator.bins == 2:
        log = np.asarray(((log > 0) & valid).any(axis=1, keepdims=True), np.float64)
        rollouts = np.asarray(((rollouts > 0) & valid).any(axis=2, keepdims=True), np.float64)
        valid = np.ones(log.shape, np.bool_)
    if not valid.any():
        return float("nan")
    return float(np.exp(log_probability(estimator, log, rollouts)[valid].mean()))


def combine(likelihoods: Mapping[str, float], year: str = YEAR) -> dict[str, float]:
    """Return weighted means of likelihoods: `realism` for all, and one for each group.

    Features that are NaN are left out, and so are their weights.

    Args:
        likelihoods: likelihoods by name in ESTIMATORS.
        year: year of the challenge, in WEIGHTS.

    >>> means = combine({name: 0.5 for name in ESTIMATORS})
    >>> {name: round(value, 6) for name, value in means.items()}
    {'realism': 0.5, 'kinematic': 0.5, 'interaction': 0.5, 'map': 0.5}
    """
    groups = {group: _mean(likelihoods, WEIGHTS[year], group) for group in GROUPS}
    return {"realism": _mean(likelihoods, WEIGHTS[year], None)} | groups


def _mean(
    likelihoods: Mapping[str, float], weights: Mapping[str, float], group: str | None
) -> float:
    known = [name for name, value in likelihoods.items() if value == value]
    used = {name: weights[name] for name in known if group in (None, ESTIMATORS[name].group)}
    total = sum(used.values())
    return (
        sum(weight * likelihoods[name] for name, weight in used.items()) / total
        if total
        else float("nan")
    )
