# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`drive`: the driving env (csrc/drive) as puffervec's registry sees it, and how to train in it.

Runs in the learner when an env is made; the workers map the file that `build` returns and parse nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drive_env.actions import action_params
from drive_env.config import DriveConfig
from drive_env.evaluate.columns import MEANS, MORE_RATES
from drive_env.prepare import prepare_scenes
from drive_env.rewards import reward_params
from puffervec.evaluation import Evaluation, Recorder
from puffervec.native import EnvData, NativeEnv
from puffervec.training import Training

if TYPE_CHECKING:
    from puffervec.vec.vector_env import VectorEnv

# Small roll-outs and small minibatches (many gradient steps per simulated step) and more reward for progress than the
# env's default: the score after 2M agent-steps is 0.67, against 0.01 with roll-outs of 65,536 steps, minibatches of 8,192
# and 0.02 per metre. What remains are collisions: after 8 minutes 8 % of the cars with these penalties, 10 % with half of
# them. Twice of them teach cars to stand still. The env's 200 scenes are soon known by heart: after half an hour the
# held-out score stays at 0.85.
PRESET: dict[str, dict[str, Any]] = {
    "env": {"scenes": "generated:2000", "reward_progress": 0.05, "reward_collision": -1.5, "reward_offroad": -1.0},
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
    search={"train.gamma": "0.95:0.99", "policy.hidden": "64,64/128,128/256,256", "env.reward_progress": "0.02:0.1:log"},
    solved_after=2_500_000,  # a score of 0.70 on the held-out scenes
)


def build(config: DriveConfig) -> EnvData:
    """Compile the scenes of a config, or find them in the cache; take the user's own values of actions.

    Raises:
        SceneError, ConfigError: see `drive_env.prepare.prepare_scenes`.
    """
    prepared = prepare_scenes(config)
    weights = prepared.scene_weights
    drawn = {} if weights is None else {"scene_weights": weights}
    drawn = prepared.set_params if config.scene_draws == "passes" else drawn
    checked = {"scenes_checked": np.ones(1, np.uint8)} if prepared.checked else {}
    return EnvData({**params_of(config), **drawn, **checked}, prepared.path)


def params_of(config: DriveConfig) -> dict[str, np.ndarray]:
    """What the C env reads besides its config and the scenes: ranges of rewards (csrc/drive/reward.c), ids (control.c),
    values of actions (actions.c)."""
    ids = {"control_ids": np.array(config.control_ids, np.int32)} if config.control_ids else {}
    return {**reward_params(config.reward_ranges), **action_params(config.action_values, config.dynamics), **ids}


def evaluation() -> Evaluation:
    """Rates per scene, baselines and pictures (drive_env.evaluate.evaluate), imported when they are asked for."""
    from drive_env.evaluate.evaluate import EVALUATION

    return EVALUATION


def recorder(vec: VectorEnv) -> Recorder:
    """Pictures for `render_mode="rgb_array"`: drive_env.render.recording. Raises: MissingExtraError: no matplotlib."""
    from drive_env.render.recording import FrameRecorder

    return FrameRecorder(vec)


ENV = NativeEnv(name="drive", config=DriveConfig, build=build, evaluation=evaluation, recorder=recorder, training=TRAINING)
