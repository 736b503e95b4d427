# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Advantages of a roll-out: C on a CPU (csrc/advantage.h), the same recursion in torch elsewhere.

Both take time-major arrays of T + 1 steps; rewards[k + 1] is what came with step k + 1. The transition k -> k+1 is valid iff
masks[k] and not (terminals[k] or truncations[k]); a truncated row bootstraps with the value of its own observation, a
terminal one with 0. Runs in the learner.
"""

from __future__ import annotations

import torch
from torch import Tensor


def advantage(
    rewards: Tensor, values: Tensor, terminals: Tensor, truncations: Tensor, masks: Tensor, gamma: float, gae_lambda: float
) -> tuple[Tensor, Tensor]:
    """Return advantages (T, R) float32, 0 where invalid, and valid (T, R) uint8.

    Args: rewards, values: (T+1, R) float32; terminals, truncations, masks: (T+1, R) uint8. All contiguous, on one device.
    """
    run = advantage_c if rewards.device.type == "cpu" else advantage_torch
    return run(rewards, values, terminals, truncations, masks, gamma, gae_lambda)


def advantage_c(
    rewards: Tensor, values: Tensor, terminals: Tensor, truncations: Tensor, masks: Tensor, gamma: float, gae_lambda: float
) -> tuple[Tensor, Tensor]:
    """`advantage` by pv_advantage; CPU tensors only."""
    from puffervec._ffi import ffi, lib

    horizon, rows = rewards.shape[0] - 1, rewards.shape[1]
    advantages = torch.empty(horizon, rows)
    valid = torch.empty(horizon, rows, dtype=torch.uint8)
    floats, flags = (rewards, values), (terminals, truncations, masks)
    assert all(x.dtype == torch.float32 and x.is_contiguous() and x.shape == rewards.shape for x in floats)
    assert all(x.dtype == torch.uint8 and x.is_contiguous() and x.shape == rewards.shape for x in flags)
    lib.pv_advantage(
        *(ffi.cast("float*", x.data_ptr()) for x in floats),
        *(ffi.cast("uint8_t*", x.data_ptr()) for x in flags),
        horizon,
        rows,
        gamma,
        gae_lambda,
        ffi.cast("float*", advantages.data_ptr()),
        ffi.cast("uint8_t*", valid.data_ptr()),
    )
    return advantages, valid


def advantage_torch(
    rewards: Tensor, values: Tensor, terminals: Tensor, truncations: Tensor, masks: Tensor, gamma: float, gae_lambda: float
) -> tuple[Tensor, Tensor]:
    """`advantage` step by step in torch: any device, nothing read back. Also the reference for the C code."""
    horizon = rewards.shape[0] - 1
    valid = (masks[:-1] != 0) & (terminals[:-1] == 0) & (truncations[:-1] == 0)
    delta = rewards[1:] + gamma * torch.where(terminals[1:] != 0, 0.0, values[1:]) - values[:-1]
    advantages = torch.zeros_like(delta)
    following = torch.zeros_like(delta[0])
    for k in range(horizon - 1, -1, -1):
        following = torch.where(valid[k], delta[k] + gamma * gae_lambda * following, 0.0)
        advantages[k] = following
    return advantages, valid.to(torch.uint8)
