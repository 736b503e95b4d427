# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`coin_grid`: collect coins on a grid and keep out of the pit (coin_grid.c)."""

from __future__ import annotations

from dataclasses import dataclass

from coin_grid.drawing import drawing
from puffervec import EnvData, Evaluation, NativeEnv, Training


@dataclass(frozen=True)
class CoinGridConfig:
    """Settings of coin_grid: the fields of the C struct in the same order, with the defaults."""

    size: int = 6
    """Cells per side."""
    episode_length: int = 64
    """Steps until the episode is truncated."""
    coin_reward: float = 1.0
    """Given for each coin."""
    pit_penalty: float = 1.0
    """Taken for the fall into the pit, which ends the episode."""


def evaluation() -> Evaluation:
    """The env's own evaluation, imported when it is asked for."""
    from coin_grid.evaluation import EVALUATION

    return EVALUATION


ENV = NativeEnv(
    name="coin_grid",
    config=CoinGridConfig,
    build=lambda config: EnvData(),
    evaluation=evaluation,
    drawing=drawing,
    training=Training(
        preset={
            "vec": {"num_envs": 256},
            "train": {"horizon": 32, "update_epochs": 4, "lr": 3e-3, "gamma": 0.95},
        },
        metric="env/coins",
        rates={"coins": "coins", "fell": "falls"},
        search={"train.gamma": "0.9:0.99"},
    ),
    shared_library="coin_grid._core",
)
