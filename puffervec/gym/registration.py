# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Gymnasium ids of the C envs: `gymnasium.make("puffervec.gym:puffervec/CartPole-v1")` and the same with `make_vec`.

Gymnasium imports the module before the colon, which registers them (puffervec/gym/__init__.py). Since version 1.0 it no longer
looks for installed packages by itself, so a plain id needs `import puffervec.gym` first.
"""

from __future__ import annotations

import gymnasium

NAMESPACE = "puffervec"
SINGLE = "puffervec.gym.single:NativeEnvView"
PLAIN = "puffervec.gym.native:NativeVectorEnv"
FLATTENED = "puffervec.gym.native:flattened"

# id without namespace -> (name of the C env, vector entry point)
REGISTERED = {
    "TagGridWorld-v0": ("tag_grid", FLATTENED),
    "Drive-v0": ("drive", FLATTENED),
    "CartPole-v1": ("cartpole", PLAIN),
    "Probe-v0": ("probe", PLAIN),
}


def register_envs() -> None:
    """Register the C envs with Gymnasium; those that are there already stay."""
    for name, (env, vector_entry_point) in REGISTERED.items():
        id = f"{NAMESPACE}/{name}"
        if id not in gymnasium.registry:
            gymnasium.register(id, entry_point=SINGLE, vector_entry_point=vector_entry_point, kwargs={"env": env})
