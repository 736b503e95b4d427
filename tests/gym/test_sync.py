# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What is special about the look-alike in this process (puffervec/gym/sync.py); most rules are
tested for both at once.
"""

from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest
from gymnasium.error import ResetNeeded

from puffervec.errors import ConfigError
from puffervec.gym import SyncVectorEnv
from tests.gym.envs import Count, Failing, count, counts
from tests.gym.kinds import DISABLED, OURS, Kind, kind_fixture

kind = kind_fixture()
ours = kind_fixture(OURS, "ours")


class Closing(Count):
    """Counts how often it was closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def closing() -> Iterator[SyncVectorEnv]:
    yield SyncVectorEnv([functools.partial(Closing, 3)] * 2)


def test_envs_are_closed_once(closing: SyncVectorEnv) -> None:
    closing.reset()
    closing.close()
    closing.close()
    assert closing.closed
    assert [env.closed for env in closing.envs] == [1, 1]


def test_envs_of_others_outlive_the_vector_env() -> None:
    env = Closing()
    envs = SyncVectorEnv([lambda: env])
    envs.reset()
    del envs
    assert env.closed == 0


class Bare(Count):
    """As envs written for other libraries: its reset takes nothing."""

    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


def test_a_reset_that_takes_no_seed(ours: Kind) -> None:
    """It is called without; in a wrapper of Gymnasium's, which gives it one all the same, it is
    refused by name.
    """
    assert ours([Bare] * 2).reset(seed=3)[0][:, 0].tolist() == [0, 0]
    with pytest.raises(
        ConfigError, match="^reset of Bare takes no seed, as in the old Gym interface"
    ):
        ours([lambda: gymnasium.wrappers.OrderEnforcing(Bare())] * 2).reset(seed=3)


def test_one_env_for_several_rows_is_refused(ours: Kind) -> None:
    env = Count()
    with pytest.raises(ValueError, match="envs 0 and 1 are one object"):
        ours([lambda: env] * 3)


def test_it_goes_on_after_an_env_raised() -> None:
    envs = SyncVectorEnv([count(), functools.partial(Failing, "step")])
    envs.reset(seed=0)
    with pytest.raises(ValueError, match="told to fail in step") as caught:
        envs.step([0, 0])
    assert "env 1" in "\n".join(caught.value.__notes__)
    with pytest.raises(ResetNeeded):
        envs.step([0, 0])
    envs.set_attr("where", "nowhere")
    envs.reset(seed=0)
    assert envs.step([1, 2])[1].tolist() == [1, 2]
    assert [env.resets for env in envs.envs] == [2, 2]


def test_an_interrupt_in_an_env_is_an_interrupt() -> None:
    def interrupted(action: Any) -> Any:
        raise KeyboardInterrupt

    envs = SyncVectorEnv([count()])
    envs.reset()
    envs.envs[0].step = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        envs.step([0])


@pytest.mark.parametrize("copied", [lambda envs: pickle.loads(pickle.dumps(envs)), copy.deepcopy])
def test_it_can_be_pickled_and_copied(copied: Any) -> None:
    envs = SyncVectorEnv(counts())
    envs.reset(seed=4)
    envs.step([0, 0, 0])
    other = copied(envs)
    assert [env.resets for env in other.envs] == [1, 1, 1] and other.np_random_seed == (4, 5, 6)
    with pytest.raises(ResetNeeded):
        other.step([0, 0, 0])
    assert other.reset(seed=1)[0][:, 0].tolist() == [0, 0, 0]
    assert envs.step([1, 2, 3])[0][:, 0].tolist() == [2, 2, 2]


@pytest.mark.parametrize("mode", ["NextStep", "Disabled"])
def test_a_step_before_the_first_reset_is_refused(ours: Kind, mode: str) -> None:
    """Where `gymnasium.make` has made the envs, with its wrapper that enforces it."""
    with pytest.raises(ResetNeeded, match=r"call reset\(\) first"):
        ours([lambda: gymnasium.make("CartPole-v1")] * 3, autoreset_mode=mode).step([0, 0, 0])


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_envs_may_allow_a_step_before_the_first_reset(kind: Kind, mode: str) -> None:
    envs = kind(counts((2, 3, 3)), autoreset_mode=mode)
    assert envs.step([1, 2, 3])[0][:, 0].tolist() == [1, 1, 1]
    observations, rewards, terminations, *_ = envs.step([1, 2, 3])
    assert observations[:, 0].tolist() == [0 if mode == "SameStep" else 2, 2, 2]
    assert (rewards.tolist(), terminations.tolist()) == ([1, 2, 3], [True, False, False])
    assert envs.reset(seed=0)[0][:, 0].tolist() == [0, 0, 0]


def test_arguments_by_position_in_gymnasiums_order() -> None:
    envs = SyncVectorEnv(counts(), False, "same", DISABLED)
    assert (envs.copy, envs.observation_mode, envs.autoreset_mode) == (False, "same", DISABLED)
    with pytest.raises(ValueError, match="env_fns is empty"):
        SyncVectorEnv([])
