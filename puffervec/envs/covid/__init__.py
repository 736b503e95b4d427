# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`covid`: the two-level economic environment (csrc/covid), 51 states and a planner. It forecasts nothing: docs/covid.md."""

from __future__ import annotations

from puffervec.envs.covid.drawing import drawing_of
from puffervec.envs.covid.settings import CovidConfig, build
from puffervec.native import NativeEnv
from puffervec.training import Training

TRAINING = Training(
    preset={
        "vec": {"num_envs": 60},
        "train": {"total_timesteps": 50_000_000},
    },
    metric="env/social_welfare",
)
ENV = NativeEnv(
    name="covid",
    config=CovidConfig,
    build=build,
    agent_types=("state", "planner"),
    row_types=lambda config: (0,) * 51 + (1,),
    drawing=drawing_of,
    training=TRAINING,
)
