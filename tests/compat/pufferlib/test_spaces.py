# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/compat/pufferlib/spaces.py: the names, and the space of a batch."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from puffervec.compat.pufferlib import spaces
from puffervec.errors import ConfigError

NAMES = ["Box", "Dict", "Discrete", "MultiBinary", "MultiDiscrete", "Tuple"]


@pytest.mark.parametrize("name", NAMES)
def test_box_dict_discrete_multibinary_multidiscrete_tuple(name: str) -> None:
    assert getattr(spaces, name) is getattr(gymnasium.spaces, name)


def test_names_stand_in_isinstance_as_in_pufferlib() -> None:
    assert isinstance(gymnasium.spaces.Discrete(2), spaces.Discrete)
    assert not isinstance(gymnasium.spaces.Discrete(2), (spaces.Box, spaces.MultiDiscrete))


def test_joint_space_of_choices_is_one_choice_per_row() -> None:
    joint = spaces.joint_space(spaces.Discrete(5), 3)
    assert joint == spaces.MultiDiscrete([5, 5, 5])
    shifted = spaces.joint_space(spaces.Discrete(5, start=2), 2)
    assert (shifted.start.tolist(), shifted.nvec.tolist()) == ([2, 2], [5, 5])


def test_joint_space_of_several_choices_is_a_box_of_rows() -> None:
    joint = spaces.joint_space(spaces.MultiDiscrete([2, 7]), 3)
    assert (joint.shape, joint.dtype) == ((3, 2), np.int64)
    assert (joint.low.tolist(), joint.high.tolist()) == ([[0, 0]] * 3, [[1, 6]] * 3)


def test_joint_space_of_boxes_keeps_bounds_and_dtype() -> None:
    low = np.array([[-1, 0]], np.float32)
    joint = spaces.joint_space(spaces.Box(low, low + 2, dtype=np.float32), 4)
    assert (joint.shape, joint.dtype) == ((4, 1, 2), np.float32)
    np.testing.assert_array_equal(joint.high[3], low + 2)


def test_joint_space_refuses_nested_spaces() -> None:
    with pytest.raises(ConfigError, match="emulate it first"):
        spaces.joint_space(spaces.Tuple((spaces.Discrete(2),)), 2)
    assert issubclass(ConfigError, ValueError)
