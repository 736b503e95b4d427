# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`covid`: the two-level economic environment (csrc/covid) of 51 states and a planner.

It forecasts nothing: docs/covid.md.
"""

from __future__ import annotations

from puffervec.contract.native import NativeEnv
from puffervec.contract.training import Training
from puffervec.envs.covid.drawing import drawing_of
from puffervec.envs.covid.settings import CovidConfig, build

TRAINING = Training(
    preset={
        # All envs are on the same day, so a rollout can be a whole episode. This is needed because
        # measures affect deaths only after months.
        "vec": {"num_envs": 8, "backend": "serial"},
        "train": {
            "horizon": 540,
            "update_epochs": 1,
            "minibatch_size": 7020,
            "lr": 3e-3,
            "gamma": 0.999,
            "gae_lambda": 0.997,
            "scale_rewards": True,
            "entropy_coef": 0.002,
            "total_timesteps": 50_000_000,
        },
        "policy": {"hidden": (32,)},
        # A subsidy has effects and costs from its first day on, and the planner chooses only six
        # times per episode.
        "policies": {
            "planner": {
                "gamma": 0.99,
                "gae_lambda": 0.9,
                "update_epochs": 8,
                "lr": 1e-2,
                "entropy_coef": 0.001,
            },
        },
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
