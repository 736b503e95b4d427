# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Settings per env that differ from the dataclass defaults, as tables like those of a `--config` file.

Measured on 2 cores without a GPU; see bench/ and the README for the figures. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What an env gets that has no preset of its own, in C or in Python: many passes with large steps over short roll-outs of many
# envs, rewards and observations scaled, and float32, since bf16 would round 1,003 to 1,000. It is the best of the settings that
# bench/defaults.py compares: 0.93 of the known best scores, against 0.78 with 16 envs x 128 steps, 6 passes and half the step.
GENERIC: dict[str, dict[str, Any]] = {
    "vec": {"num_envs": 64},
    "train": {
        "horizon": 32,
        "update_epochs": 10,
        "lr": 2e-3,
        "gamma": 0.99,
        "value_coef": 0.5,
        "entropy_coef": 0.005,
        "scale_rewards": True,
        "precision": "fp32",
        "total_timesteps": 1_000_000,
    },
    "policy": {"hidden": (64, 64)},
}

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    # Small roll-outs and small minibatches (many gradient steps per simulated step) and more reward for progress than the
    # env's default: the score after 2M agent-steps is 0.67, against 0.01 with roll-outs of 65,536 steps, minibatches of 8,192
    # and 0.02 per metre. What remains are collisions: after 8 minutes 8 % of the cars with these penalties, 10 % with half of
    # them. Twice of them teach cars to stand still. The env's 200 scenes are soon known by heart: after half an hour the
    # held-out score stays at 0.85.
    "drive": {
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
    },
    "tag_grid": {
        "vec": {"num_envs": 2048},
        "train": {
            "horizon": 25,
            "microbatch_size": 25_600,
            "update_epochs": 1,
            "lr": 3e-3,
            "entropy_coef": 0.02,
            "total_timesteps": 50_000_000,
        },
        "policy": {"hidden": (32, 32), "normalize": False},
    },
}

# Agent-steps after which the preset was seen to reach a score of 0.70 on the held-out scenes.
STEPS_TO_SCORE = {"drive": 2_500_000}

# Records of these envs stand for many agents and hold counts: name in the log -> record name. See stats.EpisodeWindow.
RATES_PER_AGENT: dict[str, dict[str, str]] = {
    "drive": {
        "score": "score",
        "goal": "goals",
        "collision": "collisions",
        "offroad": "offroads",
        **{name: name for name in ("goal_steps", "contacts", "departures", "progress_m")},
    },
}

# What `puffer-train sweep` searches where no range is given; see search.py for how they are written.
SEARCHED: dict[str, str] = {
    "train.lr": "3e-4:1e-2:log",
    "train.gamma": "0.95:0.999",
    "train.gae_lambda": "0.8:0.98",
    "train.entropy_coef": "1e-4:5e-2:log",
    "train.clip": "0.1:0.3",
    "train.update_epochs": "1/2/4",
}
SEARCHED_OF: dict[str, dict[str, str]] = {
    "drive": {"train.gamma": "0.95:0.99", "policy.hidden": "64,64/128,128/256,256", "env.reward_progress": "0.02:0.1:log"},
    "tag_grid": {"train.update_epochs": "1/2", "policy.hidden": "32,32/64,64"},
}

# The metric that says how good a run is, where it is not the return.
SCORES = {"drive": "env/score"}
RETURN = "episode/return"


def preset_of(target: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the tables for an env id: its own, or those of an env about which nothing is known."""
    found: Mapping[str, Mapping[str, Any]] = PRESETS.get(target, GENERIC)
    return found
