# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Does the trainer learn? Small envs with known best returns reach 95 % of them within a minute on
one core, with three seeds.

`make learn` runs all; the quickest are part of the test suite.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from puffervec.train import TrainConfig, Trainer
from puffervec.train.act import evaluate as ev
from puffervec.train.run import checkpoint as ckpt
from tests.helpers import TIME_SCALE
from tests.learn import envs

CPU = torch.device("cpu")
SEEDS = (1, 2, 3)
ENOUGH = 0.95
LONGEST_S = 60.0

Learn = Callable[..., Trainer]


@pytest.fixture
def learn(tmp_path: Path) -> Learn:
    """Train on one core and return the closed trainer, whose newest checkpoint holds what it
    learned.
    """

    def run(target: Any, seed: int, steps: int, **tables: dict[str, Any]) -> Trainer:
        config = TrainConfig.of(
            target,
            vec={"backend": "serial", "num_envs": 32, "num_buffers": 1},
            train={
                "seed": seed, "total_timesteps": steps, "horizon": 16, "lr": 1e-2,
                "update_epochs": 4, "gamma": 0.5, "threads": 1, "device": "cpu",
                "precision": "fp32",
            },
            policy={"hidden": [32]},
            log={"folder": str(tmp_path), "dashboard": "off", "checkpoint_interval_s": 1e6},
        ).merged(tables)  # fmt: skip
        begin = time.process_time()
        with Trainer(config) as trainer:
            trainer.train()
        assert time.process_time() - begin < LONGEST_S * TIME_SCALE
        return trainer

    return run


def score(trainer: Trainer, episodes: int = 200, deterministic: bool = True) -> float:
    """Return the mean return of what was learned. deterministic: taking the likeliest actions, else
    drawing them.
    """
    found = ckpt.newest(trainer.folder / "checkpoints")
    assert found is not None
    run, policies = ev.load_policies(
        found, CPU, (trainer.config.target, trainer.config.policy.kind)
    )
    config = run.config
    actor = ev.PolicyActor(policies, CPU, deterministic)
    if config.python:
        (rates,) = ev.evaluate_python(config, actor, episodes, seed=1000)
    else:
        (rates,) = ev.evaluate_generic(config.target, config.env, actor, episodes, seed=1000)
    return rates.episode_return[0]


def seeds(*quick: int) -> Any:
    """All seeds; those that are not `quick` behind the slow marker."""
    return pytest.mark.parametrize(
        "seed", [s if s in quick else pytest.param(s, marks=pytest.mark.slow) for s in SEEDS]
    )


@pytest.mark.slow
@seeds(1)
def test_bandit(learn: Learn, seed: int) -> None:
    """The best arm, through much noise."""
    assert score(learn(envs.Bandit, seed, 4_000), episodes=2_000) > ENOUGH * envs.Bandit.best


@seeds(1)
def test_copy(learn: Learn, seed: int) -> None:
    assert score(learn(envs.Copy, seed, 8_000)) > ENOUGH * envs.Copy.best


@seeds()
@pytest.mark.parametrize("memory", ["mingru", "lstm"])
def test_delayed_copy_with_memory(learn: Learn, seed: int, memory: str) -> None:
    found = learn(envs.DelayedCopy, seed, 20_000, policy={"memory": memory})
    assert score(found) > ENOUGH * envs.DelayedCopy.best


@seeds()
def test_delayed_copy_cannot_be_done_without_memory(learn: Learn, seed: int) -> None:
    """Else the tests above would show nothing."""
    assert score(learn(envs.DelayedCopy, seed, 10_000)) < 0.5 * envs.DelayedCopy.best


@seeds()
def test_continuous_target(learn: Learn, seed: int) -> None:
    assert score(learn(envs.Target, seed, 40_000)) > ENOUGH * envs.Target.best


@seeds()
def test_multi_discrete(learn: Learn, seed: int) -> None:
    assert score(learn(envs.Parts, seed, 20_000)) > ENOUGH * envs.Parts.best


@seeds()
@pytest.mark.parametrize("memory", ["mingru", "lstm"])
def test_echo_with_the_usual_memory(learn: Learn, seed: int, memory: str) -> None:
    """With as many cells as there are by default: one MinGRU reaches three quarters of it in this
    time.
    """
    assert (
        score(learn(envs.Echo, seed, 50_000, policy={"memory": memory})) > ENOUGH * envs.Echo.best
    )


@seeds()
def test_echo_cannot_be_done_without_memory(learn: Learn, seed: int) -> None:
    assert score(learn(envs.Echo, seed, 10_000)) < 0.5 * envs.Echo.best


@seeds(1)
@pytest.mark.slow
def test_parts_that_must_be_drawn_together_need_a_joint_choice(learn: Learn, seed: int) -> None:
    found = learn(envs.Dodge, seed, 20_000, policy={"joint": True})
    assert score(found, episodes=400, deterministic=False) > ENOUGH * envs.Dodge.best


@seeds()
def test_parts_that_must_be_drawn_together_cannot_be_drawn_apart(learn: Learn, seed: int) -> None:
    assert (
        score(learn(envs.Dodge, seed, 20_000), episodes=400, deterministic=False)
        < envs.Dodge.alone
        < 0.5 * envs.Dodge.best
    )


@seeds()
def test_a_cut_episode_is_worth_what_would_have_followed(learn: Learn, seed: int) -> None:
    trainer = learn(
        envs.CutShort, seed, 40_000, train={"gamma": envs.CutShort.DISCOUNT, "scale_rewards": False}
    )
    with torch.no_grad():
        heads, values, _ = trainer.policies["default"](
            torch.tensor([[envs.CutShort.YARD], [envs.CutShort.HOUSE]])
        )
    assert heads[0][envs.CutShort.YARD].softmax(-1)[1] > ENOUGH
    assert values.tolist() == pytest.approx(envs.CutShort.VALUES, rel=1 - ENOUGH)


@seeds()
def test_two_policies_of_two_kinds_of_agents_one_with_forbidden_actions(
    learn: Learn, seed: int
) -> None:
    """The probe's scout earns a sixteenth of its choice, 0 to 2, but may not repeat 1 or 2; its
    tower one of 0 to 7.
    """
    steps = 4
    best = (2 + 1 + 2 + 1) / 16 + steps * 7 / 16
    paid_anyway = 2 * sum(range(1, steps + 1)) + 0.25 * steps
    trainer = learn(
        "probe",
        seed,
        40_000,
        env={"mode": 1, "episode_length": steps},
        train={"gamma": 0.0},
        policy={"kind": "tests.learn.envs:Squashed"},
    )
    assert score(trainer) - paid_anyway > ENOUGH * best
    stored = trainer.slots["scouts"].storage
    assert stored.action_masks is not None
    allowed = stored.action_masks.gather(-1, stored.actions.long())
    assert bool(allowed.all()) and not bool(stored.action_masks.all())
