# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/compat/pufferlib/postprocess.py: what the wrappers report, clip and cut."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from puffervec.compat.pufferlib.postprocess import (
    ClipAction,
    EpisodeStats,
    MeanOverAgents,
    MultiagentEpisodeStats,
    ResizeObservation,
)
from puffervec.errors import ConfigError
from tests.compat.pufferlib.envs import IMAGE, Counter, TwoAgents


def test_episodestats_sums_the_episode_into_its_last_info() -> None:
    env = EpisodeStats(Counter(length=3))
    assert env.unwrapped.resets == 0  # made, not played
    env.reset()
    assert env.step(0)[4] == {}
    assert env.step(0)[4] == {}
    observation, reward, terminated, truncated, info = env.step(0)
    assert (reward, terminated, truncated) == (3.0, True, False)
    assert observation is IMAGE
    np.testing.assert_array_equal(info.pop("array"), [6, 6])
    assert info == {
        "episode_return": 6.0,
        "episode_length": 3,
        "n": 6,
        "deep/half": 1.5,
        "deep/deeper/yes": 3,
    }


def test_episodestats_begins_anew_at_a_reset_and_passes_it_on() -> None:
    env = EpisodeStats(Counter(length=2))
    env.reset()
    env.step(0)
    _, info = env.reset(seed=3, options={"level": 1})
    assert info == {"resets": 2}
    assert env.unwrapped.last_options == {"level": 1}
    env.step(0)
    assert env.step(0)[4]["episode_length"] == 2


def test_episodestats_keeps_its_sums_where_the_env_reuses_an_array() -> None:
    class Reusing(Counter):
        array = np.zeros(2)

        def step(self, action: object) -> tuple[object, float, bool, bool, dict[str, object]]:
            self.array += 1
            return *super().step(action)[:4], {"array": self.array}

    env = EpisodeStats(Reusing(length=2))
    env.reset()
    env.step(0)
    np.testing.assert_array_equal(env.step(0)[4]["array"], [3, 3])  # 1 + 2


def test_clipaction_takes_anything_and_passes_on_what_fits() -> None:
    env = ClipAction(Counter(box_action=True))
    assert env.action_space.contains(np.array([1e9, -1e9], np.float32))
    env.reset()
    env.step(np.array([7.0, -0.25], np.float32))
    np.testing.assert_array_equal(env.unwrapped.last_action, np.array([1, -0.25], np.float32))


def test_clipaction_refuses_choices() -> None:
    with pytest.raises(ConfigError, match=r"Discrete\(2\)"):
        ClipAction(Counter())


def test_resizeobservation_keeps_every_second_row_and_column() -> None:
    env = ResizeObservation(Counter())
    assert env.observation_space == spaces.Box(0, 255, (2, 3), np.uint8)
    observation, _ = env.reset()
    np.testing.assert_array_equal(observation, [[0, 2, 4], [12, 14, 16]])
    np.testing.assert_array_equal(env.step(0)[0], observation)
    assert np.shares_memory(observation, IMAGE)


def test_resizeobservation_takes_colours_and_refuses_remainders() -> None:
    env = gymnasium.Env()
    env.observation_space = spaces.Box(0, 1, (9, 6, 3), np.float32)
    assert ResizeObservation(env, downscale=3).observation_space == spaces.Box(
        0, 1, (3, 2, 3), np.float32
    )
    with pytest.raises(ConfigError, match=r"downscale is 2: .*\(9, 6\)"):
        ResizeObservation(env)
    env.observation_space = spaces.Box(0, 1, (9,), np.float32)
    with pytest.raises(ConfigError, match="shape"):
        ResizeObservation(env)


def test_meanoveragents_makes_one_info_of_many() -> None:
    env = MeanOverAgents(TwoAgents())
    assert env.reset(seed=1)[1] == {"start": 2.0}
    observations, rewards, _, _, info = env.step({"a": 0, "b": 0})
    assert info == {"n": 3.0}
    assert rewards == {"a": 1.0, "b": 10.0}
    assert list(observations) == ["a", "b"]


def test_multiagentepisodestats_reports_each_agent_at_its_own_end() -> None:
    env = MultiagentEpisodeStats(TwoAgents())
    assert env.reset()[1]["b"] == {"start": 3}
    both = {"a": 0, "b": 0}
    assert env.step(both)[4] == {"a": {}, "b": {}}
    assert env.step(both)[4] == {
        "a": {},
        "b": {"episode_return": 30.0, "episode_length": 2, "n": 8, "deep/m": 2},
    }
    assert env.step({"a": 0})[4] == {"a": {"episode_return": 6.0, "episode_length": 3, "n": 6}}
    env.reset()
    env.step(both)
    assert env.step(both)[4]["b"]["episode_return"] == 30.0


class Bare(gymnasium.Env):  # type: ignore[type-arg]
    """Its reset takes nothing."""

    observation_space, action_space = spaces.Box(0, 9, (2, 2), np.float32), spaces.Discrete(2)

    def reset(self) -> Any:  # type: ignore[override]
        return np.ones((2, 2), np.float32), {"begun": True}


def test_episodestats_and_resizeobservation_reset_envs_that_take_no_seed() -> None:
    assert EpisodeStats(Bare()).reset(seed=3)[1] == {"begun": True}
    assert ResizeObservation(Bare()).reset(seed=3)[0].shape == (1, 1)
    with pytest.raises(ConfigError, match="takes none"):
        EpisodeStats(Bare()).reset(options={"x": 1})
