# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""TorchRL's ParallelEnv; step_and_maybe_reset resets done envs, so every row is a transition."""

from __future__ import annotations

from typing import Any

from bench.rivals.envs import MAKERS, SEED, draw_actions
from bench.rivals.runner import Job, Missing, Runner


def _wrapped(workload: str) -> Any:
    from torchrl.envs import GymWrapper

    return GymWrapper(MAKERS[workload](), categorical_action_encoding=True)


def open_runner(job: Job) -> Runner:
    """Return the runner."""
    try:
        import torch
        from torchrl.envs import EnvCreator, ParallelEnv
    except ImportError as error:
        raise Missing(f"TorchRL is not installed ({error}): pip install torchrl") from None
    vec = ParallelEnv(job.num_envs, EnvCreator(lambda: _wrapped(job.workload)))
    vec.set_seed(SEED)
    held = [vec.reset()]
    actions = [
        torch.from_numpy(batch)
        for batch in draw_actions(MAKERS[job.workload]().action_space, job.num_envs)
    ]

    def turn(batch: Any) -> Any:
        stepped, held[0] = vec.step_and_maybe_reset(held[0].set("action", batch))
        return stepped["next", "done"].numpy()

    return Runner(turn, actions, job.num_envs, next_step=False, close=vec.close)
