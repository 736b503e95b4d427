# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""How a keyboard drives a car (drive_env/keys.py)."""

from __future__ import annotations

import dataclasses
from itertools import product
from typing import Any

import numpy as np
import pytest

import puffervec
from drive_env.actions import axes_of
from drive_env.config import CHOICES, UNLIMITED, DriveConfig
from drive_env.keys import AHEAD, BACK, LEFT, RIGHT, keys
from puffervec.envs import get
from puffervec.errors import ConfigError


def meant(config: DriveConfig, action: Any) -> tuple[float, ...]:
    """What an action is in units of the model, computed anew from its axes."""
    axes = axes_of(config.dynamics)
    if config.actions == "continuous":
        return tuple(action)
    if config.actions == "multi_discrete":
        return tuple(axis.values[int(n)] for axis, n in zip(axes, action, strict=True))
    return list(product(*(axis.values for axis in axes)))[int(action)]


def models() -> list[str]:
    return [name for name in CHOICES["dynamics"] if name not in UNLIMITED]


@pytest.mark.parametrize("actions", ["discrete", "multi_discrete", "continuous"])
def test_a_car_is_driven_by_keys(actions: str) -> None:
    for dynamics in models():
        if actions != "continuous" and not all(axis.values for axis in axes_of(dynamics)):
            continue
        config = DriveConfig(dynamics=dynamics, actions=actions)
        act = keys(config).action
        still = meant(config, act({}))
        assert all(
            abs(n) <= min(map(abs, axis.values or (0.0,)))
            for n, axis in zip(still, axes_of(dynamics), strict=True)
        ), dynamics
        along = [meant(config, act({AHEAD: n}))[0] for n in range(1, 20)]
        back = [meant(config, act({BACK: n}))[0] for n in range(1, 20)]
        left = [meant(config, act({LEFT: n}))[1] for n in range(1, 20)]
        right = [meant(config, act({RIGHT: n}))[1] for n in range(1, 20)]
        assert (
            along == sorted(along)
            and along[0] > still[0] > back[0]
            and back == sorted(back, reverse=True)
        ), dynamics
        assert (
            left == sorted(left)
            and left[0] > still[1] > right[0]
            and right == sorted(right, reverse=True)
        ), dynamics
        first = axes_of(dynamics)[0]
        low, high = (
            (first.low, first.high)
            if actions == "continuous"
            else (min(first.values), max(first.values))
        )
        assert (back[-1], along[-1]) == pytest.approx((low, high)), dynamics
        assert meant(config, act({LEFT: 3, RIGHT: 5})) == still


def test_a_bound_is_reached_in_five_steps() -> None:
    """In equal ones, and kept from then on; a key of the other direction lets go of it."""
    config = DriveConfig(actions="continuous", action_values=("steering=-0.5,0.25",))
    act, axis = keys(config).action, axes_of(config.dynamics)[0]
    for held in range(8):
        share = min(held, 5) / 5
        assert act({AHEAD: held, LEFT: held}) == pytest.approx((share * axis.high, share * 0.25))
        assert act({BACK: held, RIGHT: held}) == pytest.approx((share * axis.low, -share * 0.5))
    assert act({AHEAD: 3, BACK: 1, LEFT: 1, RIGHT: 4}) == (0.0, 0.0)


def test_own_values_are_chosen_from() -> None:
    config = DriveConfig(action_values=("acceleration=2,-3,0",))
    act = keys(config).action
    count = len(axes_of(config.dynamics)[1].values)
    assert [int(act(held)) // count for held in ({AHEAD: 1}, {BACK: 1}, {})] == [0, 1, 2]  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["replay_log", "expert_actions", "idm_agents"])
def test_settings_that_move_agents_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"drive: {name} is 1, which"):
        keys(dataclasses.replace(DriveConfig(), **{name: 1}))


@pytest.mark.parametrize("dynamics", UNLIMITED)
def test_models_whose_actions_are_places_are_refused(dynamics: str) -> None:
    with pytest.raises(ConfigError, match=f"drive: dynamics={dynamics} cannot be driven by keys"):
        keys(DriveConfig(dynamics=dynamics, actions="continuous"))


def test_left_is_left_and_ahead_is_ahead() -> None:
    """In the env itself: the heading grows to the left, counter-clockwise, and the speed ahead."""
    env = get("drive")
    config = env.configure({"scenes": "generated:2", "goal_behavior": "drive_on"})
    assert env.keys is not None
    for key, name, sign in (
        (LEFT, "heading", 1),
        (RIGHT, "heading", -1),
        (AHEAD, "speed", 1),
        (BACK, "speed", -1),
    ):
        with puffervec.make(env, env_kwargs=config, backend="serial", num_envs=1, seed=0) as vec:
            vec.reset(seed=0)
            row = int(np.argmax(vec.peek(0)["speed"]))
            before, act = vec.peek(0), env.keys(config).action
            for step in range(1, 6):
                actions = np.full(vec.num_agents, act({}))
                actions[row] = act({key: step})
                vec.step(actions)
            change = float(vec.peek(0)[name][row] - before[name][row])
            turned = (change + np.pi) % (2 * np.pi) - np.pi if name == "heading" else change
            assert sign * turned > 0.01, key
