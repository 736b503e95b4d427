# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""PufferLib's emulation functions (puffervec/compat/pufferlib/emulation.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from puffervec.compat.pufferlib.emulation import emulate, emulate_observation_space, nativize
from puffervec.errors import ConfigError
from tests.mock_envs import same_bits, sample


def test_native_arrays_are_views_where_they_can_be() -> None:
    space = spaces.Dict(a=spaces.Box(-1, 1, (2,)))
    row = np.zeros(2, np.float32)
    native = nativize(row, space, emulate_observation_space(space)[1])
    row[1] = 1
    assert native["a"].tolist() == [0, 1]


@pytest.mark.parametrize(
    "row", [np.zeros(3, np.float32), np.zeros(8, np.int8), np.zeros((2, 4), np.float64)]
)
def test_what_is_no_row_is_refused(row: Any) -> None:
    space = spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (2,))])
    with pytest.raises(ConfigError, match="are not one row: it has 16 bytes, as float32 or uint8"):
        nativize(row, space, emulate_observation_space(space)[1])


def test_emulate_writes_what_nativize_reads() -> None:
    """Through a structured view of a batch of rows, as scripts do it."""
    space = spaces.Dict(
        a=spaces.Box(-1, 1, (2,)), b=spaces.Tuple([spaces.Discrete(4), spaces.MultiBinary(3)])
    )
    flat, dtype = emulate_observation_space(space)
    assert flat.shape is not None
    rows = np.zeros((3, *flat.shape), flat.dtype)
    value = sample(space, np.random.default_rng(4))
    emulate(rows.view(dtype)[1], value)
    assert same_bits(nativize(rows[1], space, dtype), value)
    assert not rows[0].any() and not rows[2].any()


def test_emulate_writes_numbers_of_a_single_record() -> None:
    """A record that was taken out of an array of one axis hands out numbers by value."""
    dtype = emulate_observation_space(
        spaces.Dict(a=spaces.Discrete(4), b=spaces.Tuple([spaces.Discrete(3)]))
    )[1]
    records = np.zeros(2, dtype)
    emulate(records[1], {"a": 2, "b": (1,)})
    assert (records["a"].tolist(), records["b"]["f0"].tolist()) == ([0, 2], [0, 1])
