# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Computes the score of nuPlan's closed-loop challenges from what the env measures of a drive.

The score is a weighted mean of four metrics times four factors, which are 0 if the drive fails
(nuplan-devkit 1.2, "nuPlan Final Score Structure"). Four metrics are measured in another way:
the drivable area ends at a road edge, without nuPlan's tolerance of 0.3 m; any contact that is the
car's fault makes the score 0, where nuPlan has 0.5 for one with a cone; comfort is judged over half
a second, without the yaw acceleration; and the speed limit counts the largest excess for the whole
time above the limit, which is at least the excess that nuPlan integrates. Runs in the learner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drive_env.evaluate.intervals import mean_interval
from puffervec.contract.evaluation import Interval, Row

FACTORS = ("no_at_fault_collision", "drivable_area", "driving_direction", "making_progress")
WEIGHTS = {"progress": 5.0, "time_to_collision": 5.0, "speed_limit": 4.0, "comfort": 2.0}
SCORE = "nuplan_score"
LEAST_PROGRESS = 0.2
# Largest distances driven against traffic at which the metric of direction is still 1, and 0.5.
FULLY_M, HALF_M = 2.0, 6.0
MOST_OVER_MPS = 2.23  # Mean excess over the speed limit at which its metric is 0: 5 mph.


def metrics_of(agent: Mapping[str, Any], progress: float) -> dict[str, float]:
    """Return nuPlan's metrics of a drive, each from 0 to 1, and its score.

    Args:
        agent: the agent's readable state at the end, with the setting `metrics`.
        progress: share of the way to the end of its log that the agent covered.
    """
    against_m = agent["wrong_way"]
    excess_mps = agent["most_over_limit"] * agent["speeding_steps"] / max(agent["judged_steps"], 1)
    metrics = {
        "no_at_fault_collision": float(agent["faults"] == 0),
        "drivable_area": float(agent["departures"] == 0),
        "driving_direction": 1.0 if against_m <= FULLY_M else 0.5 if against_m <= HALF_M else 0.0,
        "making_progress": float(progress >= LEAST_PROGRESS),
        "progress": progress,
        "time_to_collision": float(agent["short_ttc_steps"] == 0),
        "speed_limit": max(0.0, 1.0 - excess_mps / MOST_OVER_MPS),
        "comfort": float(agent["comfortable_spans"] == agent["spans"]),
    }
    mean = sum(weight * metrics[name] for name, weight in WEIGHTS.items()) / sum(WEIGHTS.values())
    return {**metrics, SCORE: mean * float(np.prod([metrics[name] for name in FACTORS]))}


def table_of(agents: Sequence[Row]) -> list[Row]:
    """Return a row per metric with its mean over drives and the 95 % interval over scenes.

    Args:
        agents: a row per agent and episode; those without the metrics are not counted.
    """
    driven = [row for row in agents if SCORE in row]
    if not driven:
        return []
    seeds, scenes = (
        {key: at for at, key in enumerate(dict.fromkeys(row[name] for row in driven))}
        for name in ("seed", "scene")
    )

    def interval(name: str) -> Interval:
        values, counts = np.zeros((2, len(seeds), len(scenes)))
        for row in driven:
            at = seeds[row["seed"]], scenes[row["scene"]]
            values[at] += float(str(row[name]))
            counts[at] += 1
        return Interval(float(values.sum() / counts.sum()), *mean_interval(values, counts, 1.0))

    return [
        {
            "metric": name,
            "mean": interval(name),
            "role": "factor" if name in FACTORS else WEIGHTS.get(name, "score"),
        }
        for name in (SCORE, *FACTORS, *WEIGHTS)
    ]
