# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`drive`: the driving env (csrc/drive) as puffervec's registry sees it, and how to train in it.

Runs in the learner when an env is made; the workers map the file that `build` returns and parse
nothing.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from drive_env.actions import action_params
from drive_env.config import DriveConfig
from drive_env.evaluate.columns import MEANINGS, MEANS, MORE_RATES
from drive_env.prepare import prepare_scenes, remarks_on
from drive_env.rewards import reward_params
from puffervec.contract.evaluation import Evaluation, Recorder
from puffervec.contract.native import EnvData, NativeEnv
from puffervec.contract.training import Training
from puffervec.errors import SceneWarning
from puffervec.system.callers import caller

if TYPE_CHECKING:
    from puffervec.contract.drawing import Drawing, State
    from puffervec.contract.keyboard import Keys
    from puffervec.vec.vector_env import VectorEnv

# A car that could be built, and what a driver has to see in real scenes. With the bicycle's own
# values and the same limits 20 % of the half-seconds are comfortable, with the car's 92 % (3M
# agent-steps, nothing paid for comfort; scores 0.81 and 0.79).
DRIVER = {"dynamics": "car", "observation": "driver"}
# With twice these penalties fewer cars crash, and more never arrive. Comfort costs a usual step a
# tenth of what its progress brings. Without haste cars arrive in half the time of the log.
REWARDS = {
    "reward_progress": 0.05,
    "reward_collision": -1.5,
    "reward_offroad": -1.0,
    "reward_acceleration": -0.001,
    "reward_lateral": -0.001,
    "reward_jerk": -0.0002,
    "reward_haste": -0.01,
    "reward_red_light": -0.5,
}
# Small roll-outs and small minibatches: many gradient steps per simulated step. A gamma of 0.985
# learns more slowly (0.73 against 0.83 after 3M agent-steps).
PRESET: dict[str, dict[str, Any]] = {
    "env": {"scenes": "generated:1000,streets:1000", **DRIVER, **REWARDS},
    "vec": {"num_envs": 4},
    "train": {
        "horizon": 32,
        "minibatch_size": 2048,
        "gamma": 0.97,
        "value_coef": 0.5,
        "entropy_coef": 0.005,
        "total_timesteps": 100_000_000,
        "time_limit_s": 420.0,
    },
    "policy": {"hidden": (128, 128), "normalize": False},
}

# What is in the log of training, besides the columns of evaluations (csrc/drive/judge/records.h)
RECORD_MEANINGS = {
    "goal_steps": "steps to the goal per agent; 0 for those that did not reach it",
    "contacts": "contacts with other objects per agent",
    "departures": "times per agent that it began to touch a road edge",
    "progress_m": "metres by which the goal came nearer, per agent",
    "complete": "1 for an episode that ended by itself, 0 for one that a new bundle cut short",
    "goals_again": "goals that were reached after the first one",
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


_WARNED: dict[
    str | tuple[str, type[Warning], int], int
] = {}  # Python's own notes on what has been said already.


def build(config: DriveConfig) -> EnvData:
    """Compile the scenes of a config, or find them in the cache; take the user's own values of
    actions.

    A SceneWarning says what was left out.

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
    """What the C env reads besides its config and the scenes: ranges of rewards
    (csrc/drive/judge/reward.c), ids (control.c), values of actions (actions.c).
    """
    ids = {"control_ids": np.array(config.control_ids, np.int32)} if config.control_ids else {}
    return {
        **reward_params(config.reward_ranges),
        **action_params(config.action_values, config.dynamics),
        **ids,
    }


def keys(config: DriveConfig) -> Keys:
    """How keys drive a car: drive_env.keys. Raises: ConfigError: this model cannot be driven by
    keys.
    """
    from drive_env.keys import keys

    return keys(config)


def evaluation() -> Evaluation:
    """Rates per scene, baselines and pictures (drive_env.evaluate.evaluate), imported when they are
    asked for.
    """
    from drive_env.evaluate.evaluate import EVALUATION

    return EVALUATION


def drawing(config: DriveConfig, state: State) -> Drawing:
    """How an episode looks: drive_env.drawing.drawing."""
    from drive_env.drawing.drawing import drawing

    return drawing(config, state)


def recorder(vec: VectorEnv) -> Recorder:
    """Pictures for `render_mode="rgb_array"`: drive_env.render.frames. Raises: MissingExtraError:
    no Pillow.
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
    training=TRAINING,
)
