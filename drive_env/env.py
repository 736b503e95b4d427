# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`drive`: vehicles that drive to their goals through recorded or generated traffic scenes.

The registry entry of the env (csrc/drive), and the preset for training in it. Runs in the learner
when an env is made; the workers map the file that `build` returns and parse nothing.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drive_env.actions import action_params
from drive_env.config import DriveConfig
from drive_env.evaluate.columns import MEANINGS, MEANS, MORE_RATES
from drive_env.kinds import kind_params
from drive_env.prepare import prepare_scenes, remarks_on
from drive_env.rewards import reward_params
from puffervec.contract.evaluation import Evaluation, Recorder
from puffervec.contract.native import EnvData, NativeEnv
from puffervec.contract.training import Training
from puffervec.errors import SceneWarning
from puffervec.system.callers import caller

if TYPE_CHECKING:
    from puffervec.contract.drawing import Drawing, State
    from puffervec.contract.experts import Experts
    from puffervec.contract.keyboard import Keys
    from puffervec.vec.vector_env import VectorEnv

# A realistic car, and what a driver has to see in real scenes. Under the same limits, 20 % of the
# half-second intervals are comfortable with the bicycle's action values and 92 % with the car's
# (3M agent-steps, no reward for comfort; scores 0.81 and 0.79).
DRIVER = {"dynamics": "car", "observation": "driver"}
# With penalties a third as large more cars crash; with twice as large ones cars stop driving. Even
# with these, beginners stop driving for six million agent-steps unless `reward_limit` clips their
# penalties. With a goal reward of 1 and comfort terms three times as large, cars stand still before
# tight turns (0.16 of the cars in parking lots never arrive; 0.02 with these rewards). Without the
# haste term, cars arrive in half the time of the log.
REWARDS = {
    "reward_goal": 3.0,
    "reward_progress": 0.05,
    "reward_collision": -5.0,
    "reward_offroad": -3.0,
    "reward_acceleration": -0.0003,
    "reward_lateral": -0.0003,
    "reward_jerk": -0.00006,
    "reward_haste": -0.01,
    "reward_red_light": -0.5,
}
# Short rollouts and small minibatches: many gradient steps per simulated step. Most samples
# show cars that drive as expected; an update that skips these samples takes an eighth of the time,
# and the rest is better spent on further rollouts. A gamma of 0.985 learns more slowly (a score of
# 0.73 against 0.83 after 3M agent-steps, without skipped samples).
PRESET: dict[str, dict[str, Any]] = {
    "env": {"scenes": "generated:1000,streets:1000,lots:600", **DRIVER, **REWARDS},
    "vec": {"num_envs": 4},
    "train": {
        "horizon": 32,
        "advantage_share": 0.125,
        "reward_limit": ((1e6, 1.5), (3e6, 5.0), (3e6, 0.0)),  # no limit after 3M steps
        "minibatch_size": 4096,  # of which 512 are kept, 256 for each of two threads
        "microbatch_size": 256,
        "lr": 3e-3,
        "gamma": 0.97,
        "value_coef": 0.5,
        "entropy_coef": 0.005,
        "total_timesteps": 1_000_000_000,
        "time_limit_s": 420.0,
    },
    "policy": {"hidden": (128, 128), "normalize": False},
}

# Policies that come with the env (scripts/ship_driver.py writes them).
TRAINED, DRIVER_NAME = Path(__file__).resolve().parent / "trained", "driver"

# Metrics in the training log besides the columns of evaluations (csrc/drive/judge/records.h)
RECORD_MEANINGS = {
    "goal_steps": "steps to the goal per agent; 0 for agents that did not reach it",
    "contacts": "contacts with other objects per agent",
    "departures": "times per agent that it started to touch a road edge",
    "progress_m": "decrease of the distance to the goal per agent, in metres",
    "complete": "1 for an episode that ended by itself, 0 for one that a new bundle cut short",
    "goals_again": "goals reached after the first one",
}
TRAINING = Training(
    preset=PRESET,
    metric="env/score",
    rates={
        "score": "score",
        "goal": "goals",
        "collision": "collisions",
        "offroad": "offroads",
        **{name: name for name in ("goal_steps", "contacts", "departures", "progress_m")},
    },
    more_rates={**MORE_RATES, **MEANS},
    meanings={**MEANINGS, **RECORD_MEANINGS},
    search={
        "train.gamma": "0.95:0.99",
        "policy.hidden": "64,64/128,128/256,256",
        "env.reward_progress": "0.02:0.1:log",
    },
    solved_after=2_500_000,  # a score of 0.70 on the held-out scenes
)


# Python's registry of warnings that were already shown.
_WARNED: dict[str | tuple[str, type[Warning], int], int] = {}


def build(config: DriveConfig) -> EnvData:
    """Compile the scenes of a config, or find them in the cache, and collect the env's params.

    A SceneWarning lists the scenes that were left out.

    Raises:
        SceneError, ConfigError: see `drive_env.prepare.prepare_scenes`.
    """
    prepared = prepare_scenes(config)
    if prepared.left_out:
        text = f"drive: {'; '.join(remarks_on(prepared.left_out))}"
        warnings.warn_explicit(
            text, SceneWarning, *caller("puffervec", "drive_env"), registry=_WARNED
        )
    weights = prepared.scene_weights
    drawn = {} if weights is None else {"scene_weights": weights}
    drawn = prepared.set_params if config.scene_draws == "passes" else drawn
    checked = {"scenes_checked": np.ones(1, np.uint8)} if prepared.checked else {}
    return EnvData({**params_of(config), **drawn, **checked}, prepared.path)


def params_of(config: DriveConfig) -> dict[str, np.ndarray]:
    """Return the arrays that the C env reads besides its config and the scenes.

    These are kinds of drivers (csrc/drive/motion/kinds.c), ranges of rewards (judge/reward.c), ids
    (scene/control.c), and values of actions (motion/actions.c).
    """
    ids = {"control_ids": np.array(config.control_ids, np.int32)} if config.control_ids else {}
    return {
        **kind_params(config.traffic_kinds),
        **reward_params(config.reward_ranges),
        **action_params(config.action_values, config.dynamics),
        **ids,
    }


def keys(config: DriveConfig) -> Keys:
    """Return how the keyboard drives a car; see drive_env.keys.

    Raises:
        ConfigError: this dynamics model cannot be driven from the keyboard.
    """
    from drive_env.keys import keys

    return keys(config)


def experts(config: DriveConfig) -> Experts:
    """Return how the env plays the drivers of the logs; see drive_env.experts.

    Raises:
        ConfigError: this model of motion has no inverse.
    """
    from drive_env.experts import experts

    return experts(config)


def evaluation() -> Evaluation:
    """Return drive_env.evaluate.evaluate.EVALUATION, imported only when it is used."""
    from drive_env.evaluate.evaluate import EVALUATION

    return EVALUATION


def drawing(config: DriveConfig, state: State) -> Drawing:
    """Return how an episode looks; see drive_env.drawing.drawing."""
    from drive_env.drawing.drawing import drawing

    return drawing(config, state)


def recorder(vec: VectorEnv) -> Recorder:
    """Return the recorder for `render_mode="rgb_array"`; see drive_env.render.frames.

    Raises:
        MissingExtraError: Pillow is not installed.
    """
    from drive_env.render.frames import FrameRecorder

    return FrameRecorder(vec)


ENV = NativeEnv(
    name="drive",
    config=DriveConfig,
    build=build,
    evaluation=evaluation,
    drawing=drawing,
    keys=keys,
    recorder=recorder,
    experts=experts,
    trained_policies={DRIVER_NAME: TRAINED / DRIVER_NAME},
    training=TRAINING,
)
