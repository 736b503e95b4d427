# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/viewing/render/sight.py: which pictures agents are given, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from puffervec.contract.drawing import Circle, Drawing, Shape, State
from puffervec.core.spec import Field
from puffervec.errors import ConfigError
from puffervec.viewing.render.episode import Episode
from puffervec.viewing.render.sight import pictures_of, rows_of


def field(name: str, *shape: int, dtype: Any = np.uint8, offset: int = 0) -> Field:
    return Field(name, np.dtype(dtype), shape, offset, "", 0, 255, 1.0)


def env_of(groups: dict[str, tuple[list[Field], Any, list[bool]]]) -> Any:
    """A vector env of groups: name -> fields, observations, masks."""
    spec = [
        SimpleNamespace(name=name, fields=fields, agents=len(masks))
        for name, (fields, _, masks) in groups.items()
    ]
    views = {
        name: SimpleNamespace(observations=observations, masks=np.array(masks))
        for name, (_, observations, masks) in groups.items()
    }
    return SimpleNamespace(
        spec=SimpleNamespace(groups=spec),
        halves=[SimpleNamespace(groups=views)],
        env=SimpleNamespace(name="eyes"),
    )


def episode(**more: Any) -> Episode:
    def shapes(state: State, before: State | None) -> Iterator[Shape]:
        yield Circle(0, 0, 1, name="a")

    return Episode("eyes", lambda config, state: Drawing((0, 0, 1, 1), shapes, **more), None, {})


def test_a_field_that_is_a_picture_is_shown_as_it_is() -> None:
    """Of those that take part; with one channel or three, first or last; rows are counted over all
    groups.
    """
    grey = np.arange(2 * 9 * 8, dtype=np.uint8).reshape(2, 9, 8)
    first = np.arange(2 * 3 * 9 * 8, dtype=np.uint8).reshape(2, 3, 9, 8)
    many = np.zeros((1, 9, 16, 16), np.uint8)
    groups = {
        "grey": ([field("eye", 9, 8)], grey, [True, False]),
        "many": ([field("raster", 9, 16, 16)], many, [True]),
        "colour": (
            [field("x", 1, dtype=np.float32), field("eye", 3, 9, 8)],
            {"x": np.zeros((2, 1)), "eye": first},
            [True, True],
        ),
        "last": ([field("eye", 9, 8, 1)], grey[:1, :, :, None], [True]),
    }
    found = pictures_of(episode(), env_of(groups), {})
    assert sorted(found) == [0, 3, 4, 5]
    np.testing.assert_array_equal(found[0], grey[0])
    np.testing.assert_array_equal(found[4], first[1].transpose(1, 2, 0))
    np.testing.assert_array_equal(found[5], grey[0])


def test_a_drawing_makes_pictures_of_rows() -> None:
    raster = np.arange(2 * 9 * 4 * 4, dtype=np.uint8).reshape(2, 9, 4, 4)
    vec = env_of({"agents": ([field("raster", 9, 4, 4)], raster, [True, True])})
    assert rows_of(vec)["raster"] is raster
    made = episode(agents=("", "a"), pictures=lambda rows, state: {"a": rows["raster"][1, 2]})
    found = pictures_of(made, vec, {})
    assert list(found) == [1]
    np.testing.assert_array_equal(found[1], raster[1, 2])
    assert pictures_of(episode(pictures=lambda rows, state: {}), vec, {}) == {}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"b": np.zeros((4, 4), np.uint8)}, r"uint8 \(4, 4\) as the picture of 'b'"),
        (
            {"a": np.zeros((4, 4))},
            r"float64 \(4, 4\) as the picture of 'a': return, by names of agents, uint8 of "
            r"\(height",
        ),
        ({"a": np.zeros((4, 4, 2), np.uint8)}, r"uint8 \(4, 4, 2\)"),
        ({"a": np.zeros((0, 4), np.uint8)}, r"uint8 \(0, 4\)"),
        ({"a": None}, "None as the picture"),
    ],
)
def test_what_is_no_picture_is_refused(given: dict[str, Any], words: str) -> None:
    vec = env_of({"agents": ([field("x", 1)], np.zeros((1, 1)), [True])})
    with pytest.raises(ConfigError, match=f"eyes: its drawing returned .*{words}"):
        pictures_of(episode(agents=("a",), pictures=lambda rows, state: given), vec, {})
