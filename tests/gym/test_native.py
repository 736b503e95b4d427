# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""C envs as vector envs of Gymnasium (puffervec/gym/native.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

import puffervec
from puffervec.errors import ConfigError
from puffervec.gym import NativeVectorEnv
from tests.gym.kinds import DISABLED, MODES, NEXT, SAME

# An env that can be worked out by hand: see csrc/envs/probe.c. Three steps per episode.
PROBE = {"env": "probe", "num_envs": 2, "backend": "serial", "episode_length": 3}
TAG = {"env": "tag_grid", "num_envs": 2, "backend": "serial", "num_taggers": 2, "episode_length": 4}


@pytest.fixture
def made() -> Iterator[list[NativeVectorEnv]]:
    envs: list[NativeVectorEnv] = []
    yield envs
    for each in envs:
        each.close()


def test_it_is_a_vector_env(made: list[NativeVectorEnv]) -> None:
    envs = NativeVectorEnv(**PROBE)
    made.append(envs)
    assert isinstance(envs, VectorEnv) and (
        envs.num_envs,
        envs.agents,
        envs.spec,
        envs.render_mode,
    ) == (2, 1, None, None)
    assert envs.observation_space == batch_space(envs.single_observation_space, 2)
    assert envs.action_space == batch_space(envs.single_action_space, 2)
    assert (
        envs.metadata == {"render_modes": [], "autoreset_mode": NEXT}
        and envs.autoreset_mode is NEXT
    )
    assert envs.render() is None
    observations, infos = envs.reset(seed=0)
    assert observations in envs.observation_space and infos == {}
    observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())
    assert observations in envs.observation_space and infos == {}
    assert (rewards.dtype, terminations.dtype, truncations.dtype) == (
        np.float64,
        np.bool_,
        np.bool_,
    )


@pytest.mark.parametrize("backend", ["serial", "multiprocessing", "threading"])
def test_rows_are_those_of_the_core(made: list[NativeVectorEnv], backend: str) -> None:
    settings = {**TAG, "backend": backend, "random_starts": True}
    envs = NativeVectorEnv(
        **settings, flatten_agents=True, num_workers="auto" if backend == "serial" else 1
    )
    made.append(envs)
    assert (envs.num_envs, envs.agents) == (6, 3)
    with puffervec.make("tag_grid",
                        env_kwargs={"num_taggers": 2, "episode_length": 4, "random_starts": True},
                        num_envs=2, backend="serial") as core:  # fmt: skip
        expected, _ = core.reset(5)
        observations, infos = envs.reset(seed=5)
        assert (
            np.array_equal(observations, expected) and infos["mask"].all() and infos["_mask"].all()
        )
        for step in range(6):
            actions = (np.arange(6) + step) % 5
            expected = core.step(actions)
            found = envs.step(actions)
            for theirs, ours in zip(expected[:4], found[:4], strict=True):
                assert np.array_equal(theirs, ours)


def test_several_agents_are_only_flattened_on_request() -> None:
    with pytest.raises(
        ConfigError, match="3 agents: use flatten_agents=True.*puffervec.pettingzoo"
    ):
        NativeVectorEnv(**TAG)
    with pytest.raises(ConfigError, match="2 kinds.*puffervec.pettingzoo"):
        NativeVectorEnv("probe", 2, backend="serial", mode=1, flatten_agents=True)
    with pytest.raises(ConfigError, match="no setting 'taggers'"):
        NativeVectorEnv("tag_grid", 2, backend="serial", taggers=3)
    with pytest.raises(ConfigError, match="render_mode is 'human'"):
        NativeVectorEnv(**PROBE, render_mode="human")


def run(envs: NativeVectorEnv, steps: int) -> list[Any]:
    return [envs.step(np.zeros(envs.num_envs, int)) for _ in range(steps)]


@pytest.mark.parametrize("mode", MODES)
def test_the_three_modes(made: list[NativeVectorEnv], mode: AutoresetMode) -> None:
    envs = NativeVectorEnv(**PROBE, autoreset_mode=mode.value)
    made.append(envs)
    first, _ = envs.reset(seed=1)
    steps = run(envs, 3)
    assert [step[2].any() or step[3].any() for step in steps] == [False, False, True]
    observations, _, terminations, truncations, infos = steps[-1]
    if mode is SAME:
        assert (
            infos["_final_obs"].all() and infos["_final_info"].all() and infos["final_info"] == {}
        )
        assert infos["final_obs"].dtype == object
        with puffervec.make(
            "probe", env_kwargs={"episode_length": 3}, num_envs=2, backend="serial"
        ) as core:
            core.reset(1)
            expected = [core.step(np.zeros(2, int))[0].copy() for _ in range(4)]
        assert np.array_equal(np.stack(list(infos["final_obs"])), expected[2])
        assert np.array_equal(
            observations[:, :7], expected[3][:, :7]
        )  # the next first one; the last column counts turns
    elif mode is DISABLED:
        with pytest.raises(AssertionError, match="env 0 and 1 more is done"):
            envs.step([0, 0])
        before = observations.copy()
        after, _ = envs.reset(options={"reset_mask": np.array([True, False])})
        assert not np.array_equal(after[0], before[0]) and np.array_equal(after[1], before[1])
        envs.reset(options={"reset_mask": np.array([False, True])})
        envs.step([0, 0])
    else:
        _, rewards, terminations, truncations, _ = envs.step([4, 4])
        assert not rewards.any() and not terminations.any() and not truncations.any()


def test_seeds(made: list[NativeVectorEnv]) -> None:
    envs = NativeVectorEnv("cartpole", 3, backend="serial")
    made.append(envs)
    by_number = envs.reset(seed=5)[0]
    assert envs.np_random_seed == 5
    assert np.array_equal(envs.reset(seed=[5, 6, 7])[0], by_number)
    assert np.array_equal(envs.reset(seed=np.int64(5))[0], by_number)
    assert not np.array_equal(envs.reset()[0], by_number)  # the next episode
    mixed = envs.reset(seed=[5, None, 7])[0]
    assert np.array_equal(mixed[[0, 2]], by_number[[0, 2]]) and not np.array_equal(
        mixed[1], by_number[1]
    )
    with pytest.raises(ValueError, match="num_envs=3 but got length=2"):
        envs.reset(seed=[1, 2])


def test_tasks(made: list[NativeVectorEnv]) -> None:
    """Start layouts of tag_grid; they hold for this reset only."""
    layouts = {
        "starting_location_x": [[0, 0, 0], [3, 4, 5]],
        "starting_location_y": [[0, 0, 0], [6, 7, 8]],
    }
    envs = NativeVectorEnv(**TAG, **layouts, flatten_agents=True)
    made.append(envs)
    one, _ = envs.reset(seed=0, options={"task": 1})
    zero, _ = envs.reset(seed=0, options={"task": 0})
    mixed, _ = envs.reset(seed=0, options={"task": [0, 1]})
    assert not np.array_equal(zero, one)
    assert np.array_equal(mixed[:3], zero[:3]) and np.array_equal(mixed[3:], one[3:])
    only, _ = envs.reset(options={"task": 0, "reset_mask": np.array([False] * 3 + [True] * 3)})
    assert np.array_equal(only, zero)
    with pytest.raises(ValueError, match="task"):
        envs.reset(options={"task": "first"})
    with pytest.raises(
        ConfigError, match=r"options\['task'\] has 3 entries for 2 envs of 'tag_grid'"
    ):
        envs.reset(options={"task": [0, 1, 1]})


def test_other_options_are_refused(made: list[NativeVectorEnv]) -> None:
    envs = NativeVectorEnv(**PROBE)
    made.append(envs)
    envs.reset(seed=0)
    before = run(envs, 2)[-1][0]
    with pytest.raises(
        ConfigError,
        match="options have 'typo', which 'probe' does not know: use 'reset_mask' and 'task'",
    ):
        envs.reset(options={"typo": 1, "task": 0})
    with pytest.raises(TypeError, match="options is 5"):
        envs.reset(options=5)  # type: ignore[arg-type]
    after, _ = envs.reset(options={"reset_mask": np.array([True, False])})
    assert np.array_equal(after[1], before[1]) and not np.array_equal(after[0], before[0])


def test_a_mask_takes_in_all_agents_of_an_env(made: list[NativeVectorEnv]) -> None:
    envs = NativeVectorEnv(**TAG, flatten_agents=True, autoreset_mode=DISABLED)
    made.append(envs)
    start, _ = envs.reset(seed=0)
    moved = envs.step(np.full(6, 1))[0]
    assert not np.array_equal(moved[:3], start[:3])
    mask = np.array([True] * 3 + [False] * 3)
    found, _ = envs.reset(seed=[0, 9], options={"reset_mask": mask})
    assert np.array_equal(found[:3], start[:3]) and np.array_equal(found[3:], moved[3:])
    mask[2] = False
    with pytest.raises(ValueError, match="some of the 3 agents of env 0"):
        envs.reset(options={"reset_mask": mask})


def test_episodes_are_reported(made: list[NativeVectorEnv]) -> None:
    envs = NativeVectorEnv(**PROBE)
    made.append(envs)
    envs.reset(seed=0)
    total, reports = np.zeros(2), 0
    for _, rewards, terminations, truncations, infos in run(envs, 8):
        total += rewards
        done = terminations | truncations
        if done.any():
            assert infos["_record"].tolist() == done.tolist() == [True, True]
            assert np.allclose(infos["record"]["r"], total) and infos["record"]["l"].tolist() == [
                3,
                3,
            ]
            assert infos["record"]["truncated"].tolist() == [0.0, 0.0]
            total[:] = 0
            reports += 1
        else:
            assert infos == {}
    assert reports == 2


@pytest.mark.parametrize("key", ["episode", None])
def test_the_key_of_the_report_can_be_chosen(made: list[NativeVectorEnv], key: str | None) -> None:
    for kwargs in (PROBE, {**TAG, "flatten_agents": True}):
        envs = NativeVectorEnv(**kwargs, stats_key=key)
        made.append(envs)
        envs.reset(seed=0)
        keys = {name for step in run(envs, 5) for name in step[4]}
        assert keys - {"mask", "_mask"} == ({"episode", "_episode"} if key else set())


def test_agents_that_leave(made: list[NativeVectorEnv]) -> None:
    """Agent a > 0 of the probe leaves at step a."""
    envs = NativeVectorEnv(
        "probe", 1, backend="serial", num_agents=3, leave=1, episode_length=4, flatten_agents=True
    )
    made.append(envs)
    envs.reset(seed=0)
    steps = run(envs, 4)
    assert [step[4]["mask"].tolist() for step in steps] == [
        [True, True, True], [True, False, True], [True, False, False], [True, False, False]
    ]  # fmt: skip
    lengths = [step[4]["record"]["l"].tolist() for step in steps if "record" in step[4]]
    assert lengths == [[0, 1, 0], [0, 0, 2], [4, 0, 0]]


def test_wrong_actions_and_the_end() -> None:
    envs = NativeVectorEnv(**PROBE)
    envs.reset()
    for actions, error in (
        ([0], ValueError),
        ([0, 0, 0], ValueError),
        (0, TypeError),
        ([0.5, 0.5], ValueError),
    ):
        with pytest.raises(error):
            envs.step(actions)
    envs.step(np.array([0, 1], np.int16))
    envs.close()
    envs.close()
    for use in (envs.reset, lambda: envs.step([0, 0])):
        with pytest.raises(ClosedEnvironmentError, match="after a call to `close"):
            use()
