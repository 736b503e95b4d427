# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/viewing/render/frames.py: pictures of envs that say how they are drawn, through the
interfaces that ask for them.
"""

from __future__ import annotations

import contextlib
from typing import Any

import gymnasium
import numpy as np
import pytest

import puffervec.gym
from puffervec.errors import CallOrderError, ConfigError
from puffervec.pettingzoo import parallel_env

pytest.importorskip("PIL")


@pytest.fixture
def cartpole() -> Any:
    puffervec.gym.register_envs()
    env: Any = gymnasium.make("puffervec/CartPole-v1", render_mode="rgb_array", max_episode_steps=3)
    yield env
    env.close()


def test_gymnasium_shows_pictures_of_one_size(cartpole: Any) -> None:
    with pytest.raises(CallOrderError, match="reset first"):
        cartpole.unwrapped.render()
    pictures = []
    for seed in (0, 1):
        cartpole.reset(seed=seed)
        pictures.append(cartpole.render())
        cartpole.step(0)
        pictures.append(cartpole.render())
    assert {(picture.shape, picture.dtype) for picture in pictures} == {
        ((284, 664, 3), np.dtype(np.uint8))
    }
    assert len({picture.tobytes() for picture in pictures}) == 4
    cartpole.reset(seed=0)
    assert np.array_equal(cartpole.render(), pictures[0])


def test_gymnasiums_recorder_of_frames(cartpole: Any) -> None:
    frames = gymnasium.wrappers.RenderCollection(cartpole)
    frames.reset(seed=0)
    for _ in range(3):
        frames.step(1)
    assert len(frames.render()) == 4 and cartpole.metadata["render_fps"] == 15


def test_pettingzoo_shows_pictures() -> None:
    pytest.importorskip("pettingzoo")
    with contextlib.closing(
        parallel_env("tag_grid", render_mode="rgb_array", num_taggers=2)
    ) as env:
        env.reset(seed=0)
        first = env.render()
        env.step({agent: 1 for agent in env.agents})
        assert first is not None and first.shape == (736, 664, 3) and (env.render() != first).any()


def test_an_env_without_a_drawing_has_no_pictures() -> None:
    with pytest.raises(ConfigError, match="render_mode is 'rgb_array': 'probe' takes None"):
        gymnasium.make("puffervec/Probe-v0", render_mode="rgb_array")
