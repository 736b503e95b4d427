# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Tianshou's ShmemVectorEnv, without autoreset.

A separate call resets done envs, as its collectors do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.rivals.envs import MAKERS, SEED, draw_actions
from bench.rivals.runner import Job, Missing, Runner


def open_runner(job: Job) -> Runner:
    """Return the runner."""
    try:
        from tianshou.env import ShmemVectorEnv
    except ImportError as error:
        raise Missing(f"Tianshou is not installed ({error}): pip install tianshou") from None
    vec = ShmemVectorEnv([MAKERS[job.workload]] * job.num_envs)
    vec.seed(SEED)
    vec.reset()

    def turn(actions: Any) -> Any:
        _, _, terminations, truncations, _ = vec.step(actions)
        done = terminations | truncations
        if done.any():
            vec.reset(np.flatnonzero(done))
        return done

    return Runner(
        turn,
        draw_actions(vec.action_space[0], job.num_envs),
        job.num_envs,
        next_step=False,
        close=vec.close,
    )
