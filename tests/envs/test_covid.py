# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""covid (csrc/covid/covid.c, puffervec/envs/covid): its rules by hand, its sums, and its twin step
by step.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec import check_env_equal
from puffervec.contract.native import EnvData
from puffervec.envs.covid import ENV
from puffervec.envs.covid.data import COLUMNS, LAMBDA, TASTE, WEIGHT, load_data
from puffervec.envs.covid.settings import NUMBERS, CovidConfig
from puffervec.errors import ConfigError, PuffervecError
from puffervec.testing.reference.covid import Covid
from puffervec.vec.vector_env import VectorEnv
from scripts.make_covid_data import save_data
from tests.helpers import serial, slow_but

STATES = 51
DATA = load_data()
POPULATION = DATA.column("population")
SHORT: dict[str, Any] = {
    "episode_length": 30, "action_cooldown_period": 4, "subsidy_interval": 7,
    "num_subsidy_levels": 5, "vaccine_delivery_start": 9, "delivery_interval": 2, "beta_delay": 6,
    "health_priority_scaling_agents": 0.3, "reward_normalization_factor": 2.5, "death_rate": 0.05,
}  # fmt: skip
# Differences from the twin, which adds up 600 days each day: rows to the last bit of float32,
# people to a thousandth of one.
TOLERANCES = {
    "observations": 1.3e-7, "rewards": 5e-7, "state.filters": 1e-11, "state.dead": 1e-5,
    "state.production": 1.0,
    "state.susceptible": 1e-3, "state.infected": 1e-3, "state.recovered": 1e-3,
    "state.vaccinated": 1e-3, "state.unemployed": 1e-3,
}  # fmt: skip


def act(vec: VectorEnv, states: Any = 0, planner: int = 0) -> tuple[Any, ...]:
    """Step one env with an action for all states, or one each."""
    return vec.step(
        {
            "states": np.broadcast_to(np.int32(states), STATES),
            "planner": np.array([planner], np.int32),
        }
    )


def masks(vec: VectorEnv) -> dict[str, np.ndarray]:
    """Return the action masks by group."""
    return {name: rows.action_masks for name, rows in vec.halves[0].groups.items()}


# ---- rules ---------------------------------------------------------------------------------------


def test_the_groups() -> None:
    with serial("covid") as vec:
        states, planner = vec.spec.groups
        assert (states.agents, planner.agents) == (51, 1)
        observations, _ = vec.reset(seed=0)
        assert observations["states"].shape == (51, 64) and observations["planner"].shape == (
            1,
            463,
        )
        allowed = masks(vec)
        assert (
            allowed["states"].shape == (51, 11)
            and allowed["planner"].shape == (1, 21)
            and allowed["states"].all()
        )


def test_a_stringency_that_is_set_stays_for_28_days() -> None:
    with serial("covid") as vec:
        vec.reset(seed=0)
        before = vec.peek(0)["stringency"][-1].copy()
        asked = np.where(np.arange(STATES) < 10, 9, 0)
        act(vec, asked)
        expected = np.where(asked, 9, before)
        for day in range(1, 29):
            assert vec.peek(0)["stringency"][-1].tolist() == expected.tolist()
            assert masks(vec)["states"][:10, 1:].any() == (day == 28)
            assert masks(vec)["states"][10:].all() and masks(vec)["states"][:, 0].all()
            if day < 28:
                act(vec, np.where(asked, 2, 0))
        assert vec.counters()["illegal_actions"] == 27 * 10
        act(vec, np.where(asked, 2, 0))
        assert vec.peek(0)["stringency"][-1].tolist() == np.where(asked, 2, before).tolist()


def test_the_planner_pays_by_quarters() -> None:
    with serial("covid") as vec:
        vec.reset(seed=0)
        for day in range(91):
            assert masks(vec)["planner"][0, 1:].all() == (day % 90 == 0)
            act(vec, 0, 20 if day == 0 else 7 if day == 90 else 5)
            paid = vec.peek(0)
            assert paid["subsidy_level"].tolist() == [7 if day == 90 else 20]
        assert vec.counters()["illegal_actions"] == 89
        most = (
            20_000 / 365 * POPULATION
        )  # USD a day of the highest subsidy, of which 7 / 20 are paid now
        act(vec, 0, 0)
        now = vec.peek(0)
        working = 0.6 * (POPULATION - 0.1 * now["infected"] - now["dead"]) - now["unemployed"]
        daily = (now["production"] - 7 / 20 * most) / working
        np.testing.assert_allclose(daily, daily[0], rtol=1e-12)
        assert 65_300 / 365 / 0.6 < daily[0] < 65_300 / 365 / 0.5


def test_a_day_of_the_epidemic_by_hand() -> None:
    with serial("covid", {"vaccine_delivery_start": 2}) as vec:
        vec.reset(seed=0)
        s, i, r = (DATA.column(name) for name in ("susceptible", "infected", "recovered"))
        beta = DATA.column("beta_intercept") + DATA.column("beta_slope") * DATA.stringency[-29]
        act(vec)
        new = beta * s / POPULATION * i
        first = vec.peek(0)
        np.testing.assert_allclose(first["susceptible"], s - new, rtol=1e-14)
        np.testing.assert_allclose(first["infected"], i + new - i / 14, rtol=1e-12)
        np.testing.assert_allclose(first["recovered"], r + i / 14, rtol=1e-14)
        np.testing.assert_allclose(first["dead"], 0.02 * (r + i / 14), rtol=1e-14)
        assert not first["vaccinated"].any()
        act(vec)
        assert vec.peek(0)["vaccinated"].tolist() == np.floor(POPULATION * 3000 / 1e6).tolist()


def test_measures_act_after_29_days() -> None:
    with serial("covid", num_envs=2) as vec:
        vec.reset(seed=0)
        for day in range(30):
            asked = np.zeros(2 * STATES, np.int32)
            if day == 0:
                asked[STATES:] = 10
            vec.step({"states": asked, "planner": np.zeros(2, np.int32)})
            infected = vec.peek(0)["infected"], vec.peek(1)["infected"]
            assert (infected[0] == infected[1]).all() == (day < 29)
        assert (infected[1] < infected[0]).all()


def test_nobody_is_lost() -> None:
    """S + I + R are the population, the vaccinated are among R, D is the share of the others."""
    with serial("covid") as vec:
        vec.reset(seed=0)
        draw = np.random.default_rng(3)
        for day in range(540):
            act(vec, draw.integers(0, 11, STATES), int(draw.integers(21)))
            if day % 20 == 19:
                now = vec.peek(0)
                np.testing.assert_allclose(
                    now["susceptible"] + now["infected"] + now["recovered"], POPULATION, rtol=1e-12
                )
                assert (now["vaccinated"] <= now["recovered"]).all()
                np.testing.assert_allclose(
                    now["dead"], 0.02 * (now["recovered"] - now["vaccinated"]), rtol=1e-12
                )
        assert now["vaccinated"].sum() > 1e8


def test_an_episode_ends_with_a_terminal_and_two_records() -> None:
    with serial("covid", SHORT) as vec:
        vec.reset(seed=0)
        returns = np.zeros(2)
        for day in range(30):
            if day == 10:  # A state that is set in an episode changes nothing of its sums.
                vec.poke(0, vec.peek(0))
            _, rewards, terminals, truncations, infos = act(vec, 3, 2)
            returns += rewards["states"].mean(dtype=np.float64), rewards["planner"][0]
        assert terminals["states"].all() and terminals["planner"].all()
        assert not truncations["states"].any() and not truncations["planner"].any()
        names = vec.spec.record_names
        of = [
            dict(zip(names, record["values"].tolist(), strict=False)) for record in infos.episodes
        ]
        assert of[0] == of[1] and infos.episodes["agent_type"].tolist() == [0, 1]
        np.testing.assert_allclose(infos.episodes["return"], returns, rtol=1e-5)
        assert infos.episodes["episode"].tolist() == [0, 0]
        assert of[0]["social_welfare"] == pytest.approx(returns[1], rel=1e-5)
        assert of[0]["states_return"] == pytest.approx(returns[0], rel=1e-5)
        state = vec.peek(0)
        assert of[0]["deaths"] == pytest.approx(state["dead"].sum(), rel=1e-6)
        subsidy = 2 / 5 * 20_000 / 365 * POPULATION.sum() * 30 * 1e-9
        assert of[0]["subsidies"] == pytest.approx(subsidy, rel=1e-6)
        assert of[0]["illegal_actions"] == vec.counters()["illegal_actions"]


@pytest.mark.parametrize(("level", "expected"), [(1, (0.0, 1.0)), (10, (1.0, 0.0))])
def test_the_indices_of_the_synthetic_data_are_bounded_by_two_policies(
    level: int, expected: tuple[float, float]
) -> None:
    with serial("covid") as vec:
        vec.reset(seed=0)
        for _ in range(540):
            infos = act(vec, np.where(masks(vec)["states"][:, 1], level, 0))[4]
        of = dict(zip(vec.spec.record_names, infos.episodes[0]["values"].tolist(), strict=False))
        assert (of["health_index"], of["economic_index"]) == pytest.approx(expected, abs=1e-6)


# ---- the twin ------------------------------------------------------------------------------------


def twin(**settings: Any) -> Covid:
    return Covid(DATA, **settings)


def uniform(env: Covid, draw: np.random.Generator) -> Any:
    return {"states": draw.integers(0, 11, STATES), "planner": draw.integers(0, env.levels + 1, 1)}


def obedient(env: Covid, draw: np.random.Generator) -> Any:
    given, masks = uniform(env, draw), env.action_masks()
    return {
        "states": given["states"] * masks["states"][:, 1],
        "planner": given["planner"] * masks["planner"][:, 1],
    }


def always(states: int, planner: int) -> Callable[..., Any]:
    return lambda env, draw: {"states": np.full(STATES, states), "planner": [planner]}


def swinging(env: Covid, draw: np.random.Generator) -> Any:
    """From one end to the other as often as it is allowed."""
    return {
        "states": np.where(env.history[-1] == 1, 10, 1),
        "planner": [20 if env.subsidy_level == 0 else 0],
    }


POLICIES = {
    "uniform": uniform, "obedient": obedient, "open": always(1, 0), "closed, paid": always(10, 20),
    "nothing": always(0, 0), "swinging": swinging,
}  # fmt: skip


@pytest.mark.parametrize("name", slow_but(["obedient"], POLICIES))
def test_the_twin_agrees_for_an_episode(name: str) -> None:
    seen = check_env_equal(
        "covid", twin, steps=541, actions=POLICIES[name], teacher_forced=True, tolerances=TOLERANCES
    )
    assert (seen.steps, seen.resets, seen.events["terminals"], seen.exempt) == (540, 2, 1, {})
    assert (seen.events["illegal"] == 0) == (name in ("obedient", "nothing"))


@pytest.mark.slow
def test_the_twin_agrees_for_four_episodes_of_random_actions() -> None:
    """With those of the other policies: ten episodes."""
    seen = check_env_equal(
        "covid", twin, steps=4 * 541, seeds=(7,), teacher_forced=True, tolerances=TOLERANCES
    )
    assert (seen.steps, seen.events["terminals"]) == (4 * 540, 4)


@pytest.mark.slow
def test_errors_do_not_add_up_without_teacher_forcing() -> None:
    seen = check_env_equal("covid", twin, steps=541, actions=uniform, tolerances=TOLERANCES)
    assert 0.0 < seen.largest["state.filters"] < 1e-11


def test_the_twin_agrees_with_other_settings() -> None:
    seen = check_env_equal(
        "covid", twin, settings=SHORT, steps=100, tolerances=TOLERANCES, teacher_forced=True
    )
    assert seen.events["terminals"] == 3


def test_action_masks_are_those_of_the_twin() -> None:
    env, draw = twin(**SHORT), np.random.default_rng(5)
    with serial("covid", SHORT) as vec:
        vec.reset(seed=0)
        for _ in range(30):
            for group, mask in env.action_masks().items():
                assert (masks(vec)[group] == mask).all()
            given = uniform(env, draw)
            env.step(given)
            vec.step({name: of.astype(np.int32) for name, of in given.items()})
        assert vec.counters()["illegal_actions"] == env.illegal_actions > 100


def test_utility_may_be_logarithmic_or_linear(tmp_path: Path) -> None:
    states = DATA.states.copy()
    states[:, -5] = np.where(np.arange(STATES) % 2, 1.0, 0.0)  # eta
    planner = DATA.planner.copy()
    planner[1] = 1.0
    save_data(dataclasses.replace(DATA, states=states, planner=planner), tmp_path)

    def own(data: str) -> Covid:
        return Covid(load_data(data))

    seen = check_env_equal(
        "covid", own, settings={"data": str(tmp_path)}, steps=60, tolerances=TOLERANCES
    )
    assert seen.steps == 60


def test_changes_of_600_days_ago_leave_the_filters(tmp_path: Path) -> None:
    """The synthetic data have none so early; these change every day."""
    levels = np.random.default_rng(2).integers(1, 11, (600, STATES), np.uint8)
    save_data(dataclasses.replace(DATA, stringency=levels, lambdas=DATA.lambdas * 10), tmp_path)

    def own(data: str, **settings: Any) -> Covid:
        return Covid(load_data(data), **settings)

    settings = {"data": str(tmp_path), "episode_length": 600}
    seen = check_env_equal("covid", own, settings=settings, steps=600, tolerances=TOLERANCES)
    assert seen.steps == 600 and seen.largest["state.filters"] > 0.0


def test_the_twin_takes_the_settings_of_the_env() -> None:
    settings = {name: value for name, value in vars(CovidConfig()).items() if name != "data"}
    assert Covid(DATA, **settings).most.tolist() == Covid(DATA).most.tolist()


# ---- state ---------------------------------------------------------------------------------------


def test_a_state_that_was_read_goes_on_in_another_env() -> None:
    with serial("covid", SHORT, num_envs=2) as vec:
        vec.reset(seed=0)
        draw = np.random.default_rng(1)
        # In force for 28 days, so that no state is as in env 1.
        changed = 1 + vec.peek(0)["stringency"][-1] % 10
        for day in range(12):
            first = draw.integers(0, 11, STATES) if day else changed
            vec.step(
                {
                    "states": np.concatenate([first, 0 * first]).astype(np.int32),
                    "planner": np.int32([day % 6, 0]),
                }
            )
        vec.poke(1, vec.peek(0))
        for _ in range(12):
            first = draw.integers(0, 11, STATES)
            observations, rewards, *_ = vec.step(
                {
                    "states": np.concatenate([first, first]).astype(np.int32),
                    "planner": np.int32([3, 3]),
                }
            )
            for group, rows in observations.items():
                half = len(rows) // 2
                assert (rows[:half] == rows[half:]).all()
                assert (rewards[group][:half] == rewards[group][half:]).all()


@pytest.mark.parametrize(
    ("field", "at", "value", "said"),
    [
        ("susceptible", 3, 5.0, "state 3 has 5 susceptible.*they must be"),
        ("vaccinated", 0, 4e7, "state 0 has 40000000 vaccinated people: use 0 to"),
        ("kept_until", 7, 30, "state 7 keeps its stringency until day 30: use the time, 0, to 4"),
        ("infected", 2, -1.0, r"infected\[2\] is -1: it must be from 0"),
        ("stringency", (5, 0), 0, r"stringency\[255\] is 0: it must be from 1 to 10"),
    ],
)
def test_a_state_that_cannot_be_is_refused(field: str, at: Any, value: Any, said: str) -> None:
    with serial("covid", SHORT) as vec:
        vec.reset(seed=0)
        state = {name: of.copy() for name, of in vec.peek(0).items()}
        state[field][at] = value
        with pytest.raises(PuffervecError, match=said):
            vec.poke(0, state)


# ---- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"episode_length": 601}, "episode_length is 601: use 1 to 600"),
        ({"beta_delay": 61}, "beta_delay is 61: use 1 to 60"),
        ({"num_subsidy_levels": 0}, "num_subsidy_levels is 0: use 1 to 100"),
        ({"death_rate": 1.5}, "death_rate is 1.5: use a number from 0 to 1"),
        ({"gdp_per_capita": float("nan")}, "gdp_per_capita is nan: use a number from 1 to 1e+09"),
        ({"infectious_days": True}, "infectious_days is True: use a number"),
        ({"data": 3}, "data is 3: must be the path of a folder, or None"),
        ({"pop_between_age_18_65": 0.02}, "state 0 has unemployment_bias .*: use less than 1,"),
    ],
)
def test_settings_are_refused(settings: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said) if "*" not in said else said):
        serial("covid", settings).close()


def test_row_types_are_those_of_the_rows() -> None:
    with serial("covid") as vec:
        vec.reset(seed=0)
        rows = vec.halves[0].groups
        types = [*rows["states"].agent_types.tolist(), *rows["planner"].agent_types.tolist()]
    assert ENV.row_types is not None and types == list(ENV.row_types(CovidConfig()))
    assert ENV.agent_types == ("state", "planner")


# ---- limits that hardly any day reaches ----------------------------------------------------------


def test_a_hundredfold_income_is_worth_no_more_than_a_threefold() -> None:
    """With a subsidy of a million USD a year each, all states have more than three times the usual
    production.
    """
    settings = {"max_annual_subsidy_per_person": 1e6}
    seen = check_env_equal(
        "covid",
        lambda **of: Covid(DATA, **of),
        settings=settings,
        steps=20,
        tolerances=TOLERANCES | {"state.production": 1e3},
    )
    assert seen.steps == 20
    rewards = {}
    for most in (1e6, 1e7):  # ten times as much
        with serial("covid", {"max_annual_subsidy_per_person": most}) as vec:
            vec.reset(seed=0)
            rewards[most] = act(vec, 0, 20)[1]["states"]
    np.testing.assert_array_equal(rewards[1e6], rewards[1e7])


def test_a_state_where_all_work_stops(tmp_path: Path) -> None:
    """All states close on the first day. Their unemployment rises to 10 % to 80 % of the people,
    beyond where the softplus is a line, and where nobody of working age is left.
    """
    weights = np.linspace(10, 80, STATES) / 45 * np.ones((5, 1))  # of nine levels and five filters
    open_days = np.ones_like(DATA.stringency)
    save_data(dataclasses.replace(DATA, stringency=open_days, weights=weights), tmp_path)

    def own(data: str) -> Covid:
        return Covid(load_data(data))

    settings = {"data": str(tmp_path)}
    seen = check_env_equal(
        "covid", own, settings=settings, steps=6, actions=always(10, 0), tolerances=TOLERANCES
    )
    assert seen.steps == 6
    with serial("covid", settings) as vec:
        vec.reset(seed=0)
        act(vec, 10)
        now = vec.peek(0)
    assert (now["production"] == 0.0).any() and (now["production"] > 0.0).any()
    unemployed = 100 * now["unemployed"] / POPULATION - DATA.column("unemployment_bias")
    np.testing.assert_allclose(unemployed[8:], np.linspace(10, 80, STATES)[8:], rtol=1e-6)


@pytest.mark.parametrize(
    ("every", "days"), [(1, [1, 1, 1]), (4, [4 / 4, 3 / 4, 2 / 4, 1 / 4, 4 / 4])]
)
def test_vaccines_that_come_from_the_first_day_on_are_waited_for(
    every: int, days: list[float]
) -> None:
    """Without a first day to wait for, the wait is a share of the interval: whole on days of
    deliveries, then less.
    """
    with serial("covid", {"vaccine_delivery_start": 0, "delivery_interval": every}) as vec:
        observations, _ = vec.reset(seed=0)
        for wait in days:
            assert observations["states"][:, -1].tolist() == [np.float32(wait)] * STATES
            assert observations["planner"][0, -1] == np.float32(wait)
            observations, *_ = act(vec)


def test_a_state_poked_into_a_finished_episode_begins_the_next() -> None:
    """Its record counts from there on, and has the next number; what the finished one added up is
    forgotten.
    """
    with serial("covid", {**SHORT, "episode_length": 6}) as vec:
        vec.reset(seed=0)
        states = [vec.peek(0)]
        for _ in range(6):
            *_, infos = act(vec, 3, 2)
            states.append(vec.peek(0))
        first = infos.episodes[0]
        vec.poke(0, states[4])
        for rows in vec.halves[0].groups.values():
            assert not rows.rewards.any() and not rows.terminals.any()
            assert not rows.truncations.any() and (rows.masks.view(np.uint8) == 1).all()
        returns = 0.0
        for _ in range(2):
            _, rewards, terminals, _, infos = act(vec, 0, 2)
            returns += float(rewards["planner"][0])
        second = infos.episodes[infos.episodes["agent_type"] == 1][0]
        assert terminals["states"].all() and (first["episode"], second["episode"]) == (0, 1)
        assert second["return"] == pytest.approx(returns, rel=1e-5)


def test_a_saved_state_at_the_end_of_its_episode_is_over() -> None:
    """One that claims to go on from its last day is refused: its next day would lie beyond the
    data.
    """
    with serial("covid", {**SHORT, "episode_length": 6}) as vec:
        vec.reset(seed=0)
        for _ in range(5):
            act(vec)
        head = len(vec.save()[0]) % 8  # the env's own bytes, of doubles and int32, come last
        before = np.frombuffer(vec.save()[0][head:], np.int32)
        act(vec)
        saved = vec.save()[0]
        after = np.frombuffer(saved[head:], np.int32)
        vec.load([saved])
    refused = []
    for at in np.flatnonzero((before == 0) & (after == 1)):
        changed = after.copy()
        changed[at] = 0
        with serial(
            "covid", {**SHORT, "episode_length": 6}
        ) as other:  # a load that is refused ends an env
            other.reset(seed=0)
            try:
                other.load([saved[:head] + changed.tobytes()])
            except PuffervecError as error:
                refused.append(str(error))
    assert any("time 6 and subsidy level 0: use 0 to 5" in text for text in refused)


# An env's own bytes of a saved state, which come last: the struct covid_env of covid.h.
PEOPLE = ("susceptible", "infected", "recovered", "vaccinated", "dead", "unemployed", "production")
SAVED = np.dtype(
    [
        ("seed", "u8"), ("episode", "u8"), ("task", "i8"), ("time", "i4"), ("subsidy_level", "i4"),
        ("over", "i4"), ("illegal", "i4"), ("tally", "f8", 7), ("level", "i4", 52),
        ("until", "i4", 52), *((name, "f8", 52) for name in PEOPLE), ("filters", "f8", (5, 52)),
        ("ring", "u1", (64, 52)),
    ]
)  # fmt: skip


def saved_on_day_3(vec: VectorEnv) -> tuple[bytes, np.ndarray]:
    """Return what comes before an env's own bytes, and these, (1,) SAVED."""
    vec.reset(seed=0)
    for _ in range(3):
        act(vec)
    saved, now = vec.save()[0], vec.peek(0)
    head, own = saved[: -SAVED.itemsize], np.frombuffer(saved[-SAVED.itemsize :], SAVED).copy()
    assert (own["time"], own["subsidy_level"], own["over"], own["illegal"]) == (3, 0, 0, 0)
    assert all((own[name][0, :STATES] == now[name]).all() for name in PEOPLE)
    assert (own["ring"][0, 3, :STATES] == now["stringency"][-1]).all()
    return head, own


@pytest.mark.parametrize(
    ("field", "at", "value", "said"),
    [
        ("time", (), -1, "time -1 and subsidy level 0: use 0 to 29 and 0 to 5"),
        ("time", (), 30, "time 30 and"), ("subsidy_level", (), -1, "subsidy level -1"),
        ("subsidy_level", (), 6, "subsidy level 6"), ("over", (), 2, "sums or"),
        ("over", (), -1, "sums or"), ("illegal", (), -1, "sums or"),
        *(("tally", (k,), value, "sums or") for k in range(7) for value in (np.nan, np.inf)),
        ("level", (9,), 0, "state 9 has stringency 0"), ("level", (9,), 11, "9 has stringency 11"),
        ("level", (50,), "another", "sums or"), ("until", (50,), 8, "until day 8"),
        ("until", (50,), 2, "until day 2: use the time, 3, to 7"), ("ring", (63, 50), 0, "sums or"),
        ("ring", (0, 0), 11, "sums or"), ("filters", (4, 50), np.nan, "state 50 has dead"),
        *((name, (7,), value, "state 7 has") for name in PEOPLE for value in (-1.0, np.nan)),
    ],
)  # fmt: skip
def test_a_saved_state_with_an_impossible_number_is_refused(
    field: str, at: tuple[int, ...], value: Any, said: str
) -> None:
    """The other numbers of the same state are sound, and do not excuse it; the people of a state
    are as many as before.
    """
    with serial("covid", SHORT) as vec:
        head, own = saved_on_day_3(vec)
        place = (0, *at)
        before = own[field][place]
        if value == "another":
            value = 1 + before % 10
        if field in PEOPLE[:3]:
            own["recovered" if field == "infected" else "infected"][place] += before - value
        own[field][place] = value
        with pytest.raises(PuffervecError, match=said):
            vec.load([head + own.tobytes()])


def test_what_a_saved_state_shows_of_nobody_is_ignored() -> None:
    """Arrays have a lane that belongs to no state, and rows a one-hot that never changes: both are
    as after a reset, whatever a file contains.
    """
    with serial("covid", SHORT) as vec:
        head, own = saved_on_day_3(vec)
        rows = vec.halves[0].groups["states"].observations
        other, shown = own.copy(), rows.tobytes()
        assert head.count(shown) == 1
        for name in SAVED.names or ():
            if SAVED[name].shape[-1:] == (52,):
                other[name][..., 51] = 0 if name == "ring" else 99
        vec.load([head + other.tobytes()])
        vec.recv()
        assert vec.save() == [head + own.tobytes()]
        for write in (act, lambda vec: vec.poke(0, vec.peek(0))):
            vec.load([head.replace(shown, bytes(len(shown))) + own.tobytes()])
            vec.recv()
            assert not rows.any()
            write(vec)
            assert (rows[:, :STATES] == np.eye(STATES)).all()


def test_bounds_of_what_is_observed() -> None:
    """Policies scale by them: shares, levels and days reach 1, sums over states have no bound."""
    with puffervec.make("covid", num_envs=1, backend="serial") as vec:
        for group in vec.spec.groups:
            high = {field.name: field.high for field in group.fields}
            for name in ("susceptible", "infected", "recovered", "dead", "vaccinated"):
                assert high.pop(name) == pytest.approx(1.0001)
            assert high.pop("unemployed") == high.pop("production") == pytest.approx(1e12)
            assert set(high.values()) == {1.0}
            assert {"stringency_in_force", "time", "vaccine_wait"} <= set(high)


# ---- what C refuses by itself --------------------------------------------------------------------
# Python has checked settings and data before; what it lets through must be what C's own tables
# allow, and nothing else.

WHOLE = {
    "episode_length": (1, 600), "action_cooldown_period": (1, 10_000),
    "subsidy_interval": (1, 10_000), "num_subsidy_levels": (1, 100),
    "vaccine_delivery_start": (0, 1_000_000), "delivery_interval": (1, 10_000),
    "beta_delay": (1, 60),
}  # fmt: skip


def refusal(settings: dict[str, Any] | None = None, **params: np.ndarray) -> str:
    """Return what C says of these settings, with params in the place of the env's own; "" where it
    takes them.
    """

    def with_params(config: CovidConfig) -> EnvData:
        return EnvData({**ENV.build(config).params, **params})

    try:
        serial(dataclasses.replace(ENV, build=with_params), settings or {}).close()
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", WHOLE)
def test_whole_settings_have_the_bounds_that_are_documented(name: str) -> None:
    low, high = WHOLE[name]
    assert refusal({name: low}) == refusal({name: high}) == ""
    for value in (low - 1, high + 1):
        assert f"{name} is {value}: use {low} to {high}" in refusal({name: value})


@pytest.mark.parametrize("table", ["numbers", "states", "planner", "weights", "lambdas"])
def test_tables_of_numbers_have_the_bounds_of_their_readers(table: str) -> None:
    """Each column at both of its ends, just beyond them and without a number, in its last row."""
    columns = {"numbers": NUMBERS, "states": COLUMNS, "planner": TASTE,
               "weights": {"weights": WEIGHT}, "lambdas": {"lambdas": LAMBDA}}[table]  # fmt: skip
    whole = ENV.build(CovidConfig()).params[table]
    rows = whole.size // len(columns)
    for at, (name, (low, high)) in enumerate(columns.items()):
        values = {
            low: False,
            high: False,
            np.nextafter(low, -np.inf): True,
            np.nextafter(high, np.inf): True,
            np.nan: True,
        }
        for value, refused in values.items():
            changed = whole.copy()
            changed.reshape(rows, -1)[-1, at] = value
            assert (
                f"{name} of row {rows - 1} of {table} is" in refusal(**{table: changed})
            ) == refused, (name, value)
    for other in (np.append(whole.ravel(), 1.0), whole.ravel()[:-1]):
        assert f"{table} has {other.size} numbers: give {whole.size}" in refusal(**{table: other})


@pytest.mark.parametrize(
    ("name", "low"),
    [
        ("episode_length", 1),
        ("action_cooldown_period", 1),
        ("subsidy_interval", 1),
        ("num_subsidy_levels", 1),
        ("vaccine_delivery_start", 0),
        ("delivery_interval", 1),
        ("beta_delay", 1),
    ],
)
def test_whole_numbers_have_bounds(name: str, low: int) -> None:
    for value in (low - 1, -(2**31), 2**31 - 1):
        with pytest.raises(ConfigError, match=f"{name} is {value}: use {low} to "):
            serial("covid", {name: value})


def test_days_of_stringency_are_whole_days_of_levels() -> None:
    for days, level, refused in ((1, 1, ""), (600, 10, ""), (601, 1, "has 30651 entries"),
                                 (0, 1, "has 0 entries"), (2, 0, "of day 1 is 0"),
                                 (2, 11, "of day 1 is 11")):  # fmt: skip
        levels = np.ones((days, STATES), np.uint8)
        levels[-1:, -1] = level
        said = refusal(stringency=levels)
        assert refused in said and bool(said) == bool(refused)
    assert "has 50 entries" in refusal(stringency=np.ones(50, np.uint8))


@pytest.mark.parametrize(
    ("column", "value", "refused"),
    [
        ("beta_slope", lambda row: -row["beta_intercept"] / 10, False),
        ("beta_slope", lambda row: -row["beta_intercept"] / 9.9, True),
        ("beta_slope", lambda row: (1 - row["beta_intercept"]) / 10.1, False),
        ("beta_slope", lambda row: (1 - row["beta_intercept"]) / 9.9, True),
        ("beta", (0.0, 0.0), False),
        ("beta", (1.0, 0.0), False),
        ("beta", (-0.1, 0.05), True),
        ("beta", (1.15, -0.05), True),
        ("unemployment_bias", lambda row: 58.99, False),
        ("unemployment_bias", lambda row: 59.0, True),
        ("recovered", lambda row: row["population"] - row["susceptible"] - row["infected"], False),
        (
            "recovered",
            lambda row: 1.00001 * row["population"] - row["susceptible"] - row["infected"],
            True,
        ),
    ],
)
def test_facts_of_a_state_must_fit_each_other(column: str, value: Any, refused: bool) -> None:
    """Transmission is a share at each stringency, somebody works, and nobody is counted twice."""
    states = DATA.states.copy()
    if column == "beta":
        at = list(COLUMNS).index("beta_intercept")
        states[-1, at : at + 2] = value
    else:
        states[-1, list(COLUMNS).index(column)] = value(
            dict(zip(COLUMNS, states[-1].tolist(), strict=True))
        )
    assert ("state 50 has" in refusal(states=states)) == refused


# ---- states from outside -------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 50])
@pytest.mark.parametrize(
    ("field", "value", "refused"),
    [
        ("dead", 0.0, False), ("dead", -1.0, True), ("unemployed", 0.0, False),
        ("unemployed", -1.0, True), ("production", 0.0, False), ("production", -1.0, True),
        ("production", np.nan, True), ("vaccinated", 0.0, False), ("vaccinated", -1.0, True),
        ("vaccinated", "recovered", False), ("vaccinated", "hardly more than recovered", False),
        ("vaccinated", "more than recovered", True), ("production", 1e20, False),
        ("filters", 1e4, False), ("filters", -1e4, False), ("filters", 1.01e4, True),
        ("filters", -1.01e4, True), ("susceptible", np.nan, True), ("infected", "a few more", True),
        ("infected", "hardly more", False),
        ("kept_until", 3, False), ("kept_until", 2, True), ("kept_until", 7, False),
        ("kept_until", 8, True), ("stringency", 1, False), ("stringency", 10, False),
        ("stringency", 0, True), ("stringency", 11, True),
    ],
)  # fmt: skip
def test_bounds_of_a_state_that_is_set(field: str, value: Any, refused: bool, place: int) -> None:
    """On day 3, with stringencies that are kept for 4 days at most, and a millionth of the people
    for rounding.
    """
    with serial("covid", SHORT) as vec:
        vec.reset(seed=0)
        for _ in range(3):
            act(vec)
        state = {name: of.copy() for name, of in vec.peek(0).items()}
        row = state[field].reshape(-1, STATES)[-1]
        one = 1e-6 * POPULATION[place]
        known = {"recovered": state["recovered"][place],
                 "hardly more than recovered": state["recovered"][place] + 0.9 * one,
                 "more than recovered": state["recovered"][place] + 1.1 * one,
                 "hardly more": row[place] + 0.9 * one,
                 "a few more": row[place] + 1.1 * one}  # fmt: skip
        row[place] = known.get(value, value) if isinstance(value, str) else value
        if refused:
            with pytest.raises(PuffervecError):
                vec.poke(0, state)
        else:
            vec.poke(0, state)
            assert all((vec.peek(0)[name] == of).all() for name, of in state.items())


@pytest.mark.parametrize(
    ("field", "value", "refused"),
    [("time", 30, False), ("time", 31, True), ("time", -1, True), ("subsidy_level", 5, False),
     ("subsidy_level", 6, True), ("subsidy_level", -1, True), ("subsidy_level", 0, False)],
)  # fmt: skip
def test_bounds_of_the_calendar_that_is_set(field: str, value: int, refused: bool) -> None:
    with serial("covid", SHORT) as vec:
        vec.reset(seed=0)
        state = {name: of.copy() for name, of in vec.peek(0).items()}
        state[field][:] = value
        if field == "time":
            state["kept_until"][:] = max(value, 0)
        if refused:
            with pytest.raises(PuffervecError):
                vec.poke(0, state)
        else:
            vec.poke(0, state)
            assert vec.peek(0)[field].tolist() == [value]
            assert vec.halves[0].groups["states"].terminals.all() == (field == "time")


def test_fields_of_rows_and_state() -> None:
    """What users read of them in the spec: name, unit, numbers, least and most, and the scale that
    undoes the shares.
    """
    shown = [
        ("susceptible", "", 1.0001, 1), ("infected", "", 1.0001, 1), ("recovered", "", 1.0001, 1),
        ("dead", "", 1.0001, 1), ("vaccinated", "", 1.0001, 1), ("unemployed", "", 1e12, 1),
        ("production", "", 1e12, 1), ("stringency_in_force", "", 1, 10), ("time", "d", 1, 30),
        ("stringency", "", 1, 10), ("subsidy_wait", "d", 1, 7), ("subsidy_level", "", 1, 5),
        ("vaccine_wait", "", 1, 1),
    ]  # fmt: skip
    one = ("time", "subsidy_wait", "subsidy_level", "vaccine_wait")
    with serial("covid", SHORT) as vec:
        for group, states in zip(vec.spec.groups, (1, STATES), strict=True):
            fields = [of for of in group.fields if of.name != "state"]
            found = [(of.name, of.unit, of.shape, of.low, of.high, of.scale) for of in fields]
            assert found == [
                (name, unit, (() if name in one else (states,)), 0.0, pytest.approx(high), scale)
                for name, unit, high, scale in shown
            ]
        people = ("susceptible", "infected", "recovered", "vaccinated", "dead", "unemployed")
        assert [(of.name, of.unit, of.shape, of.low, of.high) for of in vec.spec.state_fields] == [
            *((name, "", (STATES,), 0.0, pytest.approx(1e10)) for name in people),
            ("production", "USD/d", (STATES,), 0.0, pytest.approx(1e20)),
            ("filters", "", (5, STATES), -1e4, 1e4),
            ("time", "d", (1,), 0.0, 30.0),
            ("subsidy_level", "", (1,), 0.0, 5.0),
            ("kept_until", "d", (STATES,), 0.0, 34.0),
            ("stringency", "", (6, STATES), 1.0, 10.0),
        ]
