# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec.contract.drawing import Drawing, State
from puffervec.envs import get
from puffervec.errors import ConfigError
from puffervec.train.act.evaluate import RandomActor
from puffervec.train.act.recording import Recording, record

TAG = {"num_taggers": 3, "grid_length": 3, "episode_length": 20}
LEFT = "runners left"


def recorded(steps: int = 1000, seed: int = 5) -> Recording:
    return record(get("tag_grid"), TAG, RandomActor(seed), episodes=16, most_steps=steps, seed=seed)


def test_a_recording_is_what_the_envs_did() -> None:
    """The same seeds and actions, by the records of the episodes and what the first env showed."""
    found, actor = recorded(), RandomActor(5)
    with puffervec.make("tag_grid", env_kwargs=TAG, backend="serial", num_envs=16, seed=5) as vec:
        obs, first, states = vec.reset(5)[0], {}, [vec.peek(0)]
        while len(first) < 16:
            obs, _, _, _, infos = vec.step(actor.act(obs, vec))
            states.append(vec.peek(0))
            for episode in infos.episodes[infos.episodes["agent_type"] == 0] if infos else ():
                first.setdefault(int(episode["env"]), episode)
        tagged = vec.spec.record_names.index("tagged")
    lengths = [int(first[env]["length"]) for env in range(16)]
    assert len(set(lengths)) > 3, "episodes of unequal lengths"
    assert found.numbers[LEFT].shape == (max(lengths) + 1, 16)
    assert found.numbers[LEFT][-1].tolist() == [
        float(not first[env]["values"][tagged]) for env in range(16)
    ]
    for env, length in enumerate(lengths):
        assert (found.numbers[LEFT][:length, env] == 1).all() and len(
            set(found.numbers[LEFT][length:, env])
        ) == 1
    assert len(found.states) == lengths[0] + 1
    for mine, seen in zip(found.states, states, strict=False):
        assert all(np.array_equal(mine[name], seen[name]) for name in seen)


def test_moments_are_those_of_the_first_env() -> None:
    found = recorded()
    moments = list(found.moments())
    assert [moment.step for moment in moments] == list(range(len(found.states)))
    assert [moment.numbers[LEFT] for moment in moments] == found.numbers[LEFT][
        : len(moments), 0
    ].tolist()


def test_numbers_that_come_and_go_are_refused() -> None:
    def drawing(config: Any, state: State) -> Drawing:
        return Drawing(
            (0, 0, 1, 1),
            lambda state, before: (),
            numbers=lambda state: {f"at {state['time'][0]}": 1.0},
        )

    env = dataclasses.replace(get("tag_grid"), drawing=drawing)
    with pytest.raises(
        ConfigError, match="tag_grid: its drawing returned the numbers at 0, and later at 1"
    ):
        record(env, TAG, RandomActor(0), episodes=1, most_steps=2, seed=0)


def test_long_episodes_are_cut() -> None:
    assert len(recorded(steps=4).numbers[LEFT]) == 5 and len(recorded(steps=1).states) == 2
