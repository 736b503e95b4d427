# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Shapes as numbers (puffervec/viewing/web/shapes.py); test_replay.py reads whole replays."""

from __future__ import annotations

import itertools

from puffervec.contract.drawing import Box, Circle, Line
from puffervec.viewing.web.columns import Stream
from puffervec.viewing.web.shapes import (
    FADED,
    FRONT,
    OUTLINE,
    Looks,
    Thing,
    exponents_of,
    place_exponent,
    put_still,
)
from tests.viewing.web.test_columns import read


def test_styles_say_how_a_shape_looks() -> None:
    """Each combination has flags of its own, of which the page tests one bit each; shapes that look
    alike share a style.
    """
    looks, wanted = Looks({"agent": "#123456"}), []
    for filled, faded, front in itertools.product((True, False), repeat=3):
        box = Box(0, 0, 1, 2, role="agent", filled=filled, faded=faded, front=front)
        assert looks.style(box) == looks.style(
            Box(5, 6, 3, 4, role="agent", filled=filled, faded=faded, front=front)
        )
        wanted.append(("box", 0, OUTLINE * (not filled) | FADED * faded | FRONT * front))
    assert list(looks.styles) == wanted and sorted(flags for *_, flags in wanted) == list(range(8))
    assert looks.style(Circle(0, 0, 1, role="goal")) == 8
    assert list(looks.styles)[8] == ("circle", 1, 0) and looks.roles == ["agent", "goal"]


def test_numbers_are_places_and_sizes_except_the_angle_of_a_box() -> None:
    assert exponents_of("box", 5, -2) == [-2, -2, -2, -2, -3]
    assert exponents_of("line", 5, -2) == [-2] * 5


def test_places_are_as_fine_as_the_view_is_wide_or_high() -> None:
    assert place_exponent((9000, 0, 9200, 1)) == place_exponent((0, 9000, 1, 9200)) == -2


def test_shapes_that_never_move_are_stored_as_differences_of_places() -> None:
    stream = Stream()
    line = Line(((0, 0), (1, 2), (3, 5)), 0.5, role="lane", name="one")
    assert put_still(stream, Looks({}), [line], -2) == [{"s": 0, "n": 7, "name": "one"}]
    assert read(stream.pack({}))[1].tolist() == [0, 0, 100, 200, 200, 300, -250]


def test_a_shape_over_time_is_its_changes() -> None:
    """What stays equal is a number; where it is absent, it keeps its place."""
    stream, thing = Stream(), Thing(Circle(1, 2, 3, name="a"))
    thing.steps, thing.styles = [1, 3], [4, 5]
    thing.numbers = [(1.0, 2.0, 3.0), (1.5, 2.0, 3.0)]
    assert thing.put(stream, 5, -2) == {
        "in": [[1, 2, 4], [3, 4, 5]], "v": [None, 200, 300], "trail": 0, "name": "a",
    }  # fmt: skip
    assert read(stream.pack({}))[1].tolist() == [100, 0, 0, 50, 0]
    thing.steps, thing.styles, thing.numbers = [0], [4], [(1.0, 2.0, 3.0)]
    assert thing.put(Stream(), 1, -2)["v"] == [100, 200, 300]
