# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Likelihoods of the log equal the plain twin's."""

from __future__ import annotations

import math

import numpy as np
import pytest

from drive_env.evaluate.likelihood import (
    ESTIMATORS,
    GROUPS,
    WEIGHTS,
    YEAR,
    combine,
    likelihood,
    log_probability,
)
from tests.twins import wosac

TIMED = [name for name, estimator in ESTIMATORS.items() if estimator.bins > 2]


def test_bins_are_those_of_the_challenge() -> None:
    """Its configurations of 2024 and 2025 have equal ones (sim_agents/*_config.textproto); the
    twin takes them from here.
    """
    accelerations = {"linear_acceleration": 12.0, "angular_speed": 0.628,
                     "angular_acceleration": 3.14}  # fmt: skip
    expected = {
        "linear_speed": (0.0, 25.0, 10), "distance_to_nearest_object": (-5.0, 40.0, 10),
        "time_to_collision": (0.0, 5.0, 10), "distance_to_road_edge": (-20.0, 40.0, 10),
        **{name: (-most, most, 11) for name, most in accelerations.items()},
    }  # fmt: skip
    found = {name: ESTIMATORS[name] for name in TIMED}
    assert {name: (of.low, of.high, of.bins) for name, of in found.items()} == expected
    assert {of.pseudocount for of in found.values()} == {0.1}
    kinds = {name: of.group for name, of in ESTIMATORS.items()}
    assert [name for name, group in kinds.items() if group == "map"] == [
        "distance_to_road_edge", "offroad", "traffic_light_violation",
    ]  # fmt: skip


@pytest.mark.parametrize("name", TIMED)
def test_series_equal_the_twin(name: str) -> None:
    rng, estimator = np.random.default_rng(len(name)), ESTIMATORS[name]
    width = estimator.high - estimator.low
    log = rng.uniform(estimator.low - 0.1 * width, estimator.high + 0.1 * width, (4, 9))
    log[0, :3] = (
        estimator.low,
        estimator.high,
        estimator.low + width / estimator.bins,
    )  # on the edges of bins
    rollouts = rng.uniform(estimator.low - 0.1 * width, estimator.high + 0.1 * width, (5, 4, 9))
    valid = rng.random((4, 9)) < 0.7
    assert likelihood(name, log, rollouts, valid) == pytest.approx(
        wosac.likelihood(log, rollouts, valid, estimator), rel=1e-12
    )


@pytest.mark.parametrize("name", ["collision", "offroad", "traffic_light_violation"])
def test_indications_count_once_per_object(name: str) -> None:
    log = np.zeros((2, 4))
    log[0, 1] = 1  # it collides
    rollouts = np.zeros((4, 2, 4))
    rollouts[:3, 0, 2] = 1  # so it does in three of four
    rollouts[0, 1, 3] = 1  # in one of four, at a time that is not valid
    valid = np.ones((2, 4), bool)
    valid[1, 3] = False
    seen = (3 + 0.001) / 4.002, (4 + 0.001) / 4.002
    assert likelihood(name, log, rollouts, valid) == pytest.approx(
        math.sqrt(seen[0] * seen[1]), rel=1e-12
    )


def test_the_log_itself_is_as_likely_as_its_own_histogram() -> None:
    """A constant feature is certain but for the pseudocounts; values far from the log's are not."""
    log = np.full((3, 10), 7.0)
    same = likelihood("linear_speed", log, np.full((32, 3, 10), 7.0), log > 0)
    other = likelihood("linear_speed", log, np.full((32, 3, 10), 20.0), log > 0)
    assert same == pytest.approx(320.1 / 321, rel=1e-12) and other == pytest.approx(
        0.1 / 321, rel=1e-12
    )


def test_values_that_are_missing_count_in_the_last_bin() -> None:
    """Of 4 rollouts with 5 values each, the last of each is NaN: 16 of 20 are where the log is,
    and 4 in the last bin.
    """
    rollouts = np.full((4, 1, 5), 7.0)
    rollouts[..., -1] = np.nan
    log = np.full((1, 5), 7.0)
    assert likelihood("linear_speed", log, rollouts, log > 0) == pytest.approx(16.1 / 21, rel=1e-12)
    assert likelihood("linear_speed", log + 17.0, rollouts, log > 0) == pytest.approx(
        4.1 / 21, rel=1e-12
    )


def test_probabilities_sum_to_one() -> None:
    for name, estimator in ESTIMATORS.items():
        rollouts = np.random.default_rng(0).normal(0, 10, (6, 1, 20))
        middles = (
            estimator.low
            + (np.arange(estimator.bins) + 0.5) * (estimator.high - estimator.low) / estimator.bins
        )
        assert np.exp(log_probability(estimator, middles[None], rollouts)).sum() == pytest.approx(
            1.0
        ), name


def test_weights() -> None:
    """Those of the challenge of 2025, unless the year before is asked for."""
    changed = {"distance_to_road_edge": (0.10, 0.05), "traffic_light_violation": (0.0, 0.05)}
    rest = {
        **dict.fromkeys(("linear_speed", "linear_acceleration"), 0.05),
        **dict.fromkeys(("angular_speed", "angular_acceleration"), 0.05),
        **dict.fromkeys(("distance_to_nearest_object", "time_to_collision"), 0.10),
        **dict.fromkeys(("collision", "offroad"), 0.25),
    }
    for number, year in enumerate(("2024", "2025")):
        expected = rest | {name: values[number] for name, values in changed.items()}
        assert WEIGHTS[year] == expected and list(WEIGHTS[year]) == list(ESTIMATORS)
        assert sum(expected.values()) == pytest.approx(1.0)
    assert YEAR == "2025" and set(WEIGHTS) == {"2024", "2025"}
    assert {estimator.group for estimator in ESTIMATORS.values()} == set(GROUPS)
    found = combine({name: float(name in ("collision", "offroad")) for name in ESTIMATORS})
    assert found["realism"] == pytest.approx(0.5) and found["kinematic"] == 0
    assert found["interaction"] == pytest.approx(0.25 / 0.45)
    assert found["map"] == pytest.approx(0.25 / 0.35)
    lights = {name: float(name == "traffic_light_violation") for name in ESTIMATORS}
    assert combine(lights)["realism"] == pytest.approx(0.05)
    assert combine(lights)["map"] == pytest.approx(0.05 / 0.35)
    assert combine(lights, "2024")["realism"] == 0


def test_what_is_nowhere_valid_is_left_out() -> None:
    assert math.isnan(
        likelihood("linear_speed", np.zeros((1, 3)), np.zeros((2, 1, 3)), np.zeros((1, 3), bool))
    )
    found = combine(
        {name: float("nan") if name.startswith("angular") else 0.5 for name in ESTIMATORS}
    )
    assert found["realism"] == pytest.approx(0.5) and found["kinematic"] == pytest.approx(0.5)
