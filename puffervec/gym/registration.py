# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Gymnasium ids of the C envs: `gymnasium.make("puffervec.gym:puffervec/CartPole-v1")` and the same with `make_vec`.

Gymnasium imports the module before the colon, which registers them (puffervec/gym/__init__.py). Since version 1.0 it no longer
looks for installed packages by itself, so a plain id needs `import puffervec.gym` first. Env NAME of an installed package is
`puffervec/NAME-v0`.
"""

from __future__ import annotations

import re

import gymnasium

from puffervec.envs import names

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


def ids() -> dict[str, tuple[str, str]]:
    """Return what REGISTERED says, and the same for the envs of installed packages, none of which is loaded."""
    built_in = {env for env, _ in REGISTERED.values()}
    # Rows of several agents stand side by side; with one agent that is the plain vector env. Ids have no other letters.
    others = [name for name in names() if name not in built_in and re.fullmatch(r"[\w-]+", name)]
    return {**REGISTERED, **{f"{name}-v0": (name, FLATTENED) for name in others}}


def id_of(env: str) -> str | None:
    """Return the Gymnasium id of a C env by its name, None if there is none of that name."""
    return next((f"{NAMESPACE}/{id}" for id, (name, _) in ids().items() if name == env), None)


def register_envs() -> None:
    """Register the C envs with Gymnasium; those that are there already stay."""
    for name, (env, vector_entry_point) in ids().items():
        id = f"{NAMESPACE}/{name}"
        if id not in gymnasium.registry:
            gymnasium.register(id, entry_point=SINGLE, vector_entry_point=vector_entry_point, kwargs={"env": env})
