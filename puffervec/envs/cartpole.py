# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`cartpole`: Gymnasium's CartPole-v1 in C (csrc/cartpole.c), the teaching env for structure of arrays and vector loops."""

from __future__ import annotations

from dataclasses import dataclass

from puffervec.native import EnvData, NativeEnv


@dataclass(frozen=True)
class CartpoleConfig:
    """Settings of cartpole, with the names and defaults of CartPole-v1."""

    max_episode_steps: int = 500
    """Steps until the episode is truncated."""
    sutton_barto_reward: bool = False
    """Reward 0 per step and -1 for the fall, instead of 1 per step."""


ENV = NativeEnv(name="cartpole", config=CartpoleConfig, build=lambda config: EnvData())
