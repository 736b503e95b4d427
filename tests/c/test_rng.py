# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Philox (csrc/contract/rng.h, puffervec/testing/reference/philox.py): known answers, C and Python
alike, and what envs draw from it.
"""

from __future__ import annotations

import numpy as np
import pytest

from puffervec._ffi import ffi, lib
from puffervec.testing.reference import philox as twin
from tests.helpers import serial

# Counter, key, answer: Random123 1.14, tests/kat_vectors, "philox4x32 10".
KNOWN = [
    (
        "00000000 00000000 00000000 00000000",
        "00000000 00000000",
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ),
    (
        "ffffffff ffffffff ffffffff ffffffff",
        "ffffffff ffffffff",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


def words(text: str) -> tuple[int, ...]:
    return tuple(int(word, 16) for word in text.split())


def in_c(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    out = ffi.new("uint32_t[4]")
    lib.pv_philox(list(counter), list(key), out)
    return tuple(out)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_known_answers(counter: str, key: str, answer: str) -> None:
    assert in_c(words(counter), words(key)) == words(answer)
    assert twin.philox(words(counter), words(key)) == words(answer)  # type: ignore[arg-type]


def test_equals_the_twin_on_random_input() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        counter = tuple(int(word) for word in rng.integers(0, 2**32, 4))
        key = tuple(int(word) for word in rng.integers(0, 2**32, 2))
        assert in_c(counter, key) == twin.philox(counter, key)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, 2**62 + 12345])
def test_a_draw_is_a_function_of_seed_episode_step_and_draw(seed: int) -> None:
    """The probe shows pv_rng_f32(seed, episode, step, agent): both words of the seed are in the
    key.
    """
    with serial("probe", {"num_agents": 3}) as vec:
        vec.reset(seed=seed)
        observations = vec.halves[0].groups["agents"].observations
        for turn in range(8):
            episode, step = divmod(turn, 4)
            expected = [np.float32(twin.uniform(seed, episode, step, agent)) for agent in range(3)]
            assert observations[:, 5].tolist() == expected
            vec.step([0] * 3)


def test_uniform_numbers_are_uniform() -> None:
    """Mean, variance and neighbour correlation of 4,096 draws of different seeds."""
    with serial("probe", {"num_agents": 4}, num_envs=1024) as vec:
        drawn = vec.reset(seed=0)[0][:, 5].astype(float)
    assert (drawn.min() >= 0, drawn.max() < 1) == (True, True)
    assert abs(drawn.mean() - 0.5) < 5 * (1 / 12 / 4096) ** 0.5
    assert abs(drawn.var() - 1 / 12) < 0.01
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 5 / 4096**0.5


def test_random_starts_equal_the_twins_whole_numbers() -> None:
    """tag_grid draws cell coordinates with pv_rng_below(seed, episode, 0, draw, cells)."""
    with serial("tag_grid", {"random_starts": True, "num_taggers": 3, "grid_length": 6}) as vec:
        vec.reset(seed=2**33 + 5)
        state = vec.peek(0)
    assert state["x"].tolist() == [twin.below(2**33 + 5, 0, 0, 2 * agent, 7) for agent in range(4)]
    assert state["y"].tolist() == [
        twin.below(2**33 + 5, 0, 0, 2 * agent + 1, 7) for agent in range(4)
    ]
