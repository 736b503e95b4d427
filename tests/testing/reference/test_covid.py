# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The twin of covid (puffervec/testing/reference/covid.py): its sums by hand."""

from __future__ import annotations

import numpy as np
import pytest

from puffervec.envs.covid.data import load_data
from puffervec.testing.reference.covid import Covid, _utility

DATA = load_data()


def stepped(env: Covid, days: int, states: int = 0, planner: int = 0) -> Covid:
    for _ in range(days):
        env.step({"states": np.full(51, states), "planner": np.array([planner])})
    return env


def test_unemployment_is_a_sum_over_600_days() -> None:
    env = stepped(Covid(DATA), 3, 7)
    levels = [1] * (600 - 82 - 3 + 1) + DATA.stringency[:, 4].tolist() + [7, 7, 7]
    total = 0.0
    for w, days in zip(DATA.weights[:, 4], DATA.lambdas, strict=True):
        total += w * sum(
            (levels[j + 1] - levels[j]) * np.exp(-(599 - j) / days) for j in range(600)
        )
    percent = np.log(1 + np.exp(total)) + DATA.column("unemployment_bias")[4]
    assert env.unemployed[4] == pytest.approx(
        percent * DATA.column("population")[4] / 100, rel=1e-12
    )


def test_rewards_of_a_day() -> None:
    env = Covid(DATA)
    dead = env.dead
    _, rewards, *_ = env.step({"states": np.zeros(51, int), "planner": np.array([4])})
    alpha, eta, health_min, health_max, economic_min, economic_max = DATA.states[8, -6:]
    health = -(env.dead[8] - dead[8]) * 1e7 / (365 * env.most[8])
    x = env.production[8] / env.most[8]
    economy = (1 + (x ** (1 - eta) - 1) / (1 - eta)) / 365
    scaled = (
        (health - health_min) / (health_max - health_min),
        (economy - economic_min) / (economic_max - economic_min),
    )
    assert rewards["states"][8] == pytest.approx(
        alpha * scaled[0] + (1 - alpha) * scaled[1], rel=1e-5
    )


def test_the_planner_pays_with_interest() -> None:
    """A subsidy costs the country 3 % of it, and nothing else changes in one day."""
    shares = []
    for level in (0, 20):
        env = stepped(Covid(DATA), 1, 0, level)
        paid = level * env.subsidy.sum()
        shares.append((env.production.sum() - 1.03 * paid) / env.most.sum())
        x = np.array([shares[-1] / 365])
        economy = (_utility(x, DATA.planner[1:2]) - DATA.planner[4]) / (
            DATA.planner[5] - DATA.planner[4] + 1e-10
        )
        assert env.indices[1][1] == pytest.approx(economy, rel=1e-9)
    expected = 0.03 * 20_000 / 365 * DATA.column("population").sum() / env.most.sum()
    assert shares[0] - shares[1] == pytest.approx(expected, rel=1e-9)


def test_the_calendar() -> None:
    env = Covid(DATA, vaccine_delivery_start=10, delivery_interval=4, subsidy_interval=8)
    seen = []
    for _ in range(14):
        observations = env.observations()
        assert observations["planner"][0, -3:].tolist() == observations["states"][0, -3:].tolist()
        seen.append(tuple(round(float(v), 3) for v in observations["states"][0, [-3, -1]]))
        env.step({"states": np.zeros(51, int), "planner": np.array([0])})
    assert [wait for wait, _ in seen[:9]] == [1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125, 1.0]
    assert [wait for _, wait in seen[9:]] == [
        0.25,
        0.167,
        0.083,
        0.333,
        0.25,
    ]  # deliveries on days 12 and 16
    assert (
        env.vaccinated.sum()
        == env.doses.sum()
        == np.floor(4 * DATA.column("population") * 3e-3).sum()
    )


@pytest.mark.parametrize(("eta", "expected"), [(0.0, 0.5), (1.0, 1 + np.log(0.5)), (2.0, 0.0)])
def test_utility(eta: float, expected: float) -> None:
    assert _utility(np.array([0.5 / 365]), np.array([eta]))[0] * 365 == pytest.approx(expected)
    clipped = [
        _utility(np.array([share / 365]), np.array([eta]))[0] for share in (0.05, 0.1, 3.0, 9.0)
    ]
    assert clipped[:2] == pytest.approx([clipped[0]] * 2) and clipped[2:] == pytest.approx(
        [clipped[2]] * 2
    )
    assert clipped[1] < clipped[2]
