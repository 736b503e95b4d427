# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Drawn nested spaces through observation and action rows
(puffervec/workers/python/emulation/rows.py), beside the named ones.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from puffervec.compat.pufferlib.emulation import emulate_observation_space, nativize
from puffervec.workers.python.emulation import ActionPlan, ObservationPlan
from tests.mock_envs import same_bits, sample

FLOATS, INTS = (
    (np.float16, np.float32, np.float64),
    (np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64),
)


def drawn_shape(rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(size) for size in rng.integers(0, 4, rng.integers(0, 4)))


def drawn_space(rng: np.random.Generator, depth: int) -> gymnasium.Space[Any]:
    """Return a space of any kind, nested at most `depth` times."""
    kind = int(rng.integers(8 if depth else 6))
    if kind == 0:
        return spaces.Box(-3, 3, drawn_shape(rng), FLOATS[rng.integers(3)])
    if kind == 1:
        return spaces.Box(0, 100, drawn_shape(rng), INTS[rng.integers(6)])
    if kind == 2:
        return spaces.Box(0, 1, drawn_shape(rng), np.bool_)
    if kind == 3:
        return spaces.Discrete(int(rng.integers(1, 1 << 40)), start=int(rng.integers(-99, 99)))
    if kind == 4:
        sizes = rng.integers(1, 300, (*drawn_shape(rng)[:1], 2))
        return spaces.MultiDiscrete(sizes, start=rng.integers(-9, 9, sizes.shape))
    if kind == 5:
        return spaces.MultiBinary([int(size) for size in rng.integers(1, 4, rng.integers(1, 3))])
    parts = [drawn_space(rng, depth - 1) for _ in range(rng.integers(0, 5))]
    if kind == 6:
        return spaces.Tuple(parts)
    return spaces.Dict({f"{'xyz'[i % 3]}{'.' * i}": part for i, part in enumerate(parts)})


@pytest.mark.parametrize("seed", range(40))
def test_drawn_spaces_survive_rows_bit_by_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(4):
        space = drawn_space(rng, 3)
        values = [sample(space, rng) for _ in range(3)]
        seen, acted = ObservationPlan(space), ActionPlan(space)
        rows = np.zeros((3, *seen.row_shape), seen.row_dtype)
        action_rows = np.zeros((3, *acted.row_shape), acted.row_dtype)
        dtype = emulate_observation_space(space)[1]
        for i, (write, value) in enumerate(zip(seen.writers(rows), values, strict=True)):
            seen.check(value)
            write(value)
            acted.encode(value, action_rows[i, ...])
        for i, (read, value) in enumerate(zip(acted.readers(action_rows), values, strict=True)):
            assert same_bits(seen.nativize(rows[i, ...]), value), space
            assert same_bits(nativize(rows[i, ...], space, dtype), value), space
            assert same_bits(read(), value), space
