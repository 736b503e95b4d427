# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/compat/pufferlib/wrappers.py: the old Gym interface, and what a PettingZoo wrapper
passes on.
"""

from __future__ import annotations

from typing import Any

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from puffervec.compat.pufferlib.wrappers import (
    GymToGymnasium,
    PettingZooTruncatedWrapper,
    PettingZooWrapper,
)
from tests.compat.pufferlib.envs import TwoAgents


class OldGym:
    """Two steps long; a limit, not a failure, ends it where `limited`."""

    observation_space, action_space = spaces.Box(0, 1, (1,), np.float32), spaces.Discrete(2)
    metadata = {"render_modes": ["ansi"]}

    def __init__(self, limited: bool) -> None:
        self.limited, self.count, self.seeds, self.closed = limited, 0, [], False  # type: ignore[var-annotated]

    def reset(self, **arguments: Any) -> np.ndarray:
        self.count = 0
        self.seeds.append(arguments)
        return np.zeros(1, np.float32)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, dict[str, Any]]:
        self.count += 1
        info = {"TimeLimit.truncated": True} if self.limited and self.count == 2 else {}
        return np.ones(1, np.float32), 1.0, self.count == 2, info

    def render(self) -> str:
        return "drawn"

    def close(self) -> None:
        self.closed = True


class Seeded(OldGym):
    """As Gym was before 0.21: a method for the seed."""

    def reset(self) -> np.ndarray:  # type: ignore[override]
        return super().reset()

    def seed(self, seed: int) -> None:
        self.seeds.append(("seed", seed))


def test_gymtogymnasium_seeds_by_the_method_where_reset_takes_none() -> None:
    old = Seeded(limited=False)
    env = GymToGymnasium(old)
    env.reset(seed=4)
    env.reset(options={"unknown": "there"})
    assert old.seeds == [("seed", 4), {}, {}]


@pytest.mark.parametrize(("limited", "ends"), [(False, (True, False)), (True, (False, True))])
def test_gymtogymnasium_speaks_the_new_interface(limited: bool, ends: tuple[bool, bool]) -> None:
    old = OldGym(limited)
    env = GymToGymnasium(old)
    assert isinstance(env, gymnasium.Env)
    observation, info = env.reset()
    assert (observation.item(), info) == (0.0, {})
    env.reset(seed=4)
    assert old.seeds == [{}, {"seed": 4}]
    assert env.step(0)[2:4] == (False, False)
    assert env.step(0)[2:4] == ends
    assert env.render() == "drawn"
    assert env.metadata == {"render_modes": ["ansi"]}
    env.close()
    assert old.closed


def test_pettingzoowrapper_passes_everything_on() -> None:
    inner = TwoAgents()
    env = PettingZooWrapper(inner)
    env.reset()
    assert inner.last_reset == {}
    env.reset(seed=5, options={"map": 2})
    assert inner.last_reset == {"seed": 5, "options": {"map": 2}}
    assert env.agents == env.possible_agents == ["a", "b"]
    assert env.step({"a": 0, "b": 1})[1] == {"a": 1.0, "b": 10.0}
    assert env.observation_space("a") is inner.observation_space("a")
    assert env.action_space("b") is inner.action_space("b")
    assert env.render() == "drawn"
    assert PettingZooWrapper(env).unwrapped is inner
    assert str(PettingZooWrapper(env)).startswith("PettingZooWrapper<PettingZooWrapper<")
    env.close()
    assert inner.closed


class Bare(TwoAgents):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


@pytest.mark.parametrize("kind", [PettingZooWrapper, PettingZooTruncatedWrapper])
def test_pettingzoowrapper_resets_envs_that_take_no_seed(kind: type[PettingZooWrapper]) -> None:
    assert set(kind(kind(Bare())).reset(seed=3)[0]) == {"a", "b"}


def test_pettingzoowrapper_keeps_private_names_to_the_env() -> None:
    with pytest.raises(AttributeError, match="_hidden"):
        PettingZooWrapper(TwoAgents())._hidden  # noqa: B018


def test_pettingzoowrapper_travels_to_a_worker() -> None:
    copy = cloudpickle.loads(cloudpickle.dumps(PettingZooWrapper(TwoAgents())))
    assert copy.possible_agents == ["a", "b"]


def test_pettingzootruncatedwrapper_gives_empty_reset_infos() -> None:
    inner = TwoAgents()
    env = PettingZooTruncatedWrapper(inner)
    assert env.reset()[1] == {"a": {}, "b": {}}
    assert inner.last_reset == {}
    env.reset(seed=2)
    assert inner.last_reset == {"seed": 2}
    assert env.render_mode is None
