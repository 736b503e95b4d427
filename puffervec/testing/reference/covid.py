# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The rules of `covid` for one env in plain NumPy, for readers and for comparisons.

51 states choose the stringency of their measures against an epidemic; a planner pays subsidies.
Written from the formulas of Trott, Srinivasa, van der Wal, Haneuse, Zheng, "Building a Foundation
for Data-Driven, Interpretable, and Robust Policy Design using the AI Economist", 2021
(arXiv:2108.02904). All numbers are float64, and every sum is computed as in the paper, not
incrementally: unemployment sums over 600 days again each day. See puffervec.check_env_equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

STATES, WINDOW, LEVELS, YEAR = 51, 600, 10, 365.0
PEOPLE = ("susceptible", "infected", "recovered", "vaccinated", "dead", "unemployed")
Rows = dict[str, np.ndarray]


class Data(Protocol):
    """Those attributes of puffervec.envs.covid.data.CovidData that this file uses."""

    @property
    def planner(self) -> np.ndarray: ...
    @property
    def lambdas(self) -> np.ndarray: ...
    @property
    def weights(self) -> np.ndarray: ...
    @property
    def stringency(self) -> np.ndarray: ...
    def column(self, name: str) -> np.ndarray: ...


class Covid:
    """One env. Its rows form two groups, "states" (51 rows) and "planner" (one row).

    Attributes:
        susceptible, infected, recovered, vaccinated, dead, unemployed: (51,) float64, people.
        production: (51,) float64, production of the last day in USD, including subsidies; 0 after a
            reset.
        history: (601 + time, 51) int64, stringency by day; the last row is today's.
        kept_until: (51,) int64, the time from which the stringency may be changed.
        subsidy_level, time: int.
        indices: scaled health and economic index of the last day, [(2, 51) of the states, (2, 1) of
            the planner].
    """

    susceptible: np.ndarray
    infected: np.ndarray
    recovered: np.ndarray
    vaccinated: np.ndarray
    dead: np.ndarray
    unemployed: np.ndarray

    def __init__(
        self,
        data: Data,
        episode_length: int = 540,
        action_cooldown_period: int = 28,
        subsidy_interval: int = 90,
        num_subsidy_levels: int = 20,
        vaccine_delivery_start: int = 296,
        delivery_interval: int = 1,
        beta_delay: int = 29,
        max_annual_subsidy_per_person: float = 20_000.0,
        daily_vaccines_per_million_people: float = 3000.0,
        infectious_days: float = 14.0,
        death_rate: float = 0.02,
        infection_too_sick_to_work_rate: float = 0.1,
        pop_between_age_18_65: float = 0.6,
        risk_free_interest_rate: float = 0.03,
        gdp_per_capita: float = 65_300.0,
        health_priority_scaling_agents: float = 1.0,
        health_priority_scaling_planner: float = 1.0,
        reward_normalization_factor: float = 1.0,
    ) -> None:
        """Store data and the settings of `covid`."""
        self.data = data
        self.episode_length, self.cooldown, self.interval = (
            episode_length,
            action_cooldown_period,
            subsidy_interval,
        )
        self.levels, self.delay = num_subsidy_levels, beta_delay
        self.vaccine_start, self.vaccine_interval = vaccine_delivery_start, delivery_interval
        self.infectious_days, self.death_rate = infectious_days, death_rate
        self.too_sick, self.working_age = infection_too_sick_to_work_rate, pop_between_age_18_65
        self.interest, self.factor = risk_free_interest_rate, reward_normalization_factor
        self.population = data.column("population")
        self.doses = np.floor(
            delivery_interval * self.population / 1e6 * daily_vaccines_per_million_people
        )
        self.subsidy = self.population * max_annual_subsidy_per_person / YEAR / num_subsidy_levels
        # (5, 600), newest day last.
        self.kernel = np.exp(-np.arange(WINDOW)[::-1] / data.lambdas[:, None])
        usual = self.unemployment(np.zeros((5, STATES)))
        workers = int(pop_between_age_18_65 * self.population.sum() - usual.sum())
        self.daily = gdp_per_capita / (workers / self.population.sum()) / YEAR
        none = np.zeros(STATES)
        self.most = self._production(none, none, usual)
        self.weights = [
            _health_weight(data.column("alpha"), health_priority_scaling_agents),
            _health_weight(data.planner[:1], health_priority_scaling_planner),
        ]
        self.tastes = [
            [
                data.column(n)
                for n in ("eta", "health_min", "health_max", "economic_min", "economic_max")
            ],
            [data.planner[i : i + 1] for i in range(1, 6)],
        ]
        self.indices = [np.zeros((2, STATES)), np.zeros((2, 1))]
        self.reset()

    # ---- the env ---------------------------------------------------------------------------------

    def reset(self, seed: int | None = None) -> tuple[Rows, dict[str, Any]]:
        """Begin an episode on the last day of the data. Nothing is random; `seed` has no effect.

        Returns: observations: {"states": (51, 64), "planner": (1, 463)} float32. infos: empty.
        """
        self.time = self.subsidy_level = self.illegal_actions = 0
        for name in PEOPLE:
            if name != "dead":
                setattr(self, name, self.data.column(name).copy())
        self.dead = self.death_rate * (self.recovered - self.vaccinated)
        self.production = np.zeros(STATES)
        self.kept_until = np.zeros(STATES, np.int64)
        before = np.ones((WINDOW + 1 - len(self.data.stringency), STATES), np.int64)
        self.history = np.concatenate([before, self.data.stringency.astype(np.int64)])
        self.filters = self._filters()
        return self.observations(), {}

    def step(self, actions: Mapping[str, Any]) -> tuple[Rows, Rows, bool, bool, dict[str, Any]]:
        """Advance by a day.

        Args:
            actions: {"states": (51,) int, 0 keeps the stringency and 1 to 10 set it; "planner":
                (1,) int, the subsidy}.

        Returns: observations: as `reset`. rewards: {"states": (51,), "planner": (1,)}. terminated:
        the last day is over. truncated: False. infos: "events" counts the actions that the masks
        forbid.
        """
        states, planner = (
            np.asarray(actions["states"]).reshape(-1),
            int(np.asarray(actions["planner"]).item()),
        )
        allowed = self.action_masks()
        illegal = int((~allowed["states"][np.arange(STATES), states]).sum()) + int(
            not allowed["planner"][0, planner]
        )
        self.illegal_actions += illegal
        may_pay = self.time % self.interval == 0
        self.time += 1
        self._set_measures(states)
        if may_pay:
            self.subsidy_level = planner
        deaths = self._infect()
        self.filters = self._filters()
        self.unemployed = self.unemployment(self.filters)
        subsidies = self.subsidy_level * self.subsidy
        self.production = self._production(self.infected, self.dead, self.unemployed) + subsidies
        rewards = self._rewards(deaths, subsidies)
        return (
            self.observations(),
            rewards,
            self.time >= self.episode_length,
            False,
            {"events": {"illegal": illegal}},
        )

    def _set_measures(self, actions: np.ndarray) -> None:
        may = self.time == self.kept_until + 1
        changed = may & (actions != 0)
        self.kept_until = self.kept_until + np.where(changed, self.cooldown, np.where(may, 1, 0))
        self.history = np.concatenate(
            [self.history, [np.where(changed, actions, self.history[-1])]]
        )

    def _infect(self) -> np.ndarray:
        """Advance the SIR model with vaccination by a day; return the day's deaths, (51,)."""
        delivery = self.time >= self.vaccine_start and self.time % self.vaccine_interval == 0
        doses = self.doses if delivery else np.zeros(STATES)
        beta = (
            self.data.column("beta_intercept")
            + self.data.column("beta_slope") * self.history[-1 - self.delay]
        )
        vaccinated = np.minimum(doses, self.susceptible)
        immune = np.minimum(1.0, doses / (self.susceptible + 1e-10))
        ds = (
            -beta * (self.susceptible / self.population) * self.infected * (1.0 - immune)
            - vaccinated
        )
        dr = self.infected / self.infectious_days + vaccinated
        self.susceptible = np.maximum(0.0, self.susceptible + ds)
        self.infected = np.maximum(0.0, self.infected - ds - dr)
        self.recovered = np.maximum(0.0, self.recovered + dr)
        self.vaccinated = np.maximum(0.0, self.vaccinated + vaccinated)
        before, self.dead = (
            self.dead,
            self.death_rate * np.maximum(0.0, self.recovered - self.vaccinated),
        )
        return np.asarray(self.dead - before)

    def _filters(self) -> np.ndarray:
        """Return (5, 51) sums of 600 days' stringency changes times exp(-age / lambda)."""
        return np.asarray(
            self.kernel @ np.diff(self.history[-WINDOW - 1 :], axis=0).astype(np.float64)
        )

    def unemployment(self, filters: np.ndarray) -> np.ndarray:
        """Return the number of unemployed people, (51,)."""
        x = (self.data.weights * filters).sum(axis=0)
        soft = np.where(x > 20.0, x, np.log1p(np.exp(np.minimum(x, 20.0))))
        return np.asarray((soft + self.data.column("unemployment_bias")) * self.population / 100.0)

    def _production(
        self, infected: np.ndarray, dead: np.ndarray, unemployed: np.ndarray
    ) -> np.ndarray:
        """Return production without subsidies, (51,), USD a day."""
        missing = self.working_age * (self.too_sick * infected + dead) + unemployed
        return np.asarray(
            np.maximum(0.0, self.working_age * self.population - missing) * self.daily
        )

    def _rewards(self, deaths: np.ndarray, subsidies: np.ndarray) -> Rows:
        usual, paid = YEAR * self.most, (1.0 + self.interest) * subsidies.sum()
        return {
            "states": self._reward(0, -deaths * 1e7 / usual, self.production / usual),
            "planner": self._reward(
                1,
                -deaths.sum(keepdims=True) * 1e7 / usual.sum(),
                (self.production.sum(keepdims=True) - paid) / usual.sum(),
            ),
        }

    def _reward(self, who: int, health: np.ndarray, production: np.ndarray) -> np.ndarray:
        """Return rewards from the change of health and production, as shares of a usual year."""
        eta, health_min, health_max, economic_min, economic_max = self.tastes[who]
        weight = self.weights[who]
        healthy = (health - health_min) / (health_max - health_min + 1e-10)
        wealthy = (_utility(production, eta) - economic_min) / (economic_max - economic_min + 1e-10)
        self.indices[who] = np.stack([healthy, wealthy])
        return np.asarray((weight * healthy + (1.0 - weight) * wealthy) / self.factor)

    # ---- observations ----------------------------------------------------------------------------

    def action_masks(self) -> dict[str, np.ndarray]:
        """Return {"states": (51, 11), "planner": (1, levels + 1)} bool: the allowed actions."""
        states = np.ones((STATES, LEVELS + 1), np.bool_)
        states[:, 1:] = (self.time >= self.kept_until)[:, None]
        planner = np.ones((1, self.levels + 1), np.bool_)
        planner[:, 1:] = self.time % self.interval == 0
        return {"states": states, "planner": planner}

    def observations(self) -> Rows:
        """Return {"states": (51, 64), "planner": (1, 463)} float32; columns: see docs/covid.md."""
        people = [
            getattr(self, name) / self.population
            for name in (*PEOPLE[:3], "dead", "vaccinated", "unemployed")
        ]
        # (8, 51)
        columns = np.stack(
            [*people, self.production / self.most, self.history[-self.delay] / LEVELS]
        )
        stringency, time = self.history[-1] / LEVELS, self.time / self.episode_length
        calendar = [
            1.0 - self.time % self.interval / self.interval,
            self.subsidy_level / self.levels,
            self._vaccine_wait(),
        ]
        ones = np.ones((STATES, 1))
        states = np.hstack(
            [np.eye(STATES), columns.T, time * ones, stringency[:, None], ones * calendar]
        )
        planner = np.concatenate([columns.reshape(-1), [time], stringency, calendar])[None]
        return {"states": states.astype(np.float32), "planner": planner.astype(np.float32)}

    def _vaccine_wait(self) -> float:
        """Return the days until the next delivery as a share of the days until the first one."""
        every = self.vaccine_interval
        next_one = -(-max(self.vaccine_start, self.time + 1) // every) * every
        return float((next_one - self.time) / (max(1, -(-self.vaccine_start // every)) * every))

    def state(self) -> dict[str, np.ndarray]:
        """Return a copy of the state by name, as `peek` of the C env does."""
        people = {name: getattr(self, name).copy() for name in (*PEOPLE, "production")}
        counts = {"time": np.array([self.time]), "subsidy_level": np.array([self.subsidy_level])}
        levels = {
            "kept_until": self.kept_until.copy(),
            "stringency": self.history[-self.delay :].copy(),
        }
        return {**people, "filters": self.filters.copy(), **counts, **levels}


def _health_weight(alpha: np.ndarray, scale: float) -> np.ndarray:
    z = scale * alpha / (1.0 - alpha)
    return np.asarray(z / (1.0 + z))


def _utility(production: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """Return the CRRA utility of a year's production, per day."""
    x, exponent = np.clip(YEAR * production, 0.1, 3.0), 1.0 - eta
    power = (x**exponent - 1.0) / np.where(exponent == 0.0, 1.0, exponent)
    return np.asarray((1.0 + np.where(exponent == 0.0, np.log(x), power)) / YEAR)
