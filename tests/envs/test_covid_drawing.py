# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/envs/covid/drawing.py: bars and curves of an episode."""

from __future__ import annotations

import numpy as np
import pytest

from puffervec.contract.drawing import Box, Line, Text
from puffervec.envs.covid import ENV
from puffervec.envs.covid.data import load_data
from puffervec.envs.covid.drawing import (
    DEATHS,
    HEIGHT,
    INFECTED,
    PLANNER,
    STRINGENCY,
    SUBSIDIES,
    UNEMPLOYMENT,
    VACCINATED,
    axes,
)
from puffervec.envs.covid.settings import CovidConfig
from puffervec.viewing.render.episode import Episode
from tests.helpers import serial


def test_bars_and_numbers() -> None:
    assert ENV.drawing is not None
    people = load_data().column("population")
    with serial("covid") as vec:
        vec.reset(seed=0)
        episode = Episode("covid", ENV.drawing, CovidConfig(), vec.peek(0))
        vec.step({"states": np.full(51, 10, np.int32), "planner": np.array([20], np.int32)})
        state = vec.peek(0)
        moment = episode.add(state)
    bars = [shape for shape in moment.shapes if isinstance(shape, Box)]
    high = [bar.height for bar in bars if bar.role == "stringency"]
    deep = [bar.height for bar in bars if bar.role == "infected"]
    assert len(bars) == 102 and set(high) == {HEIGHT} and max(deep) < HEIGHT
    numbers = moment.numbers
    assert numbers[STRINGENCY] == 10.0 and numbers[VACCINATED] == 0.0
    assert numbers[SUBSIDIES] == pytest.approx(20_000 / 365 * people.sum() * 1e-9)
    assert numbers[DEATHS] == pytest.approx(1e-3 * state["dead"].sum())
    assert numbers[INFECTED] == pytest.approx(100 * state["infected"].sum() / people.sum())
    assert 1.0 < numbers[UNEMPLOYMENT] < 20.0
    names, drawn = load_data().names, episode.drawing
    assert [bar.name for bar in bars if bar.role == "stringency"] == list(names) and tuple(
        drawn.agents
    ) == (*names, PLANNER)
    assert drawn.facts is not None
    facts = drawn.facts(state)
    assert set(facts) == set(drawn.agents) and facts[PLANNER] == {SUBSIDIES: numbers[SUBSIDIES]}
    told = {
        name: np.array([facts[one][name] for one in names])
        for name in (INFECTED, UNEMPLOYMENT, DEATHS)
    }
    assert told[DEATHS].sum() == pytest.approx(numbers[DEATHS])
    for name in (INFECTED, UNEMPLOYMENT):
        assert (told[name] * people).sum() / people.sum() == pytest.approx(numbers[name])


def test_the_axes_say_how_high_a_bar_is() -> None:
    shapes = list(axes())
    numbers = {shape.text: shape.y for shape in shapes if isinstance(shape, Text) and shape.x < 0}
    assert numbers == {"10": HEIGHT, "5": HEIGHT / 2, "0": 0.0, "5 %": -HEIGHT / 2, "10 %": -HEIGHT}
    lines = [shape.points[0][1] for shape in shapes if isinstance(shape, Line)]
    assert sorted(lines) == sorted(numbers.values())
    states = {
        shape.text: shape.x
        for shape in shapes
        if isinstance(shape, Text) and shape.text.isdigit() and shape.x >= 0
    }
    assert all(at == int(number) - 1 for number, at in states.items()) and {"1", "50"} <= set(
        states
    )
