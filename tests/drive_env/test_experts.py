# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The drivers of the logs as experts (drive_env/experts.py, puffervec/contract/experts.py)."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from drive_env.config import DriveConfig
from drive_env.env import experts
from drive_env.motion import expert_actions
from drive_env.prepare import prepare_scenes
from puffervec.errors import ConfigError
from tests.drive_env.test_motion import circling


def steps_of(config: DriveConfig, count: int) -> list[tuple[dict[str, Any], Any, Any]]:
    """Return the state, the actions and which of them are known, after each step of an env."""
    own = experts(config)
    found = []
    with puffervec.make("drive", env_kwargs=own.settings, backend="serial", num_envs=1) as vec:
        vec.reset(seed=0)
        for _ in range(count):
            vec.step(np.zeros_like(vec.action_space.sample()))
            state = vec.peek(0)
            found.append((state, *own.played(state)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("actions", ["discrete", "multi_discrete", "continuous"])
def test_they_are_those_of_the_models_inverse(cache: Path, actions: Any) -> None:
    config = DriveConfig(scenes="generated:2", num_agents=32, dynamics="car", actions=actions)
    scenes = prepare_scenes(config).scenes
    wanted = {number: expert_actions(config, number, scenes) for number in range(len(scenes))}
    compared = 0
    for step, (state, played, known) in enumerate(steps_of(config, 40)):
        assert played.shape[0] == known.shape[0] == 32
        for row in np.flatnonzero((state["active"] != 0) & known):
            slot = int(state["slot"][row])
            if int(state["slot_clock"][slot]) != step + 1:  # its scene has begun again
                continue
            own = wanted[int(state["slot_scene"][slot])]
            (at,) = np.flatnonzero(own.objects == state["object"][row])
            np.testing.assert_allclose(played[row], own.actions[at, step], atol=1e-5)
            compared += 1
    assert compared > 200


def test_a_gap_of_the_log_is_not_known(tmp_path: Path, cache: Path) -> None:
    """Nor are the steps that lead into it and out of it, and those after the end of the log."""
    path = circling(tmp_path, 1000.0, missing=slice(20, 30)).path
    config = DriveConfig(
        scenes=str(path), num_agents=4, control="valid", goal_behavior="drive_on", init_step=2
    )
    known = [bool(known[0]) for _, _, known in steps_of(config, 50)]
    # Step t leads from frame t + 2 to the next one.
    assert known == [not 20 <= t + 3 <= 30 for t in range(50)]


def test_an_episode_of_each_scene_is_enough(cache: Path) -> None:
    config = DriveConfig(scenes="generated:2", replay_log=1)
    own = experts(config).settings
    assert own == dataclasses.replace(
        config, replay_log=0, expert_actions=1, metrics=1, resample_steps=91
    )
    assert experts(dataclasses.replace(config, resample_steps=7)).settings.resample_steps == 7
    assert experts(dataclasses.replace(config, max_steps=20)).settings.resample_steps == 20
    with pytest.raises(ConfigError, match="dynamics=jerk cannot be inverted"):
        experts(DriveConfig(dynamics="jerk"))
