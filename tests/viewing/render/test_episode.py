# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
from typing import Any

import pytest

from puffervec.contract.drawing import Circle, Drawing, Event, Line
from puffervec.errors import ConfigError
from puffervec.viewing.render.episode import Episode
from tests.contract.test_drawing import drawing


def episode(*xs: float, **changes: Any) -> Episode:
    """An episode through these states."""
    found = Episode("dots", lambda config, state: drawing(**changes), None, {"x": xs[0]})
    for x in xs[1:]:
        found.add({"x": x})
    return found


def test_a_trail_is_as_long_as_the_shape_says() -> None:
    moment = episode(0.0, 1.0, 2.0, 3.0).moment
    ((shape, places),) = moment.trails
    assert moment.step == 3 and shape in moment.shapes
    assert places == ((1.0, 1.0), (2.0, 1.0), (3.0, 1.0))


def test_what_was_away_begins_a_new_trail() -> None:
    def shapes(state: Any, before: Any) -> list[Circle]:
        return [Circle(state["x"], 0.0, 1.0, name="dot", trail=9)] if state["x"] >= 0 else []

    assert episode(1.0, 2.0, -1.0, 3.0, shapes=shapes).moment.trails[0][1] == ((3.0, 0.0),)


def test_events_stay_and_the_state_before_is_given() -> None:
    def shapes(state: Any, before: Any) -> list[Event]:
        return (
            [Event(state["x"], 0.0, role="leap")]
            if before is not None and state["x"] > before["x"] + 1
            else []
        )

    assert [
        (step, event.x) for step, event in episode(0, 1, 3, 3.5, 5, 5, shapes=shapes).moment.events
    ] == [(2, 3), (4, 5)]


def test_numbers_of_any_state() -> None:
    found = episode(1.0, 2.0, numbers=lambda state: {"place": state["x"]})
    assert found.moment.numbers == {"place": 2.0} and found.numbers({"x": 7}) == {"place": 7.0}
    assert episode(1.0).moment.numbers == {}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shapes": lambda state, before: [state["y"]]}, "dots: its drawing failed: KeyError: 'y'"),
        (
            {"shapes": lambda state, before: ["circle"]},
            "dots: its drawing returned 'circle': return shapes",
        ),
        (
            {"shapes": lambda state, before: [Circle(math.nan, 0, 1)]},
            "Circle.*all numbers must be finite",
        ),
        (
            {"shapes": lambda state, before: [Line(((0, 0), (math.inf, 1)))]},
            "Line.*all numbers must be finite",
        ),
        ({"still": [Circle(0, 0, math.inf)]}, "all numbers must be finite"),
        ({"numbers": lambda state: {"x": "many"}}, "dots: its drawing failed: ValueError"),
        ({"colours": {"dot": "red"}}, "dots: its drawing failed: the colour of 'dot'"),
    ],
)
def test_a_drawing_that_fails_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        episode(1.0, **changes)


def test_a_drawing_of_another_kind_is_refused() -> None:
    nothing: Any = lambda config, state: None  # noqa: E731
    with pytest.raises(
        ConfigError,
        match="its drawing is None: .drawing. must return a puffervec.contract.drawing.Drawing",
    ):
        Episode("dots", nothing, None, {})
    assert isinstance(episode(1.0).drawing, Drawing)
