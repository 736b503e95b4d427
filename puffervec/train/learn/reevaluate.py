# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What today's policy makes of a roll-out that an older one collected: values, and ratios for V-trace. Runs in the learner."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from puffervec.train.collect.storage import Storage
from puffervec.train.device.device import ThreadPool
from puffervec.train.policies.distributions import log_prob_entropy
from puffervec.train.policies.memory import State
from puffervec.train.policies.protocol import forward


@torch.no_grad()
def reevaluate(policy: nn.Module, storage: Storage, memory: bool, bf16: bool, pool: ThreadPool, size: int) -> Tensor:
    """Put the policy's values into the storage and return the ratios (T, R) float32: the probability of each action under the
    policy over that under the one that drew it.

    Args: memory: the policy has one; it starts from the states that the older policy left; size: samples per piece, each
        worked on in one thread of the pool.
    """
    steps, rows = storage.values.shape
    log_probs = torch.empty_like(storage.log_probs)
    shape: tuple[int, ...] = (steps, rows) if memory else (steps * rows,)
    dim, every = len(shape) - 1, shape[-1]
    width = max(1, size // steps) if memory else size

    def cut(x: Tensor, at: int) -> Tensor:
        return x.view(*shape, *x.shape[2:]).narrow(dim, at, min(width, every - at))

    states = storage.first_state() if memory else ()

    def piece(at: int) -> None:
        """Runs in a thread of the pool."""
        obs = {key: cut(part, at) for key, part in storage.obs.items()}
        allowed = None if storage.action_masks is None else cut(storage.action_masks, at)
        state: State = tuple(part.narrow(0, at, min(width, every - at)) for part in states)
        reset = cut(storage.resets, at) != 0 if memory else None
        with torch.no_grad():
            heads, value, _ = forward(policy, obs, state, reset, allowed, bf16)
        cut(log_probs, at).copy_(log_prob_entropy(storage.spec, heads, cut(storage.actions, at))[0])
        cut(storage.values, at).copy_(value)

    pool.map(piece, range(0, every, width))
    return (log_probs - storage.log_probs)[:-1].exp()
