# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Where leaves stand in a row (puffervec/workers/python/emulation/layout.py)."""

from __future__ import annotations

import doctest
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from puffervec.errors import ConfigError
from puffervec.workers.python.emulation import layout
from puffervec.workers.python.emulation.layout import (
    Leaf,
    field_names,
    flatten_space,
    leaves,
    plan,
    struct_dtype,
)
from tests.mock_envs import OBSERVATIONS


def test_documented_examples() -> None:
    assert doctest.testmod(layout).failed == 0


def test_the_picture_in_the_head_is_true() -> None:
    space = spaces.Dict(
        a=spaces.Box(0, 255, (3,), np.uint8),
        b=spaces.Tuple([spaces.Discrete(5), spaces.Box(-1, 1, (2,))]),
    )
    found = list(leaves(plan(space, struct_dtype(space))))
    assert [(leaf.path, leaf.offset, leaf.dtype.name, leaf.shape) for leaf in found] == [
        (("a",), 0, "uint8", (3,)),
        (("b", 0), 8, "int64", ()),
        (("b", 1), 16, "float32", (2,)),
    ]
    assert struct_dtype(space).itemsize == 24


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_leaves_do_not_overlap_and_stand_aligned(name: str) -> None:
    space = OBSERVATIONS[name]()
    dtype = struct_dtype(space)
    end = 0
    for leaf in leaves(plan(space, dtype)):
        assert isinstance(leaf, Leaf)
        assert leaf.offset >= end and leaf.offset % leaf.dtype.alignment == 0
        end = leaf.offset + leaf.size * leaf.dtype.itemsize
    assert end <= dtype.itemsize
    assert [leaf.space for leaf in leaves(plan(space, dtype))] == flatten_space(space)


def test_keys_are_field_names_where_they_can_be() -> None:
    choice = spaces.Discrete(2)
    assert field_names(spaces.Dict({"": choice, "f0": choice, "a b": choice})) == (
        "f0_",
        "a b",
        "f0",
    )
    assert field_names(spaces.Dict({7: choice, 9: choice})) == ("f0", "f1")
    assert field_names(spaces.Tuple([choice, choice])) == ("f0", "f1")
    assert struct_dtype(spaces.Dict(a=spaces.Dict(b=choice)))["a"].names == ("b",)


class Custom(gymnasium.Space[Any]):
    """A space of our own."""


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Graph(spaces.Box(-1, 1, (2,)), None),
        spaces.Sequence(spaces.Discrete(3)),
        spaces.OneOf([spaces.Discrete(2)]),
        Custom((2,), np.float32),
    ],
    ids=lambda space: type(space).__name__,
)
def test_a_space_without_a_fixed_size_is_refused_with_its_path(space: gymnasium.Space[Any]) -> None:
    nested = spaces.Dict(good=spaces.Discrete(2), bad=spaces.Tuple([spaces.Discrete(3), space]))
    with pytest.raises(ConfigError, match=r"\['bad'\]\[1\] is .*convert it in a wrapper") as caught:
        struct_dtype(nested)
    assert str(space) in str(caught.value)
    with pytest.raises(ConfigError, match="the space at the top is"):
        struct_dtype(space)
