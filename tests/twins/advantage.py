# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Twin of pv_advantage, written from the contract in csrc/learner/advantage.h: one row and one step
at a time, nothing clever.
"""

from __future__ import annotations

import numpy as np


def transition_is_valid(mask: int, terminal: int, truncation: int, next_mask: int) -> bool:
    """Whether the step after a row with these flags is a real one: it is live, its episode goes on,
    and it is there after.
    """
    return bool(mask) and not (terminal or truncation) and bool(next_mask)


def advantage(
    rewards: np.ndarray,
    values: np.ndarray,
    terminals: np.ndarray,
    truncations: np.ndarray,
    masks: np.ndarray,
    gamma: float,
    gae_lambda: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return advantages (T, R) float32 and valid (T, R) uint8 of time-major arrays (T + 1, R).

    All sums are float32 in the order in which the contract writes them, so that a C build may be
    compared with `==`.
    """
    horizon, rows = rewards.shape[0] - 1, rewards.shape[1]
    advantages, valid = np.zeros((horizon, rows), np.float32), np.zeros((horizon, rows), np.uint8)
    one_gamma, decay = np.float32(gamma), np.float32(gamma) * np.float32(gae_lambda)
    for row in range(rows):
        for k in reversed(range(horizon)):
            if not transition_is_valid(
                masks[k, row], terminals[k, row], truncations[k, row], masks[k + 1, row]
            ):
                continue
            bootstrap = np.float32(0.0) if terminals[k + 1, row] else np.float32(values[k + 1, row])
            delta = np.float32(
                np.float32(rewards[k + 1, row]) + one_gamma * bootstrap
            ) - np.float32(values[k, row])
            advantages[k, row], valid[k, row] = delta, 1
            if k + 1 < horizon and valid[k + 1, row]:
                advantages[k, row] = delta + decay * advantages[k + 1, row]
    return advantages, valid
