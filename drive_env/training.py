# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""How to train in drive: the preset behind `puffer-train drive`, and what its runs log."""

from __future__ import annotations

from typing import Any

from puffervec.training import Training

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
    search={"train.gamma": "0.95:0.99", "policy.hidden": "64,64/128,128/256,256", "env.reward_progress": "0.02:0.1:log"},
    solved_after=2_500_000,  # a score of 0.70 on the held-out scenes
)
