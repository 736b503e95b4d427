# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Envs that draw from `np.random` and `random` (puffervec/workers/python/global_random.py): each
has its own, whoever steps it.
"""

from __future__ import annotations

import functools
import random
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import puffervec
import puffervec.gym
from puffervec.workers.python import global_random
from tests.helpers import slow_but

pytestmark = pytest.mark.usefixtures("no_leaks")


class Drawing(gymnasium.Env[Any, Any]):
    """Draws from both, in all ways and now and then; normal numbers come in pairs, of which one is
    kept for later.
    """

    observation_space, action_space = (
        spaces.Box(-np.inf, np.inf, (5,), np.float64),
        spaces.Discrete(4),
    )

    def __init__(self, own_seed: int | None = None) -> None:
        self.born, self.own_seed, self.t = np.random.random(), own_seed, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if self.own_seed is not None:
            np.random.seed(self.own_seed)
            random.seed(self.own_seed)
        self.t, self.often = 0, np.random.randint(1, 4)
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return (
            self.seen() if self.t % self.often == 0 else np.zeros(5),
            0.0,
            self.t % 5 == 0,
            False,
            {},
        )

    def seen(self) -> np.ndarray:
        """Return five numbers."""
        letter = random.choice("abcdefgh")
        return np.array(
            [
                self.born,
                np.random.randn(),
                np.random.permutation(9)[0],
                random.gauss(0, 1),
                ord(letter),
            ]
        )


def shown(
    steps: int = 12, count: int = 6, seed: Any = 3, creator: Any = Drawing, **layout: Any
) -> np.ndarray:
    """Return the observations of some steps and of a second seeded reset, (steps, envs, 5)."""
    rows = []
    with puffervec.make(creator, num_envs=count, **layout) as vec:
        for part in range(2):
            vec.async_reset(seed if part == 0 else None)
            for _ in range(steps):
                halves = []
                for _ in range(vec.num_buffers):
                    halves.append(np.array(vec.recv()[0]))
                    vec.send([0] * len(halves[-1]))
                rows.append(np.concatenate(halves))
    return np.array(rows)


LAYOUTS = {
    "serial": {"backend": "serial"},
    "serial, two buffers": {"backend": "serial", "num_buffers": 2},
    "one worker": {"num_workers": 1},
    "three workers": {"num_workers": 3},
    "a worker for both halves": {"num_workers": 1, "num_buffers": 2, "split": "envs"},
    "fork": {"num_workers": 2, "start_method": "fork"},
}


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    return shown(backend="serial")


@pytest.mark.parametrize(
    "layout", slow_but(["serial, two buffers", "a worker for both halves", "fork"], LAYOUTS)
)
def test_rows_differ_and_repeat_in_every_layout(layout: str, expected: np.ndarray) -> None:
    assert len(np.unique(expected[0], axis=0)) == 6 and len(np.unique(expected[:, 0], axis=0)) > 6
    np.testing.assert_array_equal(shown(**LAYOUTS[layout]), expected)


def test_an_env_draws_what_it_would_draw_alone_after_seeding_by_hand() -> None:
    np.random.seed(7)
    random.seed(7)
    alone = Drawing()
    alone.born = 0.0
    np.random.seed(7)
    random.seed(7)
    expected = [alone.reset()[0][1:], *[alone.step(0)[0][1:] for _ in range(4)]]
    with puffervec.make(Drawing, num_envs=3, backend="serial") as vec:
        found = [
            vec.reset(seed=5)[0][2, 1:].copy(),
            *[vec.step([0] * 3)[0][2, 1:].copy() for _ in range(4)],
        ]
    np.testing.assert_array_equal(found, expected)


def test_seeds_that_the_env_sets_itself_count() -> None:
    rows = shown(creator=functools.partial(Drawing, 11), backend="serial")
    assert (rows[0, :, 1:] == rows[0, 0, 1:]).all()
    again = shown(
        creator=functools.partial(Drawing, 11), num_workers=2, start_method="fork", seed=99
    )
    np.testing.assert_array_equal(rows[:12, :, 1:], again[:12, :, 1:])


def test_the_learners_own_generators_are_left_alone() -> None:
    """Also between turns of envs in this process that draw, and after their end."""

    def draws() -> list[float]:
        return [
            np.random.random(),
            np.random.randn(),
            random.random(),
            random.gauss(0, 1),
            random.randrange(99),
        ]

    np.random.seed(1)
    random.seed(1)
    kinds = type(np.random.get_bit_generator()), type(random._inst)
    with puffervec.make(lambda: Drawing(), num_envs=2, backend="serial") as vec:
        np.random.seed(1)  # the env that was made to see its spaces has drawn
        random.seed(1)
        state = np.random.get_state()
        vec.reset(seed=0)
        assert all(np.array_equal(a, b) for a, b in zip(state, np.random.get_state(), strict=True))
        found = draws()
        vec.step([0, 0])
        found += draws()
        np.random.set_state(state)
        vec.step([0, 0])
        assert np.random.random() == found[0]
        np.random.set_state(state)
        held = random.getstate()
        vec.step([0, 0])
        assert random.getstate() == held
    assert (type(np.random.get_bit_generator()), type(random._inst)) == kinds
    after = np.random.random()
    np.random.seed(1)
    random.seed(1)
    assert draws() + draws() == found and after == found[0]


def test_without_any_seed_rows_differ_and_repeat_with_the_learners_seed() -> None:
    script = (
        "import sys, numpy as np, puffervec.gym\n"
        "from tests.test_global_random import Drawing\n"
        "if sys.argv[1]: np.random.seed(int(sys.argv[1]))\n"
        "for _ in range(2):\n"
        "    envs = puffervec.gym.SyncVectorEnv([Drawing] * 3)\n"
        "    print(envs.reset()[0].tolist())\n"
        "    envs.close()\n"
    )
    said = []
    for seed in ("5", "5", ""):
        done = subprocess.run(
            [sys.executable, "-c", script, seed], capture_output=True, text=True, timeout=100
        )
        assert (done.stderr, done.returncode) == ("", 0)
        said += [done.stdout]
    assert said[0] == said[1] and len(set(said)) == 2
    first, second = said[0].splitlines()
    assert first != second  # two vec envs of one script are not the same


def test_another_kind_of_generator_of_the_user_stays() -> None:
    own = np.random.get_bit_generator()
    given = np.random.PCG64(3)
    np.random.set_bit_generator(given)
    try:
        with puffervec.make(Drawing, num_envs=2, backend="serial") as vec:
            vec.reset(seed=0)
            assert np.random.get_bit_generator() is given
    finally:
        np.random.set_bit_generator(own)


def test_an_env_that_draws_nothing_swaps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    swaps = []
    monkeypatch.setattr(global_random, "_swap_in", lambda: swaps.append(1))
    with puffervec.make("CartPole-v1", num_envs=4, backend="serial") as vec:
        swaps.clear()
        vec.reset(seed=0)
        for _ in range(50):
            vec.step([0, 1, 0, 1])
        assert swaps == []
