# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/wings/ocean/config.py: settings and spaces as the arrays that C reads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from puffervec._ffi import lib
from puffervec.core.spec import DTYPE_CODE
from puffervec.errors import ConfigError
from puffervec.wings.ocean import config
from puffervec.wings.ocean.python_class import ClassFacts

FLOATS = np.dtype(np.float32)


def source(code: str = "", **settings: str) -> Any:
    return SimpleNamespace(
        name="game", code=code, settings={"env": settings}, main=SimpleNamespace(name="game.h")
    )


def test_settings_have_the_types_of_their_defaults() -> None:
    """A setting that is asked for by name has no default; some names cannot be settings."""
    code = 'double one, speed; dict_get(kwargs, "missing");'
    written = {"on": "True", "speed": "3", "n": "4", "few": "1, 2", "class": "1", "a-b": "2"}
    own = source(code, **written)
    defaults = config.defaults_of(own, None)
    assert defaults == {"missing": None, "on": True, "speed": 3, "n": 4, "few": (1, 2)}
    made = config.config_class(own, defaults)(missing="x", few=[5])
    assert config.values_of(made) == {
        "missing": "x", "on": True, "speed": 3.0, "n": 4, "few": (5,),
    }  # fmt: skip
    for wrong in ({"on": 7}, {"n": 1.5}, {"few": [1.5]}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            config.config_class(own, defaults)(**wrong)


def test_settings_are_arrays() -> None:
    """Texts have no numbers, and only whole numbers are marked as such."""
    found = config.settings_params({"a": "left", "b": (1, 2.5), "c": 3, "d": True}, "x_")
    assert {name: array.tolist() for name, array in found.items() if array.dtype != np.uint8} == {
        "x_counts": [0, 2, 1, 1], "x_whole": [0, 0, 1, 1], "x_numbers": [1.0, 2.5, 3.0, 1.0],
    }  # fmt: skip
    assert found["x_keys"].tobytes() == b"a\0b\0c\0d\0"
    assert found["x_texts"].tobytes() == b"left\x001.0,2.5\x003\0True\0"


def space_of(shape: tuple[int, ...], action: spaces.Space[Any]) -> tuple[list[int], list[float]]:
    """Return the arrays `space` and `bounds` of a class with 2 agents whose rows are kept."""
    facts: Any = SimpleNamespace(masked=False, log=("score",))
    python = ClassFacts({}, "", {}, 2, (shape, FLOATS, -1.0, 3.0), action, (), True)
    found = config.space_params(source(), facts, python)
    return found["space"].tolist(), found["bounds"].tolist()


@pytest.mark.parametrize(
    ("action", "tail", "bounds"),
    [
        (spaces.Discrete(3), [lib.PV_DISCRETE, 1, 3], []),
        (spaces.MultiDiscrete([[2, 3], [4, 5]]), [lib.PV_MULTI_DISCRETE, 4, 2, 3, 4, 5], []),
        (spaces.MultiDiscrete([2] * 16), [lib.PV_MULTI_DISCRETE, 16, *[2] * 16], []),
        (
            spaces.Box(-np.ones((2, 1), np.float32), np.full((2, 1), 2, np.float32)),
            [lib.PV_CONTINUOUS, 2],
            [-1.0, -1.0, 2.0, 2.0],
        ),
    ],
)
def test_spaces_are_arrays(action: spaces.Space[Any], tail: list[int], bounds: list[float]) -> None:
    head = [2, DTYPE_CODE[FLOATS], 0, 1]
    assert space_of((5,), action) == ([*head, 1, 5, 0, 0, *tail], [-1.0, 3.0, *bounds])
    assert space_of((2, 3, 4), action)[0] == [*head, 3, 2, 3, 4, *tail]
    assert space_of((2, 3, 4, 5), action)[0] == [*head, 1, 120, 0, 0, *tail]


def test_spaces_that_rows_cannot_have_are_refused() -> None:
    for action, words in [
        (spaces.MultiDiscrete([2] * 17), "17 actions per agent: 1 to 16"),
        (spaces.Text(3), "Discrete, MultiDiscrete and Box"),
    ]:
        with pytest.raises(ConfigError, match=words):
            space_of((5,), action)
