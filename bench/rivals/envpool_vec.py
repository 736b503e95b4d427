# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""EnvPool's CartPole in C++, with next-step autoreset.

settings: {"batch_size": rows per recv, or absent for all; "num_threads"}.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.rivals.envs import SEED, draw_actions
from bench.rivals.runner import Job, Missing, Runner


def open_runner(job: Job) -> Runner:
    """Return the runner: step by step, or first-come with a batch size."""
    if job.workload != "cartpole":
        raise Missing(f"EnvPool runs its own C++ envs, not {job.workload}")
    try:
        import envpool
    except ImportError as error:
        raise Missing(f"EnvPool is not installed ({error}): pip install envpool") from None
    arguments = {"num_envs": job.num_envs, "seed": SEED, **job.settings}
    pool = envpool.make("CartPole-v1", env_type="gymnasium", **arguments)
    rows = arguments.get("batch_size", job.num_envs)
    actions = draw_actions(pool.action_space, rows, np.int32)

    def turn(batch: Any) -> Any:
        _, _, terminations, truncations, _ = pool.step(batch)
        return terminations | truncations

    def turn_first_come(batch: Any) -> Any:
        _, _, terminations, truncations, info = pool.recv()
        pool.send(batch, info["env_id"])
        return terminations | truncations

    if rows == job.num_envs:
        pool.reset()
        return Runner(turn, actions, rows)
    pool.async_reset()
    return Runner(turn_first_come, actions, rows)
