# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The drawing of `covid`: two bars per state, stringency and infected people, and total numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from puffervec.contract.drawing import BLUE, ORANGE, Box, Drawing, Line, Shape, State, Text
from puffervec.envs.covid.data import LEVELS, STATES
from puffervec.envs.covid.settings import data_of

WIDTH, HEIGHT = 0.8, 20.0  # Width of a bar (a state is 1 wide); height of maximum stringency.
MOST_INFECTED = 0.1  # Share of infected people at which a bar has full height.
DEATHS, UNEMPLOYMENT, SUBSIDIES, STRINGENCY = (
    "deaths (k)",
    "unemployment (%)",
    "subsidies (bn USD/d)",
    "stringency (1-10)",
)
INFECTED, VACCINATED = "infected (%)", "vaccinated (%)"
PLANNER = "the planner"
LETTERS = 1.4  # Height of letters at the axes.


def drawing_of(config: Any, state: State) -> Drawing:
    """Return the drawing: bars up for stringency, bars down for infected people, and numbers."""
    data = data_of(config)
    population = data.column("population")
    people = float(population.sum())
    subsidy = (
        people * config.max_annual_subsidy_per_person / 365.0 / config.num_subsidy_levels * 1e-9
    )

    def shapes(state: State, before: State | None) -> Iterator[Shape]:
        heights = state["stringency"][-1] / LEVELS * HEIGHT
        depths = np.minimum(state["infected"] / population / MOST_INFECTED, 1.0) * HEIGHT
        for at, (high, deep) in enumerate(zip(heights.tolist(), depths.tolist(), strict=True)):
            yield Box(at, high / 2, WIDTH, high, role="stringency", name=data.names[at])
            yield Box(at, -deep / 2, WIDTH, deep, role="infected")

    def numbers(state: State) -> dict[str, float]:
        return {
            DEATHS: float(state["dead"].sum()) * 1e-3,
            UNEMPLOYMENT: 100.0 * float(state["unemployed"].sum()) / people,
            SUBSIDIES: float(state["subsidy_level"].item()) * subsidy,
            STRINGENCY: float(state["stringency"][-1].mean()),
            INFECTED: 100.0 * float(state["infected"].sum()) / people,
            VACCINATED: 100.0 * float(state["vaccinated"].sum()) / people,
        }

    def facts(state: State) -> dict[str, dict[str, float]]:
        shares = {
            INFECTED: state["infected"],
            VACCINATED: state["vaccinated"],
            UNEMPLOYMENT: state["unemployed"],
        }
        columns = {name: 100.0 * column / population for name, column in shares.items()} | {
            DEATHS: state["dead"] * 1e-3
        }
        by_state = {
            name: {fact: float(column[at]) for fact, column in columns.items()}
            for at, name in enumerate(data.names)
        }
        return by_state | {PLANNER: {SUBSIDIES: float(state["subsidy_level"].item()) * subsidy}}

    return Drawing(
        view=(-4.5, -1.2 * HEIGHT, float(STATES), 1.1 * HEIGHT),
        shapes=shapes,
        colours={"stringency": BLUE, "infected": ORANGE},
        still=list(axes()),
        numbers=numbers,
        fps=30,
        agents=(*data.names, PLANNER),
        facts=facts,
    )


def axes() -> Iterator[Shape]:
    """Yield lines, labels and a title for both halves, and the number of every fifth state."""
    for share in (-1.0, -0.5, 0.0, 0.5, 1.0):
        yield Line(((-0.5, share * HEIGHT), (STATES - 0.5, share * HEIGHT)), faded=True)
        label = (
            f"{share * LEVELS:.0f}"
            if share > 0
            else f"{-100 * share * MOST_INFECTED:.0f} %"
            if share < 0
            else "0"
        )
        yield Text(-2.5, share * HEIGHT, label, height=LETTERS)
    yield Text(STATES / 2, 1.05 * HEIGHT, f"up: stringency, 1 to {LEVELS}", height=LETTERS)
    yield Text(
        STATES / 2,
        -1.13 * HEIGHT,
        f"down: infected people, % of a state; states 1 to {STATES}",
        height=LETTERS,
    )
    for number in (1, *range(5, STATES, 5)):
        yield Text(number - 1, -1.05 * HEIGHT, str(number), height=LETTERS)
