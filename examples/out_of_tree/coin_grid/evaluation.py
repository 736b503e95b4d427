# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What `puffer-train eval` shows of coin_grid: coins and falls per number of steps, and a baseline
that walks to the coin.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import puffervec
from coin_grid.drawing import draw
from puffervec.contract.evaluation import Actor, Evaluation, Interval, Report

ENVS = 64


def evaluate(actor: Actor, config: Any, *, episodes: int, seed: int) -> Report:
    """Run as many episodes in each of ENVS envs; return coins per 100 steps and the share of
    episodes that end in the pit.
    """
    rounds = -(-episodes // ENVS)
    found = []
    with puffervec.make(
        "coin_grid", env_kwargs=config, backend="serial", num_envs=ENVS, seed=seed
    ) as vec:
        vec.async_reset(seed)
        actor.reset(vec)
        while sum(map(len, found)) < rounds * ENVS:
            observations, _, _, _, infos, _, _ = vec.recv()
            found.append(infos.episodes[infos.episodes["episode"] < rounds])
            vec.send(actor.act(observations, vec))
    records = np.concatenate(found)
    coins, fell, steps = records["values"][:, 0], records["values"][:, 1], records["length"]
    row = {
        "envs": f"{ENVS} grids of {config.size} x {config.size}",
        "episodes": len(records),
        "coins per 100 steps": interval(100 * coins / steps),
        "in the pit": interval(fell.astype(np.float64)),
    }
    return Report(
        [row], remarks=["means over episodes with 95 % intervals"], score="coins per 100 steps"
    )


def interval(values: np.ndarray) -> Interval:
    """Mean and 95 % interval (normal approximation)."""
    mean, half = float(values.mean()), 1.96 * float(values.std()) / len(values) ** 0.5
    return Interval(mean, mean - half, mean + half)


class WalkToTheCoin:
    """Goes to the coin, first across and then up or down, without a look at the pit."""

    def reset(self, vec: Any) -> None:
        """Remembers nothing."""

    def act(self, obs: np.ndarray, vec: Any) -> np.ndarray:
        """Actions (rows,): 0 stay, 1 right, 2 left, 3 down, 4 up. obs: (rows, 6) x and y of agent,
        coin and pit.
        """
        dx, dy = (obs[:, 2:4] - obs[:, 0:2]).T
        down_or_up = np.where(dy > 0, 3, np.where(dy < 0, 4, 0))
        return np.where(dx > 0, 1, np.where(dx < 0, 2, down_or_up)).astype(np.int32)


EVALUATION = Evaluation(
    evaluate=evaluate,
    episodes=256,
    baselines={"walk": lambda seed: WalkToTheCoin()},
    draw=draw,
    describe=lambda config: f"one coin and one pit on {config.size} x {config.size} cells",
)
