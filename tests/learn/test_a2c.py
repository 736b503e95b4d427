# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A2C learns: a tiny env in the test suite, CartPole and Tag behind the slow marker."""

from __future__ import annotations

import pytest

from puffervec.train import TrainConfig, Trainer
from puffervec.train.act import evaluate as ev
from tests.learn import envs
from tests.learn.test_learning import ENOUGH, Learn, learn, score, seeds

__all__ = ["learn"]  # The fixture.
A2C = {"algorithm": "a2c"}


@pytest.mark.slow
@seeds(1)
def test_copy(learn: Learn, seed: int) -> None:
    trainer = learn(envs.Copy, seed, 12_000, train=A2C)
    assert trainer.config.train.update_epochs == 1
    assert score(trainer) > ENOUGH * envs.Copy.best


@seeds()
def test_continuous_target(learn: Learn, seed: int) -> None:
    assert score(learn(envs.Target, seed, 120_000, train=A2C)) > ENOUGH * envs.Target.best


@seeds()
def test_cartpole(learn: Learn, seed: int) -> None:
    """At least 400 of the 500 steps, after 150,000."""
    trainer = learn(
        "cartpole",
        seed,
        150_000,
        train={**A2C, "gamma": 0.99, "lr": 2e-3},
        policy={"hidden": (64, 64)},
    )
    assert score(trainer, episodes=64) > 400


@seeds()
def test_tag_grid(seed: int, tmp_path: object) -> None:
    """Three times as many tags as at random, though the runner learns too: one policy plays both,
    and has more of a tag.
    """
    config = TrainConfig.of(
        "tag_grid",
        env={"num_taggers": 3, "grid_length": 12, "episode_length": 30},
        vec={"backend": "serial", "num_envs": 256, "num_buffers": 1},
        train={
            **A2C,
            "seed": seed,
            "total_timesteps": 3_000_000,
            "device": "cpu",
            "precision": "fp32",
        },
        log={"folder": str(tmp_path), "dashboard": "off"},
    )
    with Trainer(config) as trainer:
        metrics = trainer.train()
    random, _ = ev.evaluate_generic(config.target, config.env, ev.RandomActor(1), 1_000, seed=1)
    assert metrics["env/tagged"] > 3 * random.reported["tagged"][0]
