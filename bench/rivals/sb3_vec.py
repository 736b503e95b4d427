# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Stable-Baselines3's DummyVecEnv and SubprocVecEnv, with same-step autoreset.

Settings: {"mode": "dummy" | "subproc"}.
"""

from __future__ import annotations

from typing import Any

from bench.rivals.envs import MAKERS, SEED, draw_actions
from bench.rivals.runner import Job, Missing, Runner


def open_runner(job: Job) -> Runner:
    """Return the runner.

    SubprocVecEnv forks: with its default, the workers would first import torch, one after another.
    """
    try:
        from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv
    except ImportError as error:
        raise Missing(
            f"Stable-Baselines3 is not installed ({error}): pip install stable-baselines3"
        ) from None
    makers: list[Any] = [MAKERS[job.workload]] * job.num_envs
    vec = (
        DummyVecEnv(makers)
        if job.settings["mode"] == "dummy"
        else SubprocVecEnv(makers, start_method="fork")
    )
    vec.seed(SEED)
    vec.reset()

    def turn(actions: Any) -> Any:
        return vec.step(actions)[2]

    return Runner(
        turn,
        draw_actions(vec.action_space, job.num_envs),
        job.num_envs,
        next_step=False,
        close=vec.close,
    )
