# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Gymnasium's vector envs with their default settings.

Settings: {"mode": "sync" | "async" | "own"}. "own" is the vector env that the env itself brings,
without Python per env: CartPole in NumPy, ALE in C++.
"""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from bench.rivals.envs import MAKERS, SEED, draw_actions
from bench.rivals.runner import Job, Missing, Runner


def _own(job: Job) -> Any:
    if job.workload == "cartpole":
        return gymnasium.make_vec(
            "CartPole-v1", job.num_envs, vectorization_mode="vector_entry_point"
        )
    if job.workload == "pong":
        import ale_py

        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        return gymnasium.make_vec(
            "ALE/Pong-v5", job.num_envs, vectorization_mode="vector_entry_point"
        )
    raise Missing(f"{job.workload} has no vector env of its own")


def open_vec(job: Job) -> Any:
    """Return the vector env, not yet reset."""
    if job.settings["mode"] == "own":
        return _own(job)
    kind = {"sync": SyncVectorEnv, "async": AsyncVectorEnv}[job.settings["mode"]]
    return kind([MAKERS[job.workload]] * job.num_envs)


def open_runner(job: Job) -> Runner:
    """Return the runner of one of Gymnasium's vector envs."""
    return over(open_vec(job), job.num_envs)


def over(vec: Any, num_envs: int) -> Runner:
    """Return the runner of any vector env with Gymnasium's calls and next-step autoreset."""
    vec.reset(seed=SEED)
    step = vec.step

    def turn(actions: Any) -> Any:
        _, _, terminations, truncations, _ = step(actions)
        return terminations | truncations

    return Runner(turn, draw_actions(vec.single_action_space, num_envs), num_envs, close=vec.close)
