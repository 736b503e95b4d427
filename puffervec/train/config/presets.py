# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Settings for envs about which nothing is known, as tables like those of a `--config` file. An env brings its own in
`NativeEnv.training`. Imports no torch.
"""

from __future__ import annotations

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

# What `puffer-train sweep` searches where no range is given; ranges.py says how they are written.
SEARCHED: dict[str, str] = {
    "train.lr": "3e-4:1e-2:log",
    "train.gamma": "0.95:0.999",
    "train.gae_lambda": "0.8:0.98",
    "train.entropy_coef": "1e-4:5e-2:log",
    "train.update_epochs": "2/5/10",
}
