# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`drive`: the driving env (csrc/drive) as puffervec's registry sees it.

Runs in the learner when an env is made; the workers map the file that `build` returns and parse nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from drive_env.config import DriveConfig
from drive_env.prepare import prepare_scenes
from drive_env.training import TRAINING
from puffervec.evaluation import Evaluation, Recorder
from puffervec.native import EnvData, NativeEnv

if TYPE_CHECKING:
    from puffervec.vec.vector_env import VectorEnv


def build(config: DriveConfig) -> EnvData:
    """Compile the scenes of a config, or find them in the cache.

    Raises:
        SceneError, ConfigError: see `drive_env.prepare.prepare_scenes`.
    """
    return EnvData(data=prepare_scenes(config).path)


def evaluation() -> Evaluation:
    """Rates per scene, baselines and pictures (drive_env.evaluate.evaluate), imported when they are asked for."""
    from drive_env.evaluate.evaluate import EVALUATION

    return EVALUATION


def recorder(vec: VectorEnv) -> Recorder:
    """Pictures for `render_mode="rgb_array"`: drive_env.render.frames. Raises: MissingExtraError: no matplotlib."""
    from drive_env.render.frames import FrameRecorder

    return FrameRecorder(vec)


ENV = NativeEnv(name="drive", config=DriveConfig, build=build, evaluation=evaluation, recorder=recorder, training=TRAINING)
