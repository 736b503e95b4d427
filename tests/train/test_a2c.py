# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A2C through the door for algorithms: its settings, and what a run with it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from puffervec.errors import ConfigError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.config import ranges
from puffervec.train.config.schedules import value_at
from puffervec.train.device.device import ThreadPool
from puffervec.train.learn.a2c import A2CSection
from puffervec.train.learn.ppo import PPOSection
from puffervec.train.learn.updater import Updater
from puffervec.train.policies.registry import build_policy
from tests.train.test_updater import SPEC, PolicySection, filled_storage

Small = Callable[..., TrainConfig]


def test_its_defaults_take_the_place_of_a_presets_and_settings_take_theirs() -> None:
    preset, config = (
        TrainConfig.of("probe").train,
        TrainConfig.of("probe", train={"algorithm": "a2c"}),
    )
    assert isinstance(config.train, A2CSection)
    found = (
        config.train.horizon,
        config.train.update_epochs,
        config.train.gae_lambda,
        config.train.normalize_advantage,
    )
    assert found == (8, 1, 1.0, False)
    assert (config.train.lr, config.train.value_coef) == (preset.lr, preset.value_coef)
    assert config.check_batch(10) == 1
    given = TrainConfig.of("probe", train={"algorithm": "a2c", "horizon": 20, "minibatch_size": 50})
    assert given.train.horizon == 20 and given.check_batch(10) == 4
    assert TrainConfig.bare("probe").merged(config.tables()) == config
    assert (
        config.merged({"train": {"algorithm": "ppo"}}).train.update_epochs
        == PPOSection.update_epochs
    )


def test_one_of_several_policies_learns_with_it_in_roll_outs_of_all(small: Small) -> None:
    points = [[0, 0.1], [2000, 0.01]]
    own = {"algorithm": "a2c", "lr": points, "entropy_coef": points}
    config = small(
        "tag_grid",
        policy={"map": ["hunters=tagger", "hunted=runner"]},
        policies={"hunters": own},
        train={"horizon": 20},
    )
    section = config.of_policy("hunters").train
    assert isinstance(section, A2CSection) and (section.horizon, section.update_epochs) == (20, 1)
    with Trainer(config) as trainer:
        metrics = trainer.train()
    found = metrics["charts/learning_rate/hunters"], metrics["charts/entropy_coef/hunters"]
    assert (
        found == pytest.approx((value_at(section.lr, int(metrics["step"])),) * 2)
        and 0.01 < found[0] < 0.1
    )
    assert "losses/hunted/approx_kl" in metrics and "losses/hunters/approx_kl" not in metrics


def test_several_passes_need_a_correction() -> None:
    config = TrainConfig.of("probe", train={"algorithm": "a2c", "update_epochs": 2})
    with pytest.raises(
        ConfigError, match="train.update_epochs is 2: A2C uses each rollout once.*train.vtrace"
    ):
        config.check()
    config.merged({"train": {"vtrace": True}}).check()
    config.merged({"train": {"asynchronous": True}}).check()
    space = ranges.build_space(TrainConfig.of("tag_grid", train={"algorithm": "a2c"}), {})
    assert "train.update_epochs" not in space and "train.lr" in space and "policy.hidden" in space


def updated(section: Any, device_buffers: bool = False) -> tuple[Updater, dict[str, float]]:
    torch.manual_seed(1)
    policy, storage = build_policy(SPEC, PolicySection(hidden=(8,))), filled_storage()
    with torch.no_grad():
        heads, storage.values[:], _ = policy(storage.obs, (), None, None)
        storage.log_probs[:] = (
            heads[0].log_softmax(-1).gather(-1, storage.actions.long()).squeeze(-1)
        )
    made = Updater(
        policy, storage, section, 1, False, torch.Generator().manual_seed(2), ThreadPool(1)
    )
    if device_buffers:
        made.use_buffers(storage.rows * storage.horizon, capture=False)
    return made, made.update(1e-2).losses


@pytest.mark.parametrize("device_buffers", [False, True])
def test_it_is_ppo_of_one_step_whose_ratios_are_1(device_buffers: bool) -> None:
    """Huang et al. 2022, arXiv:2205.09123: the gradients are the same, and so are the weights after
    it.
    """
    same: dict[str, Any] = {
        "gae_lambda": 1.0,
        "normalize_advantage": False,
        "update_epochs": 1,
        "entropy_coef": 0.05,
    }
    ppo, _ = updated(PPOSection(**same))
    a2c, losses = updated(A2CSection(algorithm="a2c", **same), device_buffers)
    for one, other in zip(ppo.parameters, a2c.parameters, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert list(losses) == ["policy", "value", "entropy", "grad_norm", "explained_variance"]


@pytest.mark.parametrize(
    "train",
    [
        {},
        {"asynchronous": True},
        {"vtrace": True, "update_epochs": 2},
        {"precision": "bf16", "minibatch_size": 8},
    ],
)
def test_runs_of_every_kind(small: Small, train: dict[str, Any]) -> None:
    memory = "mingru" if train else "none"
    with Trainer(small(train={"algorithm": "a2c", **train}, policy={"memory": memory})) as trainer:
        metrics = trainer.train()
    assert metrics["step"] >= 100 and 0 < metrics["losses/entropy"] < 1.7
