# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The base class of native Python envs (puffervec/workers/python/puffer_env.py)."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from puffervec.errors import APIUsageError
from puffervec.workers.python import puffer_env
from puffervec.workers.python.puffer_env import NAMES, PufferEnv


class Counter(PufferEnv):
    """Agents that count to three with their actions."""

    def __init__(self, buf: Any = None, seed: int = 0, **changes: Any) -> None:
        settings = {
            "single_observation_space": spaces.Box(0, 9, (2,)),
            "single_action_space": spaces.Discrete(2),
            "num_agents": 3,
        } | changes
        for name, value in settings.items():
            if value is not None:
                setattr(self, name, value)
        super().__init__(buf)

    def reset(self, seed: int | None = None) -> Any:
        self.observations[:] = 0 if seed is None else seed
        return self.observations, []

    def step(self, actions: Any) -> Any:
        self.actions[:] = actions
        self.observations[:, 0] += self.actions
        self.rewards[:] = self.actions
        self.terminals[:] = self.observations[:, 0] > 2
        self.observations[self.terminals] = 0
        return self.observations, self.rewards, self.terminals, self.truncations, [{"sum": 1}]


def test_documented_examples() -> None:
    assert doctest.testmod(puffer_env).failed == 0


def test_steps_in_both_styles_write_the_same_buffers() -> None:
    env = Counter()
    env.async_reset(seed=2)
    observations, rewards, terminals, truncations, infos, ids, masks = env.recv()
    assert (
        observations is env.observations
        and (observations == 2).all()
        and infos == []
        and ids is env.agent_ids
    )
    env.send(np.array([0, 1, 1]))
    assert env.recv()[4] == [{"sum": 1}]
    assert (
        terminals.tolist() == [False, True, True]
        and rewards.tolist() == [0, 1, 1]
        and masks is env.masks
    )
    assert truncations is env.truncations and env.step([0, 0, 0])[0] is observations


def test_rows_are_adopted() -> None:
    donor = Counter()
    env = Counter(buf={name: getattr(donor, name) for name in NAMES})
    env.step([1, 1, 1])
    assert donor.observations[:, 0].tolist() == [1, 1, 1]
    with pytest.raises(
        APIUsageError, match=r"buf's rewards have shape \(3,\): this env needs \(4,\)"
    ):
        Counter(
            buf={
                **{name: np.concatenate([getattr(donor, name)] * 2)[:4] for name in NAMES},
                "rewards": donor.rewards,
            },
            num_agents=4,
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"single_observation_space": None},
            "Counter has no single_observation_space: set it before",
        ),
        ({"single_action_space": None}, "Counter has no single_action_space"),
        ({"num_agents": None}, "Counter has no num_agents"),
        ({"num_agents": 0}, "num_agents is 0: use at least 1"),
        (
            {"observation_space": spaces.Discrete(2)},
            "Counter sets observation_space: set single_observation_space",
        ),
        ({"action_space": spaces.Discrete(2)}, "Counter sets action_space"),
        (
            {"single_observation_space": spaces.Discrete(2)},
            r"single_observation_space is Discrete\(2\): use a Box",
        ),
        (
            {"single_action_space": spaces.MultiBinary(2)},
            r"single_action_space is MultiBinary\(2\): use Discrete",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(APIUsageError, match=message):
        Counter(**changes)


def test_infos_are_lists() -> None:
    class Wrong(Counter):
        def reset(self, seed: int | None = None) -> Any:
            return self.observations, {}

    with pytest.raises(
        APIUsageError, match="Wrong returned infos of type dict: return a list of dicts"
    ):
        Wrong().async_reset()


def test_the_subclass_writes_the_calls() -> None:
    class Bare(Counter):
        reset, step = PufferEnv.reset, PufferEnv.step

    env = Bare()
    for call in (env.reset, lambda: env.step([0])):
        with pytest.raises(NotImplementedError, match="Bare has no"):
            call()
    env.close()  # nothing to free
