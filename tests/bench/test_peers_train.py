# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/peers_train.py and bench/plain_ppo.py: all peers train and are scored alike. Times are
measured here but not judged.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bench import peers_train, plain_ppo
from bench.plain_ppo import Settings
from tests.fixtures.training import torch_state  # noqa: F401 (autouse)

TINY = {"num_envs": 4, "horizon": 16, "epochs": 1, "minibatches": 2, "width": 8}


@pytest.mark.slow
@pytest.mark.parametrize("trainer", [peers_train.OURS, peers_train.PLAIN])
@pytest.mark.parametrize("task", peers_train.TASKS)
def test_trains_and_is_scored(trainer: str, task: str) -> None:
    trained = peers_train.train(trainer, peers_train.SAME, Settings(task, 128, 1, **TINY))
    assert "thread" in trained.how
    score = peers_train.score_of(trained.act, task, episodes=2)
    assert (8 <= score <= 500) if task == "CartPole-v1" else (-2000 < score < 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [peers_train.SAME, peers_train.OWN])
@pytest.mark.parametrize("task", peers_train.TASKS)
def test_stable_baselines3_trains_and_is_scored(kind: str, task: str) -> None:
    pytest.importorskip("stable_baselines3")
    trained = peers_train.train(peers_train.SB3, kind, Settings(task, 256, 1, **TINY))
    assert np.isfinite(peers_train.score_of(trained.act, task, episodes=2))


@pytest.mark.slow
def test_the_one_file_ppo_learns() -> None:
    """A peer that does not would make a poor comparison."""
    trained = peers_train.train_plain(Settings("CartPole-v1", 100_000, 1))
    assert peers_train.score_of(trained.act, "CartPole-v1", episodes=10) > 400


def test_advantages_of_the_one_file_ppo() -> None:
    batch = {
        name: torch.tensor(rows)
        for name, rows in {"rewards": [[1.0], [2.0]], "values": [[0.5], [1.0]]}.items()
    }
    settings = Settings("CartPole-v1", 1, 1, num_envs=1, horizon=2, gamma=0.5, gae_lambda=0.5)
    going_on = plain_ppo.advantages(
        {**batch, "dones": torch.zeros(2, 1)}, torch.tensor([4.0]), settings
    )
    assert going_on.flatten().tolist() == [1 + 0.5 - 0.5 + 0.25 * 3.0, 2 + 2 - 1.0]
    ended = plain_ppo.advantages(
        {**batch, "dones": torch.tensor([[1.0], [0.0]])}, torch.tensor([4.0]), settings
    )
    assert ended.flatten().tolist() == [0.5, 3.0]
