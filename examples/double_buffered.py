# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Double buffering by hand: one half of the envs steps while the policy acts for the other."""

import sys
import time

import torch

import puffervec

env, num_envs, steps = (
    *sys.argv[1:],
    *("tag_grid", 512, 200)[len(sys.argv) - 1 :],
)  # arguments such as: CartPole-v1 8 500
torch.set_num_threads(1)  # the other cores belong to the workers
with (
    puffervec.make(env, num_envs=int(num_envs), num_buffers=2) as vec,
    torch.inference_mode(),
):
    views = puffervec.TorchView.halves(vec)  # tensors that alias the workers' memory, made once
    features, choices = vec.single_observation_space.shape[0], int(vec.single_action_space.n)
    policy = torch.nn.Sequential(
        torch.nn.Linear(features, 64), torch.nn.Tanh(), torch.nn.Linear(64, choices)
    )
    acted, begin = torch.zeros((), dtype=torch.int64), time.perf_counter()
    vec.async_reset(seed=0)
    for _ in range(2 * int(steps)):
        vec.recv()  # half A, half B, A, B, ...: waits until the workers have finished it
        rows = views[vec.half]
        acted += (rows.masks & ~rows.terminals & ~rows.truncations).sum()  # agents that act now
        rows.actions.copy_(
            torch.distributions.Categorical(logits=policy(rows.observations)).sample()
        )
        vec.send(None)  # the actions are in the rows already; the workers step this half
print(f"{int(acted) / (time.perf_counter() - begin):,.0f} agent-steps/s")
