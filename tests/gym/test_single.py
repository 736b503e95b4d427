# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Single C envs as gymnasium.Env (puffervec/gym/single.py). `check_env` runs over each id in
test_registration.py.
"""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import puffervec
from puffervec.errors import CallOrderError, ConfigError
from puffervec.gym import NativeEnvView

TAG = {"num_taggers": 2, "episode_length": 4, "random_starts": True}


def test_one_agent_is_the_env_itself() -> None:
    env = NativeEnvView("probe", episode_length=3)
    assert isinstance(env, gymnasium.Env)
    observation, info = env.reset(seed=0)
    assert observation in env.observation_space and info == {}
    with puffervec.make(
        "probe", env_kwargs={"episode_length": 3}, num_envs=1, backend="serial"
    ) as core:
        assert np.array_equal(core.reset(0)[0][0], observation)
        total = 0.0
        for step in range(3):
            expected = core.step([step])
            observation, reward, terminated, truncated, info = env.step(step)
            assert np.array_equal(expected[0][0], observation)
            assert (reward, terminated, truncated) == (
                expected[1][0],
                bool(expected[2][0]),
                bool(expected[3][0]),
            )
            assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
            total += reward
        assert terminated and info == {"record": {"r": total, "l": 3}}
    env.close()
    env.close()


def test_many_agents_are_one_env() -> None:
    env = NativeEnvView("tag_grid", **TAG)
    assert env.observation_space.shape == (3, 13) and env.action_space == spaces.MultiDiscrete(
        [5, 5, 5]
    )
    observation, info = env.reset(seed=3)
    assert observation in env.observation_space
    assert {key: value.shape for key, value in info.items()} == dict.fromkeys(
        ("rewards", "terminals", "truncations", "mask"), (3,)
    )
    with puffervec.make("tag_grid", env_kwargs=TAG, num_envs=1, backend="serial") as core:
        core.reset(3)
        for step in range(4):
            expected = core.step([step, 1, 2])
            observation, reward, terminated, truncated, info = env.step([step, 1, 2])
            assert np.array_equal(expected[0], observation) and np.array_equal(
                info["rewards"], expected[1]
            )
            assert reward == pytest.approx(expected[1].mean())
    assert (terminated, truncated) == (False, True)
    assert info["truncations"].all() and info["record"]["l"] == 4
    env.close()


def test_the_reward_is_the_mean_over_those_who_are_there() -> None:
    env = NativeEnvView("probe", num_agents=3, leave=1, episode_length=4)
    env.reset(seed=0)
    there, ends = [], []
    for _ in range(4):
        _, reward, terminated, truncated, info = env.step([0, 0, 0])
        there.append(info["mask"].tolist())
        ends.append((terminated, truncated))
        assert reward == pytest.approx(float(info["rewards"][info["mask"]].mean()))
    assert there == [
        [True, True, True],
        [True, False, True],
        [True, False, False],
        [True, False, False],
    ]
    assert ends == [(False, False)] * 3 + [(True, False)]
    env.close()


def test_a_task_holds_for_one_episode() -> None:
    layouts = {
        "starting_location_x": [[0, 0, 0], [3, 4, 5]],
        "starting_location_y": [[0, 0, 0], [6, 7, 8]],
    }
    env = NativeEnvView("tag_grid", num_taggers=2, **layouts)
    found = [env.reset(seed=0, options={"task": task})[0] for task in (0, 1, 0)]
    assert np.array_equal(found[0], found[2]) and not np.array_equal(found[0], found[1])


def test_steps_out_of_order_are_refused() -> None:
    env = NativeEnvView("probe", episode_length=1)
    with pytest.raises(CallOrderError):
        env.step(0)
    env.reset()
    env.step(0)
    with pytest.raises(CallOrderError, match="is done"):
        env.step(0)
    env.reset()
    env.step(0)


def test_what_cannot_be_shown_as_one_env() -> None:
    with pytest.raises(ConfigError, match="2 kinds.*puffervec.pettingzoo"):
        NativeEnvView("probe", mode=1)
    with pytest.raises(ConfigError, match="render_mode is 'rgb_array'"):
        NativeEnvView("probe", render_mode="rgb_array")
    with pytest.raises(ConfigError, match="no setting"):
        NativeEnvView("probe", speed=1)
    assert NativeEnvView("probe").render() is None
