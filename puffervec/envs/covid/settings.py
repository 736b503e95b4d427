# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`covid`: a game in an epidemic, where 51 states choose restrictions and a planner pays subsidies.

The settings have the names and values of the configuration published with the paper (see
docs/covid.md); `build` converts them for C.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from puffervec.contract.native import EnvData
from puffervec.envs.covid.data import CovidData, load_data
from puffervec.errors import ConfigError


def _number(default: float) -> Any:
    """Return a field for a real number that is passed to C as float64 (config structs: float32)."""
    return field(default=default, metadata={"python": True})


@dataclass(frozen=True)
class CovidConfig:
    """Settings of covid."""

    episode_length: int = 540
    """Days of an episode, at most 600."""
    action_cooldown_period: int = 28
    """Days for which a state keeps a stringency level that it has chosen."""
    subsidy_interval: int = 90
    """Days for which the planner keeps a subsidy level."""
    num_subsidy_levels: int = 20
    """Number of subsidy levels that the planner can choose, besides no subsidy."""
    vaccine_delivery_start: int = 296
    """Day of an episode on which the delivery of vaccines starts; beyond its end: no vaccines."""
    delivery_interval: int = 1
    """Days between deliveries of vaccines."""
    beta_delay: int = 29
    """Days until a change of stringency affects transmission."""
    max_annual_subsidy_per_person: float = _number(20_000.0)
    """Highest subsidy per person and year, in USD."""
    daily_vaccines_per_million_people: float = _number(3000.0)
    """Doses per day and million people; one dose makes a person immune."""
    infectious_days: float = _number(14.0)
    """Mean time in days until an infected person recovers or dies."""
    death_rate: float = _number(0.02)
    """Share of infected people who die."""
    infection_too_sick_to_work_rate: float = _number(0.1)
    """Share of infected people who are too sick to work."""
    pop_between_age_18_65: float = _number(0.6)
    """Share of people who are of working age."""
    risk_free_interest_rate: float = _number(0.03)
    """Annual interest rate that the planner pays on borrowed subsidies."""
    gdp_per_capita: float = _number(65_300.0)
    """Production per person and year without the pandemic, in USD."""
    health_priority_scaling_agents: float = _number(1.0)
    """Factor of the states' weight for health relative to the economy."""
    health_priority_scaling_planner: float = _number(1.0)
    """Factor of the planner's weight for health relative to the economy."""
    reward_normalization_factor: float = _number(1.0)
    """Number by which rewards are divided."""
    data: str | None = field(default=None, metadata={"python": True})
    """Folder of your own data (four CSV files, see docs/covid.md). None: the synthetic data set of
    the package.
    """


# Bounds of the settings that are real numbers, in the order of covid_numbers (csrc/covid/covid.h).
NUMBERS: Mapping[str, tuple[float, float]] = {
    "max_annual_subsidy_per_person": (0.0, 1e9),
    "daily_vaccines_per_million_people": (0.0, 1e6),
    "infectious_days": (1.0, 1e6),
    "death_rate": (0.0, 1.0),
    "infection_too_sick_to_work_rate": (0.0, 1.0),
    "pop_between_age_18_65": (0.01, 1.0),
    "risk_free_interest_rate": (0.0, 10.0),
    "gdp_per_capita": (1.0, 1e9),
    "health_priority_scaling_agents": (0.0, 1e6),
    "health_priority_scaling_planner": (0.0, 1e6),
    "reward_normalization_factor": (1e-6, 1e6),
}


def numbers_of(config: CovidConfig) -> np.ndarray:
    """Return the settings that are real numbers, (11,) float64.

    Raises:
        ConfigError: a setting is out of bounds; the message names it, its value and what is
            allowed.
    """
    for name, (low, high) in NUMBERS.items():
        value = getattr(config, name)
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float, np.integer, np.floating))
            or not low <= value <= high
        ):
            raise ConfigError(f"covid: {name} is {value!r}: use a number from {low:g} to {high:g}")
    return np.array([getattr(config, name) for name in NUMBERS], np.float64)


def data_of(config: CovidConfig) -> CovidData:
    """Return the data that the settings name.

    Raises:
        ConfigError: as `load_data`, or `data` is not a path.
    """
    if config.data is not None and not isinstance(config.data, str):
        raise ConfigError(
            f"covid: data is {config.data!r}: must be the path of a folder, or None for the "
            "synthetic data set"
        )
    return load_data(config.data)


def build(config: CovidConfig) -> EnvData:
    """Return the data for C: the states' data, and the settings that are real numbers."""
    data = data_of(config)
    arrays = {
        name: getattr(data, name)
        for name in ("states", "planner", "lambdas", "weights", "stringency")
    }
    return EnvData(params={"numbers": numbers_of(config), **arrays})
